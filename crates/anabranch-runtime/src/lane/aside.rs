//! The keys of a lane's slots that are set aside, in memory.

use crate::tables::parked::{Asked, ParkedKey};
use anabranch_core::{Slot, SlotSet};
use anabranch_store::Clock;
use std::collections::HashMap;
use std::time::Instant;

/// The keys of a lane's slots that are set aside: parked, or retrying.
#[derive(Debug)]
pub(crate) struct Parking {
    pub(super) keys: HashMap<String, Parked>,
    slots: SlotSet,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Parked {
    pub(super) slot: Slot,
    /// How often its first event has failed.
    pub(super) attempts: u32,
    /// When it is tried again.
    pub(super) due: Option<Instant>,
    /// Its events are to be handled again: it is tried once all of them are there.
    pub(super) comes_again: bool,
    /// Some of its events were handled, and the rest is due.
    pub(super) goes_on: bool,
}

impl Parked {
    /// One that is tried now, as if it had never failed.
    pub(super) fn afresh(slot: Slot) -> Self {
        Self { slot, attempts: 0, due: Some(Instant::now()), comes_again: false, goes_on: false }
    }
}

impl Default for Parking {
    fn default() -> Self {
        Self { keys: HashMap::new(), slots: SlotSet::empty() }
    }
}

impl Parking {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys wait for somebody.
    pub(crate) fn parked(&self) -> usize {
        self.keys.len() - self.retrying()
    }

    /// How many are tried again by themselves.
    pub(crate) fn retrying(&self) -> usize {
        self.keys.values().filter(|parked| parked.due.is_some() || parked.comes_again).count()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a key of this slot may be parked.
    pub(crate) fn has_slot(&self, slot: Slot) -> bool {
        self.slots.contains(slot)
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// Takes over the parked keys of some slots.
    pub(crate) fn load(&mut self, stored: &[ParkedKey], slots: &SlotSet, clock: &Clock) {
        let now = Instant::now();
        for key in stored.iter().filter(|key| slots.contains(key.slot)) {
            let comes_again = key.asked == Some(Asked::Replay);
            let due = key.retry_in.filter(|_| !comes_again).map(|wait| now + clock.wait(wait));
            let (slot, attempts) = (key.slot, key.attempts);
            self.put(&key.key, Parked { attempts, due, comes_again, ..Parked::afresh(slot) });
        }
    }

    /// Forgets the keys of slots that are not kept.
    pub(crate) fn keep(&mut self, slots: &SlotSet) {
        self.keys.retain(|_, parked| slots.contains(parked.slot));
        self.slots = self.slots.intersection(slots);
    }

    pub(super) fn put(&mut self, key: &str, parked: Parked) {
        self.slots.insert(parked.slot);
        self.keys.insert(key.to_owned(), parked);
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.keys.remove(key);
        self.slots = self.keys.values().map(|parked| parked.slot).collect();
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.keys.values().filter_map(|parked| parked.due).min()
    }

    /// Whether the table may not have a key any more, since the last event behind it may be done.
    pub(super) fn may_be_done(&self, key: &str) -> bool {
        let parked = self.keys.get(key);
        parked.is_none_or(|parked| parked.due.is_some() && (parked.goes_on || parked.attempts == 0))
    }

    /// One of the keys that are tried again by themselves: each time that is asked for, another one.
    pub(super) fn retrying_in_turn(&self, turn: i64) -> Option<String> {
        let retrying = self.keys.iter().filter(|(_, parked)| parked.due.is_some());
        let mut keys: Vec<&String> = retrying.map(|(key, _)| key).collect();
        keys.sort_unstable();
        let place = usize::try_from(turn).unwrap_or_default() % keys.len().max(1);
        keys.get(place).map(|key| (*key).clone())
    }

    /// The key that has been due for the longest time.
    pub(super) fn due(&self) -> Option<String> {
        let now = Instant::now();
        let due = self.keys.iter().filter_map(|(key, parked)| Some((parked.due?, key)));
        due.filter(|(due, _)| *due <= now).min().map(|(_, key)| key.clone())
    }
}
