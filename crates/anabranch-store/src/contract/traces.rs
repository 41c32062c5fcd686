//! Where an append stands in a trace: kept beside the event, and never a reason to refuse it.

use super::{Harness, numbered, order};
use crate::database::{End, Statement};
use crate::trace::within;
use anabranch_core::{Append, Expected, Position, Query, TraceContext};
use uuid::Uuid;

/// A context of some trace.
fn context(number: u8) -> TraceContext {
    TraceContext::new([number; 16], [number; 8], 1).expect("not zero")
}

/// A repeated append in another span is the same append, and the first one's context stays.
pub async fn the_trace_of_the_first_append_stays(harness: &Harness) {
    let log = harness.log().await;
    let id = Uuid::now_v7();
    let (one, two) = (order(1), order(2));
    let append = || log.append(&one, Expected::Any, [numbered(7).with_id(id)]);
    let first = within(context(1), append()).await.expect("stored");
    let again = within(context(2), append()).await.expect("the same append");
    let without = append().await.expect("the same append");
    assert_eq!((&again, &without), (&first, &first));
    let other = harness.again(&log).await;
    let found = other.find(id).await.expect("read").expect("there");
    assert_eq!(found.trace(), Some(context(1)));

    // One without a trace does not get one later.
    let id = Uuid::now_v7();
    let append = || log.append(&two, Expected::NoStream, [numbered(8).with_id(id)]);
    let first = append().await.expect("stored");
    assert_eq!(within(context(3), append()).await.expect("the same append"), first);
    assert_eq!(log.find(id).await.expect("read").expect("there").trace(), None);

    // Another body is another event, in whatever trace.
    let other = log.append(&two, Expected::Any, [numbered(9).with_id(id)]);
    assert!(within(context(3), other).await.is_err());
}

/// Every way to append keeps it, and every way to read brings it back.
pub async fn a_trace_comes_back_with_every_event(harness: &Harness) {
    let log = harness.log().await;
    // One event in one statement; several, of which one says itself where it stands; with a condition; side by side.
    within(context(1), log.append(&order(1), Expected::NoStream, [numbered(1)]))
        .await
        .expect("stored");
    let own = numbered(2).with_trace(context(9));
    within(context(2), log.append(&order(1), Expected::Any, [own, numbered(3)]))
        .await
        .expect("stored");
    let append = Append::new()
        .to(&order(2), Expected::Any, [numbered(4).with_tag("t")])
        .unless(Query::types(["Other"]), Position::START);
    within(context(3), log.append_all(append)).await.expect("stored");
    let side_by_side = (5..25u8).map(|number| {
        let (log, stream) = (log.clone(), order(number));
        async move {
            let append = log.append(&stream, Expected::Any, [numbered(number.into())]);
            match number % 2 {
                0 => append.await,
                _ => within(context(number), append).await,
            }
        }
    });
    for answer in futures_util::future::join_all(side_by_side).await {
        answer.expect("stored");
    }
    // In a transaction.
    let append = Append::new().to(&order(3), Expected::Any, [numbered(25).with_trace(context(25))]);
    let mut session = log.database().begin();
    session.run(vec![Statement::appends(vec![append])], End::Commit).await.expect("stored");

    let expected = |number: u64| match number {
        1 => Some(context(1)),
        2 => Some(context(9)),
        3 => Some(context(2)),
        4 => Some(context(3)),
        number if number % 2 == 0 => None,
        number => Some(context(number as u8)),
    };
    let all = log.read(Query::all()).collect().await.expect("read");
    assert_eq!(all.len(), 25);
    let backwards = log.read(Query::types(["Numbered"])).backwards().collect().await.expect("read");
    let tagged = log.read(Query::tags(["t"])).collect().await.expect("read");
    let stream = log.read_stream(&order(1)).collect().await.expect("read");
    assert_eq!((backwards.len(), tagged.len(), stream.len()), (25, 1, 3));
    for event in all.iter().chain(&backwards).chain(&tagged).chain(&stream) {
        let number: u64 = event.data().expect("a number");
        assert_eq!(event.trace(), expected(number), "{number}");
    }
}
