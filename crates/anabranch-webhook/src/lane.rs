//! One lane of a webhook: what it knows about deliveries, and how it delivers several keys at the same time.
//!
//! A batch of the engine holds events of many keys. Each key has its deliveries one after the other; the keys go side by
//! side. The cursor moves behind the longest run of events, from the first one on, that have arrived; what arrived beyond
//! it is remembered here until the cursor gets there, and sent again only if the lane loses its slots before that.

use crate::endpoint::{Attempt, Verdict};
use crate::message;
use crate::tables::Group;
use crate::webhook::Hook;
use anabranch_core::engine_event::Notice;
use anabranch_core::{Event, Happening, Position, StoreError};
use anabranch_runtime::{Consumers, CourierLane, HandlerError, HandlerResult, Permit, Permits, Tx};
use anabranch_store::database::Statement;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long deliveries go on before the cursor moves: what a crash repeats is bounded by it.
const MAX_DELIVERING: Duration = Duration::from_millis(500);
/// After so many deliveries that arrived, old ones are removed.
const PRUNE: usize = 2_000;

/// What one lane of a webhook knows.
pub struct Lane {
    hook: Arc<Hook>,
    permits: Permits,
    edition: Option<i64>,
    /// Deliveries that are stored and whose events are not all behind the cursor, by their keys. Only with `batch` above 1.
    groups: HashMap<String, Vec<Group>>,
    /// Events that have arrived and are not behind the cursor. The first of a delivery has what is to be written about it.
    arrived: HashMap<Position, Option<(Group, Attempt)>>,
    /// Deliveries that failed, by their first events, until the engine is told.
    failed: HashMap<Position, Attempt>,
    /// The events that the transaction under way takes behind the cursor.
    passing: Vec<(String, Position)>,
    pace: Pace,
    since_prune: usize,
}

/// How many deliveries are under way at the same time: fewer where what stands before the endpoint fails.
struct Pace {
    now: usize,
    most: usize,
    good: usize,
}

impl Pace {
    fn of(most: usize) -> Self {
        Self { now: most, most, good: 0 }
    }

    fn learn(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Arrived => {
                self.good += 1;
                if self.good >= self.now {
                    (self.now, self.good) = ((self.now + 1).min(self.most), 0);
                }
            }
            Verdict::Strained { .. } => (self.now, self.good) = ((self.now / 2).max(1), 0),
            _ => {}
        }
    }
}

/// A delivery of this call: which of the call's events it holds.
struct Unit {
    group: Group,
    events: Vec<usize>,
}

/// The deliveries of one key, in order.
struct Queue {
    units: VecDeque<Unit>,
}

impl Queue {
    /// The place of its next event among those of the call.
    fn place(&self) -> Option<usize> {
        self.units.front()?.events.first().copied()
    }
}

/// Keys whose next delivery can be sent, by its place: what stands first goes first, so that the cursor gets on and
/// little has arrived beyond it.
type Ready = BTreeMap<usize, Queue>;

impl Lane {
    pub(crate) fn new(hook: Arc<Hook>, permits: Permits) -> Self {
        let pace = Pace::of(hook.concurrency.max(1));
        Self {
            hook,
            permits,
            edition: None,
            groups: HashMap::new(),
            arrived: HashMap::new(),
            failed: HashMap::new(),
            passing: Vec::new(),
            pace,
            since_prune: 0,
        }
    }

    fn notice(&self, notice: Notice, error: &impl Display) {
        self.hook.notice(notice, error);
    }

    fn key(&self, event: &Event) -> String {
        // Events without a key never come this far.
        self.hook.partition.key(event).map(|key| key.into_owned()).unwrap_or_default()
    }

    /// Why an event was not taken, if it was not. The next time it is tried again.
    fn failure_of(&mut self, event: &Event) -> Option<HandlerError> {
        self.failed.remove(&event.position())?.error(&self.hook.endpoint.address())
    }

    fn known(&self, key: &str, position: Position) -> Option<&Group> {
        self.groups.get(key)?.iter().find(|group| group.holds(position))
    }

    async fn edition(&mut self) -> HandlerResult<i64> {
        if let Some(edition) = self.edition {
            return Ok(edition);
        }
        let tables = &self.hook.tables;
        let rows = tables.database.rows(tables.edition(&self.hook.name)).await?;
        Ok(*self.edition.insert(tables.edition_of(&rows)?))
    }

