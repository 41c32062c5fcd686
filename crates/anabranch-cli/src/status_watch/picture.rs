//! What is drawn: one look at the consumers and their workers, beside the look before it.

use super::look::Looked;
use super::why::Why;
use crate::status::{OpenTasks, POOL, UNRUN, lag, state};
use anabranch::operate::{ConsumerStatus, CursorStatus, Owner, WorkerStatus};
use anabranch::partitioning::SlotSet;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// All that is seen of one look.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    /// The end of the log.
    pub(super) head: u64,
    /// Events a second since the look before.
    pub(super) appended: Option<u64>,
    pub(super) consumers: Vec<ConsumerLine>,
    pub(super) sets: Vec<SetLine>,
}

/// A consumer.
#[derive(Clone, Debug, Default)]
pub(super) struct ConsumerLine {
    pub(super) name: String,
    /// In words, if no number would mean anything.
    pub(super) lag: String,
    /// Events that were passed, a second, since the look before; not of a pool, and not of one that went back.
    pub(super) rate: Option<u64>,
    pub(super) parked: String,
    pub(super) retrying: usize,
    pub(super) state: String,
    /// Whether somebody should look at it.
    pub(super) is_wrong: bool,
    pub(super) parts: Vec<Part>,
    /// Slots with keys that have failed.
    pub(super) marks: Vec<(u16, Why)>,
}

/// What one cursor holds.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) slots: SlotSet,
    pub(super) owner: Option<Mark>,
    /// None if it is not known.
    pub(super) lag: Option<u64>,
    pub(super) why: Option<Why>,
}

/// A worker as a map shows it: by a number that stays while it lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub(super) number: usize,
    pub(super) place: String,
}

/// A replica set.
#[derive(Clone, Debug, Default)]
pub(super) struct SetLine {
    pub(super) name: String,
    pub(super) lanes: usize,
    pub(super) alive: Vec<Mark>,
    pub(super) dead: usize,
}

/// What is remembered from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    numbers: BTreeMap<String, usize>,
    /// How far the log and the consumers were, and when.
    before: Option<(Instant, u64, BTreeMap<String, f64>)>,
}

impl Picture {
    pub(super) fn of(looked: &Looked, memory: &mut Memory) -> Self {
        memory.meet(looked);
        let progress = looked.consumers.iter().map(|status| (status.name.clone(), passed(status)));
        let progress: BTreeMap<String, f64> = progress.collect();
        let before = memory.before.take();
        let rate = |now: f64, before: f64, at: Instant| {
            let seconds = looked.at.duration_since(at).as_secs_f64();
            (seconds > 0.0 && now >= before).then(|| ((now - before) / seconds).round() as u64)
        };
        let appended = before
            .as_ref()
            .and_then(|(at, head, _)| rate(looked.head.get() as f64, *head as f64, *at));
        let rate_of = |status: &ConsumerStatus| {
            let (at, _, all) = before.as_ref().filter(|_| status.kind != POOL)?;
            rate(passed(status), *all.get(&status.name)?, *at)
        };
        let consumers = looked.consumers.iter().map(|status| {
            let mut line = ConsumerLine::of(status, looked, memory);
            line.rate = rate_of(status);
            line
        });
        let mut consumers: Vec<ConsumerLine> = consumers.collect();
        consumers.extend(looked.unrun.iter().map(|pool| ConsumerLine {
            name: pool.name.clone(),
            lag: pool.lag.to_string(),
            parked: "-".to_owned(),
            state: UNRUN.to_owned(),
            is_wrong: true,
            ..ConsumerLine::default()
        }));
        memory.before = Some((looked.at, looked.head.get(), progress));
        Self { head: looked.head.get(), appended, consumers, sets: memory.sets(&looked.workers) }
    }

    /// How many workers live.
    pub(super) fn workers(&self) -> usize {
        self.sets.iter().map(|set| set.alive.len()).sum()
    }
}

/// How far a consumer is, in events: its cursors by how many slots they hold, so that a cursor that is divided or
/// joined changes nothing.
fn passed(status: &ConsumerStatus) -> f64 {
    let slots: usize = status.cursors.iter().map(|cursor| cursor.slot_count).sum();
    let weighted = |cursor: &CursorStatus| cursor.position.get() as f64 * cursor.slot_count as f64;
    status.cursors.iter().map(weighted).sum::<f64>() / slots.max(1) as f64
}

