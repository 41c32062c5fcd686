//! Cursors: which slots are done up to which position, and who moves them on.
//!
//! Claiming and releasing only divide and join sets of slots. A slot carries its position along, so
//! going from any number of partitions to any other has nothing to migrate, merge or replay.

mod anchor;
mod parts;

use crate::{Position, SlotSet};
pub use anchor::{Anchor, Point};
pub use parts::{Move, Parts};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Some slots of one consumer, and the position up to which their events are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Its row; 0 while it is not stored. The id of a deleted row must never be given out again.
    pub id: i64,
    /// The slots it stands for.
    pub slots: SlotSet,
    /// All their events up to here are done.
    pub position: Position,
    /// Raised whenever the row changes hands or slots, so that a commit by a former owner matches
    /// no row.
    pub epoch: i64,
    /// The worker that moves it on; nobody while it is free.
    pub owner: Option<String>,
    /// The last event of the log up to its position, where the log is on another server than the cursor.
    pub anchor: Option<Anchor>,
    /// Where the consumer is audited: the last row that its commits wrote to the record. 0 while that row, a
    /// [`Join`], is yet to be written.
    pub record: Option<i64>,
}

impl Cursor {
    /// A free cursor that is not stored yet: what a consumer begins with.
    #[must_use]
    pub fn free(slots: SlotSet, at: impl Into<Point>) -> Self {
        let Point { position, anchor } = at.into();
        Self { id: 0, slots, position, epoch: 0, owner: None, anchor, record: None }
    }

    /// Where it stands.
    #[must_use]
    pub fn point(&self) -> Point {
        Point { position: self.position, anchor: self.anchor }
    }

    fn is_of(&self, worker: &str) -> bool {
        self.owner.as_deref() == Some(worker)
    }
}

/// What to write so that the stored cursors become what was planned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Change {
    /// Rows to delete.
    pub delete: Vec<i64>,
    /// Rows to write: one with id 0 is new, any other replaces the row with its id, whose epoch is
    /// lower.
    pub write: Vec<Cursor>,
    /// Rows of the record that are written first, of an audited consumer: those cursors at the join's point
    /// whose record is 0 go on from it.
    pub joins: Vec<Join>,
}

impl Change {
    /// Whether the stored cursors are as they should be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.delete.is_empty() && self.write.is_empty()
    }
}

/// Audited cursors at one point that are divided anew: in the record, several rows become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The last rows of the record of those cursors, ascending.
    pub parents: Vec<i64>,
    /// All their slots.
    pub slots: SlotSet,
    /// Where they are.
    pub point: Point,
}

/// Slots that a worker wants and a living one still holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Who holds them.
    pub owner: String,
    /// Which ones.
    pub slots: SlotSet,
}

/// What a worker gets of the slots it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Claim {
    /// What to write.
    pub change: Change,
    /// What it has to wait for, one entry for each owner.
    pub waiting: Vec<Waiting>,
}

/// Takes the wanted slots out of the cursors that are free or belong to the dead.
///
/// `lanes` are the slots that `me` wants, a disjoint set for each of its lanes; a cursor that is
/// taken lies within one lane. Cursors of `me` and of living workers stay as they are. Cursors of
/// the dead are freed even where nobody wants them. Free cursors at one position become one.
///
/// No slot changes its position. Each row that is written has a higher epoch than any of the rows
/// that its slots come from, so former owners are fenced.
///
/// ```
/// use anabranch_core::{Cursor, Position, SlotSet, cursor};
/// let stored = Cursor { id: 7, ..Cursor::free(SlotSet::all(), Position::new(42)) };
/// let claim = cursor::claim(&[stored], "worker-1", &[SlotSet::partition(0, 2)], |_| true);
/// let [mine, free] = &claim.change.write[..] else { panic!() };
/// assert_eq!((mine.id, mine.owner.as_deref(), mine.epoch), (7, Some("worker-1"), 1));
/// assert_eq!((free.id, free.slots.clone()), (0, SlotSet::partition(1, 2)));
/// assert_eq!((mine.position, free.position), (Position::new(42), Position::new(42)));
/// ```
pub fn claim(
    cursors: &[Cursor],
    me: &str,
    lanes: &[SlotSet],
    is_alive: impl Fn(&str) -> bool,
) -> Claim {
    debug_assert!(overlap(lanes).is_empty(), "lanes share slots: {}", overlap(lanes));
    let wanted = union(lanes);
    let mut waiting: BTreeMap<&str, SlotSet> = BTreeMap::new();
    let mut takeable = Vec::new();
    for cursor in cursors {
        match cursor.owner.as_deref() {
            Some(owner) if owner == me => {}
            Some(owner) if is_alive(owner) => {
                let held = cursor.slots.intersection(&wanted);
                if !held.is_empty() {
                    let sum = waiting.entry(owner).or_insert_with(SlotSet::empty);
                    *sum = sum.union(&held);
                }
            }
            _ => takeable.push(cursor),
        }
    }
    let waiting =
        waiting.into_iter().map(|(owner, slots)| Waiting { owner: owner.to_owned(), slots });
    Claim { change: divide(takeable, me, lanes), waiting: waiting.collect() }
}

