//! Commands that other systems have, and what they are called here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words that people type first, and what to type.
const WORDS: [(&[&str], &str); 8] = [
    (
        &["consumers", "consumer", "groups", "group", "consumer-groups", "subscriptions", "list"],
        "`anabranch status` lists consumers, and `anabranch lag` how far behind they are",
    ),
    (
        &["describe", "show", "info"],
        "`anabranch status NAME` shows a consumer with its slots, `anabranch why KEY` why a key does not go on",
    ),
    (
        &["reset-offsets", "reset", "seek", "rewind"],
        "`anabranch replay NAME` goes back: --from-start, --from-time, --last N, --after POSITION, or --key KEY; \
         `anabranch skip-to-head NAME` goes to the end",
    ),
    (
        &["dlq", "dead-letters", "dead-letter", "dead", "failed"],
        "`anabranch parked list NAME` lists keys that have failed, `anabranch tasks list POOL --state dead` tasks",
    ),
    (
        &["jobs", "job", "queue", "queues", "pools", "pool"],
        "`anabranch tasks` works on the tasks of work pools: list, show, retry, cancel, discard",
    ),
    (
        &["workflow", "workflows"],
        "the HTTP API has the instances of workflows (`anabranch serve`, /v1/workflows); `anabranch tail --stream \
         WORKFLOW:ID` shows the events of one",
    ),
    (
        &["read", "events", "consume", "subscribe", "cat"],
        "`anabranch tail` prints events: --after POSITION, --stream CATEGORY:ID, --follow",
    ),
    (
        &["produce", "publish", "emit", "write"],
        "`anabranch append STREAM TYPE DATA` stores an event",
    ),
];

/// What to type in place of a command that there is not.
pub(crate) fn hint(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let ContextValue::String(typed) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let (_, said) = WORDS.iter().find(|(words, _)| words.contains(&typed.as_str()))?;
    Some(format!("there is no command `{typed}`: {said}"))
}

#[cfg(test)]
mod tests {
    use crate::Arguments;
    use clap::{CommandFactory, Parser};

    #[test]
    fn no_word_is_a_command_and_each_hint_names_commands_that_there_are() {
        let command = Arguments::command();
        let is_there = |name: &str| command.find_subcommand(name).is_some();
        for (words, said) in super::WORDS {
            for word in words {
                let error = Arguments::try_parse_from(["anabranch", word]).err().unwrap();
                assert!(super::hint(&error).unwrap().contains(said), "{word}");
            }
            for (at, _) in said.match_indices("`anabranch ") {
                let name = said[at + 11..].split([' ', '`']).next().unwrap();
                assert!(is_there(name), "{name}");
            }
        }
    }
}
