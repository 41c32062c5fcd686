//! The database that the environment names, by our own variable or by the one of others.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;

use process::{anabranch, failure, stdout};
use std::path::Path;
use std::process::Output;

const SECRET: &str = "mysql://root:secret@shop/orders";

fn said(here: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = anabranch(here);
    command.args(arguments).envs(environment.iter().copied());
    command.output().unwrap()
}

#[test]
fn a_database_is_named_by_flag_by_our_variable_or_by_that_of_others() {
    let here = tempfile::tempdir().unwrap();
    let append = |arguments: &[&str], environment: &[(&str, &str)]| {
        let arguments = [&["append", "Order:1", "OrderPlaced"], arguments].concat();
        let output = said(here.path(), &arguments, environment);
        stdout(&output);
        assert!(output.stderr.is_empty(), "{output:?}");
    };
    let (ours, theirs) =
        (("ANABRANCH_URL", "sqlite:ours.db"), ("DATABASE_URL", "sqlite:theirs.db"));
    let is_there = |name: &str| here.path().join(name).exists();
    append(&["--url", "sqlite:flag.db"], &[ours, theirs]);
    assert!(is_there("flag.db") && !is_there("ours.db") && !is_there("theirs.db"));
    append(&[], &[ours, theirs]);
    assert!(is_there("ours.db") && !is_there("theirs.db"));
    append(&[], &[theirs]);
    assert!(is_there("theirs.db") && !is_there("anabranch.db"));
    append(&[], &[("DATABASE_URL", "")]);
    assert!(is_there("anabranch.db"), "one that is set to nothing is not set");
    // A command that may do without a database takes the same one.
    let explain = ["partition", "explain", "Order:1", "--consumer", "nobody"];
    let refused = failure(&said(here.path(), &explain, &[theirs]), 1);
    assert!(refused.contains("sqlite:theirs.db"), "{refused}");
}

#[test]
fn what_names_no_database_is_refused_by_its_variable() {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("orders.toml"), "[[replica_set]]\nname = \"x\"\n").unwrap();
    for variable in ["DATABASE_URL", "ANABRANCH_URL"] {
        for command in [
            &["status"][..],
            &["status", "--json"],
            &["append", "Order:1", "OrderPlaced"],
            &["partition", "explain", "a", "--consumer", "b"],
        ] {
            let refused = failure(&said(here.path(), command, &[(variable, SECRET)]), 1);
            assert!(refused.contains(variable) && refused.contains("mysql://"), "{refused}");
            assert!(refused.contains("sqlite:FILE"), "what to do: {refused}");
            assert!(!refused.contains("secret") && !refused.contains("shop"), "{refused}");
        }
        let refused =
            failure(&said(here.path(), &["status"], &[(variable, "root:secret@shop")]), 1);
        assert!(refused.contains(variable) && !refused.contains("root"), "{refused}");
    }
    // A flag names another one, so nobody asks what the variable says.
    let named =
        said(here.path(), &["status", "--url", "sqlite:none.db"], &[("DATABASE_URL", SECRET)]);
    assert!(failure(&named, 1).contains("there is no log"));
}

#[test]
fn the_database_of_others_is_in_no_help_and_no_page() {
    let here = tempfile::tempdir().unwrap();
    let theirs = [("DATABASE_URL", "postgres://me:hunter2@shop.test/orders")];
    for command in [&["status", "--help"][..], &["status", "-h"], &["man"], &["completions", "zsh"]]
    {
        let text = stdout(&said(here.path(), command, &theirs));
        assert!(!text.contains("hunter2") && !text.contains("shop.test"), "{command:?}");
    }
    assert!(stdout(&said(here.path(), &["status", "-h"], &[])).contains("DATABASE_URL"));
}

/// The laboratory makes and drops tables, and is hard on a server.
#[test]
fn a_benchmark_does_not_take_the_database_of_others() {
    let here = tempfile::tempdir().unwrap();
    let bench = ["bench", "log", "--seconds", "0.001", "--repeats", "1"];
    let output =
        said(here.path(), &bench, &[("DATABASE_URL", "postgres://me:secret@127.0.0.1:1/x")]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("does not read DATABASE_URL") && !text.contains("secret"), "{text}");
}
