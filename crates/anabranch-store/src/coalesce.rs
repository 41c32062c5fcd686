//! Concurrent appends share one round trip and one commit.
//!
//! While a batch is being committed, the appends that arrive queue up; they are the next batch. So
//! an append that is alone waits for nobody, and under load the commits grow instead of queueing.
//!
//! Where a backend can, two batches are under way at the same time once there are many appends: while one is being
//! committed, the callers of the other are answered and append again. Two batches never have a lock in common that one of
//! them takes alone, so neither is in the other's way; what would be waits in its turn.

use crate::home::Home;
use crate::log_store::{Locked, LogStore, Ticket};
use anabranch_core::{Append, AppendError, Appended, Happening, StoreError};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;

/// How many appends may wait; more of them wait in their callers.
const MAX_WAITING: usize = 4096;
/// A batch ends with the append that reaches this many events …
const MAX_BATCH_EVENTS: usize = 1024;
/// … or this much text.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// How many batches may be under way.
const MAX_UNDER_WAY: usize = 2;
/// A second batch is worth its commit if it has so many appends.
const WORTH_A_COMMIT: usize = 16;

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
    let events = store.database().events();
    let mut line = Line::default();
    let mut under_way = FuturesUnordered::new();
    let (mut tickets, mut is_closed) = (Vec::new(), false);
    loop {
        tokio::select! {
            biased;
            Some(batch) = under_way.next() => {
                line.is_done(&batch);
                events.emit(Happening::appends_answered(batch.appends, batch.events));
                // The callers that were just answered often append again at once: let them, so that the
                // next batch is theirs together and not the first one's alone. Who was alone and leaves nobody
                // behind has nobody to wait for.
                if batch.appends > 1 || !waiting.is_empty() {
                    tokio::task::yield_now().await;
                }
                while line.has_room() && let Ok(ticket) = waiting.try_recv() {
                    line.join(ticket, &*store);
                }
            }
            received = waiting.recv_many(&mut tickets, MAX_WAITING), if !is_closed && line.has_room() => {
                is_closed = received == 0;
                tickets.drain(..).for_each(|ticket| line.join(ticket, &*store));
            }
            else => return,
        }
        while let Some((tickets, batch)) = line.next_batch() {
            let store = Arc::clone(&store);
            under_way.push(async move {
                store.append(tickets).await;
                batch
            });
        }
    }
}

/// The appends that wait for their batch, in order, and what is under way.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    under_way: usize,
    taken: Taken,
}

struct Waiting {
    ticket: Ticket,
    locks: Option<Vec<Locked>>,
}

/// A batch that is under way.
struct Batch {
    appends: usize,
    events: usize,
    locks: Vec<Locked>,
}

impl Line {
    fn has_room(&self) -> bool {
        self.waiting.len() < MAX_WAITING
    }

    fn join(&mut self, ticket: Ticket, store: &dyn LogStore) {
        let locks = store.locks(&ticket.append);
        self.waiting.push_back(Waiting { ticket, locks });
    }

    fn is_done(&mut self, batch: &Batch) {
        self.under_way -= 1;
        self.taken.give_back(&batch.locks);
    }

    /// The next batch, if it may begin.
    fn next_batch(&mut self) -> Option<(Vec<Ticket>, Batch)> {
        // Without knowing its locks, an append is alone with its batch.
        let side_by_side = self.waiting.iter().all(|waiting| waiting.locks.is_some());
        // How many batches they would be worth.
        let worth = if side_by_side { self.waiting.len() / WORTH_A_COMMIT } else { 0 };
        let most = match self.under_way {
            0 if worth >= MAX_UNDER_WAY => self.waiting.len() / MAX_UNDER_WAY,
            0 => usize::MAX,
            under_way if worth > 0 && under_way < MAX_UNDER_WAY => usize::MAX,
            _ => return None,
        };
        let (mut size, mut tickets) = (Size::default(), Vec::new());
        let mut batch = Batch { appends: 0, events: 0, locks: Vec::new() };
        // Who has to wait is not overtaken by others that need the same.
        let (mut held, mut left) = (Taken::default(), VecDeque::new());
        while let Some(next) = self.waiting.pop_front() {
            let locks = next.locks.as_deref().unwrap_or_default();
            if size.is_full() || tickets.len() >= most {
                left.push_back(next);
                break;
            }
            if self.taken.meets(locks) || held.meets(locks) {
                held.take(locks);
                left.push_back(next);
                continue;
            }
            size.add(&next.ticket.append);
            batch.locks.extend_from_slice(locks);
            tickets.push(next.ticket);
        }
        left.append(&mut self.waiting);
        self.waiting = left;
        if tickets.is_empty() {
            return None;
        }
        (batch.appends, batch.events) = (tickets.len(), size.events);
        self.taken.take(&batch.locks);
        self.under_way += 1;
        Some((tickets, batch))
    }
}

/// Locks that are taken: of each key how often alone, and how often together with others.
#[derive(Default)]
struct Taken(HashMap<i32, (u32, u32)>);

