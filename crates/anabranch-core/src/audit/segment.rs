//! Runs of rows of one cursor within a window, and the comparison of each row with the events that it covers.

use super::digest::{Digest, Digester};
use super::explain::Mismatch;
use super::ledger::Ledger;
use super::{EventPlace, Record, RecordKind, RowPlace, Seen, Violation};
use crate::{Position, SlotSet};
use std::collections::VecDeque;
use std::sync::Arc;

/// So many events of a row are kept, to say which of them is wrong.
const KEPT: usize = 10_000;

/// A row that covers events.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: i64,
    /// How many rows came before it, so that what was set aside can be ordered.
    pub(super) number: u64,
    pub(super) from: Position,
    pub(super) to: Position,
    pub(super) count: u64,
    pub(super) digest: Option<Digest>,
    pub(super) handed: Option<Vec<Position>>,
    pub(super) aside: Vec<Position>,
    pub(super) skipped: Vec<Position>,
    /// Whether it only repeats what was proven.
    pub(super) is_proven: bool,
}

impl Row {
    pub(super) fn new(record: Record, number: u64) -> Self {
        let is_proven = record.kind == RecordKind::Proven;
        let Record { id, from, to, count, digest, handed, aside, skipped, .. } = record;
        // What had been set aside before is no event that it covers.
        let aside = if is_proven { Vec::new() } else { aside };
        Self { id, number, from, to, count, digest, handed, aside, skipped, is_proven }
    }

    /// The positions that it names.
    pub(super) fn names(&self) -> impl Iterator<Item = Position> + '_ {
        let handed = self.handed.iter().flatten();
        handed.chain(&self.aside).chain(&self.skipped).copied()
    }
}

/// Rows that go on from each other with the same slots.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) slots: Arc<SlotSet>,
    /// Where its slots begin.
    pub(super) starts: Vec<(Position, Arc<SlotSet>)>,
    pub(super) rows: VecDeque<Row>,
    open: Open,
}

/// The events of the first row so far.
#[derive(Debug, Default)]
struct Open {
    digester: Digester,
    events: Vec<Arc<Seen>>,
    /// How many of the positions that the row names had an event.
    handed: usize,
    aside: usize,
    skipped: usize,
    /// An event that came while another of its key was set aside, and that one.
    overtaken: Option<(EventPlace, EventPlace)>,
}

/// What a row says of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Handed,
    LeftOut,
}

impl Segment {
    pub(super) fn new(slots: Arc<SlotSet>, starts: Vec<(Position, Arc<SlotSet>)>) -> Self {
        Self { slots, starts, rows: VecDeque::new(), open: Open::default() }
    }

    /// What it covers: after, up to.
    pub(super) fn range(&self) -> Option<(Position, Position)> {
        let from = self.starts.iter().map(|(start, _)| *start).min()?;
        let to = self.rows.back()?.to;
        (from < to).then_some((from, to))
    }

    pub(super) fn place(&self, row: &Row) -> RowPlace {
        RowPlace { row: row.id, slots: SlotSet::clone(&self.slots), from: row.from, to: row.to }
    }

    /// Whether it only repeats what was proven.
    pub(super) fn is_proven(&self) -> bool {
        self.rows.front().is_some_and(|row| row.is_proven)
    }

    /// The next event of the first row.
    pub(super) fn take(&mut self, event: &Arc<Seen>) -> Result<Fate, Violation> {
        let Some(row) = self.rows.front() else { return Ok(Fate::LeftOut) };
        let (at, open) = (event.position, &mut self.open);
        let lists = [(&row.aside, &mut open.aside), (&row.skipped, &mut open.skipped)];
        let mut fate = Fate::Handed;
        let mut missing = None;
        for (list, next) in lists {
            match list.get(*next) {
                Some(named) if *named == at => {
                    *next += 1;
                    fate = Fate::LeftOut;
                }
                Some(named) if *named < at => missing = missing.or(Some(*named)),
                _ => {}
            }
        }
        if let (Fate::Handed, Some(handed)) = (fate, &row.handed) {
            match handed.get(open.handed) {
                Some(named) if *named == at => open.handed += 1,
                Some(named) if *named < at => missing = missing.or(Some(*named)),
                _ => {}
            }
        }
        if let Some(position) = missing.filter(|_| !row.is_proven) {
            return Err(Violation::NotInLog { row: self.place(row), position });
        }
        if fate == Fate::Handed {
            self.open.digester.add(at, &event.id);
            if self.open.events.len() < KEPT {
                self.open.events.push(Arc::clone(event));
            }
        }
        Ok(fate)
    }

    /// Looks whether an earlier event of its key was set aside when the first row handed this one to the handler. That counts if
    /// the row proves to have done so.
    pub(super) fn check_order(&mut self, event: &Seen, ledger: &Ledger) {
        let Some(row) = self.rows.front().filter(|_| self.open.overtaken.is_none()) else { return };
        let waiting = ledger.waiting(event, row.number);
        self.open.overtaken = waiting.map(|aside| (event.place(), aside));
    }

    /// All events of the first row were there.
    pub(super) fn close_row(&mut self, recent: &Recent) -> Result<(), Violation> {
        let Some(row) = self.rows.pop_front() else { return Ok(()) };
        let open = std::mem::take(&mut self.open);
        if row.is_proven {
            return Ok(());
        }
        let unseen = row.aside.get(open.aside).into_iter().chain(row.skipped.get(open.skipped));
        let handed = row.handed.as_deref().unwrap_or_default();
        if let Some(position) = unseen.chain(handed.get(open.handed)).min() {
            return Err(Violation::NotInLog { row: self.place(&row), position: *position });
        }
        if open.digester.count() == row.count && open.digester.finish() == row.digest {
            return match open.overtaken {
                Some((event, aside)) => {
                    Err(Violation::Overtaken { row: self.place(&row), event, aside })
                }
                None => Ok(()),
            };
        }
        let others = recent.others(&open.events, row.to);
        let mismatch = Mismatch {
            row: self.place(&row),
            expected: &open.events,
            total: open.digester.count(),
            count: row.count,
            digest: row.digest,
            others: &others,
            left_out: &|at| row.aside.contains(&at) || row.skipped.contains(&at),
            is_own: &|event| event.slot.is_none_or(|slot| self.slots.contains(slot)),
        };
        Err(mismatch.explain())
    }
}

/// The last events of the log, whatever their slots: one of them may be where it should not be.
#[derive(Debug, Default)]
pub(super) struct Recent {
    events: VecDeque<Arc<Seen>>,
}

impl Recent {
    pub(super) fn push(&mut self, event: &Arc<Seen>) {
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(Arc::clone(event));
    }

    /// Those up to a position that are not among these, the last ones first.
    fn others(&self, own: &[Arc<Seen>], up_to: Position) -> Vec<Arc<Seen>> {
        let is_own = |event: &&Arc<Seen>| {
            own.binary_search_by_key(&event.position, |event| event.position).is_ok()
        };
        let others = self.events.iter().rev().filter(|event| event.position <= up_to);
        others.filter(|event| !is_own(event)).cloned().collect()
    }
}
