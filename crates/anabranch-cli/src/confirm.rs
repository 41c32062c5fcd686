//! What cannot be taken back is done with `--yes` only.

use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;

/// Whether it is meant.
#[derive(Args)]
pub(crate) struct Confirm {
    /// It is meant: this cannot be taken back
    #[arg(long)]
    yes: bool,
}

impl Confirm {
    /// The exit code with which to end if it was not confirmed, having said what would happen.
    pub(crate) fn refusal(&self, consequence: &str) -> Option<ExitCode> {
        if self.yes {
            return None;
        }
        say!("error: {consequence}; add --yes if that is meant");
        Some(ExitCode::from(2))
    }
}
