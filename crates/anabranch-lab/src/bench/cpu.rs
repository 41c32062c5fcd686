//! CPU time, as Linux counts it: of this process, and of a PostgreSQL server on this machine.

use super::bare::Bare;
use super::own_log::OwnLog;
use anyhow::Context;

/// Ticks of CPU time in a second, as Linux shows them to programs.
const TICKS: f64 = 100.0;

/// What this process has used so far, by all its threads, in seconds.
pub(crate) fn cpu_seconds() -> anyhow::Result<f64> {
    Ok(ticks("self")?[..2].iter().sum::<f64>() / TICKS)
}

/// The processes of a server on this machine.
pub(crate) struct ServerCpu {
    /// The first of them, that all others are children of; none where the database is in this process.
    postmaster: Option<u32>,
}

impl ServerCpu {
    /// The server of a log. One on another machine cannot be measured.
    pub(crate) async fn of(own: &OwnLog) -> anyhow::Result<Self> {
        let Bare::Postgres(bare) = &own.bare else { return Ok(Self { postmaster: None }) };
        let backend = bare.process().await?;
        let elsewhere = "the server is not on this machine, so its CPU time cannot be measured";
        let name = std::fs::read_to_string(format!("/proc/{backend}/comm")).context(elsewhere)?;
        anyhow::ensure!(name.trim() == "postgres", elsewhere);
        Ok(Self { postmaster: Some(parent(&backend.to_string())?) })
    }

    /// What it has used so far, in seconds: processes that have ended are in the account of the first.
    pub(crate) fn seconds(&self) -> anyhow::Result<f64> {
        let Some(postmaster) = self.postmaster else { return Ok(0.0) };
        loop {
            let first = ticks(&postmaster.to_string())?;
            let sum = first.iter().sum::<f64>() + children(postmaster)?;
            // The time of one that has ended in between would be counted twice, or not at all.
            if ticks(&postmaster.to_string())?[2..] == first[2..] {
                return Ok(sum / TICKS);
            }
        }
    }
}

/// What the living children of a process have used, in ticks.
fn children(of: u32) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else {
            continue;
        };
        // One may end while this looks.
        if parent(process).is_ok_and(|parent| parent == of)
            && let Ok(ticks) = ticks(process)
        {
            sum += ticks[..2].iter().sum::<f64>();
        }
    }
    Ok(sum)
}

/// User and system time of a process, and of its children that have ended.
fn ticks(process: &str) -> anyhow::Result<Vec<f64>> {
    let used: Vec<f64> =
        fields(process)?.iter().skip(11).take(4).filter_map(|ticks| ticks.parse().ok()).collect();
    anyhow::ensure!(used.len() == 4, "cannot read /proc/{process}/stat");
    Ok(used)
}

fn parent(process: &str) -> anyhow::Result<u32> {
    Ok(fields(process)?.get(1).context("a process without a parent")?.parse()?)
}

/// What stands behind the name of a process.
fn fields(process: &str) -> anyhow::Result<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name of the program may hold anything but ends with the last parenthesis.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    Ok(fields.map(ToOwned::to_owned).collect())
}
