//! Bodies of requests as JSON.

use crate::problem::Problem;
use anabranch::Timestamp;
use anabranch::errors::ErrorCode;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// A body that was read as JSON, within the limit of its route. Types should refuse unknown fields
/// (`deny_unknown_fields`), so that a misspelt setting is not silently ignored.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        must_be_json(&request)?;
        let limit = request.extensions().get::<BodyLimit>().copied();
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|rejection| unread(&rejection, limit))?;
        if holds_nul(&bytes) {
            let said = "there is a NUL in the body (`\\u0000`), which no text that is stored may hold; leave it out, or \
                        encode it (base64)";
            return Err(Problem::new(ErrorCode::InvalidJson, said));
        }
        let read = serde_json::from_slice(&bytes);
        let Object(read) = read.map_err(|error| {
            let said = format!("the body is not what is expected here: {error}");
            Problem::new(ErrorCode::InvalidJson, said)
        })?;
        Ok(Self(read))
    }
}

/// How many bytes a body may have at an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimit(pub(crate) usize);

/// A field that is a time, or null.
pub(crate) fn run_at<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let given: Option<String> = Option::deserialize(from)?;
    given.map(|text| time("run_at", &text).map_err(D::Error::custom)).transpose()
}

/// A time, or what is wrong with the field that has it.
pub(crate) fn time(field: &str, text: &str) -> Result<Timestamp, String> {
    text.parse()
        .map_err(|_| format!("`{field}`: write the time with its zone, as in 2026-11-15T09:16:47Z"))
}

/// What is written as an object. Fields in a list, told apart by their places alone, are refused: serde would take them.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OfObject(PhantomData)).map(Object)
    }
}

struct OfObject<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OfObject<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, with its fields by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// A field that is an object.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Object::deserialize(from).map(|Object(one)| one)
}

/// A field that is a list of objects.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let all: Vec<Object<T>> = Vec::deserialize(from)?;
    Ok(all.into_iter().map(|Object(one)| one).collect())
}

/// Whether a string has a NUL in it. JSON writes it as `\u0000`; `\\u0000` is a backslash and five letters.
fn holds_nul(json: &[u8]) -> bool {
    const NUL: &[u8] = b"\\u0000";
    let is_escape =
        |at: usize| json[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0;
    let mut places = json.windows(NUL.len()).enumerate();
    places.any(|(at, text)| text == NUL && is_escape(at))
}

/// Another site can send forms and plain text without a preflight, but not JSON.
fn must_be_json(request: &Request) -> Result<(), Problem> {
    let given = request.headers().get(CONTENT_TYPE).and_then(|given| given.to_str().ok());
    let kind = given.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let said = "the body must be JSON, and say so: `content-type: application/json`";
    Err(Problem::new(ErrorCode::UnsupportedMediaType, said))
}

fn unread(rejection: &BytesRejection, limit: Option<BodyLimit>) -> Problem {
    if rejection.status().as_u16() == 413 {
        let of = limit.map_or_else(String::new, |BodyLimit(bytes)| format!(", {bytes} bytes"));
        let said = format!("the body is over the limit of this address{of}");
        return Problem::new(ErrorCode::BodyTooLarge, said);
    }
    Problem::invalid(format!("the body did not arrive whole: {}", rejection.body_text()))
}
