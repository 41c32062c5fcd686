//! A log that is used in another async runtime than the one it was opened in: it works while that one runs, and
//! says so if it does not. Nobody waits for ever.

use crate::support::{Db, fill, number, proof, start, until};
use anabranch::prelude::*;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Whoever waits longer than this waits for ever.
const FOR_EVER: Duration = Duration::from_secs(30);

/// Each case on both databases, outside any runtime.
macro_rules! between_runtimes {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $case() { super::$case(&crate::support::Db::sqlite()); })*
        }
        mod postgres {
            $(#[test]
            fn $case() { super::$case(&crate::support::Db::postgres()); })*
        }
    };
}

between_runtimes! {
    a_second_runtime_uses_the_log_of_one_that_runs,
    what_a_second_runtime_has_left_behind_harms_nobody,
    a_log_of_a_runtime_that_has_ended_says_so,
    a_log_of_a_runtime_that_does_not_run_says_so,
    a_worker_ends_when_the_runtime_of_its_log_does,
}

fn many_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn within<T>(runtime: &Runtime, what: &str, work: impl Future<Output = T>) -> T {
    let done = runtime.block_on(async { tokio::time::timeout(FOR_EVER, work).await });
    done.unwrap_or_else(|_| panic!("waits for ever: {what}"))
}

async fn append(log: &Log) -> Result<(), anabranch::AppendError> {
    let order = StreamId::new("Order", "1").unwrap();
    log.append(&order, Expected::Any, [crate::support::numbered(1)]).await.map(drop)
}

fn a_second_runtime_uses_the_log_of_one_that_runs(db: &Db) {
    let (first, second) = (many_threads(), one_thread());
    let log = first.block_on(db.log());
    let orders = db.recorder("orders");
    within(&second, "appends", fill(&log, 0..20, 1..=3));
    let set = ReplicaSet::new("s").projection(orders.clone());
    within(&second, "a catch-up", set.catch_up(&log)).unwrap();
    assert_eq!(within(&second, "a look", proof(&log, &orders.table)).handled, 60);
}

/// What the second one has opened must not end with it while others use it.
fn what_a_second_runtime_has_left_behind_harms_nobody(db: &Db) {
    let first = many_threads();
    let log = first.block_on(db.log());
    let (sleeping, ended) = (one_thread(), one_thread());
    // Transactions side by side have sessions of their own, which stay open for a while.
    let one = || number(&log, "SELECT 1");
    for other in [&sleeping, &ended] {
        let three = async { tokio::join!(one(), one(), one()) };
        assert_eq!(within(other, "a second runtime", three), (1, 1, 1));
    }
    drop(ended);
    let three = async { tokio::join!(one(), one(), one()) };
    assert_eq!(within(&first, "the first runtime", three), (1, 1, 1));
    drop(sleeping);
}

fn a_log_of_a_runtime_that_has_ended_says_so(db: &Db) {
    let first = many_threads();
    let log = first.block_on(db.log());
    within(&first, "appends", fill(&log, 0..20, 1..=1));
    drop(first);
    says_so(db, &log, "has ended");
}

fn a_log_of_a_runtime_that_does_not_run_says_so(db: &Db) {
    let first = one_thread();
    let log = first.block_on(db.log());
    within(&first, "appends", fill(&log, 0..20, 1..=1));
    says_so(db, &log, "has not run for 5 seconds");
    // It was no word about the log.
    within(&first, "another append", append(&log)).unwrap();
}

fn a_worker_ends_when_the_runtime_of_its_log_does(db: &Db) {
    let (first, second) = (many_threads(), many_threads());
    let log = first.block_on(db.log());
    let orders = db.recorder("orders");
    within(&second, "appends", fill(&log, 0..20, 1..=1));
    let running =
        second.block_on(async { start(&log, ReplicaSet::new("s").projection(orders.clone())) });
    let handled = || orders.handled.load(Ordering::SeqCst);
    within(&second, "a worker", until("all", async || (handled() == 20).then_some(())));
    drop(first);
    if db.url.starts_with("sqlite") {
        // Nothing of it ran there but appends.
        within(&second, "a worker", running.stop());
        return;
    }
    let error = within(&second, "its end", running.ended()).unwrap_err().to_string();
    assert!(error.contains("opened in another async runtime, which has ended"), "{error}");
}

/// Appends have a task of their own on both databases, the rest only on PostgreSQL.
fn says_so(db: &Db, log: &Log, why: &str) {
    let second = many_threads();
    let remedy = "open the log in the runtime that uses it";
    let is_said = |error: String| {
        assert!(error.contains(why) && error.contains(remedy), "{error}");
    };
    is_said(within(&second, "an append", append(log)).unwrap_err().to_string());
    let read = within(&second, "a read", log.read(Query::all()).collect());
    let set = || ReplicaSet::new("s").projection(db.recorder("orders"));
    let caught_up = within(&second, "a catch-up", set().catch_up(log));
    if db.url.starts_with("sqlite") {
        return drop((read.unwrap(), caught_up.unwrap()));
    }
    is_said(read.unwrap_err().to_string());
    is_said(caught_up.unwrap_err().to_string());
    let run = within(&second, "a worker", set().run_until(log, std::future::pending()));
    is_said(run.unwrap_err().to_string());
}
