//! What masked tokens, and tokens that are limited to consumers, see of consumers: not what handlers said, and not even the
//! names of other consumers.

use crate::caller::Caller;
use crate::problem::Problem;
use crate::state::State;
use crate::unseen::{Kind, must_see, no_such};
use anabranch::operate::{ConsumerStatus, OperateError, Reason};
use serde::Serialize;
use serde_json::Value;

/// The state of a consumer that the caller may see.
pub(super) async fn status(
    state: &State,
    caller: &Caller,
    name: &str,
) -> Result<ConsumerStatus, Problem> {
    must_see(caller, Kind::Consumer, name)?;
    state.consumers.status(name).await.map_err(|error| refused(caller, name, error))
}

/// An error about a consumer. For a limited caller it is the same whether the consumer does not exist or is not theirs.
pub(super) fn refused(caller: &Caller, name: &str, error: OperateError) -> Problem {
    match &error {
        OperateError::NoSuchConsumer { .. } if caller.consumers().is_some() => {
            no_such(Kind::Consumer, name)
        }
        OperateError::NoSuchConsumer { known, .. } => {
            let known = known.clone();
            Problem::from(error).with("known", known)
        }
        _ => error.into(),
    }
}

/// What a worker says of itself.
const OF_WORKERS: [&str; 2] = ["consumers", "report"];

/// A value as JSON, without the parts that the caller may not see.
pub(super) fn shown(caller: &Caller, what: &impl Serialize) -> Result<Value, Problem> {
    let mut shown = serde_json::to_value(what)?;
    name_owners(&mut shown);
    if caller.consumers().is_some() {
        leave_out_others(&mut shown, caller);
    }
    if caller.is_masked() {
        leave_out_errors(&mut shown);
    }
    if !sees_statements(caller) {
        leave_out_statements(&mut shown);
    }
    Ok(shown)
}

/// Leaves of owners who they are. What they say of themselves is at `/v1/workers`, once; a consumer has many cursors.
fn name_owners(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(name_owners),
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match (name.as_str(), value.get_mut("worker").and_then(Value::as_object_mut)) {
                    ("owner", Some(worker)) => {
                        worker.retain(|name, _| !OF_WORKERS.contains(&name.as_str()))
                    }
                    _ => name_owners(value),
                }
            }
        }
        _ => {}
    }
}

/// Reasons in words, as far as the caller may see them. Many of them quote a handler, so a mask hides them all; the reasons
/// themselves are still named by what `shown` leaves of them.
pub(super) fn in_words(caller: &Caller, reasons: &[Reason]) -> Vec<String> {
    if caller.is_masked() {
        return Vec::new();
    }
    let in_words = |reason: &Reason| match reason {
        Reason::Blocked { by, for_ms, .. } if !sees_statements(caller) => {
            let (by, doing, for_ms) = (by.clone(), String::new(), *for_ms);
            Reason::Blocked { by, doing, for_ms }.to_string()
        }
        reason => reason.to_string(),
    };
    reasons.iter().map(in_words).collect()
}

/// Whether the caller may see the statement that blocks a lane. It can contain values of events, and it can belong to any
/// consumer, or to any other program.
fn sees_statements(caller: &Caller) -> bool {
    !caller.is_masked() && caller.consumers().is_none()
}

/// Removes what handlers and receivers said, wherever it is: it often quotes what they were given.
fn leave_out_errors(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(leave_out_errors),
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match (name.as_str(), &mut *value) {
                    ("error" | "problem" | "unable" | "why", Value::String(said)) => said.clear(),
                    ("why", Value::Array(said)) => said.clear(),
                    (_, value) => leave_out_errors(value),
                }
            }
        }
        _ => {}
    }
}

/// Removes the statement that blocks a lane. (What a lane itself is doing is also called `doing`, but is one of a few
/// words.)
fn leave_out_statements(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(leave_out_statements),
        Value::Object(members) => {
            if members.get("reason").is_some_and(|reason| reason == "blocked")
                && let Some(Value::String(doing)) = members.get_mut("doing")
            {
                doing.clear();
            }
            members.values_mut().for_each(leave_out_statements);
        }
        _ => {}
    }
}

