//! What a tail sends, as server-sent events.

use axum::body::Bytes;

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
