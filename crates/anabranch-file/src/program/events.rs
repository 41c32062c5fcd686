//! What a program is sent: batches of events, tasks, rows.

use anabranch::trace::{self, TraceContext};
use anabranch::workpool::Task;
use anabranch::{Event, HandlerError, HandlerResult, Row, Value};
use serde::Serialize;
use serde_json::value::RawValue;

/// A batch of events. Says which event cannot be sent, if one cannot.
pub(super) fn events(
    out: &mut Vec<u8>,
    batch: u64,
    events: &[Event],
) -> Result<(), (usize, serde_json::Error)> {
    out.reserve(events.iter().map(|event| event.text_bytes() + 300).sum());
    out.extend_from_slice(format!("{{\"batch\":{batch},\"events\":[").as_bytes());
    for (number, event) in events.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, event).map_err(|error| (number, error))?;
    }
    out.extend_from_slice(b"]}");
    Ok(())
}

#[derive(Serialize)]
struct TaskLine<'a> {
    batch: u64,
    tasks: [TaskOf<'a>; 1],
}

#[derive(Serialize)]
struct TaskOf<'a> {
    id: uuid::Uuid,
    key: &'a str,
    payload: &'a RawValue,
    attempt: u32,
    idempotency_key: String,
    checkpoint: Option<&'a RawValue>,
    /// Where it is run in a trace. Left out if there is none, as programs know it since before there were traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<TraceContext>,
}

/// A task.
pub(super) fn task(
    out: &mut Vec<u8>,
    batch: u64,
    task: &Task,
    checkpoint: Option<&str>,
) -> HandlerResult {
    let task = TaskOf {
        id: task.id(),
        key: task.key(),
        payload: serde_json::from_str(task.payload_json())?,
        attempt: task.attempt(),
        idempotency_key: task.idempotency_key(),
        checkpoint: checkpoint.map(serde_json::from_str).transpose()?,
        traceparent: trace::current(),
    };
    serde_json::to_writer(out, &TaskLine { batch, tasks: [task] })?;
    Ok(())
}

/// The answer to a query.
pub(super) fn rows(out: &mut Vec<u8>, rows: &[Row]) {
    let columns: Vec<&str> =
        rows.first().into_iter().flat_map(Row::iter).map(|(name, _)| name).collect();
    out.extend_from_slice(b"{\"columns\":");
    json(out, &columns);
    out.extend_from_slice(b",\"rows\":[");
    for (number, row) in rows.iter().enumerate() {
        out.extend_from_slice(if number > 0 { b",[" } else { b"[" });
        for (number, (_, value)) in row.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            self::value(out, value);
        }
        out.push(b']');
    }
    out.extend_from_slice(b"]}");
}

fn value(out: &mut Vec<u8>, value: &Value) {
    match value {
        // As it is: its numbers may have more digits than a float.
        Value::Json(text) => out.extend_from_slice(text.as_bytes()),
        Value::Array(values) => {
            out.push(b'[');
            for (number, value) in values.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                self::value(out, value);
            }
            out.push(b']');
        }
        Value::Text(text) => json(out, text),
        value => json(out, &value.to_json()),
    }
}

/// The batch is lost.
pub(super) fn abandoned(out: &mut Vec<u8>, batch: u64, error: &HandlerError) {
    let error = error.to_string();
    json(out, &serde_json::json!({ "abandoned": batch, "error": error }));
}

fn json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Nothing of it can fail: there are no maps whose keys are no texts, and a vector takes it all.
    let _ = serde_json::to_writer(out, value);
}
