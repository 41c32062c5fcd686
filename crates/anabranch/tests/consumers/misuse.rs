//! Uses that would be silently wrong, and are not: names that collide, two functions under one name,
//! retention that overtakes a consumer, rebuilds that write the old tables.

use crate::gates::never;
use crate::identity::Folded as Counts;
use crate::on_both;
use crate::support::*;
use anabranch::backend::RawTx;
use anabranch::backend::database::{End, Statement};
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use anabranch::{HandlerError, RunError};

on_both! {
    names_that_a_rebuild_makes_are_refused,
    two_functions_under_one_name_at_the_same_time_are_noticed,
    samples_of_events_that_others_took_the_place_of_are_not_compared,
    events_deleted_before_they_were_handled_are_reported,
    beyond_the_log_it_stays_refused_though_the_log_grows_past_it,
    a_rebuild_that_names_no_tables_writes_none,
    a_view_is_replayed_from_the_start_or_not_at_all,
    a_replay_that_its_hook_refuses_fails_a_catch_up,
    cursors_that_are_gone_are_no_lag_of_zero,
    a_handler_that_reads_and_fails_holds_up_nobody,
    settings_of_the_session_are_refused,
    appends_that_nobody_has_checked_are_refused,
}

fn set() -> ReplicaSet {
    ReplicaSet::new("s").lanes(2)
}

async fn run(log: &Log, sql: String) {
    let statement = Statement::new(sql, vec![]);
    log.store().database().begin().run(vec![statement], End::Commit).await.unwrap();
}

fn own(log: &Log, table: &str) -> String {
    log.store().database().dialect().table(table)
}

async fn names_that_a_rebuild_makes_are_refused(db: Db) {
    let log = db.log().await;
    for name in ["a_next".to_owned(), "a_old".to_owned(), "a.next".to_owned(), "x".repeat(54)] {
        let error = set().view(Counts(name.clone())).catch_up(&log).await.unwrap_err();
        assert!(error.to_string().contains("rename it"), "{name}: {error}");
    }
    let error = set().projection(db.recorder("a.next")).catch_up(&log).await.unwrap_err();
    assert!(error.to_string().contains("for rebuilds of others"), "{error}");
    set().projection(db.recorder("a_next")).catch_up(&log).await.unwrap();
    set().view(Counts("y".repeat(53))).catch_up(&log).await.unwrap();
}

/// Both begin on an empty log, so neither finds the other's keys at its start.
async fn two_functions_under_one_name_at_the_same_time_are_noticed(db: Db) {
    let log = db.log().await;
    let by = |sign: &'static str| {
        let key = move |event: &Event| Some(format!("{sign}{}", event.stream_id()));
        db.recorder("orders").partition(Partition::custom("k", key))
    };
    set().projection(by("a")).catch_up(&log).await.unwrap();
    let (one, other) = (db.log().await, db.log().await);
    let first = start(&one, ReplicaSet::new("s").projection(by("a")));
    let second = start(&other, ReplicaSet::new("s").projection(by("b")));
    fill(&log, 0..40, 1..=3).await;
    let ended = until("one of them to notice", async || {
        (first.has_ended() || second.has_ended()).then_some(first.has_ended())
    })
    .await;
    let error = if ended { first.ended().await } else { second.ended().await };
    let error = error.unwrap_err().to_string();
    assert!(error.contains("or than that of another program which runs it"), "{error}");
}

async fn samples_of_events_that_others_took_the_place_of_are_not_compared(db: Db) {
    let log = db.log().await;
    let by_stream = Partition::custom("k", |event| Some(event.stream_id().to_owned()));
    let one = || set().projection(db.recorder("orders").partition(by_stream.clone()));
    fill(&log, 0..3, 1..=2).await;
    one().catch_up(&log).await.unwrap();
    // Other events at the same places, as after a log was emptied and its sequence reset.
    let samples = own(&log, "key_samples");
    let id = uuid::Uuid::now_v7();
    run(&log, format!("UPDATE {samples} SET event_id = '{id}', key = 'other'")).await;
    one().catch_up(&log).await.unwrap();
}

async fn events_deleted_before_they_were_handled_are_reported(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=5).await;
    set().projection(db.recorder("orders")).catch_up(&log).await.unwrap();
    fill(&log, 0..2, 6..=10).await;
    run(&log, format!("DELETE FROM {} WHERE position <= 15", own(&log, "events"))).await;
    let _ = set().projection(db.recorder("orders")).catch_up(&log).await;
    let problem = status(&log, "orders").await.problem.unwrap();
    assert!(
        problem.contains("it stands at position 10, and the log begins with position 16"),
        "{problem}"
    );
}

async fn beyond_the_log_it_stays_refused_though_the_log_grows_past_it(db: Db) {
    let log = db.log().await;
    fill(&log, 0..4, 1..=5).await;
    let one = || set().projection(db.recorder("orders"));
    one().catch_up(&log).await.unwrap();
    let (cursors, consumers) = (own(&log, "cursors"), Consumers::new(&log));
    run(&log, format!("UPDATE {cursors} SET position = 30")).await;
    let beyond = |result| matches!(result, Err(RunError::BeyondLog { .. }));
    assert!(beyond(one().catch_up(&log).await));
    fill(&log, 0..4, 6..=10).await;
    assert!(beyond(one().catch_up(&log).await), "what is there now would look handled");
    consumers.replay("orders", ReplayFrom::Start).await.unwrap();
    one().catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &db.recorder("orders").table).await.handled, 40);
    one().catch_up(&log).await.unwrap();
}

