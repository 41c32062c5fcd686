//! A projection of a file, built anew beside the old one, compared, and switched to.

use super::show;
use crate::confirm::Confirm;
use crate::file::{Described, refused};
use crate::log_lines::BAR;
use crate::refusal::refuse;
use anabranch::operate::{Consumers, Rebuild};
use anabranch::{Log, RunError};
use anabranch_file::RebuildSet;
use anabranch_terminal::say;
use std::process::ExitCode;
use tokio::sync::oneshot;

/// A projection of a file.
pub(super) struct RebuildOfFile {
    pub(super) described: Described,
    pub(super) consumer: String,
    pub(super) confirm: Confirm,
}

impl RebuildOfFile {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        self.rebuild().await.map_err(refused)
    }

    async fn rebuild(&self) -> anyhow::Result<ExitCode> {
        let name = &self.consumer;
        let file = self.described.read()?;
        let log = self.described.target(&file)?.create_for_consumers().await?;
        let built = RebuildSet::of(&file, &log, name)?;
        let stored = Consumers::new(&log).status(name).await?.version;
        if built.version <= stored {
            refuse!(
                InvalidFile,
                "the database has version {stored} of `{name}`, and the file has version {}; write version = {} to \
                 build that beside it",
                built.version,
                stored + 1
            );
        }
        let set = built.set.clone().on_progress(|progress| BAR.show(progress));
        set.catch_up(&log).await?;
        say!("version {} of `{name}` is built beside version {stored}", built.version);
        let tables: Vec<&str> = built.tables.iter().map(String::as_str).collect();
        let rebuild = Rebuild::new(&log, name, &tables);
        for difference in rebuild.compare().await? {
            show::difference(&difference)?;
        }
        let consequence = format!(
            "version {} of `{name}` would take the place of version {stored}",
            built.version
        );
        self.confirm.require(&consequence)?;
        switch(&built, &rebuild, &log).await?;
        say!(
            "`{name}` is version {} now, and its code is the accepted one; the old tables are kept with _old in their \
             names",
            built.version
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// Switches while the new version follows the log: events keep coming.
async fn switch(built: &RebuildSet, rebuild: &Rebuild, log: &Log) -> anyhow::Result<()> {
    let (stop, stopped) = oneshot::channel::<()>();
    let (set, log) = (built.set.clone(), log.clone());
    let follows = tokio::spawn(async move {
        let until = async { drop(stopped.await) };
        set.run_until(&log, until).await
    });
    let switched = rebuild.switch().await;
    drop(stop);
    let followed: Result<_, RunError> = follows.await?;
    switched?;
    followed?;
    Ok(())
}
