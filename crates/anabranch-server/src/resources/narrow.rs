//! What a token that is limited to consumers sees of them: not even the names of the others.

use crate::caller::Caller;
use crate::problem::Problem;
use crate::state::State;
use anabranch::errors::ErrorCode;
use anabranch::operate::{ConsumerStatus, OperateError};
use serde::Serialize;
use serde_json::Value;

/// How a consumer stands that is there for the caller.
pub(super) async fn status(
    state: &State,
    caller: &Caller,
    name: &str,
) -> Result<ConsumerStatus, Problem> {
    must_see(caller, name)?;
    state.consumers.status(name).await.map_err(|error| refused(caller, name, error))
}

/// Refuses a consumer that is not there for the caller, as one that is not there at all.
pub(super) fn must_see(caller: &Caller, name: &str) -> Result<(), Problem> {
    if caller.sees_consumer(name) { Ok(()) } else { Err(unknown(name)) }
}

/// An error about a consumer. For those who do not see all of them it is the same whether there is none or it is not
/// theirs.
pub(super) fn refused(caller: &Caller, name: &str, error: OperateError) -> Problem {
    match &error {
        OperateError::NoSuchConsumer { .. } if caller.consumers().is_some() => unknown(name),
        OperateError::NoSuchConsumer { known, .. } => {
            let known = known.clone();
            Problem::from(error).with("known", known)
        }
        _ => error.into(),
    }
}

fn unknown(name: &str) -> Problem {
    let name: String = name.chars().take(200).collect();
    let said = format!("there is no consumer `{}`", name.escape_debug());
    Problem::new(ErrorCode::NoSuchConsumer, said)
}

/// What is shown, without what workers say of consumers that are not there for the caller.
pub(super) fn shown(caller: &Caller, what: &impl Serialize) -> Result<Value, Problem> {
    let mut shown = serde_json::to_value(what)?;
    if caller.consumers().is_some() {
        leave_out_others(&mut shown, caller);
    }
    if caller.is_masked() {
        leave_out_errors(&mut shown);
    }
    Ok(shown)
}

/// What handlers and receivers have said, wherever it is: it often quotes what they were given.
fn leave_out_errors(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(leave_out_errors),
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match (name.as_str(), &mut *value) {
                    ("error" | "problem" | "unable", Value::String(said)) => said.clear(),
                    ("why", Value::Array(said)) => said.clear(),
                    (_, value) => leave_out_errors(value),
                }
            }
        }
        _ => {}
    }
}

/// A worker is what has a report of itself: it names all the consumers that it runs.
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
