//! What a lane has seen of its tasks in the tables, and what it looks for next. Pure.
//!
//! Looking on from the last task that was read finds what was enqueued since. What became visible late
//! (an enqueueing transaction may commit after a later one), what was retried or released stands before
//! that: a full look finds it, whenever the lane has nothing else to do, or once a second (five, beside a key
//! with a long line). In a look the held keys come first, so of a key that is not among them all that is open can be read.
//!
//! Keys that have more tasks than the queue keeps are left out of both: they are read on by their own.

use crate::queue::{Key, Queue, Refill};
use crate::task::Task;
use anabranch_core::SlotSet;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How many tasks are read at a time.
pub(crate) const PAGE: usize = if cfg!(test) { 10 } else { 2_000 };
/// How few tasks are left when more are read.
const LOW: usize = if cfg!(test) { 10 } else { 2_000 };
/// How many keys with more tasks than are kept are read on at a time.
const REFILLS: usize = if cfg!(test) { 2 } else { 16 };
/// How soon to look at everything again while there is work.
const FULL: Duration = Duration::from_secs(1);
/// The same while keys are left out, whose tasks it would pass one by one.
const FULL_APART: Duration = Duration::from_secs(5);
/// How soon to look when nobody signals: timers are due within a second.
const POLL: Duration = Duration::from_secs(1);
/// A full look comes again after so many times its duration, so that it takes a small part of the time:
/// it passes all tasks of the keys that are left out.
const REST: u32 = 20;
/// The same where there is nothing else to do, if it took longer than this.
const SLOW: Duration = Duration::from_millis(100);
const IDLE_REST: u32 = 5;

/// What a lane has seen.
#[derive(Debug)]
pub(crate) struct Sight {
    /// Everything of the slots up to here has been read, late ones apart.
    after: i64,
    /// The slots that this holds for.
    slots: SlotSet,
    /// There is more after it, or more that is due.
    more: bool,
    full_at: Option<Instant>,
    full_took: Duration,
    looked_at: Option<Instant>,
    /// When the next scheduled task is due.
    next_due: Option<Instant>,
    /// Keys of which nothing is run.
    held: HashSet<String>,
}

/// What to read, in this order.
#[derive(Debug)]
pub(crate) struct Ask {
    /// Whether to read what is ready up to `after`, without those that are known.
    pub(crate) full: bool,
    /// What is ready after this.
    pub(crate) after: i64,
    /// How many tasks at the most, each time.
    pub(crate) limit: usize,
    pub(crate) known: Vec<Uuid>,
    /// Keys that are left out.
    pub(crate) apart: Vec<Key>,
    /// The first tasks of these keys, which are among those, too: read last, so that nothing is enqueued
    /// in between.
    pub(crate) refill: Vec<Refill>,
}

/// What was read, the tasks of the lane's slots only.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) held: HashSet<String>,
    /// The last one that was ready before the others were read, of whatever key; asked for if some keys
    /// are left out.
    pub(crate) last: Option<i64>,
    pub(crate) full: Vec<Task>,
    pub(crate) on: Vec<Task>,
    /// What somebody has asked for at once, known or not.
    pub(crate) hurried: Vec<Task>,
    /// Scheduled tasks whose time has come.
    pub(crate) due: Vec<Task>,
    /// How long until the next one's has.
    pub(crate) next_due: Option<Duration>,
    pub(crate) refills: Vec<Vec<Task>>,
    /// How long all that took.
    pub(crate) took: Duration,
}

impl Default for Sight {
    fn default() -> Self {
        Self {
            after: 0,
            slots: SlotSet::empty(),
            more: false,
            full_at: None,
            full_took: Duration::ZERO,
            looked_at: None,
            next_due: None,
            held: HashSet::new(),
        }
    }
}

impl Sight {
    pub(crate) fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// How many keys are held.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// From now on it is about these slots: what is not theirs is forgotten, and of new ones nothing has
    /// been read.
    pub(crate) fn keep(&mut self, slots: SlotSet, queue: &mut Queue) {
        if slots == self.slots {
            return;
        }
        queue.keep(&slots);
        if !slots.is_subset(&self.slots) {
            (self.after, self.looked_at) = (0, None);
        }
        self.slots = slots;
    }

