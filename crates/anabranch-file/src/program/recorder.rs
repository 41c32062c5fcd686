//! What programs were sent and have answered, for tests.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::Mutex;

/// Notes what programs are sent and answer.
#[derive(Debug, Default)]
pub struct Recorder {
    notes: Mutex<HashMap<String, Notes>>,
}

#[derive(Clone, Debug, Default)]
struct Notes {
    sent: Vec<Value>,
    answered: Vec<Value>,
}

impl Recorder {
    /// The events or tasks that a consumer's programs were sent, in their order; those of a batch that was repeated come
    /// again.
    #[must_use]
    pub fn sent(&self, consumer: &str) -> Vec<Value> {
        self.of(consumer).sent
    }

    /// What they have answered, without greetings and plain ends of batches.
    #[must_use]
    pub fn answered(&self, consumer: &str) -> Vec<Value> {
        self.of(consumer).answered
    }

    fn of(&self, consumer: &str) -> Notes {
        let notes = self.notes.lock().map(|notes| notes.get(consumer).cloned());
        notes.ok().flatten().unwrap_or_default()
    }

    fn note(&self, consumer: &str, note: impl FnOnce(&mut Notes)) {
        if let Ok(mut notes) = self.notes.lock() {
            note(notes.entry(consumer.to_owned()).or_default());
        }
    }

    pub(super) fn sends(&self, consumer: &str, line: &[u8]) {
        let Ok(mut line) = serde_json::from_slice::<Value>(line) else { return };
        for key in ["events", "tasks"] {
            if let Value::Array(items) = line[key].take() {
                self.note(consumer, |notes| notes.sent.extend(items));
            }
        }
    }

    /// A message went to another server, in the place of a program.
    pub(crate) fn delivers(&self, consumer: &str, body: &[u8]) {
        let Ok(body) = serde_json::from_slice::<Value>(body) else { return };
        self.note(consumer, |notes| notes.sent.push(body));
    }

    pub(super) fn answers(&self, consumer: &str, line: &[u8]) {
        let Ok(mut line) = serde_json::from_slice::<Value>(line) else { return };
        // Its number is another one each time.
        line.as_object_mut().map(|message| message.remove("batch"));
        let is_end = line.get("done").is_some() && line.get("result").is_none();
        if line.get("hello").is_none() && !is_end {
            self.note(consumer, |notes| notes.answered.push(line));
        }
    }
}
