//! Commands on a scope: conflicts are retried durably, one after the other, and then rejected.

use crate::on_both;
use crate::support::*;
use anabranch::errors::ErrorCode;
use anabranch::partitioning::ScopeKey;
use anabranch::prelude::*;
use anabranch::workpool::NewTask;
use anabranch::workpool::{
    Dcb, DcbError, DcbFailure, DcbHandler, DcbOutcome, DcbRejected, TaskState,
};
use anabranch::{HandlerError, Retry};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

on_both!(
    a_conflict_is_retried_and_later_work_waits_behind_it,
    after_five_attempts_a_command_is_rejected,
    why_a_queued_command_ended_is_told_by_its_type,
    commands_of_many_are_serialised_and_none_is_lost,
    a_rejection_is_no_conflict,
    retries_are_serialised_with_other_work_on_the_scope,
);

const LONG: Duration = Duration::from_secs(60);
/// What the handler fails on if nobody else is faster, and what it says then.
const BREAKS: i64 = -1;
const LOOKS_EXCEEDED: &str = "DCB_MAX_RETRIES_EXCEEDED: says the ledger";

/// Adds a number to a sum, and meets as many conflicts as it is told to.
#[derive(Clone, Default)]
struct Sums {
    conflicts: Arc<AtomicU32>,
    calls: Arc<AtomicU32>,
}

impl DcbHandler for Sums {
    type Command = i64;
    type Output = i64;

    fn name(&self) -> &str {
        "sums"
    }

    async fn decide(&self, log: &Log, scope: &ScopeKey, add: &i64) -> Result<i64, DcbError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let seen = log.read(scope.query()).collect().await?;
        let mut sum = 0;
        for event in seen.iter().filter(|event| event.event_type() == "Added") {
            sum += event.data::<i64>()?;
        }
        if *add == 0 {
            return Err(DcbError::Rejected("nothing to add".to_owned()));
        }
        let after = seen.last().map_or(Position::START, |event| event.position());
        let stream = StreamId::new("Sum", scope.id())?;
        let take = |left: u32| left.checked_sub(1);
        if self.conflicts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            // Somebody else is faster.
            let other = scope.mark(NewEvent::new("Disturbed", ()));
            log.append(&stream, Expected::Any, [other]).await?;
        } else if *add == BREAKS {
            return Err(HandlerError::for_good(LOOKS_EXCEEDED).into());
        }
        let added = scope.mark(NewEvent::new("Added", add));
        let append = Append::new().to(&stream, Expected::Any, [added]).unless(scope.query(), after);
        log.append_all(append).await?;
        Ok(sum + add)
    }
}

fn scope(id: &str) -> ScopeKey {
    ScopeKey::new("acme", "sum", id).unwrap()
}

fn queued(outcome: DcbOutcome<i64>) -> uuid::Uuid {
    match outcome {
        DcbOutcome::Queued(task) => task,
        DcbOutcome::Decided(sum) => panic!("decided: {sum}"),
    }
}

