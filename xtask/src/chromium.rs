//! Where Chromium comes from, for the tests of the console in a browser.

use crate::ladder::{install, output};
use crate::prometheus::{alone, repeatedly};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where tests find the program.
pub(crate) const CHROMIUM_VARIABLE: &str = "ANABRANCH_TEST_CHROMIUM";

/// Debian's package of the browser without windows, which needs 19 others where its whole browser needs 25 and more.
const PACKAGE: &str = "chromium-headless-shell";

const NAMES: [&str; 6] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

/// Starts what was unpacked: its libraries and fonts are not where the system looks for them.
const START: &str = r#"#!/bin/sh
here="${0%/*}"
folders=$(find "$here/usr/lib" "$here/lib" -name '*.so*' ! -path '*/chromium/*' -exec dirname {} + 2>/dev/null | sort -u)
LD_LIBRARY_PATH=$(printf '%s:' $folders)${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH
[ -f /etc/fonts/fonts.conf ] || export FONTCONFIG_FILE="$here/fonts.conf"
exec "$here/usr/lib/chromium/chromium-headless-shell" "$@"
"#;

/// Without fonts of the machine, text is drawn with those that were unpacked. A page without letters passes every test
/// of its looks.
const FONTS: &str = r#"<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">usr/share/fonts</dir>
  <cachedir prefix="relative">cache</cachedir>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
</fontconfig>
"#;

/// The program: the one that the variable names, one on this machine, Debian's package unpacked under `cache`, or that
/// package installed.
pub(crate) fn program(cache: &Path) -> Result<PathBuf> {
    let named = std::env::var_os(CHROMIUM_VARIABLE).map(PathBuf::from);
    named
        .filter(|program| works(program))
        .or_else(on_this_machine)
        .or_else(|| unpacked(cache))
        .or_else(|| fetched(cache))
        .context(
            "the tests of the console need Chromium and none was found: install it (Debian: apt-get install chromium; \
             macOS: brew install --cask chromium), or set ANABRANCH_TEST_CHROMIUM to the path of the program",
        )
}

/// A program that only says where to get the real one is not there, nor is one that misses a library.
fn works(program: &Path) -> bool {
    output(Command::new(program).arg("--version")).is_some_and(|said| said.contains("Chrom"))
}

fn on_this_machine() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let places = |name: &'static str| folders.iter().map(move |folder| folder.join(name));
    let mut programs = NAMES.into_iter().flat_map(places);
    programs.find(|program| program.is_file() && works(program))
}

fn unpacked(cache: &Path) -> Option<PathBuf> {
    Some(cache.join("chromium/unpacked/start")).filter(|program| works(program))
}

fn fetched(cache: &Path) -> Option<PathBuf> {
    let _alone = alone(cache).ok()?;
    // Somebody else may have done it by now.
    on_this_machine()
        .or_else(|| unpacked(cache))
        .or_else(|| {
            // Elsewhere than on Debian and its like there is no such package.
            output(Command::new("apt-get").arg("--version"))?;
            let tried = repeatedly(|| fetch(cache));
            tried.inspect_err(|error| eprintln!("{error:#}")).ok()
        })
        .or_else(|| install(PACKAGE).then(on_this_machine).flatten())
}

/// Unpacked it needs no root, and nothing of the machine is changed.
fn fetch(cache: &Path) -> Result<PathBuf> {
    let home = cache.join("chromium");
    let (new, debs) = (home.join("new"), home.join("debs"));
    let done = home.join("unpacked");
    for folder in [&new, &debs, &done] {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
    }
    std::fs::create_dir_all(&new)?;
    std::fs::create_dir_all(&debs)?;
    let update = || output(Command::new("apt-get").arg("update"));
    let download = || {
        let missing = missing()?;
        eprintln!("fetching Chromium: apt-get download {}", missing.join(" "));
        output(Command::new("apt-get").arg("download").args(missing).current_dir(&debs))
    };
    let downloaded = download().or_else(|| update().and_then(|_| download()));
    downloaded.with_context(|| format!("apt-get download {PACKAGE} and what it needs failed"))?;
    for entry in std::fs::read_dir(&debs)? {
        let package = entry?.path();
        let extract = output(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&new));
        extract.with_context(|| format!("{} is damaged", package.display()))?;
    }
    std::fs::remove_dir_all(&debs)?;
    std::fs::write(new.join("fonts.conf"), FONTS)?;
    std::fs::write(new.join("start"), START)?;
    output(Command::new("chmod").arg("+x").arg(new.join("start"))).context("chmod failed")?;
    std::fs::rename(&new, &done)?;
    unpacked(cache).with_context(|| format!("{PACKAGE} does not start; it misses a library"))
}

/// The package and those of its libraries and fonts that the machine does not have: what would be installed with it.
fn missing() -> Option<Vec<String>> {
    let mut simulated = Command::new("apt-get");
    simulated.args(["--simulate", "install", "--no-install-recommends", PACKAGE]);
    let said = output(&mut simulated)?;
    let installed = said.lines().filter_map(|line| line.strip_prefix("Inst "));
    let names = installed.filter_map(|line| line.split(' ').next());
    // The C library goes with the loader of programs, so it is always the machine's.
    let is_part = |name: &&str| {
        let parts = ["lib", "font", "chromium"];
        parts.iter().any(|part| name.starts_with(part)) && !name.starts_with("libc6")
    };
    let names: Vec<String> = names.filter(is_part).map(str::to_owned).collect();
    Some(names).filter(|names| names.iter().any(|name| name == PACKAGE))
}