    /// Nothing that was read counts.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Nothing of this key is run until a full look has said that it is not held, and has read it from
    /// its beginning.
    pub(crate) fn hold(&mut self, key: &str) {
        self.held.insert(key.to_owned());
    }

    /// Looks at everything as soon as can be.
    pub(crate) fn look_again(&mut self) {
        (self.looked_at, self.full_at) = (None, None);
    }

    /// Whether all there was to do has been read.
    pub(crate) fn is_whole(&self) -> bool {
        self.slots.is_empty() || (self.looked_at.is_some() && !self.more)
    }

    /// Whether to look now.
    pub(crate) fn wants_look(&self, queue: &Queue, is_signalled: bool, now: Instant) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        let has_room = queue.room() > 0;
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        self.looked_at.is_none_or(|at| at + POLL <= now)
            || (self.more && queue.ready() < LOW)
            || (has_room && (is_signalled || is_due(self.next_due)))
            || queue.wants_refill()
    }

    /// When to look, or to run something, without having been told.
    pub(crate) fn wake_at(&self, queue: &Queue) -> Option<Instant> {
        let poll = self.looked_at.map(|at| at + POLL);
        let next_due = self.next_due.filter(|_| queue.room() > 0);
        [poll, next_due, queue.next_due()].into_iter().flatten().min()
    }

    /// What to look for.
    pub(crate) fn ask(&self, queue: &Queue, now: Instant) -> Ask {
        let pause = match queue.has_turn() {
            true if queue.apart().next().is_some() => FULL_APART.max(self.full_took * REST),
            true => FULL.max(self.full_took * REST),
            false if self.full_took > SLOW => self.full_took * IDLE_REST,
            false => Duration::ZERO,
        };
        let is_full = self.full_at.is_none_or(|at| at + pause <= now);
        Ask {
            full: is_full && self.after > 0,
            after: self.after,
            limit: PAGE.min(queue.room()),
            known: queue.known(),
            apart: queue.apart().cloned().collect(),
            refill: queue.to_refill(REFILLS),
        }
    }

    /// Takes in what was found.
    pub(crate) fn found(&mut self, ask: &Ask, found: Found, queue: &mut Queue, now: Instant) {
        let reaches = |tasks: &Vec<Task>| tasks.len() >= ask.limit;
        self.looked_at = Some(now);
        if ask.after == 0 || (ask.full && ask.limit > 0) {
            self.held = found.held;
            (self.full_at, self.full_took) = (Some(now), found.took);
        } else {
            // Released ones are so from a full look on: it finds what waited behind them.
            self.held.extend(found.held);
        }
        let (is_cut, is_on_cut) = (ask.full && reaches(&found.full), reaches(&found.on));
        let due_is_cut = reaches(&found.due);
        let last = |tasks: &[Task]| tasks.last().map(|task| task.seq);
        let full_end = last(&found.full);
        found.full.into_iter().for_each(|task| queue.add(task, now));
        if is_cut {
            // There is more before what was read already: read on from here.
            self.after = full_end.unwrap_or(self.after);
        } else {
            self.after = last(&found.on).unwrap_or(self.after);
            if !is_on_cut {
                // What stands between are tasks of keys that are left out, and of others.
                self.after = self.after.max(found.last.unwrap_or(0));
            }
            found.on.into_iter().for_each(|task| queue.add(task, now));
        }
        found.hurried.into_iter().for_each(|task| queue.hurry(task, now));
        found.due.into_iter().for_each(|task| queue.add(task, now));
        // They were read last: what of their keys was left out before is among them.
        for (refill, tasks) in ask.refill.iter().zip(found.refills) {
            let rest = tasks.len() >= refill.count;
            queue.refilled(&refill.key, tasks, rest, now);
        }
        self.more = is_cut || is_on_cut || due_is_cut;
        self.next_due = found.next_due.map(|wait| now + wait);
    }

    /// The held keys of which tasks were read: those are forgotten, and are to wait in the table.
    pub(crate) fn take_held(&self, queue: &mut Queue) -> Vec<String> {
        let held: Vec<String> = self.held.iter().filter(|key| queue.has(key)).cloned().collect();
        held.iter().for_each(|key| queue.forget_key(key));
        held
    }
}

#[cfg(test)]
mod tests;
