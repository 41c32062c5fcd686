//! A consumer as it should be: a log, cursors that move, split and meet, keys that fail, and what all that records.

use crate::audit::{
    AuditedCursor, Checkpoint, Digester, Proven, Prover, Record, RecordKind, Seen, Violation,
};
use crate::{Position, Slot, SlotSet};
use proptest::prelude::*;
use std::collections::BTreeSet;
use uuid::Uuid;

pub(super) const SLOTS: u16 = 6;

/// What happens next. Numbers choose among what there is.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Events are appended; each by the slot and the key of its number.
    Append(Vec<u8>),
    /// A cursor goes on by so many events; those that fail are set aside, or skipped.
    Step {
        cursor: usize,
        events: usize,
        fail: Vec<u8>,
        beyond: bool,
    },
    Split {
        cursor: usize,
        at: usize,
    },
    /// Cursors at one position become one; at several, the first commit afterwards does that.
    Merge {
        cursor: usize,
        other: usize,
        events: usize,
    },
    Retry {
        key: usize,
        events: usize,
    },
    Skip {
        key: usize,
    },
    Replay {
        to: u64,
    },
    Jump,
}

pub(super) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let some = || any::<prop::sample::Index>().prop_map(|index| index.index(1_000));
    let fail =
        proptest::collection::vec(prop_oneof![6 => Just(0_u8), 2 => Just(1), 1 => Just(2)], 12);
    let op = prop_oneof![
        6 => proptest::collection::vec(any::<u8>(), 1..14).prop_map(Op::Append),
        12 => (some(), 0..12_usize, fail, any::<bool>())
            .prop_map(|(cursor, events, fail, beyond)| Op::Step { cursor, events, fail, beyond }),
        3 => (some(), some()).prop_map(|(cursor, at)| Op::Split { cursor, at }),
        3 => (some(), some(), 0..6_usize)
            .prop_map(|(cursor, other, events)| Op::Merge { cursor, other, events }),
        3 => (some(), 1..4_usize).prop_map(|(key, events)| Op::Retry { key, events }),
        1 => some().prop_map(|key| Op::Skip { key }),
        1 => (0..60_u64).prop_map(|to| Op::Replay { to }),
        1 => Just(Op::Jump),
    ];
    proptest::collection::vec(op, 1..70)
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) record: Record,
    /// What the handler received.
    pub(super) handed: Vec<Seen>,
    /// The slots of its cursor, whether they are stored or not.
    pub(super) slots: SlotSet,
}

#[derive(Clone, Debug)]
pub(super) struct Cursor {
    slots: SlotSet,
    pub(super) position: Position,
    pub(super) record: i64,
    /// The slots of that row.
    of_row: SlotSet,
}

/// All that an audit sees.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) slots: SlotSet,
    pub(super) by_slot: bool,
    pub(super) log: Vec<Seen>,
    pub(super) rows: Vec<Row>,
    pub(super) cursors: Vec<Cursor>,
    pub(super) aside: Vec<Seen>,
    next_row: i64,
}

impl World {
    /// Ids are drawn from a sequence with holes, which others use as well.
    pub(super) fn draw(&mut self) -> i64 {
        self.next_row += 1 + self.next_row % 3;
        self.next_row
    }

    pub(super) fn new(slots: u16, by_slot: bool) -> Self {
        let slots: SlotSet = (0..slots).filter_map(Slot::new).collect();
        let (log, rows, aside) = (Vec::new(), Vec::new(), Vec::new());
        let mut world = Self {
            slots: slots.clone(),
            by_slot,
            log,
            rows,
            cursors: Vec::new(),
            aside,
            next_row: 5,
        };
        // The record begins with several cursors, none at the start.
        world.append(&[3, 8, 14, 21, 30, 77]);
        for (index, position) in [(0, 2), (1, 4)] {
            let slots = slots.intersection(&SlotSet::partition(index, 2));
            if slots.is_empty() {
                continue;
            }
            let (position, id) = (Position::new(position), world.draw());
            let cursor =
                Cursor { slots: slots.clone(), position, record: id, of_row: slots.clone() };
            world.cursors.push(cursor);
            let stored = Some(slots.clone());
            let record = record(id, RecordKind::Begin, Vec::new(), stored, position, position);
            world.rows.push(Row { record, handed: Vec::new(), slots });
        }
        world
    }

    pub(super) fn after(slots: u16, by_slot: bool, ops: &[Op]) -> Self {
        let mut world = Self::new(slots, by_slot);
        ops.iter().for_each(|op| world.apply(op));
        world
    }

    fn head(&self) -> Position {
        self.log.last().map_or(Position::START, |event| event.position)
    }

    fn append(&mut self, numbers: &[u8]) {
        for number in numbers {
            let number = u64::from(*number);
            let position = Position::new(self.head().get() + 1 + number % 3 / 2);
            let slot = self.slots.iter().nth((number % 13) as usize % self.slots.len()).unwrap();
            let key = format!("key-{slot}-{}", number % 2);
            let id = Uuid::from_u64_pair(position.get() * 7919, number);
            let name = format!("Happened Thing:{key}@{position}");
            self.log.push(Seen { position, id, slot: Some(slot), key: Some(key), name });
        }
    }

