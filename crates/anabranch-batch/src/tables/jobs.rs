//! What a job is of, as statements.

use super::Tables;
use crate::identity::Identity;
use anabranch_store::database::Statement;
use anabranch_store::params;

impl Tables {
    pub(super) fn create_jobs(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (job text NOT NULL PRIMARY KEY, kind text NOT NULL, \
             source text NOT NULL, key_column text NOT NULL, stored_us bigint NOT NULL)",
            self.jobs
        )
    }

    pub(crate) fn stored_job(&self) -> Statement {
        let select = format!("SELECT kind, source, key_column FROM {} WHERE job = $1", self.jobs);
        Statement::query(select, params![self.job.as_str()])
    }

    /// Stores what the job is of: of several who try, one does. It answers with a row to that one.
    pub(crate) fn store_job(&self, identity: &Identity) -> Statement {
        let insert = format!(
            "INSERT INTO {} (job, kind, source, key_column, stored_us) VALUES ($1, $2, $3, $4, {}) \
             ON CONFLICT DO NOTHING RETURNING job",
            self.jobs, self.now
        );
        let Identity { source, key, .. } = identity;
        let values = params![self.job.as_str(), identity.kind(), source.as_str(), key.as_str()];
        Statement::query(insert, values)
    }

    /// From now on the job is of another source. The key stays.
    pub(crate) fn accept_job(&self, identity: &Identity) -> Statement {
        let update = format!(
            "UPDATE {} SET kind = $2, source = $3, stored_us = {} WHERE job = $1",
            self.jobs, self.now
        );
        let values = params![self.job.as_str(), identity.kind(), identity.source.as_str()];
        Statement::new(update, values)
    }

    /// Whether the job has entries. The log has no index by job, so the few sessions are asked first.
    pub(crate) fn has_entries(&self) -> Statement {
        let select = format!(
            "SELECT CASE WHEN EXISTS (SELECT 1 FROM {} WHERE job = $1) THEN \
             EXISTS (SELECT 1 FROM {} WHERE job = $1) ELSE 1 = 0 END AS has_entries",
            self.sessions, self.log
        );
        Statement::query(select, params![self.job.as_str()])
    }
}