impl Taken {
    /// Whether somebody would have to wait for one of these.
    fn meets(&self, locks: &[Locked]) -> bool {
        let meets = |lock: &Locked| match self.0.get(&lock.key) {
            Some((alone, together)) => *alone > 0 || lock.alone && *together > 0,
            None => false,
        };
        !self.0.is_empty() && locks.iter().any(meets)
    }

    fn take(&mut self, locks: &[Locked]) {
        for lock in locks {
            let (alone, together) = self.0.entry(lock.key).or_default();
            *if lock.alone { alone } else { together } += 1;
        }
    }

    fn give_back(&mut self, locks: &[Locked]) {
        for lock in locks {
            let Some((alone, together)) = self.0.get_mut(&lock.key) else { continue };
            *if lock.alone { &mut *alone } else { &mut *together } -= 1;
            if (*alone, *together) == (0, 0) {
                self.0.remove(&lock.key);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::{Expected, NewEvent, StreamId};

    fn locks(keys: &[(i32, bool)]) -> Option<Vec<Locked>> {
        Some(keys.iter().map(|(key, alone)| Locked { key: *key, alone: *alone }).collect())
    }

    /// An append to the stream with this number, which it locks alone.
    fn waiting(number: i32, locks: Option<Vec<Locked>>) -> Waiting {
        let stream = StreamId::new("S", number.to_string()).unwrap();
        let append = Append::new().to(&stream, Expected::Any, [NewEvent::new("E", ())]);
        Waiting { ticket: Ticket::new(append).0, locks }
    }

    fn line(numbers: impl IntoIterator<Item = i32>) -> Line {
        let alone = |number| waiting(number, locks(&[(number, true), (-1, false)]));
        Line { waiting: numbers.into_iter().map(alone).collect(), ..Line::default() }
    }

    /// The streams of a batch.
    fn streams(batch: &Option<(Vec<Ticket>, Batch)>) -> Vec<String> {
        let stream = |ticket: &Ticket| ticket.append.parts()[0].stream.id().to_owned();
        batch.iter().flat_map(|(tickets, _)| tickets.iter().map(stream)).collect()
    }

    #[test]
    fn few_appends_are_one_batch_and_the_next_waits_for_it() {
        let mut line = line(0..5);
        let first = line.next_batch();
        assert_eq!(streams(&first).len(), 5);
        line.waiting.extend((5..10).map(|number| waiting(number, locks(&[(number, true)]))));
        assert!(line.next_batch().is_none(), "it is not worth a commit of its own");
        line.is_done(&first.unwrap().1);
        assert_eq!(streams(&line.next_batch()).len(), 5);
    }

    #[test]
    fn many_appends_are_two_batches() {
        let mut line = line(0..64);
        let (first, second) = (line.next_batch(), line.next_batch());
        assert_eq!((streams(&first).len(), streams(&second).len()), (32, 32));
        line.waiting.extend((64..96).map(|number| waiting(number, locks(&[(number, true)]))));
        assert!(line.next_batch().is_none(), "two are under way");
        line.is_done(&first.unwrap().1);
        assert_eq!(streams(&line.next_batch()).len(), 32);
    }

    #[test]
    fn what_would_be_in_the_way_keeps_its_turn() {
        // All of the second half go to streams of the first, but for the last.
        let mut line = line((0..32).chain(0..31).chain([99]));
        let (first, second) = (line.next_batch(), line.next_batch());
        assert_eq!(streams(&first).len(), 32);
        assert_eq!(streams(&second), ["99"]);
        line.is_done(&first.unwrap().1);
        let third = line.next_batch();
        assert_eq!(streams(&third), (0..31).map(|number| number.to_string()).collect::<Vec<_>>());
        line.is_done(&second.unwrap().1);
        line.is_done(&third.unwrap().1);
        assert!(line.taken.0.is_empty(), "what was taken is given back");
    }

    /// One that has to wait is not overtaken by a later one with which it shares something else.
    #[test]
    fn nobody_overtakes_whoever_waits_for_the_same() {
        let mut line = line(0..32);
        line.waiting.push_back(waiting(32, locks(&[(0, true), (500, true)])));
        line.waiting.push_back(waiting(33, locks(&[(500, true)])));
        line.waiting.extend((34..64).map(|number| waiting(number, locks(&[(number, true)]))));
        let (first, second) = (line.next_batch(), line.next_batch());
        assert!(streams(&first).contains(&"0".to_owned()));
        let second = streams(&second);
        assert!(!second.contains(&"32".to_owned()) && !second.contains(&"33".to_owned()));
        assert_eq!(second.len(), 30);
    }

    #[test]
    fn without_locks_one_batch_follows_the_other() {
        let mut line = line(0..20);
        line.waiting.push_back(waiting(20, None));
        assert_eq!(streams(&line.next_batch()).len(), 21);
        line.waiting.extend((0..40).map(|number| waiting(number, None)));
        assert!(line.next_batch().is_none());
    }
}
