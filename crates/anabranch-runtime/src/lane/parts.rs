//! The cursors that a lane holds, and how far beyond them it has come.

use anabranch_core::{Cursor, Position};
use std::collections::{HashSet, VecDeque};
use std::time::Instant;

/// How many merged cursors are remembered, in case an old claim still names them.
const REMEMBERED: usize = 64;

/// The parts of a lane. Parts are numbered for as long as the tenure lasts; one that was merged into
/// another keeps its number and stands for that one.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    parts: Vec<Part>,
    /// Raised when everything is lost: numbers from before mean nothing.
    tenure: u64,
    merged: VecDeque<i64>,
    dirty_since: Option<Instant>,
}

#[derive(Debug)]
struct Part {
    /// As it is stored.
    cursor: Cursor,
    /// How far the lane has come; what lies between holds no events of these slots.
    reached: Position,
    /// The part that has taken this one in.
    merged_into: Option<usize>,
    /// Cursors that it has taken in and that are still stored.
    absorbed: Vec<Cursor>,
}

/// How a part is to be written: from where to where, with what it takes in.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) part: usize,
    pub(crate) cursor: Cursor,
    pub(crate) from: Position,
    pub(crate) absorbed: Vec<Cursor>,
}

impl Parts {
    pub(crate) fn tenure(&self) -> u64 {
        self.tenure
    }

    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.merged.clear();
        self.dirty_since = None;
        self.tenure += 1;
    }

    /// Those cursors that the lane does not have yet.
    pub(crate) fn unknown(&self, cursors: Vec<Cursor>) -> Vec<Cursor> {
        let known: HashSet<i64> = self
            .parts
            .iter()
            .flat_map(|part| part.absorbed.iter().chain([&part.cursor]))
            .map(|cursor| cursor.id)
            .chain(self.merged.iter().copied())
            .collect();
        cursors.into_iter().filter(|cursor| !known.contains(&cursor.id)).collect()
    }

    pub(crate) fn add(&mut self, cursor: Cursor) -> usize {
        let reached = cursor.position;
        self.parts.push(Part { cursor, reached, merged_into: None, absorbed: Vec::new() });
        self.parts.len() - 1
    }

    fn root(&self, mut part: usize) -> usize {
        while let Some(into) = self.parts[part].merged_into {
            part = into;
        }
        part
    }

    /// The feed reads these parts together: from now on they are one. What is stored follows with the
    /// next commit.
    pub(crate) fn merge(&mut self, numbers: &[usize]) {
        let Some(first) = numbers.first().map(|number| self.root(*number)) else {
            return;
        };
        for number in numbers {
            let other = self.root(*number);
            // Only what stands at the same place may become one.
            if other == first || self.parts[other].reached != self.parts[first].reached {
                continue;
            }
            self.parts[other].merged_into = Some(first);
            let taken = self.parts[other].cursor.clone();
            let more = std::mem::take(&mut self.parts[other].absorbed);
            let keeper = &mut self.parts[first];
            keeper.cursor.slots = keeper.cursor.slots.union(&taken.slots);
            keeper.absorbed.push(taken);
            keeper.absorbed.extend(more);
        }
    }

    /// The distinct parts behind some numbers.
    fn roots(&self, numbers: &[usize]) -> Vec<usize> {
        let mut roots: Vec<usize> = numbers.iter().map(|number| self.root(*number)).collect();
        roots.sort_unstable_by_key(|root| self.parts[*root].cursor.id);
        roots.dedup();
        roots
    }

    /// What has to be written to move these parts to a position.
    pub(crate) fn moves(&self, numbers: &[usize], to: Position) -> Vec<Move> {
        let to_move = |part: usize| {
            let held = &self.parts[part];
            let cursor = Cursor { position: to, ..held.cursor.clone() };
            let (from, absorbed) = (held.cursor.position, held.absorbed.clone());
            Move { part, cursor, from, absorbed }
        };
        let roots = self.roots(numbers).into_iter().map(to_move);
        roots.filter(|step| step.cursor.position > step.from || !step.absorbed.is_empty()).collect()
    }

    /// The rows of these parts, to make sure of them where none is moved.
    pub(crate) fn holds(&self, numbers: &[usize]) -> impl Iterator<Item = (i64, i64)> {
        self.roots(numbers).into_iter().map(|root| {
            let cursor = &self.parts[root].cursor;
            (cursor.id, cursor.epoch)
        })
    }

    /// It has been written.
    pub(crate) fn moved(&mut self, moves: &[Move]) {
        for step in moves {
            let part = &mut self.parts[step.part];
            part.cursor.position = step.cursor.position;
            part.reached = part.reached.max(step.cursor.position);
            self.merged.extend(part.absorbed.drain(..).map(|cursor| cursor.id));
        }
        while self.merged.len() > REMEMBERED {
            self.merged.pop_front();
        }
        self.dirty_since = self.dirty_since.filter(|_| !self.dirty().is_empty());
    }

    /// The feed has looked this far, and there was nothing.
    pub(crate) fn reach(&mut self, numbers: &[usize], up_to: Position) {
        self.merge(numbers);
        for root in self.roots(numbers) {
            let part = &mut self.parts[root];
            if up_to > part.reached {
                part.reached = up_to;
                self.dirty_since.get_or_insert_with(Instant::now);
            }
        }
    }

    /// How far some parts have come.
    pub(crate) fn reached(&self, numbers: &[usize]) -> Position {
        let reached = self.roots(numbers).into_iter().map(|root| self.parts[root].reached);
        reached.max().unwrap_or(Position::START)
    }

    /// How far some parts are stored.
    pub(crate) fn stored(&self, numbers: &[usize]) -> Position {
        let stored = self.roots(numbers).into_iter().map(|root| self.parts[root].cursor.position);
        stored.min().unwrap_or(Position::START)
    }

    pub(crate) fn dirty_since(&self) -> Option<Instant> {
        self.dirty_since
    }

    fn alive(&self) -> impl Iterator<Item = (usize, &Part)> {
        self.parts.iter().enumerate().filter(|(_, part)| part.merged_into.is_none())
    }

    /// The parts that have come further than what is stored.
    pub(crate) fn dirty(&self) -> Vec<Vec<usize>> {
        let dirty = self.alive().filter(|(_, part)| part.reached > part.cursor.position);
        dirty.map(|(number, _)| vec![number]).collect()
    }

    /// The stored cursor that holds a slot.
    pub(crate) fn holder(&self, slot: anabranch_core::Slot) -> Option<&Cursor> {
        let cursors = self.alive().flat_map(|(_, part)| {
            // Until it is written, a cursor that was taken in still holds its slots.
            part.absorbed.iter().chain([&part.cursor])
        });
        cursors.into_iter().find(|cursor| cursor.slots.contains(slot))
    }

    /// How far all of them have come.
    pub(crate) fn lowest(&self) -> Option<Position> {
        self.alive().map(|(_, part)| part.reached).min()
    }

    pub(crate) fn slots(&self) -> usize {
        self.alive().map(|(_, part)| part.cursor.slots.len()).sum()
    }
}
