//! The cursors that a lane holds, how far beyond them it has come, and how it lets go of slots.

use super::{Anchor, Cursor, Point};
use crate::{Position, Slot, SlotSet};
use std::collections::VecDeque;

/// How many cursors that are gone are remembered, in case an old claim still names them.
const REMEMBERED: usize = 256;

/// The parts of a lane. Parts are numbered for as long as the tenure lasts; one that was merged into
/// another keeps its number and stands for that one.
///
/// ```
/// use anabranch_core::cursor::{Cursor, Parts};
/// use anabranch_core::{Position, SlotSet};
/// let mut parts = Parts::default();
/// let cursor = Cursor { id: 7, ..Cursor::free(SlotSet::all(), Position::new(42)) };
/// let part = parts.add(cursor);
/// // To position 50, and of the slots only half are kept: the rest is free again, at 50 too.
/// let moves = parts.moves(&[part], Position::new(50), Some(&SlotSet::partition(0, 2)));
/// let freed = moves[0].freed.as_ref().unwrap();
/// assert_eq!((freed.slots.clone(), freed.position), (SlotSet::partition(1, 2), Position::new(50)));
/// ```
#[derive(Debug, Default)]
pub struct Parts {
    parts: Vec<Part>,
    /// Raised when everything is lost: numbers from before mean nothing.
    tenure: u64,
    /// Rows that are not this lane's any more, and the last epoch in which they were.
    gone: VecDeque<(i64, i64)>,
}

#[derive(Debug)]
struct Part {
    /// As it is stored.
    cursor: Cursor,
    /// How far the lane has come; what lies between holds no events of these slots.
    reached: Point,
    /// The part that has taken this one in.
    merged_into: Option<usize>,
    /// Cursors that it has taken in and that are still stored.
    absorbed: Vec<Cursor>,
    /// The last row of its record has the slots of its cursor.
    has_recorded_slots: bool,
    /// All its slots were let go.
    is_gone: bool,
}

impl Part {
    /// It has come this far; says whether that is further than before.
    fn go_to(&mut self, to: Point) -> bool {
        let is_further = to.position > self.reached.position;
        if is_further {
            self.reached = to;
        }
        is_further
    }
}

/// How a part is to be written: from where to where, with what it takes in and what it lets go.
#[derive(Clone, Debug)]
pub struct Move {
    /// Which part.
    pub part: usize,
    /// What its row must still be: its position and its epoch.
    pub from: (Position, i64),
    /// What its row becomes.
    pub cursor: Cursor,
    /// Rows that it takes in, to be deleted.
    pub absorbed: Vec<Cursor>,
    /// A row to be added for slots that are let go.
    pub freed: Option<Cursor>,
    /// Whether all slots are let go, so that the row itself becomes free.
    pub frees_all: bool,
    /// Whether the last row of its record has its slots, so that the next one need not repeat them.
    pub has_recorded_slots: bool,
}

impl Move {
    /// Whether some slots are let go, so that others can take them.
    #[must_use]
    pub fn lets_go(&self) -> bool {
        self.freed.is_some() || self.frees_all
    }

    /// Whether it adds a row to the record of an audited consumer. To let go of slots where they are only hands on
    /// what is recorded.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.cursor.record.is_some()
            && (self.cursor.position > self.from.0 || !self.absorbed.is_empty())
    }

    /// The slots whose events it passes: those that it lets go among them.
    #[must_use]
    pub fn slots(&self) -> SlotSet {
        match &self.freed {
            Some(freed) => self.cursor.slots.union(&freed.slots),
            None => self.cursor.slots.clone(),
        }
    }
}

impl Parts {
    /// Which life of the lane this is: numbers of parts from another one mean nothing.
    #[must_use]
    pub fn tenure(&self) -> u64 {
        self.tenure
    }

    /// Everything is lost.
    pub fn clear(&mut self) {
        self.parts.clear();
        self.gone.clear();
        self.tenure += 1;
    }

    /// Those cursors that the lane does not have yet.
    #[must_use]
    pub fn unknown(&self, cursors: Vec<Cursor>) -> Vec<Cursor> {
        let is_known =
            |cursor: &Cursor| self.stored_ones().any(|own| own.id == cursor.id) || self.had(cursor);
        cursors.into_iter().filter(|cursor| !is_known(cursor)).collect()
    }

    /// Whether it was the lane's and is not any more.
    fn had(&self, cursor: &Cursor) -> bool {
        self.gone.iter().any(|(id, epoch)| *id == cursor.id && cursor.epoch <= *epoch)
    }

