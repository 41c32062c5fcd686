//! New versions beside the old one: how they are compared, and what a switch refuses.

use crate::gates::table_of;
use crate::support::{Db, fill, number, proof, query, start, status, until};
use crate::{on_both, on_postgres};
use anabranch::RunError;
use anabranch::operate::{ColumnDifference, Consumers, Rebuild, RebuildError, TableDifference};
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

on_both! {
    a_new_version_is_built_beside_the_old_one_and_switched_to,
    common_columns_are_compared_and_the_others_named,
    rows_that_stand_several_times_are_counted,
    what_cannot_be_compared_is_said,
    a_preview_says_who_runs_what_and_changes_nothing,
    what_is_stored_decides_where_a_new_version_has_its_place,
    a_new_version_must_be_meant,
    a_program_may_have_both_versions,
    what_is_being_built_is_not_mixed_with_another_version,
    programs_that_start_during_a_switch_find_their_place,
}

on_postgres! {
    a_disk_that_is_full_during_a_switch_ends_nobody,
}

const STREAMS: u64 = 20;

/// Sums by order; the second version has a mistake or not.
#[derive(Clone)]
struct Sums {
    table: &'static str,
    version: u32,
    factor: i64,
}

impl Projection for Sums {
    fn name(&self) -> &str {
        "sums"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        Settings::default().version(self.version)
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let table = tx.table(self.table);
        let upsert = format!(
            "INSERT INTO {table} (id, sum) VALUES ($1, $2) \
             ON CONFLICT (id) DO UPDATE SET sum = {table}.sum + excluded.sum"
        );
        tx.execute(upsert, params![event.stream_id(), event.data::<i64>()? * self.factor]).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let table = tx.table(self.table);
        tx.execute(format!("DROP TABLE IF EXISTS {table}"), vec![]).await?;
        tx.execute(format!("CREATE TABLE {table} (id TEXT PRIMARY KEY, sum BIGINT)"), vec![]).await
    }
}

impl Sums {
    fn new(db: &Db) -> Self {
        let table = Box::leak(db.table("sums").into_boxed_str());
        Self { table, version: 1, factor: 1 }
    }

    /// Both versions, caught up.
    async fn built(&self, log: &Log) {
        ReplicaSet::new("s").projection(self.clone()).catch_up(log).await.unwrap();
        let next = Self { version: 2, ..self.clone() };
        ReplicaSet::new("s").rebuild(next).catch_up(log).await.unwrap();
    }
}

async fn lag(log: &Log, name: &str) -> Option<u64> {
    Consumers::new(log).status(name).await.ok().map(|status| status.lag)
}

async fn a_new_version_is_built_beside_the_old_one_and_switched_to(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=10).await;
    let old = Sums::new(&db);
    let table = old.table;
    let running = start(&log, ReplicaSet::new("s").projection(old.clone()).lanes(2));
    let total = |table: &str| format!("SELECT coalesce(sum(sum), 0) FROM {table}");
    until("the old version", async || (lag(&log, "sums").await? == 0).then_some(())).await;
    let rebuild = Rebuild::new(&log, "sums", &[table]);
    assert!(matches!(rebuild.switch().await, Err(RebuildError::NotUnderWay { .. })));

    // A wrong one is seen in the comparison, and thrown away.
    let wrong = Sums { factor: 2, version: 2, ..old.clone() };
    ReplicaSet::new("r").rebuild(wrong).catch_up(&log).await.unwrap();
    let differences = rebuild.compare().await.unwrap();
    assert_eq!((differences[0].only_old, differences[0].only_new), (STREAMS, STREAMS));
    assert!(differences[0].examples.iter().any(|row| row.starts_with("- id=")), "{differences:?}");
    Consumers::new(&log).forget("sums.next").await.unwrap();

    // A right one is the same, is not switched to while it is behind, and then in one step.
    let new = Sums { version: 2, ..old.clone() };
    ReplicaSet::new("r").rebuild(new.clone()).catch_up(&log).await.unwrap();
    assert!(rebuild.compare().await.unwrap()[0].is_same());
    fill(&log, 0..STREAMS, 11..=11).await;
    until("the old version goes on", async || (lag(&log, "sums").await? == 0).then_some(())).await;
    let behind = rebuild.switch().await.unwrap_err();
    assert!(matches!(behind, RebuildError::Behind { .. }), "{behind}");
    assert_eq!((behind.code().name(), behind.kind().http_status()), ("rebuild_behind", 409));
    assert!(matches!(rebuild.preview().await, Err(RebuildError::Behind { .. })));
    let building = start(&log, ReplicaSet::new("r").rebuild(new.clone()));
    until("the new version", async || (lag(&log, "sums.next").await? == 0).then_some(())).await;
    rebuild.switch().await.unwrap();
    assert_eq!(number(&log, &total(table)).await, (STREAMS * 66) as i64);
    assert_eq!(status(&log, "sums").await.version, 2);

    // Workers of the old version are refused from now on; those that built the new one serve it.
    let error = running.ended().await.unwrap_err();
    assert!(matches!(&error, RunError::Refused { problem, .. } if problem.contains("version 2")));
    fill(&log, 0..STREAMS, 12..=12).await;
    let sum = (STREAMS * 78) as i64;
    until("the next events", async || (number(&log, &total(table)).await == sum).then_some(()))
        .await;
    let progress = building.stop().await;
    assert_eq!((progress.consumers.len(), progress.consumers[0].name.as_str()), (1, "sums"));
    ReplicaSet::new("s").projection(new).catch_up(&log).await.unwrap();
    assert_eq!(number(&log, &total(table)).await, sum);
}

