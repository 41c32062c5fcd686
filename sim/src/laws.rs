//! The laws, checked against what the store holds after every step that writes.
//!
//! A ledger of its own remembers where each slot stood and which events were handled, so that a wrong
//! step shows at once and not by what comes of it later.

use crate::log::{Log, State};
use crate::scenario::Scenario;
use crate::store::{Commit, Store, name};
use anabranch_core::generation::{self, Rollout};
use anabranch_core::plan::{self, Member};
use anabranch_core::{Position, cursor};
use std::collections::BTreeMap;
use std::fmt;

/// Which law is broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name.
    pub law: &'static str,
    /// How.
    pub how: String,
}

impl Violation {
    fn new<T>(law: &'static str, how: String) -> Result<T, Self> {
        Err(Self { law, how })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.how)
    }
}

/// Where a slot of a consumer stands.
#[derive(Clone, Debug)]
struct Place {
    position: Position,
    epoch: i64,
    owner: Option<String>,
    /// The last event of it that was handled.
    handled: Position,
}

#[derive(Debug)]
struct Ledger {
    places: Vec<Place>,
    /// Which positions are handled.
    handled: Vec<bool>,
    count: usize,
}

/// Where in the world a handler runs.
pub(crate) type Lane = (usize, usize, usize);

#[derive(Debug)]
pub(crate) struct Laws {
    ledgers: Vec<Ledger>,
    rollout: Rollout,
    /// The handlers that run, for whom and in which generation.
    runs: BTreeMap<Lane, (String, i64)>,
    /// The latest generation in which a handler of a living worker began, for each consumer.
    latest: Vec<i64>,
}

