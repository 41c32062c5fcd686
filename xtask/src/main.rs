//! The project's own tasks, so that a machine with Rust and a C compiler needs nothing else.
//!
//! | module | subject |
//! |---|---|
//! | `test` | everything that is tested, with a throwaway PostgreSQL |
//! | `chaos` | workers hit at random, on both databases |
//! | `postgres` | a throwaway server |
//! | `ladder` | where its programs come from |
//! | `interpreters` | where Python and Node come from |
//! | `prometheus` | where Prometheus and `promtool` come from |
//! | `schemas` | where published schemas of Kubernetes come from |
//! | `chromium` | where a browser comes from |
//! | `axe` | where axe comes from, which looks at pages |
//! | `sim` | seeds of the simulation |
//! | `deps` | licences, sources and known advisories of dependencies, offline |
//! | `features` | each feature of the library alone, and the oldest Rust |
//! | `package` | what goes to crates.io |
//! | `tidy` | the house rules that a machine can keep |

#![allow(clippy::print_stdout)]

mod axe;
mod chaos;
mod chromium;
mod deps;
mod face;
mod features;
mod interpreters;
mod ladder;
mod package;
mod postgres;
mod prometheus;
mod schemas;
mod sim;
mod test;
mod tidy;

use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <task>

  test [--postgres-from RUNG] [-- ARGS]
                  everything: unit, contract, fault and end-to-end tests, doc examples.
                  ARGS go to the test runner (cargo nextest if installed, else cargo test).
  chaos [--postgres-from RUNG] [--seconds-postgres 60] [--seconds-sqlite 30] [--seed N] [--release]
                  workers hit at random on both databases, and a proof; prints JSON.
  postgres [--postgres-from RUNG]
                  a throwaway PostgreSQL until Ctrl-C; prints its URL.
  programs        where PostgreSQL's programs, PgBouncer, Python, Node, Prometheus, the schemas of
                  Kubernetes, Chromium and axe are, for tests that need them; they are installed
                  if need be.
  sim [--seeds N] [--seed N [--steps N]] [--mutant NAME]
                  seeds of the simulation: many, or one with every step.
  deps            licences, sources and known advisories of all dependencies, offline.
  features        each feature of the library alone, and none, by clippy.
  oldest-rust     the library with the oldest Rust that it promises, if that can be had.
  package         what goes to crates.io: complete, and compiles by itself.
  tidy            the house rules.

RUNG is where PostgreSQL comes from: env (ANABRANCH_TEST_POSTGRES), machine, system, npm or pip.
Without it they are tried in that order.";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let task = if arguments.is_empty() { String::new() } else { arguments.remove(0) };
    match task.as_str() {
        "test" => test::run(&rung(&mut arguments)?, after_dashes(&arguments)?),
        "chaos" => {
            let rung = rung(&mut arguments)?;
            chaos::run(&rung, &chaos::Run::parse(&arguments)?)
        }
        "postgres" => {
            let rung = rung(&mut arguments)?;
            no_more(&arguments)?;
            postgres::run_until_interrupted(&rung)
        }
        "programs" => {
            no_more(&arguments)?;
            let cache = root().join("target/xtask");
            println!("{}", ladder::programs(&cache)?.display());
            println!("{}", ladder::pooler()?.display());
            let python = interpreters::python(&cache)?;
            println!("{}", python.display());
            let node = interpreters::node(&python, &cache)?;
            println!("{}", node.display());
            println!("{}", prometheus::programs(&cache)?.display());
            println!("{}", schemas::folder(&python, &node, &cache)?.display());
            println!("{}", chromium::program(&cache)?.display());
            println!("{}", axe::script(&node, &cache)?.display());
            Ok(())
        }
        "sim" => sim::run(&arguments),
        "deps" => no_more(&arguments).and_then(|()| deps::check(&root())),
        "features" => no_more(&arguments).and_then(|()| features::check(&root())),
        "oldest-rust" => no_more(&arguments).and_then(|()| features::oldest_rust(&root())),
        "package" => no_more(&arguments).and_then(|()| package::check(&root())),
        "tidy" => no_more(&arguments).and_then(|()| tidy::check(&root())),
        "" | "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        other => bail!("there is no task `{other}`\n\n{HELP}"),
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the workspace").to_owned()
}

fn rung(arguments: &mut Vec<String>) -> Result<Vec<ladder::Rung>> {
    if arguments.first().is_none_or(|first| first != "--postgres-from") {
        return Ok(ladder::ALL.to_vec());
    }
    arguments.remove(0);
    if arguments.is_empty() {
        bail!("--postgres-from needs one of env, machine, system, npm, pip");
    }
    Ok(vec![arguments.remove(0).parse()?])
}

fn after_dashes(arguments: &[String]) -> Result<&[String]> {
    match arguments {
        [] => Ok(&[]),
        [dashes, rest @ ..] if dashes == "--" => Ok(rest),
        [unknown, ..] => bail!("`{unknown}` is not known; arguments of the runner follow after --"),
    }
}

fn no_more(arguments: &[String]) -> Result<()> {
    match arguments.first() {
        None => Ok(()),
        Some(unknown) => bail!("`{unknown}` is not known\n\n{HELP}"),
    }
}
