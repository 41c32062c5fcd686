//! Which advisory locks an append takes, and which of them a query has to mind.
//!
//! An append locks each of its streams alone, and each of its tags and types together with other
//! appends. A condition locks its scope alone: for each item one tag, or all its types. An event
//! that matches an item has that tag (or one of those types), so an append that could break a
//! condition cannot be in flight beside it.
//!
//! Names are hashed into a fixed number of keys, since the server's lock table is small (by default
//! some 7,000 entries for all sessions together): a coalesced batch takes about a thousand at most, and
//! what a handler appends in one transaction all 3,136 of them. Where the table has no room for that,
//! the consumer takes fewer events at a time (`refusal::too_many_locks`).
//! Two names with one key only wait for each other now and then.

use anabranch_core::{Append, HashRule, Query, QueryItem, StreamId};
use anabranch_store::Namespace;
use std::collections::BTreeMap;

const STREAM_KEYS: u32 = 2048;
const TAG_KEYS: u32 = 1024;
const TYPE_KEYS: u32 = 64;

/// The lock classes of one log: keys, and the marks of appends in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes {
    pub(crate) keys: i32,
    pub(crate) marks: i32,
    pub(crate) migration: i32,
    /// Signs of life of workers.
    pub(crate) workers: i32,
}

impl Classes {
    pub(crate) fn of(namespace: &Namespace) -> Self {
        let class = |what: &str| HashRule::fnv1a32(&format!("anabranch {what} {namespace}")) as i32;
        Self {
            keys: class("keys"),
            marks: class("marks"),
            migration: class("migration"),
            workers: class("workers"),
        }
    }
}

/// The locks of a batch: each key once, in order, with whether it is taken alone.
pub(crate) type Locks = BTreeMap<i32, bool>;

fn stream_key(stream: &StreamId) -> i32 {
    // The category goes in as well, so that all kinds of things with one id do not share a key.
    let hash = HashRule::fnv1a32(stream.id()) ^ HashRule::fnv1a32(stream.category());
    (hash % STREAM_KEYS) as i32
}

fn tag_key(tag: &str) -> i32 {
    (STREAM_KEYS + HashRule::fnv1a32(tag) % TAG_KEYS) as i32
}

fn type_key(name: &str) -> i32 {
    (STREAM_KEYS + TAG_KEYS + HashRule::fnv1a32(name) % TYPE_KEYS) as i32
}

/// The keys of a batch, sorted, and whether each is taken alone.
pub(crate) fn of_batch(batch: &[&Append]) -> (Vec<i32>, Vec<bool>) {
    let mut locks = Locks::new();
    batch.iter().for_each(|append| lock(&mut locks, append));
    locks.into_iter().unzip()
}

/// Adds the locks of an append.
pub(crate) fn lock(locks: &mut Locks, append: &Append) {
    let mut take = |key, alone| *locks.entry(key).or_insert(false) |= alone;
    for part in append.parts() {
        take(stream_key(&part.stream), true);
        for event in &part.events {
            take(type_key(event.event_type()), false);
            event.tags().iter().for_each(|tag| take(tag_key(tag), false));
        }
    }
    if let Some(condition) = append.condition() {
        scope(&condition.query).into_iter().for_each(|key| take(key, true));
    }
}

/// The keys of which an append must hold at least one to store an event that matches.
pub(crate) fn scope(query: &Query) -> Vec<i32> {
    let of_item = |item: &QueryItem| match item.leading_tag() {
        Some(tag) => vec![tag_key(tag)],
        None => item.types.iter().map(|name| type_key(name)).collect(),
    };
    if query.is_all() {
        let first = (STREAM_KEYS + TAG_KEYS) as i32;
        return (first..first + TYPE_KEYS as i32).collect();
    }
    query.items().iter().flat_map(of_item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::{Expected, NewEvent, Position};

    fn locks(append: &Append) -> Locks {
        let mut locks = Locks::new();
        lock(&mut locks, append);
        locks
    }

    fn append(event: NewEvent) -> Append {
        Append::new().to(&StreamId::new("S", "1").unwrap(), Expected::Any, [event])
    }

    /// Every event that matches a query shares a key with it: the writer's, taken together, and the
    /// condition's, taken alone, exclude each other.
    #[test]
    fn a_condition_excludes_every_append_that_could_break_it() {
        let event = || NewEvent::new("A", ()).with_tags(["x", "y"]);
        let writer = locks(&append(event()));
        for query in [
            Query::all(),
            Query::types(["A"]),
            Query::types(["B", "A"]),
            Query::tags(["x"]),
            Query::tags(["y", "x"]),
            Query::types(["A"]).tagged(["y"]),
            Query::types(["C"]).or(Query::tags(["x", "y"])),
        ] {
            assert!(query.matches("A", ["x", "y"]));
            let holds = scope(&query).iter().any(|key| writer.contains_key(key));
            assert!(holds, "{query}");
            let other = append(NewEvent::new("Z", ())).unless(query.clone(), Position::START);
            let other = locks(&other);
            assert!(scope(&query).iter().all(|key| other[key]), "{query} is locked alone");
        }
    }

    #[test]
    fn a_batch_never_takes_more_locks_than_there_are_keys() {
        let mut all = Locks::new();
        for number in 0..20_000 {
            let stream = StreamId::new("S", number.to_string()).unwrap();
            let event = NewEvent::new(format!("T{number}"), ()).with_tag(format!("t:{number}"));
            lock(&mut all, &Append::new().to(&stream, Expected::Any, [event]));
        }
        assert_eq!(all.len() as u32, STREAM_KEYS + TAG_KEYS + TYPE_KEYS);
        assert!(all.iter().all(|(key, alone)| *alone == (*key < STREAM_KEYS as i32)));
    }
}
