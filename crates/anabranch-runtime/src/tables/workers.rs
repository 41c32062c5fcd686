//! Leases and heartbeats. Time is the database's, never this machine's.

use super::Tables;
use super::outages::StoredOutage;
use super::replica_sets::LEAVING;
use super::runners::{self, Runner};
use crate::identity::Stored;
use crate::report::Report;
use crate::status::WorkerStatus;
use anabranch_core::generation::Rollout;
use anabranch_core::{SlotSet, StoreError, time};
use anabranch_store::database::{End, Statement, Topic};
use anabranch_store::{Row, params};
use std::time::{Duration, Instant};

/// One process that runs a replica set.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) id: String,
    pub(crate) replica_set: String,
    pub(crate) host: String,
    pub(crate) runs: String,
    pub(crate) lanes: usize,
    /// The slots that it asks for; a fair share if there are none.
    pub(crate) fixed: Option<SlotSet>,
    pub(crate) rollout: Rollout,
}

/// What a heartbeat finds out.
#[derive(Clone, Debug)]
pub(crate) struct Beat {
    /// When it was begun: what this worker has written since is not in it.
    pub(crate) begun: Instant,
    pub(crate) generation: i64,
    pub(crate) rollout: Rollout,
    /// Whether the members are no longer those of the current assignment, or it was made by one that does
    /// not know who runs what.
    pub(crate) is_stale: bool,
    pub(crate) consumers: Vec<ConsumerBeat>,
}

/// What a heartbeat finds out about one consumer.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerBeat {
    pub(crate) consumer: String,
    /// What identifies it now.
    pub(crate) identity: Stored,
    pub(crate) paused: bool,
    /// Whether it has stopped by itself.
    pub(crate) outage: Option<StoredOutage>,
    pub(crate) generation: i64,
    /// The oldest generation of which a living worker that runs it may still hold something. Only a set
    /// that is recreated asks.
    pub(crate) settled: i64,
    pub(crate) wants_reset: bool,
    /// Whether something was requested about a parked key.
    pub(crate) asked: bool,
    /// How many cursors are the worker's, and the sum of their epochs.
    pub(crate) owned: (i64, i64),
}

