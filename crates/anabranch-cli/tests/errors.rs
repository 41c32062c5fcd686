//! What the command says when it fails: text and code, or JSON, and the exit code.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;
mod sums;

use process::{failure, postgres, run};
use serde_json::{Value, json};
use sums::Bench;

const NAME: &str = "sums";

async fn an_error_ends_with_its_code(bench: Bench) {
    let log = bench.log().await;
    bench.fill(&log, 1..=3, 1).await;
    bench.catch_up(&log).await;
    let no_task = "0199d3a0-5f5e-7c3a-9d0e-6a1f6c1f0a11";
    for (command, exit, code) in [
        (&["pause", "x"][..], 1, "no_such_consumer"),
        (&["parked", "retry", "x", "k"], 1, "no_such_consumer"),
        (&["parked", "retry", NAME, "k"], 1, "no_such_key"),
        (&["parked", "show", NAME, "k"], 1, "no_such_key"),
        (&["replay", NAME, "--after", "99"], 1, "replay_forwards"),
        (&["skip-to-head", NAME], 2, "not_confirmed"),
        (&["forget", NAME], 2, "not_confirmed"),
        (&["accept-scope", NAME], 1, "no_scope_change"),
        (&["generations", "x"], 1, "no_such_replica_set"),
        (&["rebuild", "switch", NAME, "--table", "t"], 1, "no_rebuild"),
        (&["tasks", "list", "x"], 1, "no_such_pool"),
        (&["tasks", "show", no_task], 1, "no_such_task"),
        (&["tasks", "enqueue", "x", "k", "{"], 1, "invalid_json"),
    ] {
        let error = failure(&bench.command(command), exit);
        assert!(error.starts_with("error: "), "{command:?}: {error}");
        assert!(error.ends_with(&format!(" [{code}]\n")), "{command:?}: {error}");
        assert_eq!(error.matches(&format!("[{code}]")).count(), 1, "{command:?}: {error}");
    }
}

async fn with_json_an_error_is_an_object(bench: Bench) {
    let log = bench.log().await;
    bench.fill(&log, 1..=3, 1).await;
    bench.catch_up(&log).await;
    for (command, code, kind) in [
        (&["status", "x", "--json"][..], "no_such_consumer", "not found"),
        (&["parked", "show", NAME, "k", "--json"], "no_such_key", "not found"),
        (&["tasks", "list", "x", "--json"], "no_such_pool", "not found"),
    ] {
        let said = failure(&bench.command(command), 1);
        let error: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&error["code"], &error["kind"]), (&json!(code), &json!(kind)), "{said}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("; ") && !message.contains('['), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_ends_with_its_code_on_sqlite() {
    an_error_ends_with_its_code(Bench::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_ends_with_its_code_on_postgres() {
    an_error_ends_with_its_code(Bench::postgres(postgres())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_json_an_error_is_an_object_on_sqlite() {
    with_json_an_error_is_an_object(Bench::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_json_an_error_is_an_object_on_postgres() {
    with_json_an_error_is_an_object(Bench::postgres(postgres())).await;
}

#[test]
fn a_database_that_is_not_there_has_a_code_too() {
    let here = tempfile::tempdir().unwrap();
    let unreachable = "postgres://postgres@127.0.0.1:1/postgres";
    for (url, code) in [
        ("mysql://x", "invalid_url"),
        ("sqlite:none.db", "no_such_log"),
        (unreachable, "unreachable"),
    ] {
        let error = failure(&run(here.path(), &["status", "--url", url]), 1);
        assert!(error.ends_with(&format!(" [{code}]\n")), "{url}: {error}");
    }
}
