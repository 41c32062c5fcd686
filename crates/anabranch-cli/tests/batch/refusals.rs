//! What can never work is refused before a row is claimed, with what to do.

use crate::process::failure;
use crate::table::Rows;

on_both! {
    a_program_that_is_not_there_is_refused,
    a_column_that_is_not_there_is_refused,
    a_statement_that_can_never_work_is_refused,
    a_statement_that_fails_for_some_rows_is_not_refused,
    a_log_table_of_somebody_else_is_refused,
}

/// Nothing is claimed: there is no entry, or no table at all.
async fn is_untouched(rows: &Rows) {
    let (verified, _) = rows.verify(&[]);
    assert_eq!((&verified["entries"], &verified["missing"]), (&0.into(), &3.into()), "{verified}");
}

async fn a_program_that_is_not_there_is_refused(rows: Rows) {
    rows.add(1..=3).await;
    std::fs::write(rows.directory.path().join("plain"), "#!/bin/sh\n").unwrap();
    for (command, says) in [
        ("./nope --quick", "there is no program `./nope`"),
        ("/no/such/program", "there is no program `/no/such/program`"),
        ("no-such-program-anywhere", "PATH"),
        ("./plain", "chmod +x ./plain"),
        ("/tmp", "is a directory"),
    ] {
        let said = failure(&rows.batch("run", &["--command", command]), 1);
        assert!(said.contains(says) && said.contains("--command"), "{said}");
    }
    is_untouched(&rows).await;
    assert_eq!(rows.run(&["--command", "true"])["succeeded"], 3);
    rows.drop().await;
}

async fn a_column_that_is_not_there_is_refused(rows: Rows) {
    rows.add(1..=3).await;
    let effects = rows.table("effects");
    let sql = format!("INSERT INTO {effects} (id, name) VALUES (:id, :nmae)");
    let said = failure(&rows.batch("run", &["--sql", &sql]), 1);
    assert!(said.contains("has no column `nmae`") && said.contains("it has id, name"), "{said}");
    let source = rows.table("source");
    let copy = rows.copy();
    let alone = |from: &str, what: &str, key: &str| {
        let run = [from, what, "--key", key, "--job", "job", "--assume-unique", "--sql", &copy];
        failure(&rows.batch_alone("run", &run), 1)
    };
    let said = alone("--source", &source, "number");
    assert!(said.contains("has no column `number`") && said.contains("it has id, name"), "{said}");
    let query = format!("SELECT id, name AS title FROM {source}");
    let said = alone("--query", &query, "id");
    assert!(said.contains("has no column `name`") && said.contains("it has id, title"), "{said}");
    let said = alone("--query", &query, "key");
    assert!(said.contains("has no column `key`") && said.contains("it has id, title"), "{said}");
    is_untouched(&rows).await;
    // Also where there is no row yet.
    rows.sql(&format!("DELETE FROM {source}")).await;
    assert!(failure(&rows.batch("run", &["--sql", &sql]), 1).contains("has no column `nmae`"));
    rows.drop().await;
}

async fn a_statement_that_can_never_work_is_refused(rows: Rows) {
    rows.add(1..=3).await;
    let effects = rows.table("effects");
    for (sql, says) in [
        (format!("INSERT INTO {effects}x (id, name) VALUES (:id, :name)"), "effectsx"),
        (format!("insert INTO {effects} (id, nome) VALUES (:id, :name)"), "nome"),
        (format!("INSERT INT {effects} (id) VALUES (:id)"), "syntax error"),
        (format!("UPDATE {effects} SET name = no_such_function(:name)"), "no_such_function"),
        (format!("DELETE FROM {effects} WHERE nr = :id"), "nr"),
        (format!("INSERT INTO {effects} (id, name) VALUES (:id)"), "columns"),
        ("WITH a AS (SELECT :id AS id) SELECT * FROM b".to_owned(), "b"),
    ] {
        let said = failure(&rows.batch("run", &["--sql", &sql]), 1);
        let begin = sql.split(" :").next().unwrap().split("(:").next().unwrap();
        assert!(said.contains("is refused") && said.contains(begin), "{said}");
        assert!(said.contains(says) && said.contains("--sql"), "{said}");
        assert!(!said.contains("EXPLAIN"), "that is not theirs: {said}");
    }
    is_untouched(&rows).await;
    assert_eq!(rows.run(&["--sql", &rows.copy()])["succeeded"], 3);
    rows.drop().await;
}

/// What the database says of a row is about that row.
async fn a_statement_that_fails_for_some_rows_is_not_refused(rows: Rows) {
    rows.add(0..=3).await;
    let effects = rows.table("effects");
    let divide = format!("INSERT INTO {effects} (id, name) SELECT 6 / CAST(:id AS bigint), :name");
    rows.sql(&format!("UPDATE {} SET name = 'bad' WHERE id = 0", rows.table("source"))).await;
    let summary = rows.run(&["--sql", &divide]);
    assert_eq!((&summary["succeeded"], &summary["failed"]), (&3.into(), &1.into()));
    // Nor what it says of rows that are not there.
    if rows.is_postgres() {
        let must = rows.table("must_be_named");
        rows.sql(&format!(
            "CREATE FUNCTION {must} (name text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN IF name IS \
             NULL THEN RAISE 'no name'; END IF; RETURN name || '!'; END $$"
        ))
        .await;
        let sql = format!("INSERT INTO {effects} (id, name) VALUES (:id, {must}(:name))");
        assert_eq!(rows.run(&["--log-table", "other", "--sql", &sql])["succeeded"], 4);
    }
    rows.drop().await;
}

async fn a_log_table_of_somebody_else_is_refused(rows: Rows) {
    rows.add(1..=3).await;
    let theirs = rows.table("processing_log");
    rows.sql(&format!("CREATE TABLE {theirs} (id bigint, state text, done_at text)")).await;
    rows.sql(&format!("INSERT INTO {theirs} VALUES (1, 'done', 'yesterday')")).await;
    let copy = rows.copy();
    for (what, more) in [("run", &["--sql", &copy][..]), ("verify", &[]), ("failed", &[])] {
        let said = failure(&rows.batch(what, more), 1);
        let ways = ["processing_log", "key", "attempts", "--log-table", "batch import"];
        assert!(ways.iter().all(|way| said.contains(way)), "{what}: {said}");
    }
    let theirs = format!("SELECT count(*) AS n FROM {theirs} WHERE state = 'done'");
    assert_eq!((rows.number(&theirs).await, rows.effects().await), (1, 0));
    // One of those that belong to it is enough.
    rows.sql(&format!("CREATE TABLE {} (id bigint)", rows.table("mine_history"))).await;
    let mine = ["--log-table", "mine", "--sql", &copy];
    let said = failure(&rows.batch("run", &mine), 1);
    assert!(said.contains("mine_history") && said.contains("--log-table"), "{said}");
    // Whatever its name is.
    rows.sql(&format!("CREATE TABLE {} (id bigint)", rows.table("\"Mine Too\""))).await;
    let mine = ["--log-table", "Mine Too", "--sql", &copy];
    assert!(failure(&rows.batch("run", &mine), 1).contains("is no table of a batch"));
    assert_eq!(rows.run(&["--log-table", "other", "--sql", &copy])["succeeded"], 3);
    rows.drop().await;
}
