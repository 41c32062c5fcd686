//! The commands of README.md and of the pages in `docs/` are ones that this command takes.

use crate::Arguments;
use clap::CommandFactory;
use std::path::Path;

/// The commands of the blocks `console` and `sh`, with their arguments. Lines that end in `\` go on.
fn commands(text: &str) -> Vec<Vec<String>> {
    let (mut found, mut block, mut line) = (Vec::new(), None, String::new());
    for next in text.lines() {
        if let Some(info) = next.strip_prefix("```") {
            block = if block.is_none() { Some(info) } else { None };
            continue;
        }
        let begins = match block {
            Some("console") => next.strip_prefix("$ "),
            Some("sh") => Some(next),
            _ => None,
        };
        match begins {
            _ if line.ends_with('\\') => {
                line.pop();
                line.push_str(next);
            }
            Some(command) => line = command.to_owned(),
            None => continue,
        }
        if !line.ends_with('\\') {
            found.push(words(&std::mem::take(&mut line)));
        }
    }
    found.into_iter().filter_map(of_anabranch).collect()
}

/// The words of a line, as a shell has them: quotes, and a comment at the end.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The arguments, if it is this command that the words call: by its name, or by cargo.
fn of_anabranch(words: Vec<String>) -> Option<Vec<String>> {
    let by_cargo = ["cargo", "run", "--release", "--"];
    let arguments = match words.first()?.as_str() {
        "anabranch" => &words[1..],
        _ if words.starts_with(&by_cargo.map(str::to_owned)) => &words[by_cargo.len()..],
        _ => return None,
    };
    Some(arguments.to_vec())
}

/// What is wrong with a command. One with `…` leaves arguments out, which only a reader can add.
fn problem(arguments: &[String]) -> Option<String> {
    if arguments.iter().any(|argument| argument == "…") {
        return None;
    }
    let given = arguments.iter().map(|argument| match argument.as_str() {
        "ID" => "0199d3a0-5f5e-7c3a-9d0e-6a1f6c1f0a11".to_owned(),
        other => other.to_owned(),
    });
    let name = std::iter::once("anabranch".to_owned());
    let parsed = Arguments::command().try_get_matches_from(name.chain(given));
    parsed.err().map(|error| error.to_string())
}

#[test]
fn every_command_of_every_page_is_one() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let docs = std::fs::read_dir(root.join("docs")).expect("there are pages");
    let docs = docs.map(|entry| entry.expect("it can be read").path());
    let mut count = 0;
    for page in docs.chain([root.join("README.md")]) {
        let text = std::fs::read_to_string(&page).expect("a page is text");
        for arguments in commands(&text) {
            count += 1;
            let problem = problem(&arguments);
            assert_eq!(problem, None, "{}: anabranch {}", page.display(), arguments.join(" "));
        }
    }
    assert!(count > 40, "only {count} commands were found");
}

#[test]
fn a_command_that_is_none_is_found() {
    let page = "```console\n$ anabranch tail -f # on\nout\n$ anabranch append A:1 \\\n    'B c' --ex 1\n```\n";
    let found = commands(page);
    assert_eq!(found, [vec!["tail", "-f"], vec!["append", "A:1", "B c", "--ex", "1"]]);
    assert_eq!(problem(&found[0]), None);
    assert!(problem(&found[1]).is_some(), "there is no --ex");
    assert_eq!(commands("```sh\ncargo run --release -- demo\nls\n```\n"), [["demo"]]);
}
