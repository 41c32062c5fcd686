//! Values of rows go through a batch as they are, or the batch is refused.

use crate::records::Records;
use crate::support::*;
use crate::{on_both, on_postgres};
use anabranch::batch::{Batch, Source, SqlHandler};
use std::sync::{Arc, Mutex};

on_both!(the_json_of_a_row_says_what_is_in_it, a_column_named_twice_has_the_type_of_each_place,);
on_postgres!(a_row_without_end_is_copied_as_it_is);

async fn a_row_without_end_is_copied_as_it_is(db: Db) {
    let log = db.log().await;
    let [source, copy] = ["source", "copy"].map(|name| db.table(name));
    for table in [&source, &copy] {
        let columns = "id BIGINT PRIMARY KEY, valid_to TIMESTAMPTZ, day DATE, local TIMESTAMP";
        query(&log, &format!("CREATE TABLE {table} ({columns})"), vec![]).await;
    }
    let ends =
        "(1, 'infinity', '-infinity', 'infinity'), (2, '-infinity', 'infinity', '-infinity')";
    query(&log, &format!("INSERT INTO {source} VALUES {ends}"), vec![]).await;
    let handler =
        SqlHandler::parse(&format!("INSERT INTO {copy} VALUES (:id, :valid_to, :day, :local)"));
    let batch =
        Batch::new("copies", Source::table(source.as_str(), "id")).log_table(db.table("plog"));
    assert_eq!(batch.run(&log, handler.unwrap()).await.unwrap().succeeded, 2);
    let same = format!("SELECT count(*) FROM {source} NATURAL JOIN {copy}");
    assert_eq!(query(&log, &same, vec![]).await[0].get(0), Ok(2));
}

async fn a_column_named_twice_has_the_type_of_each_place(db: Db) {
    let log = db.log().await;
    let [source, copy] = ["source", "copy"].map(|name| db.table(name));
    query(&log, &format!("CREATE TABLE {source} (id BIGINT PRIMARY KEY)"), vec![]).await;
    query(&log, &format!("CREATE TABLE {copy} (id BIGINT, name TEXT)"), vec![]).await;
    query(&log, &format!("INSERT INTO {source} VALUES (7)"), vec![]).await;
    let sql = format!("INSERT INTO {copy} VALUES (:id /* not :x */, :id);");
    let batch =
        Batch::new("twice", Source::table(source.as_str(), "id")).log_table(db.table("plog"));
    let summary = batch.run(&log, SqlHandler::parse(&sql).unwrap()).await.unwrap();
    assert_eq!((summary.succeeded, summary.failed), (1, 0));
    let found = query(&log, &format!("SELECT id, name FROM {copy}"), vec![]).await;
    assert_eq!((found[0].get(0), found[0].get(1)), (Ok(7), Ok("7".to_owned())));
}

async fn the_json_of_a_row_says_what_is_in_it(db: Db) {
    let log = db.log().await;
    let (is_sqlite, records) = (db.url.starts_with("sqlite"), Records::of(&db));
    let (columns, values) = match is_sqlite {
        true => ("raw BLOB, part REAL, at TEXT", "x'00ff', 9e999, '9999-12-31T00:00:00.000000Z'"),
        false => (
            "raw BYTEA, part DOUBLE PRECISION, at TIMESTAMPTZ, without_end TIMESTAMPTZ, \
             nan REAL, far TIMESTAMPTZ",
            "'\\x00ff', 'Infinity', '9999-12-31Z', 'infinity', 'NaN', '20000-01-01Z'",
        ),
    };
    let create =
        format!("CREATE TABLE {} (id BIGINT PRIMARY KEY, body TEXT, {columns})", records.source);
    query(&log, &create, vec![]).await;
    records.create_copy(&log).await;
    query(&log, &format!("INSERT INTO {} VALUES (1, 'a', {values})", records.source), vec![]).await;
    let seen = Arc::new(Mutex::new(None));
    let (kept, of) = (Arc::clone(&seen), records.clone());
    let hooked = of.hook(move |record| {
        *kept.lock().unwrap() = Some(record.to_json());
        Ok(())
    });
    assert_eq!(records.batch().run(&log, hooked).await.unwrap().succeeded, 1);
    let mut expected = serde_json::json!({
        "id": 1, "body": "a", "raw": "00ff", "part": "Infinity", "at": "9999-12-31T00:00:00.000000Z",
    });
    if !is_sqlite {
        expected["without_end"] = "infinity".into();
        expected["nan"] = "NaN".into();
        expected["far"] = "568971820800000000 µs after 1970".into();
    }
    assert_eq!(seen.lock().unwrap().take().unwrap(), expected);
}

const NAME: &str = "CAST(x'4dfc6c6c6572' AS TEXT)";

/// Read as another text and written back, it would be destroyed.
#[tokio::test]
async fn text_that_is_not_utf_8_refuses_the_batch_and_is_left_alone() {
    let db = Db::sqlite();
    let log = db.log().await;
    query(&log, "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)", vec![]).await;
    query(&log, &format!("INSERT INTO people VALUES (1, {NAME})"), vec![]).await;
    let update = SqlHandler::parse("UPDATE people SET name = CAST(:name AS TEXT) WHERE id = :id");
    let update = update.unwrap();
    let batch = Batch::new("names", Source::table("people", "id"));
    let said = batch.run(&log, update.clone()).await.unwrap_err().to_string();
    assert!(said.contains("column name is not valid UTF-8 text"), "{said}");
    let hex = async || query(&log, "SELECT hex(name) FROM people", vec![]).await[0].get(0);
    assert_eq!(hex().await, Ok("4DFC6C6C6572".to_owned()));
    assert_eq!(batch.verify(&log).await.unwrap().succeeded, 0);
    // As its bytes it goes through.
    let bytes = Source::query("SELECT id, CAST(name AS BLOB) AS name FROM people", "id");
    let batch = Batch::new("bytes", bytes).assume_unique();
    assert_eq!(batch.run(&log, update).await.unwrap().succeeded, 1);
    assert_eq!(hex().await, Ok("4DFC6C6C6572".to_owned()));
}

#[tokio::test]
async fn a_key_that_is_not_utf_8_is_refused_before_its_row_is_handled() {
    let db = Db::sqlite();
    let log = db.log().await;
    query(&log, "CREATE TABLE people (name TEXT NOT NULL PRIMARY KEY)", vec![]).await;
    query(&log, "CREATE TABLE seen (name TEXT)", vec![]).await;
    query(&log, &format!("INSERT INTO people VALUES ({NAME})"), vec![]).await;
    let batch = Batch::new("names", Source::table("people", "name"));
    let insert = SqlHandler::parse("INSERT INTO seen VALUES (:name)").unwrap();
    let said = batch.run(&log, insert.clone()).await.unwrap_err().to_string();
    let expected = ["cannot read key `name` of people", "is not valid UTF-8 text"];
    assert!(expected.iter().all(|part| said.contains(part)), "{said}");
    // Also among others.
    query(&log, "DELETE FROM people", vec![]).await;
    query(&log, &format!("INSERT INTO people VALUES ('A'), ({NAME})"), vec![]).await;
    let said = batch.run(&log, insert).await.unwrap_err().to_string();
    assert!(said.contains("column name is not valid UTF-8 text"), "{said}");
    assert_eq!(number(&log, "SELECT count(*) FROM seen").await, 0);
    assert_eq!(number(&log, "SELECT count(*) FROM processing_log").await, 0);
}
