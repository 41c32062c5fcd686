//! What a shell wants to know of the command: completions and manual pages.

use crate::Arguments;
use crate::refusal::Refusal;
use anabranch::errors::ErrorCode;
use anabranch_terminal::output;
use anabranch_terminal::say;
use clap::{Args, CommandFactory};
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the completions for a shell
///
/// For bash, for example: anabranch completions bash > ~/.local/share/bash-completion/completions/anabranch
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

/// Print the manual page, or write one for each command into a directory
///
/// anabranch man ~/.local/share/man/man1 writes anabranch.1, anabranch-status.1 and so on.
#[derive(Args)]
pub(crate) struct Man {
    /// Where to; it is made if it is not there
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Completions {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "anabranch", &mut text);
        output::print(format_args!("{}", String::from_utf8(text)?))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Man {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let command = Arguments::command();
        let Some(directory) = &self.directory else {
            let mut text = Vec::new();
            clap_mangen::Man::new(command).render(&mut text)?;
            output::print(format_args!("{}", String::from_utf8(text)?))?;
            return Ok(ExitCode::SUCCESS);
        };
        let written = std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(command, directory));
        written.map_err(|error| {
            let directory = directory.display();
            let said = format!(
                "the pages cannot be written to {directory}: {error}; name another directory"
            );
            Refusal::new(ErrorCode::InvalidArguments, said)
        })?;
        say!("the manual pages are in {}", directory.display());
        Ok(ExitCode::SUCCESS)
    }
}
