//! One pass over the log for all rows of a window: each event goes to the rows that cover its slot there.
//!
//! A slot that was put back within the window is covered twice there, by two segments. Whoever has many slots has
//! few segments: a new one begins only where slots are added, left behind or put elsewhere.

use super::by_position::{ByPosition, Depths};
use super::segment::{Fate, Recent, Segment};
use super::{Seen, Violation};
use crate::{Position, SLOTS, Slot, SlotSet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) segments: Vec<Segment>,
    pass: Option<Pass>,
}

/// Where the pass over the log is.
#[derive(Debug)]
struct Pass {
    /// Which slots of which segment begin where, the next one last.
    starts: Vec<(Position, usize, Arc<SlotSet>)>,
    /// Where the first row of each segment ends that has begun.
    ends: BinaryHeap<Reverse<(Position, usize)>>,
    has_begun: Vec<bool>,
    cover: Cover,
    recent: Recent,
}

/// Which segments cover what, where the pass is.
#[derive(Debug)]
enum Cover {
    /// The segments of each slot.
    BySlot(Vec<Vec<usize>>),
    ByPosition(Depths),
}

impl Window {
    /// What the rows cover: ascending, and no range touches another.
    pub(super) fn ranges(&self) -> Vec<(Position, Position)> {
        let mut all: Vec<_> = self.segments.iter().filter_map(Segment::range).collect();
        all.sort_unstable();
        let mut ranges: Vec<(Position, Position)> = Vec::new();
        for (from, to) in all {
            match ranges.last_mut() {
                Some((_, end)) if from <= *end => *end = to.max(*end),
                _ => ranges.push((from, to)),
            }
        }
        ranges
    }

    fn pass(&mut self, by_slot: bool) -> &mut Pass {
        let segments = &self.segments;
        self.pass.get_or_insert_with(|| Pass::new(segments, by_slot))
    }

    /// The next event. `handed` is called for each row that says that the handler received it.
    pub(super) fn event(
        &mut self,
        event: &Arc<Seen>,
        by_position: &mut Option<ByPosition>,
        mut handed: impl FnMut(&mut Segment),
    ) -> Result<(), Violation> {
        self.pass(by_position.is_none()).recent.push(event);
        self.go_to(event.position)?;
        let Self { segments, pass: Some(pass) } = self else { return Ok(()) };
        let claims = match (&mut pass.cover, by_position) {
            (Cover::ByPosition(depths), Some(by_position)) => {
                let claims = depths.claims(event.position);
                by_position.compare(event, depths, &claims, segments)?;
                claims
            }
            (Cover::BySlot(active), _) => {
                let slot = usize::from(event.slot.unwrap_or(Slot::ZERO).get());
                for number in &active[slot] {
                    let segment = &mut segments[*number];
                    if segment.take(event)? == Fate::Handed {
                        handed(segment);
                    }
                }
                return Ok(());
            }
            (Cover::ByPosition(_), None) => return Ok(()),
        };
        claims.iter().try_for_each(|number| segments[*number].take(event).map(drop))
    }

    /// All events were given.
    pub(super) fn close(&mut self, by_slot: bool) -> Result<(), Violation> {
        if !self.segments.is_empty() {
            self.pass(by_slot);
        }
        // No row covers what is behind the end.
        self.go_to(None)?;
        *self = Self::default();
        Ok(())
    }

    /// Rows begin that cover an event at this position, and rows end that lie before it; all of them without a position.
    fn go_to(&mut self, position: impl Into<Option<Position>>) -> Result<(), Violation> {
        let position = position.into();
        let is_before = |place: Position| position.is_none_or(|position| place < position);
        let Self { segments, pass: Some(pass) } = self else { return Ok(()) };
        while let Some((_, number, slots)) = pass.starts.pop_if(|(at, ..)| is_before(*at)) {
            pass.cover.add(number, &slots);
            // The first of its starts is where its first row begins.
            if !std::mem::replace(&mut pass.has_begun[number], true)
                && let Some(row) = segments[number].rows.front()
            {
                pass.ends.push(Reverse((row.to, number)));
            }
        }
        while let Some(Reverse((end, number))) = pass.ends.peek().copied() {
            if !is_before(end) {
                break;
            }
            pass.ends.pop();
            let segment = &mut segments[number];
            segment.close_row(&pass.recent)?;
            match segment.rows.front() {
                Some(next) => pass.ends.push(Reverse((next.to, number))),
                None => pass.cover.remove(number, &segment.slots),
            }
        }
        Ok(())
    }
}

impl Pass {
    fn new(segments: &[Segment], by_slot: bool) -> Self {
        let starts = segments.iter().enumerate().flat_map(|(number, segment)| {
            segment.starts.iter().map(move |(start, slots)| (*start, number, Arc::clone(slots)))
        });
        let mut starts: Vec<_> = starts.collect();
        starts.sort_by_key(|(start, number, _)| Reverse((*start, *number)));
        let cover = match by_slot {
            true => Cover::BySlot(vec![Vec::new(); usize::from(SLOTS)]),
            false => Cover::ByPosition(Depths::new(segments)),
        };
        let has_begun = vec![false; segments.len()];
        Self { starts, ends: BinaryHeap::new(), has_begun, cover, recent: Recent::default() }
    }
}

impl Cover {
    fn add(&mut self, number: usize, slots: &SlotSet) {
        match self {
            Self::BySlot(active) => {
                slots.iter().for_each(|slot| active[usize::from(slot.get())].push(number));
            }
            Self::ByPosition(depths) => depths.raise(slots),
        }
    }

    fn remove(&mut self, number: usize, slots: &SlotSet) {
        match self {
            Self::BySlot(active) => slots.iter().for_each(|slot| {
                active[usize::from(slot.get())].retain(|other| *other != number);
            }),
            Self::ByPosition(depths) => depths.lower(slots),
        }
    }
}
