//! What the database says of a file's statements, and where.

use crate::running::projection;
use crate::support::Db;
use anabranch::prelude::*;
use anabranch_file::file::{File, Problems, Source};
use anabranch_file::program::Programs;
use anabranch_file::{CheckError, check};

async fn mistakes(file: &File, log: &Log) -> Vec<String> {
    let Err(CheckError::Problems(problems)) = check(file, log, &Programs::new()).await else {
        panic!("no mistakes")
    };
    let line = |problem: &anabranch_file::file::Problem| {
        let place = problems.source().place(problem.span.start);
        let part = &problems.source().text[problem.span.clone()];
        format!("{}:{} {part}", place.line, place.column)
    };
    problems.all().iter().map(line).collect()
}

#[tokio::test]
async fn mistakes_in_sql_are_found_where_they_stand() {
    for db in [Db::sqlite(), Db::postgres()] {
        let log = db.log().await;
        let text = r#"setup = 'CREATE TABLE f@ (id TEXT PRIMARY KEY, cents BIGINT)'
on.A = '''
-- ü :x
INSERT INTO f@ (id, cnts)
VALUES (:stream_id, :data.cents)
'''
on.B = "UPDATE f@ SET \u0063ents = :data.cents WHER id = :stream_id"
on.C = "INSERT INTO nowhere VALUES (:data.x)"
on.D = "INSERT INTO f@ (id) VALUES (:streem_id)"
on.E = 'INSERT INTO f@ (id) VALUES (:stream_id); ROLLBACK'
on.F = "INSERT INTO f@ (id) VALUES ('open)"
reset = 'DELETE FROM f@ WHERE id = :stream_id'
"#;
        let found = mistakes(&projection(&db, text), &log).await;
        let expected = [
            "10:21 cnts",
            "13:59 WHER",
            "14:21 nowhere",
            "15:41 :streem_id",
            "16:55 ROLLBACK",
            "17:",
            "18:",
        ];
        // The suffix of the tables moves columns.
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            let (found_place, found_word) = found.split_once(' ').unwrap();
            let (place, word) = expected.split_once(' ').unwrap_or((expected, ""));
            let line = |place: &str| place.split(':').next().unwrap().to_owned();
            assert_eq!(line(found_place), line(place), "{found} is not {expected}");
            assert!(word.is_empty() || found_word == word, "{found} is not {expected}");
        }
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_check_and_types_are_shown() {
    for db in [Db::sqlite(), Db::postgres()] {
        let log = db.log().await;
        let text = "setup = 'CREATE TABLE f@ (id TEXT PRIMARY KEY, cents BIGINT)'\n\
                    on.A = 'INSERT INTO f@ VALUES (:stream_id, :data.cents?)'\n";
        let file = projection(&db, text);
        let checked = check(&file, &log, &Programs::new()).await.unwrap();
        let is_postgres = log.database().dialect().name() == "postgres";
        let wants: Vec<_> = checked.values.iter().map(|value| value.wants.as_deref()).collect();
        match is_postgres {
            true => assert_eq!(wants, [Some("text"), Some("bigint")]),
            false => assert_eq!(wants, [None, None]),
        }
        assert!(checked.values[1].is_optional && !checked.consumers[0].is_known);
        let table = format!("SELECT * FROM f_{}", db.own);
        assert!(log.query(table, vec![]).await.is_err(), "the table was rolled back");
        // The same again, and after the consumer has run, when `setup` would fail.
        check(&file, &log, &Programs::new()).await.unwrap();
        crate::running::catch_up(&file, &log).await.unwrap();
        assert!(check(&file, &log, &Programs::new()).await.unwrap().consumers[0].is_known);
    }
}

#[tokio::test]
async fn a_setup_that_fails_hides_no_other_mistake() {
    for db in [Db::sqlite(), Db::postgres()] {
        let log = db.log().await;
        let text = "setup = 'CREATE TABLE f@ (id TXT(, cents BIGINT)'\n\
                    on.A = 'INSERT INTO f@ VALUES (:stream_id)'\non.B = 'SELEC :data.x'\n";
        let found = mistakes(&projection(&db, text), &log).await;
        assert_eq!(
            found.len(),
            2,
            "what is missing for the setup is no mistake of its own: {found:#?}"
        );
        assert!(found[1].contains("SELEC"), "{found:#?}");
    }
}

#[test]
fn a_form_is_missing_for_a_database() {
    let text = "[[replica_set]]\nname = \"a\"\n[[replica_set.projection]]\nname = \"b\"\npartition = \"global\"\n\
                on.A = { postgres = 'SELECT 1' }\n";
    let file = File::parse(&Source::new("a.toml", text)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let log = anabranch::connect("sqlite::memory:").await.unwrap();
        let problems: Problems = anabranch_file::Sets::default().of(&file, &log).err().unwrap();
        assert_eq!(problems.all()[0].said, "`A` has no form for sqlite");
    });
}

/// What would fail for every event is found before.
#[tokio::test]
async fn a_type_that_takes_no_value_is_found() {
    let db = Db::postgres();
    let log = db.log().await;
    let file = |sql: &str| {
        let lines = "setup = 'CREATE TABLE t@ (a interval, b bytea)'\non.A = '@SQL@'\n";
        projection(&db, &lines.replace("@SQL@", sql))
    };
    let wrong = file("INSERT INTO t@ VALUES (:data.wait, :data.photo)");
    let Err(CheckError::Problems(found)) = check(&wrong, &log, &Programs::new()).await else {
        panic!("no mistakes")
    };
    let [wait, photo] = found.all() else { panic!("{found}") };
    assert_eq!(wait.said, "no value of an event goes into interval");
    let help = "write CAST(CAST(:data.wait AS TEXT) AS interval)";
    assert_eq!(wait.help.as_deref(), Some(help));
    assert!(photo.help.as_deref().unwrap().contains("decode(:data.photo,"), "{found}");
    let cast = "INSERT INTO t@ VALUES (CAST(CAST(:data.wait AS TEXT) AS interval), NULL)";
    check(&file(cast), &log, &Programs::new()).await.unwrap();
}

/// All consumers of a process share the connection, so it would be turned off for all.
#[tokio::test]
async fn what_outlives_its_transaction_is_refused_by_check_and_run() {
    let db = Db::sqlite();
    let log = db.log().await;
    let file = projection(&db, "on.A = 'PRAGMA ignore_check_constraints = ON'\n");
    let found = mistakes(&file, &log).await;
    assert!(found.len() == 1 && found[0].contains("PRAGMA"), "{found:?}");
    let stream = StreamId::new("Order", "1").unwrap();
    log.append(&stream, Expected::Any, [NewEvent::new("A", 1)]).await.unwrap();
    let error = crate::running::catch_up(&file, &log).await.unwrap_err().to_string();
    assert!(error.contains("would outlive the transaction"), "{error}");
}