impl Laws {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let (position, handled) = (Position::START, Position::START);
        let place = Place { position, epoch: 0, owner: None, handled };
        let places = vec![place; usize::from(scenario.slots)];
        let ledger = || Ledger { places: places.clone(), handled: Vec::new(), count: 0 };
        let ledgers = (0..scenario.consumers).map(|_| ledger()).collect();
        let latest = vec![0; scenario.consumers];
        Self { ledgers, rollout: scenario.rollout, runs: BTreeMap::new(), latest }
    }

    /// A commit has been written: its effects are those of the owner, in order, and once.
    pub(crate) fn committed(
        &mut self,
        store: &Store,
        log: &Log,
        commit: &Commit,
    ) -> Result<(), Violation> {
        let ledger = &mut self.ledgers[commit.consumer];
        for effect in &commit.effects {
            let (slot, position) = (usize::from(effect.slot), effect.position);
            let place = &mut ledger.places[slot];
            if place.owner.as_ref() != Some(&commit.worker) {
                let (worker, owner) = (&commit.worker, &place.owner);
                let how = format!("{worker} commits {position} of slot {slot}, owned by {owner:?}");
                return Violation::new("fence", how);
            }
            if ledger.handled.get(position.get() as usize) == Some(&true) {
                return Violation::new("once", format!("{position} of slot {slot} handled twice"));
            }
            if position <= place.handled || position <= place.position {
                let (handled, passed) = (place.handled, place.position);
                let how = format!("{position} of slot {slot} after {handled}, done up to {passed}");
                return Violation::new("order", how);
            }
            place.handled = position;
            let at = position.get() as usize;
            ledger.handled.resize(ledger.handled.len().max(at + 1), false);
            ledger.handled[at] = true;
            ledger.count += 1;
        }
        let is_recreate = self.rollout == Rollout::Recreate;
        let latest = self.latest[commit.consumer];
        let is_late = is_recreate && !commit.effects.is_empty() && commit.generation < latest;
        if is_late && store.is_listed(&commit.worker) {
            let (worker, generation) = (&commit.worker, commit.generation);
            let how = format!("{worker} commits in {generation}, others are in {latest}");
            return Violation::new("recreate", how);
        }
        self.written(store, log, commit.consumer, Some(&commit.worker))
    }

    /// Cursors of a consumer have been written: by a commit of `mover`, or by something that moves
    /// nothing.
    pub(crate) fn written(
        &mut self,
        store: &Store,
        log: &Log,
        consumer: usize,
        mover: Option<&str>,
    ) -> Result<(), Violation> {
        let rows = &store.consumers[consumer].rows;
        if let Err(error) = cursor::covers(rows, &store.universe) {
            return Violation::new("cover", format!("consumer {consumer}: {error}"));
        }
        let ledger = &mut self.ledgers[consumer];
        for row in rows {
            for slot in row.slots.iter().map(|slot| usize::from(slot.get())) {
                let place = &mut ledger.places[slot];
                if row.position != place.position {
                    passed(log, place, &ledger.handled, (slot, row.position), mover)?;
                    place.position = row.position;
                }
                if row.owner != place.owner || row.epoch != place.epoch {
                    if row.owner != place.owner && row.epoch <= place.epoch {
                        let (was, is) = (place.epoch, row.epoch);
                        let how = format!("slot {slot} changes hands, epoch {was} to {is}");
                        return Violation::new("fence", how);
                    }
                    place.epoch = row.epoch;
                    place.owner.clone_from(&row.owner);
                }
            }
        }
        Ok(())
    }

    /// A handler begins. If a new generation waits for the old one, nobody who lives may be at work
    /// in another.
    pub(crate) fn run_begins(
        &mut self,
        store: &Store,
        lane: Lane,
        worker: &str,
        generation: i64,
    ) -> Result<(), Violation> {
        if self.rollout != Rollout::Recreate {
            return Ok(());
        }
        if store.is_listed(worker) {
            let of_consumer = self.runs.iter().filter(|(other, _)| other.1 == lane.1);
            for (_, (other, at)) in of_consumer.filter(|(_, (_, at))| *at != generation) {
                if store.is_listed(other) {
                    let how = format!("{worker} begins in {generation}, {other} runs in {at}");
                    return Violation::new("recreate", how);
                }
            }
            let latest = &mut self.latest[lane.1];
            if generation < *latest {
                let how = format!("{worker} begins in {generation} after {latest}");
                return Violation::new("recreate", how);
            }
            *latest = generation;
        }
        self.runs.insert(lane, (worker.to_owned(), generation));
        Ok(())
    }

    pub(crate) fn run_ends(&mut self, lane: Lane) {
        self.runs.remove(&lane);
    }

    /// A process is gone, and its handlers with it.
    pub(crate) fn process_ends(&mut self, process: usize) {
        self.runs.retain(|lane, _| lane.0 != process);
    }

    /// How many events of a consumer are handled.
    pub(crate) fn handled(&self, consumer: usize) -> usize {
        self.ledgers[consumer].count
    }

    /// Liveness: what is still missing when there are no faults any more.
    pub(crate) fn missing(&self, store: &Store, log: &Log, scenario: &Scenario) -> Option<String> {
        let known = store.known();
        let assignments = &store.assignments;
        let next = generation::next(&store.universe, &known, assignments, &store.load());
        let members = generation::members(&known);
        if next.is_some() || store.workers.len() != members.len() {
            return Some(format!("the members are {members:?}, the assignments {assignments:?}"));
        }
        for (consumer, ledger) in self.ledgers.iter().enumerate() {
            let assignment = assignments.of(&name(consumer));
            let runners = members.iter().filter(|m| m.runs.contains_key(&name(consumer)));
            let mut group: Vec<_> = runners.copied().map(Member::from).collect();
            let planned = plan::plan(&store.universe, &group, assignment, &scenario.weights);
            if planned != *assignment {
                return Some(format!("{group:?} run {consumer}, the assignment is {assignment:?}"));
            }
            group.retain(|member| member.fixed.is_none());
            let loads = || group.iter().map(|member| assignment[&member.id].len());
            let gap = loads().max().unwrap_or(0) - loads().min().unwrap_or(0);
            if scenario.is_even && gap > 1 {
                return Some(format!("the assignment is uneven: {assignment:?}"));
            }
            for (owner, slots) in assignment {
                for slot in slots.iter() {
                    let place = &ledger.places[usize::from(slot.get())];
                    if place.owner.as_ref() != Some(owner) {
                        let has = &place.owner;
                        return Some(format!("slot {slot} should be of {owner}, is of {has:?}"));
                    }
                }
            }
            for (position, record) in log.committed() {
                if ledger.handled.get(position.get() as usize) != Some(&true) {
                    let slot = record.slot;
                    let how = format!("{position} of slot {slot} is not handled by {consumer}");
                    return Some(how);
                }
            }
        }
        None
    }

    pub(crate) fn liveness(how: String) -> Violation {
        Violation { law: "liveness", how }
    }
}

/// A slot goes on: only forward, only by its owner, and only over what is decided and handled.
fn passed(
    log: &Log,
    place: &Place,
    handled: &[bool],
    (slot, to): (usize, Position),
    mover: Option<&str>,
) -> Result<(), Violation> {
    let from = place.position;
    if mover.is_none() || place.owner.as_deref() != mover || to < from {
        let owner = &place.owner;
        let how = format!("slot {slot} of {owner:?} goes from {from} to {to} by {mover:?}");
        return Violation::new("fence", how);
    }
    for (position, record) in log.between(from, to) {
        if usize::from(record.slot) != slot {
            continue;
        }
        if record.state == State::InFlight {
            let how = format!("slot {slot} goes to {to} while {position} is in flight");
            return Violation::new("no skip", how);
        }
        let is_handled = handled.get(position.get() as usize) == Some(&true);
        if record.state == State::Committed && !is_handled {
            let how = format!("slot {slot} goes to {to}, {position} was not handled");
            return Violation::new("no skip", how);
        }
    }
    Ok(())
}
