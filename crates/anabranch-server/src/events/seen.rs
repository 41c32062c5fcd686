//! An event as the API shows it: as `anabranch tail --json` prints it, or without its body.

use anabranch::Event;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// The JSON of an event. Data and metadata stand in it byte for byte as they are stored.
pub(crate) fn json(event: &Event, masked: bool) -> Result<Box<RawValue>, serde_json::Error> {
    match masked {
        false => to_raw_value(event),
        true => to_raw_value(&Masked::of(event)),
    }
}

/// An event for callers who may not see bodies: an empty envelope.
#[derive(Serialize)]
struct Masked<'a> {
    position: anabranch::Position,
    stream: String,
    version: u64,
    id: uuid::Uuid,
    #[serde(rename = "type")]
    event_type: &'a str,
    schema_version: u32,
    data: (),
    metadata: (),
    masked: bool,
    correlation: Option<&'a str>,
    causation: Option<&'a str>,
    tenant: Option<&'a str>,
    customer: Option<&'a str>,
    tags: Vec<&'a str>,
    recorded_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<anabranch::trace::TraceContext>,
}

impl<'a> Masked<'a> {
    fn of(event: &'a Event) -> Self {
        Self {
            position: event.position(),
            stream: event.stream().to_string(),
            version: event.version(),
            id: event.id(),
            event_type: event.event_type(),
            schema_version: event.schema_version(),
            data: (),
            metadata: (),
            masked: true,
            correlation: event.correlation(),
            causation: event.causation(),
            tenant: event.tenant(),
            customer: event.customer(),
            tags: event.tags().collect(),
            recorded_at: event.recorded_at().to_string(),
            traceparent: event.trace(),
        }
    }
}
