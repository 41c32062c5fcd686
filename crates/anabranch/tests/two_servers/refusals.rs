//! What needs one transaction over both servers is refused, each by a typed error that says what to do.

use crate::on_all_pairs;
use crate::pair::*;
use crate::support::*;
use anabranch::backend::RawTx;
use anabranch::backend::database::{End, Failed, Reason, Statement};
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, OperateError};
use anabranch::prelude::*;
use anabranch::workflow::SendError;
use anabranch::workflow::{Workflow, Workflows};
use anabranch::workpool::{NewTask, TaskError, Tasks};
use anabranch::{EventSchema, Options};
use anabranch::{HashRule, RunError, StoreError};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;

on_all_pairs! {
    a_handler_cannot_append,
    nothing_is_appended_in_a_transaction_of_the_home,
    tasks_are_not_enqueued_in_the_transaction_of_an_append,
    a_workflow_is_refused,
    other_hash_rules_are_refused,
    operators_who_know_only_the_home_are_refused_where_they_need_the_log,
}

fn two_servers(error: &StoreError, log: &Log) -> String {
    let StoreError::TwoServers { at, log: events, remedy, .. } = error else { panic!("{error}") };
    assert_eq!((&**events, at.as_str()), (log.at(), log.database().at()));
    assert!(!remedy.is_empty());
    error.to_string()
}

struct Appending(Recorder);

impl Projection for Appending {
    fn name(&self) -> &str {
        "appending"
    }

    fn partition(&self) -> Partition {
        self.0.partition.clone()
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let echo = StreamId::new("Echo", event.stream_id())?;
        tx.append(&echo, Expected::Any, [NewEvent::new("Echoed", 1)])
    }
}

async fn a_handler_cannot_append(pair: Pair) {
    let log = pair.log().await;
    fill(&log, 0..1, 1..=1).await;
    let set = ReplicaSet::new("s").projection(Appending(pair.recorder()));
    // Tried again it would be refused again, so its key is parked at once.
    assert_eq!(left_by(set, &log).await.parked_keys, 1);
    let parked = Consumers::new(&log).parked("appending").await.unwrap().remove(0);
    assert_eq!(parked.attempts, 1);
    assert!(parked.error.contains("enqueue a task in the transaction"), "{}", parked.error);
    assert_eq!(log.read(Query::all()).collect().await.unwrap().len(), 1);
    assert_eq!(pair.home.log().await.head().await.unwrap(), Position::START);
}

async fn nothing_is_appended_in_a_transaction_of_the_home(pair: Pair) {
    let log = pair.log().await;
    let append = || {
        let stream = StreamId::new("Order", "1").unwrap();
        Statement::appends(vec![Append::new().to(&stream, Expected::Any, [numbered(1)])])
    };
    for database in [log.database(), log.database().apart().unwrap()] {
        for mut session in [database.begin(), database.control(), database.heartbeat()] {
            let failed = session.run(vec![append()], End::Commit).await.unwrap_err();
            let Failed { statement: Some(0), reason: Reason::Store(error) } = failed else {
                panic!("{failed}")
            };
            two_servers(&error, &log);
        }
    }
    let mut tx = Tx::on(&log.database(), PATIENCE);
    let stream = StreamId::new("Order", "1").unwrap();
    let error = tx.append(&stream, Expected::Any, [numbered(1)]).unwrap_err();
    assert!(error.to_string().contains("enqueue a task in the transaction"), "{error}");
    assert_eq!(pair.home.log().await.head().await.unwrap(), Position::START);
}