async fn a_conflict_is_retried_and_later_work_waits_behind_it(db: Db) {
    let log = db.log().await;
    let sums = Sums::default();
    let dcb = Dcb::new(&log, sums.clone());
    assert_eq!(dcb.with_dcb_retry(&scope("a"), 1).await.unwrap(), DcbOutcome::Decided(1));
    sums.conflicts.store(2, Ordering::SeqCst);
    let first = queued(dcb.with_dcb_retry(&scope("a"), 10).await.unwrap());
    // Nobody runs the pool yet: what comes later waits behind it, and other scopes do not.
    let second = queued(dcb.with_dcb_retry(&scope("a"), 100).await.unwrap());
    sums.conflicts.store(0, Ordering::SeqCst);
    assert_eq!(dcb.with_dcb_retry(&scope("b"), 5).await.unwrap(), DcbOutcome::Decided(5));
    sums.conflicts.store(1, Ordering::SeqCst);
    let waits = dcb.tasks().status(first).await.unwrap().unwrap();
    assert_eq!(
        (waits.state, waits.attempts, waits.key.as_str()),
        (TaskState::Ready, 1, "dcb:tenant:acme:sum:a")
    );
    // The slot of the scope's events, for a consumer that is partitioned by it.
    let event = log.read(scope("a").query()).limit(1).collect().await.unwrap().remove(0);
    let partition = Partition::dcb("sum");
    assert_eq!(partition.key(&event).unwrap(), waits.key);
    assert_eq!(partition.slot(&event, log.hash_rule()), log.hash_rule().slot(&waits.key));
    let worker = start(&log, ReplicaSet::new("sums").outside_pool(dcb.pool()));
    assert_eq!(dcb.wait(first, LONG).await.unwrap(), DcbOutcome::Decided(11));
    assert_eq!(dcb.wait(second, LONG).await.unwrap(), DcbOutcome::Decided(111));
    let done = dcb.tasks().status(first).await.unwrap().unwrap();
    assert_eq!(done.attempts, 2, "one here, one in the pool");
    // Nothing waits any more, so the next one is decided at once.
    assert_eq!(dcb.with_dcb_retry(&scope("a"), 1).await.unwrap(), DcbOutcome::Decided(112));
    worker.stop().await;
}

async fn after_five_attempts_a_command_is_rejected(db: Db) {
    let log = db.log().await;
    let sums = Sums::default();
    let dcb = Dcb::new(&log, sums.clone());
    let worker = start(&log, ReplicaSet::new("sums").outside_pool(dcb.pool()));
    sums.conflicts.store(5, Ordering::SeqCst);
    let error = dcb.decide(&scope("a"), 1, LONG).await.unwrap_err();
    let DcbFailure::Rejected(rejected) = error else { panic!("{error}") };
    let DcbRejected::MaxRetriesExceeded { scope: of, attempts, error } = rejected else {
        panic!("{rejected}")
    };
    assert_eq!((of, attempts), (scope("a"), 5));
    assert!(error.starts_with("condition failed: the event at position"), "{error}");
    assert_eq!(sums.calls.load(Ordering::SeqCst), 5);
    // It is set aside, and the scope goes on.
    assert_eq!(dcb.tasks().list(TaskState::Skipped, 10).await.unwrap().len(), 1);
    assert_eq!(dcb.decide(&scope("a"), 7, LONG).await.unwrap(), DcbOutcome::Decided(7));
    worker.stop().await;
    // With one attempt it is rejected at once.
    let once = Dcb::new(&log, sums.clone()).retry(Retry::never());
    sums.conflicts.store(1, Ordering::SeqCst);
    let error = once.with_dcb_retry(&scope("a"), 1).await.unwrap_err().to_string();
    assert!(error.starts_with("DCB_MAX_RETRIES_EXCEEDED: 1 attempts"), "{error}");
}

/// What a waiter learns is a type, whatever the handler's text looks like.
async fn why_a_queued_command_ended_is_told_by_its_type(db: Db) {
    let log = db.log().await;
    let sums = Sums::default();
    let dcb = Dcb::new(&log, sums.clone()).retry(Retry::default().attempts(2));
    let queue = async |add| {
        sums.conflicts.store(1, Ordering::SeqCst);
        queued(dcb.with_dcb_retry(&scope("a"), add).await.unwrap())
    };
    let rejected = async |task| match dcb.wait(task, LONG).await.unwrap_err() {
        DcbFailure::Rejected(rejected) => rejected,
        other => panic!("{other}"),
    };
    let task = queue(1).await;
    assert!(dcb.tasks().cancel(task).await.unwrap());
    assert_eq!(rejected(task).await, DcbRejected::Cancelled);
    // A text that looks like the other outcome is only a text.
    let broken = queue(BREAKS).await;
    let worker = start(&log, ReplicaSet::new("sums").outside_pool(dcb.pool()));
    let said = rejected(broken).await;
    let DcbRejected::GivenUp { error } = &said else { panic!("{said}") };
    assert_eq!((error.as_str(), said.code()), (LOOKS_EXCEEDED, ErrorCode::DcbGivenUp));
    // Conflicts until the end, then tried again with a failure: the last attempt counts.
    sums.conflicts.store(u32::MAX, Ordering::SeqCst);
    let task = queued(dcb.with_dcb_retry(&scope("b"), BREAKS).await.unwrap());
    assert_eq!(rejected(task).await.code(), ErrorCode::DcbMaxRetriesExceeded);
    sums.conflicts.store(0, Ordering::SeqCst);
    dcb.tasks().retry(task).await.unwrap();
    assert!(matches!(rejected(task).await, DcbRejected::GivenUp { .. }));
    worker.stop().await;
}

