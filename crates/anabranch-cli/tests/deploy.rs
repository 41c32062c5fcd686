//! The files in `deploy/` give the command arguments that it takes.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;

use process::{run, stdout};
use std::path::{Path, PathBuf};

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(deploy(name)).unwrap()
}

/// Arguments that are wrong are refused before help is printed.
fn is_taken(arguments: &[&str]) {
    let here = tempfile::tempdir().unwrap();
    let printed = stdout(&run(here.path(), &[arguments, &["--help"]].concat()));
    assert!(printed.contains("--partition-key"), "it is `run`: {arguments:?}");
}

#[test]
fn the_file_to_begin_with_has_no_mistakes() {
    let here = tempfile::tempdir().unwrap();
    let path = deploy("orders.toml");
    stdout(&run(here.path(), &["check", path.to_str().unwrap(), "--offline"]));
}

#[test]
fn the_unit_starts_a_partition() {
    let unit = text("anabranch@.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<&str> = start.split(' ').collect();
    assert_eq!(words[0], "/usr/local/bin/anabranch");
    is_taken(&words[1..]);
    assert!(unit.contains("\nEnvironment=PARTITION_KEY=%i\n"), "{unit}");
}

#[test]
fn the_containers_start_a_worker() {
    let compose = text("compose.yaml");
    let command = compose.lines().find_map(|line| line.trim().strip_prefix("command: ")).unwrap();
    let words: Vec<String> = serde_json::from_str(command).unwrap();
    is_taken(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let checks = compose.lines().filter_map(|line| line.trim().strip_prefix("test: "));
    let checks: Vec<Vec<String>> = checks.map(|it| serde_json::from_str(it).unwrap()).collect();
    let health = checks.iter().find(|words| words[1] == "anabranch").unwrap();
    assert_eq!(health[0], "CMD");
    let here = tempfile::tempdir().unwrap();
    let words: Vec<&str> = health[2..].iter().map(String::as_str).collect();
    let printed = stdout(&run(here.path(), &[&words, &["--help"][..]].concat()));
    assert!(printed.contains("--live"), "it is `health`: {words:?}");
    let image = text("Dockerfile");
    for line in ["USER anabranch", "STOPSIGNAL SIGTERM", r#"ENTRYPOINT ["anabranch"]"#] {
        assert!(image.lines().any(|one| one == line), "{line}");
    }
}
