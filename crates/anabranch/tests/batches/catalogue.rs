//! What the catalogue shows of a key, and what it does not; and keys that are gone through in an order of
//! their own.

use crate::on_both;
use crate::records::Records;
use crate::support::*;
use anabranch::batch::{Batch, Source, SqlHandler};
use anabranch::prelude::*;

on_both!(names_are_found_as_the_database_finds_them);

/// What is made, and what is said of the key `id` of table `t` then: nothing, if it is shown unique.
type Case = (&'static str, &'static str);

const ON_SQLITE: [Case; 18] = [
    ("CREATE TABLE @t (id INTEGER PRIMARY KEY)", ""),
    ("CREATE TABLE @t (id INTEGER PRIMARY KEY DESC)", ""),
    ("CREATE TABLE @t (ID integer, PRIMARY KEY (id))", ""),
    ("CREATE TABLE @t (id TEXT PRIMARY KEY)", ""),
    ("CREATE TABLE @t (id TEXT PRIMARY KEY) WITHOUT ROWID", ""),
    ("CREATE TABLE @t (id INT PRIMARY KEY) STRICT", ""),
    ("CREATE TABLE @t (id TEXT NOT NULL UNIQUE)", ""),
    ("CREATE TABLE @t (id TEXT UNIQUE)", "may hold NULL"),
    ("CREATE TABLE @t (id TEXT NOT NULL)", "no unique index"),
    ("CREATE TABLE @t (id TEXT NOT NULL); CREATE INDEX i ON @t (id)", "no unique index"),
    ("CREATE TABLE @t (id INT NOT NULL, x INT, PRIMARY KEY (id, x))", "more than this column"),
    ("CREATE TABLE @t (x INT, id INT NOT NULL, PRIMARY KEY (x))", "no unique index"),
    ("CREATE TABLE @t (id INT NOT NULL); CREATE UNIQUE INDEX i ON @t (id) WHERE id > 5", "partial"),
    ("CREATE TABLE @t (id INT NOT NULL); CREATE UNIQUE INDEX i ON @t (id + 0)", "no unique index"),
    ("CREATE TABLE @t (id INT NOT NULL, x INT); CREATE UNIQUE INDEX i ON @t (x, id)", "more than"),
    ("CREATE TABLE @u (id INTEGER PRIMARY KEY); CREATE VIEW @t AS SELECT * FROM @u", "is a view"),
    ("CREATE TABLE @t (x INT)", "cannot read key"),
    ("SELECT 1", "cannot read key"),
];

const ON_POSTGRES: [Case; 21] = [
    ("CREATE TABLE @t (id bigint PRIMARY KEY)", ""),
    ("CREATE TABLE @t (id text PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)", ""),
    ("CREATE TABLE @t (id uuid NOT NULL UNIQUE)", ""),
    ("CREATE TABLE @t (id int NOT NULL, x int); CREATE UNIQUE INDEX ON @t (id) INCLUDE (x)", ""),
    ("CREATE TABLE @t (id int PRIMARY KEY) PARTITION BY RANGE (id)", ""),
    ("CREATE TABLE @t (id numeric PRIMARY KEY)", ""),
    ("CREATE DOMAIN @d AS text; CREATE TABLE @t (id @d PRIMARY KEY)", ""),
    ("CREATE TYPE @e AS ENUM ('a', 'b'); CREATE TABLE @t (id @e PRIMARY KEY)", ""),
    ("CREATE TABLE @t (id int UNIQUE)", "may hold NULL"),
    ("CREATE TABLE @t (id int UNIQUE NULLS NOT DISTINCT)", "may hold NULL"),
    ("CREATE TABLE @t (id int NOT NULL)", "no unique index"),
    ("CREATE TABLE @t (id int, x int, PRIMARY KEY (id, x))", "more than this column"),
    ("CREATE TABLE @t (id int NOT NULL); CREATE UNIQUE INDEX ON @t (id) WHERE id > 5", "partial"),
    ("CREATE TABLE @t (id int NOT NULL); CREATE UNIQUE INDEX ON @t ((id + 0))", "no unique index"),
    (
        "CREATE TABLE @t (id int NOT NULL UNIQUE); UPDATE pg_index SET indisvalid = false \
         WHERE indrelid = '@t'::regclass",
        "is not valid",
    ),
    ("CREATE TABLE @t (id int PRIMARY KEY); CREATE TABLE @u () INHERITS (@t)", "inherit"),
    ("CREATE TABLE @u (id int PRIMARY KEY); CREATE VIEW @t AS SELECT * FROM @u", "is a view"),
    (
        "CREATE COLLATION @c (provider = icu, locale = 'und-u-ks-level2', deterministic = false); \
         CREATE TABLE @t (id text COLLATE @c NOT NULL); CREATE UNIQUE INDEX ON @t (id COLLATE \"C\")",
        "another collation",
    ),
    ("CREATE TABLE @t (id timestamptz PRIMARY KEY)", "is of type timestamp with time zone"),
    ("CREATE TABLE @t (id date PRIMARY KEY)", "is of type date"),
    ("CREATE TABLE @t (id float8 PRIMARY KEY)", "is of type double precision"),
];

