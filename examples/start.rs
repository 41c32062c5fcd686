//! What every example begins and ends with: a log by URL, and an exit code with words.

use anabranch::{FixedPartition, Log, Namespace, Options, ReplicaSet};
use std::error::Error;
use std::io::IsTerminal;
use std::process::ExitCode;

pub type Outcome<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The URL in the environment, as the command `anabranch` takes it, or the example's own file.
pub fn url_or(default_url: &str) -> String {
    let named = ["ANABRANCH_URL", "DATABASE_URL"];
    let named = named.into_iter().filter_map(|name| std::env::var(name).ok());
    named.into_iter().find(|url| !url.is_empty()).unwrap_or_else(|| default_url.to_owned())
}

/// The arguments of an example, and the partition that they or the environment ask for: `--partition-key N` of
/// `--total-partitions N`, or `PARTITION_KEY` of `TOTAL_PARTITIONS`.
#[allow(dead_code, reason = "one example runs no replica set")]
pub fn arguments() -> Outcome<(Vec<String>, Option<FixedPartition>)> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let get = |name: &str| std::env::var(name).ok();
    let partition = FixedPartition::from_args_and_env(&mut arguments, get)?;
    Ok((arguments, partition))
}

/// A set as one fixed partition of several, or with a share of what is there, if none is asked for.
#[allow(dead_code, reason = "one example runs no replica set")]
pub fn as_partition(set: ReplicaSet, partition: Option<FixedPartition>) -> ReplicaSet {
    match partition {
        Some(partition) => set.partition(partition),
        None => set,
    }
}

/// Tasks that fail are part of what an example shows, so they are no news.
const LOGGED: &str = "warn,anabranch_workpool=error";

/// Connects as the command `anabranch` does, so that it shows what happens here.
pub async fn connect(url: &str) -> Outcome<Log> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(LOGGED));
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_terminal)
        .init();
    let mut options = Options::default();
    if let Ok(name) = std::env::var("ANABRANCH_NAMESPACE") {
        options.namespace = Namespace::new(name)?;
    }
    Ok(anabranch::connect_with(url, &options).await?)
}

/// Ends a process with what went wrong, in words.
pub fn report(outcome: Outcome<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
