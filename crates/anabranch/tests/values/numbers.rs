//! Numbers that a column cannot keep are refused, not rounded to something else.

use crate::misfits::{refused, rows, with_table};
use crate::support::{Db, query};
use crate::types::run;
use crate::{on_both, on_postgres};
use anabranch::Value;
use anabranch::backend::database::Statement;
use anabranch::prelude::*;
use rust_decimal::Decimal;

on_postgres! {
    a_number_out_of_range_is_refused,
    digits_are_kept_or_refused,
    what_a_float_can_hold_is_stored,
    infinite_decimals_come_back,
}

on_both! {
    a_number_beyond_63_bits_is_never_rounded,
}

fn decimal(text: &str) -> Value {
    text.parse::<Decimal>().unwrap().into()
}

async fn refused_by(log: &Log, name: &str, column: &str, value: Value) -> String {
    let sql = format!("INSERT INTO {name} ({column}) VALUES ($1)");
    refused(log, Statement::new(sql, params![value])).await
}

async fn a_number_out_of_range_is_refused(db: Db) {
    let (log, name) = with_table(&db, "part REAL, whole DOUBLE PRECISION, parts REAL[]").await;
    let cases: [(&str, Value, &str); 8] = [
        ("part", 1e300.into(), "$1 (real): 1e300 does not fit"),
        ("part", 1e-300.into(), "$1 (real): 1e-300 does not fit"),
        ("part", "1e300".into(), r#"$1 (real): the text "1e300""#),
        ("part", "-1e-300".into(), r#"$1 (real): the text "-1e-300""#),
        ("whole", "1e999".into(), r#"$1 (double precision): the text "1e999""#),
        ("whole", "1e-999".into(), r#"$1 (double precision): the text "1e-999""#),
        ("parts", vec![0.5, 1e300].into(), "$1, its value 2 (real): 1e300 does not fit"),
        ("parts", vec!["1", "1e39"].into(), r#"$1, its value 2 (real): the text "1e39""#),
    ];
    for (column, value, expected) in cases {
        let said = refused_by(&log, &name, column, value).await;
        assert!(said.starts_with(expected) && said.contains("out of range"), "{said}");
    }
    // Arrays of a row go another way.
    let row = rows(&name, &["parts"], vec![params![vec![0.5]], params![vec![0.5, 1e300]]]);
    let said = refused(&log, row).await;
    assert!(said.starts_with("row 2, column parts"), "{said}");
}

async fn digits_are_kept_or_refused(db: Db) {
    let columns = "part REAL, whole DOUBLE PRECISION, wholes DOUBLE PRECISION[], count BIGINT";
    let (log, name) = with_table(&db, columns).await;
    let cases: [(&str, Value); 9] = [
        ("whole", 9_007_199_254_740_993i64.into()),
        ("whole", i64::MAX.into()),
        ("whole", u64::MAX.into()),
        ("whole", "9007199254740993".into()),
        ("whole", decimal("0.1234567890123456789")),
        ("whole", "12345678901234567.89".into()),
        ("part", 16_777_217.into()),
        ("part", decimal("3.14159265358979")),
        ("wholes", vec![1, 9_007_199_254_740_993i64].into()),
    ];
    for (column, value) in cases {
        let said = refused_by(&log, &name, column, value).await;
        assert!(said.contains("it would be rounded to "), "{said}");
    }
    let row = rows(&name, &["wholes"], vec![params![vec![9_007_199_254_740_993i64]]]);
    assert!(refused(&log, row).await.contains("it would be rounded to "));
    // The other way: all 64 bits of it, not the shortest text that means the same float.
    let large = 9_223_372_036_854_774_784i64;
    run(&log, format!("INSERT INTO {name} (count) VALUES ($1)"), params![large as f64])
        .await
        .unwrap();
    let found = query(&log, &format!("SELECT count FROM {name}"), vec![]).await;
    assert_eq!(found[0].get("count"), Ok(large));
}

async fn what_a_float_can_hold_is_stored(db: Db) {
    let (log, name) = with_table(&db, "part REAL, whole DOUBLE PRECISION").await;
    let same: [(&str, Value, &str); 14] = [
        ("part", 0.1.into(), "0.1"),
        ("part", "0.1".into(), "0.1"),
        ("part", 0.1f32.into(), "0.1"),
        ("part", std::f64::consts::PI.into(), "3.1415927"),
        ("part", 16_777_216.into(), "1.6777216e+07"),
        ("part", f64::NEG_INFINITY.into(), "-Infinity"),
        ("whole", decimal("0.10"), "0.1"),
        ("whole", "-007.50".into(), "-7.5"),
        ("whole", "1e300".into(), "1e+300"),
        ("whole", "+12.5E-3".into(), "0.0125"),
        ("whole", "0.000".into(), "0"),
        ("whole", 9_007_199_254_740_992i64.into(), "9.007199254740992e+15"),
        ("whole", "NaN".into(), "NaN"),
        ("whole", "infinity".into(), "Infinity"),
    ];
    for (column, value, expected) in same {
        let sql = format!("INSERT INTO {name} ({column}) VALUES ($1)");
        run(&log, sql, params![value]).await.unwrap();
        let select = format!("SELECT {column}::text AS it FROM {name}");
        assert_eq!(query(&log, &select, vec![]).await[0].get("it"), Ok(expected.to_owned()));
        run(&log, format!("DELETE FROM {name}"), vec![]).await.unwrap();
    }
}

async fn infinite_decimals_come_back(db: Db) {
    let (log, name) = with_table(&db, "amount NUMERIC").await;
    let select = format!("SELECT amount FROM {name} ORDER BY amount");
    run(&log, format!("INSERT INTO {name} VALUES ('infinity'), ('-infinity'), ('nan')"), vec![])
        .await
        .unwrap();
    let found = query(&log, &select, vec![]).await;
    run(&log, format!("DELETE FROM {name}"), vec![]).await.unwrap();
    for row in &found {
        let value: Value = row.get("amount").unwrap();
        run(&log, format!("INSERT INTO {name} VALUES ($1)"), params![value]).await.unwrap();
    }
    assert_eq!(query(&log, &select, vec![]).await, found);
}

/// A column of SQLite that prefers numbers would make a float of its text: three accounts were one.
async fn a_number_beyond_63_bits_is_never_rounded(db: Db) {
    let (log, name) = with_table(&db, "id NUMERIC PRIMARY KEY, label TEXT, labels TEXT").await;
    let ids = [u64::MAX, u64::MAX - 1, u64::MAX - 500];
    let sql = format!("INSERT INTO {name} (id) VALUES ($1) ON CONFLICT (id) DO NOTHING");
    let is_sqlite = log.store().database().dialect().name() == "sqlite";
    for id in ids {
        if is_sqlite {
            let said = refused(&log, Statement::new(sql.clone(), params![id])).await;
            let expected = format!("$1: {id} does not fit: SQLite counts to 9223372036854775807");
            assert!(said.starts_with(&expected) && said.contains("TEXT column"), "{said}");
            let said = refused(&log, rows(&name, &["id"], vec![params![id]])).await;
            assert!(said.starts_with("row 1, column id: "), "{said}");
        } else {
            run(&log, sql.clone(), params![id]).await.unwrap();
        }
    }
    if !is_sqlite {
        let found = query(&log, &format!("SELECT id FROM {name} ORDER BY id DESC"), vec![]).await;
        let found: Vec<u64> = found.iter().map(|row| row.get("id").unwrap()).collect();
        assert_eq!(found, ids);
    }
    // As text, and in arrays, it is kept.
    let sql = format!("INSERT INTO {name} (id, label, labels) VALUES (1, $1, $2)");
    let labels = match is_sqlite {
        true => Value::from(ids.to_vec()),
        false => serde_json::to_string(&ids).unwrap().into(),
    };
    run(&log, sql, params![u64::MAX.to_string(), labels]).await.unwrap();
    let found =
        query(&log, &format!("SELECT label, labels FROM {name} WHERE id = 1"), vec![]).await;
    assert_eq!(found[0].get("label"), Ok(u64::MAX));
    assert_eq!(found[0].get("labels"), Ok(ids.to_vec()));
}
