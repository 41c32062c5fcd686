//! Where axe comes from, which finds what keeps people from using a page.

use crate::prometheus::{alone, repeatedly};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where tests find the script.
pub(crate) const AXE_VARIABLE: &str = "ANABRANCH_TEST_AXE";

/// Pinned: a new version finds new things.
const VERSION: &str = "4.14.1";

/// The script: the one that the variable names, or the one of npm's package unpacked under `cache`.
pub(crate) fn script(node: &Path, cache: &Path) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(AXE_VARIABLE) {
        return Ok(named.into());
    }
    let home = cache.join("axe");
    let script = home.join(VERSION).join("package/axe.min.js");
    if script.is_file() {
        return Ok(script);
    }
    let _alone = alone(cache)?;
    // Somebody else may have done it by now.
    if !script.is_file() {
        repeatedly(|| fetch(node, &home)).with_context(|| {
            format!(
                "the tests of the console need axe-core, and it cannot be fetched from npm. Fetch it where the \
                 registry can be reached, and set {AXE_VARIABLE} to its axe.min.js"
            )
        })?;
    }
    Ok(script)
}

/// Nothing is installed: the package is one script, and needs no other.
fn fetch(node: &Path, home: &Path) -> Result<()> {
    let name = format!("axe-core@{VERSION}");
    eprintln!("fetching axe: npm pack {name}");
    let (new, done) = (home.join("new"), home.join(VERSION));
    if new.exists() {
        std::fs::remove_dir_all(&new)?;
    }
    std::fs::create_dir_all(&new)?;
    let beside = node.parent().context("Node lies in a folder")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(beside.to_owned()).chain(std::env::split_paths(&path));
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", &name]).env("PATH", std::env::join_paths(places)?);
    let packed = succeed(npm.current_dir(&new))?;
    let archive = packed.lines().last().unwrap_or_default().trim().to_owned();
    succeed(Command::new("tar").args(["xzf", &archive]).current_dir(&new))?;
    if done.exists() {
        std::fs::remove_dir_all(&done)?;
    }
    std::fs::rename(&new, &done)?;
    Ok(())
}

fn succeed(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed: {}", said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
