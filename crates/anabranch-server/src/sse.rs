//! The text of server-sent events, and the answer that they are.

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use std::convert::Infallible;

/// What keeps a proxy from collecting events.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The last word of a stream that ends with its server, which knows no stream: it stands beside the answer.
#[derive(Clone, Debug)]
pub(crate) struct Farewell(pub(crate) Bytes);

/// An answer that goes on for as long as there are pieces. Each of them is whole events.
pub(crate) fn answer(
    pieces: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
    farewell: Farewell,
) -> Response {
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response.extensions_mut().insert(farewell);
    response
}

/// A comment that keeps the connection open, with the position to resume at: a browser remembers an `id` without data, and
/// dispatches no event.
pub(crate) fn heartbeat(at: u64) -> Bytes {
    format!(": heartbeat\nid: {at}\n\n").into()
}

/// One event of the stream.
///
/// Data ends with its line there, so text of several lines goes into several fields, which the other side joins by line
/// feeds. In JSON a line can only end between two tokens, so the JSON is the same; only a carriage return becomes a line feed.
pub(crate) fn frame(id: Option<u64>, name: &str, data: &str) -> Bytes {
    let mut text = String::with_capacity(data.len() + name.len() + 48);
    if let Some(id) = id {
        text.push_str("id: ");
        text.push_str(&id.to_string());
        text.push('\n');
    }
    text.push_str("event: ");
    text.push_str(name);
    text.push('\n');
    let mut rest = data;
    loop {
        let end = rest.find(['\n', '\r']);
        text.push_str("data: ");
        text.push_str(&rest[..end.unwrap_or(rest.len())]);
        text.push('\n');
        let Some(end) = end else { break };
        let ends = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[end + ends..];
    }
    text.push('\n');
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_data_never_ends_a_field_early() {
        let of = |data| String::from_utf8(frame(Some(7), "event", data).to_vec()).unwrap();
        assert_eq!(of(r#"{"a":1}"#), "id: 7\nevent: event\ndata: {\"a\":1}\n\n");
        let lines = "id: 7\nevent: event\ndata: {\ndata: \"a\":\ndata: 1\ndata: }\n\n";
        assert_eq!(of("{\n\"a\":\r\n1\r}"), lines);
        assert_eq!(&frame(None, "dropped", "{}")[..], b"event: dropped\ndata: {}\n\n");
    }
}
