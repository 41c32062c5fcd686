//! The benchmarks, small: they verify what they measured, and leave nothing behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch::sqlite::rusqlite::Connection;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

fn bench(directory: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .current_dir(directory)
        .env_remove("RUST_LOG")
        .arg("bench")
        .args(arguments)
        .args(["--url", "sqlite:x.db", "--json"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn tables(directory: &Path) -> i64 {
    let connection = Connection::open(directory.join("x.db")).unwrap();
    let count = "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'";
    connection.query_row(count, (), |row| row.get(0)).unwrap()
}

#[test]
fn decisions_are_measured_beside_their_limit() {
    let here = tempfile::tempdir().unwrap();
    let lines = bench(here.path(), &["dcb", "--seconds", "0.1", "--repeats", "1"]);
    let seen: Vec<_> = lines.iter().map(|line| line["case"].as_str().unwrap()).collect();
    assert_eq!(seen, ["single", "conditional", "decision", "batch"]);
    for line in &lines {
        for key in ["rate", "limit", "ratio"] {
            assert!(line[key].as_f64().unwrap() > 0.0, "{key} of {line}");
        }
    }
    assert_eq!(tables(here.path()), 0);
}

#[test]
fn what_an_audit_costs_is_measured() {
    let here = tempfile::tempdir().unwrap();
    for handler in ["nothing", "upsert"] {
        let small = ["audit", "--events", "500", "--streams", "50", "--pairs", "2", "--handler"];
        let lines = bench(here.path(), &[&small[..], &[handler]].concat());
        assert_eq!(lines.len(), 3, "two pairs and what comes of them");
        for line in &lines[..2] {
            // Of so few events the time may be too little to be measured.
            assert!(line["proven"].as_f64().unwrap() > 0.0, "{line}");
        }
        assert_eq!(lines[2]["bench"], "audit");
    }
    assert_eq!(tables(here.path()), 0);
}

#[test]
fn catching_up_is_measured_beside_its_limit() {
    let here = tempfile::tempdir().unwrap();
    let cases = "nothing,upsert,batch,view,commits";
    let small = ["project", "--events", "1000", "--streams", "50", "--repeats", "1"];
    let lines = bench(here.path(), &[&small[..], &["--cases", cases]].concat());
    let seen: Vec<_> = lines.iter().map(|line| line["case"].as_str().unwrap()).collect();
    let thrice = ["nothing", "upsert", "batch", "view"].map(|case| [case; 3]).concat();
    assert_eq!(seen, [thrice, vec!["commit-1-slot", "commit-5040-slots"]].concat());
    for line in &lines {
        assert_eq!(line["bench"], "project");
        assert!(line["lanes"].as_u64().unwrap() > 0);
        assert!(line["rate"].as_f64().unwrap() > 0.0, "{line}");
        let has_limit = !["view", "commit-1-slot"].contains(&line["case"].as_str().unwrap());
        for key in ["limit", "ratio"] {
            assert_eq!(line.get(key).unwrap().is_number(), has_limit, "{key} of {line}");
        }
    }
    assert_eq!(tables(here.path()), 0);
}

#[test]
fn webhooks_are_measured_beside_a_client_that_keeps_nothing() {
    let here = tempfile::tempdir().unwrap();
    let small = ["webhook", "--events", "600", "--streams", "50", "--repeats", "1"];
    for batch in ["1", "4"] {
        let lines = bench(here.path(), &[&small[..], &["--batch", batch]].concat());
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&line["bench"], &line["case"]), (&"webhook".into(), &"deliver".into()));
        for key in ["rate", "limit", "ratio"] {
            assert!(line[key].as_f64().unwrap() > 0.0, "{key} of {line}");
        }
    }
    assert_eq!(tables(here.path()), 0);
}

/// It fails by itself unless the refused key alone is parked, and all others arrived in order.
#[test]
fn an_outage_of_an_endpoint_leaves_only_the_key_that_it_refuses() {
    let here = tempfile::tempdir().unwrap();
    let small = ["webhook", "--events", "2000", "--streams", "200", "--outage", "1"];
    for batch in ["1", "4"] {
        let lines = bench(here.path(), &[&small[..], &["--batch", batch]].concat());
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&line["case"], &line["parked"]), (&"outage".into(), &1.into()), "{line}");
        assert!(line["down"].as_f64().unwrap() >= 1.0, "{line}");
    }
    assert_eq!(tables(here.path()), 0);
}

#[test]
fn latency_is_measured_from_the_append() {
    let here = tempfile::tempdir().unwrap();
    let lines = bench(here.path(), &["latency", "--count", "5"]);
    for (line, case) in lines.iter().zip(["idle", "idle-remote"]) {
        assert_eq!((&line["bench"], &line["case"]), (&"latency".into(), &case.into()));
        assert!(line["rate"].is_null() && line["limit"].is_null() && line["ratio"].is_null());
        assert!(line["p50_ms"].as_f64().unwrap() <= line["p99_ms"].as_f64().unwrap());
        assert!(line["max_ms"].as_f64().unwrap() <= line["from_call_max_ms"].as_f64().unwrap());
    }
    assert_eq!(lines.len(), 2);
    assert_eq!(tables(here.path()), 0);
}

