//! The first event of a slot that a consumer has not handled: what the slot waits for, or waits behind.

use crate::consumer::follows_log;
use crate::consumers::Consumers;
use crate::operate_error::OperateError;
use crate::scope::Scope;
use anabranch_core::{Event, HashRule, Partition, Slot, SlotSet, Strategy};
use anabranch_store::log_store::SlotFilter;
use anabranch_store::{PageEnd, ReadRequest};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::sync::Arc;

/// How many events are read at a time, where the slot is found here and not by the database.
const PAGE: usize = 200;
/// How many pages are looked at: each is bounded, and a person waits for the answer.
const MAX_PAGES: usize = 20;

/// The first event behind the cursor of a slot; see [`Consumers::next_of_slot`]. As JSON it is brief: where it stands and
/// what it is called, without its body.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NextEvent {
    /// The event.
    pub event: Event,
    /// Whether it is of that slot. A custom key is a function of a program, which is not at hand here: then it is the
    /// first event behind the cursor, of whatever slot.
    pub is_of_slot: bool,
}

impl NextEvent {
    /// An event that waits.
    #[must_use]
    pub fn new(event: Event, is_of_slot: bool) -> Self {
        Self { event, is_of_slot }
    }
}

impl Serialize for NextEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { event, is_of_slot } = self;
        let mut brief = serializer.serialize_struct("NextEvent", 5)?;
        brief.serialize_field("position", &event.position())?;
        brief.serialize_field("type", event.event_type())?;
        brief.serialize_field("stream", &event.stream().to_string())?;
        brief.serialize_field("version", &event.version())?;
        brief.serialize_field("is_of_slot", is_of_slot)?;
        brief.end()
    }
}

impl Consumers {
    /// The first event of a slot that a consumer has not handled: behind the slot's cursor and of the consumer's scope.
    /// None if nothing waits, if the consumer does not follow the log, or if it is farther away than is worth a look.
    ///
    /// Events of keys that have failed are not among them: the cursor has passed these
    /// ([`parked_events`](Self::parked_events)).
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_core::Slot;
    /// use anabranch_runtime::Consumers;
    /// if let Some(next) = Consumers::new(&log).next_of_slot("order_summary", Slot::ZERO).await? {
    ///     println!("{} at position {}", next.event.event_type(), next.event.position());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn next_of_slot(
        &self,
        name: &str,
        slot: Slot,
    ) -> Result<Option<NextEvent>, OperateError> {
        let Some(stored) = self.tables.identity(name).await? else {
            return Err(self.unknown(name).await);
        };
        let cursors = self.tables.cursors(name).await?;
        let cursor = cursors.iter().find(|cursor| cursor.slots.contains(slot));
        let Some(cursor) = cursor.filter(|_| follows_log(&stored.kind)) else { return Ok(None) };
        // One that a program of the last version made has not stored it.
        let scope =
            stored.scope.as_deref().and_then(|text| serde_json::from_str::<Scope>(text).ok());
        let scope = scope.unwrap_or_default();
        let log_rule = self.log.hash_rule();
        let partition =
            partition(stored.partition.as_deref().unwrap_or(&stored.strategy), log_rule);
        let mut filter = scope.filter(None);
        let column = partition.as_ref().and_then(|partition| partition.server_slot(log_rule));
        let slots = || Arc::new(SlotSet::from_slot(slot));
        filter.slots = column.map(|column| SlotFilter { column, slots: slots() });
        let up_to = self.log.head().await?;
        let mut from = cursor.position.get();
        for _ in 0..MAX_PAGES {
            let page = self.log.store().read(ReadRequest {
                scope: anabranch_store::Scope::Log(scope.query().clone()),
                filter: filter.clone(),
                cursor: from,
                up_to,
                backwards: false,
                max_events: if column.is_some() { 1 } else { PAGE },
            });
            let page = page.await?;
            let is_of_slot = partition.is_some();
            let is_wanted = |event: &Event| {
                partition.as_ref().is_none_or(|by| by.slot(event, log_rule) == slot)
            };
            if let Some(event) = page.events.into_iter().find(is_wanted) {
                return Ok(Some(NextEvent { event, is_of_slot }));
            }
            if page.end != PageEnd::More || page.cursor <= from || page.cursor >= up_to.get() {
                break;
            }
            from = page.cursor;
        }
        Ok(None)
    }
}

/// The partition that a stored text stands for, such as `entity "Order", fnv1a`: its slots, not its category, which the
/// scope has. None if its key is a function.
fn partition(stored: &str, log_rule: HashRule) -> Option<Partition> {
    let (by, rule) = stored.rsplit_once(", ").unwrap_or((stored, log_rule.name()));
    let (strategy, name) = by.split_once(' ').unwrap_or((by, ""));
    let partition = match strategy.parse().ok()? {
        Strategy::Entity => Partition::entities(),
        Strategy::Customer => Partition::customer(),
        Strategy::Saga => Partition::saga(),
        Strategy::Global => Partition::global(),
        Strategy::Dcb => Partition::dcb(name.trim_matches('"')),
        Strategy::Custom => return None,
    };
    Some(partition.with_rule(rule.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_partition_is_read_as_it_was_written() {
        let rule = HashRule::Fnv1a;
        for (made, read) in [
            (Partition::entity("Order"), "entity, fnv1a"),
            (Partition::entities().with_rule(HashRule::Md5), "entity, md5"),
            (Partition::customer(), "customer, fnv1a"),
            (Partition::saga(), "saga, fnv1a"),
            (Partition::global(), "global"),
            (Partition::dcb("seat"), "dcb \"seat\", fnv1a"),
        ] {
            let stored = made.identity(rule);
            assert_eq!(partition(&stored, rule).unwrap().identity(rule), read, "{stored}");
        }
        assert!(partition(&Partition::custom("day", |_| None).identity(rule), rule).is_none());
        assert_eq!(partition("customer, md5", rule).unwrap().identity(rule), "customer, md5");
    }
}
