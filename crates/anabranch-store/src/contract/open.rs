//! Opening: migrations and settings.

use super::{Harness, numbered, numbers, order, soon};
use crate::{Namespace, Options};
use anabranch_core::{Expected, HashRule, Position, Query, StoreError};
use futures_util::future::join_all;

/// Sixteen start on an empty database; all of them can append.
pub async fn many_processes_may_start_at_once(harness: &Harness) {
    let logs = soon(join_all((0..16).map(|_| harness.open(Options::default())))).await;
    for (number, log) in logs.into_iter().enumerate() {
        let log = log.unwrap();
        log.append(&order(number), Expected::NoStream, [numbered(1)]).await.unwrap();
        let expected = if harness.shared { number as u64 + 1 } else { 1 };
        assert_eq!(log.head().await.unwrap().get(), expected);
    }
}

/// A new log takes the rule that it is given and keeps it; asking for another one is an error.
pub async fn the_hash_rule_of_a_log_is_kept(harness: &Harness) {
    let with = |hash_rule| Options { hash_rule, ..Options::default() };
    let log = harness.open(with(Some(HashRule::Md5))).await.unwrap();
    assert_eq!(log.hash_rule(), HashRule::Md5);
    log.append(&order("ord-1"), Expected::Any, [numbered(1)]).await.unwrap();
    let event = &log.read_stream(&order("ord-1")).collect().await.unwrap()[0];
    assert_eq!(event.slots().entity, HashRule::Md5.slot("ord-1"));
    if harness.shared {
        assert_eq!(harness.open(with(None)).await.unwrap().hash_rule(), HashRule::Md5);
        let error = harness.open(with(Some(HashRule::Fnv1a))).await.unwrap_err();
        assert!(matches!(error, StoreError::OtherRule { .. }), "{error:?}");
        assert!(error.to_string().contains("hash rule md5, not fnv1a"), "{error}");
    }
}

/// Whoever applies migrations by hand gets an error that says so, not tables behind their back.
pub async fn without_migration_a_missing_log_is_an_error(harness: &Harness) {
    let by_hand = || Options { migrate: false, ..Options::default() };
    let error = harness.open(by_hand()).await.unwrap_err();
    assert!(matches!(error, StoreError::NoLog { .. }), "{error:?}");
    assert!(error.to_string().contains("create it with `anabranch migrate`"), "{error}");
    if harness.shared {
        drop(harness.log().await);
        harness.open(by_hand()).await.unwrap();
    }
}

/// Two logs in one database know nothing of each other.
pub async fn logs_in_one_database_are_apart(harness: &Harness) {
    let named =
        |name: &str| Options { namespace: Namespace::new(name).unwrap(), ..Options::default() };
    let one = harness.open(named("one")).await.unwrap();
    let two = harness.open(named("two")).await.unwrap();
    let mut events = two.subscribe(Query::all(), Position::START);
    one.append(&order(1), Expected::NoStream, [numbered(1).with_tag("x")]).await.unwrap();
    two.append(&order(1), Expected::NoStream, [numbered(2).with_tag("x")]).await.unwrap();
    for (log, number) in [(&one, 1), (&two, 2)] {
        assert_eq!(numbers(&log.read_stream(&order(1)).collect().await.unwrap()), [number]);
        assert_eq!(numbers(&log.read(Query::tags(["x"])).collect().await.unwrap()), [number]);
        assert_eq!(numbers(&log.read(Query::all()).collect().await.unwrap()), [number]);
    }
    assert_eq!(numbers(&[soon(events.next()).await.unwrap().unwrap()]), [2]);
}
