//! `anabranch audit`: begun, proven, listed and ended from the command line, and what it says of a violation.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod printed;
mod process;
mod sums;

use anabranch::Log;
use anabranch::backend::database::{End, Statement};
use printed::{lines, said, words};
use process::{failure, postgres, stdout};
use sums::{Bench, until};

/// The projection's name; its table is named after the bench.
const NAME: &str = "sums";

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_an_audit_proves_and_finds() {
    proves_and_finds(Bench::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_an_audit_proves_and_finds() {
    proves_and_finds(Bench::postgres(postgres())).await;
}

async fn change(log: &Log, sql: &str, table: &str) {
    let sql = sql.replace("{}", &log.database().dialect().table(table));
    let mut session = log.database().begin();
    session.run(vec![Statement::new(sql, vec![])], End::Commit).await.unwrap();
}

async fn proves_and_finds(bench: Bench) {
    let log = bench.log().await;
    assert!(said(&bench.command(&["audit"])).contains("no consumer is audited"));
    let nobody = failure(&bench.command(&["audit", NAME]), 1);
    assert!(nobody.contains("[no_such_consumer]"), "{nobody}");
    bench.fill(&log, 1..=5, 2).await;
    bench.catch_up(&log).await;
    let before = failure(&bench.command(&["audit", NAME]), 1);
    assert!(before.contains("--start") && before.contains("[not_audited]"), "{before}");
    let begun = said(&bench.command(&["audit", NAME, "--start"]));
    assert!(begun.contains("is audited from here on"), "{begun}");
    let again = said(&bench.command(&["audit", NAME, "--start"]));
    assert!(again.contains("is audited already"), "{again}");

    let running = bench.start(&log).await;
    bench.fill(&log, 1..=5, 3).await;
    until("it is handled", async || bench.status(&log).await.lag == 0).await;
    let kept = &lines(&bench.command(&["audit", NAME, "--json", "--no-prune"]))[0];
    assert_eq!((&kept["proven"], &kept["handed"]), (&true.into(), &15.into()), "{kept}");
    assert_eq!((&kept["after"], &kept["up_to"]), (&10.into(), &25.into()), "{kept}");
    assert_eq!((&kept["pruned"], &kept["slots"]), (&0.into(), &5040.into()), "{kept}");
    let text = stdout(&bench.command(&["audit", NAME]));
    let said_so = "proven: the handler of `sums` received every event once and in order, after position 10 up to 25: \
                   15 events handed over, ";
    assert!(text.starts_with(said_so), "{text}");
    let next = &lines(&bench.command(&["audit", NAME, "--json"]))[0];
    assert_eq!((&next["handed"], &next["pruned"]), (&0.into(), &0.into()), "{next}");
    running.stop().await;

    let listed = stdout(&bench.command(&["audit"]));
    let listed = words(&listed);
    assert_eq!(listed[0], ["CONSUMER", "SINCE", "ROWS", "PROVEN", "UP TO"]);
    assert_eq!((listed[1][0], listed[1].last()), (NAME, Some(&"25")), "{listed:?}");
    let listed = &lines(&bench.command(&["audit", "--json"]))[0];
    assert_eq!((&listed["consumer"], &listed["proven_up_to"]), (&NAME.into(), &25.into()));

    change(&log, "UPDATE {} SET position = position - 5", "cursors").await;
    let broken = failure(&bench.command(&["audit", NAME]), 1);
    assert!(broken.contains("is at position 20, and its last row"), "{broken}");
    assert!(broken.contains("[audit_cursor]"), "{broken}");
    let every = failure(&bench.command(&["audit", NAME, "--every", "1s", "--json"]), 1);
    let error: serde_json::Value = serde_json::from_str(&every).unwrap();
    assert_eq!((&error["code"], &error["kind"]), (&"audit_cursor".into(), &"failed".into()));
    change(&log, "UPDATE {} SET position = position + 5", "cursors").await;
    assert!(bench.command(&["audit", NAME]).status.success(), "it is as it was");

    for wrong in [&["audit", "--start"][..], &["audit", NAME, "--start", "--stop"]] {
        assert_eq!(bench.command(wrong).status.code(), Some(2), "{wrong:?}");
    }
    let unsure = failure(&bench.command(&["audit", NAME, "--stop"]), 2);
    assert!(unsure.contains("--yes"), "{unsure}");
    let ended = said(&bench.command(&["audit", NAME, "--stop", "--yes"]));
    assert!(ended.contains("is not audited any more"), "{ended}");
    let ended = said(&bench.command(&["audit", NAME, "--stop", "--yes"]));
    assert!(ended.contains("nothing has changed"), "{ended}");
}
