//! What a receiver gets: its body, and the id that it is known by.

use anabranch_core::Event;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::body::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The id of a delivery: the same for the same events, for another consumer or another edition another one.
pub(crate) fn id<'a>(
    consumer: &str,
    edition: i64,
    events: impl IntoIterator<Item = &'a Event>,
) -> String {
    let mut hash = Sha256::new();
    hash.update(consumer.as_bytes());
    hash.update([0]);
    hash.update(edition.to_be_bytes());
    for event in events {
        hash.update(event.id().as_bytes());
    }
    // 132 bits of it: enough that no two are the same.
    format!("msg_{}", URL_SAFE_NO_PAD.encode(&hash.finalize()[..18]))
}

/// One event: its type, time and data, as the specification has them, and the rest of its envelope.
pub(crate) fn event(event: &Event) -> Result<Bytes, serde_json::Error> {
    let mut body = Vec::with_capacity(event.text_bytes() + 400);
    one(&mut body, event)?;
    Ok(body.into())
}

/// Several events of one key.
pub(crate) fn batch(key: &str, events: &[&Event]) -> Result<Bytes, serde_json::Error> {
    let size: usize = events.iter().map(|event| event.text_bytes() + 400).sum();
    let mut body = Vec::with_capacity(size);
    let last = events.last().map(|event| event.recorded_at().to_string());
    body.extend_from_slice(b"{\"type\":\"batch\",\"timestamp\":");
    serde_json::to_writer(&mut body, &last)?;
    body.extend_from_slice(b",\"key\":");
    serde_json::to_writer(&mut body, key)?;
    body.extend_from_slice(b",\"data\":[");
    for (number, event) in events.iter().enumerate() {
        if number > 0 {
            body.push(b',');
        }
        one(&mut body, event)?;
    }
    body.extend_from_slice(b"]}");
    Ok(body.into())
}

fn one(body: &mut Vec<u8>, event: &Event) -> Result<(), serde_json::Error> {
    body.extend_from_slice(b"{\"timestamp\":\"");
    body.extend_from_slice(event.recorded_at().to_string().as_bytes());
    body.extend_from_slice(b"\",");
    let begin = body.len();
    serde_json::to_writer(&mut *body, event)?;
    // Its own brace is the one before the time.
    body.remove(begin);
    Ok(())
}

/// What is sent to find out whether an endpoint answers.
pub(crate) fn test(consumer: &str) -> Result<Bytes, serde_json::Error> {
    #[derive(Serialize)]
    struct Test<'a> {
        r#type: &'a str,
        timestamp: String,
        data: Data<'a>,
    }
    #[derive(Serialize)]
    struct Data<'a> {
        webhook: &'a str,
    }
    let (r#type, timestamp) = ("webhook.test", jiff::Timestamp::now().to_string());
    let data = Data { webhook: consumer };
    Ok(serde_json::to_vec(&Test { r#type, timestamp, data })?.into())
}
