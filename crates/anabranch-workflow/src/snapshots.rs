//! States kept in the database, at some of their versions.

use crate::load::{Loaded, Mode};
use anabranch_core::StoreError;
use anabranch_core::{Happening, Notice};
use anabranch_store::database::{Answer, End, Statement, column};
use anabranch_store::{Database, Log, Value, params};
use serde::Serialize;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

/// How many snapshots are read at a time, and how many written: each takes a connection.
const MAX_READS: usize = 2;
const MAX_WRITES: u32 = 2;

/// The snapshots of one workflow.
pub(crate) struct Snapshots {
    log: Log,
    workflow: String,
    state_version: u32,
    /// Connections apart from those that handlers hold while they send commands.
    database: OnceLock<Arc<dyn Database>>,
    reads: Semaphore,
    writes: Arc<Semaphore>,
}

/// A row.
pub(crate) struct Snapshot {
    pub(crate) version: u64,
    pub(crate) mode: Mode,
    pub(crate) state: String,
}

impl Snapshots {
    pub(crate) fn of(log: &Log, workflow: &str, state_version: u32) -> Self {
        Self {
            log: log.clone(),
            workflow: workflow.to_owned(),
            state_version,
            database: OnceLock::new(),
            reads: Semaphore::new(MAX_READS),
            writes: Arc::new(Semaphore::new(MAX_WRITES as usize)),
        }
    }

    /// The newest one of an instance up to a version.
    pub(crate) async fn newest(
        &self,
        id: &str,
        up_to: u64,
    ) -> Result<Option<Snapshot>, StoreError> {
        let database = self.database()?;
        let table = database.dialect().table("workflow_snapshots");
        let sql = format!(
            "SELECT version, mode, state FROM {table} \
             WHERE workflow = $1 AND id = $2 AND version <= $3 AND state_version = $4 \
             ORDER BY version DESC LIMIT 1"
        );
        let up_to = i64::try_from(up_to).unwrap_or(i64::MAX);
        let values = params![&self.workflow, id, up_to, self.state_version];
        let _permit = self.reads.acquire().await;
        let answers = self.run(&database, Statement::query(sql, values)).await?;
        let Some(row) = answers.iter().flat_map(|answer| &answer.rows).next() else {
            return Ok(None);
        };
        let corrupt = |what: String| StoreError::Corrupt { at: database.at().to_owned(), what };
        let mode: String = column(database.at(), row, "mode")?;
        let mode = Mode::named(&mode).ok_or_else(|| corrupt(format!("the mode `{mode}`")))?;
        let version = column(database.at(), row, "version")?;
        Ok(Some(Snapshot { version, mode, state: column(database.at(), row, "state")? }))
    }

    /// Keeps a state, in a task of its own. It is left out if too many are on their way or the
    /// database is away: the state can be folded again, and the next one comes.
    pub(crate) fn keep<S: Serialize + Send + Sync + 'static>(
        self: &Arc<Self>,
        id: &str,
        loaded: &Arc<Loaded<S>>,
    ) {
        let Ok(permit) = Arc::clone(&self.writes).try_acquire_owned() else {
            return;
        };
        let (this, id, loaded) = (Arc::clone(self), id.to_owned(), Arc::clone(loaded));
        tokio::spawn(async move {
            if let Err(error) = this.write(&id, &loaded).await {
                let detail = format!("id={id} version={}", loaded.version);
                let (error, detail) = (Some(error.to_string()), Some(detail));
                let what = Happening::notice(Notice::SnapshotNotKept, error, detail);
                this.log.events().of(&this.workflow).emit(what);
            }
            drop(permit);
        });
    }

    async fn write<S: Serialize>(
        &self,
        id: &str,
        loaded: &Loaded<S>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let database = self.database()?;
        let table = database.dialect().table("workflow_snapshots");
        let mut values = params![&self.workflow, id, loaded.version, self.state_version];
        values.extend(params![loaded.mode.name()]);
        values.push(Value::Json(serde_json::to_string(&loaded.state)?));
        // While two versions of a program run, the newer one's stay.
        let sql = format!(
            "INSERT INTO {table} (workflow, id, version, state_version, mode, state) \
             VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (workflow, id, version) DO UPDATE \
             SET state_version = excluded.state_version, mode = excluded.mode, \
                 state = excluded.state \
             WHERE {table}.state_version < excluded.state_version"
        );
        self.run(&database, Statement::new(sql, values)).await?;
        Ok(())
    }

    /// Waits until those on their way are kept.
    pub(crate) async fn flush(&self) {
        let _all = self.writes.acquire_many(MAX_WRITES).await;
    }

    fn database(&self) -> Result<Arc<dyn Database>, StoreError> {
        if let Some(database) = self.database.get() {
            return Ok(Arc::clone(database));
        }
        let apart = self.log.database().apart()?;
        Ok(Arc::clone(self.database.get_or_init(|| apart)))
    }

    async fn run(
        &self,
        database: &Arc<dyn Database>,
        statement: Statement,
    ) -> Result<Vec<Answer>, StoreError> {
        let done = database.begin().run(vec![statement], End::Commit).await;
        done.map_err(|failed| failed.into_store_error(database.at()))
    }
}
