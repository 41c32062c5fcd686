//! Settings of other programs that look like ours: they are not read, and that is said.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;

use process::{anabranch, stdout};

#[test]
fn a_database_url_of_others_is_not_read_and_not_repeated() {
    let here = tempfile::tempdir().unwrap();
    let append = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = anabranch(here.path());
        command.args(["append", "Order:1", "OrderPlaced"]).args(arguments);
        command.env_remove("DATABASE_URL").envs(environment.iter().copied());
        let output = command.output().unwrap();
        stdout(&output);
        String::from_utf8(output.stderr).unwrap()
    };
    let theirs = ("DATABASE_URL", "postgres://me:secret@shop/orders");
    let said = append(&[], &[theirs]);
    let says = ["DATABASE_URL is not read", "sqlite:anabranch.db", "--url", "ANABRANCH_URL"];
    assert!(says.iter().all(|what| said.contains(what)) && said.lines().count() == 1, "{said}");
    assert!(!said.contains("secret") && !said.contains("shop"), "{said}");
    // Who names a database knows which one it is.
    assert_eq!(append(&["--url", "sqlite:anabranch.db"], &[theirs]), "");
    assert_eq!(append(&[], &[theirs, ("ANABRANCH_URL", "sqlite:anabranch.db")]), "");
    assert_eq!(append(&[], &[]), "");
}
