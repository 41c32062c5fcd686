//! The tables, in memory, and the transactions on them: each is one step.
//!
//! What is written is decided by the functions of the core, as in the runtime; here it is only
//! stored. The clock of the leases is the store's own.

use crate::log::Event;
use crate::mutant::Mutant;
use crate::scenario::{Program, Scenario};
use anabranch_core::cursor::{self, Change, Cursor, Move};
use anabranch_core::generation::{self, Assignments, Known, Load, Rollout};
use anabranch_core::{Position, SlotSet, Weights};
use std::collections::BTreeMap;

/// A worker, as it is stored.
#[derive(Debug)]
pub(crate) struct WorkerRow {
    pub(crate) id: String,
    lease_until: u64,
    fixed: Option<SlotSet>,
    runs: Vec<bool>,
    settled: i64,
    is_leaving: bool,
    /// Its process is gone, and the database has seen that.
    pub(crate) is_gone: bool,
}

/// The cursors of one consumer.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Cursor>,
    /// Ids are never given out again.
    last_id: i64,
}

/// What a worker learns when it shows a sign of life.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) generation: i64,
    /// What it should own of each consumer.
    pub(crate) assigned: Vec<SlotSet>,
    /// Whether it may.
    pub(crate) may_hold: Vec<bool>,
    /// The cursors that it owns of each consumer, by id and epoch.
    pub(crate) owned: Vec<Vec<(i64, i64)>>,
}

/// What the tick has done.
#[derive(Debug, Default)]
pub(crate) struct Ticked {
    pub(crate) died: usize,
    pub(crate) noticed: usize,
    pub(crate) is_new_generation: bool,
}

/// What a commit writes.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) consumer: usize,
    pub(crate) moves: Vec<Move>,
    pub(crate) effects: Vec<Event>,
    /// Who has run the handler, and in which generation.
    pub(crate) worker: String,
    pub(crate) generation: i64,
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) clock: u64,
    lease: u64,
    pub(crate) universe: SlotSet,
    weights: Weights,
    rollout: Rollout,
    mutant: Mutant,
    pub(crate) consumers: Vec<Table>,
    pub(crate) workers: Vec<WorkerRow>,
    pub(crate) generation: i64,
    pub(crate) assignments: Assignments,
}

impl Store {
    pub(crate) fn new(scenario: &Scenario, mutant: Mutant) -> Self {
        let table = || {
            let first = Cursor::free(scenario.universe.clone(), Position::START);
            Table { rows: vec![Cursor { id: 1, ..first }], last_id: 1 }
        };
        Self {
            clock: 0,
            lease: scenario.lease,
            universe: scenario.universe.clone(),
            weights: scenario.weights.clone(),
            rollout: scenario.rollout,
            mutant,
            consumers: (0..scenario.consumers).map(|_| table()).collect(),
            workers: Vec::new(),
            generation: 0,
            assignments: Assignments::default(),
        }
    }

    /// A worker that is new.
    pub(crate) fn join(&mut self, id: &str, program: &Program) {
        // A repeated one finds itself.
        if !self.workers.iter().any(|row| row.id == id) {
            self.workers.push(WorkerRow {
                id: id.to_owned(),
                lease_until: self.clock + self.lease,
                fixed: program.fixed.clone(),
                runs: program.runs.clone(),
                settled: 0,
                is_leaving: false,
                is_gone: false,
            });
        }
    }

    fn is_good(&self, row: &WorkerRow) -> bool {
        row.lease_until > self.clock && !row.is_gone
    }

    /// Whether a worker's lease is good.
    pub(crate) fn is_alive(&self, id: &str) -> bool {
        self.workers.iter().any(|row| row.id == id && self.is_good(row))
    }

    /// Whether nobody has found a worker dead so far.
    pub(crate) fn is_listed(&self, id: &str) -> bool {
        self.workers.iter().any(|row| row.id == id)
    }

    /// A sign of life, and the tick. Nothing for one whose lease is over.
    pub(crate) fn beat(
        &mut self,
        id: &str,
        settled: Option<i64>,
        is_leaving: bool,
    ) -> (Option<View>, Ticked) {
        if !self.is_alive(id) {
            return (None, Ticked::default());
        }
        let until = self.clock + self.lease;
        for row in self.workers.iter_mut().filter(|row| row.id == id) {
            row.lease_until = until;
            row.is_leaving |= is_leaving;
            row.settled = settled.unwrap_or(row.settled).max(row.settled);
        }
        let ticked = self.tick();
        (Some(self.view(id)), ticked)
    }

    pub(crate) fn known(&self) -> Vec<Known> {
        let known = self.workers.iter().map(|row| Known {
            id: row.id.clone(),
            fixed: row.fixed.clone(),
            is_alive: self.is_good(row),
            is_leaving: row.is_leaving,
            runs: runs(&row.runs).map(|consumer| (name(consumer), true)).collect(),
            follows_set: false,
        });
        known.collect()
    }

    pub(crate) fn load(&self) -> Load {
        Load { set: self.weights.clone(), apart: BTreeMap::new() }
    }

