//! The recorded event: what the log hands back.

use crate::json;
use crate::{DecodeError, Json, NewEvent, Position, Slots, StreamId, TraceContext};
use serde::Deserialize;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use uuid::Uuid;

/// What stored tags are joined with. Tags hold no control characters, so it never stands in one.
pub const TAG_SEPARATOR: char = '\n';

/// The parts of an event that its writer chose: equal bodies under one id are the same event.
#[derive(Clone, Debug)]
pub struct Body<'a> {
    /// Category of the stream.
    pub category: &'a str,
    /// Id of the stream.
    pub stream_id: &'a str,
    /// Type.
    pub event_type: &'a str,
    /// Version of the type's schema.
    pub schema_version: u32,
    /// Data, as JSON text.
    pub data: &'a str,
    /// Metadata, as the text of a JSON object.
    pub metadata: Option<&'a str>,
    /// What it belongs to.
    pub correlation: Option<&'a str>,
    /// What caused it.
    pub causation: Option<&'a str>,
    /// Tenant.
    pub tenant: Option<&'a str>,
    /// Customer.
    pub customer: Option<&'a str>,
    /// Tags, joined with [`TAG_SEPARATOR`].
    pub tags: Cow<'a, str>,
}

/// How many characters of a part are shown.
const SHOWN: usize = 40;

/// The first part in which two bodies differ, and what it is in both, around where they differ.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) part: &'static str,
    pub(crate) was: String,
    pub(crate) is: String,
}

impl Difference {
    fn new(part: &'static str, was: Option<String>, is: Option<String>) -> Self {
        let chars = |text: &Option<String>| text.iter().flat_map(|text| text.chars()).collect();
        let (old, new): (Vec<char>, Vec<char>) = (chars(&was), chars(&is));
        let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        // From where they differ, with a little of what stands before it.
        let skipped = if same > SHOWN / 2 { same - SHOWN / 4 } else { 0 };
        let shown = |text: &Option<String>, chars: &[char]| match text {
            None => "none".to_owned(),
            Some(_) => {
                let begin = if skipped > 0 { "…" } else { "" };
                let end = if chars.len() > skipped + SHOWN { "…" } else { "" };
                let middle: String = chars.iter().skip(skipped).take(SHOWN).collect();
                format!("{begin}{middle}{end}")
            }
        };
        Self { part, was: shown(&was, &old), is: shown(&is, &new) }
    }
}

impl Body<'_> {
    /// The first part in which the body of an event differs from that of another one.
    pub(crate) fn difference(&self, other: &Body<'_>) -> Option<Difference> {
        let same_metadata = match (self.metadata, other.metadata) {
            (Some(a), Some(b)) => json::same_meaning(a, b),
            (a, b) => a == b,
        };
        let part = [
            ("stream", self.category == other.category && self.stream_id == other.stream_id),
            ("type", self.event_type == other.event_type),
            ("schema version", self.schema_version == other.schema_version),
            ("data", json::same_meaning(self.data, other.data)),
            ("metadata", same_metadata),
            ("correlation", self.correlation == other.correlation),
            ("causation", self.causation == other.causation),
            ("tenant", self.tenant == other.tenant),
            ("customer", self.customer == other.customer),
            ("set of tags", self.tags == other.tags),
        ]
        .into_iter()
        .find_map(|(part, same)| (!same).then_some(part))?;
        Some(Difference::new(part, self.part(part), other.part(part)))
    }

    /// A part by its name, if there is something.
    fn part(&self, name: &str) -> Option<String> {
        let optional = |text: Option<&str>| text.map(ToOwned::to_owned);
        match name {
            "stream" => Some(format!("{}:{}", self.category, self.stream_id)),
            "type" => Some(self.event_type.to_owned()),
            "schema version" => Some(self.schema_version.to_string()),
            "data" => Some(self.data.to_owned()),
            "metadata" => optional(self.metadata),
            "correlation" => optional(self.correlation),
            "causation" => optional(self.causation),
            "tenant" => optional(self.tenant),
            "customer" => optional(self.customer),
            _ => Some(self.tags.replace(TAG_SEPARATOR, ", ")).filter(|tags| !tags.is_empty()),
        }
    }
}

/// An event as the log recorded it.
///
/// All its text lies in one allocation, because reading a log is mostly making events: eleven small
/// strings an event would cost more than the row they come from.
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    position: Position,
    version: u64,
    id: Uuid,
    schema_version: u32,
    recorded_us: i64,
    slots: Slots,
    text: Box<str>,
    /// Where each text part ends; see [`Part`].
    ends: [u32; PARTS],
    /// A bit for each optional part that is there.
    present: u16,
}