/// Makes the two tables of a rebuild what a case needs; returns how they differ.
async fn compared(db: &Db, log: &Log, old: &str, new: &str, rows: [&str; 2]) -> TableDifference {
    let sums = Sums::new(db);
    if lag(log, "sums.next").await.is_none() {
        sums.built(log).await;
    }
    let table = sums.table;
    for (suffix, columns, rows) in [("", old, rows[0]), ("_next", new, rows[1])] {
        query(log, &format!("DROP TABLE {table}{suffix}"), vec![]).await;
        query(log, &format!("CREATE TABLE {table}{suffix} ({columns})"), vec![]).await;
        query(log, &format!("INSERT INTO {table}{suffix} VALUES {rows}"), vec![]).await;
    }
    Rebuild::new(log, "sums", &[table]).compare().await.unwrap().remove(0)
}

/// Names of new, gone and changed columns.
fn names(columns: &ColumnDifference) -> [Vec<&str>; 3] {
    [
        columns.new.iter().map(|column| column.name.as_str()).collect(),
        columns.gone.iter().map(|column| column.name.as_str()).collect(),
        columns.changed.iter().map(|column| column.name.as_str()).collect(),
    ]
}

async fn common_columns_are_compared_and_the_others_named(db: Db) {
    let log = db.log().await;
    let old = "id TEXT PRIMARY KEY, sum INTEGER, note TEXT, at TEXT, \"Rest\" VARCHAR(9)";
    let new = "id TEXT PRIMARY KEY, currency TEXT, sum BIGINT, at BLOB_OR_BYTEA, \"Rest\" TEXT";
    let new = &match db.url.starts_with("sqlite") {
        true => new.replace("BLOB_OR_BYTEA", "BLOB"),
        false => new.replace("BLOB_OR_BYTEA", "BYTEA"),
    };
    let rows = [
        "('a', 1, 'x', 'now', 'r'), ('b', 2, 'y', NULL, NULL), ('c', 3, 'z', NULL, NULL)",
        "('a', 'EUR', 1, NULL, 'r'), ('b', 'EUR', 5, NULL, NULL), ('c', 'USD', 3, NULL, NULL)",
    ];
    let difference = compared(&db, &log, old, new, rows).await;
    assert_eq!(
        names(&difference.columns),
        [vec!["currency"], vec!["note"], vec!["sum", "at", "Rest"]]
    );
    let by: Vec<bool> = difference.columns.changed.iter().map(|one| one.compared).collect();
    assert_eq!(by, [true, false, true], "{difference:?}");
    assert_eq!(difference.columns.compared, ["id", "sum", "Rest"]);
    assert_eq!((difference.only_old, difference.only_new), (1, 1), "{difference:?}");
    assert_eq!(difference.examples.len(), 2);
    assert!(difference.examples[0].starts_with("- id=\"b\" sum=2"), "{difference:?}");
    assert!(difference.examples[1].starts_with("+ id=\"b\" sum=5"), "{difference:?}");
    assert!(!difference.is_same());
    // The same in what both have, though not in all.
    let rows = ["('a', 1, 'x', 'now', 'r')", "('a', 'EUR', 1, NULL, 'r')"];
    let difference = compared(&db, &log, old, new, rows).await;
    assert!(difference.is_same() && !difference.columns.is_same(), "{difference:?}");
    let json = serde_json::to_value(&difference).unwrap();
    assert_eq!(json["new_columns"][0]["name"], "currency");
    assert_eq!(json["new_columns"][0]["type"], "text");
    assert_eq!(json["compared"][1], "sum");
}

