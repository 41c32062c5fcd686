//! Typed events: a serde enum, its event types, and upcasters from older schema versions.

use crate::{ErrorCode, Event, NewEvent};
use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, Deserializer, EnumAccess, IntoDeserializer, VariantAccess,
};
use serde::{Serialize, forward_to_deserialize_any};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use thiserror::Error;

/// How the events of one domain type are written and read.
///
/// `E` is a serde enum: the name of a variant is the event's type (rename it with
/// `#[serde(rename = …)]`), its content is the data. Each [`upcast`](Self::upcast) raises the current
/// schema version of one type by one; older events are lifted step by step when they are read, so
/// the code knows the newest shape only.
///
/// ```
/// use anabranch_core::EventSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// enum OrderEvent {
///     OrderPlaced { total: f64, currency: String },
///     OrderCancelled,
/// }
///
/// // Version 1 of OrderPlaced had no currency: we sold in euros only.
/// let schema = EventSchema::<OrderEvent>::new().upcast("OrderPlaced", 1, |data| {
///     data["currency"] = "EUR".into();
///     Ok(())
/// });
/// let event = schema.encode(&OrderEvent::OrderPlaced { total: 9.5, currency: "SEK".into() })?;
/// assert_eq!((event.event_type(), event.schema_version()), ("OrderPlaced", 2));
/// # Ok::<(), anabranch_core::DecodeError>(())
/// ```
pub struct EventSchema<E> {
    /// For each type, the steps from version 1 on.
    upcasters: HashMap<String, Vec<Upcaster>>,
    events: PhantomData<fn() -> E>,
}

type Upcaster = Box<dyn Fn(&mut Value) -> Result<(), String> + Send + Sync>;

/// Why an event could not be read as, or written from, a type.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The type is not one that the schema knows.
    #[error(
        "unknown event type `{event_type}` at position {position} of the log; this schema knows \
         {known}: add a variant for it, or leave such events out by a query"
    )]
    UnknownType {
        /// The type.
        event_type: String,
        /// Where it stands.
        position: crate::Position,
        /// What the schema knows.
        known: String,
    },
    /// The event was written with a newer schema than this program has.
    #[error(
        "event type `{event_type}` at position {position} has schema version {found}, this program \
         knows versions up to {known}; upgrade this program"
    )]
    NewerVersion {
        /// The type.
        event_type: String,
        /// Where it stands.
        position: crate::Position,
        /// Its version.
        found: u32,
        /// What this program knows.
        known: u32,
    },
    /// An upcaster gave up.
    #[error(
        "cannot upcast `{event_type}` at position {position} from schema version {from}: {reason}"
    )]
    Upcast {
        /// The type.
        event_type: String,
        /// Where it stands.
        position: crate::Position,
        /// The version that the failing step began with.
        from: u32,
        /// What the upcaster said.
        reason: String,
    },
    /// The data does not fit the type.
    #[error("data of `{event_type}` at position {position} does not fit: {source}")]
    Body {
        /// The type.
        event_type: String,
        /// Where it stands.
        position: crate::Position,
        /// What serde said.
        r#source: serde_json::Error,
    },
    /// The value is not an enum variant, or cannot be JSON.
    #[error("cannot write an event: {0}")]
    Encode(String),
}

impl DecodeError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownType { .. } => ErrorCode::UnknownEventType,
            Self::NewerVersion { .. } => ErrorCode::NewerEventSchema,
            Self::Upcast { .. } => ErrorCode::UpcastFailed,
            Self::Body { .. } => ErrorCode::EventDoesNotFit,
            Self::Encode(_) => ErrorCode::EventNotWritable,
        }
    }

    pub(crate) fn body(event: &Event, source: serde_json::Error) -> Self {
        let (event_type, position) = (event.event_type().to_owned(), event.position());
        Self::Body { event_type, position, source }
    }
}

impl<E> Default for EventSchema<E> {
    fn default() -> Self {
        Self { upcasters: HashMap::new(), events: PhantomData }
    }
}

impl<E> fmt::Debug for EventSchema<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions: HashMap<&str, usize> =
            self.upcasters.iter().map(|(name, steps)| (name.as_str(), steps.len() + 1)).collect();
        f.debug_struct("EventSchema").field("versions", &versions).finish()
    }
}

impl<E: Serialize + DeserializeOwned> EventSchema<E> {
    /// A schema in which every type has version 1.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lifts data of `event_type` from schema version `from` to the next. Steps are given in order,
    /// beginning with version 1.
    ///
    /// # Panics
    /// If a step is left out or given twice: events of that version could never be read.
    #[must_use]
    pub fn upcast(
        mut self,
        event_type: impl Into<String>,
        from: u32,
        step: impl Fn(&mut Value) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        let event_type = event_type.into();
        let steps = self.upcasters.entry(event_type.clone()).or_default();
        let next = steps.len() as u32 + 1;
        assert_eq!(from, next, "the next upcaster of `{event_type}` starts from version {next}");
        steps.push(Box::new(step));
        self
    }

