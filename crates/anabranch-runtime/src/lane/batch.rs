//! What a lane works on at a time: from the queue to the last commit, whatever fails in between.

use super::Lane;
use super::transact::{Extra, Outcome};
use crate::feed::Chunk;
use crate::handler::HandlerError;
use crate::run_error::RunError;
use anabranch_core::cursor::Point;
use anabranch_core::{Event, Partition, Position, Slot};
use std::borrow::Cow;
use std::time::Instant;

/// What a lane works on at a time: events of parts that stand at one position.
pub(super) struct Batch {
    pub(super) parts: Vec<usize>,
    /// The lane's tenure when it began: parts of another one are not these.
    pub(super) tenure: u64,
    pub(super) events: Vec<Event>,
    /// Events before these that were delivered outside, where no rollback takes that back: the next commit passes
    /// them.
    pub(super) delivered: Vec<Event>,
    /// Events of parked keys among them, taken out.
    pub(super) aside: Vec<Aside>,
    pub(super) up_to: Point,
    /// Slots may be let go with its commit: nothing comes after it that is of them.
    pub(super) is_last: bool,
    /// How often the lane had let go of slots when its events were looked through for those.
    pub(super) sheds: u64,
}

/// An event of a parked key.
#[derive(Clone, Debug)]
pub(super) struct Aside {
    pub(super) key: String,
    pub(super) slot: Slot,
    pub(super) position: Position,
}

impl Lane {
    pub(super) fn accept(&mut self, chunk: Chunk) {
        if chunk.tenure == self.parts.tenure() {
            let chunk = if chunk.sheds < self.sheds { self.narrowed(chunk) } else { chunk };
            self.pending.push(chunk);
        }
    }

    /// Takes what has arrived.
    pub(super) fn take_queued(&mut self) {
        while let Ok(chunk) = self.setup.chunks.try_recv() {
            self.accept(chunk);
        }
    }

    /// Chunks without events only say how far the feed has looked.
    pub(super) fn look_only(&mut self) {
        while let Some(chunk) = self.pending.take(&self.parts, None) {
            self.looked(&chunk.parts, chunk.up_to);
        }
        self.publish();
    }

    fn looked(&mut self, parts: &[usize], up_to: Point) {
        if self.parts.reach(parts, up_to) {
            self.dirty_since.get_or_insert_with(Instant::now);
        }
    }

    /// The next events of parts that stand together.
    fn next_batch(&mut self) -> Option<Batch> {
        // Those that were just handed over share a batch's time: then the last of them does not wait
        // longer than that for its first turn.
        let size = (self.setup.consumer.batch_size / self.pending.newcomers().max(1)).max(1);
        loop {
            let mut chunk = self.pending.take(&self.parts, None)?;
            let (parts, tenure) = (chunk.parts.clone(), chunk.tenure);
            let (events, delivered, aside) = (Vec::new(), Vec::new(), Vec::new());
            let (up_to, is_last, sheds) = (chunk.up_to, true, self.sheds);
            let mut batch =
                Batch { parts, tenure, events, delivered, aside, up_to, is_last, sheds };
            loop {
                let room = size - batch.events.len();
                if chunk.events.len() > room {
                    // Whatever is left over keeps its place.
                    let rest = chunk.events.split_off(room);
                    batch.events.append(&mut chunk.events);
                    batch.up_to =
                        batch.events.last().map_or(batch.up_to, |last| self.point_of(last));
                    self.pending.put_back(Chunk { events: rest, ..chunk });
                    break;
                }
                batch.up_to = chunk.up_to;
                match batch.events.is_empty() {
                    true => batch.events = chunk.events,
                    false => batch.events.append(&mut chunk.events),
                }
                match self.pending.take(&self.parts, Some(&batch.parts)) {
                    Some(next) if batch.events.len() < size => chunk = next,
                    Some(next) => {
                        self.pending.put_back(next);
                        break;
                    }
                    None => break,
                }
            }
            if !batch.events.is_empty() {
                return Some(batch);
            }
            self.looked(&batch.parts, batch.up_to);
        }
    }

