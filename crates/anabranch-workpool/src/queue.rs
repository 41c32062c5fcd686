//! What a lane has read of its tasks, key by key: whose turn it is, who waits, who is in work. Pure.
//!
//! For each key it holds the first open tasks, without a gap: a task is taken only if every earlier one
//! of its key is done. Keys that have more than that are read on by their own. The bounds are small in
//! tests, so that they are reached.

use crate::task::Task;
use anabranch_core::{Slot, SlotSet};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// How many tasks of one key are kept; the rest stays in the table until its turn comes.
pub(crate) const LINE: usize = if cfg!(test) { 12 } else { 1_000 };
/// The same where a key has one task in work at a time: more would only keep other keys out.
pub(crate) const SHORT_LINE: usize = if cfg!(test) { 4 } else { 8 };
/// How many tasks are kept, those apart that wait for another attempt.
pub(crate) const ROOM: usize = if cfg!(test) { 60 } else { 10_000 };
/// How many of those that wait take no room. They hold back their keys, so they have to be known.
const WAITERS: usize = 9 * ROOM;

pub(crate) type Key = Arc<str>;

/// The tasks of a lane.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Whether several tasks of a key may be in work, one after the other in one transaction.
    chains: bool,
    /// How many tasks of one key are kept.
    line: usize,
    lines: HashMap<Key, Line>,
    /// Keys whose first task can be run, in the order of their turns.
    turns: VecDeque<Key>,
    /// Keys that wait, and until when.
    waiting: BTreeSet<(Instant, Key)>,
    /// All tasks that are kept, those in work included.
    known: HashSet<Uuid>,
    /// Keys that were tried while nothing works: others come before them.
    tried: HashSet<Key>,
}

/// The tasks of one key.
#[derive(Debug)]
struct Line {
    slot: Slot,
    /// Each with the time before which it is not to be tried again.
    tasks: VecDeque<(Task, Option<Instant>)>,
    /// How many of its tasks are in work.
    busy: usize,
    /// Until when it waits for its first task to be tried again.
    until: Option<Instant>,
    /// The last task up to which all are kept, if there are more behind it.
    more_after: Option<i64>,
    has_turn: bool,
}

/// A key that has more tasks than are kept, and how many of its first ones are to be read.
#[derive(Clone, Debug)]
pub(crate) struct Refill {
    pub(crate) key: Key,
    pub(crate) count: usize,
}

impl Queue {
    pub(crate) fn new(chains: bool) -> Self {
        let line = if chains { LINE } else { SHORT_LINE };
        let (lines, turns, waiting) = (HashMap::new(), VecDeque::new(), BTreeSet::new());
        let (known, tried) = (HashSet::new(), HashSet::new());
        Self { chains, line, lines, turns, waiting, known, tried }
    }

    /// How many tasks are kept.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// How many of them do not wait for another attempt.
    pub(crate) fn ready(&self) -> usize {
        self.known.len() - self.waiting.len().min(WAITERS).min(self.known.len())
    }

    /// How many more can be read.
    pub(crate) fn room(&self) -> usize {
        ROOM.saturating_sub(self.ready())
    }

    /// All tasks that are kept.
    pub(crate) fn known(&self) -> Vec<Uuid> {
        self.known.iter().copied().collect()
    }

    /// Whether some task can be run now.
    pub(crate) fn has_turn(&self) -> bool {
        !self.turns.is_empty()
    }

    /// How many keys have a task that can be run now.
    pub(crate) fn turns(&self) -> usize {
        self.turns.len()
    }

