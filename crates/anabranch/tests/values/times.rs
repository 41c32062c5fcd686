//! Times are stored as they are or refused: nothing is cut off, and the ends of time come back.

use crate::misfits::{refused, rows, with_table};
use crate::support::{Db, query};
use crate::types::run;
use crate::{on_both, on_postgres};
use anabranch::Value;
use anabranch::backend::database::{End, Statement};
use anabranch::prelude::*;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Utc};

on_both! {
    the_last_day_of_9999_comes_back,
    a_year_of_five_digits_comes_back_or_is_refused,
    a_leap_second_is_never_another_second,
    an_offset_is_never_dropped,
}

on_postgres! {
    infinity_goes_through_a_program_and_comes_back,
    a_time_is_not_cut_to_a_date_or_an_hour,
    a_moment_that_cannot_be_counted_is_refused,
}

const ALL: &str = "at TIMESTAMPTZ, local TIMESTAMP, day DATE, hour TIME";

/// The same columns, as the database has them.
async fn times(db: &Db) -> (Log, String) {
    let columns = match db.url.starts_with("sqlite") {
        true => "at TEXT, local TEXT, day TEXT, hour TEXT",
        false => ALL,
    };
    with_table(db, columns).await
}

async fn infinity_goes_through_a_program_and_comes_back(db: Db) {
    let columns = "at TIMESTAMPTZ, local TIMESTAMP, day DATE, all_of_it TIMESTAMPTZ[]";
    let (log, name) = with_table(&db, columns).await;
    let ends = format!(
        "INSERT INTO {name} VALUES ('infinity', '-infinity', 'infinity', '{{infinity,-infinity}}')"
    );
    run(&log, ends, vec![]).await.unwrap();
    let row = &query(&log, &format!("SELECT * FROM {name}"), vec![]).await[0];
    let error = row.get::<DateTime<Utc>>("at").unwrap_err().to_string();
    assert_eq!(error, "column at: is infinity, which is not a time; read it as text");
    for error in [
        row.get::<NaiveDateTime>("local").unwrap_err(),
        row.get::<Option<NaiveDateTime>>("local").map(drop).unwrap_err(),
        row.get::<time::PrimitiveDateTime>("local").unwrap_err(),
        row.get::<jiff::civil::DateTime>("local").unwrap_err(),
    ] {
        assert!(error.to_string().contains("is -infinity, which is not"), "{error}");
    }
    let error = row.get::<NaiveDate>("day").unwrap_err().to_string();
    assert_eq!(error, "column day: is infinity, which is not a date; read it as text");
    assert_eq!(row.get("at"), Ok("infinity".to_owned()));
    // Written again, in both ways.
    let values: Vec<Value> = row.iter().map(|(_, value)| value.clone()).collect();
    let insert = format!("INSERT INTO {name} VALUES ($1, $2, $3, $4)");
    run(&log, insert, values.clone()).await.unwrap();
    let row = rows(&name, &["at", "local", "day", "all_of_it"], vec![values]);
    log.store().database().begin().run(vec![row], End::Commit).await.unwrap();
    let same = format!(
        "SELECT count(*) FROM {name} WHERE at = 'infinity' AND local = '-infinity' AND \
         day = 'infinity' AND all_of_it = '{{infinity,-infinity}}'"
    );
    assert_eq!(query(&log, &same, vec![]).await[0].get(0), Ok(3));
}

