//! What an import would do, and why it may not: pure.

use super::{Import, Refusal};
use crate::consumer::{check_name, is_folded};
use crate::offsets::behind;
use crate::tables::consumers::Registered;
use anabranch_core::rescale::{self, Extent};
use anabranch_core::{Cursor, FixedPartition, HashRule, Position, Slot, SlotSet, Strategy};
use serde::Serialize;
use std::collections::BTreeMap;

/// What is kept about a consumer before an import.
pub(super) struct Found {
    pub(super) registered: Registered,
    pub(super) cursors: Vec<Cursor>,
    /// The living workers that own some of them, in words.
    pub(super) owners: Vec<String>,
    pub(super) parked_keys: usize,
}

/// What an import does.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ImportPlan {
    /// The consumer.
    pub consumer: String,
    /// How its keys become slots, as it is stored: `entity, fnv1a`.
    pub strategy: String,
    /// How many old partitions there are.
    pub total: u16,
    /// What becomes of each of them.
    pub partitions: Vec<ImportedPartition>,
    /// How many cursors that makes: partitions at one position share one.
    pub cursors: usize,
    /// All events up to here are done.
    pub minimum: Position,
    /// The end of the log.
    pub head: Position,
    /// How many positions lie between the two.
    pub lag: u64,
    /// What there was before.
    pub before: Before,
    /// Parked keys of the consumer that are dropped: what they wait for is done by the old runners, or
    /// comes again.
    pub parked_keys: usize,
    /// Why it cannot be done. Empty if it can.
    pub refusals: Vec<Refusal>,
}

/// What becomes of an old partition.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ImportedPartition {
    /// Its index, from 0.
    pub index: u16,
    /// How many slots it has.
    pub slots: usize,
    /// Where they go on.
    pub position: Position,
    /// How many positions that is behind the end of the log.
    pub lag: u64,
    /// Where they stand now.
    pub now: Option<Extent>,
    /// How many positions the consumer would handle again, at most.
    pub repeats: u64,
    /// How many positions the consumer would never handle, at most.
    pub leaves_out: u64,
}

/// What there was before an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// No such consumer.
    Nothing,
    /// An earlier import; the consumer has not run since.
    Imported,
    /// A consumer that is set up.
    Consumer,
}

impl Import {
    /// Every slot that the consumer has.
    pub(super) fn slots(&self) -> SlotSet {
        match self.strategy {
            Strategy::Global => SlotSet::from_slot(Slot::ZERO),
            _ => SlotSet::all(),
        }
    }

    /// Its cursors, free: one for each position.
    pub(super) fn cursors(&self) -> Vec<Cursor> {
        let all = self.slots();
        let mut by_position: BTreeMap<Position, SlotSet> = BTreeMap::new();
        for (index, position) in &self.checkpoints {
            let slots = SlotSet::partition(*index, self.total).intersection(&all);
            let sum = by_position.entry(*position).or_insert_with(SlotSet::empty);
            *sum = sum.union(&slots);
        }
        let held = by_position.into_iter().filter(|(_, slots)| !slots.is_empty());
        held.map(|(position, slots)| Cursor::free(slots, position)).collect()
    }

