//! Custom keys: which slot an event has is unknown, so the rows say which events they are about, and each event
//! must fit one slot: that slot was covered there as often as rows with it name the event.
//!
//! While slots stand at different positions, an event may still be one that others have not reached. So what is
//! known of it, the slots that it may have, is kept until all have passed it, also in later windows.

use super::segment::Segment;
use super::{Seen, Violation};
use crate::{Position, SlotSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of events that not all slots have passed.
#[derive(Debug)]
pub(super) struct ByPosition {
    all: Arc<SlotSet>,
    events: BTreeMap<Position, Known>,
    /// Behind it is nothing that may still come.
    lowest: Position,
    /// The last sets that were made: most events share theirs.
    sets: [Arc<SlotSet>; 2],
}

#[derive(Debug)]
struct Known {
    /// The slots that it may have.
    slots: Arc<SlotSet>,
    /// Whether a row has named it.
    is_done: bool,
}

/// How often slots are covered where the pass over the log is, and what rows say of events.
#[derive(Debug)]
pub(super) struct Depths {
    /// Which slots are covered so often.
    at: Vec<SlotSet>,
    /// Which segments name which events, the next one last.
    named: Vec<(Position, usize)>,
}

impl Depths {
    pub(super) fn new(segments: &[Segment]) -> Self {
        let named = segments.iter().enumerate().flat_map(|(number, segment)| {
            let names = segment.rows.iter().flat_map(|row| row.names());
            names.map(move |position| (position, number))
        });
        let mut named: Vec<_> = named.collect();
        named.sort_unstable_by(|a, b| b.cmp(a));
        Self { at: vec![SlotSet::all()], named }
    }

    /// The segments that name the event at this position. What is named before it has no event, as the row finds out.
    pub(super) fn claims(&mut self, position: Position) -> Vec<usize> {
        let mut claims = Vec::new();
        while let Some((at, number)) = self.named.pop_if(|(at, _)| *at <= position) {
            if at == position {
                claims.push(number);
            }
        }
        claims
    }

    pub(super) fn raise(&mut self, slots: &SlotSet) {
        self.at.push(SlotSet::empty());
        for depth in (1..self.at.len()).rev() {
            self.shift(slots, depth - 1, depth);
        }
        self.trim();
    }

    pub(super) fn lower(&mut self, slots: &SlotSet) {
        for depth in 1..self.at.len() {
            self.shift(slots, depth, depth - 1);
        }
        self.trim();
    }

    fn shift(&mut self, slots: &SlotSet, from: usize, to: usize) {
        let shifted = self.at[from].intersection(slots);
        self.at[from] = self.at[from].difference(&shifted);
        self.at[to] = self.at[to].union(&shifted);
    }

    fn trim(&mut self) {
        while self.at.pop_if(|slots| slots.is_empty()).is_some() {}
    }

    fn at(&self, depth: usize) -> SlotSet {
        self.at.get(depth).cloned().unwrap_or_else(SlotSet::empty)
    }

    fn more_than(&self, depth: usize) -> SlotSet {
        let more = self.at.iter().skip(depth + 1);
        more.fold(SlotSet::empty(), |sum, slots| sum.union(slots))
    }
}

impl ByPosition {
    pub(super) fn new(all: &SlotSet) -> Self {
        let all = Arc::new(all.clone());
        let sets = [Arc::clone(&all), Arc::clone(&all)];
        Self { all, events: BTreeMap::new(), lowest: Position::START, sets }
    }

    /// Which slots an event may have, by what rows say of it and by where they were. `claims` are the segments that
    /// name it.
    pub(super) fn compare(
        &mut self,
        event: &Seen,
        depths: &Depths,
        claims: &[usize],
        segments: &[Segment],
    ) -> Result<(), Violation> {
        let known = self.events.get(&event.position);
        let before = known.map_or(&self.all, |known| &known.slots);
        // What was proven before names it in each row that may have it, and only one of them had it.
        let proven = |number: &&usize| segments[**number].is_proven();
        let once = claims.iter().filter(proven).map(|number| &segments[*number].slots);
        let once = once.fold(None, |sum: Option<SlotSet>, slots| {
            Some(sum.map_or_else(|| SlotSet::clone(slots), |sum| sum.union(slots)))
        });
        let named = claims.iter().filter(|number| !proven(number));
        let count = named.clone().count() + usize::from(once.is_some());
        let named = named.map(|number| &segments[*number].slots);
        let mut fit = once.unwrap_or_else(|| SlotSet::clone(&self.all));
        named.for_each(|slots| fit = fit.intersection(slots));
        let slots = fit.intersection(before).intersection(&depths.at(count));
        if slots.is_empty() {
            let is_too_rare = !fit.intersection(before).is_disjoint(&depths.more_than(count));
            let event = event.place();
            if count == 0 || is_too_rare {
                let slots = SlotSet::clone(before);
                return Err(Violation::NotRecorded { event, slots });
            }
            let rows = claims.iter().filter_map(|number| segments[*number].rows.front());
            return Err(Violation::RecordedTwice { event, rows: rows.map(|row| row.id).collect() });
        }
        if event.position <= self.lowest {
            return Ok(());
        }
        let is_done = known.is_some_and(|known| known.is_done) || count > 0;
        let slots = self.share(slots);
        self.events.insert(event.position, Known { slots, is_done });
        Ok(())
    }

    /// One set for all events that have the same.
    fn share(&mut self, slots: SlotSet) -> Arc<SlotSet> {
        if let Some(place) = self.sets.iter().position(|set| **set == slots) {
            return Arc::clone(&self.sets[place]);
        }
        self.sets.swap(0, 1);
        self.sets[0] = Arc::new(slots);
        Arc::clone(&self.sets[0])
    }

    /// All slots have passed this position at the end of the window: what is up to there is kept no longer.
    pub(super) fn is_passed(&mut self, lowest: Position) {
        self.lowest = lowest;
    }

    /// The window was compared.
    pub(super) fn close(&mut self) {
        self.events = self.events.split_off(&Position::new(self.lowest.get() + 1));
    }

    /// Events of some slots that are done, behind the lowest position of all.
    pub(super) fn done(&self, slots: &SlotSet, up_to: Position) -> Vec<Position> {
        let events = self.events.range(..=up_to);
        let done = events.filter(|(_, known)| known.is_done && !known.slots.is_disjoint(slots));
        done.map(|(position, _)| *position).collect()
    }
}