/// The usual "no end". Jiff's range ends a day before.
async fn the_last_day_of_9999_comes_back(db: Db) {
    let (log, name) = times(&db).await;
    let at = Utc.with_ymd_and_hms(9999, 12, 31, 23, 59, 59).unwrap();
    let other = time::OffsetDateTime::from_unix_timestamp(at.timestamp()).unwrap();
    let local = at.naive_utc();
    let insert = format!("INSERT INTO {name} (at, local, day) VALUES ($1, $2, $3)");
    for values in [
        params![at, local, local.date()],
        params![other, time::PrimitiveDateTime::new(other.date(), other.time()), other.date()],
        params!["9999-12-31T23:59:59Z", "9999-12-31T23:59:59", "9999-12-31"],
        params!["9999-12-31T22:59:59-01:00", "9999-12-31 23:59:59", "9999-12-31"],
    ] {
        run(&log, insert.clone(), values).await.unwrap();
    }
    let found = query(&log, &format!("SELECT * FROM {name}"), vec![]).await;
    assert_eq!(found.len(), 4);
    for row in &found {
        assert_eq!(row.get("at"), Ok(at));
        assert_eq!(row.get("at"), Ok(at.fixed_offset()));
        assert_eq!(row.get("at"), Ok(other));
        assert_eq!(row.get("at"), Ok(local), "in UTC");
        assert_eq!(row.get("local"), Ok(local));
        assert_eq!(row.get("day"), Ok(local.date()));
        assert_eq!(row.get("day"), Ok(other.date()));
        let error = row.get::<jiff::Timestamp>("at").unwrap_err().to_string();
        assert!(error.ends_with("beyond what a jiff::Timestamp can be"), "{error}");
    }
    assert_eq!(found[0].get("at"), Ok("9999-12-31T23:59:59.000000Z".to_owned()));
}

/// SQLite keeps texts, which would not sort, and nothing would read them again.
async fn a_year_of_five_digits_comes_back_or_is_refused(db: Db) {
    let (log, name) = times(&db).await;
    let at = Utc.with_ymd_and_hms(20_000, 1, 1, 0, 0, 0).unwrap();
    let values: [(&str, Value); 3] =
        [("at", at.into()), ("local", at.naive_utc().into()), ("day", at.date_naive().into())];
    let is_sqlite = log.store().database().dialect().name() == "sqlite";
    for (column, value) in values {
        let sql = format!("INSERT INTO {name} ({column}) VALUES ($1)");
        if is_sqlite || column == "day" {
            let said = refused(&log, Statement::new(sql, params![value])).await;
            assert!(said.contains("years are from -9999 to 9999"), "{said}");
        } else {
            run(&log, sql, params![value]).await.unwrap();
        }
    }
    if !is_sqlite {
        let select = format!("SELECT max(at) AS at, max(local) AS local FROM {name}");
        let found = query(&log, &select, vec![]).await;
        assert_eq!(found[0].get("at"), Ok(at));
        assert_eq!(found[0].get("local"), Ok(at.naive_utc()));
    }
    // Before our era, a year has six digits; all crates read them.
    let day = NaiveDate::from_ymd_opt(-5, 2, 28).unwrap();
    let sql = format!("INSERT INTO {name} (local, day) VALUES ($1, $2)");
    run(&log, sql, params![day.and_time(NaiveTime::MIN), day]).await.unwrap();
    let select = format!("SELECT local, day FROM {name} WHERE day IS NOT NULL");
    let found = query(&log, &select, vec![]).await;
    assert_eq!(found[0].get("day"), Ok(day));
    assert_eq!(found[0].get("day"), Ok(jiff::civil::date(-5, 2, 28)));
    assert_eq!(found[0].get("local"), Ok(day.and_time(NaiveTime::MIN)));
}