/// Makes what a case says, `@` being where, and says what came of a run. The table is empty: only what is shown
/// of it decides.
async fn run(db: &Db, at: &str, table: &str, create: &str) -> String {
    let log = db.log().await;
    for create in create.split("; ") {
        query(&log, &create.replace('@', at), vec![]).await;
    }
    let batch = Batch::new(table, Source::table(table, "id"));
    let log_table = db.table("plog");
    let nothing = SqlHandler::parse("SELECT 1").unwrap();
    let ran = batch.log_table(log_table).run(&log, nothing).await;
    ran.err().map(|error| error.to_string()).unwrap_or_default()
}

fn check((create, wanted): Case, said: &str) {
    let is_right = if wanted.is_empty() { said.is_empty() } else { said.contains(wanted) };
    assert!(is_right, "{create}: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sqlite_shows() {
    for case in ON_SQLITE {
        check(case, &run(&Db::sqlite(), "", "t", case.0).await);
        check(case, &run(&Db::sqlite(), "", "main.T", case.0).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_postgres_shows() {
    let db = Db::postgres();
    let log = db.log().await;
    for (number, case) in ON_POSTGRES.into_iter().enumerate() {
        let schema = format!("{}_{number}", db.own);
        query(&log, &format!("CREATE SCHEMA {schema}"), vec![]).await;
        check(case, &run(&db, &format!("{schema}."), &format!("{schema}.t"), case.0).await);
        query(&log, &format!("DROP SCHEMA {schema} CASCADE"), vec![]).await;
    }
}

async fn names_are_found_as_the_database_finds_them(db: Db) {
    let log = db.log().await;
    let name = format!("It's \"{}\"", db.own);
    let quoted = name.replace('"', "\"\"");
    let create = format!("CREATE TABLE \"{quoted}\" (\"the \"\"Key\" bigint NOT NULL UNIQUE)");
    query(&log, &create, vec![]).await;
    query(&log, &format!("INSERT INTO \"{quoted}\" VALUES (1), (2)"), vec![]).await;
    let batch = Batch::new("job", Source::table(name, "the \"Key")).log_table(db.table("plog"));
    let nothing = SqlHandler::parse("SELECT 1").unwrap();
    assert_eq!(batch.run(&log, nothing).await.unwrap().succeeded, 2);
    assert!(batch.verify(&log).await.unwrap().violations(true).is_empty());
    query(&log, &format!("DROP TABLE \"{quoted}\""), vec![]).await;
}

/// Keys that differ by case only, which the collation of the column takes for equal or not.
const CASES: [&str; 8] = ["a", "A", "b", "B", "c", "C", "d", "D"];

async fn all_cases_are_handled(log: &Log, records: &Records, batch: Batch) {
    for key in CASES {
        let insert = format!("INSERT INTO {} VALUES ($1, $2)", records.source);
        query(log, &insert, params![key, key]).await;
    }
    let batch = batch.batch_size(1).workers(1);
    let summary = batch.run(log, records.clone()).await.unwrap();
    assert_eq!(summary.succeeded, 8);
    assert_eq!(records.copied(log).await, (8, 0));
    let verified = batch.verify(log).await.unwrap();
    assert!(verified.violations(true).is_empty(), "{verified:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_pages_go_by_the_collation_that_is_unique() {
    let db = Db::sqlite();
    let log = db.log().await;
    let nocase = "id TEXT COLLATE NOCASE NOT NULL";
    let records = Records::with_key(&db, &log, "shown", nocase, []).await;
    let index = format!("CREATE UNIQUE INDEX i ON {} (id COLLATE BINARY)", records.source);
    query(&log, &index, vec![]).await;
    all_cases_are_handled(&log, &records, records.batch()).await;
    // By that of the log, if nothing is shown.
    let records = Records::with_key(&db, &log, "assumed", nocase, []).await;
    all_cases_are_handled(&log, &records, records.batch().assume_unique()).await;
    // So rows alike stand side by side, whatever stands between them by the collation of the column.
    let records = Records::with_key(&db, &log, "alike", nocase, []).await;
    let insert =
        format!("INSERT INTO {} VALUES ('a', '1'), ('A', '2'), ('a', '3')", records.source);
    query(&log, &insert, vec![]).await;
    for size in [1, 100] {
        let batch = records.batch().assume_unique().batch_size(size);
        let said = batch.run(&log, records.clone()).await.unwrap_err().to_string();
        assert!(said.contains("share their key `id`: a."), "{said}");
        let handled = format!("SELECT count(*) FROM {} WHERE id = 'a'", records.copy);
        assert_eq!(number(&log, &handled).await, 0, "{size}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_a_collation_that_equates_texts_is_refused_and_others_work() {
    let db = Db::postgres();
    let log = db.log().await;
    let plain = "id text COLLATE \"C\" PRIMARY KEY";
    let records = Records::with_key(&db, &log, "plain", plain, []).await;
    all_cases_are_handled(&log, &records, records.batch()).await;
    let collation = db.table("nocase");
    let create = format!(
        "CREATE COLLATION {collation} (provider = icu, locale = 'und-u-ks-level2', \
         deterministic = false)"
    );
    query(&log, &create, vec![]).await;
    let nocase = format!("id text COLLATE {collation} NOT NULL");
    let records = Records::with_key(&db, &log, "nocase", &nocase, []).await;
    let batch = records.batch().assume_unique();
    let said = batch.run(&log, records.clone()).await.unwrap_err().to_string();
    assert!(said.contains("takes different texts for equal"), "{said}");
    let select = format!("SELECT id COLLATE \"C\" AS id, body FROM {}", records.source);
    let batch = Batch::new("copy", Source::query(select, "id")).log_table(&records.log_table);
    all_cases_are_handled(&log, &records, batch.assume_unique()).await;
    // Equal to the database, and two texts.
    let records = Records::with_key(&db, &log, "numeric", "id numeric", []).await;
    let said = records.batch().assume_unique().run(&log, records.clone()).await.unwrap_err();
    assert!(said.to_string().contains("1.0 and 1.00"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_keys_of_two_kinds_are_refused() {
    let db = Db::sqlite();
    let log = db.log().await;
    // The index takes them for two, the log for one.
    let records = Records::with_key(&db, &log, "kinds", "id NOT NULL UNIQUE", 1..=20).await;
    let late = format!("INSERT INTO {} VALUES ('7', 'late')", records.source);
    let handler = SqlHandler::parse(&late).unwrap();
    let batch = records.batch().limit(1).workers(1);
    batch.run(&log, handler).await.unwrap();
    let said = records.batch().run(&log, records.clone()).await.unwrap_err().to_string();
    assert!(said.contains("holds integer and text"), "{said}");
    query(&log, &format!("DELETE FROM {} WHERE id = '7'", records.source), vec![]).await;
    // One that comes while it runs.
    let late = format!("INSERT OR IGNORE INTO {} VALUES ('70', 'late')", records.source);
    let handler = SqlHandler::parse(&late).unwrap();
    let said = records.batch().batch_size(1).workers(1).run(&log, handler).await.unwrap_err();
    assert!(said.to_string().contains("text in some rows and a number in others"), "{said}");
    let bytes = Records::with_key(&db, &log, "bytes", "id BLOB PRIMARY KEY", []).await;
    query(&log, &format!("INSERT INTO {} VALUES (x'31', 'x')", bytes.source), vec![]).await;
    let said = bytes.batch().run(&log, bytes.clone()).await.unwrap_err().to_string();
    assert!(said.contains("holds blob"), "{said}");
}
