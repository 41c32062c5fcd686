//! Who runs what: which consumers each worker runs, and whether it is able to for the time being.
//!
//! Workers of the last version have no rows here. What they run stands in their reports.

use super::Tables;
use crate::report::Report;
use anabranch_core::StoreError;
use anabranch_store::database::Statement;
use anabranch_store::migration::since;
use anabranch_store::{Row, params};
use serde::Serialize;
use std::collections::HashMap;

/// The schema since which workers say what they run.
pub(crate) const SINCE: u32 = 6;

/// A consumer as a worker runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Runner {
    /// The consumer.
    pub consumer: String,
    /// Which version of its tables; not known of a worker of the last version.
    pub version: Option<u32>,
    /// Why the worker cannot run it for the time being; it can if there is none.
    pub unable: Option<String>,
}

/// The runners of each worker, by its id.
pub(crate) type Runners = HashMap<String, Vec<Runner>>;

impl Tables {
    /// Whether the log has room for who runs what: one before schema 6 does not.
    pub(crate) fn has_runners(&self) -> bool {
        self.database.schema() >= since::FLEET
    }

    /// The statements after which a worker that is new is known to run these.
    pub(crate) fn add_runners(&self, worker: &str, runners: &[Runner]) -> Vec<Statement> {
        let insert = |runner: &Runner| {
            let insert = format!(
                "INSERT INTO {} (worker, consumer, version, unable, since_us) \
                 VALUES ($1, $2, $3, $4, {})",
                self.runners, self.now
            );
            let Runner { consumer, version, unable } = runner;
            let values = params![worker, consumer, version.unwrap_or_default(), unable.as_deref()];
            Statement::new(insert, values)
        };
        runners.iter().map(insert).collect()
    }

    /// The statement after which a worker is known to be able to run a consumer, or why it is not.
    pub(crate) fn change_runner(
        &self,
        worker: &str,
        consumer: &str,
        unable: Option<&str>,
    ) -> Statement {
        // Another reason does not make it longer or shorter.
        let update = format!(
            "UPDATE {} SET unable = CAST($3 AS text), since_us = CASE WHEN (unable IS NULL) = \
             (CAST($3 AS text) IS NULL) THEN since_us ELSE {} END WHERE worker = $1 AND consumer = $2",
            self.runners, self.now
        );
        Statement::new(update, params![worker, consumer, unable])
    }

    /// The statements after which a worker runs one consumer in the place of another, as the new version of
    /// it does after a switch.
    pub(crate) fn replace_runner(&self, worker: &str, old: &str, new: &Runner) -> Vec<Statement> {
        let delete =
            format!("DELETE FROM {} WHERE worker = $1 AND consumer IN ($2, $3)", self.runners);
        let delete = Statement::new(delete, params![worker, old, &new.consumer]);
        let add = self.add_runners(worker, std::slice::from_ref(new));
        [vec![delete], add].concat()
    }

    /// The statement after which a worker does not run a consumer any more.
    pub(crate) fn delete_runner(&self, worker: &str, consumer: &str) -> Statement {
        let delete = format!("DELETE FROM {} WHERE worker = $1 AND consumer = $2", self.runners);
        Statement::new(delete, params![worker, consumer])
    }

    /// The statement after which workers that are gone run nothing, whichever worker removed them.
    pub(crate) fn remove_runners(&self) -> Statement {
        let (runners, workers) = (&self.runners, &self.workers);
        let delete = format!(
            "DELETE FROM {runners} WHERE NOT EXISTS \
             (SELECT 1 FROM {workers} AS w WHERE w.id = {runners}.worker)"
        );
        Statement::new(delete, vec![])
    }

    /// What the workers of one set run, or those of all.
    pub(crate) fn select_runners(&self, set: Option<&str>) -> Statement {
        let select = format!(
            "SELECT r.worker, r.consumer, r.version, r.unable FROM {} AS r, {} AS w \
             WHERE w.id = r.worker AND ($1 = '' OR w.replica_set = $1) ORDER BY r.worker, r.consumer",
            self.runners, self.workers
        );
        Statement::query(select, params![set.unwrap_or_default()])
    }

    /// What each worker runs, from the rows of [`Self::select_runners`].
    pub(crate) fn runners_in(&self, rows: &[Row]) -> Result<Runners, StoreError> {
        let mut runners = Runners::new();
        for row in rows {
            let runner = Runner {
                consumer: self.column(row, "consumer")?,
                version: self.column(row, "version")?,
                unable: self.column(row, "unable")?,
            };
            runners.entry(self.column(row, "worker")?).or_default().push(runner);
        }
        Ok(runners)
    }
}

/// What a worker of the last version runs: it has only its report to say so.
pub(crate) fn reported(report: &Report) -> Vec<Runner> {
    let runner = |consumer: &String| {
        let consumer = consumer.clone();
        Runner { consumer, version: None, unable: None }
    };
    report.consumers.iter().map(runner).collect()
}

/// Whether a worker of this schema says what it runs in rows of its own.
pub(crate) fn says_so(schema: Option<u32>) -> bool {
    schema.is_some_and(|schema| schema >= SINCE)
}