async fn a_leap_second_is_never_another_second(db: Db) {
    let (log, name) = times(&db).await;
    let hour = NaiveTime::from_hms_milli_opt(23, 59, 59, 1_500).unwrap();
    let local = NaiveDate::from_ymd_opt(2016, 12, 31).unwrap().and_time(hour);
    let values: [(&str, Value); 4] = [
        ("hour", hour.into()),
        ("local", local.into()),
        ("at", local.and_utc().into()),
        ("at", "20161231T235960Z".into()),
    ];
    for (column, value) in values {
        let sql = format!("INSERT INTO {name} ({column}) VALUES ($1)");
        if log.store().database().dialect().name() != "sqlite" {
            let said = refused(&log, Statement::new(sql, params![value])).await;
            assert!(said.contains("a leap second"), "{said}");
            continue;
        }
        // A text like any other to SQLite; it is not read as a time that it is not.
        run(&log, sql, params![value]).await.unwrap();
        let select = format!("SELECT {column} AS it FROM {name} WHERE {column} IS NOT NULL");
        let found = query(&log, &select, vec![]).await;
        let error = match column {
            "hour" => found[0].get::<NaiveTime>("it").unwrap_err(),
            "local" => found[0].get::<NaiveDateTime>("it").unwrap_err(),
            _ => found[0].get::<jiff::Timestamp>("it").unwrap_err(),
        };
        assert!(error.to_string().contains("a leap second"), "{error}");
    }
}

async fn an_offset_is_never_dropped(db: Db) {
    let log = db.log().await;
    let said = "SELECT '2026-11-15T23:30:00-08:00' AS said";
    let row = &query(&log, said, vec![]).await[0];
    let utc = NaiveDate::from_ymd_opt(2026, 11, 16).unwrap().and_hms_opt(7, 30, 0).unwrap();
    assert_eq!(row.get("said"), Ok(utc));
    assert_eq!(row.get("said"), Ok(utc.and_utc()));
    assert!(row.get::<NaiveDate>("said").is_err() && row.get::<NaiveTime>("said").is_err());
    let compact = "SELECT '20261115T0930' AS said, '2026-11-15T09:30[Europe/Berlin]' AS named";
    let row = &query(&log, compact, vec![]).await[0];
    assert!(row.get::<NaiveDate>("said").is_err());
    assert!(row.get::<jiff::Timestamp>("named").is_err());
}

async fn a_time_is_not_cut_to_a_date_or_an_hour(db: Db) {
    let (log, name) = with_table(&db, &format!("{ALL}, days DATE[]")).await;
    let local = NaiveDate::from_ymd_opt(2026, 11, 15).unwrap().and_hms_opt(23, 30, 1).unwrap();
    let midnight = local.date().and_time(NaiveTime::MIN);
    let text = "2026-11-15T23:30:00-08:00";
    let cases: [(&str, Value, &str); 11] = [
        ("day", local.into(), "it is more than a date"),
        ("day", midnight.into(), "it is more than a date"),
        ("day", local.and_utc().into(), "it is more than a date"),
        ("day", text.into(), "it is more than a date"),
        ("day", "20261115T0930".into(), "it is more than a date"),
        ("hour", local.into(), "it is more than a time of day"),
        ("hour", text.into(), "it is more than a time of day"),
        ("hour", "23:30:00-08:00".into(), "it is more than a time of day"),
        ("local", text.into(), "it has an offset from UTC"),
        ("at", local.into(), "it has no offset from UTC"),
        ("days", vec![local].into(), "it is more than a date"),
    ];
    for (column, value, expected) in cases {
        let sql = format!("INSERT INTO {name} ({column}) VALUES ($1)");
        let said = refused(&log, Statement::new(sql, params![value])).await;
        assert!(said.contains(expected), "{said}");
    }
    let row = rows(&name, &["days"], vec![params![vec![local]]]);
    let said = refused(&log, row).await;
    assert!(said.contains("it is more than a date"), "{said}");
}

/// Nothing becomes infinity, or another time, because it is near the end of what is counted.
async fn a_moment_that_cannot_be_counted_is_refused(db: Db) {
    let (log, name) = with_table(&db, ALL).await;
    for micros in [i64::MIN, i64::MIN + 1] {
        let sql = format!("INSERT INTO {name} (at) VALUES ($1)");
        refused(&log, Statement::new(sql, vec![Value::Time(micros)])).await;
    }
    let far = Statement::query("SELECT '294270-01-01 00:00:00'::timestamp AS far", vec![]);
    let said = refused(&log, far).await;
    assert!(said.contains("cast it to text"), "{said}");
}
