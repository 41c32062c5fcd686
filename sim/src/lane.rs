//! A lane: batches from its feed, the handler, the commit; and letting go of slots.

use crate::feed::{Chunk, Feed, Order as FeedOrder, bits};
use crate::log::Event;
use crate::mutant::Mutant;
use anabranch_core::cursor::{Cursor, Move, Parts};
use anabranch_core::{Position, Slot, SlotSet};
use std::collections::VecDeque;

/// What a lane is told.
#[derive(Debug)]
pub(crate) enum Order {
    Take(Vec<Cursor>),
    Forget,
}

/// Events of parts that stand at one position.
#[derive(Debug)]
struct Batch {
    parts: Vec<usize>,
    tenure: u64,
    events: Vec<Event>,
    up_to: Position,
}

/// A transaction that the lane is in.
#[derive(Debug)]
pub(crate) struct Work {
    parts: Vec<usize>,
    /// How many events of the batch it is for; none if it only writes cursors.
    pub(crate) count: Option<usize>,
    /// For whom it is, and in which generation it began.
    pub(crate) worker: String,
    pub(crate) generation: i64,
    /// How many steps the handler still takes.
    pub(crate) handling: u64,
    pub(crate) moves: Vec<Move>,
    pub(crate) is_sent: bool,
}

/// What a lane does next.
pub(crate) enum Next {
    /// The handler runs for so many events, of so many that there are.
    Handle {
        count: usize,
        of: usize,
    },
    /// Slots that others should own are let go, or it is written down how far it has looked.
    Write(usize),
    Nothing,
}

/// How a commit changed what the lane holds.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) has_merged: bool,
    pub(crate) has_shed: bool,
    pub(crate) narrowed: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) parts: Parts,
    pub(crate) feed: Feed,
    pub(crate) orders: VecDeque<Order>,
    pending: VecDeque<Chunk>,
    batch: Option<Batch>,
    pub(crate) work: Option<Work>,
    /// How often it has let go of slots.
    sheds: u64,
    /// How many parts it has had in this tenure.
    numbers: usize,
    ignores_sheds: bool,
}

impl Lane {
    pub(crate) fn new(mutant: Mutant) -> Self {
        Self { ignores_sheds: mutant == Mutant::Stale, ..Self::default() }
    }

    /// Takes over cursors; says how many are new to it.
    pub(crate) fn take(&mut self, cursors: Vec<Cursor>) -> usize {
        let fresh = self.parts.unknown(cursors);
        let count = fresh.len();
        for cursor in fresh {
            let (slots, at, tenure) = (bits(&cursor.slots), cursor.position, self.parts.tenure());
            let part = self.parts.add(cursor);
            self.numbers = part + 1;
            self.feed.orders.push_back(FeedOrder::Add { part, tenure, slots, at });
        }
        count
    }

    /// Forgets all it had: somebody else may have it now.
    pub(crate) fn forget(&mut self) {
        self.feed.orders.push_back(FeedOrder::Forget);
        self.parts.clear();
        self.pending.clear();
        self.batch = None;
        self.numbers = 0;
    }

