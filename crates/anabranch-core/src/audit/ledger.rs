//! What is set aside: each such event is tried again, skipped, put back by a replay, or still set aside at the end.
//!
//! Rows name positions, and only the log says which slot and key these have. So what rows say is noted, and settled
//! position by position, when its event is seen.

use super::digest::{Digest, Digester};
use super::explain::Mismatch;
use super::keys::{Keys, Span};
use super::{EventPlace, Record, RecordKind, RowPlace, Seen, Violation};
use crate::{Position, SlotSet};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Ledger {
    aside: BTreeMap<Position, Aside>,
    /// What the rows of this window say, in their order.
    notes: BTreeMap<Position, Vec<Note>>,
    /// The replays and jumps of this window. They are few: somebody has to ask for each.
    resets: Vec<Reset>,
    tries: Vec<Try>,
    keys: Keys,
    is_ready: bool,
}

/// An event that is set aside.
#[derive(Clone, Debug)]
pub(super) struct Aside {
    /// The slots that it may have, if its event was not seen or has no slot.
    slots: Arc<SlotSet>,
    row: Arc<RowPlace>,
    /// How many rows came before that one.
    since: u64,
    event: Option<Arc<Seen>>,
}

#[derive(Debug)]
struct Note {
    number: u64,
    row: Arc<RowPlace>,
    slots: Arc<SlotSet>,
    says: Says,
}

#[derive(Clone, Copy, Debug)]
enum Says {
    /// It was set aside before the record began.
    Begins,
    IsSetAside,
    /// It was handed to the handler; by which of the tries.
    IsTried(usize),
    IsSkipped,
}

#[derive(Debug)]
struct Reset {
    number: u64,
    slots: Arc<SlotSet>,
    /// What was set aside behind it is not any more.
    to: Position,
}

/// A row that handed events to the handler that had been set aside.
#[derive(Debug)]
struct Try {
    row: Arc<RowPlace>,
    digest: Option<Digest>,
    handed: Vec<Position>,
    events: Vec<Option<Arc<Seen>>>,
}

impl Aside {
    pub(super) fn place(&self, position: Position) -> EventPlace {
        place(position, self.event.as_ref())
    }

    pub(super) fn row(&self) -> i64 {
        self.row.row
    }

    /// Whether it may be an event of these slots.
    pub(super) fn may_be_of(&self, slots: &SlotSet) -> bool {
        match self.event.as_ref().and_then(|event| event.slot) {
            Some(slot) => slots.contains(slot),
            None => !self.slots.is_disjoint(slots),
        }
    }
}

impl Ledger {
    /// Notes what a row says of events that are set aside.
    pub(super) fn note(
        &mut self,
        record: &Record,
        place: impl FnOnce() -> RowPlace,
        slots: &Arc<SlotSet>,
        number: u64,
    ) {
        let is_reset = matches!(record.kind, RecordKind::Replay | RecordKind::Jump);
        if is_reset {
            // A jump leaves out what was set aside, wherever it was.
            let to = if record.kind == RecordKind::Replay { record.to } else { Position::START };
            self.resets.push(Reset { number, slots: Arc::clone(slots), to });
        }
        let settles = matches!(record.kind, RecordKind::Retry | RecordKind::Skip);
        if is_reset || (record.aside.is_empty() && !settles) {
            return;
        }
        let row = Arc::new(place());
        let begins = matches!(record.kind, RecordKind::Begin | RecordKind::Proven);
        let says = if begins { Says::Begins } else { Says::IsSetAside };
        let mut add = |positions: &[Position], says: Says| {
            for position in positions {
                let (row, slots) = (Arc::clone(&row), Arc::clone(slots));
                let note = Note { number, row, slots, says };
                self.notes.entry(*position).or_default().push(note);
            }
        };
        add(&record.aside, says);
        if settles {
            add(&record.skipped, Says::IsSkipped);
            let handed = record.handed.clone().unwrap_or_default();
            if !handed.is_empty() {
                add(&handed, Says::IsTried(self.tries.len()));
                let events = vec![None; handed.len()];
                self.tries.push(Try { row, digest: record.digest, handed, events });
            }
        }
    }

