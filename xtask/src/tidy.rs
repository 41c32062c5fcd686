//! The house rules that a machine can keep.

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// The longest source file. Most are far below.
const MAX_LINES: usize = 500;

/// The layers from the bottom up: a crate depends only on those before it.
const LAYERS: [&str; 18] = [
    "anabranch-core",
    "anabranch-store",
    "anabranch-runtime",
    "anabranch-workpool",
    "anabranch-workflow",
    "anabranch-batch",
    "anabranch-webhook",
    "anabranch-operations",
    "anabranch-otlp",
    "anabranch-watch",
    "anabranch-sqlite",
    "anabranch-postgres",
    "anabranch",
    "anabranch-file",
    "anabranch-server",
    "anabranch-terminal",
    "anabranch-lab",
    "anabranch-cli",
];

/// Backends know nothing of each other.
const APART: [(&str, &str); 1] = [("anabranch-postgres", "anabranch-sqlite")];

/// Where SQL may stand: the backends, the one statement that they share, the tables of consumers (and
/// the views and rebuilds, whose tables are made by name), and the bare driver that the benchmark
/// compares them with, and the demo and the chaos, which are
/// users of the library.
const SQL_PLACES: [&str; 19] = [
    "crates/anabranch-file/src/",
    "crates/anabranch-store/src/contract/",
    "crates/anabranch-lab/src/demo/",
    "crates/anabranch-lab/src/chaos/",
    "crates/anabranch-runtime/src/tables/",
    "crates/anabranch-runtime/src/fold.rs",
    "crates/anabranch-runtime/src/rebuild",
    "crates/anabranch-workpool/src/tables",
    "crates/anabranch-webhook/src/tables",
    "crates/anabranch-operations/src/tables.rs",
    "crates/anabranch-workflow/src/snapshots.rs",
    "crates/anabranch-server/src/tables",
    "crates/anabranch-batch/src/",
    "crates/anabranch-sqlite/",
    "crates/anabranch-postgres/",
    "crates/anabranch-store/src/sql.rs",
    "crates/anabranch-store/src/control.rs",
    "crates/anabranch-store/src/named_values/tests.rs",
    "crates/anabranch-lab/src/bench/",
];

/// The layers that know no database: everything between the core and the backends. Comments may speak of one,
/// and so may what a user reads.
const KNOW_NO_DATABASE: [&str; 9] = [
    "crates/anabranch-core/src/",
    "crates/anabranch-store/src/",
    "crates/anabranch-runtime/src/",
    "crates/anabranch-workpool/src/",
    "crates/anabranch-workflow/src/",
    "crates/anabranch-batch/src/",
    "crates/anabranch-webhook/src/",
    "crates/anabranch-operations/src/",
    "crates/anabranch-watch/src/",
];

/// The engine, in which one file logs and one makes spans: everything else says what happens to observers, and what
/// is traced by `anabranch_store::trace`.
const LOGS_NOTHING: [&str; 10] = [
    "crates/anabranch-store/src/",
    "crates/anabranch-sqlite/src/",
    "crates/anabranch-postgres/src/",
    "crates/anabranch-runtime/src/",
    "crates/anabranch-workpool/src/",
    "crates/anabranch-workflow/src/",
    "crates/anabranch-batch/src/",
    "crates/anabranch-webhook/src/",
    "crates/anabranch-operations/src/",
    "crates/anabranch-watch/src/",
];
const LOGS: [&str; 2] = [
    "crates/anabranch-store/src/observe/logging.rs",
    "crates/anabranch-store/src/observe/spans.rs",
];

/// What is of one database only: its name in code, and functions and settings that no other has.
const OF_ONE_DATABASE: [&str; 12] = [
    "Sqlite",
    "Postgres",
    "rusqlite",
    "tokio_postgres",
    "pragma_",
    "pg_catalog",
    "json_each(",
    "unnest(",
    "unixepoch",
    "set_config",
    "::bigint",
    "\"sqlite\" =>",
];

pub(crate) fn check(root: &Path) -> Result<()> {
    let mut problems = Vec::new();
    for path in sources(root) {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path)?;
        problems.extend(file_problems(&name, &text));
    }
    for (number, layer) in LAYERS.iter().enumerate() {
        let manifest = root.join("crates").join(layer).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest)?;
        problems.extend(layer_problems(layer, number, &manifest));
    }
    let crates = std::fs::read_dir(root.join("crates"))?.flatten();
    let crates = crates.filter(|entry| entry.path().is_dir());
    for entry in crates.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
        if !LAYERS.contains(&entry.as_str()) {
            problems.push(format!("crates/{entry} has no layer; give it one in xtask/src/tidy.rs"));
        }
    }
    if let Err(error) = crate::face::check(root) {
        problems.push(error.to_string());
    }
    if !problems.is_empty() {
        bail!("{} house rules are broken:\n  {}", problems.len(), problems.join("\n  "));
    }
    Ok(())
}