/// The text parts, in the order in which they lie in `text`.
#[derive(Clone, Copy)]
enum Part {
    Category,
    StreamId,
    Type,
    Data,
    Tags,
    Metadata,
    Correlation,
    Causation,
    Tenant,
    Customer,
    Trace,
}

const PARTS: usize = 11;

impl Event {
    /// An event from the columns of a row. For backends.
    #[must_use]
    pub fn from_row(
        position: Position,
        version: u64,
        id: Uuid,
        recorded_us: i64,
        slots: Slots,
        body: &Body<'_>,
    ) -> Self {
        Self::from_traced_row(position, version, id, recorded_us, slots, body, None)
    }

    /// The same with the trace context of its append, which is beside the body: a repeated append in another span is
    /// the same append.
    #[must_use]
    pub fn from_traced_row(
        position: Position,
        version: u64,
        id: Uuid,
        recorded_us: i64,
        slots: Slots,
        body: &Body<'_>,
        trace: Option<&str>,
    ) -> Self {
        let parts: [Option<&str>; PARTS] = [
            Some(body.category),
            Some(body.stream_id),
            Some(body.event_type),
            Some(body.data),
            Some(&body.tags),
            body.metadata,
            body.correlation,
            body.causation,
            body.tenant,
            body.customer,
            trace,
        ];
        let mut text = String::with_capacity(parts.iter().flatten().map(|part| part.len()).sum());
        let mut ends = [0; PARTS];
        let mut present = 0;
        for (number, part) in parts.into_iter().enumerate() {
            if let Some(part) = part {
                text.push_str(part);
                present |= 1 << number;
            }
            ends[number] = text.len() as u32;
        }
        let schema_version = body.schema_version;
        let text = text.into_boxed_str();
        Self { position, version, id, schema_version, recorded_us, slots, text, ends, present }
    }

    fn part(&self, part: Part) -> &str {
        let number = part as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.text[start as usize..self.ends[number] as usize]
    }

    fn optional(&self, part: Part) -> Option<&str> {
        (self.present & (1 << part as usize) != 0).then(|| self.part(part))
    }

    /// Where it stands in the log.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Where it stands in its stream; the first event of a stream has version 1.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its id, unique in the log.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The category of its stream.
    #[must_use]
    pub fn category(&self) -> &str {
        self.part(Part::Category)
    }

    /// The id of its stream, without the category.
    #[must_use]
    pub fn stream_id(&self) -> &str {
        self.part(Part::StreamId)
    }

    /// Its stream.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        StreamId::recorded(self.category(), self.stream_id())
    }

    /// Its type.
    #[must_use]
    pub fn event_type(&self) -> &str {
        self.part(Part::Type)
    }

    /// The version of its type's schema; see [`EventSchema`](crate::EventSchema).
    #[must_use]
    pub fn schema_version(&self) -> u32 {
        self.schema_version
    }

    /// Its data as JSON text, byte for byte as it was appended.
    #[must_use]
    pub fn data_json(&self) -> &str {
        self.part(Part::Data)
    }

    /// Its data as a type of yours.
    ///
    /// ```
    /// # use anabranch_core::{Event, DecodeError};
    /// #[derive(serde::Deserialize)]
    /// struct OrderPlaced { total: f64 }
    /// # fn f(event: &Event) -> Result<(), DecodeError> {
    /// let placed: OrderPlaced = event.data()?;
    /// # Ok(()) }
    /// ```
    pub fn data<'a, T: Deserialize<'a>>(&'a self) -> Result<T, DecodeError> {
        json::decode(self.data_json()).map_err(|source| DecodeError::body(self, source))
    }

    /// Its metadata, the text of a JSON object.
    #[must_use]
    pub fn metadata_json(&self) -> Option<&str> {
        self.optional(Part::Metadata)
    }

    /// What it belongs to: the id that all events of one business transaction share.
    #[must_use]
    pub fn correlation(&self) -> Option<&str> {
        self.optional(Part::Correlation)
    }

    /// What caused it: the id of an event or a command.
    #[must_use]
    pub fn causation(&self) -> Option<&str> {
        self.optional(Part::Causation)
    }

    /// Its tenant.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.optional(Part::Tenant)
    }

    /// Its customer.
    #[must_use]
    pub fn customer(&self) -> Option<&str> {
        self.optional(Part::Customer)
    }

    /// Where it was appended in a trace: the context of the first append, if that had one. What is no context is none.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        self.optional(Part::Trace)?.parse().ok()
    }

    /// Its tags, in the order in which they were given.
    pub fn tags(&self) -> impl Iterator<Item = &str> + Clone {
        let tags = self.part(Part::Tags);
        tags.split(TAG_SEPARATOR).filter(|tag| !tag.is_empty())
    }

    /// The slots it was stored with.
    #[must_use]
    pub fn slots(&self) -> Slots {
        self.slots
    }

    /// When it was recorded, in microseconds since 1970, by the clock of the database (PostgreSQL)
    /// or of the writing process (SQLite). Positions order events; this does not.
    #[must_use]
    pub fn recorded_us(&self) -> i64 {
        self.recorded_us
    }

    /// When it was recorded.
    #[must_use]
    pub fn recorded_at(&self) -> jiff::Timestamp {
        crate::time::from_micros(self.recorded_us)
    }

    /// How many bytes of text it holds; readers bound their memory by it.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// What its writer chose.
    #[must_use]
    pub fn body(&self) -> Body<'_> {
        Body {
            category: self.category(),
            stream_id: self.stream_id(),
            event_type: self.event_type(),
            schema_version: self.schema_version,
            data: self.data_json(),
            metadata: self.metadata_json(),
            correlation: self.correlation(),
            causation: self.causation(),
            tenant: self.tenant(),
            customer: self.customer(),
            tags: Cow::Borrowed(self.part(Part::Tags)),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (category, stream, version) = (self.category(), self.stream_id(), self.version);
        write!(f, "Event({} {category}:{stream}@{version} ", self.position)?;
        write!(f, "{} {})", self.event_type(), self.data_json())
    }
}

