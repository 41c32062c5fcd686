//! Where Prometheus and its `promtool` come from, for the tests of metrics, alerts and dashboards.

use crate::ladder::{install, output};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where tests find the folder of `prometheus` and `promtool`.
pub(crate) const PROMETHEUS_VARIABLE: &str = "ANABRANCH_TEST_PROMETHEUS_PROGRAMS";

/// The folder with both programs: the one that the variable names, one on this machine, Debian's package unpacked under
/// `cache`, or that package installed.
pub(crate) fn programs(cache: &Path) -> Result<PathBuf> {
    let named = std::env::var_os(PROMETHEUS_VARIABLE).map(PathBuf::from);
    named
        .filter(|folder| is_complete(folder))
        .or_else(on_this_machine)
        .or_else(|| unpacked(cache))
        .or_else(|| install("prometheus").then(on_this_machine).flatten())
        .context(
            "the tests of metrics and alerts need Prometheus and none was found: install it (Debian: apt-get install \
             prometheus; macOS: brew install prometheus), or set ANABRANCH_TEST_PROMETHEUS_PROGRAMS to the folder of \
             `prometheus` and `promtool`",
        )
}

fn is_complete(folder: &Path) -> bool {
    ["prometheus", "promtool"].iter().all(|program| folder.join(program).is_file())
}

fn on_this_machine() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).find(|folder| is_complete(folder))
}

/// Installed, the package would start a server; unpacked, it is two programs, and needs no root.
fn unpacked(cache: &Path) -> Option<PathBuf> {
    let home = cache.join("prometheus");
    let programs = home.join("usr/bin");
    if !is_complete(&programs) {
        eprintln!("fetching Prometheus: apt-get download prometheus");
        std::fs::create_dir_all(&home).ok()?;
        let download =
            || output(Command::new("apt-get").args(["download", "prometheus"]).current_dir(&home));
        download().or_else(|| {
            output(Command::new("apt-get").arg("update"))?;
            download()
        })?;
        let unpack =
            "for package in prometheus_*.deb; do dpkg-deb --extract \"$package\" . || exit 1; done";
        output(Command::new("sh").args(["-c", unpack]).current_dir(&home))?;
    }
    is_complete(&programs).then_some(programs)
}
