//! Positions: none is ever given twice, whatever becomes of its event.

use super::{Harness, numbered, numbers, order};
use crate::Log;
use crate::database::{End, Statement};
use anabranch_core::{Append, Expected, Position, Query};

/// The last position drawn is that of the last event; a refused append may draw some, never fewer.
pub async fn the_last_position_drawn_is_known(harness: &Harness) {
    let log = harness.log().await;
    assert_eq!(log.store().drawn().await.unwrap(), Position::START);
    for number in 1..=5 {
        let appended = log.append(&order(1), Expected::Any, [numbered(number)]).await.unwrap();
        for door in [&log, &harness.again(&log).await] {
            assert_eq!(door.store().drawn().await.unwrap(), appended.position());
        }
    }
    assert!(log.append(&order(1), Expected::NoStream, [numbered(6)]).await.is_err());
    assert!(log.store().drawn().await.unwrap() >= log.head().await.unwrap());
}

/// Somebody deletes events by hand: the last ones, then all of them. What is appended afterwards stands
/// behind all that ever was.
pub async fn the_positions_of_deleted_events_are_not_given_again(harness: &Harness) {
    let log = harness.log().await;
    let append = async |number| {
        let appended = log.append(&order(1), Expected::Any, [numbered(number)]).await.unwrap();
        appended.position()
    };
    for number in 1..=10 {
        append(number).await;
    }
    let last = log.head().await.unwrap();
    let middle = log.read(Query::all()).collect().await.unwrap()[5].position();
    for (after, left) in [(middle, 6), (Position::START, 0)] {
        delete_after(&log, after).await;
        assert_eq!(log.read(Query::all()).collect().await.unwrap().len(), left);
        assert_eq!(log.store().drawn().await.unwrap(), last, "{left} are left");
        let again = harness.again(&log).await;
        assert_eq!(again.store().drawn().await.unwrap(), last, "{left} are left");
    }
    let next = append(11).await;
    assert!(next > last, "{next} after {last}");
    let left = log.read(Query::all()).collect().await.unwrap();
    assert_eq!(numbers(&left), [11]);
    assert_eq!(log.store().drawn().await.unwrap(), next);
}

/// The tags of an event that somebody has deleted may stay behind: they hide no other event, and break no condition.
pub async fn deleted_events_hide_no_others(harness: &Harness) {
    let log = harness.log().await;
    let tagged = |number| numbered(number).with_tag("a");
    for first in [1, 101, 201] {
        let events = (first..first + 100).map(tagged);
        log.append(&order(1), Expected::Any, events).await.unwrap();
    }
    let all = log.read(Query::all()).collect().await.unwrap();
    let database = log.store().database();
    let events = database.dialect().table("events");
    let delete = format!("DELETE FROM {events} WHERE position < $1");
    let delete = Statement::new(delete, vec![all[260].position().into()]);
    database.begin().run(vec![delete], End::Commit).await.unwrap();
    let left: Vec<u64> = (261..=300).collect();
    assert_eq!(numbers(&log.read(Query::tags(["a"])).collect().await.unwrap()), left);
    let few = log.read(Query::tags(["a"])).limit(7).collect().await.unwrap();
    assert_eq!(numbers(&few), left[..7]);

    delete_after(&log, Position::START).await;
    for query in [Query::tags(["a"]), Query::tags(["a"]).or(Query::tags(["a", "b"]))] {
        let append = Append::new().to(&order(2), Expected::Any, [numbered(1)]);
        log.append_all(append.unless(query, Position::START)).await.unwrap();
    }
}

async fn delete_after(log: &Log, position: Position) {
    let database = log.store().database();
    let events = database.dialect().table("events");
    let delete = match position {
        Position::START => Statement::new(format!("DELETE FROM {events}"), vec![]),
        after => {
            let delete = format!("DELETE FROM {events} WHERE position > $1");
            Statement::new(delete, vec![after.into()])
        }
    };
    database.begin().run(vec![delete], End::Commit).await.unwrap();
}
