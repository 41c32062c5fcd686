//! The slot of a key that somebody names, without an event of it and without the consumer's code.

use super::{Partition, Strategy};
use crate::{HashRule, Slot, StreamId};

/// What begins the key under which an event without one is set aside.
const KEYLESS: &str = "(no key) ";
/// What begins every key of a dynamic consistency boundary.
const DCB: &str = "dcb:tenant:";

impl Partition {
    /// The slot of a key as [`key`](Self::key) writes it, for the partition with this [`identity`](Self::identity).
    /// None for what cannot be a key of it, and for a text that is no identity. A custom partition has any key.
    ///
    /// ```
    /// use anabranch_core::{HashRule, Partition};
    /// let orders = Partition::entity("Order").identity(HashRule::Fnv1a);
    /// let slot = Partition::slot_of_key(&orders, "Order:ord-123").unwrap();
    /// assert_eq!(slot, HashRule::Fnv1a.slot("ord-123"));
    /// assert!(Partition::slot_of_key(&orders, "ord-123").is_none());
    /// assert!(Partition::slot_of_key("custom \"by-region\", fnv1a", "north").is_some());
    /// ```
    #[must_use]
    pub fn slot_of_key(identity: &str, key: &str) -> Option<Slot> {
        if identity == Strategy::Global.to_string() {
            return (key == "global").then_some(Slot::ZERO);
        }
        let (what, rule) = identity.rsplit_once(", ")?;
        let rule: HashRule = rule.parse().ok()?;
        let strategy: Strategy = what.split(' ').next()?.parse().ok()?;
        if strategy == Strategy::Entity {
            let partition = Self::from_identity(identity)?;
            let stream: StreamId = key.parse().ok()?;
            let is_its = partition.category().is_none_or(|category| category == stream.category());
            return is_its.then(|| rule.slot(stream.id()));
        }
        match key {
            "" => None,
            // An event without a key is in slot 0.
            keyless if keyless.starts_with(KEYLESS) => Some(Slot::ZERO),
            other if strategy == Strategy::Dcb && !other.starts_with(DCB) => None,
            key => Some(rule.slot(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(partition: &Partition, key: &str) -> Option<Slot> {
        Partition::slot_of_key(&partition.identity(HashRule::Fnv1a), key)
    }

    #[test]
    fn every_strategy_hashes_what_its_events_are_hashed_by() {
        let by = |text: &str| Some(HashRule::Fnv1a.slot(text));
        assert_eq!(slot(&Partition::entities(), "Order:7"), by("7"));
        assert_eq!(slot(&Partition::customer(), "cust-1"), by("cust-1"));
        assert_eq!(slot(&Partition::saga(), "corr-1"), by("corr-1"));
        assert_eq!(slot(&Partition::global(), "global"), Some(Slot::ZERO));
        let seat = "dcb:tenant:t:seat:1";
        assert_eq!(slot(&Partition::dcb("seat"), seat), by(seat));
        assert_eq!(slot(&Partition::custom("a, b", |_| None), "north"), by("north"));
        let md5 = Partition::customer().with_rule(HashRule::Md5);
        assert_eq!(slot(&md5, "cust-1"), Some(HashRule::Md5.slot("cust-1")));
    }

    #[test]
    fn what_has_no_key_is_in_slot_0() {
        assert_eq!(slot(&Partition::customer(), "(no key) Order:1"), Some(Slot::ZERO));
    }

    #[test]
    fn what_is_no_key_of_it_is_none() {
        assert_eq!(slot(&Partition::entity("Order"), "Customer:7"), None);
        assert_eq!(slot(&Partition::entities(), "7"), None);
        assert_eq!(slot(&Partition::global(), "7"), None);
        assert_eq!(slot(&Partition::dcb("seat"), "seat:1"), None);
        assert_eq!(slot(&Partition::customer(), ""), None);
        assert_eq!(Partition::slot_of_key("", "a"), None);
    }
}