    /// Whether these cursors say that the lane has lost one, by a commit of which it never got the
    /// answer: one is later than the lane has it, or an unknown one holds slots that the lane has. It
    /// has to forget all then. It would find out by its next commit, but that may never come, and
    /// until then nobody moves these cursors on.
    #[must_use]
    pub fn has_lost(&self, told: &[Cursor]) -> bool {
        told.iter().any(|cursor| match self.stored_ones().find(|own| own.id == cursor.id) {
            Some(own) => cursor.epoch > own.epoch,
            None if self.had(cursor) => false,
            None => self.stored_ones().any(|own| !own.slots.is_disjoint(&cursor.slots)),
        })
    }

    /// The rows that it has, as far as it knows.
    fn stored_ones(&self) -> impl Iterator<Item = &Cursor> {
        // Until it is written, a cursor that was taken in is still stored.
        self.alive().flat_map(|(_, part)| part.absorbed.iter().chain([&part.cursor]))
    }

    /// The numbers of the parts that there are.
    #[must_use]
    pub fn numbers(&self) -> Vec<usize> {
        self.alive().map(|(number, _)| number).collect()
    }

    /// Counts anew: parts that were taken in, or are gone, lose their numbers. For a lane that keeps no
    /// number.
    pub fn compact(&mut self) {
        self.parts.retain(|part| part.merged_into.is_none() && !part.is_gone);
    }

    /// How many numbers are given, those of parts that are gone included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether no number is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Takes over a cursor; says under which number.
    pub fn add(&mut self, cursor: Cursor) -> usize {
        let reached = cursor.point();
        let (merged_into, absorbed) = (None, Vec::new());
        let (has_recorded_slots, is_gone) = (false, false);
        let part = Part { cursor, reached, merged_into, absorbed, has_recorded_slots, is_gone };
        self.parts.push(part);
        self.parts.len() - 1
    }

    fn root(&self, mut part: usize) -> usize {
        while let Some(into) = self.parts[part].merged_into {
            part = into;
        }
        part
    }

