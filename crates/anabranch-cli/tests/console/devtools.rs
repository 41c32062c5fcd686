//! The DevTools protocol over two pipes: commands with their answers, and what tabs say by themselves.
//!
//! A message is JSON and ends with a zero byte. Pipes need no WebSocket, no port, and nothing to find out about one.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

pub struct DevTools {
    to: Mutex<ChildStdin>,
    heard: Arc<Heard>,
    last: AtomicU64,
}

#[derive(Default)]
struct Heard {
    inbox: Mutex<Inbox>,
    news: Condvar,
}

#[derive(Default)]
struct Inbox {
    answers: HashMap<u64, Value>,
    /// What each tab has said, from the beginning.
    events: HashMap<String, Vec<Event>>,
    is_over: bool,
}

/// What a tab said by itself.
#[derive(Clone, Debug)]
pub struct Event {
    pub method: String,
    pub params: Value,
}

impl DevTools {
    pub fn new(to: ChildStdin, from: ChildStdout) -> Self {
        let heard = Arc::new(Heard::default());
        let listener = Arc::clone(&heard);
        std::thread::spawn(move || listener.listen(from));
        Self { to: Mutex::new(to), heard, last: AtomicU64::new(0) }
    }

    /// Sends a command, to a tab or to the browser, and waits for its answer.
    pub fn call(&self, tab: Option<&str>, method: &str, params: Value) -> Result<Value, String> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(tab) = tab {
            command["sessionId"] = tab.into();
        }
        let mut message = command.to_string().into_bytes();
        message.push(0);
        let sent = self.to.lock().unwrap().write_all(&message);
        sent.map_err(|error| format!("{method}: the browser is gone: {error}"))?;
        let mut answer = self.heard.answer(id, method)?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {error}")),
            None => Ok(answer["result"].take()),
        }
    }

    /// What a tab has said, without the first few.
    pub fn events(&self, tab: &str, without: usize) -> Vec<Event> {
        let inbox = self.heard.inbox.lock().unwrap();
        let said = inbox.events.get(tab).map(Vec::as_slice).unwrap_or_default();
        said.iter().skip(without).cloned().collect()
    }
}

impl Heard {
    fn listen(&self, from: ChildStdout) {
        let mut from = BufReader::new(from);
        let mut message = Vec::new();
        while from.read_until(0, &mut message).is_ok_and(|length| length > 0) {
            message.pop_if(|last| *last == 0);
            if let Ok(message) = serde_json::from_slice(&message) {
                self.take(message);
            }
            message.clear();
        }
        self.inbox.lock().unwrap().is_over = true;
        self.news.notify_all();
    }

    fn take(&self, mut message: Value) {
        let mut inbox = self.inbox.lock().unwrap();
        if let Some(id) = message["id"].as_u64() {
            inbox.answers.insert(id, message);
            self.news.notify_all();
        } else if let Some(tab) = message["sessionId"].as_str() {
            let (tab, method) = (tab.to_owned(), message["method"].as_str().unwrap_or_default());
            let event = Event { method: method.to_owned(), params: message["params"].take() };
            inbox.events.entry(tab).or_default().push(event);
        }
    }

    fn answer(&self, id: u64, method: &str) -> Result<Value, String> {
        let until = Instant::now() + PATIENCE;
        let mut inbox = self.inbox.lock().unwrap();
        loop {
            if let Some(answer) = inbox.answers.remove(&id) {
                return Ok(answer);
            }
            let left = until.saturating_duration_since(Instant::now());
            if inbox.is_over || left.is_zero() {
                let why = if inbox.is_over { "the browser has ended" } else { "no answer" };
                return Err(format!("{method}: {why}"));
            }
            inbox = self.news.wait_timeout(inbox, left).unwrap().0;
        }
    }
}
