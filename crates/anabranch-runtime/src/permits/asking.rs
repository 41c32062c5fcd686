//! When a process asks the database about permits. Pure.

use super::shares::in_blocks;
use std::time::{Duration, Instant};

/// How long permits that nobody uses are kept, if nobody else waits: the next row may come soon.
pub(super) const LINGER: Duration = Duration::from_millis(50);

/// What a process has of the permits, and wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Here {
    /// In use, or on their way to a lane.
    pub(super) in_use: usize,
    pub(super) free: usize,
    /// Their use is over, and others wait for them.
    pub(super) returned: usize,
    /// How many more its lanes want, beyond those that are on their way to them.
    pub(super) wanted: usize,
    /// Whether others wait for what it has.
    pub(super) is_crowded: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Tell the database what is in use and wanted, and take what it gives.
    Deal,
    /// Take what others have handed over, and find out whether they wait.
    Look,
    Wait {
        /// For how long, unless something changes here.
        until: Option<Instant>,
        /// Whether what others do with permits matters.
        hears_others: bool,
        /// Whether it matters that a worker is gone: it has left its permits.
        hears_workers: bool,
    },
}

/// What a process knows about the state of the database.
#[derive(Debug)]
pub(super) struct Asking {
    limit: usize,
    /// How often to look though nobody has said anything.
    poll: Duration,
    /// The database may think otherwise: it was asked and has not answered, so nobody knows what is stored.
    /// Only another deal settles that, since it waits for the one before; a look may be too early.
    is_unsure: bool,
    /// The use of one is over, and the database has not heard of it.
    owes_turn: bool,
    /// How many the database knows it to wait for.
    waits: usize,
    /// Others have changed something.
    has_heard: bool,
    /// When it asked last.
    asked: Instant,
    /// Since when it has what no lane wants.
    idle: Option<Instant>,
}

impl Asking {
    /// `is_unsure`: whether the database may know something of a former life.
    pub(super) fn new(limit: usize, poll: Duration, is_unsure: bool, now: Instant) -> Self {
        let (owes_turn, waits, has_heard, idle) = (false, 0, false, None);
        Self { limit, poll, is_unsure, owes_turn, waits, has_heard, asked: now, idle }
    }

    pub(super) fn next(&mut self, here: Here, now: Instant) -> Next {
        let Here { in_use, free, returned, wanted, is_crowded } = here;
        let is_short = wanted > free && self.waits == 0;
        let is_in_the_way = wanted == 0 && free > 0 && is_crowded;
        if self.is_unsure || returned > 0 || is_short || is_in_the_way {
            return Next::Deal;
        }
        // The rest of a block is kept while something of it is in use: that is what blocks are for.
        let is_idle =
            wanted == 0 && (self.waits > 0 || in_use + free > in_blocks(self.limit, in_use));
        self.idle = is_idle.then(|| self.idle.unwrap_or(now));
        let lingers_until = self.idle.map(|idle| idle + LINGER);
        if lingers_until.is_some_and(|until| until <= now) {
            return Next::Deal;
        }
        let hears_workers = self.waits > 0;
        let hears_others = hears_workers || in_use + free > 0;
        // A signal may be lost.
        let looks_at = hears_others.then(|| self.asked + self.poll);
        if hears_others && self.has_heard || looks_at.is_some_and(|at| at <= now) {
            return Next::Look;
        }
        let until = lingers_until.into_iter().chain(looks_at).min();
        Next::Wait { until, hears_others, hears_workers }
    }

    /// Others have changed something.
    pub(super) fn hear(&mut self) {
        self.has_heard = true;
    }

    /// It asks: from now on it is unsure, until the answer is here. Returns whether the use of one is over that
    /// the database has not heard of.
    pub(super) fn asks(&mut self, returned: usize, now: Instant) -> bool {
        self.owes_turn |= returned > 0;
        (self.asked, self.idle) = (now, None);
        (self.is_unsure, self.has_heard) = (true, false);
        self.owes_turn
    }

    /// The answer to a deal.
    pub(super) fn has_dealt(&mut self, short: usize) {
        self.owes_turn = false;
        self.has_looked(short);
    }

    /// The answer to a look.
    pub(super) fn has_looked(&mut self, waits: usize) {
        (self.is_unsure, self.waits) = (false, waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Duration = Duration::from_secs(5);

    fn wait(until: Option<Instant>, hears_others: bool, hears_workers: bool) -> Next {
        Next::Wait { until, hears_others, hears_workers }
    }

    /// One that has settled what it did not know.
    fn settled(limit: usize, waits: usize, now: Instant) -> Asking {
        let mut asking = Asking::new(limit, POLL, true, now);
        assert_eq!(asking.next(Here::default(), now), Next::Deal);
        asking.asks(0, now);
        asking.has_dealt(waits);
        asking
    }

    #[test]
    fn one_that_has_no_answer_asks_again_whatever_it_wants() {
        let now = Instant::now();
        let mut asking = settled(1, 0, now);
        let nothing = Here::default();
        assert_eq!(asking.next(nothing, now), wait(None, false, false));
        assert!(asking.asks(1, now), "one was returned");
        // It fails, or the answer is lost.
        assert_eq!(asking.next(nothing, now), Next::Deal);
        assert!(asking.asks(0, now), "that is still to be said");
        asking.has_dealt(0);
        assert_eq!(asking.next(nothing, now), wait(None, false, false));
        assert!(!asking.asks(0, now));
    }

    #[test]
    fn what_nobody_wants_lingers_and_goes_back() {
        let now = Instant::now();
        let mut asking = settled(3, 0, now);
        let two = Here { free: 2, ..Here::default() };
        assert_eq!(asking.next(two, now), wait(Some(now + LINGER), true, false));
        let wanted = Here { wanted: 1, ..two };
        assert_eq!(asking.next(wanted, now + LINGER), wait(Some(now + POLL), true, false));
        let later = now + LINGER * 2;
        assert_eq!(asking.next(two, later), wait(Some(later + LINGER), true, false));
        assert_eq!(asking.next(two, later + LINGER), Next::Deal);
        assert_eq!(asking.next(Here { is_crowded: true, ..two }, later), Next::Deal);
        // A wish that is none any more.
        let mut asking = settled(3, 1, now);
        assert_eq!(asking.next(Here::default(), now), wait(Some(now + LINGER), true, true));
        assert_eq!(asking.next(Here::default(), now + LINGER), Next::Deal);
    }

    #[test]
    fn the_rest_of_a_block_stays_while_something_of_it_is_in_use() {
        let now = Instant::now();
        let mut asking = settled(100, 0, now);
        let block = Here { in_use: 1, free: 7, ..Here::default() };
        assert_eq!(asking.next(block, now), wait(Some(now + POLL), true, false));
        let more = Here { free: 8, ..block };
        assert_eq!(asking.next(more, now), wait(Some(now + LINGER), true, false));
        let unused = Here { in_use: 0, free: 8, ..block };
        assert_eq!(asking.next(unused, now + LINGER), Next::Deal);
    }

    #[test]
    fn one_that_waits_or_has_some_hears_the_others() {
        let now = Instant::now();
        let mut asking = settled(1, 2, now);
        let waits = Here { wanted: 2, ..Here::default() };
        assert_eq!(asking.next(waits, now), wait(Some(now + POLL), true, true));
        assert_eq!(asking.next(waits, now + POLL), Next::Look);
        asking.hear();
        assert_eq!(asking.next(waits, now), Next::Look);
        asking.asks(0, now);
        asking.has_looked(2);
        assert_eq!(asking.next(waits, now), wait(Some(now + POLL), true, true));
    }
}
