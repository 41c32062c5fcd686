//! Appends inside a transaction of statements: with everything else in it, or not at all.

use super::{Harness, soon};
use crate::database::{End, Reason, Statement};
use crate::{Log, params};
use anabranch_core::{Append, AppendError, Expected, NewEvent, Position, Query, StreamId};

fn stream(id: &str) -> StreamId {
    StreamId::new("Order", id).unwrap()
}

fn append(id: &str, expected: Expected, name: &str) -> Append {
    Append::new().to(&stream(id), expected, [NewEvent::new(name, ()).with_tag("t")])
}

async fn table(log: &Log) -> String {
    let database = log.store().database();
    let name = database.dialect().table("effects");
    let create = Statement::new(format!("CREATE TABLE {name} (id BIGINT PRIMARY KEY)"), vec![]);
    database.begin().run(vec![create], End::Commit).await.unwrap();
    name
}

fn insert(table: &str, id: i64) -> Statement {
    Statement::new(format!("INSERT INTO {table} VALUES ($1)"), params![id])
}

async fn types(log: &Log) -> Vec<String> {
    let events = log.read(Query::all()).collect().await.unwrap();
    events.iter().map(|event| event.event_type().to_owned()).collect()
}

/// They are stored with the statements around them, in order, and a reader is woken.
pub async fn appends_are_stored_with_their_transaction(harness: &Harness) {
    let log = harness.log().await;
    let table = table(&log).await;
    let mut followed = log.subscribe(Query::all(), Position::START);
    let database = log.store().database();
    let mut session = database.begin();
    let open = super::effects::OPEN;
    session.run(vec![insert(&table, 1)], open).await.unwrap();
    let appends = vec![
        append("1", Expected::NoStream, "A"),
        append("1", Expected::Exact(1), "B"),
        append("2", Expected::Any, "C"),
    ];
    let answers = session.run(vec![Statement::appends(appends)], open).await.unwrap();
    assert_eq!(answers[0].changed, 3);
    session.run(vec![insert(&table, 2)], End::Commit).await.unwrap();
    for expected in ["A", "B", "C"] {
        let event = soon(futures_util::StreamExt::next(&mut followed)).await.unwrap().unwrap();
        assert_eq!(event.event_type(), expected);
    }
}

/// One that is refused fails the whole transaction, and says which one and why.
pub async fn an_append_that_is_refused_takes_its_transaction_with_it(harness: &Harness) {
    let log = harness.log().await;
    let table = table(&log).await;
    log.append(&stream("1"), Expected::Any, [NewEvent::new("A", ()).with_tag("t")]).await.unwrap();
    let head = log.head().await.unwrap();
    let database = log.store().database();
    let broken = append("2", Expected::Any, "C").unless(Query::tags(["t"]), Position::START);
    let known = NewEvent::new("D", 1);
    let first = Append::new().to(&stream("3"), Expected::Any, [known.clone()]);
    let other = NewEvent::new("D", 2).with_id(known.id());
    let reused = Append::new().to(&stream("3"), Expected::Any, [other]);
    for (appends, number) in [
        (vec![append("2", Expected::Any, "B"), append("1", Expected::NoStream, "C")], 1),
        (vec![broken], 0),
        (vec![first, reused], 1),
    ] {
        let statements = vec![insert(&table, 1), Statement::appends(appends), insert(&table, 2)];
        let failed = database.begin().run(statements, End::Commit).await.unwrap_err();
        assert_eq!(failed.statement, Some(1), "{failed}");
        assert!(!failed.is_transient());
        let Reason::Append { number: which, error } = failed.reason else { panic!("{failed}") };
        assert_eq!(which, number);
        assert!(error.is_conflict() || matches!(error, AppendError::IdReused { .. }), "{error}");
        assert_eq!(log.head().await.unwrap(), head, "nothing of it is stored");
    }
    // Nor is the effect, and the session is sound.
    let again = vec![insert(&table, 1), Statement::appends(vec![append("1", Expected::Any, "B")])];
    database.begin().run(again, End::Commit).await.unwrap();
    assert_eq!(types(&log).await, ["A", "B"]);
}

/// A fence after them that does not match takes them back, and a statement that fails does, too.
pub async fn appends_go_with_what_fails_after_them(harness: &Harness) {
    let log = harness.log().await;
    let table = table(&log).await;
    let database = log.store().database();
    let fence = Statement::fence(format!("DELETE FROM {table} WHERE id = $1"), params![9], 1);
    let refused = Statement::new("NONSENSE", vec![]);
    for after in [fence, refused] {
        let appends = Statement::appends(vec![append("1", Expected::Any, "A")]);
        let failed = database.begin().run(vec![appends, after], End::Commit).await.unwrap_err();
        assert_eq!(failed.statement, Some(1), "{failed}");
        assert_eq!(types(&log).await, [""; 0]);
    }
    // Dropped in the middle, as well.
    let mut session = database.begin();
    let appends = || Statement::appends(vec![append("1", Expected::NoStream, "A")]);
    session.run(vec![appends()], super::effects::OPEN).await.unwrap();
    drop(session);
    database.begin().run(vec![appends()], End::Commit).await.unwrap();
    assert_eq!(types(&log).await, ["A"]);
}

/// Many at once, to the same streams in changing orders: none waits for another in a circle, none is lost.
pub async fn appends_of_many_transactions_do_not_wait_in_a_circle(harness: &Harness) {
    let log = harness.log().await;
    let mut running = tokio::task::JoinSet::new();
    for writer in 0..8usize {
        let log = harness.again(&log).await;
        running.spawn(async move {
            for round in 0..10 {
                let place = |number: usize| if writer % 2 == 0 { number } else { 4 - number };
                let stream = |number| ((place(number) + round) % 5).to_string();
                let to = |number| append(&stream(number), Expected::Any, "E");
                let appends = Statement::appends((0..5).map(to).collect());
                let mut session = log.store().database().begin();
                session.run(vec![appends], End::Commit).await.unwrap();
            }
        });
    }
    running.join_all().await;
    let events = log.read(Query::all()).collect().await.unwrap();
    assert_eq!(events.len(), 8 * 10 * 5);
    for id in 0..5 {
        let versions: Vec<u64> = events
            .iter()
            .filter(|event| event.stream_id() == id.to_string())
            .map(|event| event.version())
            .collect();
        assert_eq!(versions, (1..=80).collect::<Vec<_>>());
    }
}
