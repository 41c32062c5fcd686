//! Types of other crates go in and come back, whichever crate they are of.

use crate::on_both;
use crate::support::{Db, query};
use anabranch::Value;
use anabranch::backend::RawTx;
use anabranch::backend::database::{End, Statement};
use anabranch::prelude::*;
use anabranch::value::{FromValue, Row};
use rust_decimal::Decimal;

on_both! {
    times_come_back_in_the_types_of_every_crate,
    decimals_are_exact,
    arrays_come_back,
    a_time_without_a_zone_is_read_as_utc,
}

/// A table with one column of each type, as each database has them.
pub async fn table(log: &Log, name: &str, postgres: &str, sqlite: &str) {
    let columns = match log.store().database().dialect().name() {
        "sqlite" => sqlite,
        _ => postgres,
    };
    run(log, format!("CREATE TABLE {name} ({columns})"), vec![]).await.unwrap();
}

pub async fn run(log: &Log, sql: String, values: Vec<Value>) -> HandlerResult {
    let mut session = log.store().database().begin();
    session.run(vec![Statement::new(sql, values)], End::Commit).await?;
    Ok(())
}

async fn times_come_back_in_the_types_of_every_crate(db: Db) {
    let (log, name) = (db.log().await, db.table("times"));
    let postgres = "at TIMESTAMPTZ, local TIMESTAMP, day DATE, hour TIME";
    table(&log, &name, postgres, "at TEXT, local TEXT, day TEXT, hour TEXT").await;
    let moment: jiff::Timestamp = "2024-02-29T23:59:59.000001Z".parse().unwrap();
    let (local, day, hour) = {
        let utc = moment.to_zoned(jiff::tz::TimeZone::UTC).datetime();
        (utc, utc.date(), utc.time())
    };
    let chronos = {
        let at = chrono::DateTime::from_timestamp_micros(moment.as_microsecond()).unwrap();
        (at, at.naive_utc(), at.date_naive(), at.time())
    };
    let offset = chrono::FixedOffset::east_opt(3600).unwrap();
    let times = {
        let at = time::OffsetDateTime::from_unix_timestamp_nanos(moment.as_nanosecond()).unwrap();
        (at, time::PrimitiveDateTime::new(at.date(), at.time()), at.date(), at.time())
    };
    let rows = [
        params![moment, local, day, hour],
        params![chronos.0, chronos.1, chronos.2, chronos.3],
        params![
            chronos.0.with_timezone(&offset),
            Some(chronos.1),
            &chronos.2.to_string(),
            chronos.3
        ],
        params![times.0, times.1, times.2, times.3],
    ];
    for row in rows {
        run(&log, format!("INSERT INTO {name} VALUES ($1, $2, $3, $4)"), row).await.unwrap();
    }
    fn all<A, B, C, D>(row: &Row) -> (A, B, C, D)
    where
        A: FromValue,
        B: FromValue,
        C: FromValue,
        D: FromValue,
    {
        (
            row.get("at").unwrap(),
            row.get("local").unwrap(),
            row.get("day").unwrap(),
            row.get("hour").unwrap(),
        )
    }
    let rows = query(&log, &format!("SELECT * FROM {name}"), vec![]).await;
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!(all(row), (moment, local, day, hour));
        assert_eq!(all(row), chronos);
        assert_eq!(all(row), times);
    }
    // They sort and compare as what they are.
    let count = format!("SELECT count(*) FROM {name} WHERE at >= $1 AND day <= $2 AND hour > $3");
    let noon = chrono::NaiveTime::from_hms_opt(12, 0, 0).unwrap();
    let found = query(&log, &count, params![times.0, chronos.2, noon]).await;
    assert_eq!(found[0].get(0), Ok(4));
}

async fn decimals_are_exact(db: Db) {
    let (log, name) = (db.log().await, db.table("amounts"));
    table(&log, &name, "amount NUMERIC, part DOUBLE PRECISION", "amount TEXT, part REAL").await;
    let amounts: Vec<Decimal> =
        ["19.95", "-0.01", "79228162514264337593543950335", "1.10", "0", "100000000.00000001"]
            .map(|amount| amount.parse().unwrap())
            .to_vec();
    for amount in &amounts {
        let insert = format!("INSERT INTO {name} VALUES ($1, $2)");
        run(&log, insert, params![*amount, 0.1]).await.unwrap();
    }
    let rows = query(&log, &format!("SELECT * FROM {name}"), vec![]).await;
    let found: Vec<Decimal> = rows.iter().map(|row| row.get("amount").unwrap()).collect();
    assert_eq!(found, amounts);
    assert_eq!(found[3].to_string(), "1.10");
    let error = rows[0].get::<Decimal>("part").unwrap_err().to_string();
    assert!(error.starts_with("column part: is 0.1, a floating-point number"), "{error}");
}

