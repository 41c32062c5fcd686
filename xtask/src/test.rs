//! Everything that is tested.

use crate::axe::{self, AXE_VARIABLE};
use crate::chromium::{self, CHROMIUM_VARIABLE};
use crate::interpreters::{self, NODE_VARIABLE, PYTHON_VARIABLE};
use crate::ladder::{self, POOLER_VARIABLE, PROGRAMS_VARIABLE, Rung, URL_VARIABLE};
use crate::postgres::Server;
use crate::prometheus::{self, PROMETHEUS_VARIABLE};
use crate::schemas::{self, SCHEMAS_VARIABLE};
use anyhow::{Result, bail};
use std::process::{Command, Stdio};

pub(crate) fn run(rungs: &[Rung], runner_arguments: &[String]) -> Result<()> {
    let server = Server::provide(rungs)?;
    // Without a choice of targets, since tests start the examples as programs: Cargo builds those beside the tests
    // only then. `--all-targets` builds the tests *of* the examples in their place.
    let mut tests = runner(&["--workspace"]);
    tests.args(runner_arguments);
    cargo(&mut tests, &server)?;
    if runner_arguments.is_empty() {
        // With spans, which the command has only if it is built so.
        let mut traces = runner(&["-p", "anabranch", "-p", "anabranch-cli", "--test", "traces"]);
        traces.args(["--features", "anabranch/otel,anabranch-cli/otel"]);
        cargo(&mut traces, &server)?;
        cargo(
            Command::new("cargo").args([
                "test",
                "--workspace",
                "--doc",
                "--features",
                "anabranch/otel",
            ]),
            &server,
        )?;
    }
    Ok(())
}

/// `cargo nextest` where it is installed, since it runs test binaries in parallel.
fn runner(which: &[&str]) -> Command {
    let mut nextest = Command::new("cargo");
    nextest.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut command = Command::new("cargo");
    if nextest.status().is_ok_and(|status| status.success()) {
        command.args(["nextest", "run", "--no-fail-fast"]);
    } else {
        command.args(["test", "--no-fail-fast"]);
    }
    command.args(which);
    command
}

fn cargo(command: &mut Command, server: &Server) -> Result<()> {
    let root = crate::root();
    // Some tests start servers of their own, with settings of their own.
    let cache = root.join("target/xtask");
    command.env(PROGRAMS_VARIABLE, ladder::programs(&cache)?);
    let python = interpreters::python(&cache)?;
    let node = interpreters::node(&python, &cache)?;
    // The tests that need one of these fail with the same words, and no others do.
    let optional = [
        (POOLER_VARIABLE, ladder::pooler()),
        (PROMETHEUS_VARIABLE, prometheus::programs(&cache)),
        (SCHEMAS_VARIABLE, schemas::folder(&python, &node, &cache)),
        (CHROMIUM_VARIABLE, chromium::program(&cache)),
        (AXE_VARIABLE, axe::script(&node, &cache)),
    ];
    command.env(NODE_VARIABLE, node).env(PYTHON_VARIABLE, python);
    for (variable, found) in optional {
        match found {
            Ok(place) => drop(command.env(variable, place)),
            Err(error) => eprintln!("{error:#}"),
        }
    }
    command.current_dir(root).env(URL_VARIABLE, &server.url);
    let status = command.status()?;
    if !status.success() {
        bail!("{command:?} failed ({status})");
    }
    Ok(())
}
