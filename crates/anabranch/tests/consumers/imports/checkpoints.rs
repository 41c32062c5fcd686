//! Positions from the table of the old runners, whatever its names are.

use super::ledger::{Ledger, STOPS, execute, with_old};
use crate::on_both;
use crate::support::Db;
use anabranch::operate::{CheckpointTable, Import, ImportError};
use anabranch::prelude::*;

on_both! {
    rows_are_found_by_name,
    rows_are_found_by_index,
    odd_names_are_only_names,
    what_cannot_be_read_says_why,
}

const NAMES: &str = "order_runner_partition_{i}_of_{n}";

/// A table of checkpoints; rows are what follows VALUES.
async fn table(log: &Log, name: &str, columns: &str, rows: &str) {
    execute(log, format!("CREATE TABLE {name} ({columns})"), vec![]).await;
    execute(log, format!("INSERT INTO {name} VALUES {rows}"), vec![]).await;
}

fn plain(found: Vec<(u16, Position)>) -> Vec<(u16, u64)> {
    let mut found: Vec<_> = found.into_iter().map(|(index, at)| (index, at.get())).collect();
    found.sort_unstable();
    found
}

/// The table also holds the readers of another type, and those of an earlier number of partitions.
async fn rows_are_found_by_name(db: Db) {
    let ledger = Ledger::new(&db);
    let log = with_old(&db, &ledger, STOPS).await;
    let name = db.table("checkpoints");
    let rows = "('order_runner_partition_0_of_3', 120), ('order_runner_partition_1_of_3', 0), \
                ('order_runner_partition_2_of_3', 277), ('order_runner_partition_0_of_2', 44), \
                ('order_runner_partition_1_of_2', 55), ('invoice_runner_partition_0_of_3', 9)";
    table(&log, &name, "reader TEXT, last BIGINT", rows).await;
    let checkpoints = CheckpointTable::new(&name, "last").names("reader", NAMES);
    let found = checkpoints.read(&log, 3).await.unwrap();
    assert_eq!(plain(found.clone()), [(0, 120), (1, 0), (2, 277)]);
    assert_eq!(plain(checkpoints.read(&log, 2).await.unwrap()), [(0, 44), (1, 55)]);
    Import::new("ledger").partitions(3).checkpoints(found).apply(&log).await.unwrap();
    ledger.set().lanes(2).catch_up(&log).await.unwrap();
    ledger.check(&log).await;
}

async fn rows_are_found_by_index(db: Db) {
    let log = db.log().await;
    let name = db.table("checkpoints");
    let rows = "('order', 1, '80'), ('order', 0, '120'), ('other', 0, '7'), ('order', 2, '95')";
    table(&log, &name, "who TEXT, part SMALLINT, last TEXT", rows).await;
    let checkpoints = CheckpointTable::new(&name, "last").index("part").names("who", "order");
    let found = checkpoints.read(&log, 3).await.unwrap();
    assert_eq!(plain(found), [(0, 120), (1, 80), (2, 95)]);
    // Too many for two partitions: what that means is for the import to say.
    let found = checkpoints.read(&log, 2).await.unwrap();
    let refused = Import::new("ledger").partitions(2).checkpoints(found).check(&log).await.unwrap();
    let said = refused.refusals.iter().map(ToString::to_string).collect::<String>();
    assert!(said.contains("checkpoint for partition 2, but 2 partitions are 0 to 1"), "{said}");
    let twice = CheckpointTable::new(&name, "last").index("part").read(&log, 3).await.unwrap();
    assert_eq!(twice.len(), 4, "without names the other reader is one of them");
}

async fn odd_names_are_only_names(db: Db) {
    let log = db.log().await;
    let name = format!("Check \"points\"; DROP TABLE x {}", db.own);
    let quoted = format!("\"{}\"", name.replace('"', "\"\""));
    let columns = "\"The Reader\" TEXT, \"select\" BIGINT";
    table(&log, &quoted, columns, "('order_runner_partition_0_of_1', 5)").await;
    let checkpoints = CheckpointTable::new(&name, "select").names("The Reader", NAMES);
    assert_eq!(plain(checkpoints.read(&log, 1).await.unwrap()), [(0, 5)]);
    let injection = CheckpointTable::new(format!("{name}\" --"), "select").index("select");
    injection.read(&log, 1).await.unwrap_err();
    assert_eq!(plain(checkpoints.read(&log, 1).await.unwrap()), [(0, 5)], "it is still there");
}

async fn what_cannot_be_read_says_why(db: Db) {
    let log = db.log().await;
    let name = db.table("checkpoints");
    let rows = "('a_0', 0, -1), ('a_1', 1, NULL), ('a_2', -2, 3), ('a_3', NULL, 3)";
    table(&log, &name, "reader TEXT, part BIGINT, last BIGINT", rows).await;
    let of = || CheckpointTable::new(&name, "last");
    for (checkpoints, total, expected) in [
        (of(), 1, "by which column its rows are told apart"),
        (of().names("reader", "a"), 2, "has no {i}"),
        (of().names("reader", "b_{i}"), 2, "no row has `b_0` in column `reader`"),
        (of().names("reader", "b_{i}"), 2, "there are `a_0`, `a_1`, `a_2`; correct"),
        (of().names("reader", "a_{i}"), 1, "has position -1, and positions of a log begin at 1"),
        (of().names("reader", "a_{i}"), 2, "has position -1"),
        (of().index("part").names("reader", "a_1"), 2, "column last: is null, not a whole number"),
        (of().index("part").names("reader", "a_2"), 2, "a partition -2, and the first one is 0"),
        (of().index("part").names("reader", "a_3"), 2, "column part: is null"),
        (of().index("reader"), 2, "column reader: is the text \""),
        (of().index("missing"), 2, "names are taken as they stand, capitals included"),
        (CheckpointTable::new("nowhere", "last").index("part"), 2, "table `nowhere`: "),
    ] {
        let error = checkpoints.read(&log, total).await.unwrap_err();
        assert!(matches!(error, ImportError::Table { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
}
