//! The clients of the HTTP API, by their own tests, against `anabranch serve` and a worker that has code.
//!
//! A test starts and kills servers of its own by the command that it is given; what needs a worker uses the one that
//! is here.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

#[path = "../process/mod.rs"]
mod process;
#[path = "../provided/mod.rs"]
mod provided;
mod worker;

use std::path::PathBuf;
use std::process::{Command, Output};
use worker::Work;

fn package(name: &str) -> PathBuf {
    provided::root().join("clients").join(name)
}

/// Runs the tests of a client, with what they need in the environment.
async fn pass(mut tests: Command) {
    let work = Work::begin().await;
    tests.env("ANABRANCH_TEST_COMMAND", env!("CARGO_BIN_EXE_anabranch"));
    tests.env("ANABRANCH_TEST_URL", work.url()).env("ANABRANCH_TEST_TOKEN", work.token());
    for other in ["ANABRANCH_URL", "DATABASE_URL", "RUST_LOG"] {
        tests.env_remove(other);
    }
    let run = tokio::task::spawn_blocking(move || {
        let said: Output = tests.output().unwrap();
        (said, tests)
    });
    let (said, tests) = run.await.unwrap();
    work.end().await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = text(&said.stdout) + &text(&said.stderr);
    assert!(said.status.success(), "{tests:?} ({})\n{all}", said.status);
    assert!(!all.contains("Ran 0 tests") && !all.contains("# tests 0"), "no tests were run\n{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn python() {
    let mut python = Command::new(provided::python());
    let folder = package("python");
    python.args(["-W", "error", "-m", "unittest", "discover", "-s", "server_tests"]);
    pass({
        python.env("PYTHONPATH", &folder).current_dir(folder);
        python
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript() {
    let folder = package("typescript");
    let files = std::fs::read_dir(folder.join("server-test")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let tests: Vec<_> = files.filter(|file| file.to_string_lossy().ends_with(".test.js")).collect();
    assert!(!tests.is_empty(), "{} has no tests", folder.display());
    let mut node = Command::new(provided::node());
    node.arg("--test").args(tests).current_dir(folder);
    pass(node).await;
}
