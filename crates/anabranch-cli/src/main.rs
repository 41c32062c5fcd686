//! The command `anabranch`.
//!
//! Standard output is data, standard error is everything else. Exit codes: 0 done, 1 failed, 2 wrong
//! arguments.
//!
//! | module | subject |
//! |---|---|
//! | `target` | which log a command works on |
//! | `demo` | append, follow, verify |
//! | `append` | one event from the command line |
//! | `tail` | the last events, and the next ones |
//! | `migrate` | create or upgrade a log, or print how |
//! | `bench` | how fast, beside the bare driver |

#![allow(clippy::print_stdout, reason = "standard output is what this program is for")]

mod append;
mod bench;

mod demo;
mod migrate;
mod tail;
mod target;

use anabranch::{AppendError, StoreError};
use clap::{Parser, Subcommand};
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Partitioned, elastic event processing that people can trust with their money.
#[derive(Parser)]
#[command(name = "anabranch", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Append(append::AppendEvent),
    Tail(tail::Tail),
    Migrate(migrate::Migrate),
    /// Measure how fast it is here, beside the bare driver on the same schema
    #[command(subcommand)]
    Bench(bench::Bench),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match Box::pin(run(arguments.command)).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", message(&error));
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Demo(demo) => demo.run().await,
        Command::Append(append) => append.run().await,
        Command::Tail(tail) => tail.run().await,
        Command::Migrate(migrate) => migrate.run().await,
        Command::Bench(bench) => bench.run().await,
    }
}

/// What happened, and why. Our own errors name their cause themselves.
fn message(error: &anyhow::Error) -> String {
    let mut parts = Vec::new();
    for cause in error.chain() {
        parts.push(cause.to_string());
        if cause.is::<StoreError>() || cause.is::<AppendError>() {
            break;
        }
    }
    parts.join(": ")
}
