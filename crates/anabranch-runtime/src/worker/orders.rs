//! How the keeper talks to a lane. A lane in a handler hears nothing until that returns, perhaps for hours, and
//! what is found out with every heartbeat must not pile up before it meanwhile.

use crate::lane::{Order, Wish};
use anabranch_core::cursor::Cursor;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::mpsc;

/// The orders of one lane.
pub(super) struct Orders {
    sender: mpsc::UnboundedSender<Order>,
    /// What it was last told to take, until it has heard that.
    takes: (Weak<()>, Vec<Cursor>, u64),
    /// There until it has heard what is asked of keys.
    asked: Weak<()>,
}

impl Orders {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Order>) {
        // Unbounded: the keeper must not wait for a lane. What comes again and again is sent when the lane has
        // heard it; all else follows from a change: of generation, worker, pause or outage.
        let (sender, received) = mpsc::unbounded_channel();
        (Self { sender, takes: (Weak::new(), Vec::new(), 0), asked: Weak::new() }, received)
    }

    /// Tells it something that it was not told before.
    pub(super) fn tell(&mut self, order: Order) {
        // A take that waits before this order may not have its effect after it.
        self.takes.0 = Weak::new();
        self.send(order);
    }

    /// Tells it what it holds, unless it is about to hear just that.
    pub(super) fn take(&mut self, cursors: Vec<Cursor>, losses: u64, since: Instant) {
        let (unheard, told, before) = &self.takes;
        if unheard.strong_count() > 0 && (told, *before) == (&cursors, losses) {
            return;
        }
        let unheard = Arc::new(());
        self.takes = (Arc::downgrade(&unheard), cursors.clone(), losses);
        self.send(Order::Take { cursors, losses, since, _unheard: unheard });
    }

    /// Tells it what somebody wants of parked keys. While it has not heard what was asked before, nothing: the next
    /// heartbeat asks again.
    pub(super) fn ask(&mut self, keys: Vec<Wish>) {
        if self.asked.strong_count() > 0 {
            return;
        }
        let unheard = Arc::new(());
        self.asked = Arc::downgrade(&unheard);
        self.send(Order::Asked { keys, _unheard: unheard });
    }

    fn send(&self, order: Order) {
        // A lane that is gone has said so.
        let _ = self.sender.send(order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::parked::Asked;
    use anabranch_core::{Position, Slot, SlotSet};

    fn cursor(position: u64) -> Cursor {
        let (slots, position) = (SlotSet::all(), Position::new(position));
        Cursor { id: 1, epoch: 1, ..Cursor::free(slots, position) }
    }

    fn wish() -> Wish {
        Wish { key: "ord-1".to_owned(), slot: Slot::ZERO, asked: Asked::Retry, up_to: None }
    }

    fn heard(orders: &mut mpsc::UnboundedReceiver<Order>) -> usize {
        std::iter::from_fn(|| orders.try_recv().ok()).count()
    }

    #[test]
    fn a_lane_that_does_not_listen_is_told_once() {
        let (mut orders, mut received) = Orders::new();
        for _ in 0..1_000 {
            orders.take(vec![cursor(1)], 0, Instant::now());
            orders.ask(vec![wish()]);
        }
        assert_eq!(heard(&mut received), 2);
        // It has heard it, and may need it again.
        orders.take(vec![cursor(1)], 0, Instant::now());
        orders.ask(vec![wish()]);
        assert_eq!(heard(&mut received), 2);
    }

    #[test]
    fn what_changes_is_told_at_once() {
        let (mut orders, mut received) = Orders::new();
        orders.take(vec![cursor(1)], 0, Instant::now());
        orders.take(vec![cursor(2)], 0, Instant::now());
        orders.take(vec![cursor(2)], 1, Instant::now());
        assert_eq!(heard(&mut received), 3);
        orders.take(vec![cursor(2)], 1, Instant::now());
        orders.tell(Order::Forget);
        orders.take(vec![cursor(2)], 1, Instant::now());
        let last = std::iter::from_fn(|| received.try_recv().ok()).last();
        assert!(matches!(last, Some(Order::Take { .. })), "{last:?}");
    }
}
