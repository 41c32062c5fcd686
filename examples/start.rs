//! What every example begins and ends with: a log by URL, and an exit code with words.

use anabranch::{Log, Namespace, Options};
use std::error::Error;
use std::io::IsTerminal;
use std::process::ExitCode;

pub type Outcome<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The URL in the environment, or the example's own file.
pub fn url_or(default_url: &str) -> String {
    std::env::var("ANABRANCH_URL").unwrap_or_else(|_| default_url.to_owned())
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
