//! What others may see of a feed.

use crate::report::Doing;
use anabranch_core::{SLOTS, Slot, StoreError};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What others may see of a feed.
pub(crate) struct FeedStats {
    /// How many events of each slot were read since they were counted last.
    events: Box<[AtomicU32]>,
    /// How many events were found though no wake had told of them.
    pub(crate) unannounced: AtomicU64,
    /// Why it waits for the database, if it does.
    away: Mutex<Option<String>>,
}

impl Default for FeedStats {
    fn default() -> Self {
        let events = (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        Self { events, unannounced: AtomicU64::new(0), away: Mutex::default() }
    }
}

impl FeedStats {
    /// How many events of a slot were read; counts from 0 again.
    pub(crate) fn take_count(&self, slot: Slot) -> u32 {
        self.events[usize::from(slot.get())].swap(0, Ordering::Relaxed)
    }

    /// So many more of a slot.
    pub(crate) fn count(&self, slot: Slot, more: u32) {
        self.events[usize::from(slot.get())].fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn count_anew(&self) {
        self.events.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }

    /// It waits for the database, or does not.
    pub(super) fn waits_for(&self, error: Option<&StoreError>) {
        if let Ok(mut away) = self.away.lock() {
            *away = error.map(|error| Doing::cut(&error.to_string()));
        }
    }

    /// Why it waits for the database, if it does.
    pub(crate) fn away(&self) -> Option<String> {
        self.away.lock().ok()?.clone()
    }
}