fn file_problems(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        problems.push(format!("{name} has {lines} lines; make it two files of one subject each"));
    }
    if !text.starts_with("//!") && !name.ends_with("/tests.rs") {
        problems.push(format!("{name} does not begin by saying what it is about (`//! …`)"));
    }
    for word in ["util", "helper", "common", "manager", "misc"] {
        if name.ends_with(&format!("{word}s.rs")) || name.ends_with(&format!("/{word}.rs")) {
            problems.push(format!("{name}: name it after its subject"));
        }
    }
    if name.starts_with("crates/anabranch-core/src") {
        for impure in ["std::time", "std::fs", "std::net", "tokio", "SystemTime", "Instant::now"] {
            if code(text).any(|line| line.contains(impure)) {
                problems
                    .push(format!("{name} uses {impure}; the core does no I/O and reads no clock"));
            }
        }
    }
    if KNOW_NO_DATABASE.iter().any(|place| name.starts_with(place)) && !name.contains("/contract/")
    {
        for word in OF_ONE_DATABASE {
            // `PostgreSQL` and `SQLite` are words for users.
            let names = |line: &str| line.replace("PostgreSQL", "").contains(word);
            if tested(text).any(names) {
                problems.push(format!("{name} names a database ({word}); make it part of Dialect"));
            }
        }
    }
    let logs = |line: &str| {
        line.contains("tracing::") || line.contains("use tracing") || line.contains("opentelemetry")
    };
    if LOGS_NOTHING.iter().any(|place| name.starts_with(place))
        && !LOGS.contains(&name)
        && code(text).any(logs)
    {
        problems
            .push(format!("{name} logs by itself; emit an event of the engine (Emitter::emit)"));
    }
    if !name.contains("/tests/") {
        for line in unbounded(text) {
            problems.push(format!(
                "{name}:{line} makes a channel without bound; give it one, or say before it why it cannot grow \
                 (`// {REASON}…`)"
            ));
        }
    }
    let sql = ["SELECT ", "INSERT INTO ", "DELETE FROM ", "CREATE TABLE "];
    let is_place = SQL_PLACES.iter().any(|place| name.starts_with(place));
    if name.starts_with("crates/") && !is_place && !name.contains("/tests/") {
        for word in sql {
            if code(text).any(|line| line.contains(word)) {
                problems.push(format!("{name} holds SQL ({word}…), which belongs in a backend"));
            }
        }
    }
    problems
}

/// How the comment begins that says why a channel cannot grow.
const REASON: &str = "Unbounded: ";

/// The lines, from 1, that make a channel without bound and have no reason for it just before them.
fn unbounded(text: &str) -> Vec<usize> {
    let text = text.split("#[cfg(test)]").next().unwrap_or(text);
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let makes = |line: &str| {
        !line.starts_with("//")
            && (line.contains("unbounded_channel") || line.contains("unbounded()"))
    };
    // The reason may take three lines, and the statement may begin a line above.
    let has_reason = |number: usize| {
        let before = &lines[number.saturating_sub(4)..number];
        before
            .iter()
            .any(|line| line.strip_prefix("// ").is_some_and(|why| why.starts_with(REASON)))
    };
    (0..lines.len()).filter(|n| makes(lines[*n]) && !has_reason(*n)).map(|n| n + 1).collect()
}

/// The lines that are not comments, up to the tests of the file.
fn tested(text: &str) -> impl Iterator<Item = &str> {
    code(text.split("#[cfg(test)]").next().unwrap_or(text))
}

/// The lines that are not comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

fn layer_problems(layer: &str, number: usize, manifest: &str) -> Vec<String> {
    let depends = |other: &str| {
        manifest.lines().any(|line| {
            line.split([' ', '.', '=']).next() == Some(other)
                && !line.contains("features = [\"dep:")
        })
    };
    let above = LAYERS[number + 1..].iter().filter(|other| depends(other));
    let mut problems: Vec<String> =
        above.map(|other| format!("{layer} depends on {other}, which is above it")).collect();
    for (one, other) in APART {
        if layer == one && depends(other) {
            problems.push(format!("{one} depends on {other}; backends stand beside each other"));
        }
    }
    problems
}

/// The Rust sources of the project.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<_> =
        ["crates", "sim", "xtask", "examples"].iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        check(&crate::root()).unwrap();
    }

    #[test]
    fn each_rule_can_fail() {
        let broken = |name: &str, text: &str| file_problems(name, text).len();
        assert_eq!(broken("crates/anabranch-core/src/a.rs", "//! Fine."), 0);
        assert_eq!(broken("crates/anabranch-core/src/a.rs", "fn a() {}"), 1);
        assert_eq!(broken("crates/anabranch-core/src/a.rs", "//! A.\nuse std::time::Instant;"), 1);
        assert_eq!(broken("crates/anabranch-store/src/a.rs", "//! A.\nlet a = \"SELECT 1\";"), 1);
        assert_eq!(broken("crates/anabranch-batch/src/a.rs", "//! A.\ntracing::info!(\"\");"), 1);
        assert_eq!(broken("crates/anabranch-lab/src/a.rs", "//! A.\ntracing::info!(\"\");"), 0);
        assert_eq!(broken("crates/anabranch/src/utils.rs", "//! A."), 1);
        let channel = "let (sender, received) = mpsc::unbounded_channel();";
        assert_eq!(broken("crates/anabranch/src/a.rs", &format!("//! A.\n{channel}")), 1);
        let reason = "// Unbounded: one message for each lane.";
        assert_eq!(broken("crates/anabranch/src/a.rs", &format!("//! A.\n{reason}\n{channel}")), 0);
        assert_eq!(broken("xtask/src/a.rs", &format!("//! A.{}", "\n".repeat(501))), 1);
        let upwards = "[dependencies]\nanabranch-sqlite.workspace = true";
        let layer = |name: &str| {
            let number = LAYERS.iter().position(|layer| *layer == name).unwrap();
            layer_problems(name, number, upwards).len()
        };
        assert_eq!(layer("anabranch-core"), 1);
        assert_eq!(layer("anabranch-postgres"), 1);
        assert_eq!(layer("anabranch"), 0);
    }
}
