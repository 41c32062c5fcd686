//! Logs that lost events: emptied by hand, put back to an older state, their beginning deleted. Nobody goes
//! on as if nothing had happened.

use crate::on_both;
use crate::said::Said;
use crate::support::*;
use anabranch::RunError;
use anabranch::StoreError;
use anabranch::backend::database::{End, Statement};
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, Offset, Reason, ReplayError, ReplayFrom};
use anabranch::prelude::*;
use std::time::Duration;

on_both! {
    after_all_events_were_deleted_the_next_ones_are_handled,
    a_consumer_beyond_the_log_is_refused_by_name,
    a_replay_leads_back_from_beyond_the_log,
    skip_to_head_leads_back_from_beyond_the_log,
    a_subscription_says_that_the_log_fell_back,
    a_running_worker_notices_that_the_log_fell_back,
    a_position_of_zero_is_never_given,
    a_replay_says_from_where_it_can_begin,
    a_replay_of_what_is_left_may_be_asked_for,
    a_replay_from_the_middle_minds_only_its_own_beginning,
    a_new_consumer_says_that_the_beginning_is_gone,
    an_event_that_failed_and_was_deleted_parks_its_key_by_name,
}

#[tokio::test]
async fn skip_to_head_waits_for_nobody_in_memory() {
    let log = anabranch::connect("sqlite::memory:").await.unwrap();
    fill(&log, 0..2, 1..=2).await;
    let db = Db::sqlite();
    set(&db).lanes(1).catch_up(&log).await.unwrap();
    fill(&log, 0..2, 3..=3).await;
    assert_eq!(Consumers::new(&log).skip_to_head("orders").await.unwrap().get(), 6);
}

async fn run(log: &Log, statements: &[String]) {
    let statements = statements.iter().map(|sql| Statement::new(sql.clone(), vec![])).collect();
    log.store().database().begin().run(statements, End::Commit).await.unwrap();
}

fn events(log: &Log) -> String {
    log.store().database().dialect().table("events")
}

/// Empties the log as if nothing had ever been in it: an older backup, a sequence that was reset.
async fn fall_back(log: &Log) {
    let database = log.store().database();
    let dialect = database.dialect();
    let (events, tags) = (dialect.table("events"), dialect.table("event_tags"));
    let settings = dialect.table("settings");
    let sql = match dialect.name() {
        "postgres" => vec![format!("TRUNCATE {events}, {tags} RESTART IDENTITY")],
        _ => vec![
            format!("DELETE FROM {events}"),
            format!("DELETE FROM {tags}"),
            format!("UPDATE {settings} SET value = '0' WHERE name = 'deleted_up_to'"),
        ],
    };
    run(log, &sql).await;
}

fn set(db: &Db) -> ReplicaSet {
    ReplicaSet::new("s").projection(db.recorder("orders")).lanes(2)
}

/// A consumer that has handled twenty events of a log which then fell back and has got four since.
async fn beyond(db: &Db) -> Log {
    let log = db.log().await;
    fill(&log, 0..4, 1..=5).await;
    set(db).catch_up(&log).await.unwrap();
    fall_back(&log).await;
    fill(&log, 0..4, 1..=1).await;
    log
}

async fn after_all_events_were_deleted_the_next_ones_are_handled(db: Db) {
    let log = db.log().await;
    fill(&log, 0..4, 1..=5).await;
    set(&db).catch_up(&log).await.unwrap();
    run(&log, &[format!("DELETE FROM {}", events(&log))]).await;
    let standing = status(&log, "orders").await;
    assert_eq!((standing.lag, standing.position.get()), (0, 20));
    assert!(standing.cursors.iter().all(|cursor| cursor.reasons == [Reason::Unassigned]));
    fill(&log, 0..4, 6..=7).await;
    set(&db).catch_up(&log).await.unwrap();
    let table = db.recorder("orders").table;
    let whole = Proof { handled: 28, doubled: 0, keys: 4, wrong: 0 };
    assert_eq!(proof(&log, &table).await, whole);
}