impl Tables {
    /// Adds a worker, and removes those whose lease has been over for long.
    pub(crate) async fn enlist(
        &self,
        worker: &Worker,
        lease: Duration,
        runners: &[Runner],
        report: &str,
    ) -> Result<(), StoreError> {
        let (workers, now) = (&self.workers, self.now);
        let insert = format!(
            "INSERT INTO {workers} \
             (id, replica_set, host, pid, runs, lanes, started_us, lease_us, fixed, report, \
             schema_version) VALUES ($1, $2, $3, $4, $5, $6, {now}, {now} + $7, $8, $9, $10)"
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
                worker.fixed.as_ref().map(SlotSet::to_bytes),
                report,
                self.database.newest_schema(),
            ],
        );
        let set = self.create_set(&worker.replica_set, worker.rollout);
        let mut statements = vec![set, insert];
        statements.extend(self.add_runners(&worker.id, runners));
        statements.extend(self.remove_dead());
        self.commit(statements).await.map(drop)
    }

    /// Removes workers whose lease is over and whose cursors others have taken: until then `status`
    /// can name who held what. Workers that are gone run nothing.
    pub(crate) fn remove_dead(&self) -> [Statement; 2] {
        let (workers, cursors, now) = (&self.workers, &self.cursors, self.now);
        let delete = format!(
            "DELETE FROM {workers} WHERE lease_us < {now} AND NOT EXISTS \
             (SELECT 1 FROM {cursors} AS c WHERE c.owner = {workers}.id)"
        );
        [Statement::new(delete, vec![]), self.remove_runners()]
    }

    /// Renews a lease, leaves a report, and looks after the set and its consumers; `None` if the worker
    /// has been declared dead.
    pub(crate) async fn beat(
        &self,
        worker: &Worker,
        lease: Duration,
        consumers: &[String],
        report: &str,
    ) -> Result<Option<Beat>, StoreError> {
        let (workers, now, parked) = (&self.workers, self.now, &self.parked_keys);
        // A lease that is over is not renewed: somebody may be taking the cursors right now.
        let renew = format!(
            "UPDATE {workers} SET lease_us = {now} + $2, report = $3 \
             WHERE id = $1 AND lease_us > {now}"
        );
        let values = params![&worker.id, lease.as_micros() as u64, report];
        let renew = Statement::fence(renew, values, 1);
        let look = format!(
            "SELECT name, kind, strategy, version, partition, scope, wanted_scope, beyond_log{code}, \
             paused{outage}, generation, \
             reset_to IS NOT NULL AS wants_reset, \
             EXISTS (SELECT 1 FROM {parked} WHERE consumer = name AND asked IS NOT NULL) AS asked, \
             (SELECT count(*) FROM {cursors} AS c WHERE c.consumer = name AND c.owner = $1) \
             AS cursors, (SELECT CAST(coalesce(sum(c.epoch), 0) AS BIGINT) FROM {cursors} AS c \
             WHERE c.consumer = name AND c.owner = $1) AS epochs, {settled} AS settled \
             FROM {} WHERE name IN ({})",
            self.consumers,
            places(3, consumers.len()),
            cursors = self.cursors,
            code = self.code_columns(),
            outage = self.outage_columns(),
            settled = self.settled_of_consumer(),
        );
        let who = [&worker.id, &worker.replica_set].map(Into::into).into_iter();
        let values = who.chain(consumers.iter().map(Into::into));
        let look = Statement::query(look, values.collect());
        let begun = Instant::now();
        let mut session = self.database.heartbeat();
        let statements = vec![renew, self.look_at_set(&worker.replica_set), look];
        let answers = match session.run(statements, End::Commit).await {
            Ok(answers) => answers,
            Err(failed) if failed.is_unmatched() => return Ok(None),
            Err(failed) => return Err(self.error(failed)),
        };
        let [_, set, consumers] = &answers[..] else {
            return Err(self.corrupt("a heartbeat without answers".to_owned()));
        };
        let Some(set) = set.rows.first() else {
            return Err(self.corrupt(format!("no replica set `{}`", worker.replica_set)));
        };
        let consumer = |row| {
            Ok(ConsumerBeat {
                consumer: self.column(row, "name")?,
                identity: self.stored(row)?,
                paused: self.column(row, "paused")?,
                outage: self.outage(row)?,
                generation: self.column(row, "generation")?,
                settled: self.column::<Option<i64>>(row, "settled")?.unwrap_or(i64::MAX),
                wants_reset: self.column(row, "wants_reset")?,
                asked: self.column(row, "asked")?,
                owned: (self.column(row, "cursors")?, self.column(row, "epochs")?),
            })
        };
        let consumers = consumers.rows.iter().map(consumer).collect::<Result<_, StoreError>>()?;
        let rollout: String = self.column(set, "rollout")?;
        Ok(Some(Beat {
            begun,
            generation: self.column(set, "generation")?,
            rollout: rollout.parse().unwrap_or_default(),
            is_stale: self.column(set, "is_stale")?,
            consumers,
        }))
    }

    /// What a heartbeat asks about the set: most of the time nothing has changed.
    fn look_at_set(&self, set: &str) -> Statement {
        let (sets, workers, assignments, now) =
            (&self.replica_sets, &self.workers, &self.assignments, self.now);
        let member =
            format!("w.replica_set = s.name AND w.lease_us > {now} AND w.runs <> '{LEAVING}'");
        let assigned = "a.replica_set = s.name AND a.generation = s.generation";
        let look = format!(
            "SELECT s.generation, s.rollout, (s.planned < s.generation OR EXISTS (SELECT 1 FROM {assignments} AS a WHERE {assigned} AND NOT EXISTS \
             (SELECT 1 FROM {workers} AS w WHERE w.id = a.worker AND {member})) \
             OR EXISTS (SELECT 1 FROM {workers} AS w WHERE {member} AND NOT EXISTS \
             (SELECT 1 FROM {assignments} AS a WHERE a.worker = w.id AND {assigned}))) AS is_stale \
             FROM {sets} AS s WHERE s.name = $1"
        );
        Statement::query(look, params![set])
    }

    /// For a consumer of `$2`, the set: the oldest generation of which a living worker that runs it may hold
    /// something. A worker that does not say what it runs may run anything.
    fn settled_of_consumer(&self) -> String {
        format!(
            "CASE WHEN EXISTS (SELECT 1 FROM {sets} AS s WHERE s.name = $2 AND s.rollout = '{recreate}') \
             THEN (SELECT min(w.settled) FROM {workers} AS w \
             WHERE w.replica_set = $2 AND w.lease_us > {now} \
             AND (coalesce(w.schema_version, 0) < {since} OR EXISTS (SELECT 1 FROM {runners} AS r \
             WHERE r.worker = w.id AND r.consumer = name))) END",
            sets = self.replica_sets,
            recreate = Rollout::Recreate.name(),
            workers = self.workers,
            now = self.now,
            since = runners::SINCE,
            runners = self.runners,
        )
    }

    /// A worker holds nothing of generations before this one.
    pub(crate) async fn settle(&self, worker: &str, generation: i64) -> Result<(), StoreError> {
        let update = format!("UPDATE {} SET settled = $2 WHERE id = $1", self.workers);
        let settle = Statement::new(update, params![worker, generation]);
        self.commit(vec![settle, Statement::signal(Topic::Workers)]).await.map(drop)
    }

    /// A worker is about to leave: others should own what it does.
    pub(crate) async fn announce_leave(&self, worker: &str) -> Result<(), StoreError> {
        let update = format!("UPDATE {} SET runs = '{LEAVING}' WHERE id = $1", self.workers);
        self.commit(vec![Statement::new(update, params![worker])]).await.map(drop)
    }

    /// All workers.
    pub(crate) async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        let select = format!(
            "SELECT id, replica_set, host, pid, runs, lanes, started_us, lease_us, report, fixed, schema_version, \
             lease_us > {} AS is_alive FROM {} ORDER BY started_us, id",
            self.now, self.workers
        );
        let rows = self.query(Statement::query(select, vec![])).await?;
        let mut runners = match self.has_runners() {
            true => self.runners_in(&self.query(self.select_runners(None)).await?)?,
            false => runners::Runners::new(),
        };
        let worker = |row| {
            let (id, report): (String, String) =
                (self.column(row, "id")?, self.column(row, "report")?);
            let report = Report::parse(&report);
            let schema = self.column(row, "schema_version")?;
            let consumers = match runners::says_so(schema) {
                true => runners.remove(&id).unwrap_or_default(),
                false => runners::reported(&report),
            };
            Ok(WorkerStatus {
                id,
                replica_set: self.column(row, "replica_set")?,
                host: self.column(row, "host")?,
                pid: self.column(row, "pid")?,
                runs: self.column(row, "runs")?,
                lanes: self.column(row, "lanes")?,
                started_at: time::from_micros(self.column(row, "started_us")?),
                is_alive: self.column(row, "is_alive")?,
                consumers,
                report,
                lease_until: time::from_micros(self.column(row, "lease_us")?),
                schema,
                fixed: self.fixed_in(row)?,
            })
        };
        rows.iter().map(worker).collect()
    }

    /// The slots that a worker asks for.
    pub(super) fn fixed_in(&self, row: &Row) -> Result<Option<SlotSet>, StoreError> {
        match self.column::<Option<Vec<u8>>>(row, "fixed")? {
            Some(_) => self.slots_in(row, "fixed").map(Some),
            None => Ok(None),
        }
    }

    /// Removes a worker that has released everything.
    pub(crate) async fn dismiss(&self, worker: &str) -> Result<(), StoreError> {
        let delete = format!("DELETE FROM {} WHERE id = $1", self.workers);
        let mut statements = vec![Statement::new(delete, params![worker])];
        statements.extend(self.remove_dead());
        statements.push(Statement::signal(Topic::Workers));
        self.commit(statements).await.map(drop)
    }
}

/// `$2, $3, …`, from the first number on.
fn places(first: usize, count: usize) -> String {
    (first..first + count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}
