//! The face of the crate: what users find at its root is a list that somebody has chosen.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// More names than this at the root, and nobody finds the one that they need. Modules count.
const MOST: usize = 70;

pub(crate) fn check(root: &Path) -> Result<()> {
    let path = root.join("crates/anabranch/src/lib.rs");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let names = names(&text)?;
    if names.len() > MOST {
        bail!(
            "the root of `anabranch` has {} names, {MOST} at most; put what few programs name into a module:\n  {}",
            names.len(),
            names.join(" ")
        );
    }
    for module in [
        "errors",
        "testing/mod",
        "prelude",
        "events",
        "operate",
        "partitioning",
        "backend",
        "log",
        "running",
    ] {
        let path = root.join(format!("crates/anabranch/src/{module}.rs"));
        self::names(&std::fs::read_to_string(&path)?)?;
    }
    Ok(())
}

/// The public names of a module that re-exports.
fn names(text: &str) -> Result<Vec<String>> {
    let code: Vec<&str> =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut names = Vec::new();
    for item in format!("\n{}", code.join("\n")).split("\npub ").skip(1) {
        let end = item.find([';', '{', '(']).unwrap_or(item.len());
        if let Some(path) = item.strip_prefix("use ") {
            let list = path.split(';').next().unwrap_or(path);
            if list.contains('*') {
                bail!("`pub use {list}` re-exports whatever there is; list the names");
            }
            let list = list.rsplit_once('{').map_or(list, |(_, list)| list.trim_end_matches('}'));
            let last = |name: &str| name.rsplit([':', ' ']).next().map(str::to_owned);
            names.extend(
                list.split(',').map(str::trim).filter(|it| !it.is_empty()).filter_map(last),
            );
        } else {
            names.extend(item[..end].split_whitespace().last().map(str::to_owned));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_and_globs_refused() {
        let text = "//! pub use no::*;\npub use a::{\n    B, C,\n};\npub use d as e;\npub mod f;\n\npub async fn g(x: u8) {}";
        assert_eq!(names(text).unwrap(), ["B", "C", "e", "f", "g"]);
        assert!(names("//! A.\npub use a::*;").is_err());
    }
}
