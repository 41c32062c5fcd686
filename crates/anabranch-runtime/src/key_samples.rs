//! Keys of handled events: kept with the commit that handled them, computed again at each start.
//!
//! A partition by a function has a name, which is compared; what the function does has none. If it
//! answers otherwise than it did for events that were handled, its cursors hold other keys than it
//! finds, and events would be lost and doubled. A function that answers otherwise only for events that
//! are no samples is not noticed.

use crate::consumer::Consumer;
use crate::run_error::RunError;
use crate::tables::Tables;
use anabranch_core::{Event, Partition, Position, Query, StoreError, Strategy};
use anabranch_store::Log;

/// How many events of a batch are kept.
const OF_A_BATCH: usize = 8;
/// How many are kept from one start to the next.
const KEPT: usize = 48;
/// How many differences a message shows.
const SHOWN: usize = 3;

/// Chooses the events whose keys one lane keeps: some of its first batches, then ever fewer.
#[derive(Debug)]
pub(crate) struct Sampler {
    batches: u64,
    /// The number of the next batch to keep some of; none for a partition without a function.
    next: Option<u64>,
}

impl Sampler {
    pub(crate) fn of(partition: &Partition) -> Self {
        let next = (partition.strategy() == Strategy::Custom).then_some(1);
        Self { batches: 0, next }
    }

    /// The keys to keep of a batch that is about to be committed.
    pub(crate) fn take(&self, partition: &Partition, events: &[Event]) -> Vec<(Position, String)> {
        if self.next.is_none_or(|next| self.batches + 1 < next) {
            return Vec::new();
        }
        let sample = |event: &Event| {
            // One without a key has failed, and is parked under its stream. Not every database takes
            // a NUL in a text.
            let key = partition.key(event).ok().filter(|key| !key.contains('\0'));
            key.map(|key| (event.position(), key.into_owned()))
        };
        spread(events, OF_A_BATCH).into_iter().filter_map(sample).collect()
    }

    /// A batch with events is committed.
    pub(crate) fn committed(&mut self) {
        self.batches += 1;
        self.next = self.next.map(|next| if self.batches < next { next } else { next * 2 });
    }
}

/// Up to so many, the first and the last among them, evenly apart.
fn spread<T>(all: &[T], count: usize) -> Vec<&T> {
    if all.len() <= count {
        return all.iter().collect();
    }
    (0..count).map(|number| &all[number * (all.len() - 1) / (count - 1)]).collect()
}

/// Refuses a consumer whose function no longer answers as it did.
pub(crate) async fn check(consumer: &Consumer, log: &Log, tables: &Tables) -> Result<(), RunError> {
    if consumer.partition.strategy() != Strategy::Custom || consumer.has_rows() {
        return Ok(());
    }
    let samples = tables.key_samples(&consumer.name).await?;
    let kept = spread(&samples, KEPT);
    let mut differences = Vec::new();
    for (position, key) in &kept {
        if let Some(event) = event_at(log, *position).await? {
            let now = consumer.partition.key(&event).ok();
            if now.as_deref() != Some(key) {
                let now = now.map_or("no key".to_owned(), |now| format!("`{now}`"));
                differences.push(format!("position {position} had `{key}` and now has {now}"));
            }
        }
    }
    if !differences.is_empty() {
        let (count, of) = (differences.len(), kept.len());
        differences.truncate(SHOWN);
        return Err(RunError::refused(
            &consumer.name,
            format!(
                "the function of its partition answers otherwise than it did: of {of} events that \
                 it has handled, {count} have another key ({}); its cursors hold slots of the old \
                 keys, so events would be lost and others handled twice: restore the function, or \
                 give the partition a new name and rebuild the consumer",
                differences.join("; ")
            ),
        ));
    }
    if kept.len() < samples.len() {
        let is_kept = |one: &&(Position, String)| kept.iter().any(|kept| kept.0 == one.0);
        let surplus: Vec<Position> =
            samples.iter().filter(|one| !is_kept(one)).map(|one| one.0).collect();
        tables.commit(tables.drop_keys(&consumer.name, &surplus)).await?;
    }
    Ok(())
}

/// The event at a position, unless it was deleted.
async fn event_at(log: &Log, position: Position) -> Result<Option<Event>, StoreError> {
    let before = Position::new(position.get().saturating_sub(1));
    let found = log.read(Query::all()).after(before).limit(1).collect().await?;
    Ok(found.into_iter().next().filter(|event| event.position() == position))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_over_all() {
        let all: Vec<u32> = (0..1000).collect();
        let some = spread(&all, 8);
        assert_eq!((some.len(), *some[0], *some[7]), (8, 0, 999));
        assert!(some.windows(2).all(|pair| pair[0] < pair[1]), "{some:?}");
        assert_eq!(spread(&all[..8], 8).len(), 8);
        assert_eq!(spread(&all[..3], 8), [&0, &1, &2]);
        assert!(spread::<u32>(&[], 8).is_empty());
    }
}
