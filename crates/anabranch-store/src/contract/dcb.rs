//! Dynamic consistency boundaries: queries, and conditions without races.

use super::{Harness, numbered, numbers, order, soon};
use crate::Log;
use anabranch_core::{Append, AppendError, Expected, NewEvent, Position, Query};
use futures_util::future::join_all;

/// Types OR, tags AND, items OR; forwards, backwards, with a cursor and a limit.
pub async fn queries_select_by_type_and_tag(harness: &Harness) {
    let log = harness.log().await;
    for number in 0..120u64 {
        let event = NewEvent::new(["A", "B", "C"][number as usize % 3], number)
            .with_tag(format!("two:{}", number % 2))
            .with_tag(format!("five:{}", number % 5));
        log.append(&order(number % 7), Expected::Any, [event]).await.unwrap();
    }
    type Wanted = fn(u64) -> bool;
    let cases: [(Query, Wanted); 7] = [
        (Query::all(), |_| true),
        (Query::types(["A"]), |n| n % 3 == 0),
        (Query::types(["A", "C"]), |n| n % 3 != 1),
        (Query::tags(["two:1", "five:3"]), |n| n % 2 == 1 && n % 5 == 3),
        (Query::types(["B", "A"]).tagged(["five:0"]), |n| n % 5 == 0 && n % 3 != 2),
        (Query::types(["C"]).tagged(["two:0"]).or(Query::tags(["five:4"])), |n| {
            (n % 3 == 2 && n % 2 == 0) || n % 5 == 4
        }),
        (Query::types(["D"]).or(Query::tags(["five:9"])), |_| false),
    ];
    for (query, wanted) in cases {
        let all: Vec<u64> = (0..120).filter(|&n| wanted(n)).collect();
        let read = |query: &Query| log.read(query.clone());
        assert_eq!(numbers(&read(&query).collect().await.unwrap()), all, "{query}");
        let mut reversed = numbers(&read(&query).backwards().collect().await.unwrap());
        reversed.reverse();
        assert_eq!(reversed, all, "{query}, backwards");
        let some =
            numbers(&read(&query).after(Position::new(40)).limit(5).collect().await.unwrap());
        let expected: Vec<u64> = all.iter().copied().filter(|n| *n >= 40).take(5).collect();
        assert_eq!(some, expected, "{query}, after and limit");
        let some =
            numbers(&read(&query).before(Position::new(41)).limit(5).collect().await.unwrap());
        let expected: Vec<u64> = all.iter().rev().copied().filter(|n| *n < 40).take(5).collect();
        assert_eq!(some, expected, "{query}, before and limit");
    }
}

/// Matches up to the position were seen by the caller; only later ones fail the append.
pub async fn a_condition_fails_for_newer_matches_only(harness: &Harness) {
    let log = harness.log().await;
    let tagged = |tag: &str| numbered(1).with_tag(tag);
    let seen = log.append(&order(1), Expected::Any, [tagged("seat:1")]).await.unwrap().position();
    let unless = |after| {
        let append = Append::new().to(&order(2), Expected::Any, [tagged("other")]);
        log.append_all(append.unless(Query::tags(["seat:1"]), after))
    };
    unless(seen).await.unwrap();
    let error = unless(Position::START).await.unwrap_err();
    let AppendError::ConditionFailed { position, after, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*position, *after), (seen, Position::START));
    assert!(error.is_conflict());
    let message = error.to_string();
    assert!(message.contains("the event at position 1 matches tag seat:1"), "{message}");

    let newer = log.append(&order(1), Expected::Any, [tagged("seat:1")]).await.unwrap().position();
    assert!(unless(seen).await.unwrap_err().is_conflict());
    unless(newer).await.unwrap();

    // A condition and an expectation both have to hold.
    let append = Append::new().to(&order(2), Expected::NoStream, [numbered(0)]);
    let error = log.append_all(append.unless(Query::tags(["none"]), newer)).await.unwrap_err();
    assert!(matches!(error, AppendError::Conflict { .. }), "{error}");

    // A repeated append succeeds although its own event now matches its condition.
    let reserve = Append::new()
        .to(&order(3), Expected::Any, [tagged("seat:9").with_id(uuid::Uuid::from_u128(1))])
        .unless(Query::tags(["seat:9"]), newer);
    let first = log.append_all(reserve.clone()).await.unwrap();
    assert_eq!(log.append_all(reserve).await.unwrap(), first);
}