    /// The current schema version of a type.
    #[must_use]
    pub fn version(&self, event_type: &str) -> u32 {
        self.upcasters.get(event_type).map_or(0, Vec::len) as u32 + 1
    }

    /// An event to append, with its type and current schema version.
    pub fn encode(&self, event: &E) -> Result<NewEvent, DecodeError> {
        let value = serde_json::to_value(event).map_err(|e| DecodeError::Encode(e.to_string()))?;
        let (event_type, data) = match value {
            Value::String(unit) => (unit, Value::Null),
            Value::Object(map) if map.len() == 1 => {
                map.into_iter().next().expect("it has one entry")
            }
            _ => {
                let reason = "the type must be an enum with serde's default (external) tagging";
                return Err(DecodeError::Encode(reason.to_owned()));
            }
        };
        let version = self.version(&event_type);
        Ok(NewEvent::new(event_type, data).with_schema_version(version))
    }

    /// The typed event, lifted to the current schema version.
    pub fn decode(&self, event: &Event) -> Result<E, DecodeError> {
        let (name, found) = (event.event_type(), event.schema_version());
        let (event_type, position) = (|| name.to_owned(), event.position());
        let known = self.version(name);
        if found > known && self.upcasters.contains_key(name) {
            return Err(DecodeError::NewerVersion {
                event_type: event_type(),
                position,
                found,
                known,
            });
        }
        let body = |source| DecodeError::body(event, source);
        let read = if found == known {
            let mut data = serde_json::Deserializer::from_str(event.data_json());
            E::deserialize(Variant { name, data: &mut data })
        } else if found > known {
            // A type without upcasters has version 1 here, whether or not `E` knows it at all.
            match E::deserialize(Variant { name, data: Value::Null }) {
                Err(Failure::Unknown { known }) => Err(Failure::Unknown { known }),
                _ => {
                    let event_type = event_type();
                    return Err(DecodeError::NewerVersion { event_type, position, found, known });
                }
            }
        } else {
            let mut data: Value = event.data()?;
            for from in found..known {
                self.upcasters[name][from as usize - 1](&mut data).map_err(|reason| {
                    DecodeError::Upcast { event_type: event_type(), position, from, reason }
                })?;
            }
            E::deserialize(Variant { name, data })
        };
        read.map_err(|failure| match failure {
            Failure::Unknown { known } => {
                DecodeError::UnknownType { event_type: event_type(), position, known }
            }
            Failure::Body(source) => body(source),
        })
    }
}

/// Presents an event to serde as the enum variant that its type names.
struct Variant<'a, D> {
    name: &'a str,
    data: D,
}

/// What serde makes of it: an unknown variant is told apart from data that does not fit.
#[derive(Debug)]
enum Failure {
    Unknown { known: String },
    Body(serde_json::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { known } => write!(f, "unknown variant, known are {known}"),
            Self::Body(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

impl de::Error for Failure {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Body(de::Error::custom(message))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::Unknown { known: expected.join(", ") }
    }
}

impl<'de, D: Deserializer<'de, Error = serde_json::Error>> Deserializer<'de> for Variant<'_, D> {
    type Error = Failure;

    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

impl<'de, D: Deserializer<'de, Error = serde_json::Error>> EnumAccess<'de> for Variant<'_, D> {
    type Error = Failure;
    type Variant = Content<D>;

    fn variant_seed<V: de::DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Content<D>), Failure> {
        let name: StrDeserializer<'_, Failure> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, Content(self.data)))
    }
}

/// The data of an event, as the content of its variant.
struct Content<D>(D);

impl<'de, D: Deserializer<'de, Error = serde_json::Error>> VariantAccess<'de> for Content<D> {
    type Error = Failure;

    fn unit_variant(self) -> Result<(), Failure> {
        // Data of a type that has become a unit variant is ignored, as serde ignores old fields.
        de::Deserialize::deserialize(self.0).map(|de::IgnoredAny| ()).map_err(Failure::Body)
    }

    fn newtype_variant_seed<T: de::DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, Failure> {
        seed.deserialize(self.0).map_err(Failure::Body)
    }

    fn tuple_variant<V: de::Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.0.deserialize_tuple(len, visitor).map_err(Failure::Body)
    }

    fn struct_variant<V: de::Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.0.deserialize_struct("", fields, visitor).map_err(Failure::Body)
    }
}

#[cfg(test)]
mod tests;
