//! The examples, run as a user runs them, on both databases.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::Command;

/// Cargo builds examples with the tests, next to the folder that holds the test itself.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let profile: PathBuf = test.parent().unwrap().parent().unwrap().into();
    Command::new(profile.join("examples").join(name))
}

#[test]
fn tickets_are_sold_once_on_both_databases() {
    let postgres = std::env::var("ANABRANCH_TEST_POSTGRES")
        .expect("these tests need PostgreSQL: run `cargo xtask test`");
    for arguments in [vec![], vec![postgres]] {
        let output = example("tickets").args(&arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("40 guests came, 31 were turned away"), "{text}");
        assert!(text.contains("10 tickets sold, 250 euros taken"), "{text}");
    }
}
