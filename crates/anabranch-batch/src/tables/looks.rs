//! What there is to look at without a batch, as statements. None of them goes through the whole log.

use super::{Tables, state};
use crate::source::Source;
use anabranch_store::database::Statement;
use anabranch_store::{Database, Value, params};
use std::sync::Arc;

impl Tables {
    /// To look at a log: of no source, and no job.
    pub(crate) fn of_log(database: &Arc<dyn Database>, log: &str) -> Self {
        Self::new(database, Source::table("", ""), "", log)
    }

    /// The same for one of its jobs.
    pub(crate) fn of_job(&self, job: &str) -> Self {
        Self { job: job.to_owned(), ..self.clone() }
    }

    /// The next jobs by their names. Those from before their source was stored have sessions only.
    pub(crate) fn list_jobs(&self, after: Option<&str>, limit: usize) -> Statement {
        let Self { jobs, sessions, .. } = self;
        let mut values = params![limit];
        values.extend(after.map(Value::from));
        let beyond = if after.is_some() { "WHERE a.job > $2" } else { "" };
        let select = format!(
            "SELECT a.job AS job, j.kind AS kind, j.source AS source, j.key_column AS key_column, \
             j.stored_us AS stored_us FROM (SELECT job FROM {jobs} UNION SELECT job FROM {sessions}) AS a \
             LEFT JOIN {jobs} AS j ON j.job = a.job {beyond} ORDER BY a.job LIMIT $1"
        );
        Statement::query(select, values)
    }

    /// So many sessions of each of these jobs: those that are alive, then the newest. Ids begin with their time.
    pub(crate) fn sessions_of(&self, jobs: &[&str], limit: usize) -> Statement {
        let (sessions, now, any) = (&self.sessions, self.now, self.is_any("job", 1));
        let is_alive = format!("lease_us > {now}");
        let select = format!(
            "SELECT s.* FROM (SELECT id, job, part, host, pid, started_us, lease_us, {is_alive} AS is_alive, \
             count(*) OVER (PARTITION BY job) AS n, row_number() OVER (PARTITION BY job ORDER BY \
             CASE WHEN {is_alive} THEN 0 ELSE 1 END, id DESC) AS place FROM {sessions} WHERE {any}) AS s \
             WHERE s.place <= $2 ORDER BY s.job, s.place"
        );
        let jobs = jobs.iter().copied().map(Value::from).collect();
        Statement::query(select, vec![jobs, limit.into()])
    }

    /// A row if there is a job of this name.
    pub(crate) fn any_sign(&self) -> Statement {
        let select = format!(
            "SELECT 1 AS sign FROM {} WHERE job = $1 UNION SELECT 1 AS sign FROM {} WHERE job = $1",
            self.jobs, self.sessions
        );
        Statement::query(select, params![self.job.as_str()])
    }

    /// The key behind so many entries of all jobs; no row if there are not so many.
    pub(crate) fn key_beyond(&self, after: Option<&str>, entries: usize) -> Statement {
        let mut values = params![entries];
        values.extend(after.map(Value::from));
        let beyond = if after.is_some() { "WHERE key > $2" } else { "" };
        let select =
            format!("SELECT key FROM {} {beyond} ORDER BY key LIMIT 1 OFFSET $1", self.log);
        Statement::query(select, values)
    }

    /// Rows that have failed, by their keys: after one of these, and up to another.
    pub(crate) fn failed_by_key(
        &self,
        after: Option<&str>,
        up_to: Option<&str>,
        limit: usize,
    ) -> Statement {
        let mut values = params![self.job.as_str(), limit];
        let mut bounds = String::new();
        for (compared, bound) in [(">", after), ("<=", up_to)] {
            if let Some(bound) = bound {
                values.push(bound.into());
                bounds += &format!(" AND key {compared} ${}", values.len());
            }
        }
        let select = format!(
            "SELECT key, error, attempts, finished_us FROM {} WHERE job = $1 AND state = '{}'{bounds} \
             ORDER BY key LIMIT $2",
            self.log,
            state::FAILED
        );
        Statement::query(select, values)
    }
}
