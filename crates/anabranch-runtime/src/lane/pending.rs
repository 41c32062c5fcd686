//! What was read for a lane and is not begun with yet.
//!
//! Parts that stand at different positions are read apart, and take turns here: slots that were just
//! handed over wait for the batch in work, not for all that was read before they came. The part that is
//! last gets more turns than the others, so that they meet one day.

use crate::feed::Chunk;
use anabranch_core::Position;
use anabranch_core::cursor::Parts;
use std::collections::{HashMap, VecDeque};

/// For so many turns of others a part that is not the last waits after its own.
const HANDICAP: u64 = 3;

#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// In the order in which they were read.
    chunks: VecDeque<Chunk>,
    /// When a part had its last turn.
    turns: HashMap<usize, u64>,
    turn: u64,
}

impl Pending {
    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.chunks.push_back(chunk);
    }

    /// Gives back what was taken last, or what is left of it.
    pub(crate) fn put_back(&mut self, chunk: Chunk) {
        self.chunks.push_front(chunk);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn has_events(&self) -> bool {
        self.chunks.iter().any(|chunk| !chunk.events.is_empty())
    }

    pub(crate) fn change(&mut self, change: impl Fn(Chunk) -> Chunk) {
        self.chunks = std::mem::take(&mut self.chunks).into_iter().map(change).collect();
    }

    /// Takes the next chunk: of exactly these parts, or of those whose turn it is. A chunk never
    /// overtakes an earlier one with a part in common.
    pub(crate) fn take(&mut self, parts: &Parts, of: Option<&[usize]>) -> Option<Chunk> {
        let place = match of {
            Some(of) => {
                let shares = |chunk: &Chunk| chunk.parts.iter().any(|part| of.contains(part));
                let first = self.chunks.iter().position(shares)?;
                (self.chunks[first].parts == of).then_some(first)?
            }
            None => self.whose_turn(parts)?,
        };
        let chunk = self.chunks.remove(place)?;
        if of.is_none() {
            self.turn += 1;
            for part in &chunk.parts {
                self.turns.insert(*part, self.turn);
            }
        }
        Some(chunk)
    }

    /// How many parts, or parts that stand together, have something to do and had no turn yet.
    pub(crate) fn newcomers(&self) -> usize {
        let is_new = |chunk: &Chunk| {
            !chunk.events.is_empty()
                && !chunk.parts.iter().any(|part| self.turns.contains_key(part))
        };
        self.heads().filter(|(_, chunk)| is_new(chunk)).count()
    }

    /// The first chunk of each.
    fn heads(&self) -> impl Iterator<Item = (usize, &Chunk)> {
        let mut earlier: Vec<usize> = Vec::new();
        self.chunks.iter().enumerate().filter(move |(_, chunk)| {
            let is_first = !chunk.parts.iter().any(|part| earlier.contains(part));
            earlier.extend(&chunk.parts);
            is_first
        })
    }

    fn whose_turn(&self, parts: &Parts) -> Option<usize> {
        if self.chunks.len() < 2 {
            return (!self.chunks.is_empty()).then_some(0);
        }
        let lowest: Option<Position> = parts.lowest();
        let mut best: Option<(u64, usize)> = None;
        for (place, chunk) in self.heads() {
            let last = chunk.parts.iter().filter_map(|part| self.turns.get(part)).max();
            let is_last = Some(parts.reached(&chunk.parts).position) <= lowest;
            let handicap = if is_last || last.is_none() { 0 } else { HANDICAP };
            let turn = last.map_or(0, |turn| turn + handicap);
            if best.is_none_or(|(before, _)| turn < before) {
                best = Some((turn, place));
            }
        }
        best.map(|(_, place)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::Place;
    use anabranch_core::{Cursor, SlotSet};

    fn chunk(parts: &[usize], up_to: u64) -> Chunk {
        Chunk {
            parts: parts.to_vec(),
            tenure: 0,
            sheds: 0,
            events: Vec::new(),
            up_to: Position::new(up_to).into(),
            _place: Place::free(),
        }
    }

    fn parts(positions: &[u64]) -> Parts {
        let mut parts = Parts::default();
        for (number, at) in positions.iter().enumerate() {
            let slots = SlotSet::partition(number as u16, 5);
            let id = number as i64 + 1;
            parts.add(Cursor { id, ..Cursor::free(slots, Position::new(*at)) });
        }
        parts
    }

    fn taken(pending: &mut Pending, parts: &Parts) -> Vec<u64> {
        std::iter::from_fn(|| pending.take(parts, None))
            .map(|chunk| chunk.up_to.position.get())
            .collect()
    }

    #[test]
    fn whoever_is_new_does_not_wait_for_all_that_was_read_before() {
        let mut pending = Pending::default();
        let parts = parts(&[0, 100]);
        (1..=4).for_each(|number| pending.push(chunk(&[0], number)));
        assert_eq!(pending.take(&parts, None).unwrap().up_to.position.get(), 1);
        pending.push(chunk(&[1], 101));
        assert_eq!(taken(&mut pending, &parts), [101, 2, 3, 4]);
    }

    #[test]
    fn the_last_part_has_more_turns() {
        let mut pending = Pending::default();
        let parts = parts(&[0, 100]);
        (1..=6).for_each(|number| pending.push(chunk(&[0], number)));
        (101..=103).for_each(|number| pending.push(chunk(&[1], number)));
        assert_eq!(taken(&mut pending, &parts), [1, 101, 2, 3, 4, 5, 102, 6, 103]);
    }

    #[test]
    fn nobody_overtakes_a_chunk_with_a_part_in_common() {
        let mut pending = Pending::default();
        let parts = parts(&[0, 0, 0]);
        pending.push(chunk(&[0], 1));
        pending.push(chunk(&[1], 2));
        pending.push(chunk(&[0, 1], 3));
        pending.push(chunk(&[2], 4));
        pending.push(chunk(&[1], 5));
        let order = taken(&mut pending, &parts);
        let place = |up_to: u64| order.iter().position(|each| *each == up_to);
        assert!(place(1) < place(3) && place(2) < place(3) && place(3) < place(5), "{order:?}");
    }

    #[test]
    fn of_the_same_parts_only_what_comes_next() {
        let mut pending = Pending::default();
        let parts = parts(&[0, 0]);
        pending.push(chunk(&[0], 1));
        pending.push(chunk(&[0, 1], 2));
        pending.push(chunk(&[0], 3));
        assert_eq!(pending.take(&parts, Some(&[0])).unwrap().up_to.position.get(), 1);
        assert!(pending.take(&parts, Some(&[0])).is_none(), "the next one is of both");
    }
}
