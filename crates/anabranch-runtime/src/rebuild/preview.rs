//! What a switch would do, for somebody who is to decide.

use super::{ColumnDifference, Rebuild, RebuildError};
use crate::status::WorkerStatus;
use anabranch_core::Position;
use serde::Serialize;

/// One of the two versions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct VersionState {
    /// Its version.
    pub version: u32,
    /// Everything up to here is handled.
    pub position: Position,
    /// The living workers that run it.
    pub workers: Vec<WorkerStatus>,
}

/// What a switch would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SwitchPreview {
    /// The consumer.
    pub consumer: String,
    /// What serves it now. Its workers are refused for this consumer after the switch, and go on with
    /// their others; those of the last version of Anabranch end.
    pub old: VersionState,
    /// What takes its place. Its workers serve it after the switch; those of the last version of Anabranch
    /// end.
    pub new: VersionState,
    /// How the columns of each table differ. Rows are not compared here; see
    /// [`compare`](Rebuild::compare).
    pub columns: Vec<(String, ColumnDifference)>,
}

impl Rebuild {
    /// What [`switch`](Self::switch) would do; refused as it would be. Changes nothing, and reads no rows
    /// of the tables.
    pub async fn preview(&self) -> Result<SwitchPreview, RebuildError> {
        self.tables.database.require_newest_schema()?;
        self.can_switch().await?;
        Ok(SwitchPreview {
            consumer: self.name.clone(),
            old: self.version(&self.name).await?,
            new: self.version(&self.next_name()).await?,
            columns: self.columns().await?,
        })
    }

    async fn version(&self, name: &str) -> Result<VersionState, RebuildError> {
        let registered = self.tables.registered(Some(name)).await?;
        let Some(registered) = registered.first() else {
            return Err(RebuildError::Gone { name: name.to_owned() });
        };
        let cursors = self.tables.cursors(name).await?;
        let position = cursors.iter().map(|cursor| cursor.position).min().unwrap_or_default();
        let mut workers = self.tables.workers().await?;
        workers.retain(|worker| worker.is_alive && worker.runs(name).is_some());
        Ok(VersionState { version: registered.version, position, workers })
    }
}
