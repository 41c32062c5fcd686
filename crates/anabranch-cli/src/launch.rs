//! A program of a file, started so that it ends with us.

use clap::Args;
use std::process::ExitCode;

/// Becomes a program that is killed when its parent is gone
#[derive(Args)]
pub(crate) struct Launch {
    /// The process that has started this one
    #[arg(long)]
    parent: u32,

    /// The program and its arguments
    #[arg(last = true, required = true)]
    program: Vec<String>,
}

impl Launch {
    /// Returns only if it fails. The main thread becomes the program: the signal is that thread's.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        Err(anabranch_file::program::launch(self.parent, &self.program).into())
    }
}
