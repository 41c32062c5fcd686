//! What others may see of a lane: how far it is, what it holds, what it does.

use crate::report::Doing;
use anabranch_core::cursor::Parts;
use anabranch_core::engine_event::{Happening, OutageOf};
use anabranch_core::{SlotSet, StoreError};
use anabranch_store::{Backoff, Emitter};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What others may see of a lane.
#[derive(Debug, Default)]
pub(crate) struct LaneStats {
    /// Events handled and committed.
    pub(crate) handled: AtomicU64,
    /// Everything up to here is done; 0 while it holds nothing.
    pub(crate) position: AtomicU64,
    /// Where the furthest of its cursors stands; 0 while it holds none.
    pub(crate) furthest: AtomicU64,
    /// How many slots it holds.
    pub(crate) slots: AtomicUsize,
    /// How many keys are parked: they wait for somebody.
    pub(crate) parked: AtomicUsize,
    /// How many keys are tried again by themselves.
    pub(crate) retrying: AtomicUsize,
    /// How many batches were committed.
    pub(crate) batches: AtomicU64,
    /// How often it was fenced.
    pub(crate) losses: AtomicU64,
    /// Whether there is something that it could try.
    pub(crate) can_try: AtomicBool,
    /// Whether a commit is on its way that appends to the log.
    appends: AtomicBool,
    /// Whether one was since somebody asked, whatever became of it: its answer may be lost.
    has_appended: AtomicBool,
    doing: Mutex<State>,
}

/// What a lane does, since when, and with which cursors.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) doing: Doing,
    pub(crate) since: Instant,
    /// By id and epoch.
    pub(crate) cursors: Vec<(i64, i64)>,
    pub(crate) slots: Arc<SlotSet>,
}

impl Default for State {
    fn default() -> Self {
        let (cursors, slots) = (Vec::new(), Arc::new(SlotSet::empty()));
        Self { doing: Doing::Idle, since: Instant::now(), cursors, slots }
    }
}

impl LaneStats {
    pub(crate) fn state(&self) -> State {
        self.doing.lock().map(|state| state.clone()).unwrap_or_default()
    }

    /// Waits for a commit. Says to who asks meanwhile, and who asks next, if it appends.
    pub(crate) async fn while_committing<T>(
        &self,
        appends: bool,
        commit: impl Future<Output = T>,
    ) -> T {
        self.appends.store(appends, Ordering::SeqCst);
        let ended = commit.await;
        if appends {
            // In this order: one of the two is always seen.
            self.has_appended.store(true, Ordering::SeqCst);
            self.appends.store(false, Ordering::SeqCst);
        }
        ended
    }

    /// Whether it may have appended to the log since this was last asked.
    pub(crate) fn has_appended(&self) -> bool {
        let appends = self.appends.load(Ordering::SeqCst);
        self.has_appended.swap(false, Ordering::SeqCst) || appends
    }

    /// The lane was fenced.
    pub(crate) fn fenced(&self, events: &Emitter) {
        events.emit(Happening::lane_fenced());
        self.losses.fetch_add(1, Ordering::Relaxed);
    }

    /// The lane waits for a database that is away: for how long.
    pub(crate) fn waits(
        &self,
        events: &Emitter,
        outage: &mut Backoff,
        error: &StoreError,
    ) -> Duration {
        let wait = outage.wait();
        events.outage(outage, OutageOf::Lane, error);
        self.does(Doing::Waiting { error: Doing::cut(&error.to_string()) }, false);
        wait
    }

    /// The database is back: says so, if it was said that the lane waits.
    pub(crate) fn goes_on(&self, events: &Emitter, outage: &mut Backoff) {
        events.outage_over(outage, OutageOf::Lane);
    }

    /// What the lane waits for, if the database cannot do it now.
    pub(crate) fn waits_for(&self) -> Option<String> {
        let state = self.doing.lock().ok()?;
        match &state.doing {
            Doing::Waiting { error } => Some(error.clone()),
            _ => None,
        }
    }

    /// The lane has ended: it holds nothing, and does nothing.
    pub(crate) fn ended(&self) {
        self.position.store(0, Ordering::Relaxed);
        self.furthest.store(0, Ordering::Relaxed);
        self.parked.store(0, Ordering::Relaxed);
        self.retrying.store(0, Ordering::Relaxed);
        self.can_try.store(false, Ordering::Relaxed);
        self.holds(&Parts::default());
        self.does(Doing::Idle, true);
    }

    /// Says what the lane holds.
    pub(crate) fn holds(&self, parts: &Parts) {
        let slots = parts.slots();
        self.slots.store(slots.len(), Ordering::Relaxed);
        if let Ok(mut state) = self.doing.lock() {
            state.cursors = parts.rows();
            if *state.slots != slots {
                state.slots = Arc::new(slots);
            }
        }
    }

    /// Says what the lane does. Whoever fails or waits does so since the first time, until something
    /// works.
    pub(crate) fn does(&self, doing: Doing, has_worked: bool) {
        let Ok(mut state) = self.doing.lock() else { return };
        let is_trouble =
            |doing: &Doing| matches!(doing, Doing::Failing { .. } | Doing::Waiting { .. });
        if has_worked || !is_trouble(&state.doing) {
            state.since = Instant::now();
        }
        if has_worked || !is_trouble(&state.doing) || is_trouble(&doing) {
            state.doing = doing;
        }
    }
}
