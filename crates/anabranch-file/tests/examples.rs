//! The examples that are files prove themselves: their tests pass on both databases, in each language.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch::postgres::ThrowawayDatabase;
use anabranch::testing::TestKit;
use anabranch_file::file::{File, Source};
use anabranch_file::program::Programs;
use std::path::Path;

/// The file, with the interpreters that the tests were given.
fn file(name: &str) -> File {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let mut text = std::fs::read_to_string(&path).unwrap();
    for (program, variable) in
        [("python3", "ANABRANCH_TEST_PYTHON"), ("node", "ANABRANCH_TEST_NODE")]
    {
        if let Ok(found) = std::env::var(variable) {
            text = text.replace(&format!("[\"{program}\""), &format!("[\"{found}\""));
        }
    }
    File::parse(&Source::new(path, text)).unwrap_or_else(|problems| panic!("{problems}"))
}

async fn prove(name: &str) {
    let file = file(name);
    assert!(!file.tests.is_empty(), "{name} proves nothing");
    let server = std::env::var("ANABRANCH_TEST_POSTGRES")
        .expect("these tests need PostgreSQL: run `cargo xtask test`");
    for one in &file.tests {
        for database in ["sqlite", "postgres"] {
            let made = match database {
                "postgres" => Some(ThrowawayDatabase::create(&server).await.unwrap()),
                _ => None,
            };
            let url = made.as_ref().map_or("sqlite::memory:", ThrowawayDatabase::url);
            let log = anabranch::connect(url).await.unwrap();
            let kit = TestKit::with_log(log.clone());
            let found = anabranch_file::test(&file, one, kit, Programs::new()).await;
            log.close().await;
            if let Some(made) = made {
                made.remove().await.unwrap();
            }
            let shown: Vec<String> = found
                .unwrap_or_else(|error| panic!("{name}, {}, on {database}: {error}", one.name))
                .iter()
                .map(|mismatch| format!("{}\n{}", mismatch.what, mismatch.difference.shown(160)))
                .collect();
            assert!(shown.is_empty(), "{name}, {}, on {database}:\n{}", one.name, shown.join("\n"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_in_sql() {
    prove("orders.toml").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn risk_in_python() {
    prove("python/risk.toml").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seats_in_typescript() {
    prove("typescript/seats.toml").await;
}