    pub(super) fn plan(
        &self,
        log_rule: HashRule,
        head: Position,
        found: Option<&Found>,
    ) -> ImportPlan {
        let mut refusals = self.wrong(head);
        let is_whole = refusals.is_empty();
        let now = found.filter(|_| self.total > 0);
        let now = now.map(|found| rescale::extents(&found.cursors, self.total));
        let all = self.slots();
        let known = self.checkpoints.iter().filter(|(index, _)| *index < self.total);
        let partition = |(index, position): &(u16, Position)| {
            let now = now.as_ref().map(|now| now[usize::from(*index)]);
            let over = |a: Option<Position>, b: Option<Position>| match (a, b) {
                (Some(a), Some(b)) => behind(b, a),
                _ => 0,
            };
            let (lowest, highest) = (now.and_then(|n| n.lowest), now.and_then(|n| n.highest));
            ImportedPartition {
                index: *index,
                slots: SlotSet::partition(*index, self.total).intersection(&all).len(),
                position: *position,
                lag: behind(*position, head),
                now,
                repeats: over(highest, Some(*position)),
                leaves_out: over(Some(*position), lowest),
            }
        };
        let mut partitions: Vec<ImportedPartition> = known.map(partition).collect();
        partitions.sort_by_key(|partition| partition.index);
        let strategy = self.strategy_text(log_rule);
        if let Some(found) = found {
            refusals.extend(self.in_the_way(found, &strategy, &partitions));
        }
        let minimum = self.checkpoints.iter().map(|(_, at)| *at).min().unwrap_or_default();
        ImportPlan {
            consumer: self.consumer.clone(),
            strategy,
            total: self.total,
            partitions,
            cursors: if is_whole { self.cursors().len() } else { 0 },
            minimum,
            head,
            lag: behind(minimum, head),
            before: match found {
                None => Before::Nothing,
                Some(found) if found.registered.is_set_up => Before::Consumer,
                Some(_) => Before::Imported,
            },
            parked_keys: found.map_or(0, |found| found.parked_keys),
            refusals,
        }
    }

    /// What is wrong with the checkpoints, whatever there is.
    fn wrong(&self, head: Position) -> Vec<Refusal> {
        let total = self.total;
        let mut refusals = Vec::new();
        if let Err(problem) = check_name(&self.consumer) {
            refusals.push(Refusal::Name(problem));
        }
        if FixedPartition::new(0, total).is_err() {
            refusals.push(Refusal::Total { total });
            return refusals;
        }
        if self.strategy == Strategy::Global && total > 1 {
            refusals.push(Refusal::Global { total });
        }
        let mut counts = vec![0; usize::from(total)];
        for (index, position) in &self.checkpoints {
            let (index, position) = (*index, *position);
            match counts.get_mut(usize::from(index)) {
                None => refusals.push(Refusal::NotOne { index, total }),
                Some(count) => {
                    *count += 1;
                    if *count == 2 {
                        refusals.push(Refusal::Double { index });
                    }
                }
            }
            if position > head {
                refusals.push(Refusal::BeyondHead { index, position, head });
            }
        }
        let indexes: Vec<u16> = (0..total).filter(|i| counts[usize::from(*i)] == 0).collect();
        if !indexes.is_empty() {
            refusals.push(Refusal::Missing { indexes, total });
        }
        let positions = || self.checkpoints.iter().map(|(_, position)| *position);
        if let (Some(lowest), Some(highest)) = (positions().min(), positions().max())
            && lowest != highest
            && !rescale::is_exact(total)
        {
            refusals.push(Refusal::Uneven { total, lowest, highest });
        }
        refusals
    }

    /// What there is and must not be overwritten.
    fn in_the_way(
        &self,
        found: &Found,
        strategy: &str,
        partitions: &[ImportedPartition],
    ) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        if !found.owners.is_empty() {
            refusals.push(Refusal::Running { workers: found.owners.clone() });
        }
        if !found.registered.is_set_up {
            // It has handled nothing under these positions yet: a second import corrects the first.
            return refusals;
        }
        if found.registered.strategy != strategy {
            let (found, wanted) = (found.registered.strategy.clone(), strategy.to_owned());
            refusals.push(Refusal::OtherKeys { found, wanted });
        }
        if is_folded(&found.registered.kind) {
            refusals.push(Refusal::View);
        }
        if self.replace {
            return refusals;
        }
        if let Some(to) = found.registered.reset_to {
            refusals.push(Refusal::Replay { to });
        }
        let positions = || found.cursors.iter().map(|cursor| cursor.position);
        let highest = positions().max().unwrap_or_default();
        if highest > Position::START {
            let most = |of: fn(&ImportedPartition) -> u64| partitions.iter().map(of).max();
            refusals.push(Refusal::HasRun {
                lowest: positions().min().unwrap_or_default(),
                highest,
                repeats: most(|partition| partition.repeats).unwrap_or(0),
                leaves_out: most(|partition| partition.leaves_out).unwrap_or(0),
            });
        }
        refusals
    }
}