    /// Handles a batch to its end, whatever fails in between.
    pub(super) async fn handle_next(&mut self) -> Result<(), RunError> {
        let Some(mut batch) = self.next_batch() else {
            return Ok(());
        };
        self.parts.merge(&batch.parts);
        let mut at_most = usize::MAX;
        loop {
            // A shutdown does not wait for the rest of a batch.
            while let Ok(order) = self.setup.orders.try_recv() {
                self.obey(order).await?;
            }
            if self.halted && !self.trying && !self.is_over(&batch) {
                self.read_again();
            }
            self.shed().await?;
            // First: the numbers of its parts may be those of another tenure by now.
            if self.is_over(&batch) {
                return Ok(());
            }
            self.narrow(&mut batch);
            self.set_aside(&mut batch);
            let lacks_key = self.first_without_key(&batch.events);
            let at_once = if self.singly > 0 || self.trying { 1 } else { at_most };
            let at_once = at_once.min(self.room.events());
            let count = batch.events.len().min(at_once).min(lacks_key.unwrap_or(usize::MAX));
            if count == 0 && lacks_key == Some(0) {
                let error = self.missing_key(&batch.events[0]);
                if self.fail(&mut batch, 0, HandlerError::for_good(error)).await?.is_break() {
                    return Ok(());
                }
                continue;
            }
            match self.transact(&batch, count, Extra::default()).await {
                Outcome::Committed { events } => {
                    batch.delivered.clear();
                    at_most = usize::MAX;
                    if events > 0 {
                        self.has_worked(&batch.events[..events]);
                    }
                    self.singly = self.singly.saturating_sub(events);
                    batch.events.drain(..events);
                    if batch.events.is_empty() {
                        self.publish();
                        return Ok(());
                    }
                }
                Outcome::Fenced => {
                    self.lost();
                    return Ok(());
                }
                Outcome::Away(error) => {
                    self.wait_out(error).await?;
                    if self.is_over(&batch) {
                        return Ok(());
                    }
                }
                Outcome::Broken(error) => return Err(error.into()),
                Outcome::Failed { event: Some(event), error } => {
                    at_most = usize::MAX;
                    self.singly = self.singly.saturating_sub(event + 1);
                    if self.fail(&mut batch, event, error).await?.is_break() {
                        return Ok(());
                    }
                }
                // Nobody knows which event it was: halve the batch until it is alone. If it is none of them, the
                // first one stands for all.
                Outcome::Failed { event: None, error } if count <= 1 || error.is_unable() => {
                    at_most = usize::MAX;
                    self.singly = self.singly.saturating_sub(1);
                    if self.fail(&mut batch, 0, error).await?.is_break() {
                        return Ok(());
                    }
                }
                Outcome::Failed { event: None, .. } => at_most = count / 2,
            }
        }
    }

    /// Whether a batch is none of this lane's business any more: its cursors are lost, or were and are
    /// back at another place.
    pub(super) fn is_over(&self, batch: &Batch) -> bool {
        self.stopping
            || batch.tenure != self.parts.tenure()
            || self.parts.slots_of(&batch.parts).is_empty()
    }

    /// Takes events of parked keys out of the way.
    fn set_aside(&mut self, batch: &mut Batch) {
        if self.parking.is_empty() {
            return;
        }
        let (partition, rule) = (&self.setup.consumer.partition, self.rule);
        let parking = &self.parking;
        let parked = |event: &Event| -> Option<Aside> {
            let slot = partition.slot(event, rule);
            if !parking.has_slot(slot) {
                return None;
            }
            let key = key_or_stream(partition, event);
            let position = event.position();
            parking.contains(&key).then_some(Aside { key, slot, position })
        };
        let events = std::mem::take(&mut batch.events);
        for event in events {
            match parked(&event) {
                Some(aside) => batch.aside.push(aside),
                None => batch.events.push(event),
            }
        }
    }

    fn first_without_key(&self, events: &[Event]) -> Option<usize> {
        if !self.may_lack_key {
            return None;
        }
        events.iter().position(|event| self.setup.consumer.partition.key(event).is_err())
    }

    fn missing_key(&self, event: &Event) -> String {
        let consumer = &self.setup.consumer;
        match consumer.partition.key(event) {
            Err(missing) => format!(
                "{} {}@{} {missing} (consumer `{}`)",
                event.event_type(),
                event.stream(),
                event.version(),
                consumer.name
            ),
            Ok(_) => String::new(),
        }
    }

    pub(super) fn key_of(&self, event: &Event) -> (String, Slot) {
        let partition = &self.setup.consumer.partition;
        let key = key_or_stream(partition, event);
        (key, partition.slot(event, self.rule))
    }
}

/// The key under which an event is set aside. One without a key has that of its stream, which keeps the order.
pub(crate) fn key_or_stream(partition: &Partition, event: &Event) -> String {
    let keyless = |_| format!("(no key) {}", event.stream());
    partition.key(event).map_or_else(keyless, Cow::into_owned)
}
