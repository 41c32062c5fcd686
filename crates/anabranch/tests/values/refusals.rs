//! A statement that the database refuses is named: in what is parked, in the error of `catch_up`, and by
//! `Log::query`.

use crate::on_both;
use crate::support::{Db, fill};
use anabranch::backend::database::{End, Statement};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{Failure, Retry};

on_both! {
    what_a_handler_got_wrong_is_told_with_the_statement,
    what_a_query_got_wrong_is_told_with_the_statement,
    a_long_statement_is_cut,
    ours_are_told_without_them,
    a_name_in_double_quotes_is_never_a_text,
    question_marks_are_told_from_values,
}

/// A handler that does one statement.
struct One {
    name: String,
    table: String,
    sql: String,
    values: Vec<anabranch::Value>,
}

impl Projection for One {
    fn name(&self) -> &str {
        &self.name
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        Settings::default().retry(Retry::never().then(Failure::Park))
    }
    async fn handle(&self, _: &Event, tx: &mut Tx) -> HandlerResult {
        tx.execute(&self.sql, self.values.clone()).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let create =
            format!("CREATE TABLE IF NOT EXISTS {} (id TEXT, state TEXT, dec NUMERIC)", self.table);
        tx.execute(&create, vec![]).await
    }
}

fn is_sqlite(log: &Log) -> bool {
    log.store().database().dialect().name() == "sqlite"
}

/// What is parked after a statement with values, in a log with one event. `catch_up` says the same.
async fn parked(db: &Db, log: &Log, sql: &str, values: Vec<anabranch::Value>) -> String {
    let name = format!("one-{}", uuid::Uuid::now_v7());
    let one = One { name: name.clone(), table: db.table("w"), sql: sql.to_owned(), values };
    let ended = ReplicaSet::new(&name).projection(one).catch_up(log).await.unwrap_err();
    let parked = Consumers::new(log).parked(&name).await.unwrap().remove(0).error;
    assert!(ended.to_string().contains(&parked), "{ended}\n{parked}");
    parked
}

async fn with_event(db: &Db) -> Log {
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    log
}

async fn what_a_handler_got_wrong_is_told_with_the_statement(db: Db) {
    let (log, w) = (with_event(&db).await, db.table("w"));
    let cases = match is_sqlite(&log) {
        true => vec![
            ("INSERT INTO nope VALUES (1)".to_owned(), "no such table: nope".to_owned()),
            (
                format!("INSERT INTO {w} (nope) VALUES (1)"),
                format!("table {w} has no column named nope"),
            ),
            (format!("INSRT INTO {w}"), "near \"INSRT\": syntax error".to_owned()),
            (
                format!("DELETE FROM {w}; DELETE FROM {w}"),
                "Multiple statements provided".to_owned(),
            ),
        ],
        _ => vec![
            (
                "INSERT INTO nope VALUES (1)".to_owned(),
                "relation \"nope\" does not exist".to_owned(),
            ),
            (
                format!("INSERT INTO {w} (nope) VALUES (1)"),
                format!("column \"nope\" of relation \"{w}\" does not exist"),
            ),
            (format!("INSRT INTO {w}"), "syntax error at or near \"INSRT\"".to_owned()),
            (
                format!("DELETE FROM {w}; DELETE FROM {w}"),
                "cannot insert multiple commands into a prepared statement".to_owned(),
            ),
            (
                format!("INSERT INTO {w} (dec) VALUES ('1'::text)"),
                "column \"dec\" is of type numeric but expression is of type text".to_owned(),
            ),
        ],
    };
    for (sql, said) in cases {
        assert_eq!(parked(&db, &log, &sql, vec![]).await, format!("{said}; in: {sql}"));
    }
    // A constraint, which is met when the statement runs.
    let (unique, twice) =
        (format!("CREATE UNIQUE INDEX {w}_id ON {w} (id)"), "VALUES ('1'), ('1')");
    let unique = vec![Statement::new(unique, vec![])];
    log.store().database().begin().run(unique, End::Commit).await.unwrap();
    let sql = format!("INSERT INTO {w} (id) {twice}");
    let said = parked(&db, &log, &sql, vec![]).await;
    assert!(said.ends_with(&format!("; in: {sql}")), "{said}");
}

