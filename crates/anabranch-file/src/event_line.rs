//! An event as a line or a table writes it: the same keys in programs, in files and in `anabranch append --lines`.

use anabranch::trace::TraceContext;
use anabranch::{Expected, NewEvent, StreamId};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use uuid::Uuid;

/// An event that is about to be appended, with its stream.
///
/// ```
/// use anabranch_file::EventLine;
/// let line = r#"{"stream": "Order:1", "type": "OrderPlaced", "data": {"total": 40}, "expected": "none"}"#;
/// let line: EventLine = serde_json::from_str(line)?;
/// assert_eq!((line.stream.id(), line.expected()), ("1", anabranch::Expected::NoStream));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventLine {
    /// Its stream.
    pub stream: StreamId,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Its data, as it is written; `null` if there is none.
    pub data: Option<Box<RawValue>>,
    /// Its id, if the caller chooses it.
    pub id: Option<Uuid>,
    /// The version of its schema.
    pub schema_version: Option<u32>,
    /// Its metadata.
    pub metadata: Option<Box<RawValue>>,
    /// What it belongs to.
    pub correlation: Option<String>,
    /// What caused it.
    pub causation: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The customer.
    pub customer: Option<String>,
    /// Where its append stands in a trace, if that is not where the code that appends it runs.
    pub traceparent: Option<TraceContext>,
    /// Its tags.
    #[serde(default, deserialize_with = "or_none")]
    pub tags: Vec<String>,
    #[serde(default)]
    expected: Wanted,
}

/// `null` is the same as leaving it out.
fn or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// What is expected of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged, expecting = "`expected` is \"any\", \"none\" or a version")]
enum Wanted {
    Word(Word),
    Version(u64),
    #[default]
    Nothing,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Any,
    None,
}

impl EventLine {
    /// What is expected of the stream: anything, unless it is said.
    #[must_use]
    pub fn expected(&self) -> Expected {
        match self.expected {
            Wanted::Word(Word::Any) | Wanted::Nothing => Expected::Any,
            Wanted::Word(Word::None) => Expected::NoStream,
            Wanted::Version(version) => Expected::Exact(version),
        }
    }

    /// The event.
    #[must_use]
    pub fn into_event(self) -> NewEvent {
        let data = self.data.as_deref().map_or("null", RawValue::get);
        let mut event = NewEvent::from_json(self.event_type, data).with_tags(self.tags);
        if let Some(version) = self.schema_version {
            event = event.with_schema_version(version);
        }
        if let Some(metadata) = self.metadata {
            event = event.with_metadata(metadata);
        }
        if let Some(id) = self.id {
            event = event.with_id(id);
        }
        if let Some(trace) = self.traceparent {
            event = event.with_trace(trace);
        }
        type Set = fn(NewEvent, String) -> NewEvent;
        let texts: [(Option<String>, Set); 4] = [
            (self.correlation, NewEvent::with_correlation),
            (self.causation, NewEvent::with_causation),
            (self.tenant, NewEvent::with_tenant),
            (self.customer, NewEvent::with_customer),
        ];
        let given = texts.into_iter().filter_map(|(text, set)| Some((text?, set)));
        given.fold(event, |event, (text, set)| set(event, text))
    }
}