async fn a_consumer_beyond_the_log_is_refused_by_name(db: Db) {
    let log = beyond(&db).await;
    let error = set(&db).catch_up(&log).await.unwrap_err();
    let drawn = log.head().await.unwrap();
    let RunError::BeyondLog { consumer, position, drawn: said } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((consumer.as_str(), position.get(), *said), ("orders", 20, drawn));
    let error = error.to_string();
    for part in [
        "consumer `orders` stands at position 20",
        &format!("ever drawn is {drawn}"),
        "emptied, restored from an older backup, or its sequence was reset",
        &format!("ignore the next {} events", 20 - drawn.get()),
        "`anabranch replay orders --from-start`",
        "`anabranch skip-to-head orders`",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let standing = status(&log, "orders").await;
    assert_eq!(standing.lag, 20 - drawn.get(), "no plain 0");
    for cursor in &standing.cursors {
        assert!(cursor.reasons.contains(&Reason::BeyondLog { drawn }), "{:?}", cursor.reasons);
        assert!(cursor.reasons[0].to_string().contains("the last position that the log has ever"));
    }
    let error = Consumers::new(&log).offsets("orders", None).await.unwrap_err();
    assert_eq!((error.code(), error.kind().http_status()), (ErrorCode::BeyondLog, 409));
    let error = error.to_string();
    assert!(error.contains("stands at position 20"), "{error}");
    let whole = Proof { handled: 20, doubled: 0, keys: 4, wrong: 0 };
    assert_eq!(proof(&log, &db.recorder("orders").table).await, whole, "nothing was handled");
}

async fn a_replay_leads_back_from_beyond_the_log(db: Db) {
    let log = beyond(&db).await;
    let consumers = Consumers::new(&log);
    let drawn = log.store().drawn().await.unwrap();
    let far = consumers.replay("orders", ReplayFrom::After(Position::new(drawn.get() + 1))).await;
    let far = far.unwrap_err();
    assert_eq!((far.code(), far.kind().http_status()), (ErrorCode::ReplayBeyondLog, 409));
    let far = far.to_string();
    assert!(far.contains(&format!("choose a position up to {drawn}")), "{far}");
    // What it makes of the events does not matter here; where it begins does.
    let first = log.read(Query::all()).collect().await.unwrap()[0].position();
    let from = ReplayFrom::After(first);
    assert_eq!(consumers.replay("orders", from).await.unwrap(), first);
    let start = match consumers.replay("orders", ReplayFrom::Start).await {
        Err(ReplayError::Missing(_)) => {
            consumers.replay_what_is_left("orders", ReplayFrom::Start).await.unwrap()
        }
        asked => asked.unwrap(),
    };
    assert_eq!(start, Position::START);
    set(&db).catch_up(&log).await.unwrap();
    let standing = status(&log, "orders").await;
    assert_eq!((standing.lag, standing.position), (0, log.head().await.unwrap()));
    let table = db.recorder("orders").table;
    let whole = Proof { handled: 4, doubled: 0, keys: 4, wrong: 0 };
    assert_eq!(proof(&log, &table).await, whole);
    fill(&log, 0..4, 2..=3).await;
    set(&db).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await.handled, 12);
}

async fn skip_to_head_leads_back_from_beyond_the_log(db: Db) {
    let log = beyond(&db).await;
    let head = log.head().await.unwrap();
    assert!(head.get() < 20);
    assert_eq!(Consumers::new(&log).skip_to_head("orders").await.unwrap(), head);
    set(&db).catch_up(&log).await.unwrap();
    let table = db.recorder("orders").table;
    assert_eq!(proof(&log, &table).await.handled, 20, "those four are left out");
    fill(&log, 0..4, 6..=6).await;
    set(&db).catch_up(&log).await.unwrap();
    let proof = proof(&log, &table).await;
    assert_eq!((proof.handled, proof.wrong), (24, 0), "all since then, in order");
}

/// Whoever has seen what is gone would not see what takes its place.
async fn a_subscription_says_that_the_log_fell_back(db: Db) {
    let log = db.log().await;
    fill(&log, 0..4, 1..=5).await;
    let mut events = log.subscribe(Query::all(), Position::START);
    for _ in 0..20 {
        events.next().await.unwrap().unwrap();
    }
    fall_back(&log).await;
    fill(&log, 0..4, 1..=1).await;
    let error = tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap_err();
    let StoreError::FellBack { position, drawn, .. } = &error else { panic!("{error:?}") };
    assert_eq!((position.get(), drawn.get()), (20, 4));
    assert!(!error.is_worth_waiting() && !error.is_transient(), "{error}");
    let said = error.to_string();
    assert!(said.contains("would ignore the next 16 events"), "{said}");
}

