//! Slots that others should own: let go, at the end of the batch that is in work.
//!
//! Usually that happens in the batch's own transaction. What is read already of such slots is dropped:
//! their next owner begins where that transaction has left them.

use super::batch::Batch;
use super::transact::{Extra, Outcome};
use super::{FeedOrder, Lane};
use crate::feed::Chunk;
use crate::run_error::RunError;
use anabranch_core::cursor::Move;
use anabranch_core::{Event, Happening, Notice, SlotSet};

impl Lane {
    /// Whether it holds slots that others should own.
    pub(super) fn must_shed(&self) -> bool {
        !self.parts.beyond(&self.setup.keep.borrow()).is_empty()
    }

    /// Lets go of them, where they stand.
    pub(super) async fn shed(&mut self) -> Result<(), RunError> {
        while let Some(part) = {
            let keep = self.setup.keep.borrow_and_update();
            self.parts.beyond(&keep).first().copied()
        } {
            let batch = self.nothing_of(part);
            match self.transact(&batch, 0, Extra::default()).await {
                Outcome::Committed { .. } => {}
                Outcome::Fenced => self.lost(),
                Outcome::Away(error) if self.stopping => {
                    self.notice(Notice::ReleasedByLease, &error);
                    return Ok(());
                }
                Outcome::Away(error) => self.wait_out(error).await?,
                Outcome::Broken(error) => return Err(error.into()),
                Outcome::Failed { error, .. } => {
                    self.notice(Notice::CannotRelease, &error);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// A batch without events, up to where a part has come.
    pub(super) fn nothing_of(&self, part: usize) -> Batch {
        let (parts, tenure) = (vec![part], self.parts.tenure());
        let up_to = self.parts.reached(&parts);
        let (events, delivered, aside) = (Vec::new(), Vec::new(), Vec::new());
        let (is_last, sheds) = (true, self.sheds);
        Batch { parts, tenure, events, delivered, aside, up_to, is_last, sheds }
    }

    /// Cursors have been written: what was let go is forgotten.
    pub(super) fn moved(&mut self, moves: &[Move]) {
        let before = self.parts.slots();
        self.parts.moved(moves);
        self.dirty_since = self.dirty_since.filter(|_| !self.parts.dirty().is_empty());
        if !moves.iter().any(Move::lets_go) {
            return;
        }
        let kept = self.parts.slots();
        self.sheds += 1;
        let (lane, sheds, slots) = (self.setup.number, self.sheds, before.difference(&kept));
        self.setup.events.emit(Happening::slots_released(slots.clone()));
        self.setup.feed.tell(FeedOrder::Shed { lane, sheds, slots });
        self.parking.keep(&kept);
        let mut pending = std::mem::take(&mut self.pending);
        pending.change(|chunk| self.narrowed(chunk));
        self.pending = pending;
        // What it knows about keys may be out of date when it gets them back.
        self.handler = self.setup.handler(self.rule);
        self.publish();
    }

    /// A chunk without the events of slots that were let go since it was read.
    pub(super) fn narrowed(&self, mut chunk: Chunk) -> Chunk {
        let held = self.parts.slots_of(&chunk.parts);
        chunk.events.retain(|event| self.is_of(&held, event));
        chunk.sheds = self.sheds;
        chunk
    }

    /// The same for a batch that is in work.
    pub(super) fn narrow(&self, batch: &mut Batch) {
        if batch.sheds == self.sheds {
            return;
        }
        batch.sheds = self.sheds;
        let held = self.parts.slots_of(&batch.parts);
        batch.events.retain(|event| self.is_of(&held, event));
        batch.delivered.retain(|event| self.is_of(&held, event));
        batch.aside.retain(|aside| held.contains(aside.slot));
    }

    fn is_of(&self, slots: &SlotSet, event: &Event) -> bool {
        slots.contains(self.setup.consumer.partition.slot(event, self.rule))
    }
}
