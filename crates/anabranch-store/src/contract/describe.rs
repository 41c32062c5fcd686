//! Statements that are prepared and not run: what they want, and where they are wrong.

use super::Harness;
use super::effects::OPEN;
use crate::database::{Described, End, Failed, ONE_STATEMENT, Reason, Session, Statement};
use crate::{Database, params};
use std::sync::Arc;
use std::time::Duration;

const IDLE: Duration = Duration::from_secs(30);

/// A transaction with a table that is there for it alone.
async fn with_table(database: &Arc<dyn Database>, columns: &str) -> (Box<dyn Session>, String) {
    let table = database.dialect().table("described");
    let create = Statement::new(format!("CREATE TABLE {table} ({columns})"), vec![]);
    let mut session = database.begin();
    session.run(vec![create], OPEN).await.unwrap();
    (session, table)
}

const COLUMNS: &str = "id BIGINT PRIMARY KEY, note TEXT, total INTEGER NOT NULL";

/// Whether the database has types for values, as the contract can know it: by the name of one.
fn has_types(database: &Arc<dyn Database>) -> bool {
    database.dialect().name() == "postgres"
}

/// What a statement was refused for, and where.
fn refused(described: Result<Described, Failed>) -> (String, Option<usize>) {
    match described.expect_err("a statement that cannot work").reason {
        Reason::Refused { said, at, .. } => (said, at),
        other => panic!("{other:?}"),
    }
}

/// The types of values and the names of columns, in a table that was made in the same transaction.
pub async fn a_statement_says_what_it_wants(harness: &Harness) {
    let log = harness.log().await;
    let database = log.store().database();
    let (mut session, table) = with_table(&database, COLUMNS).await;
    let select = format!("SELECT id, note AS \"ünser\" FROM {table} WHERE id = $1 AND note = $2");
    let described = session.describe(&select, IDLE).await.unwrap();
    assert_eq!(described.columns, ["id", "ünser"]);
    let types = |names: &[&str]| -> Vec<Option<String>> {
        names.iter().map(|name| has_types(&database).then(|| (*name).to_owned())).collect()
    };
    assert_eq!(described.values, types(&["bigint", "text"]));
    let insert = format!("INSERT INTO {table} (total, id, note) VALUES ($2, $1, $3)");
    let described = session.describe(&insert, IDLE).await.unwrap();
    assert_eq!(
        described,
        Described { values: types(&["bigint", "integer", "text"]), columns: vec![] }
    );
    // It was not run, and can be.
    let count = |rows: i64| {
        let count = format!("SELECT count(*) AS n FROM {table}");
        (Statement::query(count, vec![]), rows)
    };
    for (step, (count, rows)) in [count(0), count(1)].into_iter().enumerate() {
        let found = session.rows(count, OPEN).await.unwrap();
        assert_eq!(found[0].get::<i64>("n").unwrap(), rows);
        if step == 0 {
            let run = Statement::new(insert.clone(), params![7, 1, "x"]);
            session.run(vec![run], OPEN).await.unwrap();
        }
    }
}

/// Types by the names that people write.
pub async fn types_have_the_names_that_people_write(harness: &Harness) {
    let log = harness.log().await;
    let database = log.store().database();
    if !has_types(&database) {
        return;
    }
    let mut session = database.begin();
    let made = |name: &str| database.dialect().table(name);
    let (mood, cents) = (made("mood"), made("cents"));
    let make = [
        format!("CREATE TYPE {mood} AS ENUM ('glad', 'sad')"),
        format!("CREATE DOMAIN {cents} AS bigint CHECK (VALUE >= 0)"),
    ];
    let make = make.map(|sql| Statement::new(sql, vec![]));
    session.run(make.to_vec(), OPEN).await.unwrap();
    // A type that the search path does not find has its schema, which is quoted only where it must be.
    let (mood_name, cents_name) = (mood.replace('"', ""), cents.replace('"', ""));
    for (written, name) in [
        ("bigint", "bigint"),
        ("int4", "integer"),
        ("smallint", "smallint"),
        ("uuid", "uuid"),
        ("numeric", "numeric"),
        ("timestamptz", "timestamptz"),
        ("timestamp", "timestamp"),
        ("timestamptz[]", "timestamptz[]"),
        ("date", "date"),
        ("jsonb", "jsonb"),
        ("text[]", "text[]"),
        ("varchar", "varchar"),
        ("boolean", "boolean"),
        ("float8", "double precision"),
        ("bytea", "bytea"),
        (mood.as_str(), mood_name.as_str()),
        (cents.as_str(), cents_name.as_str()),
    ] {
        let described = session.describe(&format!("SELECT $1::{written}"), IDLE).await.unwrap();
        assert_eq!(described.values, [Some(name.to_owned())], "{written}");
    }
}