async fn a_running_worker_notices_that_the_log_fell_back(db: Db) {
    let log = db.log().await;
    fill(&log, 0..4, 1..=5).await;
    let running = start(&log, set(&db));
    until("all of it", async || {
        let known = Consumers::new(&log).list().await.unwrap();
        (known.first()?.lag == 0).then_some(())
    })
    .await;
    fall_back(&log).await;
    fill(&log, 0..4, 1..=1).await;
    let ended = tokio::time::timeout(Duration::from_secs(60), running.ended()).await;
    let error = ended.expect("it notices").unwrap_err();
    assert!(matches!(error, RunError::BeyondLog { .. }), "{error}");
    // The same program, once it was put back: what it knew of the log that was is forgotten.
    Consumers::new(&log).replay_what_is_left("orders", ReplayFrom::Start).await.unwrap();
    set(&db).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &db.recorder("orders").table).await.handled, 4);
}

/// Nobody reads before position 1; a sequence that was reset begins with 0.
async fn a_position_of_zero_is_never_given(db: Db) {
    for several in [false, true] {
        let log = db.log().await;
        fall_back(&log).await;
        let stream = StreamId::new("Order", format!("{several}")).unwrap();
        let number = if several { 3 } else { 1 };
        let new = (1..=number).map(numbered);
        let appended = log.append(&stream, Expected::NoStream, new).await.unwrap();
        let read = log.read(Query::all()).collect().await.unwrap();
        assert_eq!(read.len() as u64, number, "{appended:?}");
        assert!(read[0].position() > Position::START);
    }
}

/// A log of twenty events, all handled, of which the first ten were deleted; and the eleventh.
async fn without_beginning(db: &Db) -> (Log, Event) {
    let log = db.log().await;
    fill(&log, 0..4, 1..=5).await;
    set(db).catch_up(&log).await.unwrap();
    run(&log, &[format!("DELETE FROM {} WHERE position <= 10", events(&log))]).await;
    let first = log.read(Query::all()).limit(1).collect().await.unwrap().remove(0);
    assert_eq!(first.position().get(), 11);
    (log, first)
}

async fn a_replay_says_from_where_it_can_begin(db: Db) {
    let (log, first) = without_beginning(&db).await;
    let consumers = Consumers::new(&log);
    let day_before = first.recorded_us() - 86_400_000_000;
    for from in [
        ReplayFrom::Start,
        ReplayFrom::After(Position::START),
        ReplayFrom::After(Position::new(4)),
        ReplayFrom::Time(day_before),
    ] {
        let error = consumers.replay("orders", from).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::EventsMissing);
        let ReplayError::Missing(missing) = &error else { panic!("{error:?}") };
        assert_eq!(missing.first_kept, Some((first.position(), first.recorded_us())));
        let after = missing.after.get();
        let error = error.to_string();
        for part in [
            format!("no events at the positions {} to 10 any more", after + 1),
            format!("can begin with position 11, recorded at {}", first.recorded_at()),
            "cannot be made again".to_owned(),
        ] {
            assert!(error.contains(&part), "{part}: {error}");
        }
        assert_eq!(status(&log, "orders").await.replay_from, None, "nothing was asked for");
    }
    run(&log, &[format!("DELETE FROM {}", events(&log))]).await;
    let error = consumers.replay("orders", ReplayFrom::Start).await.unwrap_err().to_string();
    assert!(error.contains("no events after position 0 any more"), "{error}");
}