impl Serialize for Event {
    /// The envelope as one JSON object, with the data in it as it was appended.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = |text| serde_json::from_str::<&RawValue>(text).map_err(serde::ser::Error::custom);
        let trace = self.trace();
        let mut envelope =
            serializer.serialize_struct("Event", 14 + usize::from(trace.is_some()))?;
        envelope.serialize_field("position", &self.position)?;
        envelope
            .serialize_field("stream", &format_args!("{}:{}", self.category(), self.stream_id()))?;
        envelope.serialize_field("version", &self.version)?;
        envelope.serialize_field("id", &self.id)?;
        envelope.serialize_field("type", self.event_type())?;
        envelope.serialize_field("schema_version", &self.schema_version)?;
        envelope.serialize_field("data", raw(self.data_json())?)?;
        envelope.serialize_field("metadata", &self.metadata_json().map(raw).transpose()?)?;
        envelope.serialize_field("correlation", &self.correlation())?;
        envelope.serialize_field("causation", &self.causation())?;
        envelope.serialize_field("tenant", &self.tenant())?;
        envelope.serialize_field("customer", &self.customer())?;
        envelope.serialize_field("tags", &self.tags().collect::<Vec<_>>())?;
        envelope.serialize_field("recorded_at", &self.recorded_at().to_string())?;
        if let Some(trace) = trace {
            envelope.serialize_field("traceparent", &trace)?;
        }
        envelope.end()
    }
}

impl NewEvent {
    /// What this event would be recorded with on that stream.
    #[must_use]
    pub fn body<'a>(&'a self, stream: &'a StreamId) -> Body<'a> {
        Body {
            category: stream.category(),
            stream_id: stream.id(),
            event_type: self.event_type(),
            schema_version: self.schema_version(),
            data: self.data().map_or("null", Json::as_str),
            metadata: self.metadata().map(Json::as_str),
            correlation: self.correlation(),
            causation: self.causation(),
            tenant: self.tenant(),
            customer: self.customer(),
            tags: Cow::Owned(self.tags().join("\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_where_it_is() {
        let shown = |was: Option<&str>, is: Option<&str>| {
            let text = |text: Option<&str>| text.map(ToOwned::to_owned);
            let Difference { was, is, .. } = Difference::new("data", text(was), text(is));
            (was, is)
        };
        let both = |was: &str, is: &str| (was.to_owned(), is.to_owned());
        assert_eq!(shown(Some("1"), Some("99")), both("1", "99"));
        assert_eq!(shown(None, Some("x")), both("none", "x"));
        let long =
            |end: &str| format!("{{\"customer\":\"cust-7\",\"issued_at\":\"2026-11-15T09:{end}");
        let (was, is) =
            (long("16:47.123456Z\",\"total\":4000}"), long("17:02.5Z\",\"total\":4000}"));
        // The seconds are what differs.
        let (was, is) = shown(Some(&was), Some(&is));
        assert!(was.contains("16:47.123456Z") && is.contains("17:02.5Z"), "{was} {is}");
        assert!(was.starts_with('…') && was.chars().count() <= SHOWN + 2, "{was}");
    }
}
