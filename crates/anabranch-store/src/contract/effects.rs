//! Transactions of statements: all or nothing, fenced, and the same values on every database.

use super::{Harness, soon};
use crate::database::{Answer, End, InsertRows, Reason, Statement, Topic};
use crate::value::time_text;
use crate::{Database, Log, Value, params};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

pub(super) const OPEN: End = End::Open { idle: Duration::from_secs(30) };

/// A table of the case's own, inside the log's namespace.
async fn table(log: &Log, columns: &str) -> (Arc<dyn Database>, String) {
    let database = log.store().database();
    let name = database.dialect().table("effects");
    let create = Statement::new(format!("CREATE TABLE {name} ({columns})"), vec![]);
    database.begin().run(vec![create], End::Commit).await.unwrap();
    (database, name)
}

fn insert(table: &str, id: i64, text: &str) -> Statement {
    let sql = format!("INSERT INTO {table} (id, text) VALUES ($1, $2)");
    Statement::new(sql, params![id, text])
}

async fn count(database: &Arc<dyn Database>, table: &str) -> i64 {
    let count = Statement::query(format!("SELECT count(*) AS n FROM {table}"), vec![]);
    let answers = database.begin().run(vec![count], End::Commit).await.unwrap();
    answers[0].rows[0].get("n").unwrap()
}

const COLUMNS: &str = "id BIGINT PRIMARY KEY, text TEXT NOT NULL";

/// One refused statement takes its neighbours with it, and is named.
pub async fn statements_are_stored_all_or_not_at_all(harness: &Harness) {
    let log = harness.log().await;
    let (database, table) = table(&log, COLUMNS).await;
    let twice = vec![insert(&table, 1, "a"), insert(&table, 2, "b"), insert(&table, 1, "c")];
    let failed = database.begin().run(twice, End::Commit).await.unwrap_err();
    assert_eq!(failed.statement, Some(2), "{failed}");
    assert!(matches!(failed.reason, Reason::Refused { .. }), "{failed:?}");
    assert!(!failed.is_transient());
    let bad = Statement::new("NONSENSE", vec![]);
    let failed = database.begin().run(vec![insert(&table, 3, "d"), bad], End::Commit).await;
    assert_eq!(failed.unwrap_err().statement, Some(1));
    assert_eq!(count(&database, &table).await, 0);
    // The session that failed does no harm to the next one.
    database.begin().run(vec![insert(&table, 1, "a")], End::Commit).await.unwrap();
    assert_eq!(count(&database, &table).await, 1);
}

/// A statement that changes another number of rows than it must takes everything with it.
pub async fn a_fence_that_does_not_match_rolls_back(harness: &Harness) {
    let log = harness.log().await;
    let (database, table) = table(&log, COLUMNS).await;
    database.begin().run(vec![insert(&table, 1, "a")], End::Commit).await.unwrap();
    let fence = |id: i64, changes| {
        let update = format!("UPDATE {table} SET text = 'moved' WHERE id = $1");
        Statement::fence(update, params![id], changes)
    };
    for (fence, fails) in [(fence(9, 1), true), (fence(1, 2), true), (fence(1, 1), false)] {
        let run = database.begin().run(vec![insert(&table, 2, "b"), fence], End::Commit).await;
        assert_eq!(run.as_ref().is_err_and(|failed| failed.is_unmatched()), fails, "{run:?}");
        assert_eq!(count(&database, &table).await, if fails { 1 } else { 2 });
    }
}

