//! Attempts that the database refuses: nothing is stored of them, and their spans say so.

use crate::receiver::{Seen, Spans};
use crate::support::{Db, end_of, start, until};
use crate::traced::{Traced, placed, request};
use crate::traced_on_both;
use anabranch::Retry;
use anabranch::backend::database::{End, Statement};
use anabranch::prelude::*;
use anabranch::running::Guarantee;
use anabranch::workpool::{NewTask, OutsidePool, Pool, PoolSettings, Run, Task, TaskState, Tasks};
use anabranch::{Delivery, HandlerError};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Barrier;

traced_on_both!(
    an_attempt_that_is_refused_at_the_commit_has_the_error,
    an_attempt_whose_query_is_refused_has_the_error_and_no_commit,
    tasks_that_are_refused_at_the_commit_have_the_error,
    a_task_whose_query_is_refused_has_the_error_and_no_commit,
    of_tasks_whose_effects_are_outside_only_the_refused_one_has_the_error,
    an_append_that_conflicts_has_the_error,
    what_is_delivered_in_vain_has_the_error,
);

/// How a row is written.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// At once.
    Query,
    /// With the commit.
    Execute,
}

impl By {
    async fn insert(self, table: &str, tx: &mut Tx, id: &str) -> HandlerResult {
        let sql = format!("INSERT INTO {table} (id) VALUES ($1) RETURNING id");
        match self {
            Self::Query => tx.query(sql, params![id]).await.map(drop),
            Self::Execute => tx.execute(sql, params![id]).await,
        }
    }
}

fn create(table: &str) -> String {
    format!("CREATE TABLE {table} (id TEXT PRIMARY KEY)")
}

/// Inserts a row twice, the first time.
struct Doubles {
    by: By,
    table: String,
    begun: AtomicU32,
}

impl Projection for Doubles {
    fn name(&self) -> &str {
        "doubles"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn settings(&self) -> Settings {
        Settings::default().retry(Retry::default().first(Duration::from_millis(20)))
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        tx.execute(create(&self.table), vec![]).await
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.by.insert(&self.table, tx, event.stream_id()).await?;
        if self.begun.fetch_add(1, Ordering::SeqCst) == 0 {
            self.by.insert(&self.table, tx, event.stream_id()).await?;
        }
        Ok(())
    }
}

fn says_why(span: &Seen) -> bool {
    span.error.as_ref().is_some_and(|error| error.to_lowercase().contains("unique"))
}

async fn two_attempts(db: Db, by: By, check: impl Fn(&Spans, &Seen)) {
    let (traced, log) = (Traced::begin(), db.log().await);
    placed(&log, "o-1").await;
    let doubles = Doubles { by, table: db.table("doubles"), begun: AtomicU32::new(0) };
    let running = start(&log, ReplicaSet::new("main").projection(doubles).lanes(1));
    until("both attempts", async || {
        let spans = traced.sent().spans();
        (spans.iter().filter(|span| span.name == "handle doubles").count() == 2).then_some(())
    })
    .await;
    running.stop().await;
    traced.sent().until("both attempts", |spans| {
        let append = spans.one("append")?;
        let handles = spans.below(append, "handle doubles");
        let [first, second] = handles[..] else { return None };
        assert!(says_why(first), "{first:?}");
        check(spans, first);
        assert_eq!(second.error, None);
        let commits = spans.below(second, "commit");
        assert!(commits.len() == 1 && commits[0].error.is_none(), "{commits:?}");
        Some(())
    });
}

async fn an_attempt_that_is_refused_at_the_commit_has_the_error(db: Db) {
    let check = |spans: &Spans, first: &Seen| {
        let commits = spans.below(first, "commit");
        assert!(commits.len() == 1 && says_why(commits[0]), "{commits:?}");
    };
    two_attempts(db, By::Execute, check).await;
}

async fn an_attempt_whose_query_is_refused_has_the_error_and_no_commit(db: Db) {
    // Nor has it that of what is stored of its failure.
    let check = |spans: &Spans, first: &Seen| {
        assert!(spans.below(first, "commit").is_empty(), "{:?}", spans.below(first, "commit"));
    };
    two_attempts(db, By::Query, check).await;
}

/// Inserts a row for each task, and for key `b` that of `a` the first time.
struct Inserts {
    by: By,
    table: String,
}

impl Pool for Inserts {
    type Output = ();

    fn name(&self) -> &str {
        "inserts"
    }

    fn settings(&self) -> PoolSettings {
        PoolSettings::default().retry(Retry::default().first(Duration::from_millis(20)))
    }

