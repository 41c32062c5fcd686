//! How many events one transaction has room for: as many as come, until the database says that it is too much.

use super::transact::Outcome;

/// How many events one transaction has room for.
#[derive(Debug)]
pub(super) struct Room {
    events: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { events: usize::MAX }
    }
}

impl Room {
    /// The most events to take at a time.
    pub(super) fn events(&self) -> usize {
        self.events
    }

    /// Learns from a transaction of so many events: half of what was too much may do, and where that does, a
    /// little more is tried each time.
    pub(super) fn learn(&mut self, outcome: &Outcome, count: usize) {
        match outcome {
            Outcome::Failed { error, .. } if error.is_too_much() => {
                self.events = (count / 2).max(1)
            }
            Outcome::Committed { events } if *events >= self.events => {
                self.events = self.events.saturating_add(self.events / 16 + 1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::HandlerError;

    #[test]
    fn half_of_what_was_too_much_then_a_little_more_each_time() {
        let mut room = Room::default();
        let failed = |error| Outcome::Failed { event: None, error };
        room.learn(&failed(HandlerError::new("something else")), 1_000);
        assert_eq!(room.events(), usize::MAX);
        room.learn(&failed(HandlerError::too_much("locks")), 1_000);
        assert_eq!(room.events(), 500);
        room.learn(&Outcome::Committed { events: 20 }, 20);
        assert_eq!(room.events(), 500, "that says nothing");
        room.learn(&Outcome::Committed { events: 500 }, 500);
        assert_eq!(room.events(), 532);
        room.learn(&failed(HandlerError::too_much("locks")), 1);
        assert_eq!(room.events(), 1);
        room.learn(&Outcome::Committed { events: 1 }, 1);
        assert_eq!(room.events(), 2);
    }
}
