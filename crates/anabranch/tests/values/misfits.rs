//! A value that does not fit is named: its place, its type, what was wanted, and the statement.

use crate::support::Db;
use crate::{on_both, on_postgres};
use anabranch::Value;
use anabranch::backend::RawTx;
use anabranch::backend::database::{End, InsertRows, Statement};
use anabranch::prelude::*;
use std::borrow::Cow;

on_both! {
    too_few_values_are_told_with_the_statement,
    a_year_that_has_no_text_is_refused,
}

on_postgres! {
    a_value_of_another_type_is_named,
    a_value_of_a_row_is_named,
    what_the_server_finds_is_told_with_the_statement,
    a_column_that_cannot_be_read_is_told_with_the_statement,
}

pub async fn refused(log: &Log, statement: Statement) -> String {
    let mut session = log.store().database().begin();
    let failed = session.run(vec![statement], End::Commit).await.unwrap_err();
    assert_eq!(failed.statement, Some(0));
    failed.to_string()
}

pub async fn with_table(db: &Db, columns: &str) -> (Log, String) {
    let (log, name) = (db.log().await, db.table("t"));
    let create = Statement::new(format!("CREATE TABLE {name} ({columns})"), vec![]);
    log.store().database().begin().run(vec![create], End::Commit).await.unwrap();
    (log, name)
}

pub fn rows(table: &str, columns: &'static [&'static str], rows: Vec<Vec<Value>>) -> Statement {
    let (table, conflict) = (Cow::Owned(table.to_owned()), Cow::Borrowed(""));
    let insert = InsertRows { table, columns: Cow::Borrowed(columns), conflict, rows };
    Statement::rows(insert)
}

