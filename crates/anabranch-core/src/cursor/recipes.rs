//! Why cursors: the usual recipes for going from 3 partitions to 5, counted on a small log.
//!
//! Each recipe keeps one checkpoint for a partition and must say where the new partitions begin.
//! Keys from partitions at different checkpoints meet in a new partition, so no single answer is
//! right for all of them.

use super::tests::Table;
use super::*;
use crate::{HashRule, Slot};

/// Where each of the 3 partitions stands when it is time to have 5.
const CHECKPOINTS: [u64; 3] = [400, 150, 520];
const EVENTS: u64 = 600;

/// A log of 600 events over 60 keys; the event at position p belongs to key p % 60.
struct Log {
    /// How often each event was handled.
    handled: Vec<u32>,
}

impl Log {
    /// The log after the 3 partitions have come as far as their checkpoints.
    fn at_checkpoints() -> Self {
        let mut log = Self { handled: vec![0; EVENTS as usize] };
        for (index, checkpoint) in (0..).zip(CHECKPOINTS) {
            log.handle(&SlotSet::partition(index, 3), 0, checkpoint);
        }
        log
    }

    /// Handles the events of these slots after one position up to another.
    fn handle(&mut self, slots: &SlotSet, after: u64, up_to: u64) {
        for position in after + 1..=up_to {
            if slots.contains(slot_of(position)) {
                self.handled[position as usize - 1] += 1;
            }
        }
    }

    fn lost_and_doubled(&self) -> (usize, usize) {
        let count = |wanted: fn(u32) -> bool| self.handled.iter().filter(|n| wanted(**n)).count();
        (count(|times| times == 0), count(|times| times > 1))
    }
}

fn slot_of(position: u64) -> Slot {
    HashRule::Fnv1a.slot(&format!("ord-{}", position % 60))
}

/// Runs 5 partitions to the end, each from where the recipe lets it begin.
fn lost_and_doubled(begin: impl Fn(u16) -> u64) -> (usize, usize) {
    let mut log = Log::at_checkpoints();
    for index in 0..5 {
        log.handle(&SlotSet::partition(index, 5), begin(index), EVENTS);
    }
    log.lost_and_doubled()
}

#[test]
fn starting_at_the_minimum_repeats_events() {
    let minimum = CHECKPOINTS.into_iter().min().unwrap();
    let (lost, doubled) = lost_and_doubled(|_| minimum);
    assert_eq!(lost, 0);
    assert!(doubled > 0, "{doubled} doubled");
}

#[test]
fn starting_at_the_maximum_loses_events() {
    let maximum = CHECKPOINTS.into_iter().max().unwrap();
    let (lost, doubled) = lost_and_doubled(|_| maximum);
    assert!(lost > 0, "{lost} lost");
    assert_eq!(doubled, 0);
}

#[test]
fn keeping_the_checkpoint_of_each_index_loses_and_repeats_events() {
    for new_ones_begin in [0, EVENTS] {
        let kept = |index: u16| CHECKPOINTS.get(usize::from(index)).copied();
        let (lost, doubled) = lost_and_doubled(|index| kept(index).unwrap_or(new_ones_begin));
        assert!(lost > 0 && doubled > 0, "{lost} lost, {doubled} doubled");
    }
}

#[test]
fn cursors_lose_and_repeat_nothing() {
    let mut table = Table::new(SlotSet::all());
    for index in 0..3 {
        let _ = table.claim(&format!("old-{index}"), &[SlotSet::partition(index, 3)]);
    }
    let mut log = Log { handled: vec![0; EVENTS as usize] };
    for row in &mut table.rows {
        let index = row.slots.iter().next().unwrap().get();
        let checkpoint = CHECKPOINTS[usize::from(index)];
        log.handle(&row.slots, row.position.get(), checkpoint);
        row.position = Position::new(checkpoint);
    }
    assert_eq!(log.handled, Log::at_checkpoints().handled, "the same start as the recipes have");

    for index in 0..3 {
        let change = release(&table.rows, &format!("old-{index}"));
        table.apply(change);
    }
    for index in 0..5 {
        let me = format!("new-{index}");
        assert!(table.claim(&me, &[SlotSet::partition(index, 5)]).is_empty());
        for cursor in table.of(&me) {
            log.handle(&cursor.slots, cursor.position.get(), EVENTS);
        }
    }
    assert_eq!(log.lost_and_doubled(), (0, 0));
}
