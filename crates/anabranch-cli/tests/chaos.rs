//! Chaos, short: it comes out good on both databases, and it can come out bad.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "other tests need more of it")]
mod process;

use anabranch::sqlite::rusqlite::Connection;
use process::{anabranch, postgres};
use serde_json::Value;
use std::path::Path;
use std::process::{Output, Stdio};

/// A lease that is over soon, and a load that a busy machine holds.
const SMALL: [&str; 10] =
    ["chaos", "--json", "--lease", "1", "--workers", "3", "--rate", "1000", "--seed", "7"];

fn chaos(directory: &Path, arguments: &[&str]) -> (Output, Value) {
    let mut command = anabranch(directory);
    let output = command.args(SMALL).args(arguments).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let outcome = serde_json::from_slice(&output.stdout);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}: {said}"));
    (output, outcome)
}

/// Nothing is lost, and everything is reported.
fn comes_out_good(directory: &Path, arguments: &[&str]) -> Value {
    let (output, outcome) = chaos(directory, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{outcome}\n{said}");
    assert!(outcome["events"].as_u64().unwrap() > 1000, "{outcome}");
    assert_eq!(outcome["events"], outcome["handled"]);
    assert!(outcome["made"].as_u64().unwrap() > 0, "{outcome}");
    assert!(outcome["audits"].as_u64().unwrap() > 0, "{outcome}");
    for none in ["lost", "doubled", "out_of_order"] {
        assert_eq!(outcome[none], 0, "{none}: {outcome}");
    }
    assert_eq!(outcome["seed"], 7);
    assert!(outcome["seconds"].is_number());
    for fault in ["kill", "stop", "join", "leave", "cut", "restart"] {
        assert!(outcome["faults"][fault].is_u64(), "{fault}: {outcome}");
    }
    for times in [
        "takeover_ms",
        "takeover_hang_ms",
        "handover_pause_ms",
        "unmoved_gap_ms",
        "unmoved_gap_quiet_ms",
    ] {
        for part in ["p50", "p99", "max"] {
            let number = outcome[times].get(part).unwrap();
            assert!(number.is_null() || number.as_f64().unwrap() >= 0.0, "{times}: {outcome}");
        }
    }
    assert!(outcome["unmoved_gap_quiet_ms"]["max"].is_number(), "{outcome}");
    assert!(said.contains("seed 7"), "{said}");
    outcome
}

#[test]
fn on_sqlite_every_event_is_handled_once_and_in_order() {
    let here = tempfile::tempdir().unwrap();
    let outcome = comes_out_good(here.path(), &["--seconds", "7", "--url", "sqlite:x.db"]);
    assert_eq!(outcome["faults"]["cut"], 0, "there is no server that could");
    let connection = Connection::open(here.path().join("x.db")).unwrap();
    let count = "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'";
    let tables: i64 = connection.query_row(count, (), |row| row.get(0)).unwrap();
    assert_eq!(tables, 0, "it leaves nothing behind");
}

#[test]
fn on_postgres_every_event_is_handled_once_and_in_order() {
    let here = tempfile::tempdir().unwrap();
    comes_out_good(here.path(), &["--seconds", "8", "--url", &postgres()]);
}

#[test]
fn without_a_database_it_makes_one() {
    let here = tempfile::tempdir().unwrap();
    comes_out_good(here.path(), &["--seconds", "0.5"]);
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
}

#[test]
fn what_workers_do_wrong_is_found_and_named() {
    let here = tempfile::tempdir().unwrap();
    for (kind, count, name) in [
        ("double", "doubled", "doubled: key 7, version 3"),
        ("lose", "lost", "lost: key 7, version 3"),
        ("swap", "out_of_order", "out of order: key 7, version 1"),
    ] {
        let (output, outcome) = chaos(here.path(), &["--seconds", "0.5", "--break", kind]);
        assert_eq!(output.status.code(), Some(1), "{kind}: {outcome}");
        assert!(outcome[count].as_u64().unwrap() > 0, "{kind}: {outcome}");
        let violations = outcome["violations"].as_array().unwrap();
        let is_named = |violation: &Value| violation.as_str().unwrap().starts_with(name);
        assert!(violations.iter().any(is_named), "{kind}: {outcome}");
    }
}

#[test]
fn events_that_are_made_twice_of_another_are_found_and_named() {
    let here = tempfile::tempdir().unwrap();
    let (output, outcome) = chaos(here.path(), &["--seconds", "4", "--break", "make"]);
    assert_eq!(output.status.code(), Some(1), "{outcome}");
    let violations = outcome["violations"].to_string();
    assert!(violations.contains("events made of others: doubled: key"), "{violations}");
}

#[test]
fn a_worker_that_ends_by_itself_is_reported_with_what_it_said() {
    let here = tempfile::tempdir().unwrap();
    let (output, outcome) = chaos(here.path(), &["--seconds", "0.5", "--break", "end"]);
    assert_eq!(output.status.code(), Some(1), "{outcome}");
    let violations = outcome["violations"].to_string();
    assert!(violations.contains("ended by itself with exit code 1"), "{violations}");
    assert!(violations.contains("told to end"), "{violations}");
}
