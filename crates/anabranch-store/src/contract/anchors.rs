//! What is where in the log, and which log it is.

use super::{Harness, numbered, order};
use crate::database::{End, Statement};
use crate::{Log, Look, Options, WoundBack};
use anabranch_core::cursor::Anchor;
use anabranch_core::{Expected, Position, Query};
use uuid::Uuid;

async fn look(log: &Log, anchors: &[Anchor], up_to: u64) -> crate::Seen {
    let (anchors, up_to) = (anchors.to_vec(), Position::new(up_to));
    log.store().look(Look { anchors, up_to }).await.unwrap()
}

/// A log has an identity from its beginning, the same through every door, and another than other logs.
pub async fn a_log_has_an_identity_of_its_own(harness: &Harness) {
    let log = harness.log().await;
    let identity = log.identity().await.unwrap();
    assert!(!identity.is_nil());
    let again = harness.again(&log).await;
    assert_eq!(again.identity().await.unwrap(), identity);
    log.append(&order(1), Expected::Any, [numbered(1)]).await.unwrap();
    assert_eq!(log.identity().await.unwrap(), identity);
    let namespace = crate::Namespace::new("another").unwrap();
    let other = harness.open(Options { namespace, ..Options::default() }).await.unwrap();
    assert_ne!(other.identity().await.unwrap(), identity);
}

/// A look finds the last event up to a position, the last of all, and what stands where anchors are.
pub async fn a_look_finds_what_stands_where(harness: &Harness) {
    let log = harness.log().await;
    let empty = look(&log, &[], 10).await;
    assert_eq!((empty.first, empty.last, empty.head), (None, None, None));
    for number in 1..=10 {
        log.append(&order(1), Expected::Any, [numbered(number)]).await.unwrap();
    }
    let events = log.read(Query::all()).collect().await.unwrap();
    let anchors: Vec<Anchor> = events.iter().map(Anchor::of).collect();
    let middle = anchors[4];
    let seen = look(&log, &anchors, middle.position.get()).await;
    assert_eq!(seen.first, Some(anchors[0].position));
    assert_eq!((seen.last, seen.head), (Some(middle), anchors.last().copied()));
    assert_eq!(seen.found, anchors.iter().copied().map(Some).collect::<Vec<_>>());
    assert_eq!(seen.compare(&anchors), Ok(()));
    // An append that was rolled back leaves a hole, and a position may lie beyond all.
    let beyond = look(&log, &[], u64::MAX >> 1).await;
    assert_eq!(beyond.last, anchors.last().copied());
    let another = Anchor { id: Uuid::from_u128(1), ..middle };
    let earlier = Anchor { recorded_us: middle.recorded_us - 1, ..middle };
    for anchor in [another, earlier] {
        let seen = look(&log, &[anchor], 0).await;
        assert_eq!(seen.compare(&[anchor]), Err(WoundBack::Replaced { anchor, by: middle }));
        assert_eq!(seen.last, None);
    }
}

/// What was deleted from the beginning is not missed; what is missing behind older events is.
pub async fn what_was_deleted_is_told_from_what_was_wound_back(harness: &Harness) {
    let log = harness.log().await;
    for number in 1..=10 {
        log.append(&order(1), Expected::Any, [numbered(number)]).await.unwrap();
    }
    let events = log.read(Query::all()).collect().await.unwrap();
    let anchor = Anchor::of(&events[4]);
    let database = log.store().database();
    let table = database.dialect().table("events");
    let delete = async |condition: &str| {
        let delete = format!("DELETE FROM {table} WHERE position {condition} {}", anchor.position);
        let delete = Statement::new(delete, vec![]);
        database.begin().run(vec![delete], End::Commit).await.unwrap();
    };
    delete("<").await;
    assert_eq!(look(&log, &[anchor], 0).await.compare(&[anchor]), Ok(()));
    delete("=").await;
    assert_eq!(look(&log, &[anchor], 0).await.compare(&[anchor]), Ok(()), "all up to it is gone");
    let (older, anchor) = (Anchor::of(&events[5]), Anchor::of(&events[6]));
    let delete = format!("DELETE FROM {table} WHERE position = {}", anchor.position);
    let delete = Statement::new(delete, vec![]);
    database.begin().run(vec![delete], End::Commit).await.unwrap();
    let seen = look(&log, &[older, anchor], 0).await;
    assert_eq!(seen.compare(&[older, anchor]), Err(WoundBack::Missing { anchor }));
}
