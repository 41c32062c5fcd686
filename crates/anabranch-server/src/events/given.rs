//! Events as a body writes them: the fields of `anabranch append --lines`.

use anabranch::trace::TraceContext;
use anabranch::{Expected, NewEvent};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

/// An event to be appended.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    #[serde(rename = "type")]
    event_type: String,
    /// It is stored byte for byte.
    data: Option<Box<RawValue>>,
    id: Option<Uuid>,
    schema_version: Option<u32>,
    metadata: Option<Box<RawValue>>,
    correlation: Option<String>,
    causation: Option<String>,
    tenant: Option<String>,
    customer: Option<String>,
    #[serde(default, deserialize_with = "or_none")]
    tags: Vec<String>,
    traceparent: Option<TraceContext>,
}

/// `null` is the same as leaving it out.
fn or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Given {
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    pub(crate) fn into_event(self) -> NewEvent {
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
        if let Some(correlation) = self.correlation {
            event = event.with_correlation(correlation);
        }
        if let Some(causation) = self.causation {
            event = event.with_causation(causation);
        }
        if let Some(tenant) = self.tenant {
            event = event.with_tenant(tenant);
        }
        if let Some(customer) = self.customer {
            event = event.with_customer(customer);
        }
        event
    }
}

/// What is expected of a stream: `"any"`, `"none"`, or the version of its last event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wants(Option<Expected>);

impl From<Wants> for Expected {
    fn from(wants: Wants) -> Self {
        wants.0.unwrap_or(Self::Any)
    }
}

impl From<Expected> for Wants {
    fn from(expected: Expected) -> Self {
        Self(Some(expected))
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`expected` is \"any\", \"none\" or a version")]
enum Written {
    Word(Word),
    Version(u64),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Any,
    None,
}

impl<'de> Deserialize<'de> for Wants {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Option::<Written>::deserialize(from)?;
        Ok(Self(written.map(|written| match written {
            Written::Word(Word::Any) => Expected::Any,
            Written::Word(Word::None) => Expected::NoStream,
            Written::Version(version) => Expected::Exact(version),
        })))
    }
}

impl Serialize for Wants {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None | Some(Expected::Any) => to.serialize_str("any"),
            Some(Expected::NoStream) => to.serialize_str("none"),
            Some(Expected::Exact(version)) => to.serialize_u64(version),
        }
    }
}