    /// Removes the dead; if the members have changed, plans the next generation.
    fn tick(&mut self) -> Ticked {
        let next = generation::next(&self.universe, &self.known(), &self.assignments, &self.load());
        let dead = self.workers.iter().filter(|row| !self.is_good(row));
        let (died, noticed) = (dead.clone().count(), dead.filter(|row| row.is_gone).count());
        let clock = self.clock;
        self.workers.retain(|row| row.lease_until > clock && !row.is_gone);
        let ticked = Ticked { died, noticed, is_new_generation: next.is_some() };
        if let Some(next) = next {
            self.assignments = next.assignments;
            self.generation += 1;
        }
        ticked
    }

    fn view(&self, id: &str) -> View {
        // A worker that leaves counts as long as it lives: it may still be at work.
        let may_hold = |consumer: usize| {
            let runners = self.workers.iter().filter(|row| self.is_good(row) && row.runs[consumer]);
            let settled = runners.map(|row| row.settled);
            self.mutant == Mutant::Recreate || self.rollout.may_hold(self.generation, settled)
        };
        let row = self.workers.iter().find(|row| row.id == id);
        let assigned = |consumer: usize| {
            let is_run = row.is_some_and(|row| row.runs[consumer]);
            let share = self.assignments.of(&name(consumer)).get(id).filter(|_| is_run);
            share.cloned().unwrap_or_else(SlotSet::empty)
        };
        let owned = |table: &Table| {
            let rows = table.rows.iter().filter(|row| row.owner.as_deref() == Some(id));
            let mut owned: Vec<_> = rows.map(|row| (row.id, row.epoch)).collect();
            owned.sort_unstable();
            owned
        };
        View {
            generation: self.generation,
            assigned: (0..self.consumers.len()).map(assigned).collect(),
            may_hold: (0..self.consumers.len()).map(may_hold).collect(),
            owned: self.consumers.iter().map(owned).collect(),
        }
    }

    /// Takes what is free of the slots that a worker wants; says what it owns then. Nothing for one
    /// whose lease is over.
    pub(crate) fn claim(
        &mut self,
        id: &str,
        consumer: usize,
        lanes: &[SlotSet],
    ) -> Option<Vec<Cursor>> {
        if !self.is_alive(id) {
            return None;
        }
        let rows = &self.consumers[consumer].rows;
        let change = cursor::claim(rows, id, lanes, |owner| self.is_alive(owner)).change;
        let table = &mut self.consumers[consumer];
        table.apply(change);
        let mine = table.rows.iter().filter(|row| row.owner.as_deref() == Some(id));
        Some(mine.cloned().collect())
    }

    /// A worker that holds nothing any more goes, and whatever is left of it becomes free.
    pub(crate) fn leave(&mut self, id: &str) {
        for table in &mut self.consumers {
            let change = cursor::release(&table.rows, id);
            table.apply(change);
        }
        self.workers.retain(|row| row.id != id);
    }

    /// The fence: writes all moves if every row is still what its owner believes, else nothing.
    pub(crate) fn commit(&mut self, consumer: usize, moves: &[Move]) -> bool {
        let checks_all = self.mutant != Mutant::Fence;
        let table = &mut self.consumers[consumer];
        let matches = |id: i64, epoch: i64, position: Position| {
            let row = table.rows.iter().find(|row| row.id == id);
            row.is_some_and(|row| !checks_all || (row.epoch, row.position) == (epoch, position))
        };
        let fits = |step: &Move| {
            let absorbed = || step.absorbed.iter();
            matches(step.cursor.id, step.from.1, step.from.0)
                && absorbed().all(|other| matches(other.id, other.epoch, other.position))
        };
        if !moves.iter().all(fits) {
            return false;
        }
        for step in moves {
            table.step(step);
        }
        true
    }
}

/// A consumer as the planner knows it.
pub(crate) fn name(consumer: usize) -> String {
    consumer.to_string()
}

/// The consumers that are run.
fn runs(runs: &[bool]) -> impl Iterator<Item = usize> {
    (0..runs.len()).filter(|consumer| runs[*consumer])
}

impl Table {
    fn apply(&mut self, change: Change) {
        self.rows.retain(|row| !change.delete.contains(&row.id));
        for cursor in change.write {
            self.write(cursor);
        }
    }

    fn write(&mut self, mut cursor: Cursor) {
        if cursor.id == 0 {
            self.last_id += 1;
            cursor.id = self.last_id;
            self.rows.push(cursor);
        } else if let Some(row) = self.rows.iter_mut().find(|row| row.id == cursor.id) {
            *row = cursor;
        }
    }

    fn step(&mut self, step: &Move) {
        if step.absorbed.is_empty() && !step.lets_go() {
            // Nothing but the position is written then.
            if let Some(row) = self.rows.iter_mut().find(|row| row.id == step.cursor.id) {
                row.position = step.cursor.position;
            }
            return;
        }
        self.rows.retain(|row| !step.absorbed.iter().any(|other| other.id == row.id));
        self.write(step.cursor.clone());
        if let Some(freed) = &step.freed {
            self.write(freed.clone());
        }
    }
}