async fn arrays_come_back(db: Db) {
    let (log, name) = (db.log().await, db.table("arrays"));
    let postgres =
        "tags TEXT[], counts BIGINT[], amounts NUMERIC[], days DATE[], ids UUID[], doc JSONB";
    let sqlite = "tags TEXT, counts TEXT, amounts TEXT, days TEXT, ids TEXT, doc TEXT";
    table(&log, &name, postgres, sqlite).await;
    let tags = vec!["a".to_owned(), "späti \"quoted\", {x}".to_owned(), String::new()];
    let counts = vec![Some(1), None, Some(i64::MAX)];
    let amounts: Vec<Decimal> = vec!["1.10".parse().unwrap(), "-2".parse().unwrap()];
    let days = vec![jiff::civil::date(2024, 2, 29)];
    let ids = vec![uuid::Uuid::now_v7()];
    let values =
        params![&tags, counts.clone(), amounts.clone(), days.clone(), ids.clone(), vec![1, 2]];
    let insert = format!("INSERT INTO {name} VALUES ($1, $2, $3, $4, $5, $6)");
    run(&log, insert.clone(), values.clone()).await.unwrap();
    let mut tx = anabranch::Tx::on(&log.store().database(), std::time::Duration::from_secs(5));
    let columns = &["tags", "counts", "amounts", "days", "ids", "doc"];
    let set_wise = vec![values, vec![Value::Null; 6]];
    tx.insert_rows(&name, columns, set_wise, "").await.unwrap();
    let select = &format!("SELECT * FROM {name} WHERE tags IS NOT NULL");
    let rows = tx.query(select, vec![]).await.unwrap();
    drop(tx);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0], rows[1], "one by one and set-wise");
    let none = Vec::<String>::new();
    run(
        &log,
        insert,
        params![none, Value::Null, Value::Null, Value::Null, Value::Null, Value::Null],
    )
    .await
    .unwrap();
    let rows = query(&log, &format!("SELECT * FROM {name} ORDER BY counts IS NULL"), vec![]).await;
    assert_eq!(rows[0].get("tags"), Ok(tags.clone()));
    assert_eq!(rows[0].get("counts"), Ok(counts));
    assert_eq!(rows[0].get("amounts"), Ok(amounts));
    assert_eq!(rows[0].get("days"), Ok(days));
    assert_eq!(rows[0].get("ids"), Ok(ids));
    assert_eq!(rows[0].get("doc"), Ok(vec![1u32, 2]));
    assert_eq!(rows[1].get("tags"), Ok(Vec::<String>::new()));
    assert_eq!(rows[1].get("counts"), Ok(None::<Vec<i64>>));
    let error = rows[0].get::<Vec<i64>>("counts").unwrap_err().to_string();
    assert_eq!(error, "column counts: its value 2 is null, not a whole number");
    // One of several, the way each database asks for it.
    let among = match log.store().database().dialect().name() {
        "sqlite" => "$1 IN (SELECT value FROM json_each($2))",
        _ => "$1::text = ANY ($2::text[])",
    };
    let found =
        query(&log, &format!("SELECT {among} AS found"), params!["a", tags.as_slice()]).await;
    assert_eq!(found[0].get("found"), Ok(true));
}

async fn a_time_without_a_zone_is_read_as_utc(db: Db) {
    let log = db.log().await;
    let now = "SELECT CAST('2026-11-15 09:16:47' AS TEXT) AS said, CURRENT_TIMESTAMP AS now";
    let rows = query(&log, now, vec![]).await;
    let said: chrono::DateTime<chrono::Utc> = rows[0].get("said").unwrap();
    assert_eq!(said.to_rfc3339(), "2026-11-15T09:16:47+00:00");
    let (now, here) = (rows[0].get::<jiff::Timestamp>("now").unwrap(), jiff::Timestamp::now());
    assert!(now.duration_until(here).abs() < jiff::SignedDuration::from_mins(5), "{now} {here}");
}