/// Removes other consumers from workers, which name all the consumers that they run. Anything with a report is a worker.
fn leave_out_others(value: &mut Value, caller: &Caller) {
    match value {
        Value::Array(values) => {
            values.iter_mut().for_each(|value| leave_out_others(value, caller));
        }
        Value::Object(members) => {
            if members.remove("report").is_some()
                && let Some(Value::Array(runs)) = members.get_mut("consumers")
            {
                runs.retain(|run| {
                    let name = run.get("consumer").and_then(Value::as_str);
                    name.is_some_and(|name| caller.sees_consumer(name))
                });
            }
            members.values_mut().for_each(|value| leave_out_others(value, caller));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scope;
    use anabranch::Position;
    use anabranch::operate::UnableWorker;
    use std::path::Path;
    use std::sync::Arc;
    use uuid::Uuid;

    const SECRET: &str = "s3cret";

    fn caller(scope: Scope, consumers: Option<&str>) -> Caller {
        let mut known = (*Caller::anybody().0).clone();
        known.scopes = vec![scope];
        known.consumers = consumers.map(|name| [name.to_owned()].into());
        Caller(Arc::new(known))
    }

    /// One of each, but for an outage, which only the library makes. Where a handler, a worker or a session of the
    /// database has something to say, it says the secret.
    fn reasons() -> Vec<Reason> {
        let (by, for_ms) = (vec!["worker at host:7".to_owned()], 7);
        let said = || SECRET.to_owned();
        let unable =
            UnableWorker { worker: "w".to_owned(), place: "host:7".to_owned(), why: said() };
        vec![
            Reason::BeyondLog { drawn: Position::new(7) },
            Reason::WoundBack { what: "the log was wound back".to_owned() },
            Reason::OtherLog { belongs_to: Uuid::nil(), identity: Uuid::nil() },
            Reason::Paused,
            Reason::ReplayAsked,
            Reason::Unassigned,
            Reason::OutsidePartitions { by: by.clone() },
            Reason::AwaitsGeneration { by: by.clone() },
            Reason::Unable { by: vec![unable] },
            Reason::OtherCode { accepted: "a".to_owned(), wanted: "b".to_owned(), by: by.clone() },
            Reason::AwaitsClaim { by: by.clone() },
            Reason::AwaitsRelease { to: by },
            Reason::OwnerDead,
            Reason::Blocked { by: vec![7], doing: format!("UPDATE t SET a = '{SECRET}'"), for_ms },
            Reason::Failing { error: said(), for_ms },
            Reason::Waiting { error: said(), for_ms },
            Reason::Busy { for_ms },
            Reason::NoWake { deaf_ms: Some(7), unannounced: 7 },
            Reason::FewSessions { sessions: 1, of: 2, error: said() },
            Reason::ParkedKeys { keys: 7 },
            Reason::RetryingKeys { keys: 7 },
        ]
    }

    #[test]
    fn owners_are_named_and_what_they_say_of_themselves_is_elsewhere() {
        let report = serde_json::json!({ "lanes": [] });
        let worker =
            serde_json::json!({ "id": "w", "host": "h", "consumers": [], "report": report });
        let cursors =
            serde_json::json!([{ "owner": { "worker": worker } }, { "owner": "unassigned" }]);
        let shown = |what| shown(&caller(Scope::Read, None), &what).unwrap();
        let said = shown(cursors);
        assert_eq!(said[0]["owner"]["worker"], serde_json::json!({ "id": "w", "host": "h" }));
        assert_eq!(said[1]["owner"], "unassigned");
        // A worker that is asked about says it all.
        assert_eq!(shown(worker.clone()), worker);
    }

    #[test]
    fn a_mask_hides_what_was_said_in_every_reason() {
        let (reasons, masked) = (reasons(), caller(Scope::ReadMasked, None));
        for reason in &reasons {
            let shown = shown(&masked, &serde_json::json!({ "reasons": [reason] })).unwrap();
            assert!(!shown.to_string().contains(SECRET), "{shown}");
            // Which reason it is, and where, is no secret.
            assert!(shown["reasons"][0]["reason"].is_string(), "{shown}");
        }
        assert!(in_words(&masked, &reasons).is_empty());
        let whole = caller(Scope::Read, None);
        let shown = shown(&whole, &reasons).unwrap().to_string();
        assert_eq!(shown.matches(SECRET).count(), 5, "{shown}");
        assert_eq!(in_words(&whole, &reasons).concat().matches(SECRET).count(), 5);
    }

    #[test]
    fn a_limited_token_sees_no_statements_of_others() {
        let limited = caller(Scope::Read, Some("mine"));
        let blocked: Vec<_> = reasons()
            .into_iter()
            .filter(|reason| matches!(reason, Reason::Blocked { .. }))
            .collect();
        let shown = shown(&limited, &blocked).unwrap();
        assert_eq!(shown[0]["doing"], "");
        assert_eq!(in_words(&limited, &blocked), ["blocked for 7ms by backend pid 7"]);
    }

    #[test]
    fn what_a_lane_is_doing_is_seen() {
        let lane = serde_json::json!({ "lanes": [{ "doing": "handling" }, { "doing": { "failing": { "error": SECRET } } }] });
        let shown = shown(&caller(Scope::ReadMasked, Some("mine")), &lane).unwrap();
        assert_eq!(shown["lanes"][0]["doing"], "handling");
        assert_eq!(shown["lanes"][1]["doing"]["failing"]["error"], "");
    }

    #[test]
    fn no_reason_is_left_out_here() {
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../anabranch-runtime/src/reason.rs");
        let source = std::fs::read_to_string(source).unwrap();
        let of_enum =
            source.split("pub enum Reason {").nth(1).unwrap().split("\n}").next().unwrap();
        let is_variant = |line: &&str| {
            line.strip_prefix("    ").is_some_and(|rest| rest.starts_with(char::is_uppercase))
        };
        let variants = of_enum.lines().filter(is_variant).count();
        assert_eq!(variants, reasons().len() + 1, "a new reason belongs into these tests");
    }
}