    /// How many keys wait for another attempt.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When the first of them is tried again.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first().map(|(until, _)| *until)
    }

    /// Whether a task is in work.
    pub(crate) fn is_busy(&self) -> bool {
        self.lines.values().any(|line| line.busy > 0)
    }

    /// The slots of tasks that are in work.
    pub(crate) fn busy(&self) -> SlotSet {
        self.lines.values().filter(|line| line.busy > 0).map(|line| line.slot).collect()
    }

    /// A task that was read, in the order of the table or of its key.
    pub(crate) fn add(&mut self, task: Task, now: Instant) {
        if self.known.contains(&task.id) {
            return;
        }
        let key = Arc::clone(&task.key);
        let line = self.lines.entry(Arc::clone(&key)).or_insert_with(|| Line::of(task.slot));
        if line.more_after.is_some_and(|last| task.seq > last) {
            return;
        }
        // Nearly always the last. One that became visible late was enqueued while the others were.
        let place = line.tasks.partition_point(|(other, _)| other.seq < task.seq);
        let is_last = place == line.tasks.len();
        let is_full = line.tasks.len() >= self.line;
        // What stands behind one that waits is not kept either: it would keep other keys out.
        if is_last && (is_full || line.until.is_some()) {
            line.more_after = line.last();
            return;
        }
        self.known.insert(task.id);
        let until = task.wait.map(|wait| now + wait);
        line.tasks.insert(place, (task, until));
        if is_full && let Some((last, _)) = line.tasks.pop_back() {
            self.known.remove(&last.id);
            line.more_after = line.last();
        }
        self.settle(&key);
    }

    /// A task that somebody has asked for: it does not wait any longer, if it did, and has all its attempts.
    pub(crate) fn hurry(&mut self, task: Task, now: Instant) {
        let key = Arc::clone(&task.key);
        let line = self.lines.get_mut(&key);
        match line.and_then(|line| line.tasks.iter_mut().find(|(known, _)| known.id == task.id)) {
            Some(known) => *known = (task, None),
            None => self.add(task, now),
        }
        self.settle(&key);
    }

    /// The first tasks of a key that has more were read: `rest` says that there may be even more.
    pub(crate) fn refilled(&mut self, key: &str, tasks: Vec<Task>, rest: bool, now: Instant) {
        let Some(line) = self.lines.get_mut(key) else { return };
        let last = tasks.last().map(|task| task.seq).filter(|_| rest).or(line.more_after);
        line.more_after = None;
        for task in tasks {
            self.add(task, now);
        }
        if let Some(line) = self.lines.get_mut(key).filter(|_| rest) {
            line.more_after = line.more_after.or(last);
        }
        self.drop_if_empty(key);
    }

    /// Keys whose tasks are nearly used up and that have more: those with the fewest first, and as many
    /// as there is room for.
    pub(crate) fn to_refill(&self, at_most: usize) -> Vec<Refill> {
        let is_low = |line: &&Line| line.more_after.is_some() && self.is_low(line);
        let mut lines: Vec<(&Key, &Line)> =
            self.lines.iter().filter(|(_, line)| is_low(line)).collect();
        lines.sort_unstable_by_key(|(_, line)| line.tasks.len());
        lines.truncate(at_most.min(self.room()));
        let share = self.room() / lines.len().max(1);
        let refill = |(key, line): (&Key, &Line)| {
            let more = (self.line - line.tasks.len()).min(share).max(1);
            Refill { key: Arc::clone(key), count: line.busy + line.tasks.len() + more }
        };
        lines.into_iter().map(refill).collect()
    }

    /// Whether some key is to be refilled.
    pub(crate) fn wants_refill(&self) -> bool {
        self.room() > 0
            && self.lines.values().any(|line| line.more_after.is_some() && self.is_low(line))
    }

    fn is_low(&self, line: &Line) -> bool {
        line.tasks.len() < self.line / 4 && line.until.is_none()
    }

    /// Keys that have more tasks than are kept: those come by [`refilled`](Self::refilled) only.
    pub(crate) fn apart(&self) -> impl Iterator<Item = &Key> {
        self.lines.iter().filter(|(_, line)| line.more_after.is_some()).map(|(key, _)| key)
    }

    /// Takes tasks whose turn it is: one of each key, then one more of each, and so on; unless tasks of a
    /// key may be chained, none of a key that has one in work.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Task> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let Some(key) = self.turns.pop_front() else { break };
            let Some(line) = self.lines.get_mut(&key) else { continue };
            line.has_turn = false;
            if line.until.is_some() || (line.busy > 0 && !self.chains) {
                continue;
            }
            if let Some((task, _)) = line.tasks.pop_front() {
                line.busy += 1;
                taken.push(task);
            }
            self.settle(&key);
        }
        if !taken.is_empty() {
            self.tried.clear();
        }
        taken
    }

    /// Takes the task that is tried while nothing works: of a key that was not tried yet, if there is one, and
    /// rather one that has never failed. So keys that fail cannot keep out one that works.
    pub(crate) fn take_untried(&mut self) -> Vec<Task> {
        let mut tried = std::mem::take(&mut self.tried);
        let is_fresh = |key: &Key| {
            let first = self.lines.get(key).and_then(|line| line.tasks.front());
            first.is_some_and(|(task, _)| task.attempts == 0)
        };
        let mut untried = self.turns.iter().enumerate().filter(|(_, key)| !tried.contains(*key));
        let first = untried.clone().next();
        let place = untried.find(|(_, key)| is_fresh(key)).or(first).map(|(place, _)| place);
        if place.is_none() {
            tried.clear();
        }
        let place = place.unwrap_or(0);
        if let Some(key) = self.turns.remove(place) {
            self.turns.push_front(key);
        }
        let taken = self.take(1);
        tried.extend(taken.iter().map(|task| Arc::clone(&task.key)));
        self.tried = tried;
        taken
    }

    /// Tasks that were taken and not begun: they are first again, in their order, and their keys' turns
    /// come before all others: else keys that have been run would come again before them.
    pub(crate) fn put_back(&mut self, tasks: Vec<Task>) {
        let mut seen = HashSet::new();
        let keys = tasks.iter().map(|task| Arc::clone(&task.key));
        let keys: Vec<Key> = keys.filter(|key| seen.insert(Arc::clone(key))).collect();
        for task in tasks.into_iter().rev() {
            let key = Arc::clone(&task.key);
            let Some(line) = self.lines.get_mut(&key) else { continue };
            line.busy -= 1;
            line.tasks.push_front((task, None));
            self.settle(&key);
        }
        self.turns.retain(|key| !seen.contains(key));
        for key in keys.into_iter().rev() {
            if self.lines.get(&key).is_some_and(|line| line.has_turn) {
                self.turns.push_front(key);
            }
        }
    }

    /// A task that was taken has ended.
    pub(crate) fn ended(&mut self, task: &Task) {
        self.known.remove(&task.id);
        if let Some(line) = self.lines.get_mut(&task.key) {
            line.busy -= 1;
            self.give_turn(&task.key);
            self.drop_if_empty(&task.key);
        }
    }

    /// A task that was taken has failed and is tried again later: until then it holds back its key. The
    /// tasks behind it are not kept meanwhile.
    pub(crate) fn failed(&mut self, mut task: Task, until: Instant) {
        let key = Arc::clone(&task.key);
        let Some(line) = self.lines.get_mut(&key) else { return };
        line.busy -= 1;
        task.attempts += 1;
        if !line.tasks.is_empty() {
            line.more_after = Some(task.seq);
        }
        for (behind, _) in line.tasks.drain(..) {
            self.known.remove(&behind.id);
        }
        line.tasks.push_front((task, Some(until)));
        self.settle(&key);
    }

    /// Nothing of a key is run: what was read of it is forgotten.
    pub(crate) fn forget_key(&mut self, key: &str) {
        let Some(line) = self.lines.get_mut(key) else { return };
        for (task, _) in line.tasks.drain(..) {
            self.known.remove(&task.id);
        }
        line.more_after = None;
        self.settle(key);
        self.drop_if_empty(key);
    }

    /// Forgets the tasks of slots that are not kept, except those in work.
    pub(crate) fn keep(&mut self, slots: &SlotSet) {
        let gone = self.lines.iter().filter(|(_, line)| !slots.contains(line.slot));
        let gone: Vec<Key> = gone.map(|(key, _)| Arc::clone(key)).collect();
        gone.iter().for_each(|key| self.forget_key(key));
    }

    /// Whether tasks of a key are kept that are not in work.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.lines.get(key).is_some_and(|line| !line.tasks.is_empty())
    }

    pub(crate) fn clear(&mut self) {
        let tried = std::mem::take(&mut self.tried);
        *self = Self { tried, ..Self::new(self.chains) };
    }

    /// Keys whose wait is over get their turn.
    pub(crate) fn end_waits(&mut self, now: Instant) {
        while let Some((_, key)) = self.waiting.first().filter(|(until, _)| *until <= now).cloned()
        {
            let front = self.lines.get_mut(&key).and_then(|line| line.tasks.front_mut());
            if let Some((_, until)) = front {
                *until = None;
            }
            self.settle(&key);
        }
    }

    /// A key waits if its first task does, and has its turn if it does not.
    fn settle(&mut self, key: &str) {
        let Some((key, line)) = self.lines.get_key_value(key) else { return };
        let key = Arc::clone(key);
        let until = line.tasks.front().and_then(|(_, until)| *until);
        if line.until != until {
            if let Some(before) = line.until {
                self.waiting.remove(&(before, Arc::clone(&key)));
            }
            self.waiting.extend(until.map(|until| (until, Arc::clone(&key))));
            self.lines.entry(Arc::clone(&key)).and_modify(|line| line.until = until);
        }
        self.give_turn(&key);
    }

    fn give_turn(&mut self, key: &str) {
        let Some((key, line)) = self.lines.get_key_value(key) else { return };
        let is_busy = line.busy > 0 && !self.chains;
        if line.has_turn || is_busy || line.until.is_some() || line.tasks.is_empty() {
            return;
        }
        let key = Arc::clone(key);
        self.turns.push_back(Arc::clone(&key));
        self.lines.entry(key).and_modify(|line| line.has_turn = true);
    }

    fn drop_if_empty(&mut self, key: &str) {
        let is_empty =
            |line: &Line| line.tasks.is_empty() && line.busy == 0 && line.more_after.is_none();
        if self.lines.get(key).is_some_and(is_empty) {
            self.lines.remove(key);
        }
    }
}

impl Line {
    fn of(slot: Slot) -> Self {
        let (tasks, busy, until) = (VecDeque::new(), 0, None);
        Self { slot, tasks, busy, until, more_after: None, has_turn: false }
    }

    fn last(&self) -> Option<i64> {
        self.tasks.back().map(|(task, _)| task.seq)
    }
}

#[cfg(test)]
pub(crate) mod tests;