/// A statement that ends the transaction leaves the fence alone with itself: then nothing moves.
pub async fn a_fence_matches_only_in_the_transaction_that_began(harness: &Harness) {
    let log = harness.log().await;
    let (database, table) = table(&log, COLUMNS).await;
    database.begin().run(vec![insert(&table, 1, "a")], End::Commit).await.unwrap();
    let fence = || {
        let update = format!("UPDATE {table} SET text = 'moved' WHERE id = $1");
        Statement::fence(update, params![1], 1)
    };
    let moved = async || {
        let moved = format!("SELECT count(*) AS n FROM {table} WHERE text = 'moved'");
        let answers =
            database.begin().run(vec![Statement::query(moved, vec![])], End::Commit).await;
        answers.unwrap()[0].rows[0].get::<i64>("n").unwrap()
    };
    for (number, end) in ["ROLLBACK", "COMMIT", "END"].into_iter().enumerate() {
        let id = 10 + number as i64;
        let end = || Statement::new(end, vec![]);
        let at_once = vec![insert(&table, id, "b"), end(), fence()];
        let failed = database.begin().run(at_once, End::Commit).await.unwrap_err();
        assert!(matches!(failed.reason, Reason::TransactionEnded), "{failed:?}");
        let mut session = database.begin();
        let ended = session.run(vec![insert(&table, 20 + id, "b"), end()], OPEN).await;
        if ended.is_ok() {
            let failed = session.run(vec![fence()], End::Commit).await.unwrap_err();
            assert!(matches!(failed.reason, Reason::TransactionEnded), "{failed:?}");
        }
        assert_eq!(moved().await, 0, "{failed:?}");
    }
    // The sessions that it happened on are sound.
    database.begin().run(vec![insert(&table, 2, "c"), fence()], End::Commit).await.unwrap();
    assert_eq!(moved().await, 1);
}

/// Nobody would know which of them ran.
pub async fn several_statements_in_one_text_are_refused(harness: &Harness) {
    let log = harness.log().await;
    let (database, table) = table(&log, COLUMNS).await;
    let one = |id: i64| format!("INSERT INTO {table} (id, text) VALUES ({id}, 'a')");
    let both = Statement::new(format!("{}; {}", one(1), one(2)), vec![]);
    let failed = database.begin().run(vec![both], End::Commit).await.unwrap_err();
    assert!(matches!(failed.reason, Reason::Refused { .. }), "{failed:?}");
    assert_eq!(count(&database, &table).await, 0);
    let ended = Statement::new(format!("{}; -- that is all", one(3)), vec![]);
    database.begin().run(vec![ended], End::Commit).await.unwrap();
    assert_eq!(count(&database, &table).await, 1);
}

/// An open transaction sees what it wrote; others do not, and never do if it is given up.
pub async fn an_open_transaction_is_seen_when_it_commits(harness: &Harness) {
    let log = harness.log().await;
    let (database, table) = table(&log, COLUMNS).await;
    let look = || Statement::query(format!("SELECT text FROM {table} ORDER BY id"), vec![]);
    let texts = |answers: Vec<Answer>| -> Vec<String> {
        let rows = answers.last().unwrap().rows.iter();
        rows.map(|row| row.get("text").unwrap()).collect()
    };
    let mut given_up = database.begin();
    let answers = given_up.run(vec![insert(&table, 1, "a"), look()], OPEN).await.unwrap();
    assert_eq!(texts(answers), ["a"]);
    assert!(given_up.is_open());
    drop(given_up);

    let mut kept = database.begin();
    assert!(!kept.is_open());
    soon(kept.run(vec![insert(&table, 2, "b")], OPEN)).await.unwrap();
    let answers = kept.run(vec![look()], OPEN).await.unwrap();
    assert_eq!(texts(answers), ["b"], "what was given up is gone");
    kept.run(vec![insert(&table, 3, "c")], End::Commit).await.unwrap();
    assert!(!kept.is_open());
    let answers = database.begin().run(vec![look()], End::Commit).await.unwrap();
    assert_eq!(texts(answers), ["b", "c"]);
}

