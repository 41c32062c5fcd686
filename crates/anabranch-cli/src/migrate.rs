//! Create or upgrade a log, or print how.

use crate::target::Target;
use anabranch::HashRule;
use anabranch_terminal::output;
use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;

/// Create the log, or bring its schema up to date
///
/// Safe to run from many processes at once; does nothing when there is nothing to do. Workers that run
/// go on, but older programs may not start on the log any more: install the new program everywhere the
/// old one may be started, and migrate then.
#[derive(Args)]
pub(crate) struct Migrate {
    #[command(flatten)]
    target: Target,

    /// Print the SQL instead of running it, for people who apply their own
    #[arg(long)]
    print: bool,

    /// How keys become slots, for a new log: fnv1a, md5 or integer [default: fnv1a]
    #[arg(long, value_name = "RULE")]
    hash_rule: Option<HashRule>,
}

impl Migrate {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let migrations = anabranch::migrations(&self.target.url)?;
        if self.print {
            let rule = self.hash_rule.unwrap_or_default();
            output::print(format_args!("{}", migrations.script(&self.target.namespace, rule)))?;
            return Ok(ExitCode::SUCCESS);
        }
        let log = self.target.create(self.hash_rule).await?;
        say!(
            "the log `{}` in {} has all migrations up to schema version {}, and the hash rule {}",
            self.target.namespace,
            log.at(),
            migrations.newest(),
            log.hash_rule()
        );
        Ok(ExitCode::SUCCESS)
    }
}
