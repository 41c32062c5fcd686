//! Every program in README.md and `docs/` is compiled by the tests: `src/pages.rs` has each page, and no page
//! excepts a program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// What may stand behind the language: `no_run` is for programs that do not end, or need what is not there.
const HOW: [&str; 3] = ["no_run", "should_panic", "compile_fail"];

/// The pages that users read.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(Path::new(ROOT).join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.push(Path::new(ROOT).join("README.md"));
    pages.sort();
    pages
}

/// What stands behind the fence of each block that is a program in Rust, or might be taken for one.
fn programs(text: &str) -> Vec<&str> {
    let (mut found, mut is_open) = (Vec::new(), false);
    for line in text.lines().map(str::trim_start) {
        if let Some(info) = line.strip_prefix("```") {
            // A block without a language is one in Rust for the tests, and plain text for readers.
            let is_rust = info.is_empty() || info.starts_with("rust");
            found.extend((!is_open && is_rust).then_some(info));
            is_open = !is_open;
        }
    }
    found
}

/// A line of a program that only rustdoc would hide.
fn hidden(text: &str) -> Option<&str> {
    let mut is_rust = false;
    text.lines().find(|line| {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            is_rust = info.starts_with("rust");
        }
        is_rust && (*line == "#" || line.starts_with("# "))
    })
}

/// What is wrong with a page.
fn problem(name: &str, text: &str, list: &str) -> Option<String> {
    let programs = programs(text);
    let odd = programs.iter().find(|info| {
        let mut words = info.split(',');
        words.next() != Some("rust") || words.any(|word| !HOW.contains(&word))
    });
    if let Some(info) = odd {
        return Some(format!(
            "{name} has a block ```{info}: say what it is (`text`, `console`, `rust`), and let the tests compile it \
             (`no_run` at the most)"
        ));
    }
    if let Some(line) = hidden(text) {
        return Some(format!("{name}: readers of the page see `{line}`; write the program out"));
    }
    let is_listed = list.contains(&format!("\"{name}\""));
    (!programs.is_empty() && !is_listed)
        .then(|| format!("{name} has programs: add it to crates/anabranch/src/pages.rs"))
}

#[test]
fn every_program_of_every_page_is_compiled() {
    let list = std::fs::read_to_string(Path::new(ROOT).join("crates/anabranch/src/pages.rs"));
    let list = list.unwrap();
    let problems: Vec<String> = pages()
        .iter()
        .filter_map(|page| {
            let name = page.strip_prefix(ROOT).unwrap().to_str().unwrap();
            problem(name, &std::fs::read_to_string(page).unwrap(), &list)
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_page_that_is_not_compiled_is_found() {
    let list = "readme: \"README.md\",";
    let said = |name, text| problem(name, text, list).unwrap_or_default();
    assert_eq!(said("README.md", "```rust\n1;\n```\n```text\nx\n```\n"), "");
    assert_eq!(said("README.md", "```rust,no_run\n1;\n```\n"), "");
    assert_eq!(said("docs/a.md", "words\n```console\n$ ls\n```\n"), "");
    assert!(said("docs/a.md", "```rust\n1;\n```\n").contains("add it to"));
    assert!(said("README.md", "```rust,ignore\n1;\n```\n").contains("let the tests compile it"));
    assert!(said("README.md", "```\nx\n```\n").contains("say what it is"));
    assert!(said("README.md", "```rust\n# use x;\n```\n").contains("write the program out"));
    assert_eq!(said("README.md", "```rust\n1;\n```\n# A heading\n"), "");
}
