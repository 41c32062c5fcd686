//! Keys, slots and advice.

use super::*;
use crate::{NewEvent, Position, Slots, StreamId};

const LOG: HashRule = HashRule::Fnv1a;

fn recorded(new: &NewEvent) -> Event {
    let stream = StreamId::new("Order", "ord-123").unwrap();
    let slots = Slots::from_keys(LOG, stream.id(), new.customer(), new.correlation());
    Event::from_row(Position::new(1), 1, new.id(), 0, slots, &new.body(&stream))
}

fn full() -> Event {
    let new = NewEvent::new("Placed", ()).with_tenant("T").with_customer("cust-123");
    recorded(&new.with_correlation("corr-123").with_tag("seat:1").with_tag("reservation:res-456"))
}

fn bare() -> Event {
    recorded(&NewEvent::new("Placed", ()))
}

fn by_type() -> Partition {
    Partition::custom("by-type", |event| Some(event.event_type().to_owned()))
}

#[test]
fn each_strategy_has_its_key() {
    for (partition, key) in [
        (Partition::entity("Order"), "Order:ord-123"),
        (Partition::entities(), "Order:ord-123"),
        (Partition::customer(), "cust-123"),
        (Partition::saga(), "corr-123"),
        (Partition::global(), "global"),
        (Partition::dcb("reservation"), "dcb:tenant:T:reservation:res-456"),
        (by_type(), "Placed"),
    ] {
        assert_eq!(partition.key(&full()).unwrap(), key, "{partition:?}");
    }
}

#[test]
fn a_missing_key_names_the_field_and_the_strategy() {
    let (customer, saga) = (Partition::customer(), Partition::saga());
    let none = Partition::custom("by-region", |_| None);
    let reservation = Partition::dcb("reservation");
    let tenant_only =
        recorded(&NewEvent::new("Placed", ()).with_tenant("T").with_tag("reservation:"));
    for (partition, event, expected) in [
        (customer, bare(), "has no customer, which the customer strategy needs"),
        (saga, bare(), "has no correlation, which the saga strategy needs"),
        (none, full(), "has no key `by-region`, which the custom strategy needs"),
        (reservation.clone(), bare(), "has no tenant, which the dcb strategy needs"),
        (reservation, tenant_only, "has no tag `reservation:ID`, which the dcb strategy needs"),
    ] {
        assert_eq!(partition.key(&event).unwrap_err().to_string(), expected);
        assert_eq!(partition.slot(&event, LOG), Slot::ZERO, "one owner meets it");
    }
}

#[test]
fn an_entity_is_hashed_by_its_id_alone() {
    let partition = Partition::entity("Order");
    assert_eq!(partition.slot(&full(), LOG), LOG.slot("ord-123"));
    let md5 = partition.with_rule(HashRule::Md5);
    assert_eq!(md5.slot(&full(), LOG), HashRule::Md5.slot("ord-123"));
}

#[test]
fn stored_slots_are_used_unless_another_rule_is_asked_for() {
    let slots = Slots::from_keys(LOG, "stored", Some("stored"), Some("stored"));
    let event = full();
    let event = Event::from_row(event.position(), 1, event.id(), 0, slots, &event.body());
    for (partition, column, key) in [
        (Partition::entity("Order"), SlotColumn::Entity, "ord-123"),
        (Partition::customer(), SlotColumn::Customer, "cust-123"),
        (Partition::saga(), SlotColumn::Saga, "corr-123"),
    ] {
        assert_eq!(partition.slot(&event, LOG), LOG.slot("stored"));
        assert_eq!(partition.server_slot(LOG), Some(column));
        let same = partition.clone().with_rule(LOG);
        assert_eq!(same.server_slot(LOG), Some(column), "the log's own rule is no other rule");
        let other = partition.with_rule(HashRule::Md5);
        assert_eq!(other.slot(&event, LOG), HashRule::Md5.slot(key));
        assert_eq!(other.server_slot(LOG), None);
    }
}

#[test]
fn other_strategies_are_routed_at_the_client() {
    for (partition, slot) in [
        (Partition::global(), Slot::ZERO),
        (Partition::global().with_rule(HashRule::Md5), Slot::ZERO),
        (Partition::dcb("reservation"), LOG.slot("dcb:tenant:T:reservation:res-456")),
        (by_type(), LOG.slot("Placed")),
        (by_type().with_rule(HashRule::Md5), HashRule::Md5.slot("Placed")),
    ] {
        assert_eq!(partition.slot(&full(), LOG), slot, "{partition:?}");
        assert_eq!(partition.server_slot(LOG), None);
    }
}

#[test]
fn only_a_global_consumer_has_one_slot() {
    assert_eq!(Partition::global().slots(), SlotSet::from_slot(Slot::ZERO));
    assert_eq!(Partition::customer().slots(), SlotSet::all());
    assert_eq!(Partition::entity("Order").category(), Some("Order"));
    assert_eq!(Partition::entities().category(), None);
    let partition = Partition::entity("Order").with_rule(HashRule::Md5);
    assert_eq!(format!("{partition:?}"), "Partition(entity Order by md5)");
}

#[test]
fn strategies_are_found_by_name() {
    for strategy in Strategy::ALL {
        assert_eq!(strategy.name().parse(), Ok(strategy));
    }
    let message = "shard".parse::<Strategy>().unwrap_err().to_string();
    assert!(message.contains("`shard`; use entity, customer"), "{message}");
}

#[test]
fn the_most_restrictive_yes_wins() {
    for bits in 0..16_u8 {
        let yes = |bit: u8| bits & 1 << bit != 0;
        let answers = Answers {
            one_entity: yes(0),
            customer_order: yes(1),
            process: yes(2),
            total_order: yes(3),
            shared_rows: bits % 3 == 0,
        };
        let expected = match bits {
            8.. => Strategy::Global,
            4.. => Strategy::Saga,
            2.. => Strategy::Customer,
            _ => Strategy::Entity,
        };
        let advice = classify(answers);
        assert_eq!((advice.strategy, advice.lanes), (expected, expected.recommended_lanes()));
        assert!(advice.reason.ends_with('.'));
        let is_shared = answers.shared_rows && expected != Strategy::Global;
        assert_eq!(advice.caution.is_some(), is_shared, "{answers:?}");
    }
}
