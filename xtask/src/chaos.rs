//! Workers hit at random, on both databases: `anabranch chaos` with a server that may be restarted.

use crate::ladder::Rung;
use crate::postgres::Server;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// For how long, where; 0 leaves a database out.
pub(crate) struct Run {
    pub(crate) seconds_postgres: u64,
    pub(crate) seconds_sqlite: u64,
    pub(crate) seed: Option<u64>,
    pub(crate) release: bool,
}

impl Default for Run {
    fn default() -> Self {
        Self { seconds_postgres: 60, seconds_sqlite: 30, seed: None, release: false }
    }
}

impl Run {
    /// What is asked for on the command line.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let (mut run, mut arguments) = (Self::default(), arguments.iter());
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let value = arguments.next().and_then(|value| value.parse().ok());
                value.with_context(|| format!("{argument} needs a number"))
            };
            match argument.as_str() {
                "--seconds-postgres" => run.seconds_postgres = number()?,
                "--seconds-sqlite" => run.seconds_sqlite = number()?,
                "--seed" => run.seed = Some(number()?),
                "--release" => run.release = true,
                unknown => bail!("`{unknown}` is not known\n\n{}", crate::HELP),
            }
        }
        Ok(run)
    }
}

/// Runs it on both; fails if anything was lost, doubled or out of order on either.
pub(crate) fn run(rungs: &[Rung], run: &Run) -> Result<()> {
    let program = build(run.release)?;
    let chaos = |seconds: u64| {
        let mut command = Command::new(&program);
        command.args(["chaos", "--json", "--seconds", &seconds.to_string()]);
        command.args(run.seed.map(|seed| format!("--seed={seed}")));
        command.env_remove("ANABRANCH_URL").stdin(Stdio::null());
        command
    };
    if run.seconds_sqlite > 0 {
        succeed(&mut chaos(run.seconds_sqlite), "on SQLite")?;
    }
    if run.seconds_postgres > 0 {
        let server = Server::provide(rungs)?;
        let mut command = chaos(run.seconds_postgres);
        command.env("ANABRANCH_URL", &server.url);
        if let Some(restart) = server.restart_command() {
            command.args(["--restart-command", &restart]);
        }
        succeed(&mut command, "on PostgreSQL")?;
    }
    Ok(())
}

/// Builds the command; returns where it is.
fn build(release: bool) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--package", "anabranch-cli", "--message-format", "json"]);
    cargo.args(release.then_some("--release")).current_dir(crate::root());
    let output = cargo.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("{cargo:?} failed ({})", output.status);
    }
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    };
    let lines = String::from_utf8_lossy(&output.stdout);
    lines.lines().rev().find_map(executable).context("cargo has built no program")
}

fn succeed(command: &mut Command, place: &str) -> Result<()> {
    let status = command.status().context("cannot run the program")?;
    if !status.success() {
        bail!("chaos {place} failed ({status})");
    }
    Ok(())
}
