//! How a lane sends what is ready: several keys at the same time, as many as there may be.

use crate::endpoint::{Attempt, Verdict};
use crate::lane::{Lane, Ready, Unit};
use crate::webhook::Hook;
use anabranch_core::{Event, Happening, StoreError};
use anabranch_runtime::Permit;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long deliveries go on before the cursor moves: what a crash repeats is bounded by it.
const MAX_DELIVERING: Duration = Duration::from_millis(500);

impl Lane {
    /// Sends what is to be sent, as many keys at the same time as there may be.
    ///
    /// An error is of the database: what it was about is not sent for now, and the endpoint has nothing to do with it.
    pub(crate) async fn send_all(
        &mut self,
        events: &[Event],
        mut ready: Ready,
    ) -> Result<(), StoreError> {
        let mut away = None;
        let (began, mut under_way) = (Instant::now(), FuturesUnordered::new());
        let first = events[0].position();
        let (over, is_over) = watch::channel(false);
        // Those that wait for a permit.
        let waiting = Arc::new(AtomicUsize::new(0));
        loop {
            while !*over.borrow() && under_way.len() < self.pace.now {
                let Some((_, mut queue)) = ready.pop_first() else { break };
                let Some(unit) = queue.units.pop_front() else { continue };
                let (hook, permit) = (Arc::clone(&self.hook), self.permits.next());
                let (waits, mut is_over) = (Waits::new(&waiting), is_over.clone());
                // All of them depend on the first one: it is sent in any case.
                let is_first = unit.events.first() == Some(&0);
                under_way.push(async move {
                    let send = async {
                        let permit = permit.await;
                        drop(waits);
                        hook.turn().await.map(|()| permit)
                    };
                    let ended = async {
                        match is_first {
                            true => std::future::pending().await,
                            false => drop(is_over.wait_for(|over| *over).await),
                        }
                    };
                    let attempt = tokio::select! {
                        biased;
                        started = send => match started {
                            Ok(permit) => {
                                let attempt = hook.send(&unit, events).await;
                                drop::<Permit>(permit);
                                Some(attempt)
                            }
                            Err(error) => Some(Err(error)),
                        },
                        () = ended => None,
                    };
                    (queue, unit, attempt)
                });
            }
            self.permits.wants(waiting.load(Ordering::Relaxed));
            let Some((queue, unit, attempt)) = under_way.next().await else { break };
            // One that was not begun is begun by the next call.
            let Some(attempt) = attempt else { continue };
            let attempt = match attempt {
                Ok(attempt) => attempt,
                Err(error) => {
                    away = Some(error);
                    over.send_replace(true);
                    // Nothing is sent without the first one, which waits for the database as well.
                    continue;
                }
            };
            if let Some(events) = &self.events {
                events.emit(Happening::delivery_tried(attempt.verdict.name(), attempt.took));
            }
            let (has_arrived, is_about_endpoint) =
                (attempt.verdict == Verdict::Arrived, attempt.is_about_endpoint());
            self.ended(&unit, events, attempt).await;
            if let Some(place) = queue.place().filter(|_| has_arrived) {
                ready.insert(place, queue);
            }
            // While the first one lasts the others go on, since nothing is to be committed.
            let has_first = self.arrived.contains_key(&first);
            let is_late = has_first && began.elapsed() > MAX_DELIVERING;
            if is_about_endpoint || is_late || self.failed.contains_key(&first) {
                over.send_replace(true);
            }
        }
        self.permits.wants(0);
        away.map_or(Ok(()), Err)
    }
}

/// One that waits for a permit, while it does.
struct Waits(Arc<AtomicUsize>);

impl Waits {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hook {
    /// Waits for its turn, if there are so many in a second.
    async fn turn(&self) -> Result<(), StoreError> {
        match &self.rate {
            Some(rate) => rate.turn().await,
            None => Ok(()),
        }
    }

    /// Sends one delivery: its members, and no other event.
    async fn send(&self, unit: &Unit, events: &[Event]) -> Result<Attempt, StoreError> {
        let mut members = Vec::with_capacity(unit.group.members.len());
        for &position in &unit.group.members {
            let mut here = unit.events.iter().map(|&number| &events[number]);
            if let Some(event) = here.find(|event| event.position() == position) {
                members.push(Cow::Borrowed(event));
                continue;
            }
            // It came with another batch of the engine, or will: it belongs to the message all the same.
            match self.event_at(position).await? {
                Some(event) => members.push(Cow::Owned(event)),
                None => {
                    let said = "is not in the log any more";
                    return Ok(not_sent(format!("the event at position {position} {said}")));
                }
            }
        }
        let members: Vec<&Event> = members.iter().map(AsRef::as_ref).collect();
        match self.body(&unit.group.key, &members) {
            Ok(body) => Ok(self.endpoint.send_for(&unit.group.id, body, members).await),
            Err(error) => Ok(not_sent(format!("it cannot be written as JSON: {error}"))),
        }
    }
}

/// What stands for an attempt that was not made, since there is something wrong with the message.
fn not_sent(said: String) -> Attempt {
    let (at, verdict) = (jiff::Timestamp::now(), Verdict::Failed { after: None });
    Attempt { at, status: None, took: Duration::ZERO, answer: said, verdict }
}
