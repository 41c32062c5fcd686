//! What a lane has read of its tasks, key by key: whose turn it is, who waits, who is in work. Pure.
//!
//! For each key it holds the first open tasks, without a gap: a task is taken only if every earlier one
//! of its key is done. Keys that have more than that are read on by their own.

use crate::task::Task;
use anabranch_core::{Slot, SlotSet};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// How many tasks of one key are kept; the rest stays in the table until its turn comes.
pub(crate) const LINE: usize = 1_000;
/// How many tasks are kept.
pub(crate) const ROOM: usize = 10_000;

type Key = Arc<str>;

/// The tasks of a lane.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Whether several tasks of a key may be in work, one after the other in one transaction.
    chains: bool,
    lines: HashMap<Key, Line>,
    /// Keys whose first task can be run, each once, in the order of their turns.
    turns: VecDeque<Key>,
    /// Keys that wait, and until when.
    waiting: BTreeSet<(Instant, Key)>,
    /// All tasks that are kept, those in work included.
    known: HashSet<Uuid>,
}

/// The tasks of one key.
#[derive(Debug)]
struct Line {
    slot: Slot,
    tasks: VecDeque<Task>,
    /// How many of its tasks are in work.
    busy: usize,
    /// Until when it waits for its first task to be tried again.
    until: Option<Instant>,
    /// The last task that was read, if there are more behind it.
    more_after: Option<i64>,
    has_turn: bool,
}

impl Queue {
    pub(crate) fn new(chains: bool) -> Self {
        let (lines, turns) = (HashMap::new(), VecDeque::new());
        Self { chains, lines, turns, waiting: BTreeSet::new(), known: HashSet::new() }
    }

    /// How many tasks are kept.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether more can be read.
    pub(crate) fn has_room(&self) -> bool {
        self.known.len() < ROOM
    }

    /// All tasks that are kept.
    pub(crate) fn known(&self) -> Vec<Uuid> {
        self.known.iter().copied().collect()
    }

    /// Whether some task can be run now.
    pub(crate) fn has_turn(&self) -> bool {
        !self.turns.is_empty()
    }

    /// How many keys wait for another attempt.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When the first of them is tried again.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first().map(|(until, _)| *until)
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
        if line.tasks.len() >= LINE {
            line.more_after = line.tasks.back().map(|last| last.seq);
            return;
        }
        self.known.insert(task.id);
        let until = task.wait.map(|wait| now + wait);
        // Nearly always the last. One that became visible late was enqueued while the others were.
        let place = line.tasks.partition_point(|other| other.seq < task.seq);
        line.tasks.insert(place, task);
        if place == 0 {
            self.unwait(&key);
            self.wait(&key, until);
        }
        self.give_turn(&key);
    }

    /// The first tasks of a key that has more were read on: `rest` says that there may be even more.
    pub(crate) fn refilled(&mut self, key: &str, tasks: Vec<Task>, rest: bool, now: Instant) {
        let Some(line) = self.lines.get_mut(key) else { return };
        let last = tasks.last().map(|task| task.seq).or(line.more_after);
        line.more_after = None;
        for task in tasks {
            self.add(task, now);
        }
        if let Some(line) = self.lines.get_mut(key).filter(|_| rest) {
            line.more_after = line.more_after.or(last);
        }
        self.drop_if_empty(key);
    }

    /// Keys whose tasks are nearly used up and that have more, and after which task those come.
    pub(crate) fn to_refill(&self) -> Vec<(Key, i64)> {
        let low = |line: &&Line| line.tasks.len() < LINE / 4 && line.until.is_none();
        let lines = self.lines.iter().filter(|(_, line)| low(line));
        lines.filter_map(|(key, line)| Some((Arc::clone(key), line.more_after?))).collect()
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
            if let Some(task) = line.tasks.pop_front() {
                line.busy += 1;
                taken.push(task);
            }
            self.give_turn(&key);
        }
        taken
    }

    /// Tasks that were taken and not begun: they are first again, in their order.
    pub(crate) fn put_back(&mut self, tasks: Vec<Task>) {
        for task in tasks.into_iter().rev() {
            let key = Arc::clone(&task.key);
            let Some(line) = self.lines.get_mut(&key) else { continue };
            line.busy -= 1;
            line.tasks.push_front(task);
            self.give_turn(&key);
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
        for behind in line.tasks.drain(..) {
            self.known.remove(&behind.id);
        }
        line.tasks.push_front(task);
        self.wait(&key, Some(until));
    }

    /// Nothing of a key is run: what was read of it is forgotten.
    pub(crate) fn forget_key(&mut self, key: &str) {
        self.unwait(key);
        let Some(line) = self.lines.get_mut(key) else { return };
        for task in line.tasks.drain(..) {
            self.known.remove(&task.id);
        }
        line.more_after = None;
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
        *self = Self::new(self.chains);
    }

    /// Keys whose wait is over get their turn.
    pub(crate) fn end_waits(&mut self, now: Instant) {
        while self.waiting.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, key)) = self.waiting.pop_first() else { break };
            if let Some(line) = self.lines.get_mut(&key) {
                line.until = None;
            }
            self.give_turn(&key);
        }
    }

    fn wait(&mut self, key: &str, until: Option<Instant>) {
        let Some(((key, _), until)) = self.lines.get_key_value(key).zip(until) else { return };
        let key = Arc::clone(key);
        if let Some(line) = self.lines.get_mut(&key) {
            line.until = Some(until);
        }
        self.waiting.insert((until, key));
    }

    fn unwait(&mut self, key: &str) {
        let Some((key, line)) = self.lines.get_key_value(key) else { return };
        if let Some(until) = line.until {
            let key = Arc::clone(key);
            self.waiting.remove(&(until, Arc::clone(&key)));
            self.lines.entry(key).and_modify(|line| line.until = None);
        }
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
}

#[cfg(test)]
mod tests;
