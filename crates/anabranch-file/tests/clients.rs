//! The packages for other languages, by their own tests, in the interpreters that `cargo xtask test` has found.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn package(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").join(name).canonicalize().unwrap()
}

fn interpreter(variable: &str, usual: &str) -> Command {
    Command::new(std::env::var_os(variable).unwrap_or_else(|| usual.into()))
}

fn passes(tests: &mut Command) {
    let output = tests.output().unwrap_or_else(|error| {
        panic!("{tests:?}: {error}; `cargo xtask test` installs the interpreters")
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{tests:?} ({})\n{said}", output.status);
}

#[test]
fn python() {
    let mut python = interpreter("ANABRANCH_TEST_PYTHON", "python3");
    passes(python.args(["-m", "unittest", "discover"]).current_dir(package("python")));
}

#[test]
fn typescript() {
    let folder = package("typescript");
    let files = std::fs::read_dir(folder.join("test")).unwrap().map(|entry| entry.unwrap().path());
    let tests: Vec<_> = files.filter(|file| file.to_string_lossy().ends_with(".test.js")).collect();
    assert!(!tests.is_empty(), "{} has no tests", folder.display());
    let mut node = interpreter("ANABRANCH_TEST_NODE", "node");
    passes(node.arg("--test").args(tests).current_dir(folder));
}
