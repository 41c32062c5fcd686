//! The log: positions are drawn from a sequence, and their appends end in another order.

use anabranch_core::Position;

/// How an append stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    InFlight,
    Committed,
    RolledBack,
}

/// One position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) slot: u16,
    pub(crate) state: State,
}

/// An event as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) position: Position,
    pub(crate) slot: u16,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The record at position p is at p - 1.
    records: Vec<Record>,
    /// What each append in flight has seen of the head before it drew its positions.
    marks: Vec<(usize, Position)>,
}

impl Log {
    /// The last position drawn.
    pub(crate) fn head(&self) -> Position {
        Position::new(self.records.len() as u64)
    }

    /// An append takes its mark.
    pub(crate) fn mark(&mut self, appender: usize, head: Position) {
        self.marks.push((appender, head));
    }

    /// It draws a position for an event.
    pub(crate) fn draw(&mut self, slot: u16) -> Position {
        self.records.push(Record { slot, state: State::InFlight });
        self.head()
    }

    /// It is over, and with it its mark.
    pub(crate) fn end(&mut self, appender: usize, positions: &[Position], state: State) {
        for position in positions {
            self.records[position.get() as usize - 1].state = state;
        }
        self.marks.retain(|(of, _)| *of != appender);
    }

    /// Up to where everything is decided, for a reader that has read the head in an earlier step.
    pub(crate) fn horizon(&self, head: Position) -> Position {
        self.marks.iter().map(|(_, mark)| *mark).fold(head, Position::min)
    }

    /// The visible events of some slots (a bit for each) after one position up to another, and how
    /// far they reach.
    pub(crate) fn page(
        &self,
        (after, up_to): (Position, Position),
        slots: u32,
        max: usize,
    ) -> (Vec<Event>, Position) {
        let mut events = Vec::new();
        for (position, record) in self.between(after, up_to) {
            if record.state == State::Committed && slots & (1 << record.slot) != 0 {
                events.push(Event { position, slot: record.slot });
                if events.len() == max {
                    return (events, position);
                }
            }
        }
        (events, up_to.max(after))
    }

    /// The positions after one up to another.
    pub(crate) fn between(
        &self,
        after: Position,
        up_to: Position,
    ) -> impl Iterator<Item = (Position, Record)> + '_ {
        let (after, up_to) = (after.get() as usize, up_to.get() as usize);
        let up_to = up_to.min(self.records.len());
        let records = self.records.get(after..up_to).unwrap_or_default();
        records.iter().zip(after as u64 + 1..).map(|(each, at)| (Position::new(at), *each))
    }

    pub(crate) fn committed(&self) -> impl Iterator<Item = (Position, Record)> + '_ {
        let all = self.between(Position::START, self.head());
        all.filter(|(_, record)| record.state == State::Committed)
    }
}
