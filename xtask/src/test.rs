//! Everything that is tested.

use crate::interpreters::{self, NODE_VARIABLE, PYTHON_VARIABLE};
use crate::ladder::{self, POOLER_VARIABLE, PROGRAMS_VARIABLE, Rung, URL_VARIABLE};
use crate::postgres::Server;
use anyhow::{Result, bail};
use std::process::{Command, Stdio};

pub(crate) fn run(rungs: &[Rung], runner_arguments: &[String]) -> Result<()> {
    let server = Server::provide(rungs)?;
    let mut tests = runner();
    tests.args(runner_arguments);
    cargo(&mut tests, &server)?;
    if runner_arguments.is_empty() {
        cargo(Command::new("cargo").args(["test", "--workspace", "--doc"]), &server)?;
    }
    Ok(())
}

/// `cargo nextest` where it is installed, since it runs test binaries in parallel.
fn runner() -> Command {
    let mut nextest = Command::new("cargo");
    nextest.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut command = Command::new("cargo");
    if nextest.status().is_ok_and(|status| status.success()) {
        command.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
    } else {
        command.args(["test", "--workspace", "--all-targets", "--no-fail-fast"]);
    }
    command
}

fn cargo(command: &mut Command, server: &Server) -> Result<()> {
    let root = crate::root();
    // Some tests start servers of their own, with settings of their own.
    let cache = root.join("target/xtask");
    command.env(PROGRAMS_VARIABLE, ladder::programs(&cache)?);
    let python = interpreters::python(&cache)?;
    command.env(NODE_VARIABLE, interpreters::node(&python, &cache)?).env(PYTHON_VARIABLE, python);
    match ladder::pooler() {
        Ok(pooler) => drop(command.env(POOLER_VARIABLE, pooler)),
        // The tests that need it fail with the same words, and no others do.
        Err(error) => eprintln!("{error:#}"),
    }
    command.current_dir(root).env(URL_VARIABLE, &server.url);
    let status = command.status()?;
    if !status.success() {
        bail!("{command:?} failed ({status})");
    }
    Ok(())
}
