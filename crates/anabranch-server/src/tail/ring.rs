//! The newest events of the log, as many as there is room for: what all tails read from.
//!
//! It knows up to which position it has dropped events (`floor`) and up to which it has seen the log (`top`). Between the
//! two it has every event, so a tail at such a position misses nothing by reading here.

use std::collections::VecDeque;
use std::sync::Arc;

/// How much there is room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// The position is one that the ring has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The ring has no events up to here any more.
    pub(crate) floor: u64,
}

struct Held<T> {
    position: u64,
    bytes: usize,
    item: Arc<T>,
}

/// The newest events, in order.
pub(crate) struct Ring<T> {
    room: Room,
    held: VecDeque<Held<T>>,
    bytes: usize,
    floor: u64,
    top: u64,
}

impl<T> Ring<T> {
    /// A ring that begins to follow the log after this position.
    pub(crate) fn new(room: Room, at: u64) -> Self {
        Self { room, held: VecDeque::new(), bytes: 0, floor: at, top: at }
    }

    /// The position up to which it has seen the log.
    pub(crate) fn top(&self) -> u64 {
        self.top
    }

    /// Whether a tail at this position misses nothing by going on here.
    pub(crate) fn reaches_back_to(&self, cursor: u64) -> bool {
        cursor >= self.floor
    }

    /// Takes the next event of the log. The last one is always kept, however large it is.
    pub(crate) fn push(&mut self, position: u64, bytes: usize, item: Arc<T>) {
        debug_assert!(position > self.top, "positions of a log rise");
        self.top = position;
        self.bytes += bytes;
        self.held.push_back(Held { position, bytes, item });
        while self.held.len() > 1
            && (self.held.len() > self.room.events || self.bytes > self.room.bytes)
        {
            if let Some(oldest) = self.held.pop_front() {
                self.bytes -= oldest.bytes;
                self.floor = oldest.position;
            }
        }
    }

    /// Drops all events.
    pub(crate) fn clear(&mut self) {
        (self.held, self.bytes, self.floor) = (VecDeque::new(), 0, self.top);
    }

    /// The events after a position, up to a number.
    pub(crate) fn after(&self, cursor: u64, most: usize) -> Result<Vec<Arc<T>>, Passed> {
        if !self.reaches_back_to(cursor) {
            return Err(Passed { floor: self.floor });
        }
        let first = self.held.partition_point(|held| held.position <= cursor);
        Ok(self.held.range(first..).take(most).map(|held| Arc::clone(&held.item)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(events: usize, bytes: usize) -> Ring<u64> {
        Ring::new(Room { events, bytes }, 10)
    }

    fn push(ring: &mut Ring<u64>, positions: &[u64]) {
        positions.iter().for_each(|at| ring.push(*at, 100, Arc::new(*at)));
    }

    fn after(ring: &Ring<u64>, cursor: u64) -> Result<Vec<u64>, Passed> {
        ring.after(cursor, 100).map(|found| found.iter().map(|item| **item).collect())
    }

    #[test]
    fn who_stands_within_it_gets_every_later_event_and_who_is_behind_is_told() {
        let mut ring = ring(3, 10_000);
        assert_eq!(after(&ring, 10), Ok(vec![]));
        assert_eq!(after(&ring, 9), Err(Passed { floor: 10 }));
        push(&mut ring, &[12, 15, 16]);
        // Nothing has gone yet: 10 is still where it began.
        assert_eq!(after(&ring, 10), Ok(vec![12, 15, 16]));
        push(&mut ring, &[20]);
        // 12 has gone: who has seen 11 would miss it, who has seen it would not.
        assert_eq!(after(&ring, 11), Err(Passed { floor: 12 }));
        assert_eq!(after(&ring, 12), Ok(vec![15, 16, 20]));
        assert_eq!(after(&ring, 15), Ok(vec![16, 20]));
        // A hole in the positions is no event that was missed.
        assert_eq!(after(&ring, 18), Ok(vec![20]));
        assert_eq!((after(&ring, 20), after(&ring, 99), ring.top()), (Ok(vec![]), Ok(vec![]), 20));
    }

    #[test]
    fn bytes_bound_it_too_but_for_the_last_event() {
        let mut ring = ring(100, 250);
        push(&mut ring, &[11, 12, 13]);
        assert_eq!(after(&ring, 11), Ok(vec![12, 13]));
        ring.push(14, 1_000_000, Arc::new(14));
        assert_eq!(after(&ring, 13), Ok(vec![14]));
        assert!(after(&ring, 12).is_err());
        push(&mut ring, &[15]);
        assert_eq!((after(&ring, 14), ring.bytes), (Ok(vec![15]), 100));
    }

    #[test]
    fn a_page_of_it_has_no_more_than_was_asked_for() {
        let mut ring = ring(10, 10_000);
        push(&mut ring, &[11, 12, 13]);
        assert_eq!(ring.after(10, 2).map(|found| found.len()), Ok(2));
    }
}
