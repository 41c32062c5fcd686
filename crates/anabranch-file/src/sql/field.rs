//! A field of an event: which there are, and what its value is.

use super::document::Wanted;
use crate::file::{is_nearly, suggest};
use crate::json_value;
use anabranch::backend::database::Lexical;
use anabranch::backend::named_values::{self, Segment};
use anabranch::{Event, Value};
use thiserror::Error;

/// A field of an event, as statements and partitions name it.
///
/// ```
/// use anabranch_file::sql::Field;
/// assert_eq!(Field::parse("data.items[0].sku")?.to_string(), "data.items[0].sku");
/// assert!(Field::parse("dta.total").is_err());
/// # Ok::<(), anabranch_file::sql::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    text: String,
    pub(crate) of: Of,
}

/// Where the value of a field is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Envelope(Envelope),
    Data(Vec<Segment>),
    Metadata(Vec<Segment>),
    TagItem(usize),
    /// The ID of the tag `NAME:ID`.
    Tag(String),
}

/// What stands around the data of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Envelope {
    Position,
    Id,
    Stream,
    StreamId,
    Category,
    Version,
    Type,
    SchemaVersion,
    RecordedAt,
    Correlation,
    Causation,
    Tenant,
    Customer,
    Tags,
}

/// What is no field of an event.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{said}")]
pub struct FieldError {
    /// What is wrong.
    pub said: String,
    /// What to do.
    pub help: String,
}

const ENVELOPE: [(&str, Envelope); 14] = [
    ("position", Envelope::Position),
    ("id", Envelope::Id),
    ("stream", Envelope::Stream),
    ("stream_id", Envelope::StreamId),
    ("category", Envelope::Category),
    ("version", Envelope::Version),
    ("type", Envelope::Type),
    ("schema_version", Envelope::SchemaVersion),
    ("recorded_at", Envelope::RecordedAt),
    ("correlation", Envelope::Correlation),
    ("causation", Envelope::Causation),
    ("tenant", Envelope::Tenant),
    ("customer", Envelope::Customer),
    ("tags", Envelope::Tags),
];

impl Field {
    /// Reads a field such as `data.total`.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let no_field = || FieldError {
            said: format!("`{text}` is not written as a field"),
            help: "write one such as stream_id, data.total or data.items[0].sku".to_owned(),
        };
        let named = named_values::parse(&format!(":{text}"), Lexical::ANY);
        let mut named = named.map_err(|_| no_field())?;
        match named.statements.pop() {
            Some(statement) if statement.sql == "$1" && !statement.values[0].optional => {
                Self::from_path(text, statement.values[0].path.clone())
            }
            _ => Err(no_field()),
        }
    }

    /// The field that a path names. The text is for messages.
    pub(crate) fn from_path(text: &str, path: Vec<Segment>) -> Result<Self, FieldError> {
        let mut path = path.into_iter();
        let Some(Segment::Key(first)) = path.next() else {
            return Err(unknown(text));
        };
        let rest: Vec<Segment> = path.collect();
        let of = match (first.as_str(), rest.as_slice()) {
            ("data", _) => Of::Data(rest),
            ("metadata", _) => Of::Metadata(rest),
            ("tags", [Segment::Item(item)]) => Of::TagItem(*item),
            ("tag", [Segment::Key(name)]) => Of::Tag(name.clone()),
            ("tag", _) => {
                return Err(FieldError {
                    said: "`tag` does not say which".to_owned(),
                    help: "tag.show is the ID of the tag show:ID; tags are all of them".to_owned(),
                });
            }
            (name, rest) => match ENVELOPE.iter().find(|(known, _)| *known == name) {
                Some((_, field)) if rest.is_empty() => Of::Envelope(*field),
                Some(_) => {
                    return Err(FieldError {
                        said: format!("`{name}` has no fields"),
                        help: format!("write {name} alone"),
                    });
                }
                None => return Err(unknown(name)),
            },
        };
        Ok(Self { text: text.to_owned(), of })
    }

    /// Its value, if the event has it.
    #[must_use]
    pub fn of(&self, event: &Event) -> Option<Value> {
        let inside = |json: Option<&str>, steps: &[Segment]| {
            let mut wanted = Wanted::default();
            wanted.add(steps, 0);
            let mut found = vec![None];
            wanted.find(json?, &mut found).ok()?;
            match json_value::value_of(found[0]?).ok()? {
                // A number is a key with all its digits.
                Value::Json(number) if !number.starts_with(['{', '[']) => Some(Value::Text(number)),
                value => Some(value),
            }
        };
        match &self.of {
            Of::Data(steps) => inside(Some(event.data_json()), steps),
            Of::Metadata(steps) => inside(event.metadata_json(), steps),
            of => of.outside_json(event),
        }
    }
}

/// The ID of a tag `NAME:ID`.
fn tag_id<'t>(name: &str, tag: &'t str) -> Option<&'t str> {
    tag.strip_prefix(name)?.strip_prefix(':')
}

impl Of {
    /// Which of several tags is meant nobody can tell.
    pub(crate) fn must_be_one(&self, event: &Event) -> Result<(), String> {
        let Self::Tag(name) = self else { return Ok(()) };
        match event.tags().filter(|tag| tag_id(name, tag).is_some()).count() {
            0 | 1 => Ok(()),
            several => Err(format!(
                "the event ({}) has {several} tags `{name}:…`, and :tag.{name} is one; name it by its place, :tags[0], \
                 or use all of them, :tags",
                event.event_type()
            )),
        }
    }

    /// The value of a field that is in no document.
    pub(crate) fn outside_json(&self, event: &Event) -> Option<Value> {
        match self {
            Self::Data(_) | Self::Metadata(_) => None,
            Self::TagItem(item) => event.tags().nth(*item).map(Value::from),
            Self::Tag(name) => event.tags().find_map(|tag| tag_id(name, tag)).map(Value::from),
            Self::Envelope(field) => field.of(event),
        }
    }
}

impl Envelope {
    fn of(self, event: &Event) -> Option<Value> {
        match self {
            Self::Position => Some(event.position().into()),
            Self::Id => Some(event.id().into()),
            Self::Stream => Some((&event.stream()).into()),
            Self::StreamId => Some(event.stream_id().into()),
            Self::Category => Some(event.category().into()),
            Self::Version => Some(event.version().into()),
            Self::Type => Some(event.event_type().into()),
            Self::SchemaVersion => Some(event.schema_version().into()),
            Self::RecordedAt => Some(Value::Time(event.recorded_us())),
            Self::Correlation => event.correlation().map(Value::from),
            Self::Causation => event.causation().map(Value::from),
            Self::Tenant => event.tenant().map(Value::from),
            Self::Customer => event.customer().map(Value::from),
            Self::Tags => Some(event.tags().map(Value::from).collect()),
        }
    }
}

fn unknown(name: &str) -> FieldError {
    let mut known: Vec<&str> = ENVELOPE.iter().map(|(name, _)| *name).collect();
    known.extend(["data", "metadata", "tag"]);
    // Most often it is one of the data.
    let help = match known.iter().any(|known| is_nearly(name, known)) {
        true => suggest(name, &known),
        false => {
            format!("did you mean `data.{name}`? Around the data there are {}", known.join(", "))
        }
    };
    FieldError { said: format!("an event has no field `{name}`"), help }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