#[test]
fn rescaling_is_measured_phase_by_phase() {
    let here = tempfile::tempdir().unwrap();
    let lines = bench(here.path(), &["rescale", "--seconds-per-phase", "0.5"]);
    let seen: Vec<_> = lines.iter().map(|line| line["case"].as_str().unwrap()).collect();
    let phases = ["1-worker", "2-workers", "4-workers", "2-workers-again", "1-worker-again"];
    assert_eq!(seen, [&phases[..], &["hand-overs", "rolling-deploy"]].concat());
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(line["bench"], "rescale");
        assert_eq!(line["rate"].is_number(), number != phases.len(), "{line}");
        assert_eq!(line["ratio"].is_number(), (1..phases.len()).contains(&number), "{line}");
        assert_eq!(line.get("handover_pause_ms").is_some(), number > 0, "{line}");
    }
    for all in &lines[phases.len()..] {
        assert!(all["handover_pause_ms"]["samples"].as_u64().unwrap() > 0, "nothing moved: {all}");
    }
    assert!(lines[phases.len()]["batch_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(tables(here.path()), 0);
}

#[test]
fn tasks_are_measured_beside_their_limit_and_beside_a_hot_key() {
    let here = tempfile::tempdir().unwrap();
    let lines = bench(
        here.path(),
        &["workpool", "--tasks", "3000", "--keys", "100", "--lanes", "2", "--repeats", "1"],
    );
    let seen: Vec<_> = lines.iter().map(|line| line["case"].as_str().unwrap()).collect();
    assert_eq!(seen, ["1-worker", "2-workers", "hot-key"]);
    for line in &lines {
        assert_eq!((&line["bench"], &line["lanes"]), (&"workpool".into(), &2.into()));
        for key in ["rate", "limit", "ratio"] {
            assert!(line[key].as_f64().unwrap() > 0.0, "{key} of {line}");
        }
        assert_eq!(line["per_worker"].is_number(), line["case"] != "hot-key", "{line}");
        assert_eq!(line["slower_percent"].is_number(), line["case"] == "hot-key", "{line}");
    }
    assert_eq!(tables(here.path()), 0);
}

#[test]
fn workflows_are_measured_from_the_command_to_the_action() {
    let here = tempfile::tempdir().unwrap();
    let small = ["--commands", "500", "--workflows", "50", "--events", "2500", "--repeats", "1"];
    let lines = bench(here.path(), &[&["workflow"], &small[..]].concat());
    let seen: Vec<_> = lines.iter().map(|line| line["case"].as_str().unwrap()).collect();
    assert_eq!(seen, ["send", "react", "action", "load"]);
    for line in &lines {
        assert_eq!(line["bench"], "workflow");
        assert_eq!(line["rate"].is_number(), line["case"] != "load", "{line}");
        assert_eq!(line["load_ms"]["p50"].is_number(), line["case"] == "load", "{line}");
    }
    assert!(lines[2]["rate"].as_f64() <= lines[1]["rate"].as_f64(), "actions follow reactions");
    assert_eq!(tables(here.path()), 0);
}

#[test]
fn batches_are_measured_by_one_instance_and_by_three() {
    let here = tempfile::tempdir().unwrap();
    let lines =
        bench(here.path(), &["batch", "--waiting", "60", "--rows", "2000", "--repeats", "1"]);
    let seen: Vec<_> = lines.iter().map(|line| line["case"].as_str().unwrap()).collect();
    assert_eq!(seen, ["three-instances", "sql"]);
    for line in &lines {
        assert_eq!((&line["bench"], &line["lanes"]), (&"batch".into(), &4.into()));
        for key in ["rate", "limit", "ratio"] {
            assert!(line[key].as_f64().unwrap() > 0.0, "{key} of {line}");
        }
    }
    assert_eq!(tables(here.path()), 0);
}

/// Both sides read the log before they are measured, and each begins in every second repeat.
#[test]
fn the_order_of_the_sides_decides_nothing() {
    let here = tempfile::tempdir().unwrap();
    let order = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.current_dir(here.path()).env_remove("RUST_LOG").stdin(Stdio::null());
        command.args(["bench", "project", "--events", "500", "--repeats", "2"]).args(more);
        command.args(["--cases", "nothing", "--url", "sqlite:x.db"]);
        let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
        let (_, measured) = said.split_once("both sides have read the log once\n").unwrap();
        let sides = measured.lines().filter(|line| line.starts_with("nothing: repeat"));
        let sides: Vec<bool> = sides.map(|line| line.contains("limit")).collect();
        assert_eq!(sides.len(), 8, "{said}");
        [sides[0], sides[3], sides[4], sides[7]]
    };
    assert_eq!(order(&[]), [true, false, false, true]);
    assert_eq!(order(&["--swap"]), [false, true, true, false]);
}

#[test]
fn what_the_api_bears_is_measured() {
    let here = tempfile::tempdir().unwrap();
    let small = ["serve", "--seconds", "0.3", "--repeats", "1", "--connections", "4"];
    let lines = bench(here.path(), &[&small[..], &["--tails", "5", "--rate", "50"]].concat());
    let [append, tail] = lines.as_slice() else { panic!("{lines:?}") };
    for key in ["rate", "limit", "ratio"] {
        assert!(append[key].as_f64().unwrap() > 0.0, "{key} of {append}");
    }
    for key in ["answer_ms", "library_ms"] {
        assert!(append[key]["p99"].as_f64().unwrap() > 0.0, "{key} of {append}");
    }
    // Once for all five of them.
    let events = tail["events"].as_u64().unwrap();
    assert!(events > 0, "{tail}");
    for (key, times) in [("events_read", 1), ("events_written", 1), ("events_sent", 5)] {
        assert_eq!(tail[key], times * events, "{key} of {tail}");
    }
    assert_eq!((&tail["delivered"], &tail["subscriptions"]), (&(5 * events).into(), &1.into()));
    assert_eq!(tables(here.path()), 0);
}
