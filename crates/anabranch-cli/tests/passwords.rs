//! A password that is not encoded in the URL: what to write is said, and nothing of it is repeated, in
//! errors or in logs.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;

use process::{anabranch, postgres};
use std::process::Stdio;

/// What is said, with all that can be logged.
fn said(arguments: &[&str]) -> String {
    let here = tempfile::tempdir().unwrap();
    let mut command = anabranch(here.path());
    command.args(arguments).env("RUST_LOG", "trace").stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

fn assert_hidden(text: &str, url: &str) {
    let lower = text.to_lowercase();
    for part in ["kolibri", "zwergmaus"] {
        for start in 0..=part.len() - 4 {
            assert!(!lower.contains(&part[start..start + 4]), "{url}: {text}");
        }
    }
}

#[test]
fn a_password_is_never_said_by_any_command() {
    let given = postgres();
    let (_, server) = given.rsplit_once('@').unwrap();
    for odd in
        ["@", "/", ":", "#", "?", "%", "%40", "@/", "/@", "@?", "?@", "@:", "@#", "&", "=", "?x="]
    {
        let password = format!("Kolibri{odd}Zwergmaus");
        for url in [
            format!("postgres://postgres:{password}@{server}"),
            format!("postgres://postgres@{server}?password={password}"),
            format!("postgres://{server}?user=postgres&password={password}"),
            format!("postgres:/postgres:{password}@{server}?sslmode=disable"),
            format!("postgres://postgres%3A{password}@{server}"),
            format!("{password}@{server}"),
            format!("Postgres://postgres:{password}@{server}"),
        ] {
            let text = said(&["tail", "--url", &url]);
            assert_hidden(&text, &url);
            assert!(text.contains("write") || text.contains("%25"), "{url}: {text}");
        }
        let url = format!("postgres://postgres:{password}@{server}");
        assert_hidden(&said(&["bench", "log", "--url", &url]), &url);
        // In the wrong place.
        assert_hidden(&said(&["tail", &url]), &url);
        assert_hidden(&said(&["tail", &format!("--json={url}")]), &url);
        assert_hidden(&said(&["tail", "--lines", &url]), &url);
    }
}
