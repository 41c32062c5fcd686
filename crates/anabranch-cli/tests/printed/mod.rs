//! What a command has printed, as data or as words.

use crate::process::stdout;
use serde_json::Value;
use std::process::Output;

/// Its lines, as JSON.
pub fn lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The words of each line.
pub fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .map(|line| line.split("  ").map(str::trim).filter(|w| !w.is_empty()).collect())
        .collect()
}

/// What it said of a success that has no data.
pub fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty(), "it is no data");
    String::from_utf8(output.stderr.clone()).unwrap()
}
