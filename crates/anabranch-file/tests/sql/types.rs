//! Values take the type that the statement asks for, or are refused.

use crate::running::{catch_up, projection, rows};
use crate::support::Db;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use serde_json::{Value, json};

async fn append(log: &Log, stream: &str, data: &str) {
    let stream: StreamId = stream.parse().unwrap();
    let event = NewEvent::from_json("Placed", data.to_owned());
    log.append(&stream, Expected::Any, [event]).await.unwrap();
}

#[tokio::test]
async fn values_take_the_types_of_columns() {
    let db = Db::postgres();
    let log = db.log().await;
    let file = projection(
        &db,
        r#"
setup = '''
CREATE TYPE state@ AS ENUM ('open', 'paid');
CREATE DOMAIN cents@ AS BIGINT CHECK (VALUE >= 0);
CREATE TABLE f@ (u UUID, n NUMERIC, t TIMESTAMPTZ, d DATE, j JSONB, e state@, c cents@, a TEXT[], i INTEGER[], b BOOLEAN,
    r DOUBLE PRECISION, objects JSONB, tags TEXT[], whole JSONB, small SMALLINT)
'''
on.Placed = '''
INSERT INTO f@ VALUES (:data.u, :data.n, :data.t, :data.d, :data.j, :data.e, :data.c, :data.a, :data.i, :data.b, :data.r,
    :data.objects, :tags, :data, :data.small)
'''
"#,
    );
    let data = r#"{"u": "0199c0de-0000-7000-8000-000000000001", "n": 12345678901234567890.123456789, "t":
        "2026-11-16T09:00:00+01:00", "d": "2026-11-16", "j": {"deep": [1, {"x": null}]}, "e": "paid", "c": 9007199254740993,
        "a": ["x", "it's"], "i": [1, 2], "b": true, "r": 0.1, "objects": [{"a": 1}], "small": 7}"#;
    append(&log, "Order:1", data).await;
    catch_up(&file, &log).await.unwrap();
    let found = rows(
        &db,
        &log,
        "SELECT u::text, n::text, (t AT TIME ZONE 'UTC')::text, d::text, j::text, e::text, c, a::text, i::text, b, r, \
         objects::text, tags::text, whole->>'n', small FROM f@",
    )
    .await;
    let found: Vec<Value> = found[0].iter().map(anabranch::Value::to_json).collect();
    assert_eq!(
        Value::from(found),
        json!([
            "0199c0de-0000-7000-8000-000000000001",
            "12345678901234567890.123456789",
            "2026-11-16 08:00:00",
            "2026-11-16",
            "{\"deep\": [1, {\"x\": null}]}",
            "paid",
            9_007_199_254_740_993_i64,
            "{x,it's}",
            "{1,2}",
            true,
            0.1,
            "[{\"a\": 1}]",
            "{}",
            "12345678901234567890.123456789",
            7,
        ])
    );
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_named() {
    for (db, strict) in [(Db::sqlite(), " STRICT"), (Db::postgres(), "")] {
        let log = db.log().await;
        let file = projection(
            &db,
            &format!(
                "setup = 'CREATE TABLE f@ (id TEXT PRIMARY KEY, n INTEGER){strict}'\nretry = {{ attempts = 1 }}\n\
                 on.Placed = 'INSERT INTO f@ VALUES (:stream_id, :data.n)'\n"
            ),
        );
        append(&log, "Order:1", r#"{"n": 1}"#).await;
        append(&log, "Order:2", r#"{"n": "three"}"#).await;
        append(&log, "Order:3", r#"{"n": 1.5}"#).await;
        append(&log, "Order:4", r#"{"n": {"a": 1}}"#).await;
        append(&log, "Order:5", r#"{"n": 2}"#).await;
        catch_up(&file, &log).await.unwrap_err();
        let found = rows(&db, &log, "SELECT id, n FROM f@ ORDER BY id").await;
        assert_eq!(found.len(), 2, "{found:?}");
        let name = format!("totals_{}", db.own);
        let parked = Consumers::new(&log).parked(&name).await.unwrap();
        assert_eq!(parked.len(), 3, "{parked:?}");
        for key in &parked {
            // The name in the file, and its line; not `$2`.
            let error = &key.error;
            assert!(error.contains(":data.n ") && error.contains("; in case.toml:9"), "{error}");
            assert!(!error.contains('$') && !error.contains("digit"), "{error}");
        }
        if strict.is_empty() {
            let said = |key: &anabranch::operate::Parked| key.key == "Order:3";
            let error = &parked.iter().find(|key| said(key)).unwrap().error;
            assert_eq!(error, ":data.n (integer): 1.5 does not fit; in case.toml:9");
        }
    }
}

#[tokio::test]
async fn a_statement_has_a_form_for_each_database() {
    for db in [Db::sqlite(), Db::postgres()] {
        let log = db.log().await;
        let file = projection(
            &db,
            r#"
setup = { sqlite = ['CREATE TABLE f@ (what TEXT)'], postgres = 'CREATE TABLE f@ (what VARCHAR(9))' }
on.Placed = { sqlite = "INSERT INTO f@ SELECT 'sqlite' || json_extract(:data, '$.n')", postgres = "INSERT INTO f@ SELECT 'postgres'::text || :data.n::bigint" }
"#,
        );
        append(&log, "Order:1", r#"{"n": 1}"#).await;
        catch_up(&file, &log).await.unwrap();
        let found = rows(&db, &log, "SELECT what FROM f@").await;
        let name = log.database().dialect().name();
        assert_eq!(found[0][0], anabranch::Value::from(format!("{name}1")));
    }
}

#[tokio::test]
async fn json_goes_into_json_as_it_is() {
    let db = Db::postgres();
    let log = db.log().await;
    let file = projection(
        &db,
        "setup = 'CREATE TABLE f@ (id TEXT, j JSONB, o JSON, whole JSONB, list JSONB[])'\n\
         on.Placed = 'INSERT INTO f@ VALUES (:stream_id, :data.x, :data.x, :data, ARRAY[CAST(:data.x AS JSONB)])'\n",
    );
    let values = [
        "\"123\"",
        "\"hello\"",
        "\"\\\"{}\"",
        "true",
        "false",
        "7",
        "1.50",
        "12345678901234567890.12",
        "[\"1\", true]",
    ];
    for (number, value) in values.iter().enumerate() {
        append(&log, &format!("Order:{number}"), &format!("{{\"x\": {value}}}")).await;
    }
    catch_up(&file, &log).await.unwrap();
    let sql =
        "SELECT j::text, o::jsonb::text, (whole->'x')::text, list[1]::text FROM f@ ORDER BY id";
    let found = rows(&db, &log, sql).await;
    let expected = [
        "\"123\"",
        "\"hello\"",
        "\"\\\"{}\"",
        "true",
        "false",
        "7",
        "1.5",
        "12345678901234567890.12",
        "[\"1\", true]",
    ];
    assert_eq!(found.len(), expected.len());
    for (row, expected) in found.iter().zip(expected) {
        for value in row {
            let text: Value = value.to_json();
            let text = text.as_str().unwrap();
            assert!(text == expected || text == "1.50", "{row:?} is not {expected}");
        }
    }
}

#[tokio::test]
async fn all_of_the_data_is_json_also_where_it_is_no_object() {
    for db in [Db::sqlite(), Db::postgres()] {
        let log = db.log().await;
        let column = if log.database().dialect().name() == "sqlite" { "TEXT" } else { "JSONB" };
        let file = projection(
            &db,
            &format!(
                "setup = 'CREATE TABLE f@ (id TEXT, j {column} NOT NULL)'\n\
                 on.Placed = 'INSERT INTO f@ VALUES (:stream_id, :data)'\n"
            ),
        );
        let values = ["\"abc\"", "true", "7", "null", "[1]", "{\"a\":\"b\"}"];
        for (number, value) in values.iter().enumerate() {
            append(&log, &format!("Order:{number}"), value).await;
        }
        catch_up(&file, &log).await.unwrap();
        let found = rows(&db, &log, "SELECT CAST(j AS TEXT) FROM f@ ORDER BY id").await;
        let found: Vec<Value> = found.iter().map(|row| row[0].to_json()).collect();
        let text = |value: &Value| value.as_str().unwrap().replace(' ', "");
        assert_eq!(found.iter().map(text).collect::<Vec<_>>(), values, "{}", db.url);
    }
}