async fn rows_that_stand_several_times_are_counted(db: Db) {
    let log = db.log().await;
    let columns = "id TEXT, sum BIGINT, extra JSON";
    let rows = [
        "('a', 1, '{}'), ('a', 1, '{}'), ('a', 1, '{}'), ('b', 1, '{}')",
        "('a', 1, '{}'), ('b', 1, '{}'), ('b', 1, NULL)",
    ];
    let difference = compared(&db, &log, columns, columns, rows).await;
    assert_eq!((difference.only_old, difference.only_new), (2, 1), "{difference:?}");
    assert!(difference.examples[0].ends_with("(2 times)"), "{difference:?}");
    // Differences beyond what is shown are counted.
    let many: Vec<String> = (0..50).map(|id| format!("('{id}', 1, NULL)")).collect();
    let rows = [&many.join(", "), "('a', 1, NULL)"];
    let difference = compared(&db, &log, columns, columns, rows).await;
    assert_eq!((difference.only_old, difference.only_new), (50, 1), "{difference:?}");
    assert_eq!(difference.examples.len(), 6);
    // What only one of them has is a difference, whichever it is.
    let [more, fewer] = ["('a', 1, NULL), ('b', 1, NULL)", "('a', 1, NULL)"];
    for (rows, only) in [([more, fewer], (1, 0)), ([fewer, more], (0, 1))] {
        let difference = compared(&db, &log, columns, columns, rows).await;
        assert_eq!((difference.only_old, difference.only_new), only, "{difference:?}");
        assert!(!difference.is_same(), "{difference:?}");
    }
}

async fn what_cannot_be_compared_is_said(db: Db) {
    let log = db.log().await;
    let cases = [
        (
            "id TEXT PRIMARY KEY",
            "order_id TEXT PRIMARY KEY",
            ["('a')", "('a')"],
            "no column in common",
        ),
        (
            "id TEXT PRIMARY KEY, sum BIGINT",
            "order_id TEXT PRIMARY KEY, sum BIGINT",
            ["('a', 1)", "('a', 1)"],
            "key of the old version",
        ),
        (
            "id TEXT PRIMARY KEY, sum BIGINT",
            "id TEXT, currency TEXT, sum BIGINT, PRIMARY KEY (id, currency)",
            ["('a', 1)", "('a', 'EUR', 1)"],
            "key of the new version has what the other cannot be compared by: currency",
        ),
    ];
    for (old, new, rows, reason) in cases {
        let difference = compared(&db, &log, old, new, rows).await;
        let said = difference.columns.incomparable.clone().unwrap();
        assert!(said.contains(reason), "{said}");
        assert!(!difference.is_same() && difference.only_old == 0, "{difference:?}");
    }
    let error = Rebuild::new(&log, "sums", &["nothing"]).compare().await.unwrap_err().to_string();
    assert!(error.contains("there is no table `nothing`"), "{error}");
}

async fn a_preview_says_who_runs_what_and_changes_nothing(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=2).await;
    let old = Sums::new(&db);
    let new = Sums { version: 2, ..old.clone() };
    let serving = start(&log, ReplicaSet::new("old").projection(old.clone()));
    until("the old version", async || (lag(&log, "sums").await? == 0).then_some(())).await;
    let building = start(&log, ReplicaSet::new("new").rebuild(new));
    until("the new version", async || (lag(&log, "sums.next").await? == 0).then_some(())).await;
    let rebuild = Rebuild::new(&log, "sums", &[old.table]);
    let preview = rebuild.preview().await.unwrap();
    assert_eq!((preview.old.version, preview.new.version), (1, 2));
    assert_eq!(preview.old.position, log.head().await.unwrap());
    assert_eq!(preview.new.position, preview.old.position);
    assert_eq!(preview.old.workers[0].replica_set, "old");
    assert_eq!(preview.new.workers[0].replica_set, "new");
    assert_eq!((preview.old.workers.len(), preview.new.workers.len()), (1, 1));
    assert!(preview.columns[0].1.is_same());
    assert_eq!(status(&log, "sums").await.version, 1);
    assert_eq!(status(&log, "sums.next").await.version, 2);
    serving.stop().await;
    building.stop().await;
}

