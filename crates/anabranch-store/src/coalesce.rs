//! Concurrent appends share one round trip and one commit.
//!
//! While a batch is being committed, the appends that arrive queue up; they are the next batch. So
//! an append that is alone waits for nobody, and under load the commits grow instead of queueing.

use crate::home::Home;
use crate::log_store::{LogStore, Ticket};
use anabranch_core::{Append, AppendError, Appended, StoreError};
use std::sync::Arc;
use tokio::sync::mpsc;

/// How many appends may wait; more of them wait in their callers.
const MAX_WAITING: usize = 4096;
/// A batch ends with the append that reaches this many events …
const MAX_BATCH_EVENTS: usize = 1024;
/// … or this much text.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// The sending side: hands appends to the one task that batches them.
#[derive(Clone, Debug)]
pub(crate) struct Appender {
    tickets: mpsc::Sender<Ticket>,
    /// Where the task runs.
    home: Home,
    at: Arc<str>,
}

impl Appender {
    /// Starts the task. It ends when the last sender is gone.
    pub(crate) fn start(store: Arc<dyn LogStore>) -> Self {
        let (tickets, waiting) = mpsc::channel(MAX_WAITING);
        let (home, at) = (Home::here(), store.at().into());
        home.spawn(run(store, waiting));
        Self { tickets, home, at }
    }

    /// Appends, together with whoever else does so now. An append that has been handed over
    /// happens even if the caller stops waiting for it.
    pub(crate) async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        let (ticket, answer) = Ticket::new(append);
        let appended = async {
            self.tickets.send(ticket).await.ok()?;
            answer.await.ok()
        };
        let runs = match self.home.wait_for(appended).await {
            Ok(Some(answer)) => return answer,
            // The task is gone.
            Ok(None) => self.home.runs().await,
            Err(not_running) => Err(not_running),
        };
        Err(runs.err().map_or(StoreError::Closed, |why| why.at(&self.at)).into())
    }
}

async fn run(store: Arc<dyn LogStore>, mut waiting: mpsc::Receiver<Ticket>) {
    let mut tickets = Vec::new();
    while waiting.recv_many(&mut tickets, MAX_WAITING).await > 0 {
        let is_alone = tickets.len() == 1;
        let mut rest = tickets.drain(..).peekable();
        while rest.peek().is_some() {
            let mut size = Size::default();
            let mut batch = Vec::new();
            while let Some(ticket) = rest.next_if(|_| !size.is_full()) {
                size.add(&ticket.append);
                batch.push(ticket);
            }
            store.append(batch).await;
        }
        drop(rest);
        // The callers that were just answered often append again at once: let them, so that the
        // next batch is theirs together and not the first one's alone. Who was alone and leaves nobody behind has nobody to
        // wait for.
        if !is_alone || !waiting.is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

/// How large a batch has become.
#[derive(Default)]
struct Size {
    events: usize,
    bytes: usize,
}

impl Size {
    fn add(&mut self, append: &Append) {
        for (_, event) in append.events() {
            self.events += 1;
            let text = [event.data(), event.metadata()];
            self.bytes += text.iter().flatten().map(|json| json.as_str().len()).sum::<usize>();
        }
    }

    fn is_full(&self) -> bool {
        self.events >= MAX_BATCH_EVENTS || self.bytes >= MAX_BATCH_BYTES
    }
}
