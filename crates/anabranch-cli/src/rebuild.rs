//! A new version of a projection, built beside the old one.

mod of_file;
mod show;

use crate::confirm::Confirm;
use crate::file::Described;
use crate::planned::{Planned, operations};
use crate::refusal::refuse;
use crate::target::Target;
use anabranch::operate::{Consumers, Rebuild, TableDifference};
use anabranch::operations::Request;
use anabranch::{Log, Namespace};
use anabranch_terminal::output;
use anabranch_terminal::say;
use clap::{Args, Subcommand};
use of_file::RebuildOfFile;
use std::path::PathBuf;
use std::process::ExitCode;

/// A new version of a projection, built beside the old one
///
/// For a projection of a file: builds the version that the file has beside the one that runs, compares their tables, and
/// with --yes switches to it, which makes its code the accepted one. The file raises `version`, and names the tables of
/// the projection (`tables`). For programs in Rust, which build new versions themselves: compare, switch and abandon.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct RebuildCommand {
    #[command(subcommand)]
    version: Option<RebuildVersion>,

    /// The file: docs/files.md says what stands in it
    #[arg(value_name = "FILE", requires = "consumer")]
    file: Option<PathBuf>,

    /// A projection of the file
    #[arg(value_name = "CONSUMER")]
    consumer: Option<String>,

    /// The database, in the place of the one that the file names
    #[arg(long)]
    url: Option<String>,

    /// Which log in it, in the place of the one that the file names
    #[arg(long, value_parser = crate::target::namespace)]
    namespace: Option<Namespace>,

    #[command(flatten)]
    confirm: Confirm,
}

impl RebuildCommand {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match (self.version, self.file.zip(self.consumer)) {
            (Some(version), _) => version.run().await,
            (None, Some((file, consumer))) => {
                let described = Described::new(file, self.url, self.namespace);
                let rebuild = RebuildOfFile { described, consumer, confirm: self.confirm };
                Box::pin(rebuild.run()).await
            }
            (None, None) => refuse!(InvalidArguments, "name a FILE and a CONSUMER of it"),
        }
    }
}

/// What to do with the two versions.
#[derive(Subcommand)]
pub(crate) enum RebuildVersion {
    Compare(Compare),
    Switch(Switch),
    Abandon(Abandon),
}

/// Compare the rows of the two versions; exits with 1 if they differ, or cannot be compared
///
/// Rows are compared by the columns that both versions have; new, gone and changed columns are named. A
/// column whose type has changed is compared by value if both types are numbers, or both are text.
///
/// Both versions may go on meanwhile: what one of them has not handled yet shows as a difference.
#[derive(Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    versions: Versions,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Put the new version in the place of the old one, in one transaction
///
/// Says what that means, and does it with --yes only. Workers that build the new version serve it from then
/// on. Workers of the old version are refused for this consumer, and go on with their others. The old tables
/// are kept under names that end in _old, until the next switch.
///
/// A new version that is behind is waited for, for ten seconds at most and only while it moves.
#[derive(Args)]
pub(crate) struct Switch {
    #[command(flatten)]
    versions: Versions,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    planned: Planned,
}

/// Throw away what was built of the new version, with its tables
///
/// The old version is not touched. A program with the new version that starts afterwards builds it anew.
#[derive(Args)]
pub(crate) struct Abandon {
    #[command(flatten)]
    versions: Versions,

    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Args)]
struct Versions {
    #[command(flatten)]
    target: Target,

    /// The consumer, without the .next of its new version
    name: String,

    #[command(flatten)]
    tables: Tables,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Tables {
    /// A table that the projection writes; may be repeated
    #[arg(long = "table", value_name = "TABLE", value_parser = table)]
    tables: Vec<String>,

    /// It is a view or rollup, whose table is known
    #[arg(long)]
    view: bool,
}

impl RebuildVersion {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Compare(compare) => compare.run().await,
            Self::Switch(switch) => switch.run().await,
            Self::Abandon(abandon) => abandon.run().await,
        }
    }
}

impl Versions {
    async fn rebuild(&self) -> anyhow::Result<Rebuild> {
        Ok(self.of(&self.target.connect().await?))
    }

    fn of(&self, log: &Log) -> Rebuild {
        if self.tables.view {
            return Rebuild::for_view(log, &self.name);
        }
        let tables: Vec<&str> = self.tables.tables.iter().map(String::as_str).collect();
        Rebuild::new(log, &self.name, &tables)
    }

    /// The command that compares them.
    fn comparison(&self) -> String {
        let tables: String =
            self.tables.tables.iter().map(|table| format!(" --table {table}")).collect();
        let view = if self.tables.view { " --view" } else { "" };
        format!("anabranch rebuild compare {}{tables}{view}", self.name)
    }
}

impl Compare {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let differences = self.versions.rebuild().await?.compare().await?;
        for difference in &differences {
            match self.json {
                true => output::json(difference)?,
                false => show::difference(difference)?,
            }
        }
        let is_same = differences.iter().all(TableDifference::is_same);
        Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl Switch {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.versions.target.connect().await?;
        let preview = self.versions.of(&log).preview().await?;
        show::preview(&preview, &self.versions.comparison());
        let (name, new) = (&self.versions.name, preview.new.version);
        let request = Request::SwitchRebuild {
            consumer: name.clone(),
            tables: self.versions.tables.tables.clone(),
        };
        let (operations, confirm) = (operations(&log), Some(&self.confirm));
        if self.planned.carry_out(&operations, &request, confirm).await?.is_some() {
            say!("`{name}` is version {new} now; the old tables are kept with _old in their names");
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Abandon {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.versions.target.connect().await?;
        let rebuild = self.versions.of(&log);
        rebuild.must_be_under_way().await?;
        let next = format!("{}.next", self.versions.name);
        let status = Consumers::new(&log).status(&next).await?;
        if status.is_run() {
            refuse!(
                StillRunning,
                "`{next}` is being built; stop its workers first (`anabranch status {next}`)"
            );
        }
        let consequence = format!(
            "version {} of `{}`, built up to position {}, would be gone with its tables",
            status.version, self.versions.name, status.position
        );
        self.confirm.require(&consequence)?;
        rebuild.abandon().await?;
        say!("`{next}` is gone, and so are its tables");
        Ok(ExitCode::SUCCESS)
    }
}

/// The name goes into a statement as it stands.
fn table(name: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    match name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(is_plain)
    {
        true => Ok(name.to_owned()),
        false => Err("use letters, digits and _, with a . after a schema".to_owned()),
    }
}
