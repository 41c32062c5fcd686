//! Handlers that try to end the transaction that their effects and the cursor commit in.

use crate::gates::never;
use crate::on_both;
use crate::support::{Db, fill, number, query, status};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use std::borrow::Cow;

on_both! {
    a_handler_that_ends_its_transaction_fails_alone,
    a_handler_that_passes_over_the_refusal_fails_all_the_same,
    a_database_that_ends_the_transaction_itself_fails_the_event,
    a_hook_that_ends_its_transaction_sets_nothing_up,
}

/// How the statement is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Execute,
    Query,
    /// The error is passed over.
    Deaf,
}

/// Writes a row for each event; for one key it runs a statement in between.
struct Ender {
    table: String,
    end: Cow<'static, str>,
    by: By,
}

impl Projection for Ender {
    fn name(&self) -> &str {
        "ender"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never()
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let insert = format!("INSERT INTO {} (position, text) VALUES ($1, $2)", self.table);
        tx.execute(insert.clone(), params![event.position(), "before"]).await?;
        if event.stream_id() == "3" {
            match self.by {
                By::Execute => tx.execute(self.end.clone(), vec![]).await?,
                By::Query => drop(tx.query(self.end.clone(), vec![]).await?),
                By::Deaf => {
                    let _ = tx.query(self.end.clone(), vec![]).await;
                }
            }
        }
        tx.execute(insert, params![event.position(), "after"]).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let table = &self.table;
        tx.execute(format!("CREATE TABLE {table} (position BIGINT, text TEXT)"), vec![]).await?;
        let unique = format!("CREATE TABLE {table}_once (id BIGINT PRIMARY KEY)");
        tx.execute(unique, vec![]).await?;
        tx.execute(format!("INSERT INTO {table}_once VALUES (1)"), vec![]).await
    }
}

/// Every event but that of the one key is stored whole and once, and that one is parked.
async fn fails_alone(db: &Db, end: impl Into<Cow<'static, str>>, by: By) -> String {
    let log = db.log().await;
    if log.head().await.unwrap() == Position::START {
        fill(&log, 0..6, 1..=2).await;
    }
    let (end, table) = (end.into(), db.table("ender"));
    let said = format!("after {end}");
    let ender = Ender { table: table.clone(), end, by };
    let _ = ReplicaSet::new("s").projection(ender).catch_up(&log).await;
    let rows = number(&log, &format!("SELECT count(*) FROM {table}")).await;
    let whole = format!(
        "SELECT count(*) FROM (SELECT 1 FROM {table} GROUP BY position HAVING count(*) = 2) AS p"
    );
    assert_eq!((rows, number(&log, &whole).await), (20, 10), "{said}");
    let status = status(&log, "ender").await;
    assert_eq!((status.parked_keys, status.parked_events), (1, 2), "{said}");
    let consumers = Consumers::new(&log);
    let error = consumers.parked("ender").await.unwrap().remove(0).error;
    consumers.forget("ender").await.unwrap();
    for table in [format!("{table}_once"), table] {
        query(&log, &format!("DROP TABLE {table}"), vec![]).await;
    }
    error
}

async fn a_handler_that_ends_its_transaction_fails_alone(db: Db) {
    for end in ["COMMIT", "-- done\n rollback;", "END", "/* */ BEGIN", "SAVEPOINT a"] {
        for by in [By::Execute, By::Query] {
            let error = fails_alone(&db, end, by).await;
            assert!(error.contains("a handler must not use"), "{error}");
        }
    }
}

async fn a_handler_that_passes_over_the_refusal_fails_all_the_same(db: Db) {
    for end in ["COMMIT", "ROLLBACK"] {
        let error = fails_alone(&db, end, By::Deaf).await;
        assert!(error.contains("a handler must not use"), "{error}");
    }
}

/// What no reading of the text can find: the statement ends the transaction when it runs.
async fn a_database_that_ends_the_transaction_itself_fails_the_event(db: Db) {
    let table = db.table("ender");
    let log = db.log().await;
    let ends: Vec<String> = match log.store().database().dialect().name() {
        "sqlite" => {
            query(&log, "CREATE TABLE odd (id INTEGER PRIMARY KEY)", vec![]).await;
            let trigger = "CREATE TRIGGER odd_ends BEFORE INSERT ON odd \
                           BEGIN SELECT RAISE(ROLLBACK, 'it is odd'); END";
            query(&log, trigger, vec![]).await;
            vec![
                format!("INSERT OR ROLLBACK INTO {table}_once VALUES (1)"),
                "INSERT INTO odd VALUES (1)".to_owned(),
            ]
        }
        _ => vec![
            "DO $$ BEGIN COMMIT; END $$".to_owned(),
            "DO $$ BEGIN ROLLBACK; END $$".to_owned(),
            "DO $$ BEGIN EXECUTE 'PREPARE TRANSACTION ''x'''; END $$".to_owned(),
        ],
    };
    drop(log);
    for end in ends {
        for by in [By::Execute, By::Query, By::Deaf] {
            fails_alone(&db, end.clone(), by).await;
        }
    }
}

async fn a_hook_that_ends_its_transaction_sets_nothing_up(db: Db) {
    struct Hasty(String);
    impl Projection for Hasty {
        fn name(&self) -> &str {
            "hasty"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult {
            Ok(())
        }
        async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
            tx.execute(format!("CREATE TABLE {} (a BIGINT)", self.0), vec![]).await?;
            let _ = tx.execute("COMMIT", vec![]).await;
            Ok(())
        }
    }
    let log = db.log().await;
    let set = || ReplicaSet::new("s").projection(Hasty(db.table("hasty")));
    for _ in 0..2 {
        let error = set().catch_up(&log).await.unwrap_err().to_string();
        assert!(error.contains("a handler must not use COMMIT"), "{error}");
    }
    assert!(Consumers::new(&log).list().await.unwrap().is_empty(), "nothing is registered");
}