async fn what_a_query_got_wrong_is_told_with_the_statement(db: Db) {
    let log = db.log().await;
    let said = match is_sqlite(&log) {
        true => "no such table: nope",
        _ => "relation \"nope\" does not exist",
    };
    let error = log.query("SELECT 1\n  FROM nope", vec![]).await.unwrap_err().to_string();
    assert!(error.ends_with(&format!(": {said}; in: SELECT 1 FROM nope")), "{error}");
}

async fn a_long_statement_is_cut(db: Db) {
    let log = db.log().await;
    let sql = format!("SELECT '{}' FROM nope", "ä".repeat(300));
    let error = log.query(&sql, vec![]).await.unwrap_err().to_string();
    let shown: String = sql.chars().take(200).collect();
    assert!(error.ends_with(&format!("; in: {shown}…")), "{error}");
}

/// Nobody can change them, so their text would only be in the way.
async fn ours_are_told_without_them(db: Db) {
    let log = db.log().await;
    let workers = log.store().database().dialect().table("workers");
    let drop = vec![Statement::new(format!("DROP TABLE {workers}"), vec![])];
    log.store().database().begin().run(drop, End::Commit).await.unwrap();
    let error = Consumers::new(&log).workers().await.unwrap_err().to_string();
    assert!(error.contains("workers") && !error.contains("; in: "), "{error}");
}

/// SQLite would take a column that is not there for a text, and say nothing.
async fn a_name_in_double_quotes_is_never_a_text(db: Db) {
    let (log, w) = (with_event(&db).await, db.table("w"));
    let sql = format!("UPDATE {w} SET state = id WHERE \"stte\" <> 'failed'");
    let said = parked(&db, &log, &sql, vec![]).await;
    assert!(said.contains("stte") && said.ends_with(&format!("; in: {sql}")), "{said}");
    let sql = format!("SELECT id FROM {w} WHERE \"stte\" <> 'failed'");
    let said = log.query(&sql, vec![]).await.unwrap_err().to_string();
    assert!(said.contains("stte") && said.ends_with(&format!("; in: {sql}")), "{said}");
    let create = format!("CREATE TABLE {w}_2 (state TEXT CHECK (state <> \"failed\"))");
    let create = vec![Statement::new(create, vec![])];
    log.store().database().begin().run(create, End::Commit).await.unwrap_err();
    if is_sqlite(&log) {
        let said = log.query(&format!("SELECT * FROM {w} WHERE state = \"done\""), vec![]).await;
        let said = said.unwrap_err().to_string();
        assert!(said.contains("should this be a string literal in single-quotes?"), "{said}");
    }
}

async fn question_marks_are_told_from_values(db: Db) {
    let (log, w) = (with_event(&db).await, db.table("w"));
    let hint = "; values are written $1, $2, …; in: ";
    let insert = format!("INSERT INTO {w} (id, state) VALUES (?, ?)");
    if !is_sqlite(&log) {
        let said = parked(&db, &log, &insert, params!["1", "a"]).await;
        assert!(said.contains(hint), "{said}");
        for sql in ["SELECT 1 WHERE 1 = ?", "SELECT 1 WHERE 1 = ?1", "SELECT ? + 1"] {
            let said = log.query(sql, params![1]).await.unwrap_err().to_string();
            assert!(said.contains(hint), "{said}");
        }
        // One in a text is none, and a statement that has some may fail for another reason.
        for sql in ["SELECT '?' FRM x", "SELECT 1 FROM nope WHERE '{}'::jsonb ? 'a'", "SELEC -- ?"]
        {
            let said = log.query(&format!("WITH x AS (SELECT 1) {sql}"), vec![]).await;
            let said = said.unwrap_err().to_string();
            assert!(!said.contains(hint), "{said}");
        }
        return;
    }
    // SQLite would take the second value for both, and the first for none.
    let mixed = format!("INSERT INTO {w} (id, state) VALUES ($2, ?)");
    let said = parked(&db, &log, &mixed, params!["1", "a"]).await;
    assert!(said.contains(hint), "{said}");
    log.query("SELECT ? + ?", params![1, 2]).await.unwrap();
}
