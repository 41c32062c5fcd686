//! Logs that lost events, as the command says it: from where a replay can begin, who stands beyond the log,
//! and how to get out of it.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;
mod sums;

use anabranch::Log;
use anabranch::backend::database::{End, Statement};
use process::{failure, postgres, stdout};
use serde_json::Value;
use sums::Bench;

const NAME: &str = "sums";

fn said(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.command(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn status(bench: &Bench) -> Value {
    serde_json::from_str(&stdout(&bench.command(&["status", NAME, "--json"]))).unwrap()
}

async fn run(log: &Log, sql: Vec<String>) {
    let statements = sql.into_iter().map(|sql| Statement::new(sql, vec![])).collect();
    log.store().database().begin().run(statements, End::Commit).await.unwrap();
}

/// Empties the log as if nothing had ever been in it.
async fn fall_back(log: &Log) {
    let database = log.store().database();
    let dialect = database.dialect();
    let (events, settings) = (dialect.table("events"), dialect.table("settings"));
    let sql = match dialect.name() {
        "postgres" => vec![format!("TRUNCATE {events} RESTART IDENTITY")],
        _ => vec![
            format!("DELETE FROM {events}"),
            format!("UPDATE {settings} SET value = '0' WHERE name = 'deleted_up_to'"),
        ],
    };
    run(log, sql).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_asks_if_its_beginning_is_gone() {
    for bench in [Bench::sqlite(), Bench::postgres(postgres())] {
        let log = bench.log().await;
        bench.fill(&log, 1..=5, 2).await;
        bench.catch_up(&log).await;
        let events = log.store().database().dialect().table("events");
        run(&log, vec![format!("DELETE FROM {events} WHERE position <= 4")]).await;

        let refused = failure(&bench.command(&["replay", NAME, "--from-start"]), 2);
        for part in ["the positions 1 to 4", "begin with position 5, recorded at 2", "add --yes"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        assert_eq!(status(&bench)["replay_from"], Value::Null);

        let asked = said(&bench, &["replay", NAME, "--from-first-kept"]);
        assert!(asked.contains("after position 4"), "{asked}");
        bench.catch_up(&log).await;
        assert_eq!(bench.handled(&log).await, 10, "what was made of deleted events is kept");

        let asked = said(&bench, &["replay", NAME, "--from-start", "--yes"]);
        assert!(asked.contains("after position 0"), "{asked}");
        bench.catch_up(&log).await;
        assert_eq!(bench.handled(&log).await, 6, "its hook removed what cannot come again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_beyond_the_log_is_named_and_led_back() {
    for bench in [Bench::sqlite(), Bench::postgres(postgres())] {
        let log = bench.log().await;
        bench.fill(&log, 1..=5, 2).await;
        bench.catch_up(&log).await;
        fall_back(&log).await;
        bench.fill(&log, 1..=3, 1).await;

        let json = status(&bench);
        assert_eq!((&json["state"], &json["lag"]), (&"beyond the log".into(), &Value::Null));
        let reason = &json["cursors"][0]["reasons"][0];
        assert_eq!((&reason["reason"], &reason["drawn"]), (&"beyond_log".into(), &3.into()));
        let text = stdout(&bench.command(&["status", NAME]));
        assert!(text.contains("beyond 3, the last position that the log has ever"), "{text}");
        assert!(failure(&bench.command(&["offsets", NAME]), 1).contains("stands at position 10"));

        let resumed = said(&bench, &["resume", NAME]);
        assert!(resumed.contains("anabranch replay sums --from-start"), "{resumed}");

        let far = failure(&bench.command(&["replay", NAME, "--after", "4"]), 1);
        assert!(far.contains("choose a position up to 3"), "{far}");
        let asked = said(&bench, &["replay", NAME, "--after", "1"]);
        assert!(asked.contains("after position 1"), "{asked}");
        let before = bench.calls();
        bench.catch_up(&log).await;
        assert_eq!(bench.calls() - before, 2);

        fall_back(&log).await;
        bench.fill(&log, 1..=1, 1).await;
        let refused = failure(&bench.command(&["skip-to-head", NAME]), 2);
        assert!(
            refused.contains("beyond 1, the last one that the log has ever drawn"),
            "{refused}"
        );
        let skipped = said(&bench, &["skip-to-head", NAME, "--yes"]);
        assert!(skipped.contains("goes on after position 1; it stood at 3"), "{skipped}");
        let before = bench.calls();
        bench.fill(&log, 1..=1, 1).await;
        bench.catch_up(&log).await;
        assert_eq!(bench.calls() - before, 1);
        assert_eq!(status(&bench)["lag"], 0);
    }
}

/// A resume says that it does not help, and what does.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_whose_log_was_wound_back_is_not_resumed_but_decided_upon() {
    let folder = tempfile::tempdir().unwrap();
    for (number, bench) in [Bench::sqlite(), Bench::postgres(postgres())].iter().enumerate() {
        let url = format!("sqlite:{}", folder.path().join(format!("{number}.db")).display());
        let namespace = anabranch::Namespace::new(bench.namespace.clone()).unwrap();
        let options = anabranch::Options { namespace, ..Default::default() };
        let events = anabranch::connect_with(&url, &options).await.unwrap();
        let log = events.with_database(&bench.log().await).await.unwrap();
        bench.fill(&log, 1..=5, 2).await;
        bench.catch_up(&log).await;
        fall_back(&log).await;
        bench.fill(&log, 1..=6, 2).await;
        let offsets = failure(&bench.command(&["offsets", NAME, "--events-url", &url]), 1);
        assert!(offsets.contains("the log was wound back"), "{offsets}");
        let resumed = said(bench, &["resume", NAME, "--events-url", &url]);
        for part in [
            "`sums` does not go on by that: the log was wound back",
            "anabranch replay sums --from-start",
            "anabranch skip-to-head sums",
        ] {
            assert!(resumed.contains(part), "{part}: {resumed}");
        }
    }
}
