//! Where Prometheus and its `promtool` come from, for the tests of metrics, alerts and dashboards.

use crate::ladder::{install, output};
use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where tests find the folder of `prometheus` and `promtool`.
pub(crate) const PROMETHEUS_VARIABLE: &str = "ANABRANCH_TEST_PROMETHEUS_PROGRAMS";

/// How often something is fetched before that has failed, and the pause between two tries.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_secs(5);

/// The folder with both programs: the one that the variable names, one on this machine, Debian's package unpacked under
/// `cache`, or that package installed.
pub(crate) fn programs(cache: &Path) -> Result<PathBuf> {
    let named = std::env::var_os(PROMETHEUS_VARIABLE).map(PathBuf::from);
    named
        .filter(|folder| is_complete(folder))
        .or_else(on_this_machine)
        .or_else(|| unpacked(cache))
        .or_else(|| fetched(cache))
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

fn unpacked(cache: &Path) -> Option<PathBuf> {
    Some(cache.join("prometheus/usr/bin")).filter(|programs| is_complete(programs))
}

fn fetched(cache: &Path) -> Option<PathBuf> {
    let _alone = alone(cache).ok()?;
    // Somebody else may have done it by now.
    on_this_machine()
        .or_else(|| unpacked(cache))
        .or_else(|| {
            let tried = repeatedly(|| fetch(cache));
            tried.inspect_err(|error| eprintln!("{error:#}")).ok()
        })
        .or_else(|| install("prometheus").then(on_this_machine).flatten())
}

/// Installed, the package would start a server; unpacked, it is two programs, and needs no root.
fn fetch(cache: &Path) -> Result<PathBuf> {
    let home = cache.join("prometheus");
    eprintln!("fetching Prometheus: apt-get download prometheus");
    std::fs::create_dir_all(&home)?;
    let shell = |script: &str| output(Command::new("sh").args(["-c", script]).current_dir(&home));
    // What was cut short cannot be unpacked, and what was unpacked in part looks as if it were complete.
    shell("rm -rf prometheus_*.deb new usr").context("its folder cannot be emptied")?;
    let download =
        || output(Command::new("apt-get").args(["download", "prometheus"]).current_dir(&home));
    let update = || output(Command::new("apt-get").arg("update"));
    let downloaded = download().or_else(|| update().and_then(|_| download()));
    downloaded.context("apt-get download prometheus failed")?;
    shell("dpkg-deb --extract prometheus_*.deb new && mv new/usr .").context("it is damaged")?;
    unpacked(cache).context("the package has no `prometheus` and `promtool`")
}

/// Lets nobody else fetch as long as this is kept: each test that misses something is a process that fetches it, and all
/// of them have one folder.
pub(crate) fn alone(cache: &Path) -> std::io::Result<File> {
    std::fs::create_dir_all(cache)?;
    let file = File::create(cache.join("fetching"))?;
    file.lock()?;
    Ok(file)
}

/// Networks fail for a moment: what is fetched is tried a few times.
pub(crate) fn repeatedly<T>(mut fetch: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        match fetch() {
            Ok(fetched) => return Ok(fetched),
            Err(error) => eprintln!("{error:#}; trying again"),
        }
        std::thread::sleep(PAUSE);
    }
    fetch()
}
