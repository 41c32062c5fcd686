//! Events in one database and their consumers in another, as the command says it.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;
mod sums;

use anabranch::{Log, Options};
use process::{failure, postgres, stdout};
use serde_json::Value;
use sums::Bench;

const NAME: &str = "sums";

/// A log of events in a file, under the namespace that its consumers have at home.
async fn events(bench: &Bench, file: &std::path::Path) -> (Log, String) {
    let url = format!("sqlite:{}", file.display());
    let options = Options { namespace: bench.namespace(), ..Options::default() };
    (anabranch::connect_with(&url, &options).await.unwrap(), url)
}

fn status(bench: &Bench, more: &[&str]) -> Value {
    let arguments = [&["status", NAME, "--json"], more].concat();
    serde_json::from_str(&stdout(&bench.command(&arguments))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_names_only_the_home_is_told_so() {
    for bench in [Bench::sqlite(), Bench::postgres(postgres())] {
        let folder = tempfile::tempdir().unwrap();
        let (log, url) = events(&bench, &folder.path().join("events.db")).await;
        let log = log.with_database(&bench.log().await).await.unwrap();
        bench.fill(&log, 1..=5, 2).await;
        bench.catch_up(&log).await;
        let both: &[&str] = &["--events-url", &url];

        let known = status(&bench, both);
        assert_eq!((&known["head"], &known["lag"]), (&10.into(), &0.into()), "{known}");
        let unknown = status(&bench, &[]);
        for field in ["head", "lag", "lag_ready"] {
            assert_eq!(unknown[field], Value::Null, "{field} of {unknown}");
        }
        assert!(unknown["state"].as_str().unwrap().contains("in another log"), "{unknown}");

        let refused = failure(&bench.command(&["offsets", NAME]), 1);
        assert!(refused.contains("--events-url") && refused.contains("[other_log]"), "{refused}");
        assert!(bench.command(&[&["offsets", NAME], both].concat()).status.success());

        // Nobody would read it.
        let appended = bench.command(&["append", "Order:9", "Added", "1"]);
        let said = String::from_utf8(appended.stderr).unwrap();
        assert!(said.contains("warning: sums here read another log"), "{said}");
        let appended = bench.command(&[&["append", "Order:9", "Added", "1"], both].concat());
        assert!(appended.stderr.is_empty(), "{appended:?}");
        assert_eq!(status(&bench, both)["lag"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_names_another_log_is_asked_whether_that_is_meant() {
    for bench in [Bench::sqlite(), Bench::postgres(postgres())] {
        let folder = tempfile::tempdir().unwrap();
        let (log, _) = events(&bench, &folder.path().join("events.db")).await;
        let log = log.with_database(&bench.log().await).await.unwrap();
        bench.fill(&log, 1..=5, 2).await;
        bench.catch_up(&log).await;
        let (other, url) = events(&bench, &folder.path().join("other.db")).await;
        bench.fill(&other, 1..=50, 2).await;
        let wrong: &[&str] = &["--events-url", &url];

        for command in [&["skip-to-head", NAME][..], &["replay", NAME, "--from-start"]] {
            let refused = failure(&bench.command(&[command, wrong].concat()), 2);
            let asks =
                "another log than the one of which `sums` has handled the events up to position 10";
            assert!(refused.contains(asks) && refused.contains("add --yes"), "{refused}");
        }
        let shown = bench.command(&[&["status"], wrong].concat());
        let said = String::from_utf8(shown.stderr).unwrap();
        assert!(said.contains("--events-url names is not the one"), "{said}");
        assert_eq!(status(&bench, wrong)["position"], 10, "nothing has changed");
    }
}
