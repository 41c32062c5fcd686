//! One lane of a webhook: what it knows about deliveries, and how it delivers several keys at the same time.
//!
//! A batch of the engine holds events of many keys. Each key has its deliveries one after the other; the keys go side by
//! side. The cursor moves behind the longest run of events, from the first one on, that have arrived; what arrived beyond
//! it is remembered here until the cursor gets there, and sent again only if the lane loses its slots before that.

use crate::endpoint::{Attempt, Verdict};
use crate::message;
use crate::pace::Pace;
use crate::tables::{Group, Terms};
use crate::webhook::Hook;
use anabranch_core::engine_event::Notice;
use anabranch_core::{Event, Happening, Position};
use anabranch_runtime::{CourierLane, HandlerError, HandlerResult, Permits, Tx};
use anabranch_store::Emitter;
use anabranch_store::database::Statement;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Display;
use std::sync::Arc;

/// After so many attempts, old deliveries are removed.
const PRUNE: usize = 2_000;

/// What one lane of a webhook knows.
pub struct Lane {
    pub(crate) hook: Arc<Hook>,
    /// Who sees what it tries.
    pub(crate) events: Option<Emitter>,
    pub(crate) permits: Permits,
    terms: Option<Terms>,
    /// Deliveries that are stored and whose events are not all behind the cursor, by their keys. With `batch` = 1 those
    /// with several events, of a time when it was more.
    groups: HashMap<String, Vec<Group>>,
    /// With `batch` = 1: no delivery with several events is stored from here on.
    no_groups_from: Option<Position>,
    /// Events that have arrived and are not behind the cursor. The first of a delivery has what is to be written about it.
    pub(crate) arrived: HashMap<Position, Option<(Group, Attempt)>>,
    /// Deliveries that failed, by their first events, until the engine is told.
    pub(crate) failed: HashMap<Position, Attempt>,
    /// The events that the transaction under way takes behind the cursor.
    passing: Vec<(String, Position)>,
    pub(crate) pace: Pace,
    /// Attempts since old deliveries were removed.
    since_prune: usize,
}

/// A delivery of this call: which of the call's events it holds.
pub(crate) struct Unit {
    pub(crate) group: Group,
    pub(crate) events: Vec<usize>,
}

/// The deliveries of one key, in order.
pub(crate) struct Queue {
    pub(crate) units: VecDeque<Unit>,
}

impl Queue {
    /// The place of its next event among those of the call.
    pub(crate) fn place(&self) -> Option<usize> {
        self.units.front()?.events.first().copied()
    }
}

/// Keys whose next delivery can be sent, by its place: what stands first goes first, so that the cursor gets on and
/// little has arrived beyond it.
pub(crate) type Ready = BTreeMap<usize, Queue>;

impl Lane {
    pub(crate) fn new(hook: Arc<Hook>, permits: Permits) -> Self {
        let pace = Pace::of(hook.concurrency.max(1));
        Self {
            hook,
            events: None,
            permits,
            terms: None,
            groups: HashMap::new(),
            no_groups_from: None,
            arrived: HashMap::new(),
            failed: HashMap::new(),
            passing: Vec::new(),
            pace,
            // Lanes may be short-lived: each one removes what is old when it begins.
            since_prune: PRUNE,
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

    async fn terms(&mut self) -> HandlerResult<&Terms> {
        if self.terms.is_none() {
            let tables = &self.hook.tables;
            let rows = tables.database.rows(tables.terms(&self.hook.name)).await?;
            self.terms = Some(tables.terms_of(&rows)?);
        }
        Ok(self.terms.get_or_insert_default())
    }

    /// The members of a delivery that is not stored, if these events need none.
    fn single(&self, event: &Event, key: &str, edition: i64) -> Option<Group> {
        let id = || message::id(&self.hook.name, edition, [event]);
        (self.hook.batch == 1).then(|| Group {
            id: id(),
            key: key.to_owned(),
            edition,
            members: vec![event.position()],
            has_arrived: false,
        })
    }

    /// Removes what is old now and then, beside the deliveries, which need not wait for it.
    fn prune_sometimes(&mut self) {
        if self.since_prune < PRUNE {
            return;
        }
        self.since_prune = 0;
        let hook = Arc::clone(&self.hook);
        tokio::spawn(async move {
            let (kept, needs_members) = (hook.kept, hook.batch > 1);
            if let Err(error) = hook.tables.prune(&hook.name, kept, needs_members).await {
                hook.notice(Notice::DeliveriesNotPruned, &error);
            }
        });
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
            let known = self.known(&key, position).cloned();
            let Some(group) = known.or_else(|| self.single(event, &key, edition)) else { continue };
            if group.has_arrived {
                // By somebody before us, or as one of those that came with the first.
                self.arrived.insert(position, None);
                continue;
            }
            // An event that came into the scope later may stand between two of a message: it comes after that.
            match queue.units.iter_mut().find(|unit| unit.group.id == group.id) {
                Some(unit) => unit.events.push(number),
                None => queue.units.push_back(Unit { group, events: vec![number] }),
            }
        }
        queues.into_iter().filter_map(|(queue, _)| Some((queue.place()?, queue))).collect()
    }

    /// A delivery has ended.
    pub(crate) async fn ended(&mut self, unit: &Unit, events: &[Event], attempt: Attempt) {
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
        self.since_prune += 1;
        // It is only there to be looked at: without it nothing is lost.
        if let Err(error) = hook.tables.failed(&hook.name, &unit.group, &attempt).await {
            self.notice(Notice::AttemptNotKept, &error);
        }
        let is_said = self.failed.values().any(|failed| failed.verdict == Verdict::Gone);
        if attempt.verdict == Verdict::Gone && !is_said {
            self.notice(Notice::EndpointGone, &attempt.said());
            let code = self.terms.as_ref().map(|terms| terms.code.as_str()).unwrap_or_default();
            if let Err(error) = hook.tables.pause(&hook.name, code).await {
                self.notice(Notice::CannotPause, &error);
            }
        }
        if let Some(&first) = unit.events.first() {
            self.failed.insert(events[first].position(), attempt);
        }
    }
}

impl Hook {
    fn notice(&self, notice: Notice, error: &impl Display) {
        let events = self.tables.database.events().of(&self.name);
        events.emit(Happening::failed(notice, error));
    }
}

impl CourierLane for Lane {
    fn seen_by(&mut self, events: &Emitter) {
        self.events = Some(events.clone());
    }