/// 32 tasks reserve the last of something: exactly one wins, 200 times over.
pub async fn the_last_seat_is_sold_once(harness: &Harness) {
    let log = harness.log().await;
    let doors = [log.clone(), harness.again(&log).await];
    for round in 0..200 {
        let seat = format!("seat:{round}");
        let won = race(&doors, 32, |task| {
            let event =
                NewEvent::new("SeatReserved", task).with_tag(seat.clone()).with_tag("show:1");
            Append::new()
                .to(&order(format!("{round}-{task}")), Expected::Any, [event])
                .unless(Query::types(["SeatReserved"]).tagged([seat.clone()]), Position::START)
        })
        .await;
        assert_eq!(won, 1, "round {round}");
    }
    let sold = log.read(Query::tags(["show:1"])).collect().await.unwrap();
    assert_eq!(sold.len(), 200);
}

/// Conditions without a tag to hold on to: by type, and on the whole log.
pub async fn a_condition_on_types_or_everything_is_race_free(harness: &Harness) {
    let log = harness.log().await;
    let doors = [log.clone(), harness.again(&log).await];
    for round in 0..30 {
        let name = format!("Unique{round}");
        let won = race(&doors, 16, |task| {
            let event = NewEvent::new(name.clone(), task);
            Append::new()
                .to(&order(format!("t{round}-{task}")), Expected::Any, [event])
                .unless(Query::types([name.clone(), "Never".to_owned()]), Position::START)
        })
        .await;
        assert_eq!(won, 1, "by type, round {round}");
        let head = log.head().await.unwrap();
        let won = race(&doors, 16, |task| {
            let event = NewEvent::new(format!("Any{task}"), task).with_tag(format!("any:{task}"));
            Append::new()
                .to(&order(format!("a{round}-{task}")), Expected::Any, [event])
                .unless(Query::all(), head)
        })
        .await;
        assert_eq!(won, 1, "on everything, round {round}");
    }
}

/// Read, decide, append, beside appends that share the scope without a condition: whatever a reader
/// did not see fails its append, so a budget is never overdrawn.
pub async fn decisions_from_reads_never_overdraw(harness: &Harness) {
    const BUDGET: usize = 40;
    let log = harness.log().await;
    let doors = [log.clone(), harness.again(&log).await];
    let scope = || Query::types(["Spent"]).tagged(["budget:1"]).or(Query::tags(["account:1"]));
    let spend = |log: Log, task: usize| async move {
        for step in 0..40 {
            let seen = log.read(scope()).collect().await.unwrap();
            if seen.len() >= BUDGET {
                return;
            }
            let after = seen.last().map_or(Position::START, |event| event.position());
            let tag = if step % 2 == 0 { "budget:1" } else { "account:1" };
            let event = NewEvent::new("Spent", task).with_tag(tag);
            let append = Append::new()
                .to(&order(format!("{task}-{step}")), Expected::Any, [event])
                .unless(scope(), after);
            match log.append_all(append).await {
                Ok(_) => {}
                Err(error) => assert!(error.is_conflict(), "{error}"),
            }
        }
    };
    let noise = |log: Log, task: usize| async move {
        for step in 0..40 {
            let stream = order(format!("noise-{task}-{step}"));
            log.append(&stream, Expected::Any, [numbered(step).with_tag("noise")]).await.unwrap();
        }
    };
    let tasks = (0..16).map(|task| {
        let log = doors[task % 2].clone();
        if task % 4 == 3 { tokio::spawn(noise(log, task)) } else { tokio::spawn(spend(log, task)) }
    });
    for task in soon(join_all(tasks)).await {
        task.unwrap();
    }
    let spent = log.read(scope()).collect().await.unwrap();
    assert_eq!(spent.len(), BUDGET);
}

/// How many of `tasks` appends at the same time are stored; the others fail by their condition.
async fn race(doors: &[Log; 2], tasks: usize, append: impl Fn(usize) -> Append) -> usize {
    let appends = (0..tasks).map(|task| {
        let (log, append) = (doors[task % 2].clone(), append(task));
        tokio::spawn(async move { log.append_all(append).await })
    });
    let mut won = 0;
    for answer in soon(join_all(appends)).await {
        match answer.unwrap() {
            Ok(_) => won += 1,
            Err(AppendError::ConditionFailed { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    won
}