async fn a_value_of_another_type_is_named(db: Db) {
    let columns = "id TEXT, amount BIGINT, small INT, day DATE, doc JSONB, tags BIGINT[], at INET";
    let (log, name) = with_table(&db, columns).await;
    let cases: [(&str, Value, &str); 8] = [
        ("amount", "three".into(), r#"$2 (bigint): the text "three" does not fit"#),
        (
            "small",
            3_000_000_000i64.into(),
            "$2 (integer): 3000000000 does not fit: it is out of range",
        ),
        ("amount", vec![1u8].into(), "$2 (bigint): 1 bytes does not fit: it is of another kind"),
        (
            "amount",
            vec![1i64].into(),
            "$2 (bigint): an array of 1 does not fit: no array goes there; there are bigint[] and jsonb",
        ),
        (
            "day",
            jiff::civil::time(9, 0, 0, 0).into(),
            r#"$2 (date): the text "09:00:00.000000" does not fit: "#,
        ),
        (
            "tags",
            vec!["1", "two"].into(),
            r#"$2, its value 2 (bigint): the text "two" does not fit"#,
        ),
        ("at", "::1".into(), r#"$2 (inet): the text "::1" does not fit: write $2::text::inet"#),
        ("amount", 1.5.into(), r#"$2 (bigint): 1.5 does not fit"#),
    ];
    for (column, value, expected) in cases {
        let sql = format!("INSERT INTO {name} (id,\n    {column}) VALUES ($1, $2)");
        let said = refused(&log, Statement::new(sql, params!["1", value])).await;
        let of = format!("; in: INSERT INTO {name} (id, {column}) VALUES ($1, $2)");
        assert!(said.starts_with(expected) && said.ends_with(&of), "{said}\n{expected}{of}");
    }
    // A long statement is cut, and so is a long value.
    let many = "x".repeat(300);
    let sql = format!("UPDATE {name} SET amount = $1 WHERE id = '{many}'");
    let said = refused(&log, Statement::new(sql.clone(), params![many.as_str()])).await;
    let expected =
        format!("$1 (bigint): the text \"{}…\" does not fit; in: {}…", &many[..40], &sql[..200]);
    assert_eq!(said, expected);
    // So a failing handler says it.
    let tx = &mut anabranch::Tx::on(&log.store().database(), std::time::Duration::from_secs(1));
    let sql = format!("SELECT id FROM {name} WHERE amount = $1");
    let error = tx.query(sql.clone(), params!["x"]).await.unwrap_err().to_string();
    let expected = r#"$1 (bigint): the text "x" does not fit; in: "#;
    assert_eq!(error, format!("{expected}{sql}"));
}

async fn a_value_of_a_row_is_named(db: Db) {
    let (log, name) = with_table(&db, "id TEXT, amount BIGINT").await;
    let insert = rows(&name, &["id", "amount"], vec![params!["a", 1], params!["b", "two"]]);
    assert_eq!(
        refused(&log, insert).await,
        format!(
            "row 2, column amount (bigint): the text \"two\" does not fit; \
             in: insert_rows into {name} (id, amount)"
        )
    );
}

async fn what_the_server_finds_is_told_with_the_statement(db: Db) {
    let (log, name) = with_table(&db, "id VARCHAR(3), doc JSONB").await;
    let sql = format!("INSERT INTO {name} VALUES ($1, $2)");
    let said = refused(&log, Statement::new(sql.clone(), params!["1", "{x"])).await;
    assert!(said.starts_with("$2: invalid input syntax for type json"), "{said}");
    assert!(said.ends_with(&format!("; in: {sql}")), "{said}");
    let said = refused(&log, Statement::new(sql.clone(), params!["1234", "{}"])).await;
    assert_eq!(said, format!("value too long for type character varying(3); in: {sql}"));
}

async fn a_column_that_cannot_be_read_is_told_with_the_statement(db: Db) {
    let said = refused(&db.log().await, Statement::query("SELECT 1, now() - now()", vec![])).await;
    let expected = "cannot read the type interval; cast it to text; in: SELECT 1, now() - now()";
    assert_eq!(said, expected);
}

async fn too_few_values_are_told_with_the_statement(db: Db) {
    let (log, name) = with_table(&db, "id TEXT, amount BIGINT").await;
    let sql = format!("INSERT INTO {name} VALUES ($1, $2)");
    let said = refused(&log, Statement::new(sql.clone(), params!["1"])).await;
    assert!(said.ends_with(&format!("; in: {sql}")), "{said}");
}

/// SQLite would keep no number, or another time, without a word.
async fn a_year_that_has_no_text_is_refused(db: Db) {
    let (log, name) = with_table(&db, "id TEXT, part DOUBLE PRECISION, at TEXT").await;
    let far = chrono::NaiveDate::from_ymd_opt(12_000, 1, 1).unwrap();
    let far = far.and_hms_opt(0, 0, 0).unwrap().and_utc();
    let sql = format!("INSERT INTO {name} (at) VALUES ($1)");
    let said = refused(&log, Statement::new(sql.clone(), params![far])).await;
    let place = match log.store().database().dialect().name() {
        "sqlite" => "$1",
        _ => "$1 (text)",
    };
    let micros = far.timestamp_micros();
    assert_eq!(
        said,
        format!(
            "{place}: the time {micros} µs after 1970 does not fit: years are from -9999 to 9999; in: {sql}"
        )
    );
    let nan = Statement::new(format!("INSERT INTO {name} (part) VALUES ($1)"), params![f64::NAN]);
    match log.store().database().dialect().name() {
        "sqlite" => {
            let said = refused(&log, nan).await;
            assert!(
                said.starts_with("$1: NaN does not fit: SQLite would store NULL; in: "),
                "{said}"
            );
            let row = rows(&name, &["id", "part"], vec![params!["1", f64::NAN]]);
            let said = refused(&log, row).await;
            let expected = "row 1, column part: NaN does not fit: SQLite would store NULL; in: ";
            assert!(said.starts_with(expected), "{said}");
        }
        _ => drop(log.store().database().begin().run(vec![nan], End::Commit).await.unwrap()),
    }
}