    /// These parts are read together: from now on they are one. What is stored follows with the next
    /// commit.
    pub fn merge(&mut self, numbers: &[usize]) {
        let alive = |number: &usize| !self.parts[self.root(*number)].is_gone;
        let Some(first) = numbers.iter().find(|n| alive(n)).map(|number| self.root(*number)) else {
            return;
        };
        for number in numbers {
            let other = self.root(*number);
            // Only what stands at the same place may become one.
            if other == first
                || self.parts[other].is_gone
                || self.parts[other].reached.position != self.parts[first].reached.position
            {
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
        roots.retain(|root| !self.parts[*root].is_gone);
        roots.sort_unstable_by_key(|root| self.parts[*root].cursor.id);
        roots.dedup();
        roots
    }

    /// What has to be written to move these parts to a position, and to let go of the slots that are
    /// not to be kept.
    #[must_use]
    pub fn moves(
        &self,
        numbers: &[usize],
        to: impl Into<Point>,
        keep: Option<&SlotSet>,
    ) -> Vec<Move> {
        let to = to.into();
        let roots = self.roots(numbers).into_iter().map(|part| self.step(part, to, keep));
        let is_change = |step: &Move| {
            step.cursor.position > step.from.0 || !step.absorbed.is_empty() || step.lets_go()
        };
        roots.filter(is_change).collect()
    }

    fn step(&self, part: usize, to: Point, keep: Option<&SlotSet>) -> Move {
        let held = &self.parts[part];
        let from = (held.cursor.position, held.cursor.epoch);
        let Point { position, anchor } = to;
        let mut cursor = Cursor { position, anchor, ..held.cursor.clone() };
        let absorbed = held.absorbed.clone();
        let (mut freed, mut frees_all) = (None, false);
        if let Some(keep) = keep.filter(|keep| !cursor.slots.is_subset(keep)) {
            // Above the epochs of all rows that its slots come from. The row that stays gets a new
            // epoch as well: whoever repeats this after a lost answer must not match.
            let others = absorbed.iter().map(|other| other.epoch);
            let epoch = others.fold(cursor.epoch, i64::max) + 1;
            cursor.epoch = epoch;
            let kept = cursor.slots.intersection(keep);
            if kept.is_empty() {
                (cursor.owner, frees_all) = (None, true);
            } else {
                let slots = cursor.slots.difference(keep);
                let record = cursor.record;
                freed = Some(Cursor { epoch, record, ..Cursor::free(slots, to) });
                cursor.slots = kept;
            }
        }
        let has_recorded_slots = held.has_recorded_slots && absorbed.is_empty();
        Move { part, from, cursor, absorbed, freed, frees_all, has_recorded_slots }
    }

    /// The rows of these parts, to make sure of them where none is moved.
    pub fn holds(&self, numbers: &[usize]) -> impl Iterator<Item = (i64, i64)> {
        self.roots(numbers).into_iter().map(|root| {
            let cursor = &self.parts[root].cursor;
            (cursor.id, cursor.epoch)
        })
    }

    /// It has been written.
    pub fn moved(&mut self, moves: &[Move]) {
        for step in moves {
            let part = &mut self.parts[step.part];
            part.cursor = step.cursor.clone();
            part.go_to(step.cursor.point());
            part.has_recorded_slots =
                step.freed.is_none() && (step.is_recorded() || part.has_recorded_slots);
            // The id of a deleted row is never given out again.
            self.gone.extend(part.absorbed.drain(..).map(|cursor| (cursor.id, i64::MAX)));
            if step.frees_all {
                part.is_gone = true;
                self.gone.push_back((part.cursor.id, part.cursor.epoch));
            }
        }
        while self.gone.len() > REMEMBERED {
            self.gone.pop_front();
        }
    }

    /// The log was looked at this far, and there was nothing. Says whether that is news.
    pub fn reach(&mut self, numbers: &[usize], up_to: impl Into<Point>) -> bool {
        let up_to = up_to.into();
        self.merge(numbers);
        let mut is_news = false;
        for root in self.roots(numbers) {
            let part = &mut self.parts[root];
            is_news |= part.go_to(up_to);
        }
        is_news
    }

    /// How far some parts have come.
    #[must_use]
    pub fn reached(&self, numbers: &[usize]) -> Point {
        let reached = self.roots(numbers).into_iter().map(|root| self.parts[root].reached);
        reached.max_by_key(|reached| reached.position).unwrap_or(Position::START.into())
    }

    /// How far some parts are stored.
    #[must_use]
    pub fn stored(&self, numbers: &[usize]) -> Position {
        let stored = self.roots(numbers).into_iter().map(|root| self.parts[root].cursor.position);
        stored.min().unwrap_or(Position::START)
    }

    fn alive(&self) -> impl Iterator<Item = (usize, &Part)> {
        let parts = self.parts.iter().enumerate();
        parts.filter(|(_, part)| part.merged_into.is_none() && !part.is_gone)
    }

    /// The parts that have come further than what is stored.
    #[must_use]
    pub fn dirty(&self) -> Vec<usize> {
        let dirty = self.alive().filter(|(_, part)| part.reached.position > part.cursor.position);
        dirty.map(|(number, _)| number).collect()
    }

    /// The parts that hold slots which are not to be kept.
    #[must_use]
    pub fn beyond(&self, keep: &SlotSet) -> Vec<usize> {
        let beyond = self.alive().filter(|(_, part)| !part.cursor.slots.is_subset(keep));
        beyond.map(|(number, _)| number).collect()
    }

    /// The stored cursor that holds a slot.
    #[must_use]
    pub fn holder(&self, slot: Slot) -> Option<&Cursor> {
        self.stored_ones().find(|cursor| cursor.slots.contains(slot))
    }

    /// The rows that it holds, by id and epoch.
    #[must_use]
    pub fn rows(&self) -> Vec<(i64, i64)> {
        self.stored_ones().map(|cursor| (cursor.id, cursor.epoch)).collect()
    }

    /// The events by which they know a log that is elsewhere.
    #[must_use]
    pub fn anchors(&self) -> Vec<Anchor> {
        let mut anchors: Vec<Anchor> = self.stored_ones().filter_map(|own| own.anchor).collect();
        anchors.sort_unstable();
        anchors.dedup();
        anchors
    }

    /// How far all of them have come.
    #[must_use]
    pub fn lowest(&self) -> Option<Position> {
        self.alive().map(|(_, part)| part.reached.position).min()
    }

    /// How far the furthest of them has come.
    #[must_use]
    pub fn furthest(&self) -> Option<Position> {
        self.alive().map(|(_, part)| part.reached.position).max()
    }

    /// The slots of some parts.
    #[must_use]
    pub fn slots_of(&self, numbers: &[usize]) -> SlotSet {
        super::union(self.roots(numbers).iter().map(|root| &self.parts[*root].cursor.slots))
    }

    /// All slots.
    #[must_use]
    pub fn slots(&self) -> SlotSet {
        super::union(self.alive().map(|(_, part)| &part.cursor.slots))
    }
}

#[cfg(test)]
mod tests;