    /// Whether it holds nothing and does nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.work.is_none() && self.parts.lowest().is_none()
    }

    /// How many slots it holds.
    pub(crate) fn held(&self) -> usize {
        if self.parts.lowest().is_none() { 0 } else { self.parts.slots().len() }
    }

    /// The cursors that it holds, by id and epoch.
    pub(crate) fn cursors(&self) -> Vec<(i64, i64)> {
        let numbers: Vec<usize> = (0..self.numbers).collect();
        self.parts.holds(&numbers).collect()
    }

    /// Takes what its feed has read: how many chunks were void, and how many events of slots that it
    /// let go.
    pub(crate) fn accept(&mut self) -> (usize, usize) {
        let (mut void, mut narrowed) = (0, 0);
        while let Some(mut chunk) = self.feed.queue.pop_front() {
            if chunk.tenure != self.parts.tenure() {
                void += 1;
                continue;
            }
            if chunk.sheds < self.sheds {
                narrowed += self.narrow(&chunk.parts, &mut chunk.events);
            }
            self.pending.push_back(chunk);
        }
        (void, narrowed)
    }

    /// Drops the events of slots that these parts do not hold any more.
    fn narrow(&self, parts: &[usize], events: &mut Vec<Event>) -> usize {
        if self.ignores_sheds || events.is_empty() {
            return 0;
        }
        let (before, held) = (events.len(), self.parts.slots_of(parts));
        events.retain(|event| Slot::new(event.slot).is_some_and(|slot| held.contains(slot)));
        before - events.len()
    }

    /// What is to be done, given the slots that it should hold. `most` is how many events the handler
    /// takes at most.
    pub(crate) fn next(
        &mut self,
        keep: &SlotSet,
        size: usize,
        most: usize,
        writes_watermark: bool,
    ) -> Next {
        if self.batch.as_ref().is_some_and(|batch| self.is_over(batch)) {
            self.batch = None;
        }
        if let Some(part) = self.parts.beyond(keep).first() {
            return Next::Write(*part);
        }
        if self.batch.is_none() && self.pending.iter().any(|chunk| !chunk.events.is_empty()) {
            self.begin_batch(size);
        }
        if let Some(batch) = &self.batch {
            return Next::Handle { count: batch.events.len().min(most), of: batch.events.len() };
        }
        for chunk in std::mem::take(&mut self.pending) {
            self.parts.reach(&chunk.parts, chunk.up_to);
        }
        match self.parts.dirty().first() {
            Some(part) if writes_watermark => Next::Write(*part),
            _ => Next::Nothing,
        }
    }

    fn is_over(&self, batch: &Batch) -> bool {
        batch.tenure != self.parts.tenure() || self.parts.slots_of(&batch.parts).is_empty()
    }

    /// The next events of parts that stand together.
    fn begin_batch(&mut self, size: usize) {
        let Some(first) = self.pending.pop_front() else { return };
        let Chunk { parts, tenure, mut events, mut up_to, .. } = first;
        while events.len() < size
            && let Some(next) = self.pending.front()
            && next.parts == parts
            && let Some(next) = self.pending.pop_front()
        {
            events.extend(next.events);
            up_to = next.up_to;
        }
        if events.len() > size {
            let rest = events.split_off(size);
            let (parts, sheds) = (parts.clone(), self.sheds);
            self.pending.push_front(Chunk { parts, tenure, sheds, events: rest, up_to });
            up_to = events.last().map_or(up_to, |event| event.position);
        }
        self.parts.merge(&parts);
        self.batch = Some(Batch { parts, tenure, events, up_to });
    }

    /// Begins a transaction: for so many events of the batch, or to write a part.
    pub(crate) fn begin(&mut self, next: &Next, worker: &str, generation: i64, handling: u64) {
        let (parts, count) = match (next, &self.batch) {
            (Next::Handle { count, .. }, Some(batch)) => (batch.parts.clone(), Some(*count)),
            (Next::Write(part), _) => (vec![*part], None),
            _ => return,
        };
        let (worker, moves) = (worker.to_owned(), Vec::new());
        let is_sent = false;
        self.work = Some(Work { parts, count, worker, generation, handling, moves, is_sent });
    }

    /// Its handler is done: what is to be committed, given the slots that it should hold by now.
    /// Nothing if there is nothing to write.
    pub(crate) fn finish(
        &mut self,
        keep: &SlotSet,
        mutant: Mutant,
    ) -> Option<(Vec<Move>, Vec<Event>)> {
        let work = self.work.as_ref()?;
        let (events, up_to, is_all) = match (work.count, &self.batch) {
            (Some(count), Some(batch)) if count < batch.events.len() => {
                let events = batch.events[..count].to_vec();
                let up_to = events.last().map_or(Position::START, |event| event.position);
                (events, up_to, false)
            }
            (Some(_), Some(batch)) => (batch.events.clone(), batch.up_to, true),
            _ => (Vec::new(), self.parts.reached(&work.parts).position, true),
        };
        // What others should own is let go in this same transaction, if the batch ends with it.
        let mut moves = self.parts.moves(&work.parts, up_to, is_all.then_some(keep));
        self.mutate(&mut moves, mutant);
        let work = self.work.as_mut()?;
        if moves.is_empty() && events.is_empty() {
            // A batch of which nothing is left is over.
            self.batch = self.batch.take().filter(|_| work.count.is_none());
            self.work = None;
            return None;
        }
        work.moves.clone_from(&moves);
        work.is_sent = true;
        Some((moves, events))
    }

    fn mutate(&self, moves: &mut [Move], mutant: Mutant) {
        for step in moves.iter_mut().filter(|step| step.lets_go()) {
            if mutant == Mutant::Split {
                let numbers: Vec<usize> = (0..self.numbers).collect();
                let furthest = self.parts.reached(&numbers).position;
                let freed = step.freed.as_mut().unwrap_or(&mut step.cursor);
                freed.position = freed.position.max(furthest);
            }
            if mutant == Mutant::Epoch && step.freed.is_some() {
                step.cursor.epoch = step.from.1;
            }
        }
    }

    /// Its commit has happened.
    pub(crate) fn settle(&mut self) -> Settled {
        let Some(work) = self.work.take() else { return Settled::default() };
        let has_shed = work.moves.iter().any(Move::lets_go);
        let has_merged = work.moves.iter().any(|step| !step.absorbed.is_empty());
        let before = if has_shed { bits(&self.parts.slots()) } else { 0 };
        self.parts.moved(&work.moves);
        if let (Some(count), Some(batch)) = (work.count, &mut self.batch) {
            batch.events.drain(..count);
            if batch.events.is_empty() {
                self.batch = None;
            }
        }
        let narrowed = if has_shed { self.has_shed(before) } else { 0 };
        Settled { has_merged, has_shed, narrowed }
    }

    fn has_shed(&mut self, before: u32) -> usize {
        self.sheds += 1;
        let slots = before & !bits(&self.parts.slots());
        self.feed.orders.push_back(FeedOrder::Shed { sheds: self.sheds, slots });
        let mut narrowed = 0;
        for mut chunk in std::mem::take(&mut self.pending) {
            narrowed += self.narrow(&chunk.parts, &mut chunk.events);
            chunk.sheds = self.sheds;
            self.pending.push_back(chunk);
        }
        if let Some(mut batch) = self.batch.take() {
            narrowed += self.narrow(&batch.parts, &mut batch.events);
            self.batch = Some(batch);
        }
        narrowed
    }
}
