//! The end of a proof: the record against the cursors, and what stays of it.

use super::{Prover, Violation};
use crate::cursor::covers;
use crate::{Cursor, Position, SLOTS, SlotSet};
use std::collections::BTreeSet;

/// A stored cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedCursor {
    /// Its slots.
    pub slots: SlotSet,
    /// Up to where their events are done.
    pub position: Position,
    /// The last row of the record that it wrote; `None` if it writes none.
    pub record: Option<i64>,
}

/// What was proven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proven {
    /// Rows of the record.
    pub rows: u64,
    /// Events that were handed to the handler, retries included.
    pub handed: u64,
    /// Events that were left out on purpose. A jump says nothing of those that it passes.
    pub skipped: u64,
    /// Events that are set aside.
    pub aside: u64,
    /// How many slots there are.
    pub slots: usize,
    /// The lowest position at which the record begins.
    pub since: Position,
    /// Every slot is proven up to here.
    pub up_to: Position,
    /// Some slots are proven up to here.
    pub furthest: Position,
}

/// What a `proven` row says, which takes the place of a last row of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The row that becomes this.
    pub record: i64,
    /// Its slots: those for which it is still the last row.
    pub slots: SlotSet,
    /// `from_position`: the same as `to`, but with a custom key the lowest position of all.
    pub from: Position,
    /// `to_position`: where the cursor is.
    pub to: Position,
    /// With a custom key: the events of (from, to] that are done or set aside, of those that may have its slots.
    pub handed: Option<Vec<Position>>,
    /// What is set aside.
    pub aside: Vec<Position>,
}

impl Prover {
    /// Compares with the cursors and with what is set aside now, both as of the moment of the last row.
    pub fn end(
        &self,
        cursors: &[AuditedCursor],
        aside: &BTreeSet<Position>,
    ) -> Result<Proven, Violation> {
        if !self.is_closed() {
            let problem = "the last window was not closed before the end";
            return Err(Violation::Misused { problem });
        }
        let stored = |cursor: &AuditedCursor| Cursor::free(cursor.slots.clone(), cursor.position);
        let stored: Vec<Cursor> = cursors.iter().map(stored).collect();
        covers(&stored, self.chain.all()).map_err(Violation::Cursors)?;
        cursors.iter().try_for_each(|cursor| self.is_at_its_row(cursor))?;
        let recorded = self.ledger.aside();
        if let Some((position, lost)) = recorded.iter().find(|(at, _)| !aside.contains(at)) {
            let (row, event) = (lost.row(), lost.place(*position));
            return Err(Violation::AsideLost { row, event });
        }
        if let Some(position) = aside.iter().find(|at| !recorded.contains_key(at)) {
            return Err(Violation::AsideUnrecorded { position: *position });
        }
        let positions = || cursors.iter().map(|cursor| cursor.position);
        let up_to = positions().min().unwrap_or_default();
        let since = self.sum.since.min(up_to);
        let (aside, furthest) = (aside.len() as u64, positions().max().unwrap_or_default());
        Ok(Proven { aside, since, up_to, furthest, ..self.sum.clone() })
    }

    fn is_at_its_row(&self, cursor: &AuditedCursor) -> Result<(), Violation> {
        let (slots, position) = (cursor.slots.clone(), cursor.position);
        let Some(record) = cursor.record else {
            return Err(Violation::CursorNotRecorded { slots, position });
        };
        let tip = self.chain.tips().get(&record);
        let others = match tip {
            Some(tip) => slots.difference(&tip.slots),
            None => slots.clone(),
        };
        if let Some(slot) = others.iter().next() {
            let last = self.chain.last_row(&SlotSet::from_slot(slot));
            let last = last.filter(|_| self.knows(record));
            return Err(Violation::CursorElsewhere { slots, position, record, slot, last });
        }
        match tip.map(|tip| tip.position) {
            Some(ended) if ended != position => {
                Err(Violation::CursorMoved { slots, position, record, ended })
            }
            _ => Ok(()),
        }
    }

    /// What has to stay of the rows when those that were proven are pruned: one for each last row, which becomes `proven`.
    #[must_use]
    pub fn checkpoint(&self) -> Vec<Checkpoint> {
        let lowest = self.chain.lowest();
        let mut left: Vec<Checkpoint> = Vec::new();
        let mut of_slot = vec![None; usize::from(SLOTS)];
        for (record, tip) in self.chain.tips() {
            tip.slots.iter().for_each(|slot| of_slot[usize::from(slot.get())] = Some(left.len()));
            let (record, slots, to) = (*record, SlotSet::clone(&tip.slots), tip.position);
            let done = self.by_position.as_ref().filter(|_| lowest < to);
            let handed = done.map(|done| done.done(&slots, to));
            let from = if handed.is_some() { lowest } else { to };
            left.push(Checkpoint { record, slots, from, to, handed, aside: Vec::new() });
        }
        for (position, aside) in self.ledger.aside() {
            match aside.place(*position).slot {
                Some(slot) => {
                    if let Some(number) = of_slot[usize::from(slot.get())] {
                        left[number].aside.push(*position);
                    }
                }
                // Each that may have it.
                None => {
                    let may_have = left.iter_mut().filter(|tip| aside.may_be_of(&tip.slots));
                    may_have.for_each(|tip| tip.aside.push(*position));
                }
            }
        }
        left
    }
}
