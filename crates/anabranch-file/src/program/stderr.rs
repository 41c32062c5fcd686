//! The standard error of a program: each line goes to our log, with the consumer's name.

use super::last_words::LastWords;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much of a line is logged.
const MAX_LINE: usize = 4_000;
const CHUNK: usize = 16 << 10;

/// What it has said last, for the message of its death.
pub(super) type Last = Arc<Mutex<LastWords>>;

/// Logs all lines to the end. It never stops reading: else the program would wait for us.
pub(super) async fn log(mut from: impl AsyncRead + Unpin, consumer: Arc<str>, last: Last) {
    let (mut chunk, mut line) = (vec![0; CHUNK], Line::default());
    loop {
        match from.read(&mut chunk).await {
            Ok(read) if read > 0 => line.take(&chunk[..read], |text| say(&consumer, text, &last)),
            _ => break,
        }
    }
    line.end(|text| say(&consumer, text, &last));
}

fn say(consumer: &str, text: &str, last: &Last) {
    tracing::info!(target: "anabranch::program", consumer, "{text}");
    if let Ok(mut last) = last.lock() {
        last.hear(text);
    }
}

/// The line that is being read.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Line {
    fn take(&mut self, chunk: &[u8], mut say: impl FnMut(&str)) {
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            let (part, ends) = match part.strip_suffix(b"\n") {
                Some(part) => (part, true),
                None => (part, false),
            };
            let room = MAX_LINE - self.bytes.len();
            self.bytes.extend_from_slice(&part[..part.len().min(room)]);
            self.is_cut |= part.len() > room;
            if ends {
                self.say(&mut say);
            }
        }
    }

    fn end(&mut self, mut say: impl FnMut(&str)) {
        if !self.bytes.is_empty() {
            self.say(&mut say);
        }
    }

    fn say(&mut self, say: &mut impl FnMut(&str)) {
        let mut text = String::from_utf8_lossy(&self.bytes).into_owned();
        if std::mem::take(&mut self.is_cut) {
            text.push('…');
        }
        say(text.trim_end_matches('\r'));
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_or_cut() {
        let (mut line, mut said) = (Line::default(), Vec::new());
        let long = "x".repeat(MAX_LINE + 1);
        let text = format!("a\r\nb{long}\n\u{e9}\nrest");
        let mut bytes = text.into_bytes();
        bytes.push(0xff);
        for chunk in bytes.chunks(7) {
            line.take(chunk, |text| said.push(text.to_owned()));
        }
        line.end(|text| said.push(text.to_owned()));
        let cut = format!("b{}…", "x".repeat(MAX_LINE - 1));
        assert_eq!(said, ["a", &cut, "é", "rest\u{fffd}"]);
    }
}