/// Writes its table by a name of its own making.
struct Literal {
    table: String,
    version: u32,
}

impl Projection for Literal {
    fn name(&self) -> &str {
        "literal"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never().version(self.version)
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let insert = format!("INSERT INTO {} (position) VALUES ($1)", self.table);
        tx.execute(insert, params![event.position()]).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let create = format!("CREATE TABLE IF NOT EXISTS {} (position BIGINT)", self.table);
        tx.execute(create, vec![]).await
    }
}

async fn a_rebuild_that_names_no_tables_writes_none(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=2).await;
    let literal = |version| Literal { table: db.table("literal"), version };
    set().projection(literal(1)).catch_up(&log).await.unwrap();
    let error = set().rebuild(literal(2)).catch_up(&log).await.unwrap_err().to_string();
    assert!(error.contains("it would write those of the old version"), "{error}");
    let rows = format!("SELECT count(*) FROM {}", db.table("literal"));
    assert_eq!(number(&log, &rows).await, 6, "the old version is as it was");
}

async fn a_view_is_replayed_from_the_start_or_not_at_all(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=2).await;
    set().view(Counts("counts".to_owned())).catch_up(&log).await.unwrap();
    let consumers = Consumers::new(&log);
    let after = ReplayFrom::After(Position::new(2));
    let error = consumers.replay("counts", after).await.unwrap_err().to_string();
    assert!(error.contains("can only be replayed from the start"), "{error}");
    consumers.replay("counts", ReplayFrom::Start).await.unwrap();
}

async fn a_replay_that_its_hook_refuses_fails_a_catch_up(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=1).await;
    let literal = || set().projection(Literal { table: db.table("literal"), version: 1 });
    literal().catch_up(&log).await.unwrap();
    Consumers::new(&log).replay("literal", ReplayFrom::Start).await.unwrap();
    let error = literal().catch_up(&log).await.unwrap_err().to_string();
    assert!(error.contains("it has no `reset` hook"), "{error}");
    for part in ["an empty one", "withdrawn"] {
        assert!(error.contains(part), "{error}");
    }
    let problem = status(&log, "literal").await.problem.unwrap();
    assert!(problem.starts_with("the last replay was refused: "), "{problem}");
    assert!(problem.contains("no `reset` hook"), "{problem}");
    // It goes on, and what was refused is said until somebody says that it is to go on.
    literal().catch_up(&log).await.unwrap();
    Consumers::new(&log).pause("literal").await.unwrap();
    assert!(status(&log, "literal").await.problem.is_some());
    Consumers::new(&log).resume("literal").await.unwrap();
    assert_eq!(status(&log, "literal").await.problem, None);
}

async fn cursors_that_are_gone_are_no_lag_of_zero(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=2).await;
    set().projection(db.recorder("orders")).catch_up(&log).await.unwrap();
    run(&log, format!("DELETE FROM {}", own(&log, "cursors"))).await;
    let status = status(&log, "orders").await;
    assert_eq!((status.lag, status.lag_ready), (6, 6));
    let problem = status.problem.unwrap();
    assert!(problem.contains("anabranch replay orders --from-start"), "{problem}");
}

/// On SQLite what it has open would keep out the note that it has failed, for half a lease each time.
async fn a_handler_that_reads_and_fails_holds_up_nobody(db: Db) {
    struct Reads;
    impl Projection for Reads {
        fn name(&self) -> &str {
            "reads"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, _: &Event, tx: &mut Tx) -> HandlerResult {
            tx.query("SELECT 1 AS one", vec![]).await?;
            Err(HandlerError::new("it always fails"))
        }
    }
    let log = db.log().await;
    fill(&log, 0..10, 1..=1).await;
    let began = std::time::Instant::now();
    set().projection(Reads).catch_up(&log).await.unwrap_err();
    // Ten keys of five attempts each took half a lease (2.5 s) an attempt.
    assert!(began.elapsed() < std::time::Duration::from_secs(25), "{:?}", began.elapsed());
}

async fn settings_of_the_session_are_refused(db: Db) {
    struct Sets;
    impl Projection for Sets {
        fn name(&self) -> &str {
            "sets"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            never()
        }
        async fn handle(&self, _: &Event, tx: &mut Tx) -> HandlerResult {
            tx.execute("SET search_path TO elsewhere", vec![]).await
        }
    }
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let error = set().projection(Sets).catch_up(&log).await.unwrap_err().to_string();
    assert!(error.contains("a handler must not use SET (without LOCAL)"), "{error}");
}

/// They would have no ids that a replay finds again.
async fn appends_that_nobody_has_checked_are_refused(db: Db) {
    struct Pushes;
    impl Projection for Pushes {
        fn name(&self) -> &str {
            "pushes"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            never()
        }
        async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
            let stream = StreamId::new("Copy", event.stream_id())?;
            let append = Append::new().to(&stream, Expected::Any, [NewEvent::new("Copied", ())]);
            let statement = Statement::appends(vec![append]);
            // Also if the handler passes over the error.
            let _ = match event.stream_id() {
                "0" => tx.push(statement).await,
                _ => tx.query_statement(statement).await.map(drop),
            };
            Ok(())
        }
    }
    let log = db.log().await;
    fill(&log, 0..2, 1..=1).await;
    assert_eq!(left_by(set().projection(Pushes), &log).await.parked_keys, 2);
    for parked in Consumers::new(&log).parked("pushes").await.unwrap() {
        assert!(parked.error.contains("Tx::append"), "{}", parked.error);
    }
    assert!(log.read(Query::types(["Copied"])).collect().await.unwrap().is_empty());
}