/// Frees all cursors of `me`, as [`claim`] does with those of the dead.
pub fn release(cursors: &[Cursor], me: &str) -> Change {
    let takeable = cursors.iter().filter(|cursor| cursor.owner.is_none() || cursor.is_of(me));
    divide(takeable.collect(), me, &[])
}

/// Divides the rows at each point anew: a part for each lane, the rest free. Rows at one position that know of
/// different events there stay apart: one of them is of a log that was wound back.
fn divide(rows: Vec<&Cursor>, me: &str, lanes: &[SlotSet]) -> Change {
    let mut by_point: BTreeMap<Point, Vec<&Cursor>> = BTreeMap::new();
    for row in rows {
        by_point.entry(row.point()).or_default().push(row);
    }
    let mut change = Change::default();
    for (point, rows) in by_point {
        divide_at(point, rows, me, lanes, &mut change);
    }
    change
}

fn divide_at(
    point: Point,
    mut rows: Vec<&Cursor>,
    me: &str,
    lanes: &[SlotSet],
    change: &mut Change,
) {
    let mut rest = union(rows.iter().map(|row| &row.slots));
    let mut parts = Vec::new();
    for lane in lanes {
        let part = rest.intersection(lane);
        if !part.is_empty() {
            rest = rest.difference(&part);
            parts.push((part, Some(me.to_owned())));
        }
    }
    if !rest.is_empty() {
        // Most of the time there is nothing to take: then the free row is right as it stands.
        match rows.iter().position(|row| row.owner.is_none() && row.slots == rest) {
            Some(right) => {
                rows.remove(right);
            }
            None => parts.push((rest, None)),
        }
    }
    let record = joined(point, &rows, change);
    // One epoch above all of them: then it does not matter which part gets which row.
    let epoch = rows.iter().map(|row| row.epoch).max().unwrap_or(0) + 1;
    let mut ids = rows.iter().map(|row| row.id).filter(|id| *id != 0);
    for (slots, owner) in parts {
        let id = ids.next().unwrap_or(0);
        change.write.push(Cursor { id, epoch, owner, record, ..Cursor::free(slots, point) });
    }
    change.delete.extend(ids);
}

/// The record from which the parts of some rows go on: theirs if all have the same, else that of a join.
fn joined(point: Point, rows: &[&Cursor], change: &mut Change) -> Option<i64> {
    let mut parents: Vec<i64> = rows.iter().filter_map(|row| row.record).collect();
    let is_audited = !parents.is_empty();
    let has_all = parents.len() == rows.len();
    parents.sort_unstable();
    parents.dedup();
    match parents[..] {
        // A row without a record beside others with one is what a program wrote that knows nothing of audits: in the
        // join its slots have no parent, and the audit finds that.
        [only] if has_all => Some(only),
        _ if is_audited => {
            let slots = union(rows.iter().map(|row| &row.slots));
            change.joins.push(Join { parents, slots, point });
            Some(0)
        }
        _ => None,
    }
}

/// Law 1: the cursors' slots are disjoint and together are `all`.
pub fn covers(cursors: &[Cursor], all: &SlotSet) -> Result<(), CoverError> {
    let slots = || cursors.iter().map(|cursor| &cursor.slots);
    let held = union(slots());
    let error = CoverError {
        twice: overlap(slots()),
        missing: all.difference(&held),
        foreign: held.difference(all),
    };
    let is_covered = [&error.twice, &error.missing, &error.foreign].iter().all(|s| s.is_empty());
    if is_covered { Ok(()) } else { Err(error) }
}

/// How cursors break law 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct CoverError {
    /// Slots that more than one cursor holds: their events would be handled twice.
    pub twice: SlotSet,
    /// Slots that no cursor holds: their events would be lost.
    pub missing: SlotSet,
    /// Slots that the consumer does not have.
    pub foreign: SlotSet,
}

impl fmt::Display for CoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cursors do not hold every slot once:")?;
        let mut comma = "";
        for (what, slots) in
            [("twice", &self.twice), ("missing", &self.missing), ("foreign", &self.foreign)]
        {
            if !slots.is_empty() {
                write!(f, "{comma} {what} {slots}")?;
                comma = ";";
            }
        }
        Ok(())
    }
}

pub(crate) fn union<'a>(sets: impl IntoIterator<Item = &'a SlotSet>) -> SlotSet {
    sets.into_iter().fold(SlotSet::empty(), |sum, set| sum.union(set))
}

/// The slots that are in more than one of the sets.
fn overlap<'a>(sets: impl IntoIterator<Item = &'a SlotSet>) -> SlotSet {
    let mut seen = SlotSet::empty();
    let mut twice = SlotSet::empty();
    for set in sets {
        twice = twice.union(&seen.intersection(set));
        seen = seen.union(set);
    }
    twice
}

#[cfg(test)]
mod recipes;
#[cfg(test)]
mod tests;
