//! Appending: expectations, atomicity, idempotence, coalescing.

use super::{Harness, numbered, numbers, order, soon};
use anabranch_core::{Append, AppendError, Expected, NewEvent, Position, Query};
use futures_util::future::join_all;
use std::collections::HashSet;
use std::time::Duration;

/// The first event of a log and of a stream is 1, and both grow.
pub async fn versions_and_positions_grow(harness: &Harness) {
    let log = harness.log().await;
    let first = log.append(&order(1), Expected::NoStream, [numbered(1)]).await.unwrap();
    assert_eq!((first.version(), first.position()), (1, Position::new(1)));
    let second = log.append(&order(2), Expected::NoStream, [numbered(2)]).await.unwrap();
    assert_eq!(second.version(), 1);
    assert!(second.position() > first.position());
    let more = log.append(&order(1), Expected::Exact(1), [numbered(3), numbered(4)]).await.unwrap();
    let versions: Vec<u64> = more.events().iter().map(|recorded| recorded.version).collect();
    assert_eq!(versions, [2, 3]);
    assert_eq!(log.head().await.unwrap(), more.position());
}

/// Any, none yet, exactly v; a conflict names the stream, the expected and the actual version.
pub async fn an_expectation_is_kept_or_the_conflict_says_why(harness: &Harness) {
    let log = harness.log().await;
    let stream = order("ord-1");
    let append = |expected| log.append(&stream, expected, [numbered(0)]);
    append(Expected::Any).await.unwrap();
    append(Expected::Exact(1)).await.unwrap();
    for (wrong, message) in [
        (Expected::NoStream, "expected no events, but it stands at version 2"),
        (Expected::Exact(0), "expected no events, but it stands at version 2"),
        (Expected::Exact(1), "expected version 1, but it stands at version 2"),
        (Expected::Exact(3), "expected version 3, but it stands at version 2"),
        (Expected::Exact(u64::MAX), "expected version 18446744073709551615, but it stands"),
    ] {
        let error = append(wrong).await.unwrap_err();
        assert!(error.is_conflict());
        let AppendError::Conflict { stream: of, expected, actual } = &error else {
            panic!("{error:?}")
        };
        assert_eq!((of, *expected, *actual), (&stream, wrong, 2));
        assert!(error.to_string().contains("conflict on stream Order:ord-1"), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let error = log.append(&order("new"), Expected::Exact(7), [numbered(0)]).await.unwrap_err();
    assert!(error.to_string().contains("expected version 7, but it has no events"), "{error}");
    append(Expected::Exact(2)).await.unwrap();
    assert_eq!(log.read_stream(&stream).collect().await.unwrap().len(), 3);
}

/// A conflict on one stream keeps the other's events out too.
pub async fn several_streams_are_stored_all_or_not_at_all(harness: &Harness) {
    let log = harness.log().await;
    let transfer = |expected| {
        Append::new()
            .to(&order("from"), Expected::Any, [numbered(1)])
            .to(&order("to"), expected, [numbered(2)])
            .to(&order("from"), Expected::Any, [numbered(3)])
    };
    let error = log.append_all(transfer(Expected::Exact(9))).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(log.head().await.unwrap(), Position::START);
    let appended = log.append_all(transfer(Expected::NoStream)).await.unwrap();
    let versions: Vec<u64> = appended.events().iter().map(|recorded| recorded.version).collect();
    assert_eq!(versions, [1, 1, 2]);
    let all = log.read(Query::all()).collect().await.unwrap();
    assert_eq!(numbers(&all), [1, 2, 3], "positions follow the order of the append");
}

/// Positions follow the order in which the events were given, across streams and with tags.
pub async fn the_order_of_a_large_append_is_kept(harness: &Harness) {
    let log = harness.log().await;
    let mut append = Append::new();
    for number in 0..3000 {
        let event = numbered(number).with_tag(format!("n:{}", number % 7)).with_tag("all");
        append = append.to(&order(number % 11), Expected::Any, [event]);
    }
    let appended = log.append_all(append).await.unwrap();
    assert!(appended.events().is_sorted_by_key(|recorded| recorded.position));
    let all = log.read(Query::all()).collect().await.unwrap();
    assert_eq!(numbers(&all), (0..3000).collect::<Vec<_>>());
    let tagged = log.read(Query::tags(["all", "n:3"])).collect().await.unwrap();
    assert_eq!(numbers(&tagged), (0..3000).filter(|n| n % 7 == 3).collect::<Vec<_>>());
}

/// Many tasks, two doors, one stream: every event once, versions without a hole.
pub async fn concurrent_appends_to_one_stream_lose_and_double_nothing(harness: &Harness) {
    let log = harness.log().await;
    let doors = [log.clone(), harness.again(&log).await];
    let appends = (0..400).map(|number| {
        let log = doors[number as usize % 2].clone();
        tokio::spawn(
            async move { log.append(&order("hot"), Expected::Any, [numbered(number)]).await },
        )
    });
    let mut positions = HashSet::new();
    for appended in soon(join_all(appends)).await {
        assert!(positions.insert(appended.unwrap().unwrap().position()));
    }
    let events = log.read_stream(&order("hot")).collect().await.unwrap();
    let versions: Vec<u64> = events.iter().map(|event| event.version()).collect();
    assert_eq!(versions, (1..=400).collect::<Vec<_>>());
    let seen: HashSet<u64> = numbers(&events).into_iter().collect();
    assert_eq!(seen.len(), 400);
    assert!(events.is_sorted_by_key(|event| event.position()));
}

/// Appends that share a commit are independent: of those with the same expectation one wins, and
/// those on other streams all do.
pub async fn a_conflict_never_fails_its_neighbours(harness: &Harness) {
    let log = harness.log().await;
    for round in 0..20u64 {
        let appends = (0..64u64).map(|task| {
            let log = log.clone();
            tokio::spawn(async move {
                if task % 2 == 0 {
                    let own = order(format!("own-{task}"));
                    log.append(&own, Expected::Exact(round), [numbered(task)]).await
                } else {
                    log.append(&order("hot"), Expected::Exact(round), [numbered(task)]).await
                }
            })
        });
        let answers = soon(join_all(appends)).await;
        let (mut own, mut hot) = (0, 0);
        for (task, answer) in answers.into_iter().enumerate() {
            match answer.unwrap() {
                Ok(_) if task % 2 == 0 => own += 1,
                Ok(_) => hot += 1,
                Err(error) => assert!(error.is_conflict() && task % 2 == 1, "{task}: {error}"),
            }
        }
        assert_eq!((own, hot), (32, 1), "round {round}");
    }
}

/// A repeated append answers as the first did, alone, together and through another door.
pub async fn the_same_id_is_one_event(harness: &Harness) {
    let log = harness.log().await;
    let other = harness.again(&log).await;
    let append = || {
        let id = uuid::Uuid::from_u128(7);
        let first = NewEvent::new("E", serde_json::json!({ "a": 1, "b": [2] }))
            .with_id(id)
            .with_metadata(serde_json::json!({ "by": "test" }))
            .with_tag("x")
            .with_customer("c");
        let second = numbered(2).with_id(uuid::Uuid::from_u128(8));
        Append::new().to(&order(1), Expected::NoStream, [first, second])
    };
    let answers = soon(join_all((0..16).map(|n| {
        let log = if n % 2 == 0 { log.clone() } else { other.clone() };
        let append = append();
        tokio::spawn(async move { log.append_all(append).await })
    })))
    .await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");

    // The stream has moved on; the answer has not. The same body may be spelled differently.
    log.append(&order(1), Expected::Exact(2), [numbered(3)]).await.unwrap();
    let spelled = NewEvent::from_json("E", r#"{ "b": [ 2 ], "a": 1 }"#)
        .with_id(uuid::Uuid::from_u128(7))
        .with_metadata(serde_json::json!({ "by": "test" }))
        .with_tag("x")
        .with_customer("c");
    let again = log.append(&order(1), Expected::NoStream, [spelled]).await.unwrap();
    assert_eq!(again.events()[0], answers[0].events()[0]);

    // An event whose id was made for it is one event too, however often it is appended.
    let fresh = numbered(4);
    let first = log.append(&order(2), Expected::Any, [fresh.clone()]).await.unwrap();
    assert_eq!(log.append(&order(2), Expected::Any, [fresh]).await.unwrap(), first);

    // So it is under an expectation or a condition that by now fails through that very event.
    let fresh = numbered(6).with_tag("once");
    let expecting = Append::new().to(&order(3), Expected::NoStream, [fresh]);
    let first = log.append_all(expecting.clone()).await.unwrap();
    assert_eq!(other.append_all(expecting.clone()).await.unwrap(), first);
    let conditional = Append::new().to(&order(4), Expected::Any, [numbered(7).with_tag("twice")]);
    let conditional = conditional.unless(Query::tags(["twice"]), Position::START);
    let first = log.append_all(conditional.clone()).await.unwrap();
    assert_eq!(other.append_all(conditional.clone()).await.unwrap(), first);

    // Of a known and a new event, only the new one is added.
    let known = append().parts()[0].events[1].clone();
    let both = log.append(&order(1), Expected::Any, [known, numbered(5)]).await.unwrap();
    let versions: Vec<u64> = both.events().iter().map(|recorded| recorded.version).collect();
    assert_eq!(versions, [2, 4]);
    assert_eq!(log.read(Query::all()).collect().await.unwrap().len(), 7);
}

/// Of requests under one key one is stored, as a whole, and the others are refused: longer, shorter, or with something
/// else in them, also if all come at the same moment.
pub async fn a_request_is_stored_once(harness: &Harness) {
    let log = harness.log().await;
    let other = harness.again(&log).await;
    for key in 1..=6_u128 {
        let request = |count: u64| {
            let events = (0..count).map(numbered);
            let append = Append::new().to(&order(format!("once-{key}")), Expected::Any, events);
            append.once(|number| uuid::Uuid::from_u128(key << 64 | u128::from(number)))
        };
        let sent = (0..24_u64).map(|n| {
            let log = if n % 2 == 0 { log.clone() } else { other.clone() };
            // Not always the same one first.
            let count = 1 + (n + key as u64) % 3;
            let append = request(count);
            tokio::spawn(async move { (count, log.append_all(append).await) })
        });
        let answers = soon(join_all(sent)).await;
        let mut stored = HashSet::new();
        for answer in answers {
            match answer.unwrap() {
                (count, Ok(appended)) => {
                    assert_eq!(appended.events().len() as u64, count);
                    stored.insert(count);
                }
                (_, Err(AppendError::IdReused { .. })) => {}
                (_, Err(error)) => panic!("{error}"),
            }
        }
        let there = log.read_stream(&order(format!("once-{key}"))).collect().await.unwrap();
        assert_eq!(stored, HashSet::from([there.len() as u64]));
        // The same again, when the stream has moved on.
        log.append(&order(format!("once-{key}")), Expected::Any, [numbered(9)]).await.unwrap();
        for count in 1..=3 {
            let again = other.append_all(request(count)).await;
            assert_eq!(again.is_ok(), stored.contains(&count), "{count}: {again:?}");
        }
    }
}

/// The error names the id, where it is, and what differs; the log is as it was.
pub async fn an_id_with_another_body_is_refused(harness: &Harness) {
    let log = harness.log().await;
    let id = uuid::Uuid::from_u128(9);
    let event = || numbered(1).with_id(id);
    log.append(&order(1), Expected::Any, [event()]).await.unwrap();
    for (stream, event, differs) in [
        (order(2), event(), "stream"),
        (order(1), NewEvent::new("Other", 1).with_id(id), "type"),
        (order(1), numbered(2).with_id(id), "data"),
        (order(1), event().with_schema_version(2), "schema version"),
        (order(1), event().with_metadata(serde_json::json!({})), "metadata"),
        (order(1), event().with_correlation("x"), "correlation"),
        (order(1), event().with_causation("x"), "causation"),
        (order(1), event().with_tenant("x"), "tenant"),
        (order(1), event().with_customer("x"), "customer"),
        (order(1), event().with_tag("x"), "set of tags"),
    ] {
        let error = log.append(&stream, Expected::Any, [numbered(0), event]).await.unwrap_err();
        let expected = format!(
            "event id {id} is in the log already, as version 1 of stream Order:1, with a different \
             {differs}, which was "
        );
        assert!(error.to_string().contains(&expected), "{error}");
    }
    assert_eq!(log.read(Query::all()).collect().await.unwrap().len(), 1);
}

/// Dropping the future of an append does not tear anything: it happens, whole.
pub async fn an_append_goes_on_when_its_caller_gives_up(harness: &Harness) {
    let log = harness.log().await;
    for number in 0..50 {
        let stream = order(number);
        let mut append = Box::pin(log.append(&stream, Expected::Any, [numbered(1), numbered(2)]));
        // Polled once, so it is on its way; then given up.
        let _ = futures_util::poll!(append.as_mut());
        drop(append);
    }
    log.append(&order("last"), Expected::Any, [numbered(0)]).await.unwrap();
    // Nobody waits for those that were given up, and of two batches under way either may be the first.
    let all = soon(async {
        loop {
            let events = log.read(Query::all()).collect().await.unwrap();
            if events.len() >= 101 {
                break events;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert_eq!(all.await.len(), 101, "none is lost, and none is stored twice");
}