async fn tasks_are_not_enqueued_in_the_transaction_of_an_append(pair: Pair) {
    let log = pair.log().await;
    let task = || vec![NewTask::new("a", &1)];
    let error = Tasks::new(&log, "mails").statements(&task()).unwrap_err();
    let TaskError::Store(error) = &error else { panic!("{error}") };
    assert!(two_servers(error, &log).contains("Tasks::enqueue_in"));
    // In a transaction of the home they are at home.
    assert!(Tasks::new(&pair.home.log().await, "mails").statements(&task()).is_ok());
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Begun;

struct Small;

impl Workflow for Small {
    type State = ();
    type Command = ();
    type Event = Begun;
    type Action = ();
    type Rejection = Infallible;

    fn name(&self) -> &str {
        "small"
    }

    fn schema(&self) -> EventSchema<Begun> {
        EventSchema::new()
    }

    fn decide(&self, (): &(), (): &()) -> Result<Vec<Begun>, Infallible> {
        Ok(vec![Begun])
    }

    fn evolve(&self, (): &mut (), _: &Begun) {}
}

async fn a_workflow_is_refused(pair: Pair) {
    let log = pair.log().await;
    let small = Workflows::new(&log, Small);
    let error = small.send("1", ()).await.unwrap_err();
    let SendError::Load(anabranch::workflow::LoadError::Store(error)) = &error else {
        panic!("{error}")
    };
    assert!(two_servers(error, &log).contains("a workflow is refused"));
    assert!(small.pause("1", "").await.unwrap_err().to_string().contains("in one database"));
    assert!(small.state("1").await.unwrap_err().to_string().contains("in one database"));
    let set = || ReplicaSet::new("s").projection(pair.recorder()).workflow(&small);
    for error in [set().catch_up(&log).await, set().run(&log).await] {
        let RunError::Store(error) = error.unwrap_err() else { panic!("another error") };
        two_servers(&error, &log);
    }
    assert_eq!(log.head().await.unwrap(), Position::START);
}

async fn other_hash_rules_are_refused(pair: Pair) {
    let md5 = Options { hash_rule: Some(HashRule::Md5), ..pair.home.options.clone() };
    let home = anabranch::connect_with(&pair.home.url, &md5).await.unwrap();
    let error = pair.events.log().await.with_database(&home).await.unwrap_err();
    let StoreError::TwoRules { log_rule, rule, .. } = &error else { panic!("{error}") };
    assert_eq!((*log_rule, *rule), (HashRule::Fnv1a, HashRule::Md5));
}

async fn operators_who_know_only_the_home_are_refused_where_they_need_the_log(pair: Pair) {
    let log = pair.log().await;
    fill(&log, 0..4, 1..=5).await;
    pair.set().catch_up(&log).await.unwrap();
    let home = pair.home.log().await;
    let consumers = Consumers::new(&home);
    let is_other =
        |error: OperateError| matches!(error, OperateError::Store(StoreError::OtherLog(_)));
    assert!(is_other(consumers.skip_to_head("orders").await.unwrap_err()));
    assert!(is_other(consumers.offsets("orders", None).await.unwrap_err()));
    let replay =
        consumers.replay("orders", anabranch::operate::ReplayFrom::Start).await.unwrap_err();
    assert!(replay.to_string().contains("--events-url"), "{replay}");
    let standing = status(&home, "orders").await;
    assert_eq!(standing.position.get(), 20);
    assert!(standing.lag > 0, "no plain 0");
    let is_other = |reason: &anabranch::operate::Reason| {
        matches!(reason, anabranch::operate::Reason::OtherLog { .. })
    };
    let reasons = standing.cursors.iter().flat_map(|cursor| &cursor.reasons);
    assert!(standing.cursors.iter().all(|cursor| cursor.reasons.iter().any(is_other)));
    assert!(!reasons.into_iter().any(|reason| reason.to_string().contains("beyond")));
    // What needs no log is done all the same.
    consumers.pause("orders").await.unwrap();
    consumers.resume("orders").await.unwrap();
    // A worker that knows only the home runs nothing of it.
    let error = pair.set().catch_up(&home).await.unwrap_err();
    assert!(error.code() == ErrorCode::OtherLog, "{error}");
    pair.is_whole(&log, 4, 5).await;
}

#[tokio::test]
async fn a_log_and_itself_are_not_apart() {
    let db = Db::sqlite();
    let (log, other) = (db.log().await, db.log().await);
    let one = log.with_database(&other).await.unwrap();
    assert!(!one.is_apart());
    fill(&one, 0..1, 1..=1).await;
    ReplicaSet::new("s").projection(Appending(db.recorder("orders"))).catch_up(&one).await.unwrap();
    assert_eq!(one.head().await.unwrap().get(), 2, "a handler may append");
}

#[tokio::test]
async fn a_copy_is_not_taken_for_the_log() {
    let db = Db::sqlite();
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.db").display().to_string();
    let file = db.url.strip_prefix("sqlite:").unwrap();
    let connection = anabranch::sqlite::rusqlite::Connection::open(file).unwrap();
    connection.execute_batch(&format!("VACUUM INTO '{path}'")).unwrap();
    let copy = anabranch::connect_with(&format!("sqlite:{path}"), &db.options).await.unwrap();
    let error = copy.with_database(&log).await.unwrap_err();
    assert!(matches!(error, StoreError::SameLog { .. }), "{error}");
}
