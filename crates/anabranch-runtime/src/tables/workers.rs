//! Leases and heartbeats. Time is the database's, never this machine's.

use super::Tables;
use crate::consumers::WorkerStatus;
use anabranch_core::StoreError;
use anabranch_store::database::{End, Statement};
use anabranch_store::params;
use std::time::Duration;

/// One process that runs a replica set.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) id: String,
    pub(crate) replica_set: String,
    pub(crate) host: String,
    pub(crate) runs: String,
    pub(crate) lanes: usize,
}

/// What a heartbeat finds out about one consumer.
#[derive(Clone, Debug)]
pub(crate) struct Beat {
    pub(crate) consumer: String,
    pub(crate) version: u32,
    pub(crate) paused: bool,
    pub(crate) generation: i64,
    pub(crate) wants_reset: bool,
    /// Whether somebody asked for something about a parked key.
    pub(crate) asked: bool,
}

impl Tables {
    /// Adds a worker, and removes those whose lease has been over for long.
    pub(crate) async fn enlist(&self, worker: &Worker, lease: Duration) -> Result<(), StoreError> {
        let (workers, now) = (&self.workers, self.now);
        let insert = format!(
            "INSERT INTO {workers} \
             (id, replica_set, host, pid, runs, lanes, started_us, lease_us) \
             VALUES ($1, $2, $3, $4, $5, $6, {now}, {now} + $7)"
        );
        let insert = Statement::new(
            insert,
            params![
                &worker.id,
                &worker.replica_set,
                &worker.host,
                std::process::id(),
                &worker.runs,
                worker.lanes,
                lease.as_micros() as u64,
            ],
        );
        self.commit(vec![insert, self.bury()]).await.map(drop)
    }

    /// Removes workers whose lease is over and whose cursors others have taken: until then `status`
    /// can name who held what.
    fn bury(&self) -> Statement {
        let (workers, cursors, now) = (&self.workers, &self.cursors, self.now);
        let delete = format!(
            "DELETE FROM {workers} WHERE lease_us < {now} AND NOT EXISTS \
             (SELECT 1 FROM {cursors} AS c WHERE c.owner = {workers}.id)"
        );
        Statement::new(delete, vec![])
    }

    /// Renews a lease and looks after the consumers; `None` if the worker has been declared dead.
    pub(crate) async fn beat(
        &self,
        worker: &str,
        lease: Duration,
        consumers: &[String],
    ) -> Result<Option<Vec<Beat>>, StoreError> {
        let (workers, now, parked) = (&self.workers, self.now, &self.parked_keys);
        // A lease that is over is not renewed: somebody may be taking the cursors right now.
        let renew = format!(
            "UPDATE {workers} SET lease_us = {now} + $2 WHERE id = $1 AND lease_us > {now}"
        );
        let renew = Statement::fence(renew, params![worker, lease.as_micros() as u64], 1);
        let look = format!(
            "SELECT name, version, paused, generation, reset_to IS NOT NULL AS wants_reset, \
             EXISTS (SELECT 1 FROM {parked} WHERE consumer = name AND asked IS NOT NULL) AS asked \
             FROM {} WHERE name IN ({})",
            self.consumers,
            places(consumers.len())
        );
        let look = Statement::query(look, consumers.iter().map(Into::into).collect());
        let mut session = self.database.control();
        let statements = vec![renew, look];
        match session.run(statements, End::Commit).await {
            Ok(answers) => {
                let rows = answers.into_iter().nth(1).unwrap_or_default().rows;
                let beat = |row| {
                    Ok(Beat {
                        consumer: self.column(row, "name")?,
                        version: self.column(row, "version")?,
                        paused: self.column(row, "paused")?,
                        generation: self.column(row, "generation")?,
                        wants_reset: self.column(row, "wants_reset")?,
                        asked: self.column(row, "asked")?,
                    })
                };
                rows.iter().map(beat).collect::<Result<_, _>>().map(Some)
            }
            Err(failed) if failed.is_unmatched() => Ok(None),
            Err(failed) => Err(self.error(failed)),
        }
    }

    /// All workers.
    pub(crate) async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        let select = format!(
            "SELECT id, replica_set, host, pid, runs, lanes, started_us, \
             lease_us > {} AS is_alive FROM {} ORDER BY started_us, id",
            self.now, self.workers
        );
        let rows = self.query(Statement::query(select, vec![])).await?;
        let worker = |row| {
            Ok(WorkerStatus {
                id: self.column(row, "id")?,
                replica_set: self.column(row, "replica_set")?,
                host: self.column(row, "host")?,
                pid: self.column(row, "pid")?,
                runs: self.column(row, "runs")?,
                lanes: self.column(row, "lanes")?,
                started_us: self.column(row, "started_us")?,
                is_alive: self.column(row, "is_alive")?,
            })
        };
        rows.iter().map(worker).collect()
    }

    /// Removes a worker that has released everything.
    pub(crate) async fn dismiss(&self, worker: &str) -> Result<(), StoreError> {
        let delete = format!("DELETE FROM {} WHERE id = $1", self.workers);
        self.commit(vec![Statement::new(delete, params![worker]), self.bury()]).await.map(drop)
    }
}

/// `$1, $2, …`
pub(crate) fn places(count: usize) -> String {
    (1..=count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}
