//! What reads server-sent events as a browser does.

use crate::support::PATIENCE;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub id: Option<u64>,
    pub name: String,
    pub data: String,
}

impl Frame {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// A tail that is open. It is closed when it is dropped.
pub struct Sse {
    body: Incoming,
    text: String,
    pub last_id: Option<u64>,
}

impl Sse {
    pub fn new(body: Incoming) -> Self {
        Self { body, text: String::new(), last_id: None }
    }

    /// The next one, comments among them (as `comment`); none at the end.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let text: String = self.text.drain(..end + 2).collect();
                let frame = parse(&text);
                self.last_id = frame.id.or(self.last_id);
                return Some(frame);
            }
            let piece = tokio::time::timeout(PATIENCE, self.body.frame());
            let piece = piece.await.expect("a tail said nothing for a minute")?.ok()?;
            let data = piece.into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    /// The next one with this name.
    pub async fn until(&mut self, name: &str) -> Frame {
        loop {
            let frame = self.next().await.unwrap_or_else(|| panic!("it ended without `{name}`"));
            if frame.name == name {
                return frame;
            }
        }
    }

    /// The next event.
    pub async fn event(&mut self) -> Value {
        self.until("event").await.json()
    }
}

fn parse(text: &str) -> Frame {
    let (mut id, mut name, mut data) = (None, None, Vec::new());
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("id", value)) => id = Some(value.parse().unwrap()),
            Some(("event", value)) => name = Some(value.to_owned()),
            Some(("data", value)) => data.push(value),
            _ if line.starts_with(": ") => name = Some("comment".to_owned()),
            _ => assert!(line.is_empty(), "{line:?} is no line of server-sent events"),
        }
    }
    Frame { id, name: name.unwrap(), data: data.join("\n") }
}
