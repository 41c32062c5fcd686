//! Rescaling: from N fixed partitions to M. Each slot keeps its position, so all there is to know is
//! which slots of which old partition a new one gets, and where they stand.

use crate::{Cursor, Position, SLOTS};
use serde::Serialize;
use std::collections::BTreeMap;

/// How far the slots of some partition are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Extent {
    /// How many slots.
    pub slots: usize,
    /// Where the last of them stands; nowhere if there are none.
    pub lowest: Option<Position>,
    /// Where the first of them stands.
    pub highest: Option<Position>,
}

impl Extent {
    fn add(&mut self, position: Position) {
        self.slots += 1;
        self.lowest = Some(self.lowest.map_or(position, |lowest| lowest.min(position)));
        self.highest = Some(self.highest.map_or(position, |highest| highest.max(position)));
    }
}

/// Slots that go from an old partition to a new one, and where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// The index of the old partition.
    pub from: u16,
    /// The index of the new one.
    pub to: u16,
    /// The slots.
    #[serde(flatten)]
    pub extent: Extent,
}

impl Move {
    /// Whether the process with the same index goes on with these slots.
    #[must_use]
    pub const fn stays(&self) -> bool {
        self.from == self.to
    }
}

/// How far each of `total` partitions is, by index.
///
/// ```
/// use anabranch_core::{Cursor, Position, SlotSet, rescale};
/// let cursors = [
///     Cursor::free(SlotSet::partition(0, 2), Position::new(10)),
///     Cursor::free(SlotSet::partition(1, 2), Position::new(7)),
/// ];
/// let of_3 = rescale::extents(&cursors, 3);
/// assert_eq!((of_3[0].slots, of_3[0].lowest), (1680, Some(Position::new(7))));
/// ```
#[must_use]
pub fn extents(cursors: &[Cursor], total: u16) -> Vec<Extent> {
    debug_assert!(total > 0, "a partition of no partitions");
    let mut extents = vec![Extent::default(); usize::from(total)];
    for (slot, position) in positions(cursors) {
        extents[usize::from(slot % total)].add(position);
    }
    extents
}

/// What going from `from` partitions to `to` does, sorted by new partition, then by old one. Slots that
/// stay with the same index are among it.
///
/// ```
/// use anabranch_core::{Cursor, Position, SlotSet, rescale};
/// let cursors = [Cursor::free(SlotSet::all(), Position::new(10))];
/// let moves = rescale::moves(&cursors, 2, 4);
/// let plain = moves.iter().map(|a| (a.from, a.to, a.extent.slots)).collect::<Vec<_>>();
/// assert_eq!(plain, [(0, 0, 1260), (1, 1, 1260), (0, 2, 1260), (1, 3, 1260)]);
/// ```
#[must_use]
pub fn moves(cursors: &[Cursor], from: u16, to: u16) -> Vec<Move> {
    debug_assert!(from > 0 && to > 0, "a partition of no partitions");
    let mut moves: BTreeMap<(u16, u16), Extent> = BTreeMap::new();
    for (slot, position) in positions(cursors) {
        moves.entry((slot % to, slot % from)).or_default().add(position);
    }
    moves.into_iter().map(|((to, from), extent)| Move { from, to, extent }).collect()
}

/// Whether the partitions of `total` by slot are those by hash, for every key: `hash % 5040 % total`
/// is `hash % total` only where `total` divides 5040.
#[must_use]
pub const fn is_exact(total: u16) -> bool {
    SLOTS.is_multiple_of(total)
}

/// The number of each slot, and where it stands.
fn positions(cursors: &[Cursor]) -> impl Iterator<Item = (u16, Position)> {
    cursors.iter().flat_map(|cursor| cursor.slots.iter().map(|slot| (slot.get(), cursor.position)))
}

#[cfg(test)]
mod tests;
