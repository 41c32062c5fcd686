//! The flags of the log, which all commands have.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod facts;
#[path = "../files/place.rs"]
mod place;
#[path = "../process/mod.rs"]
mod process;

use process::{anabranch, failure, run, stdout};
use serde_json::Value;

/// A consumer that fails says so in the log.
const FAILING: &str = r#"
url = "sqlite:orders.db"
[[replica_set]]
name = "reports"
[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
retry = { attempts = 1, then = "park" }
on.OrderPlaced = 'INSERT INTO totals (id, cents) VALUES (:stream_id, :data.cents)'
"#;

fn place() -> tempfile::TempDir {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("orders.toml"), FAILING).unwrap();
    let append = ["append", "Order:1", "OrderPlaced", "{}", "--url", "sqlite:orders.db"];
    stdout(&run(here.path(), &append));
    here
}

fn stderr(here: &tempfile::TempDir, arguments: &[&str], rust_log: Option<&str>) -> String {
    let mut command = anabranch(here.path());
    command.args(["run", "orders.toml", "--catch-up"]).args(arguments);
    command.envs(rust_log.map(|level| ("RUST_LOG", level)));
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

#[test]
fn a_level_wins_over_the_environment() {
    assert!(stderr(&place(), &[], None).contains("parked a key"));
    assert!(!stderr(&place(), &["--log-level", "off"], None).contains("parked a key"));
    assert!(stderr(&place(), &["--log-level", "error"], Some("off")).contains("parked a key"));
    assert!(!stderr(&place(), &[], Some("off")).contains("parked a key"));
    let debug = stderr(&place(), &["--log-level", "warn,anabranch_runtime=debug"], Some("off"));
    assert!(debug.contains("DEBUG anabranch_runtime"), "{debug}");
}

#[test]
fn a_level_that_is_none_is_refused() {
    let here = tempfile::tempdir().unwrap();
    for wrong in ["verbose", "x=loud"] {
        let said = failure(&run(here.path(), &["status", "--log-level", wrong]), 2);
        assert!(said.contains("--log-level") && said.contains(wrong), "{said}");
    }
    // Flags of the log may stand before the command as well.
    let said = failure(&run(here.path(), &["--log-format", "yaml", "status"]), 2);
    assert!(said.contains("text, json"), "{said}");
}

#[test]
fn json_is_one_object_a_line_whatever_is_said() {
    let here = place();
    let said = stderr(&here, &["--log-format", "json", "--json"], None);
    // But for the error that ends the command, which is one as well with --json.
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let parked = lines.iter().find(|line| line["level"] == "ERROR").unwrap();
    for field in ["timestamp", "target", "message"] {
        assert!(parked[field].is_string(), "{parked}");
    }
    assert_eq!(parked["consumer"], "totals");
}

#[test]
fn a_file_is_appended_to_and_nothing_is_said_twice() {
    let here = place();
    let path = here.path().join("anabranch.log");
    std::fs::write(&path, "before\n").unwrap();
    let said = stderr(&here, &["--log-file", "anabranch.log"], None);
    assert!(!said.contains("parked a key"), "{said}");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("before\n") && text.contains("parked a key"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours in a file: {text}");
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_begins() {
    let here = tempfile::tempdir().unwrap();
    let arguments = ["append", "Order:1", "X", "--log-file", "no/such/directory/log"];
    let said = failure(&run(here.path(), &arguments), 1);
    assert!(said.contains("--log-file: no/such/directory/log cannot be written"), "{said}");
    assert!(!here.path().join("anabranch.db").exists());
}