async fn a_replay_of_what_is_left_may_be_asked_for(db: Db) {
    let (log, _) = without_beginning(&db).await;
    let consumers = Consumers::new(&log);
    let first = consumers.replay("orders", ReplayFrom::FirstKept).await.unwrap();
    assert_eq!(first, Position::new(10));
    assert_eq!(status(&log, "orders").await.replay_from, Some(first));
    let start = consumers.replay_what_is_left("orders", ReplayFrom::Start).await.unwrap();
    assert_eq!(start, Position::START);
    set(&db).catch_up(&log).await.unwrap();
    let table = db.recorder("orders").table;
    assert_eq!(proof(&log, &table).await.handled, 10, "its hook emptied the table");
    let offsets = consumers.offsets("orders", Some(1)).await.unwrap();
    let lags: Vec<u64> = offsets.parts.iter().map(|part: &Offset| part.lag).collect();
    assert_eq!(lags, [0]);
    // With nothing missing, both are the same.
    run(&log, &[format!("UPDATE {} SET position = position - 10", events(&log))]).await;
    assert_eq!(consumers.replay("orders", ReplayFrom::FirstKept).await.unwrap(), Position::START);
    assert_eq!(consumers.replay("orders", ReplayFrom::Start).await.unwrap(), Position::START);
}

async fn a_replay_from_the_middle_minds_only_its_own_beginning(db: Db) {
    let (log, _) = without_beginning(&db).await;
    let consumers = Consumers::new(&log);
    for after in [10, 15, 20] {
        let from = ReplayFrom::After(Position::new(after));
        assert_eq!(consumers.replay("orders", from).await.unwrap().get(), after);
    }
    let time = log.read(Query::all()).collect().await.unwrap()[5].recorded_us();
    assert!(consumers.replay("orders", ReplayFrom::Time(time)).await.is_ok());
    // A hole further on is none of its business.
    run(&log, &[format!("DELETE FROM {} WHERE position IN (15, 16)", events(&log))]).await;
    let from = ReplayFrom::After(Position::new(10));
    assert_eq!(consumers.replay("orders", from).await.unwrap().get(), 10);
    let from = ReplayFrom::After(Position::new(15));
    let error = consumers.replay("orders", from).await.unwrap_err().to_string();
    assert!(error.contains("no events at position 16 any more"), "{error}");
}

async fn a_new_consumer_says_that_the_beginning_is_gone(db: Db) {
    let (log, first) = without_beginning(&db).await;
    let (said, _guard) = Said::listen();
    let begins = "begins with the first event that the log has";
    for _ in 0..2 {
        let new = ReplicaSet::new("n").projection(db.recorder("late"));
        new.catch_up(&log).await.unwrap();
    }
    let text = said.text();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(begins)).collect();
    assert_eq!(lines.len(), 1, "once: {text}");
    assert!(lines[0].contains("late") && lines[0].contains("position=11"), "{text}");
    assert!(lines[0].contains(&first.recorded_at().to_string()), "{text}");
    assert_eq!(number(&log, &format!("SELECT count(*) FROM {}", db.table("late"))).await, 10);
}

/// It cannot be tried again. Its key says so, its neighbours go on, and skipping it leads out.
async fn an_event_that_failed_and_was_deleted_parks_its_key_by_name(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=2).await;
    let fails = |event: &Event| match event.stream_id() == "1" && event.version() == 1 {
        true => Err(anabranch::HandlerError::new("not yet")),
        false => Ok(()),
    };
    let retry = anabranch::Retry::never();
    let recorder = || db.recorder("orders").settings(Settings::default().retry(retry));
    let failing = ReplicaSet::new("s").projection(recorder().hook(fails));
    failing.catch_up(&log).await.unwrap_err();
    let consumers = Consumers::new(&log);
    let first = consumers.parked("orders").await.unwrap()[0].first.unwrap();
    run(&log, &[format!("DELETE FROM {} WHERE position = {first}", events(&log))]).await;
    assert_eq!(consumers.parked_events("orders", "Order:1", 10).await.unwrap().len(), 1);
    consumers.retry_parked("orders", "Order:1").await.unwrap();
    let set = || ReplicaSet::new("s").projection(recorder());
    let error = set().catch_up(&log).await.unwrap_err().to_string();
    assert!(error.contains(&format!("position {first} is not in the log any more")), "{error}");
    consumers.skip_parked("orders", "Order:1").await.unwrap();
    set().catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &db.recorder("orders").table).await.handled, 3);
}