    async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult {
        let id = if task.attempt() == 1 { "a" } else { task.key() };
        self.by.insert(&self.table, tx, id).await
    }
}

/// Two tasks of one transaction, of which the second is refused.
async fn two_tasks(db: Db, by: By, commits: usize) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let table = db.table("inserts");
    let create = vec![Statement::new(create(&table), vec![])];
    log.database().begin().run(create, End::Commit).await.unwrap();
    let tasks = Tasks::new(&log, "inserts");
    let mut ids = Vec::new();
    for key in ["a", "b"] {
        let enqueued = request(key, tasks.enqueue(NewTask::new(key, &()))).await.unwrap();
        ids.push(enqueued.id);
    }
    let running = start(&log, ReplicaSet::new("main").pool(Inserts { by, table }).lanes(1));
    for id in ids {
        end_of(&tasks, id).await;
    }
    running.stop().await;
    traced.sent().until("all attempts", |spans| {
        let [a, b] = ["a", "b"].map(|key| spans.one(key));
        let (a, b) = (spans.below(a?, "task inserts"), spans.below(b?, "task inserts"));
        // They were run together, then the first alone, then the second, which fails, and once more.
        let ([a, a_again], [b, .., b_again]) = (&a[..], &b[..]) else { return None };
        assert!(says_why(b), "{b:?}");
        assert!(says_why(a), "it was rolled back with the other: {a:?}");
        assert!(
            a.error.as_ref()?.contains("another task") && !b.error.as_ref()?.contains("another")
        );
        for last in [a_again, b_again] {
            assert_eq!(last.error, None);
            let commits = spans.below(last, "commit");
            assert!(commits.len() == 1 && commits[0].error.is_none(), "{commits:?}");
        }
        let failed: Vec<_> =
            spans.named("commit").into_iter().filter(|span| says_why(span)).collect();
        assert_eq!(failed.len(), commits, "{failed:?}");
        assert_eq!(spans.named("commit").len(), commits + 2);
        Some(())
    });
}

async fn tasks_that_are_refused_at_the_commit_have_the_error(db: Db) {
    // That of both, and that of the second alone.
    two_tasks(db, By::Execute, 2).await;
}

async fn a_task_whose_query_is_refused_has_the_error_and_no_commit(db: Db) {
    two_tasks(db, By::Query, 0).await;
}

/// Whoever is run waits for the others, so that all of them end together.
struct Together(Barrier);

impl OutsidePool for Together {
    type Output = ();

    fn name(&self) -> &str {
        "together"
    }

    fn settings(&self) -> PoolSettings {
        PoolSettings::default().retry(Retry::never())
    }

    async fn run(&self, _: &Task, _: &mut Run) -> HandlerResult {
        self.0.wait().await;
        Ok(())
    }
}

/// The database stores no end of a task of this key.
async fn refuse_the_end_of(log: &Log, db: &Db, key: &str) {
    let database = log.database();
    let (table, name) = (database.dialect().table("tasks"), db.table("refused"));
    let when = format!("WHEN (NEW.key = '{key}' AND NEW.result IS NOT NULL)");
    let statements = match database.dialect().name() {
        "sqlite" => vec![format!(
            "CREATE TRIGGER {name} BEFORE UPDATE ON {table} {when} BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )],
        _ => vec![
            format!(
                "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS \
                 $$BEGIN RAISE EXCEPTION 'not this one'; END$$"
            ),
            format!(
                "CREATE TRIGGER {name} BEFORE UPDATE ON {table} FOR EACH ROW {when} EXECUTE FUNCTION {name}()"
            ),
        ],
    };
    let statements = statements.into_iter().map(|sql| Statement::new(sql, vec![])).collect();
    database.begin().run(statements, End::Commit).await.unwrap();
}

async fn of_tasks_whose_effects_are_outside_only_the_refused_one_has_the_error(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    refuse_the_end_of(&log, &db, "b").await;
    let (tasks, keys) = (Tasks::new(&log, "together"), ["a", "b", "c", "d"]);
    let mut ids = Vec::new();
    for key in keys {
        let enqueued = request(key, tasks.enqueue(NewTask::new(key, &()))).await.unwrap();
        ids.push((key, enqueued.id));
    }
    let pool = Together(Barrier::new(keys.len()));
    let running = start(&log, ReplicaSet::new("main").outside_pool(pool).lanes(1));
    for (key, id) in ids {
        let state = end_of(&tasks, id).await.state;
        assert_eq!(state == TaskState::Done, key != "b", "{key} is {state}");
    }
    running.stop().await;
    traced.sent().until("all tasks", |spans| {
        for key in keys {
            let [task] = spans.below(spans.one(key)?, "task together")[..] else { return None };
            let error = task.error.as_deref().unwrap_or_default();
            assert_eq!(error.contains("not this one"), key == "b", "{key}: {error}");
        }
        Some(())
    });
}

async fn an_append_that_conflicts_has_the_error(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let stream = StreamId::new("Order", "o-1").unwrap();
    let append = || log.append(&stream, Expected::NoStream, [NewEvent::new("OrderPlaced", ())]);
    append().await.unwrap();
    assert!(append().await.unwrap_err().is_conflict());
    traced.sent().until("both appends", |spans| {
        let [first, second] = spans.named("append")[..] else { return None };
        assert!(first.error.is_none() && second.error.is_some(), "{first:?} {second:?}");
        Some(())
    });
}

/// Delivers nothing, ever.
struct Unlucky;

impl Subscriber for Unlucky {
    fn name(&self) -> &str {
        "unlucky"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtMostOnce
    }

    async fn deliver(&self, _: &Delivery<'_>) -> HandlerResult {
        Err(HandlerError::new("nobody answers"))
    }
}

async fn what_is_delivered_in_vain_has_the_error(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    placed(&log, "o-1").await;
    ReplicaSet::new("main").subscriber(Unlucky).catch_up(&log).await.unwrap();
    traced.sent().until("the delivery", |spans| {
        let send = spans.one("send")?;
        assert_eq!(send.error.as_deref(), Some("nobody answers"));
        Some(())
    });
}