    fn together(&self) -> usize {
        self.hook.batch
    }

    fn prepares(&mut self, events: &[Event]) -> bool {
        if self.hook.batch == 1 {
            // Deliveries that were begun with several events are honoured: their members go under no other ids.
            let is_single = |from| events.iter().all(|event| event.position() >= from);
            return !self.no_groups_from.is_some_and(is_single);
        }
        let is_known = |event: &Event| self.known(&self.key(event), event.position()).is_some();
        !events.iter().all(is_known)
    }

    async fn prepare(&mut self, events: &[Event], tx: &mut Tx) -> HandlerResult {
        let (hook, tables) = (Arc::clone(&self.hook), self.hook.tables.clone());
        let (Some(first), Some(last)) =
            (events.iter().map(Event::position).min(), events.iter().map(Event::position).max())
        else {
            return Ok(());
        };
        let terms = tables.terms_of(&tx.query_own(tables.terms(&hook.name)).await?)?;
        let edition = self.terms.insert(terms).edition;
        let is_single = hook.batch == 1;
        let (up_to, least) =
            if is_single { (Position::new(i64::MAX as u64), 2) } else { (last, 1) };
        let groups = tables.groups(&hook.name, edition, (first, up_to), least);
        let stored = tx.query_own(groups).await?;
        if is_single && stored.is_empty() {
            self.no_groups_from = Some(first);
        }
        let mut firsts: HashMap<String, Position> = HashMap::new();
        for event in events {
            firsts.entry(self.key(event)).or_insert_with(|| event.position());
        }
        let mut groups: HashMap<String, Vec<Group>> = HashMap::new();
        for row in &stored {
            let group = tables.group_of(row)?;
            // Others are of other lanes.
            let Some(&first) = firsts.get(&group.key) else { continue };
            if group.last() < first {
                // All of it is done.
                continue;
            }
            if !group.has_arrived && group.first() < first {
                // Its first events were left out, or are not to be repeated: the rest is another message.
                tx.run_own(tables.drop_group(&hook.name, &group.id)).await?;
                continue;
            }
            groups.entry(group.key.clone()).or_default().push(group);
        }
        let mut new: Vec<(Group, Vec<&Event>)> = Vec::new();
        let mut open: HashMap<String, usize> = HashMap::new();
        for event in events.iter().filter(|_| !is_single) {
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
        self.prune_sometimes();
        let edition = self.terms().await?.edition;
        let queues = self.queues(events, edition);
        let sent = match queues.is_empty() {
            true => Ok(()),
            false => self.send_all(events, queues).await,
        };
        let has_arrived = |event: &&Event| self.arrived.contains_key(&event.position());
        let passing = events.iter().take_while(has_arrived).count();
        if passing == 0 {
            let error = events.first().and_then(|event| self.failure_of(event));
            if let (None, Err(away)) = (&error, sent) {
                return Err(away.into());
            }
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
        Ok(passing)
    }

    async fn deliver_again(&mut self, key: &str, events: &str, tx: &mut Tx) -> HandlerResult {
        // What it knows of them is that they have arrived.
        self.groups.remove(key);
        tx.run_own(self.hook.tables.open_again(&self.hook.name, key, events)).await
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
                known.retain(|group| group.last() > position);
                if known.is_empty() {
                    self.groups.remove(&key);
                }
            }
        }
    }
}