async fn commands_of_many_are_serialised_and_none_is_lost(db: Db) {
    let log = db.log().await;
    let dcb = Arc::new(Dcb::new(&log, Sums::default()));
    let other = db.log().await;
    let there = Dcb::new(&other, Sums::default());
    let workers = [
        start(&log, ReplicaSet::new("sums").outside_pool(dcb.pool())),
        start(&other, ReplicaSet::new("sums").outside_pool(there.pool())),
    ];
    let commands = (0..60).map(|number| {
        let dcb = Arc::clone(&dcb);
        tokio::spawn(async move {
            let scope = scope(&format!("s{}", number % 3));
            dcb.decide(&scope, 1, LONG).await.unwrap()
        })
    });
    let commands: Vec<_> = commands.collect();
    let mut sums = Vec::new();
    for command in commands {
        match command.await.unwrap() {
            DcbOutcome::Decided(sum) => sums.push(sum),
            DcbOutcome::Queued(task) => panic!("{task} still waits"),
        }
    }
    // Each sum of each scope once: nothing lost, nothing doubled.
    sums.sort_unstable();
    let expected: Vec<i64> = (1..=20).flat_map(|sum| [sum; 3]).collect();
    assert_eq!(sums, expected);
    for worker in workers {
        worker.stop().await;
    }
}

async fn a_rejection_is_no_conflict(db: Db) {
    let log = db.log().await;
    let sums = Sums::default();
    let dcb = Dcb::new(&log, sums.clone());
    let error = dcb.with_dcb_retry(&scope("a"), 0).await.unwrap_err().to_string();
    assert_eq!(error, "REJECTED: nothing to add");
    assert!(dcb.tasks().list(TaskState::Ready, 10).await.unwrap().is_empty());
    // The same for one that has to wait.
    sums.conflicts.store(1, Ordering::SeqCst);
    queued(dcb.with_dcb_retry(&scope("a"), 1).await.unwrap());
    let second = queued(dcb.with_dcb_retry(&scope("a"), 0).await.unwrap());
    let worker = start(&log, ReplicaSet::new("sums").outside_pool(dcb.pool()));
    let error = dcb.wait(second, LONG).await.unwrap_err().to_string();
    assert_eq!(error, "REJECTED: nothing to add");
    worker.stop().await;
}

/// Whatever else is enqueued under the key of the scope waits its turn among the retries.
async fn retries_are_serialised_with_other_work_on_the_scope(db: Db) {
    let log = db.log().await;
    let sums = Sums::default();
    let dcb = Dcb::new(&log, sums.clone());
    let scope = scope("a");
    let wanted = serde_json::json!({ "scope": scope, "command": 100 });
    let other = NewTask::new(scope.partition_key(), &wanted);
    let other = dcb.tasks().enqueue(other).await.unwrap().id;
    let behind = queued(dcb.with_dcb_retry(&scope, 1).await.unwrap());
    let worker = start(&log, ReplicaSet::new("sums").outside_pool(dcb.pool()));
    assert_eq!(dcb.wait(other, LONG).await.unwrap(), DcbOutcome::Decided(100));
    assert_eq!(dcb.wait(behind, LONG).await.unwrap(), DcbOutcome::Decided(101));
    worker.stop().await;
}
