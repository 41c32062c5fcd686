//! A new version of a projection from the command line: compared, asked about, switched to.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;
mod sums;

use anabranch::Log;
use anabranch::backend::database::{End, Statement};
use process::{failure, postgres};
use serde_json::Value;
use std::process::Output;
use sums::Bench;

/// The projection's name; its table is named after the bench.
const NAME: &str = "sums";

async fn execute(log: &Log, sql: String) {
    let statement = Statement::new(sql, vec![]);
    let done = log.store().database().begin().run(vec![statement], End::Commit).await;
    done.unwrap();
}

fn rebuild(bench: &Bench, what: &str, more: &[&str]) -> Output {
    let arguments = ["rebuild", what, NAME, "--table", bench.table()];
    bench.command(&[&arguments, more].concat())
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

async fn a_new_version_is_compared_and_switched_to(bench: Bench) {
    let log = bench.log().await;
    bench.fill(&log, 1..=2, 2).await;
    bench.catch_up(&log).await;
    for (what, more) in [("compare", &[][..]), ("switch", &["--yes"]), ("abandon", &["--yes"])] {
        let error = failure(&rebuild(&bench, what, more), 1);
        assert!(error.contains("no rebuild of `sums` is under way: it is version 1"), "{error}");
        assert!(error.contains("ReplicaSet::rebuild"), "{error}");
    }
    bench.rebuild(&log, 2).await;
    let compared = rebuild(&bench, "compare", &[]);
    assert_eq!(compared.status.code(), Some(1), "{compared:?}");
    let (out, _) = text(&compared);
    assert!(
        out.contains("4 rows only in the old version (-), 4 only in the new one (+)\n"),
        "{out}"
    );
    assert!(out.contains(r#"- position=1 order_id="1" factor=1"#), "{out}");

    // Other columns are named, and the common ones compared.
    let (table, next) = (bench.table(), format!("{}_next", bench.table()));
    execute(&log, format!("ALTER TABLE {next} ADD COLUMN currency TEXT")).await;
    execute(&log, format!("ALTER TABLE {table} DROP COLUMN factor")).await;
    execute(&log, format!("ALTER TABLE {table} ADD COLUMN note TEXT")).await;
    let compared = rebuild(&bench, "compare", &[]);
    assert!(compared.status.success(), "{compared:?}");
    let (out, _) = text(&compared);
    assert_eq!(
        out,
        format!(
            "{table}: the same (compared by position, order_id)\n  \
             new columns: factor bigint, currency text\n  gone columns: note text\n"
        )
    );
    let compared = rebuild(&bench, "compare", &["--json"]);
    let json: Value = serde_json::from_str(&text(&compared).0).unwrap();
    assert_eq!((&json["only_old"], &json["only_new"]), (&0.into(), &0.into()));
    assert_eq!(json["gone_columns"][0]["name"], "note");
    assert_eq!(json["new_columns"][1]["type"], "text");
    assert!(json["changed_columns"].as_array().unwrap().is_empty());
    assert!(json["incomparable"].is_null());

    // It asks, and does nothing unless it is meant.
    let running = bench.start(&log).await;
    let asked = rebuild(&bench, "switch", &[]);
    assert_eq!(asked.status.code(), Some(2), "{asked:?}");
    let (_, said) = text(&asked);
    for part in [
        "from version 1 to version 2",
        "the old version is at position 4",
        "the new version is at position 4",
        "is refused for this consumer, and goes on with its others",
        "no worker runs it",
        "new columns: factor bigint, currency text",
        "anabranch rebuild compare sums --table",
        "add --yes if that is meant",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let pid = format!(", pid {}, a share", std::process::id());
    assert!(said.contains(&pid), "{said}");
    assert_eq!(bench.status(&log).await.version, 1);
    running.stop().await;

    let switched = rebuild(&bench, "switch", &["--yes"]);
    assert!(switched.status.success() && switched.stdout.is_empty(), "{switched:?}");
    let status = bench.status(&log).await;
    assert_eq!((status.version, status.lag), (2, 0));
    for what in ["switch", "abandon"] {
        let again = failure(&rebuild(&bench, what, &["--yes"]), 1);
        assert!(again.contains("no rebuild of `sums` is under way: it is version 2"), "{again}");
    }
    let injection = bench.command(&["rebuild", "compare", NAME, "--table", "t; DROP"]);
    assert!(failure(&injection, 2).contains("use letters, digits and _"));
}

async fn reasons_against_a_switch_come_before_the_question(bench: Bench) {
    let log = bench.log().await;
    bench.fill(&log, 1..=2, 2).await;
    bench.catch_up(&log).await;
    bench.rebuild(&log, 2).await;
    bench.fill(&log, 1..=2, 2).await;
    bench.catch_up(&log).await;
    for more in [&[][..], &["--yes"]] {
        let behind = failure(&rebuild(&bench, "switch", more), 1);
        assert!(behind.contains("at position 4, the old one at 8; let it catch up"), "{behind}");
    }
    assert_eq!(bench.status(&log).await.version, 1);
}

async fn what_was_built_is_thrown_away_if_nobody_builds_it(bench: Bench) {
    let log = bench.log().await;
    bench.fill(&log, 1..=2, 2).await;
    bench.catch_up(&log).await;
    let building = bench.start_rebuild(&log, 2).await;
    let refused = failure(&rebuild(&bench, "abandon", &["--yes"]), 1);
    assert!(refused.contains("`sums.next` is being built; stop its workers first"), "{refused}");
    building.stop().await;
    let asked = failure(&rebuild(&bench, "abandon", &[]), 2);
    assert!(asked.contains("version 2 of `sums`, built up to position 4"), "{asked}");
    assert!(rebuild(&bench, "abandon", &["--yes"]).status.success());
    // The tables are gone as well: a `CREATE TABLE` would fail otherwise.
    bench.rebuild(&log, 3).await;
    assert_eq!(bench.status(&log).await.version, 1);
}

macro_rules! on_both {
    ($($case:ident),*) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() { super::$case(crate::Bench::sqlite()).await; })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() { super::$case(crate::Bench::postgres(crate::postgres())).await; })*
        }
    };
}

on_both!(
    a_new_version_is_compared_and_switched_to,
    reasons_against_a_switch_come_before_the_question,
    what_was_built_is_thrown_away_if_nobody_builds_it
);