/// An error has its place in the text as it was given, wherever it is and whatever stands before it, and the
/// transaction goes on.
pub async fn an_error_has_its_place(harness: &Harness) {
    let log = harness.log().await;
    let database = log.store().database();
    let (mut session, table) = with_table(&database, COLUMNS).await;
    let lines = [
        format!("  SELECT 'größe → 🦀', §, note\n  FROM {table} -- Maß\n  WHERE id = $1"),
        format!("\n\tSELECT 'é' AS a, id\nFROM {table}\nWHERE § = 'ß' AND id = $1\nORDER BY id"),
        format!("SELECT 'é' /* naïve */\nFROM {table}\nWHERE note = '日本'\n  ORDER BY §"),
    ];
    for wrong in ["nope", ")", "'a' 'b' 'c'"] {
        for line in &lines {
            let (sql, at) = (line.replace("§", wrong), line.find("§").unwrap());
            let (said, place) = refused(session.describe(&sql, IDLE).await);
            let place = place.unwrap_or_else(|| panic!("{sql}: {said}"));
            if wrong == "'a' 'b' 'c'" {
                // Which of them is too much, databases see differently.
                assert!((at..at + wrong.len()).contains(&place), "{sql}: {said} at {place}");
            } else {
                assert_eq!(place, at, "{sql}: {said}");
            }
        }
    }
    drop(session);
    // A statement that is run says it in the same way, and so does a fence.
    let sql = lines[0].replace("§", "nope");
    let at = sql.find("nope");
    let update = format!("UPDATE {table} SET note = 'ü', total = nope");
    let update_at = update.find("nope");
    for (statement, at) in
        [(Statement::query(sql, params![1]), at), (Statement::fence(update, vec![], 1), update_at)]
    {
        let (mut session, _) = with_table(&database, COLUMNS).await;
        let failed = session.run(vec![statement], End::Commit).await.unwrap_err();
        assert!(
            matches!(failed.reason, Reason::Refused { at: place, .. } if place == at),
            "{failed:?}"
        );
        assert!(!failed.to_string().contains("offset"), "{failed}");
    }
}

/// What is wrong is said, one statement after the other in the same transaction; where the database does not
/// say where, no place is made up.
pub async fn a_refused_statement_ends_nothing(harness: &Harness) {
    let log = harness.log().await;
    let database = log.store().database();
    let (mut session, table) = with_table(&database, COLUMNS).await;
    let select = format!("SELECT note FROM {table}");
    for (sql, said, at) in [
        ("SELECT 'ä' FROM no_such_table".to_owned(), "no_such_table", "no_such_table"),
        (format!("INSERT INTO {table} (id, nope) VALUES (1, 2)"), "nope", "nope"),
        (format!("INSERT INTO {table} (id, note) VALUES (1, 'ä', 3)"), "2", "3"),
        (format!("SELECT nope FROM {table}"), "nope", "nope"),
        (format!("SELEC note FROM {table}"), "SELEC", "SELEC"),
        (format!("SELECT note FROM {table} WHERE"), "", ""),
    ] {
        let (message, place) = refused(session.describe(&sql, IDLE).await);
        let counts = message.contains("target columns");
        assert!(message.contains(said) || counts, "{sql}: {message}");
        let expected = if at.is_empty() { sql.len() } else { sql.rfind(at).unwrap() };
        assert!(place.is_none_or(|place| place == expected), "{sql}: {message} at {place:?}");
        assert!(place.is_some() || !has_types(&database), "{sql}: {message}");
        // It goes on, and knows the table still.
        assert!(session.is_open());
        assert_eq!(session.describe(&select, IDLE).await.unwrap().columns, ["note"]);
    }
    let (said, _) = refused(session.describe(&format!("{select}; {select}"), IDLE).await);
    assert_eq!(said, ONE_STATEMENT);
    session.describe(&format!("{select}; -- that is all"), IDLE).await.unwrap();
    let insert = Statement::new(format!("INSERT INTO {table} VALUES (1, 'x', 2)"), vec![]);
    let look = Statement::query(select.clone(), vec![]);
    session.run(vec![insert, look], OPEN).await.unwrap();
    drop(session);
    // Nothing is left: not the table, nor a statement about it that is kept prepared.
    let mut session = database.begin();
    let (said, _) = refused(session.describe(&select, IDLE).await);
    assert!(said.contains("described"), "{said}");
    drop(session);
    let gone = database.begin().rows(Statement::query(select, vec![]), End::Commit).await;
    assert!(matches!(gone.unwrap_err().reason, Reason::Refused { .. }));
}