    pub(super) fn apply(&mut self, op: &Op) {
        let cursors = self.cursors.len();
        match op {
            Op::Append(numbers) => self.append(numbers),
            Op::Step { cursor, events, fail, beyond } => {
                let cursor = cursor % cursors;
                self.go_on(&[cursor], *events, fail, *beyond);
            }
            Op::Split { cursor, at } => {
                let cursor = &mut self.cursors[cursor % cursors];
                let at = at % cursor.slots.len();
                let part: SlotSet = cursor.slots.iter().take(at).collect();
                if !part.is_empty() {
                    cursor.slots = cursor.slots.difference(&part);
                    let part = Cursor { slots: part, ..cursor.clone() };
                    self.cursors.push(part);
                }
            }
            Op::Merge { cursor, other, events } => {
                let (cursor, other) = (cursor % cursors, other % cursors);
                if cursor == other {
                    return;
                }
                if self.cursors[cursor].position == self.cursors[other].position && events % 2 == 0
                {
                    let to = self.cursors[cursor].position;
                    self.put(&[cursor, other], RecordKind::Join, to, Vec::new());
                } else {
                    self.go_on(&[cursor, other], *events, &[0], false);
                }
            }
            Op::Retry { key, events } => {
                let Some(mut waiting) = self.waiting(*key) else { return };
                waiting.truncate(*events);
                self.aside.retain(|event| !waiting.contains(event));
                let cursor = self.cursor_of(&waiting[0]);
                let to = self.cursors[cursor].position;
                self.put(&[cursor], RecordKind::Retry, to, waiting);
            }
            Op::Skip { key } => {
                let Some(waiting) = self.waiting(*key) else { return };
                self.aside.retain(|event| *event != waiting[0]);
                let cursor = self.cursor_of(&waiting[0]);
                let to = self.cursors[cursor].position;
                let row = self.put(&[cursor], RecordKind::Skip, to, Vec::new());
                row.record.skipped = vec![waiting[0].position];
            }
            Op::Replay { to } => {
                let lowest = self.cursors.iter().map(|cursor| cursor.position).min().unwrap();
                // The record says nothing of what was before it, so nothing of a replay into that.
                let to = Position::new((*to).max(4)).min(lowest);
                self.aside.retain(|event| event.position <= to);
                let all: Vec<usize> = (0..cursors).collect();
                self.put(&all, RecordKind::Replay, to, Vec::new());
            }
            Op::Jump => {
                let furthest = self.cursors.iter().map(|cursor| cursor.position).max().unwrap();
                let to = self.head().max(furthest);
                self.aside.clear();
                let all: Vec<usize> = (0..cursors).collect();
                self.put(&all, RecordKind::Jump, to, Vec::new());
            }
        }
    }

    /// All cursors go on to the end.
    pub(super) fn catch_up(&mut self) {
        // The one that goes on is the last one then.
        (0..self.cursors.len()).for_each(|_| self.go_on(&[0], usize::MAX, &[], true));
    }

    /// What is set aside of one key.
    fn waiting(&self, key: usize) -> Option<Vec<Seen>> {
        let keys: BTreeSet<&String> = self.aside.iter().flat_map(|event| &event.key).collect();
        let key = keys.iter().nth(key % keys.len().max(1))?;
        let waiting = self.aside.iter().filter(|event| event.key.as_ref() == Some(*key));
        let mut waiting: Vec<Seen> = waiting.cloned().collect();
        waiting.sort_by_key(|event| event.position);
        Some(waiting)
    }

    pub(super) fn cursor_of(&self, event: &Seen) -> usize {
        let has_it = |cursor: &Cursor| cursor.slots.contains(event.slot.unwrap());
        self.cursors.iter().position(has_it).unwrap()
    }