impl ConsumerLine {
    fn of(status: &ConsumerStatus, looked: &Looked, memory: &Memory) -> Self {
        let parked = match OpenTasks::of(status, &looked.pools) {
            Some(tasks) => tasks.in_words(),
            None => status.parked_keys.to_string(),
        };
        let parts: Vec<Part> =
            status.cursors.iter().map(|cursor| part(status, cursor, looked, memory)).collect();
        let stands = parts.iter().filter_map(|part| part.why).any(Why::is_trouble);
        Self {
            name: status.name.clone(),
            lag: lag(&status.cursors, status.lag),
            rate: None,
            parked,
            retrying: status.retrying_keys,
            state: match &status.problem {
                Some(problem) => format!("{}; {problem}", state(status)),
                None => state(status),
            },
            is_wrong: stands || status.parked_keys > 0 || status.problem.is_some(),
            parts,
            marks: looked.marks.get(&status.name).cloned().unwrap_or_default(),
        }
    }
}

fn part(status: &ConsumerStatus, cursor: &CursorStatus, looked: &Looked, memory: &Memory) -> Part {
    let owner = match &cursor.owner {
        Owner::Unassigned => None,
        Owner::Worker(worker) => Some(memory.mark(&worker.id, worker.place())),
        Owner::Dead(id) => {
            let worker = looked.workers.iter().find(|worker| worker.id == *id);
            Some(memory.mark(id, worker.map_or_else(|| id.clone(), WorkerStatus::place)))
        }
    };
    Part {
        slots: cursor.slot_set().clone(),
        owner,
        lag: status.is_lag_known().then_some(cursor.lag),
        why: Why::of(&cursor.reasons),
    }
}

impl Memory {
    /// Who is new gets the lowest number that is free, and whoever is gone gives theirs back.
    fn meet(&mut self, looked: &Looked) {
        let alive = looked.workers.iter().filter(|worker| worker.is_alive);
        let owners = looked.consumers.iter().flat_map(|status| &status.cursors).filter_map(owner);
        let there: BTreeSet<&str> = alive.map(|worker| worker.id.as_str()).chain(owners).collect();
        self.take_in(&there);
    }

    fn take_in(&mut self, there: &BTreeSet<&str>) {
        self.numbers.retain(|id, _| there.contains(id.as_str()));
        for id in there {
            if !self.numbers.contains_key(*id) {
                let taken: BTreeSet<usize> = self.numbers.values().copied().collect();
                let free = (0..).find(|number| !taken.contains(number));
                self.numbers.insert((*id).to_owned(), free.unwrap_or_default());
            }
        }
    }

    fn mark(&self, id: &str, place: String) -> Mark {
        Mark { number: self.numbers.get(id).copied().unwrap_or_default(), place }
    }

    fn sets(&self, workers: &[WorkerStatus]) -> Vec<SetLine> {
        let mut sets: BTreeMap<&str, SetLine> = BTreeMap::new();
        for worker in workers {
            let set = sets.entry(&worker.replica_set).or_default();
            if worker.is_alive {
                set.lanes += worker.lanes;
                set.alive.push(self.mark(&worker.id, worker.place()));
            } else {
                set.dead += 1;
            }
        }
        let named = sets.into_iter().map(|(name, mut set)| {
            set.alive.sort();
            SetLine { name: name.to_owned(), ..set }
        });
        named.collect()
    }
}

fn owner(cursor: &CursorStatus) -> Option<&str> {
    match &cursor.owner {
        Owner::Unassigned => None,
        Owner::Worker(worker) => Some(&worker.id),
        Owner::Dead(id) => Some(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_keeps_its_number_while_it_lives() {
        let mut memory = Memory::default();
        let mut numbers = |there: &[&str]| {
            memory.take_in(&there.iter().copied().collect());
            memory.numbers.iter().map(|(id, number)| format!("{id}{number}")).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&["b", "c"]), ["b0", "c1"]);
        assert_eq!(numbers(&["a", "b", "c"]), ["a2", "b0", "c1"]);
        assert_eq!(numbers(&["a", "c", "d"]), ["a2", "c1", "d0"], "the number of b is free");
    }
}
