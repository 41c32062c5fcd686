//! What can never work is refused before a row is claimed, with what to do.

use crate::process::failure;
use crate::table::Rows;

on_both! {
    a_program_that_is_not_there_is_refused,
    a_column_that_is_not_there_is_refused,
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