async fn run(log: &Log, set: ReplicaSet) -> Result<(), String> {
    set.catch_up(log).await.map(drop).map_err(|error| error.to_string())
}

async fn total(log: &Log, table: &str) -> i64 {
    number(log, &format!("SELECT CAST(coalesce(sum(sum), 0) AS BIGINT) FROM {table}")).await
}

/// The same program before, during and after the switch.
async fn what_is_stored_decides_where_a_new_version_has_its_place(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=2).await;
    let first = Sums::new(&db);
    let of = |version: u32| Sums { version, ..first.clone() };
    let program = |version: u32| ReplicaSet::new("s").rebuild(of(version));

    // Nothing is stored: it begins under its own name.
    run(&log, program(2)).await.unwrap();
    assert_eq!(status(&log, "sums").await.version, 2);
    assert_eq!(lag(&log, "sums.next").await, None);
    // Its own version: it goes on.
    fill(&log, 0..STREAMS, 3..=3).await;
    run(&log, program(2)).await.unwrap();
    assert_eq!(total(&log, first.table).await, (STREAMS * 6) as i64);
    assert_eq!(lag(&log, "sums.next").await, None);
    // An older one: it is built beside it, twice over if it must.
    run(&log, program(3)).await.unwrap();
    run(&log, program(3)).await.unwrap();
    assert_eq!((lag(&log, "sums").await, lag(&log, "sums.next").await), (Some(0), Some(0)));
    Rebuild::new(&log, "sums", &[first.table]).switch().await.unwrap();
    fill(&log, 0..STREAMS, 4..=4).await;
    run(&log, program(3)).await.unwrap();
    assert_eq!(status(&log, "sums").await.version, 3);
    assert_eq!(total(&log, first.table).await, (STREAMS * 10) as i64);
    assert_eq!(lag(&log, "sums.next").await, None);
    // A newer one: it is refused, whichever way it is said.
    for set in [program(2), ReplicaSet::new("s").projection(of(2))] {
        let error = run(&log, set).await.unwrap_err();
        assert!(error.contains("`sums` is refused: version 3 has taken the place"), "{error}");
    }
    assert_eq!(lag(&log, "sums.next").await, None);
}

async fn a_new_version_must_be_meant(db: Db) {
    let log = db.log().await;
    let first = Sums::new(&db);
    run(&log, ReplicaSet::new("s").projection(first.clone())).await.unwrap();
    let second = Sums { version: 2, ..first.clone() };
    let error = run(&log, ReplicaSet::new("s").projection(second.clone())).await.unwrap_err();
    assert!(
        error.contains("build the new one beside it (docs/changing-a-projection.md)"),
        "{error}"
    );
    // A version that was not raised would go on with the tables of the old one.
    let error = run(&log, ReplicaSet::new("s").rebuild(first.clone())).await.unwrap_err();
    assert!(error.contains("raise the version"), "{error}");
    let both = ReplicaSet::new("s").projection(second.clone()).rebuild(second.clone());
    let error = run(&log, both).await.unwrap_err();
    assert!(error.contains("beside version 2 and has version 2"), "{error}");
    let twice = ReplicaSet::new("s").rebuild(second.clone()).rebuild(second);
    assert!(run(&log, twice).await.unwrap_err().contains("two with that name"));
    assert_eq!(lag(&log, "sums.next").await, None);
}

async fn a_program_may_have_both_versions(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=2).await;
    let first = Sums::new(&db);
    run(&log, ReplicaSet::new("s").projection(first.clone())).await.unwrap();
    let program = || {
        let second = Sums { version: 2, factor: 10, ..first.clone() };
        ReplicaSet::new("s").projection(first.clone()).rebuild(second)
    };
    fill(&log, 0..STREAMS, 3..=3).await;
    run(&log, program()).await.unwrap();
    assert_eq!(total(&log, first.table).await, (STREAMS * 6) as i64);
    assert_eq!(total(&log, &format!("{}_next", first.table)).await, (STREAMS * 60) as i64);
    Rebuild::new(&log, "sums", &[first.table]).switch().await.unwrap();
    fill(&log, 0..STREAMS, 4..=4).await;
    run(&log, program()).await.unwrap();
    assert_eq!(total(&log, first.table).await, (STREAMS * 100) as i64);
}