    /// What is to be sent of these events: a queue for each key. What has arrived is left out, and so is what follows
    /// something that failed.
    fn queues(&mut self, events: &[Event], edition: i64) -> Ready {
        let mut keys: HashMap<String, usize> = HashMap::new();
        let mut queues: Vec<(Queue, bool)> = Vec::new();
        for (number, event) in events.iter().enumerate() {
            let position = event.position();
            let key = self.key(event);
            let place = *keys.entry(key.clone()).or_insert_with(|| {
                queues.push((Queue { units: VecDeque::new() }, false));
                queues.len() - 1
            });
            if self.arrived.contains_key(&position) {
                continue;
            }
            let (queue, is_held) = &mut queues[place];
            *is_held |= self.failed.contains_key(&position);
            if *is_held {
                continue;
            }
            if self.hook.batch == 1 {
                let id = message::id(&self.hook.name, edition, [event]);
                let members = vec![position];
                let group = Group { id, key, edition, members, has_arrived: false };
                queue.units.push_back(Unit { group, events: vec![number] });
                continue;
            }
            let Some(group) = self.known(&key, position).cloned() else { continue };
            if group.has_arrived {
                // By somebody before us, or as one of those that came with the first.
                self.arrived.insert(position, None);
                continue;
            }
            match queue.units.back_mut().filter(|unit| unit.group.id == group.id) {
                Some(unit) => unit.events.push(number),
                None => queue.units.push_back(Unit { group, events: vec![number] }),
            }
        }
        queues.into_iter().filter_map(|(queue, _)| Some((queue.place()?, queue))).collect()
    }

    /// A delivery has ended.
    async fn ended(&mut self, unit: &Unit, events: &[Event], attempt: Attempt) {
        self.pace.learn(attempt.verdict);
        let hook = Arc::clone(&self.hook);
        if attempt.verdict == Verdict::Arrived {
            let mut row = Some((unit.group.clone(), attempt));
            for &number in &unit.events {
                self.arrived.insert(events[number].position(), row.take());
            }
            if let Some(known) = self.groups.get_mut(&unit.group.key) {
                let same = known.iter_mut().filter(|group| group.id == unit.group.id);
                same.for_each(|group| group.has_arrived = true);
            }
            return;
        }
        // It is only there to be looked at: without it nothing is lost.
        if let Err(error) = hook.tables.failed(&hook.name, &unit.group, &attempt).await {
            self.notice(Notice::AttemptNotKept, &error);
        }
        let is_said = self.failed.values().any(|failed| failed.verdict == Verdict::Gone);
        if attempt.verdict == Verdict::Gone && !is_said {
            self.notice(Notice::EndpointGone, &attempt.said());
            if let Err(error) = Consumers::new(&hook.log).pause(&hook.name).await {
                self.notice(Notice::CannotPause, &error);
            }
        }
        if let Some(&first) = unit.events.first() {
            self.failed.insert(events[first].position(), attempt);
        }
    }

    /// Sends what is to be sent, as many keys at the same time as there may be.
    async fn send_all(&mut self, events: &[Event], mut ready: Ready) {
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
                        match hook.turn().await {
                            Ok(()) => Started::Now(permit),
                            Err(error) => Started::Not(error),
                        }
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
                            Started::Now(permit) => {
                                let attempt = hook.send(&unit, events).await;
                                drop(permit);
                                Some(attempt)
                            }
                            Started::Not(error) => Some(not_sent(error.to_string())),
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
    }
}

/// Whether a delivery can begin.
enum Started {
    Now(Permit),
    Not(StoreError),
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

/// What stands for an attempt that was not made: nothing left this machine.
fn not_sent(said: String) -> Attempt {
    let (at, verdict) = (jiff::Timestamp::now(), Verdict::Unreachable);
    Attempt { at, status: None, took: Duration::ZERO, answer: said, verdict }
}

impl Hook {
    fn notice(&self, notice: Notice, error: &impl Display) {
        let events = self.tables.database.events().of(&self.name);
        events.emit(Happening::failed(notice, error));
    }

    /// Waits for its turn, if there are so many in a second.
    async fn turn(&self) -> Result<(), StoreError> {
        match &self.rate {
            Some(rate) => rate.turn().await,
            None => Ok(()),
        }
    }

    /// Sends one delivery.
    async fn send(&self, unit: &Unit, events: &[Event]) -> Attempt {
        let failed =
            |said: String| Attempt { verdict: Verdict::Failed { after: None }, ..not_sent(said) };
        // Members that came with another batch of the engine, or will: they belong to the message all the same.
        let mut missing = Vec::new();
        for &position in &unit.group.members {
            if unit.events.iter().any(|&number| events[number].position() == position) {
                continue;
            }
            match self.event_at(position).await {
                Ok(Some(event)) => missing.push(event),
                Ok(None) => {
                    return failed(format!(
                        "the event at position {position} is not in the log any more"
                    ));
                }
                Err(error) => return not_sent(error.to_string()),
            }
        }
        let mut members: Vec<&Event> =
            unit.events.iter().map(|&number| &events[number]).chain(&missing).collect();
        members.sort_by_key(|event| event.position());
        let body = match self.body(&unit.group.key, &members) {
            Ok(body) => body,
            Err(error) => return failed(format!("it cannot be written as JSON: {error}")),
        };
        self.endpoint.send(&unit.group.id, body).await
    }
}

impl CourierLane for Lane {
    fn together(&self) -> usize {
        self.hook.batch
    }

