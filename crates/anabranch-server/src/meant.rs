//! Operations as somebody asks for them: what is about many things says which, or that it is all of them.

use crate::body::time;
use crate::problem::Problem;
use anabranch::operate::ParkedFilter;
use anabranch::operations::{Request, ResendFilter};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;

/// An operation, and whether somebody has said that everything is meant. A filter that was forgotten, or lost on the way,
/// would be everything, too.
#[derive(Debug)]
pub(crate) struct Meant {
    request: Request,
    all: bool,
}

impl Meant {
    /// What is asked for, if it says what it is about.
    pub(crate) fn request(self) -> Result<Request, Problem> {
        let (narrows, filter) = match &self.request {
            Request::Parked { filter, .. } => (*filter != ParkedFilter::default(), "filter"),
            Request::Resend { filter, .. } => (*filter != ResendFilter::default(), "filter"),
            Request::Tasks { conditions, .. } => (!conditions.is_empty(), "where"),
            _ if self.all => {
                let said = "`all` belongs to `parked`, `tasks` and `resend`; leave it out";
                return Err(Problem::invalid(said));
            }
            _ => return Ok(self.request),
        };
        // A text of nothing is in everything.
        if self.texts().any(|text| text.is_some_and(str::is_empty)) {
            return Err(Problem::invalid(format!(
                "a text in `{filter}` is empty, and would be everything; leave it out, or give \"all\": true"
            )));
        }
        match (narrows, self.all) {
            (false, false) => Err(Problem::invalid(format!(
                "nothing says which are meant: give `{filter}`, or \"all\": true for all of them"
            ))),
            (true, true) => Err(Problem::invalid(format!(
                "`{filter}` says that some are meant, and `all` that all are; give one of them"
            ))),
            _ => Ok(self.request),
        }
    }

    /// The texts by which it chooses, as far as they are given.
    fn texts(&self) -> impl Iterator<Item = Option<&str>> {
        let texts = match &self.request {
            Request::Parked { filter, .. } => {
                [&filter.key, &filter.key_contains, &filter.error_contains]
            }
            Request::Resend { filter, .. } => [&filter.id, &filter.key, &filter.state],
            _ => [&None, &None, &None],
        };
        texts.into_iter().map(|text| text.as_deref())
    }
}

impl<'de> Deserialize<'de> for Meant {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Fields(mut fields) = Fields::deserialize(from)?;
        let all = match fields.remove("all") {
            None => false,
            Some(Value::Bool(all)) => all,
            Some(_) => return Err(Error::custom("`all` is true or false")),
        };
        if fields.get("filter").is_some_and(|filter| !filter.is_object()) {
            return Err(Error::custom("`filter` is an object, with its fields by name"));
        }
        if let Some(Value::String(text)) = fields.get("from").and_then(|from| from.get("time")) {
            time("from.time", text).map_err(Error::custom)?;
        }
        let request = Request::deserialize(Value::Object(fields)).map_err(Error::custom)?;
        Ok(Self { request, all })
    }
}

/// The fields of an object, each once.
struct Fields(Map<String, Value>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(OfFields)
    }
}

struct OfFields;

impl<'de> Visitor<'de> for OfFields {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an operation: an object with `do`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Map::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format_args!(
                    "`{}` is there twice",
                    name.escape_debug()
                )));
            }
            fields.insert(name, value);
        }
        Ok(Fields(fields))
    }
}
