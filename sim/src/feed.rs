//! The feed of a lane: reads for its parts, each from where it stands, up to the horizon.
//!
//! A read takes three steps, as it takes three statements: the head, the marks, the events. Orders are
//! obeyed between reads, so a chunk may hold events of slots that were let go meanwhile.

use crate::log::{Event, Log};
use crate::mutant::Mutant;
use anabranch_core::{Position, SlotSet};
use std::collections::VecDeque;

/// How many chunks wait in front of a lane.
const QUEUE: usize = 3;

/// Events for a lane.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) parts: Vec<usize>,
    pub(crate) tenure: u64,
    /// How often the lane had let go of slots when it was read.
    pub(crate) sheds: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) up_to: Position,
}

/// What the feed is told.
#[derive(Debug)]
pub(crate) enum Order {
    Add { part: usize, tenure: u64, slots: u32, at: Position },
    Shed { sheds: u64, slots: u32 },
    Forget,
}

/// Slots at one position, a bit for each.
#[derive(Debug)]
struct Unit {
    parts: Vec<usize>,
    tenure: u64,
    slots: u32,
    at: Position,
}

/// How far a read has come.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Head { unit: usize, head: Position },
    Marks { unit: usize, head: Position, bound: Position },
}

/// What a step of the feed came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    /// There is nothing to read for, or no room.
    Idle,
    /// In the middle of a read.
    Reading,
    /// A chunk is there.
    Chunk { up_to: Position, is_behind: bool, is_apart: bool },
    /// There was nothing new.
    Nothing { is_behind: bool },
}

#[derive(Debug, Default)]
pub(crate) struct Feed {
    pub(crate) orders: VecDeque<Order>,
    /// What the lane has not taken yet.
    pub(crate) queue: VecDeque<Chunk>,
    units: Vec<Unit>,
    sheds: u64,
    reading: Option<Reading>,
}

impl Feed {
    pub(crate) fn step(&mut self, log: &Log, page: usize, mutant: Mutant) -> Fed {
        match self.reading.take() {
            None => {
                self.obey();
                // Who is furthest behind is first.
                let units = 0..self.units.len();
                let Some(unit) = units.min_by_key(|unit| self.units[*unit].at) else {
                    return Fed::Idle;
                };
                if self.queue.len() >= QUEUE {
                    return Fed::Idle;
                }
                self.reading = Some(Reading::Head { unit, head: log.head() });
                Fed::Reading
            }
            Some(Reading::Head { unit, head }) => {
                let bound = if mutant == Mutant::Horizon { head } else { log.horizon(head) };
                self.reading = Some(Reading::Marks { unit, head, bound });
                Fed::Reading
            }
            Some(Reading::Marks { unit, head, bound }) => {
                self.deliver(unit, log, bound, page, bound < head)
            }
        }
    }

    fn deliver(
        &mut self,
        number: usize,
        log: &Log,
        bound: Position,
        page: usize,
        is_behind: bool,
    ) -> Fed {
        let at = self.units[number].at;
        // Up to where the others are: from there on they are read together.
        let others = self.units.iter().map(|unit| unit.at).filter(|other| *other > at).min();
        let is_apart = others.is_some();
        let up_to = others.map_or(bound, |others| bound.min(others));
        let unit = &mut self.units[number];
        let (events, up_to) = log.page((at, up_to), unit.slots, page);
        if up_to <= at {
            return Fed::Nothing { is_behind };
        }
        unit.at = up_to;
        let (parts, tenure, sheds) = (unit.parts.clone(), unit.tenure, self.sheds);
        self.queue.push_back(Chunk { parts, tenure, sheds, events, up_to });
        self.join_up();
        Fed::Chunk { up_to, is_behind, is_apart }
    }

    fn obey(&mut self) {
        while let Some(order) = self.orders.pop_front() {
            match order {
                Order::Add { part, tenure, slots, at } => {
                    self.units.push(Unit { parts: vec![part], tenure, slots, at });
                    self.join_up();
                }
                Order::Shed { sheds, slots } => {
                    self.sheds = sheds;
                    self.units.iter_mut().for_each(|unit| unit.slots &= !slots);
                    self.units.retain(|unit| unit.slots != 0);
                }
                Order::Forget => self.units.clear(),
            }
        }
    }

    /// Units that have met are one from now on.
    fn join_up(&mut self) {
        let mut joined: Vec<Unit> = Vec::with_capacity(self.units.len());
        for unit in self.units.drain(..) {
            let same = |other: &&mut Unit| other.at == unit.at && other.tenure == unit.tenure;
            match joined.iter_mut().find(same) {
                Some(other) => {
                    other.slots |= unit.slots;
                    other.parts.extend(unit.parts);
                }
                None => joined.push(unit),
            }
        }
        self.units = joined;
    }
}

/// A bit for each slot: the slots of a simulated world are few.
pub(crate) fn bits(slots: &SlotSet) -> u32 {
    slots.iter().map(|slot| 1_u32 << slot.get()).sum()
}