    fn prepares(&mut self, events: &[Event]) -> bool {
        let is_known = |event: &Event| self.known(&self.key(event), event.position()).is_some();
        self.hook.batch > 1 && !events.iter().all(is_known)
    }

    async fn prepare(&mut self, events: &[Event], tx: &mut Tx) -> HandlerResult {
        let (hook, tables) = (Arc::clone(&self.hook), self.hook.tables.clone());
        let (Some(first), Some(last)) =
            (events.iter().map(Event::position).min(), events.iter().map(Event::position).max())
        else {
            return Ok(());
        };
        let edition = tables.edition_of(&tx.query_own(tables.edition(&hook.name)).await?)?;
        self.edition = Some(edition);
        let stored = tx.query_own(tables.groups(&hook.name, edition, (first, last))).await?;
        let mut firsts: HashMap<String, Position> = HashMap::new();
        for event in events {
            firsts.entry(self.key(event)).or_insert_with(|| event.position());
        }
        let mut groups: HashMap<String, Vec<Group>> = HashMap::new();
        for row in &stored {
            let group = tables.group_of(row)?;
            // Others are of other lanes.
            let Some(&first) = firsts.get(&group.key) else { continue };
            if !group.has_arrived && group.first() < first && group.holds(first) {
                // Its first events were left out, or are not to be repeated: the rest is another message.
                tx.run_own(tables.drop_group(&hook.name, &group.id)).await?;
                continue;
            }
            groups.entry(group.key.clone()).or_default().push(group);
        }
        let mut new: Vec<(Group, Vec<&Event>)> = Vec::new();
        let mut open: HashMap<String, usize> = HashMap::new();
        for event in events {
            let (key, position) = (self.key(event), event.position());
            if groups.get(&key).is_some_and(|known| known.iter().any(|group| group.holds(position)))
            {
                open.remove(&key);
                continue;
            }
            let place = match open.get(&key) {
                Some(&place) if new[place].1.len() < hook.batch => place,
                _ => {
                    let members = Vec::new();
                    let group = Group {
                        id: String::new(),
                        key: key.clone(),
                        edition,
                        members,
                        has_arrived: false,
                    };
                    new.push((group, Vec::new()));
                    open.insert(key, new.len() - 1);
                    new.len() - 1
                }
            };
            new[place].0.members.push(position);
            new[place].1.push(event);
        }
        let named = new.into_iter().map(|(group, members)| {
            let id = message::id(&hook.name, edition, members);
            Group { id, ..group }
        });
        let new: Vec<Group> = named.collect();
        if !new.is_empty() {
            let now = jiff::Timestamp::now().as_microsecond();
            tx.run_own(Statement::rows(tables.keep_groups(&hook.name, &new, now))).await?;
        }
        for group in new {
            groups.entry(group.key.clone()).or_default().push(group);
        }
        // Those of this lane that are not in question now stay as they are.
        for (key, of_key) in groups {
            self.groups.insert(key, of_key);
        }
        Ok(())
    }

    async fn deliver(&mut self, events: &[Event], tx: &mut Tx) -> HandlerResult<usize> {
        if let Some(error) = events.first().and_then(|event| self.failure_of(event)) {
            return Err(error);
        }
        let edition = self.edition().await?;
        let queues = self.queues(events, edition);
        if !queues.is_empty() {
            self.send_all(events, queues).await;
        }
        let has_arrived = |event: &&Event| self.arrived.contains_key(&event.position());
        let passing = events.iter().take_while(has_arrived).count();
        if passing == 0 {
            let error = events.first().and_then(|event| self.failure_of(event));
            return Err(error.unwrap_or_else(|| HandlerError::new("it was not sent")));
        }
        self.passing =
            events[..passing].iter().map(|event| (self.key(event), event.position())).collect();
        let rows =
            self.passing.iter().filter_map(|(_, position)| self.arrived.get(position)?.clone());
        let rows: Vec<(Group, Attempt)> = rows.collect();
        if !rows.is_empty() {
            self.since_prune += rows.len();
            let rows = self.hook.tables.arrived(&self.hook.name, &rows);
            tx.run_own(Statement::rows(rows)).await?;
        }
        if self.since_prune >= PRUNE {
            self.since_prune = 0;
            let hook = Arc::clone(&self.hook);
            // Beside the deliveries, which need not wait for it.
            tokio::spawn(async move {
                if let Err(error) = hook.tables.prune(&hook.name).await {
                    hook.notice(Notice::DeliveriesNotPruned, &error);
                }
            });
        }
        Ok(passing)
    }

    fn settled(&mut self, committed: bool) {
        if !committed {
            // What was to be stored may not be: it is looked up.
            self.groups.clear();
            self.passing.clear();
            return;
        }
        for (key, position) in self.passing.drain(..) {
            self.arrived.remove(&position);
            if let Some(known) = self.groups.get_mut(&key) {
                known.retain(|group| group.last() != position);
                if known.is_empty() {
                    self.groups.remove(&key);
                }
            }
        }
    }
}