async fn what_is_being_built_is_not_mixed_with_another_version(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=2).await;
    let first = Sums::new(&db);
    first.built(&log).await;
    let third = || ReplicaSet::new("s").rebuild(Sums { version: 3, factor: 7, ..first.clone() });
    let error = run(&log, third()).await.unwrap_err();
    assert!(error.contains("version 2 of it and this program version 3"), "{error}");
    assert!(error.contains("anabranch rebuild abandon sums"), "{error}");
    let rebuild = Rebuild::new(&log, "sums", &[first.table]);
    rebuild.abandon().await.unwrap();
    let next = format!("{}_next", first.table);
    // Its table is gone as well: this would fail otherwise.
    query(&log, &format!("CREATE TABLE {next} (other BIGINT)"), vec![]).await;
    for refused in [
        rebuild.compare().await.map(drop),
        rebuild.preview().await.map(drop),
        rebuild.switch().await,
        rebuild.abandon().await,
    ] {
        let what = refused.unwrap_err();
        assert!(matches!(what, RebuildError::NotUnderWay { .. }), "{what}");
        let what = what.to_string();
        assert!(what.contains("no rebuild of `sums` is under way: it is version 1"), "{what}");
    }
    run(&log, third()).await.unwrap();
    assert_eq!(total(&log, &next).await, (STREAMS * 21) as i64);
    assert_eq!(total(&log, first.table).await, (STREAMS * 3) as i64);
}

/// Wherever the switch falls between a program's look and its registration, it is never built beside
/// itself.
async fn programs_that_start_during_a_switch_find_their_place(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=1).await;
    let first = Sums::new(&db);
    run(&log, ReplicaSet::new("s").projection(first.clone())).await.unwrap();
    for version in 2..8 {
        let program = || ReplicaSet::new("s").rebuild(Sums { version, ..first.clone() });
        run(&log, program()).await.unwrap();
        let starts = (0..4).map(|_| {
            let (log, set) = (log.clone(), program());
            tokio::spawn(async move { run(&log, set).await })
        });
        let starts: Vec<_> = starts.collect();
        Rebuild::new(&log, "sums", &[first.table]).switch().await.unwrap();
        for started in starts {
            // One that had begun to build it may have lost its place.
            let _ = started.await.unwrap();
        }
        assert_eq!(status(&log, "sums").await.version, version);
        assert_eq!(lag(&log, "sums.next").await, None, "built beside itself");
        run(&log, program()).await.unwrap();
        assert_eq!(total(&log, first.table).await, STREAMS as i64);
    }
}

/// Who built the new version cannot say that it serves it: it waits for that, and all others go on.
async fn a_disk_that_is_full_during_a_switch_ends_nobody(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=2).await;
    let old = Sums::new(&db);
    old.built(&log).await;
    let (good, moving) = (db.recorder("good"), Arc::new(AtomicU64::new(0)));
    let (new, moves) = (Sums { version: 2, ..old.clone() }, Arc::clone(&moving));
    let set = ReplicaSet::new("s").rebuild(new).projection(good.clone());
    let running = start(
        &log,
        set.on_progress(move |progress| {
            let is_moving = progress.consumers.iter().any(|one| one.trouble.is_some());
            moves.fetch_add(is_moving.into(), Ordering::SeqCst);
        }),
    );
    let handled = async |each: u64| {
        let all = (STREAMS * each) as i64;
        let known = Consumers::new(&log).status("good").await.is_ok();
        (known && proof(&log, &good.table).await.handled == all).then_some(())
    };
    until("the other one", async || handled(2).await).await;
    let (runners, full) = (table_of(&log, "runners"), db.table("full"));
    let refuse = "BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END";
    let function =
        format!("CREATE FUNCTION {full}() RETURNS trigger LANGUAGE plpgsql AS $${refuse}$$");
    query(&log, &function, vec![]).await;
    let trigger = format!("CREATE TRIGGER {full} BEFORE DELETE ON {runners}");
    query(&log, &format!("{trigger} FOR EACH ROW EXECUTE FUNCTION {full}()"), vec![]).await;
    Rebuild::new(&log, "sums", &[old.table]).switch().await.unwrap();
    until("it to have tried", async || {
        assert!(!running.has_ended());
        (moving.load(Ordering::SeqCst) > 10).then_some(())
    })
    .await;
    fill(&log, 0..STREAMS, 3..=3).await;
    until("the other one goes on", async || handled(3).await).await;
    query(&log, &format!("DROP TRIGGER {full} ON {runners}"), vec![]).await;
    let (total, sum) = (format!("SELECT sum(sum) FROM {}", old.table), (STREAMS * 6) as i64);
    until("the new version", async || (number(&log, &total).await == sum).then_some(())).await;
    running.stop().await;
}
