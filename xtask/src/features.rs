//! Each feature of the library alone, none at all, and the oldest Rust that is promised.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Every feature of the library, alone; and those that are of use only together.
const SETS: [&str; 17] = [
    "",
    "sqlite",
    "postgres",
    "tls",
    "postgres,tls",
    "workpool",
    "workflow",
    "batch",
    "operations",
    "operations,webhook",
    "webhook",
    "watch",
    "otel",
    "chrono",
    "time",
    "rust_decimal",
    "sqlite,workflow,batch",
];

/// Checks each set of features with clippy.
pub(crate) fn check(root: &Path) -> Result<()> {
    all_are_named(root)?;
    for set in SETS {
        println!("features: {}", if set.is_empty() { "none" } else { set });
        let mut cargo = Command::new("cargo");
        cargo.args(["clippy", "--quiet", "--locked", "-p", "anabranch", "--lib"]);
        cargo.args(["--no-default-features", "--features", set, "--", "-D", "warnings"]);
        if !cargo.current_dir(root).status().context("cannot run cargo")?.success() {
            bail!("anabranch does not compile with these features alone: `{set}`");
        }
    }
    println!("features: the command without any of its own");
    let mut cargo = Command::new("cargo");
    cargo.args(["clippy", "--quiet", "--locked", "-p", "anabranch-cli", "--all-targets"]);
    cargo.args(["--", "-D", "warnings"]);
    if !cargo.current_dir(root).status().context("cannot run cargo")?.success() {
        bail!("the command does not compile without features of its own");
    }
    Ok(())
}

/// A feature that is added to the library is added here.
fn all_are_named(root: &Path) -> Result<()> {
    let manifest = std::fs::read_to_string(root.join("crates/anabranch/Cargo.toml"))?;
    let features = manifest.split("[features]").nth(1).unwrap_or_default();
    let features = features.split("\n[").next().unwrap_or_default();
    for line in features.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, _)) = line.split_once(" = ") else { continue };
        if name != "default" && !SETS.contains(&name) {
            bail!("the feature `{name}` is checked by nobody; add it to xtask/src/features.rs");
        }
    }
    Ok(())
}

/// Builds the library with the oldest Rust that its manifest promises, if that can be had here; else says that
/// it was not done.
pub(crate) fn oldest_rust(root: &Path) -> Result<()> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .map(|version| version.trim_matches('"'))
        .context("Cargo.toml promises no rust-version")?;
    let install = Command::new("rustup")
        .args(["toolchain", "install", version, "--profile", "minimal", "--no-self-update"])
        .status();
    if !install.is_ok_and(|status| status.success()) {
        println!("Rust {version} cannot be had here: NOT built with it");
        return Ok(());
    }
    let mut cargo = Command::new("cargo");
    cargo.arg(format!("+{version}"));
    cargo.args(["check", "--quiet", "--locked", "-p", "anabranch", "--all-features"]);
    // What other versions have built is of no use to this one, and the reverse.
    cargo.env("CARGO_TARGET_DIR", root.join("target/oldest-rust")).env_remove("RUSTUP_TOOLCHAIN");
    if !cargo.current_dir(root).status().context("cannot run cargo")?.success() {
        bail!("anabranch does not compile with Rust {version}, which Cargo.toml promises");
    }
    println!("built with Rust {version}");
    Ok(())
}
