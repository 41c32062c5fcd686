//! Sets of slots, one bit for each: what a cursor stands for, and what a worker is assigned.

use crate::{SLOTS, Slot};
use std::fmt;

/// The size of a set in bytes, as it is stored.
pub const BYTES: usize = SLOTS as usize / 8;

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = (SLOTS as usize).div_ceil(WORD_BITS);
/// How many ranges of slots are written out.
const RANGES_SHOWN: usize = 6;

/// A set of slots.
///
/// ```
/// use anabranch_core::SlotSet;
/// let mine = SlotSet::partition(1, 3);
/// assert_eq!(mine.len(), 1680);
/// assert_eq!(mine.to_string(), "partition 1 of 3");
/// // Going from 3 partitions to 5 moves slots, never splits one.
/// assert_eq!(mine.intersection(&SlotSet::partition(4, 5)).len(), 336);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SlotSet {
    /// Slot `s` is bit `s % 64` of word `s / 64`; the bits beyond the last slot are never set.
    words: Box<[u64; WORDS]>,
}

impl SlotSet {
    /// No slot.
    #[must_use]
    pub fn empty() -> Self {
        Self { words: Box::new([0; WORDS]) }
    }

    /// Every slot.
    #[must_use]
    pub fn all() -> Self {
        Self::partition(0, 1)
    }

    /// One slot.
    #[must_use]
    pub fn from_slot(slot: Slot) -> Self {
        [slot].into_iter().collect()
    }

    /// The slots with `slot % total == index`.
    #[must_use]
    pub fn partition(index: u16, total: u16) -> Self {
        debug_assert!(total > 0, "a partition of no partitions");
        // An index that is too large is the remainder of no slot.
        let end = if index < total { SLOTS } else { 0 };
        (index..end).step_by(usize::from(total.max(1))).filter_map(Slot::new).collect()
    }

    /// Adds a slot; whether it was missing.
    pub fn insert(&mut self, slot: Slot) -> bool {
        let (word, bit) = place(slot);
        let was_missing = self.words[word] & bit == 0;
        self.words[word] |= bit;
        was_missing
    }

    /// Whether it holds this slot.
    #[must_use]
    pub fn contains(&self, slot: Slot) -> bool {
        let (word, bit) = place(slot);
        self.words[word] & bit != 0
    }

    /// How many slots it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it holds no slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The slots of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    /// The slots of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// The slots of this set that the other does not hold.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    /// Whether no slot is in both.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(other.words.iter()).all(|(a, b)| a & b == 0)
    }

    /// Whether the other holds every slot of this one.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.iter().zip(other.words.iter()).all(|(a, b)| a & !b == 0)
    }

    /// The slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.words.iter().enumerate().flat_map(|(number, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Slot::new((number * WORD_BITS + bit) as u16)
            })
        })
    }

    /// Deals the slots out to so many lanes, one after the other, so that the lanes differ by one
    /// slot at most. Always as many sets as lanes; the last ones are empty if the slots run out.
    #[must_use]
    pub fn deal(&self, lanes: usize) -> Vec<Self> {
        let mut dealt = vec![Self::empty(); lanes];
        let turns = (0..lanes).cycle();
        for (slot, lane) in self.iter().zip(turns) {
            dealt[lane].insert(slot);
        }
        dealt
    }

    /// The bitmap as it is stored: slot `s` is bit `s % 8`, least significant first, of byte `s / 8`.
    /// That is the order of PostgreSQL's `get_bit`.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).take(BYTES).collect()
    }

    /// The set from its stored bitmap, if that has [`BYTES`] bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != BYTES {
            return None;
        }
        let mut set = Self::empty();
        for (word, bytes) in set.words.iter_mut().zip(bytes.chunks(size_of::<u64>())) {
            let mut whole = [0; size_of::<u64>()];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        Some(set)
    }

    fn zip(&self, other: &Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self { words: Box::new(std::array::from_fn(|i| both(self.words[i], other.words[i]))) }
    }

    /// The partition that it is, if it is one with more slots than are written out.
    fn as_partition(&self) -> Option<(u16, u16)> {
        let mut slots = self.iter();
        let (first, second) = (slots.next()?.get(), slots.next()?.get());
        // The first slot of a partition is its index, the second comes `total` later.
        let total = second - first;
        let is_partition = self.len() > RANGES_SHOWN && *self == Self::partition(first, total);
        is_partition.then_some((first, total))
    }

    /// First and last slot of each run of neighbours.
    fn ranges(&self) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in self.iter().map(Slot::get) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }
}

fn place(slot: Slot) -> (usize, u64) {
    let number = usize::from(slot.get());
    (number / WORD_BITS, 1 << (number % WORD_BITS))
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::empty();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_partition() {
            _ if self.is_empty() => return f.write_str("none"),
            Some((_, 1)) => return f.write_str("all"),
            Some((index, total)) => return write!(f, "partition {index} of {total}"),
            None => {}
        }
        let ranges = self.ranges();
        for (number, (first, last)) in ranges.iter().take(RANGES_SHOWN).enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
        }
        if ranges.len() > RANGES_SHOWN {
            write!(f, "… ({} slots)", self.len())?;
        }
        Ok(())
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