    /// The positions of which rows of this window speak.
    pub(super) fn noted(&self) -> impl Iterator<Item = Position> + '_ {
        self.notes.keys().copied()
    }

    pub(super) fn aside(&self) -> &BTreeMap<Position, Aside> {
        &self.aside
    }

    pub(super) fn is_empty(&self) -> bool {
        self.notes.is_empty() && self.resets.is_empty()
    }

    /// All rows of the window were given. Nothing more is said of what no row names, but for replays.
    pub(super) fn ready(&mut self) {
        if std::mem::replace(&mut self.is_ready, true) {
            return;
        }
        let Self { aside, notes, resets, keys, .. } = self;
        aside.retain(|position, aside| {
            if notes.contains_key(position) {
                return true;
            }
            let end = resets.iter().find(|reset| *position > reset.to && aside.is_over(reset));
            if let Some(event) = &aside.event {
                let (event, from) = (Arc::clone(event), aside.since);
                let to = end.map_or(u64::MAX, |reset| reset.number);
                keys.add(Span { event, from, to, tried_by: None });
            }
            end.is_none()
        });
    }

    /// The event that was set aside before this one and has the same key, when this row handed it to the handler.
    pub(super) fn waiting(&self, event: &Seen, row: u64) -> Option<EventPlace> {
        self.keys.waiting(event, row).map(|waiting| waiting.place())
    }

    /// What rows say of this event, one after the other.
    pub(super) fn settle(&mut self, event: &Arc<Seen>) -> Result<(), Violation> {
        match self.notes.remove(&event.position) {
            Some(notes) => self.settle_all(event.position, Some(event), notes),
            None => Ok(()),
        }
    }

    fn settle_all(
        &mut self,
        position: Position,
        event: Option<&Arc<Seen>>,
        notes: Vec<Note>,
    ) -> Result<(), Violation> {
        let mut aside = self.aside.remove(&position);
        if let (Some(aside), Some(event)) = (&mut aside, event) {
            aside.event = Some(Arc::clone(event));
        }
        let mut spans = Vec::new();
        let mut end = |aside: &Aside, to: u64, tried_by: Option<Arc<RowPlace>>| {
            if let Some(event) = event {
                let (event, from) = (Arc::clone(event), aside.since);
                spans.push(Span { event, from, to, tried_by });
            }
        };
        let mut resets = self.resets.iter().filter(|reset| position > reset.to).peekable();
        for note in notes {
            while let Some(reset) = resets.next_if(|reset| reset.number < note.number) {
                if let Some(over) = aside.take_if(|aside| aside.is_over(reset)) {
                    end(&over, reset.number, None);
                }
            }
            let row = || RowPlace::clone(&note.row);
            let slot = event.and_then(|event| event.slot);
            let is_there = match note.says {
                Says::IsTried(_) => event.is_some(),
                _ => slot.is_none_or(|slot| note.slots.contains(slot)),
            };
            if !is_there {
                return Err(Violation::NotInLog { row: row(), position });
            }
            let named = || place(position, event);
            if slot.is_some_and(|slot| !note.slots.contains(slot)) {
                return Err(Violation::OtherSlot { row: row(), event: named() });
            }
            let was_aside = aside.take_if(|aside| aside.may_be_of(&note.slots));
            match (note.says, was_aside) {
                (Says::IsSetAside, Some(_)) => {
                    return Err(Violation::AsideTwice { row: row(), event: named() });
                }
                (Says::IsTried(_) | Says::IsSkipped, None) => {
                    return Err(Violation::NotAside { row: row(), event: named() });
                }
                (Says::IsTried(number), Some(was)) => {
                    end(&was, note.number, Some(Arc::clone(&note.row)));
                    self.tries[number].found(position, event);
                }
                (Says::IsSkipped, Some(was)) => end(&was, note.number, None),
                (Says::Begins | Says::IsSetAside, _) => {
                    // Beginnings that may have it name it each, if its slot is unknown.
                    let slots = match aside.take() {
                        Some(other) if matches!(note.says, Says::Begins) => {
                            Arc::new(other.slots.union(&note.slots))
                        }
                        _ => Arc::clone(&note.slots),
                    };
                    let (row, since) = (Arc::clone(&note.row), note.number);
                    aside = Some(Aside { slots, row, since, event: event.cloned() });
                }
            }
        }
        for reset in resets {
            if let Some(over) = aside.take_if(|aside| aside.is_over(reset)) {
                end(&over, reset.number, None);
            }
        }
        if let Some(aside) = aside {
            end(&aside, u64::MAX, None);
            self.aside.insert(position, aside);
        }
        spans.into_iter().for_each(|span| self.keys.add(span));
        Ok(())
    }

    /// All events of the window were seen.
    pub(super) fn close(&mut self) -> Result<(), Violation> {
        self.ready();
        // Of these the log has no event.
        for (position, notes) in std::mem::take(&mut self.notes) {
            self.settle_all(position, None, notes)?;
        }
        self.tries.iter().try_for_each(Try::compare)?;
        self.keys.close()?;
        let aside = std::mem::take(&mut self.aside);
        *self = Self { aside, ..Self::default() };
        Ok(())
    }
}

impl Aside {
    /// Whether it is set aside no more behind this replay or jump. Where its slot is unknown, it may now be one of
    /// the others only.
    fn is_over(&mut self, reset: &Reset) -> bool {
        if !self.may_be_of(&reset.slots) {
            return false;
        }
        if self.event.as_ref().is_some_and(|event| event.slot.is_some()) {
            return true;
        }
        self.slots = Arc::new(self.slots.difference(&reset.slots));
        self.slots.is_empty()
    }
}

impl Try {
    fn found(&mut self, position: Position, event: Option<&Arc<Seen>>) {
        if let Ok(place) = self.handed.binary_search(&position) {
            self.events[place] = event.cloned();
        }
    }

    fn compare(&self) -> Result<(), Violation> {
        let expected: Vec<_> = self.events.iter().flatten().cloned().collect();
        let mut digester = Digester::new();
        expected.iter().for_each(|event| digester.add(event.position, &event.id));
        if digester.finish() == self.digest {
            return Ok(());
        }
        let mismatch = Mismatch {
            row: RowPlace::clone(&self.row),
            expected: &expected,
            total: expected.len() as u64,
            count: self.handed.len() as u64,
            digest: self.digest,
            others: &[],
            left_out: &|_| false,
            is_own: &|_| true,
        };
        Err(mismatch.explain())
    }
}

fn place(position: Position, event: Option<&Arc<Seen>>) -> EventPlace {
    event.map_or(EventPlace { position, slot: None, name: None }, |event| event.place())
}
