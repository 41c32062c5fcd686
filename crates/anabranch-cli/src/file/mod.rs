//! Replica sets that are described in a file: run, check and test them.
//!
//! | module | subject |
//! |---|---|
//! | `run` | run a file |
//! | `check` | everything that is wrong with a file |
//! | `figures` | what a run has done |
//! | `narrate` | what a run tells while it goes on |
//! | `partition_flags` | one fixed partition of several |
//! | `sets` | the sets of a file while they run |
//! | `reload` | a file that changes while it is run |
//! | `plan` | what would happen, and accepting the code of consumers |
//! | `test` | the tests of a file |

mod check;
mod figures;
mod narrate;
mod partition_flags;
mod plan;
mod reload;
mod run;
mod sets;
mod test;

pub(crate) use check::Check;
pub(crate) use run::Run;
pub(crate) use test::Test;

use crate::refusal::{Refusal, refuse};
use crate::target::Target;
use anabranch::Namespace;
use anabranch::errors::ErrorCode;
use anabranch_file::file::{DATABASES, File, Problems, Setting};
use anabranch_file::program::Programs;
use anabranch_terminal::say;
use clap::Args;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// The file, and the database if the file shall not say which.
#[derive(Args)]
pub(crate) struct Described {
    /// The file: docs/files.md says what stands in it
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The database, in the place of the one that the file names
    #[arg(long)]
    url: Option<String>,

    /// Which log in it, in the place of the one that the file names
    #[arg(long, value_parser = crate::target::namespace)]
    namespace: Option<Namespace>,
}

/// The same, for a command that may do without.
#[derive(Args)]
pub(crate) struct MaybeDescribed {
    #[command(flatten)]
    described: Option<Described>,
}

impl MaybeDescribed {
    pub(crate) fn given(&self) -> Option<&Described> {
        self.described.as_ref()
    }
}

impl Described {
    pub(crate) fn new(file: PathBuf, url: Option<String>, namespace: Option<Namespace>) -> Self {
        Self { file, url, namespace }
    }

    /// Reads the file. What is wrong with it is an error that [`refused`] shows.
    pub(crate) fn read(&self) -> anyhow::Result<File> {
        self.read_by(File::read)
    }

    /// The same, with the mistakes that can be passed over.
    pub(crate) fn read_to_check(&self) -> anyhow::Result<File> {
        self.read_by(File::read_to_check)
    }

    fn read_by(
        &self,
        read: impl FnOnce(&Path) -> std::io::Result<Result<File, Problems>>,
    ) -> anyhow::Result<File> {
        let path = &self.file;
        let read = read(path).map_err(|error| {
            let said = format!("cannot read {}: {error}", path.display());
            Refusal::new(ErrorCode::InvalidArguments, said)
        })?;
        Ok(read?)
    }

    /// The database: what the command says, else the file, else what other commands take. What is not used is not
    /// looked up in the environment.
    pub(crate) fn target(&self, file: &File) -> anyhow::Result<Target> {
        let resolve = |setting: &Setting| {
            setting.resolve().map_err(|problem| Problems::one(&file.source, problem))
        };
        let namespace = match (&self.namespace, &file.namespace) {
            (Some(namespace), _) => Some(namespace.clone()),
            (None, Some(setting)) => {
                let name = resolve(setting)?;
                match crate::target::namespace(&name) {
                    Ok(namespace) => Some(namespace),
                    Err(error) => refuse!(InvalidInput, "namespace = {name:?}: {error}"),
                }
            }
            (None, None) => None,
        };
        let url = match (&self.url, &file.url) {
            (Some(url), _) => Some(url.clone()),
            (None, Some(setting)) => {
                let url = resolve(setting)?;
                crate::target::say_if_the_environment_differs(&url);
                Some(url)
            }
            (None, None) => None,
        };
        let events_url = file.events_url.as_ref().map(resolve).transpose()?;
        Target::for_file(url, namespace, events_url)
    }

    /// The database as its URL begins, if that is known without the environment's help.
    pub(crate) fn database(&self, file: &File) -> Option<&'static str> {
        let url = self.url.clone().or_else(|| file.url.as_ref()?.resolve().ok())?;
        let scheme = url.split(':').next().unwrap_or_default();
        DATABASES.into_iter().find(|known| scheme.starts_with(known))
    }
}

/// Shows the mistakes of a file, if it is those that end a command.
pub(crate) fn refused(error: anyhow::Error) -> anyhow::Error {
    let Some(problems) = error.downcast_ref::<Problems>() else { return error };
    say!("{}\n", problems.render(std::io::stderr().is_terminal()));
    let count = anabranch_terminal::output::count(problems.all().len() as u64, "mistake");
    let path = problems.source().path.display();
    Refusal::new(ErrorCode::InvalidFile, format!("{path} has {count}")).into()
}

/// Programs that end with this process, however it ends.
fn programs() -> Programs {
    // This very program, though its file may be replaced meanwhile by another version.
    match Path::new("/proc/self/exe") {
        this if this.exists() => Programs::with_launcher(this),
        _ => Programs::new(),
    }
}