    /// Some cursors become one and go on.
    fn go_on(&mut self, cursors: &[usize], events: usize, fail: &[u8], beyond: bool) {
        let is_next = |event: &&Seen| {
            cursors.iter().map(|number| &self.cursors[*number]).any(|cursor| {
                cursor.slots.contains(event.slot.unwrap()) && event.position > cursor.position
            })
        };
        let highest = cursors.iter().map(|number| self.cursors[*number].position).max().unwrap();
        let all: Vec<Seen> = self.log.iter().filter(is_next).cloned().collect();
        let must = all.iter().filter(|event| event.position <= highest).count();
        let taken = all.len().min(events.max(must));
        let mut to = all[..taken].last().map_or(highest, |event| event.position.max(highest));
        if beyond && let Some(next) = all.get(taken) {
            // Up to the event before the next one, whosever that is.
            to = to.max(Position::new(next.position.get() - 1));
        } else if beyond {
            to = to.max(self.head());
        }
        let (mut handed, mut aside, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for (number, event) in all[..taken].iter().enumerate() {
            let is_waiting = self.aside.iter().any(|other| other.key == event.key);
            match fail.get(number) {
                _ if is_waiting => aside.push(event.clone()),
                Some(1) => aside.push(event.clone()),
                Some(2) => skipped.push(event.position),
                _ => handed.push(event.clone()),
            }
            if aside.last() == Some(event) {
                self.aside.push(event.clone());
            }
        }
        let row = self.put(cursors, RecordKind::Step, to, handed);
        row.record.aside = aside.into_iter().map(|event| event.position).collect();
        row.record.skipped = skipped;
    }

    /// Writes a row, and the cursor that it is of.
    pub(super) fn put(
        &mut self,
        which: &[usize],
        kind: RecordKind,
        to: Position,
        handed: Vec<Seen>,
    ) -> &mut Row {
        let id = self.draw();
        let cursors: Vec<Cursor> =
            which.iter().map(|number| self.cursors[*number].clone()).collect();
        let mut number = 0;
        self.cursors.retain(|_| {
            number += 1;
            !which.contains(&(number - 1))
        });
        let slots = cursors.iter().fold(SlotSet::empty(), |sum, cursor| sum.union(&cursor.slots));
        let parents: BTreeSet<i64> = cursors.iter().map(|cursor| cursor.record).collect();
        let parents: Vec<i64> = parents.into_iter().collect();
        let from = cursors.iter().map(|cursor| cursor.position).min().unwrap();
        let is_same = parents.len() == 1 && cursors[0].of_row == slots;
        let stored = (!is_same).then(|| slots.clone());
        let of_row = slots.clone();
        self.cursors.push(Cursor { slots: slots.clone(), position: to, record: id, of_row });
        let record = record(id, kind, parents, stored, from, to);
        let mut row = Row { record, handed, slots };
        row.seal(self.by_slot);
        self.rows.push(row);
        self.rows.last_mut().unwrap()
    }

    pub(super) fn cursors(&self) -> Vec<AuditedCursor> {
        let cursor = |cursor: &Cursor| AuditedCursor {
            slots: cursor.slots.clone(),
            position: cursor.position,
            record: Some(cursor.record),
        };
        self.cursors.iter().map(cursor).collect()
    }

    pub(super) fn aside(&self) -> BTreeSet<Position> {
        self.aside.iter().map(|event| event.position).collect()
    }

    pub(super) fn seen(&self, event: &Seen) -> Seen {
        match self.by_slot {
            true => event.clone(),
            false => Seen { slot: None, key: None, ..event.clone() },
        }
    }

    /// Reads everything by windows of so many rows.
    pub(super) fn read(&self, window: usize) -> Result<Prover, Violation> {
        let mut prover = Prover::new(self.slots.clone(), self.by_slot);
        for rows in self.rows.chunks(window.max(1)) {
            rows.iter().try_for_each(|row| prover.record(row.record.clone()))?;
            let wanted = prover.wanted();
            let ranges = prover.ranges();
            assert!(wanted.is_sorted_by(|a, b| a < b));
            assert!(ranges.is_sorted_by(|a, b| a.1 < b.0));
            for event in self.log.iter().filter(|event| wanted.contains(&event.position)) {
                prover.found(self.seen(event))?;
            }
            let is_within = |event: &&Seen| {
                ranges.iter().any(|(from, to)| event.position > *from && event.position <= *to)
            };
            for event in self.log.iter().filter(is_within) {
                prover.event(self.seen(event))?;
            }
            prover.close()?;
        }
        Ok(prover)
    }

    pub(super) fn prove(&self, window: usize) -> Result<Proven, Violation> {
        self.read(window)?.end(&self.cursors(), &self.aside())
    }

    /// Deletes all rows, but for what a checkpoint keeps.
    pub(super) fn prune(&mut self, checkpoint: Vec<Checkpoint>) {
        self.rows = checkpoint
            .into_iter()
            .map(|left| {
                let Checkpoint { record: id, slots, from, to, handed, aside } = left;
                let kind = RecordKind::Proven;
                // A split cursor has the slots that its row has left.
                for cursor in self.cursors.iter_mut().filter(|cursor| cursor.record == id) {
                    cursor.of_row = slots.clone();
                }
                let stored = Some(slots.clone());
                let record = record(id, kind, vec![], stored, from, to);
                Row { record: Record { handed, aside, ..record }, handed: Vec::new(), slots }
            })
            .collect();
    }
}

impl Row {
    /// Writes down what the handler received.
    pub(super) fn seal(&mut self, by_slot: bool) {
        let mut digester = Digester::new();
        self.handed.iter().for_each(|event| digester.add(event.position, &event.id));
        (self.record.count, self.record.digest) = (digester.count(), digester.finish());
        if !by_slot || self.record.kind == RecordKind::Retry {
            let positions: BTreeSet<Position> = self.handed.iter().map(|e| e.position).collect();
            let has_any = !positions.is_empty();
            self.record.handed = has_any.then(|| positions.into_iter().collect());
        }
    }
}

fn record(
    id: i64,
    kind: RecordKind,
    parents: Vec<i64>,
    slots: Option<SlotSet>,
    from: Position,
    to: Position,
) -> Record {
    let (count, digest, handed, aside, skipped) = (0, None, None, Vec::new(), Vec::new());
    Record { id, kind, parents, slots, from, to, count, digest, handed, aside, skipped }
}
