//! What this worker runs, and what it is able to run: others own the slots of what it is not.

use super::Keeper;
use crate::run_error::RunError;
use crate::tables::runners::Runner;

impl Keeper {
    /// What this worker runs, as others are told when it joins.
    pub(super) fn runners(&self) -> Vec<Runner> {
        let runner = |running: &super::Running| Runner {
            consumer: running.consumer.name.clone(),
            version: Some(running.consumer.settings.version),
            unable: running.unable.clone(),
        };
        self.running.iter().map(runner).collect()
    }

    /// It cannot run a consumer for the time being, for a reason, or can again if there is none. A new
    /// generation gives the slots to those who can; what nobody else can run stays here. After an error
    /// nothing has changed here, and it can be said again.
    pub(super) async fn set_able(
        &mut self,
        number: usize,
        unable: Option<String>,
    ) -> Result<(), RunError> {
        if self.running[number].unable == unable {
            return Ok(());
        }
        let consumer = self.running[number].consumer.name.clone();
        let (set, worker) = (&self.plan.name, &self.worker.id);
        self.tables.set_able(set, worker, &consumer, unable.as_deref()).await?;
        match &unable {
            Some(why) => tracing::warn!(consumer, why, "cannot run it for the time being"),
            None => tracing::info!(consumer, "can run it again"),
        }
        self.running[number].unable = unable;
        self.follow().await
    }
}
