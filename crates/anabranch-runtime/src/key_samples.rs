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
use anabranch_core::{Happening, Notice};
use anabranch_store::Log;
use std::collections::HashSet;
use uuid::Uuid;

/// How many events of a batch are kept.
const OF_A_BATCH: usize = 8;
/// How many are kept for long.
const KEPT: usize = 48;
/// How many may be there before the surplus is dropped.
const AT_MOST: usize = 2 * KEPT;
/// After so many batches some more are kept: those of long ago may be deleted one day.
const EVERY: u64 = 256;
/// How many differences a message shows.
const SHOWN: usize = 3;

/// The key that an event had when it was handled.
#[derive(Clone, Debug)]
pub(crate) struct KeySample {
    pub(crate) position: Position,
    pub(crate) event_id: Uuid,
    pub(crate) key: String,
}

/// Chooses the events whose keys one lane keeps: some of its first batches, then fewer.
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
    pub(crate) fn take(&self, partition: &Partition, events: &[Event]) -> Vec<KeySample> {
        if self.next.is_none_or(|next| self.batches + 1 < next) {
            return Vec::new();
        }
        let sample = |event: &Event| {
            // One without a key has failed, and is parked under its stream. Not every database takes
            // a NUL in a text.
            let key = partition.key(event).ok().filter(|key| !key.contains('\0'))?.into_owned();
            Some(KeySample { position: event.position(), event_id: event.id(), key })
        };
        spread(events, OF_A_BATCH).into_iter().filter_map(sample).collect()
    }

    /// A batch with events is committed.
    pub(crate) fn committed(&mut self) {
        self.batches += 1;
        let after = |next: u64| if self.batches < next { next } else { next + next.min(EVERY) };
        self.next = self.next.map(after);
    }
}

/// Up to so many, the first and the last among them, evenly apart.
fn spread<T>(all: &[T], count: usize) -> Vec<&T> {
    if all.len() <= count {
        return all.iter().collect();
    }
    (0..count).map(|number| &all[number * (all.len() - 1) / (count - 1)]).collect()
}

/// Which samples a worker has found to be right.
#[derive(Debug, Default)]
pub(crate) struct Checked(HashSet<Uuid>);

/// Refuses a consumer whose function does not answer as it did, here or in another program: at the
/// start, and every few seconds, since two programs may begin together.
pub(crate) async fn check(
    consumer: &Consumer,
    log: &Log,
    tables: &Tables,
    checked: &mut Checked,
) -> Result<(), RunError> {
    if consumer.partition.strategy() != Strategy::Custom || consumer.has_rows() {
        return Ok(());
    }
    let samples = tables.key_samples(&consumer.name).await?;
    let kept = spread(&samples, KEPT);
    let (mut differences, mut compared) = (Vec::new(), checked.0.len());
    for sample in &kept {
        if checked.0.contains(&sample.event_id) {
            continue;
        }
        let Some(event) = event_of(log, sample).await? else { continue };
        compared += 1;
        let (position, key) = (sample.position, &sample.key);
        let now = consumer.partition.key(&event).ok();
        if now.as_deref() == Some(key) {
            checked.0.insert(sample.event_id);
            continue;
        }
        let now = now.map_or("no key".to_owned(), |now| format!("`{now}`"));
        differences.push(format!("position {position} had `{key}` and now has {now}"));
    }
    if !differences.is_empty() {
        let (count, of) = (differences.len(), kept.len());
        differences.truncate(SHOWN);
        return Err(RunError::refused(
            &consumer.name,
            format!(
                "the function of its partition answers otherwise than it did, or than that of \
                 another program which runs it: of {of} events that were handled, {count} have \
                 another key ({}); its cursors hold slots of the old keys, so events would be lost \
                 and others handled twice: restore the function, or give the partition a new name \
                 and rebuild the consumer",
                differences.join("; ")
            ),
        ));
    }
    if compared == 0 && !samples.is_empty() {
        let what = Happening::noticed(Notice::KeysNotComparable, None);
        tables.events.of(&consumer.name).emit(what);
    }
    if samples.len() > AT_MOST {
        let is_kept = |one: &&KeySample| kept.iter().any(|kept| kept.position == one.position);
        let surplus: Vec<Position> =
            samples.iter().filter(|one| !is_kept(one)).map(|one| one.position).collect();
        tables.commit(tables.drop_keys(&consumer.name, &surplus)).await?;
    }
    checked.0.retain(|id| samples.iter().any(|sample| sample.event_id == *id));
    Ok(())
}

/// The event of a sample, unless it was deleted.
async fn event_of(log: &Log, sample: &KeySample) -> Result<Option<Event>, StoreError> {
    let before = Position::new(sample.position.get().saturating_sub(1));
    let found = log.read(Query::all()).after(before).limit(1).collect().await?;
    Ok(found.into_iter().next().filter(|event| event.id() == sample.event_id))
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