/// A transaction that its owner forgets does not keep others out for ever.
pub async fn a_forgotten_transaction_is_rolled_back(harness: &Harness) {
    let log = harness.log().await;
    let (database, table) = table(&log, COLUMNS).await;
    let mut forgotten = database.begin();
    let open = End::Open { idle: Duration::from_millis(50) };
    forgotten.run(vec![insert(&table, 1, "a")], open).await.unwrap();
    // The same key: it waits for the forgotten one, and then goes through.
    soon(database.begin().run(vec![insert(&table, 1, "b")], End::Commit)).await.unwrap();
    let late = forgotten.run(vec![insert(&table, 2, "c")], End::Commit).await.unwrap_err();
    assert!(late.is_transient(), "{late:?}");
    assert_eq!(count(&database, &table).await, 1);
}

/// Every kind of value goes in and comes out, in one row and set-wise.
pub async fn values_come_back_as_they_were(harness: &Harness) {
    let log = harness.log().await;
    let database = log.store().database();
    let (json, time) = match database.dialect().name() {
        "sqlite" => ("TEXT", "TEXT"),
        _ => ("jsonb", "timestamptz"),
    };
    let columns = format!(
        "id BIGINT PRIMARY KEY, small SMALLINT, yes BOOLEAN, part DOUBLE PRECISION, text TEXT, \
         raw {}, doc {json}, at {time}, price NUMERIC(12, 2), day {}",
        if json == "jsonb" { "bytea" } else { "BLOB" },
        if json == "jsonb" { "DATE" } else { "TEXT" },
    );
    let (database, table) = table(&log, &columns).await;
    let at = 1_763_197_200_123_456;
    let row = |id: i64| {
        params![
            id,
            -7i16,
            true,
            0.5,
            "späti \"quoted\" 'single'",
            vec![0u8, 255, 1],
            Value::Json(r#"{"a": [1, 2]}"#.to_owned()),
            Value::Time(at),
            "19.95",
            "2024-02-29"
        ]
    };
    const NAMES: [&str; 10] =
        ["id", "small", "yes", "part", "text", "raw", "doc", "at", "price", "day"];
    let rows = InsertRows {
        table: Cow::Owned(table.clone()),
        columns: Cow::Borrowed(&NAMES),
        conflict: Cow::Borrowed("ON CONFLICT (id) DO UPDATE SET small = excluded.small"),
        rows: vec![
            row(1),
            row(2),
            vec![Value::Null; 9].into_iter().fold(params![3], |mut row, null| {
                row.push(null);
                row
            }),
        ],
    };
    let set_wise = Statement::rows(rows);
    let single = Statement::new(
        format!("INSERT INTO {table} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
        row(4),
    );
    database.begin().run(vec![set_wise, single], End::Commit).await.unwrap();
    let select = Statement::query(format!("SELECT * FROM {table} ORDER BY id"), vec![]);
    let answers = database.begin().run(vec![select], End::Commit).await.unwrap();
    let rows = &answers[0].rows;
    assert_eq!(rows.len(), 4);
    for row in [&rows[0], &rows[1], &rows[3]] {
        assert_eq!(row.get("small"), Ok(-7i16));
        assert_eq!(row.get("yes"), Ok(true));
        assert_eq!(row.get("part"), Ok(0.5));
        assert_eq!(row.get("text"), Ok("späti \"quoted\" 'single'".to_owned()));
        assert_eq!(row.get("raw"), Ok(vec![0u8, 255, 1]));
        assert_eq!(row.get("doc"), Ok(serde_json::json!({ "a": [1, 2] })));
        assert_eq!(row.get("at"), Ok(time_text(at).unwrap()));
        assert_eq!(row.get("price"), Ok(19.95));
        assert_eq!(row.get("day"), Ok("2024-02-29".to_owned()));
    }
    assert_eq!(rows[2].get::<Option<i64>>("small"), Ok(None));
    assert_eq!(rows[2].get::<Option<String>>("text"), Ok(None));
}

/// The third value is `$3` wherever it stands, and as often as it stands there.
pub async fn values_are_numbered(harness: &Harness) {
    let log = harness.log().await;
    let (database, table) = table(&log, COLUMNS).await;
    let sql = format!("INSERT INTO {table} (text, id) VALUES ($2 || $2, $1)");
    database.begin().run(vec![Statement::new(sql, params![5, "x"])], End::Commit).await.unwrap();
    let found = format!("SELECT text FROM {table} WHERE id = $2 AND text <> $1");
    let found = Statement::query(found, params!["y", 5]);
    let answers = database.begin().run(vec![found], End::Commit).await.unwrap();
    assert_eq!(answers[0].rows[0].get("text"), Ok("xx".to_owned()));
    for values in [params![1], params![1, "a", 3]] {
        let sql = format!("INSERT INTO {table} (id, text) VALUES ($1, $2)");
        let failed = database.begin().run(vec![Statement::new(sql, values)], End::Commit).await;
        assert_eq!(failed.unwrap_err().statement, Some(0), "too few or too many values");
    }
    assert_eq!(count(&database, &table).await, 1);
}

/// Callers read their tables through the log, and write none.
pub async fn a_query_reads_and_only_reads(harness: &Harness) {
    let log = harness.log().await;
    let (database, table) = table(&log, COLUMNS).await;
    let two = vec![insert(&table, 1, "a"), insert(&table, 2, "b")];
    database.begin().run(two, End::Commit).await.unwrap();
    let select = format!("SELECT text, id FROM {table} WHERE id >= $1 ORDER BY id");
    let rows = log.query(&select, params![1]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get("id")).collect::<Vec<_>>(), [Ok(1), Ok(2)]);
    let first = log.query_first(&select, params![2]).await.unwrap().unwrap();
    assert_eq!(first.get(0), Ok("b".to_owned()));
    assert_eq!(log.query_first(&select, params![3]).await.unwrap(), None);
    let writes = [
        format!("INSERT INTO {table} VALUES (3, 'c')"),
        format!("WITH new AS (SELECT 3, 'c') INSERT INTO {table} SELECT * FROM new"),
        format!("DROP TABLE {table}"),
        "COMMIT".to_owned(),
        "PRAGMA foreign_keys = on".to_owned(),
        "SET search_path = nowhere".to_owned(),
    ];
    for sql in writes {
        let error = log.query(&sql, vec![]).await.unwrap_err();
        assert!(error.to_string().contains("this only reads"), "{sql}: {error}");
        assert!(!error.is_transient() && !error.is_worth_waiting(), "{sql}: {error}");
        assert_eq!(log.query(&select, params![1]).await.unwrap().len(), 2, "{sql}");
    }
    let error = log.query("SELECT nonsense", vec![]).await.unwrap_err();
    assert!(error.to_string().contains("nonsense"), "{error}");
    assert!(log.query(&select, vec![]).await.is_err(), "too few values");
    // Many at the same time take turns.
    let many = (0..50).map(|_| log.query(&select, params![1]));
    let many = soon(futures_util::future::try_join_all(many)).await.unwrap();
    assert!(many.iter().all(|rows| rows.len() == 2));
}

/// Workers of every process hear a signal, once it is committed.
pub async fn signals_are_heard_everywhere(harness: &Harness) {
    let log = harness.log().await;
    let other = harness.again(&log).await;
    let mut heard = [
        log.store().database().signals(Topic::Workers),
        other.store().database().signals(Topic::Workers),
    ];
    // Whatever is heard when listening begins.
    let quiet = Statement::new("SELECT 1", vec![]);
    log.store().database().begin().run(vec![quiet], End::Commit).await.unwrap();
    for _ in 0..3 {
        heard.iter_mut().for_each(|signals| drop(signals.borrow_and_update()));
        let signal = vec![Statement::signal(Topic::Workers)];
        log.store().database().begin().run(signal, End::Commit).await.unwrap();
        for signals in &mut heard {
            soon(signals.changed()).await.unwrap();
        }
    }
}
