//! What identifies a consumer, and keys of events that it has handled.
//!
//! Only programs of this version on know these columns, so nothing that merely looks reads them.

use super::Tables;
use crate::identity::{Identity, Stored};
use crate::key_samples::KeySample;
use crate::scope::Scope;
use anabranch_core::{Position, StoreError};
use anabranch_store::database::{InsertRows, Session, Statement};
use anabranch_store::migration::since;
use anabranch_store::{Row, Value, params};

impl Tables {
    fn select_identity(&self, consumer: &str) -> Statement {
        let select = format!(
            "SELECT kind, strategy, version, partition, scope, wanted_scope, beyond_log{} FROM {} \
             WHERE name = $1",
            self.code_columns(),
            self.consumers
        );
        Statement::query(select, params![consumer])
    }

    /// What identifies a consumer, if there is one of that name.
    pub(crate) async fn identity(&self, consumer: &str) -> Result<Option<Stored>, StoreError> {
        let rows = self.query(self.select_identity(consumer)).await?;
        rows.first().map(|row| self.stored(row)).transpose()
    }

    /// The same in an open transaction.
    pub(crate) async fn identity_in(
        &self,
        session: &mut dyn Session,
        consumer: &str,
    ) -> Result<Option<Stored>, StoreError> {
        let rows = self.query_in(session, self.select_identity(consumer)).await?;
        rows.first().map(|row| self.stored(row)).transpose()
    }

    /// The columns `kind`, `strategy`, `version`, `partition`, `scope`, `wanted_scope`, `beyond_log` and those of
    /// [`Self::code_columns`].
    pub(crate) fn stored(&self, row: &Row) -> Result<Stored, StoreError> {
        Ok(Stored {
            kind: self.column(row, "kind")?,
            strategy: self.column(row, "strategy")?,
            version: self.column(row, "version")?,
            partition: self.column(row, "partition")?,
            scope: self.column(row, "scope")?,
            wanted_scope: self.column(row, "wanted_scope")?,
            code: self.column(row, "code")?,
            wanted_code: self.column(row, "wanted_code")?,
            beyond_log: self.column(row, "beyond_log")?,
        })
    }

    /// The statement that stores what identifies a consumer.
    pub(crate) fn keep_identity(&self, consumer: &str, identity: &Identity) -> Statement {
        let update = format!(
            "UPDATE {} SET partition = $2, scope = $3, wanted_scope = NULL, \
             code = coalesce(CAST($4 AS text), code) WHERE name = $1",
            self.consumers
        );
        let code = identity.code.as_deref();
        let values = params![consumer, &identity.partition, identity.scope.text(), code];
        Statement::fence(update, values, 1)
    }

    /// The statement that stores which tables a consumer has named.
    pub(crate) fn keep_own_tables(&self, consumer: &str, own: &[&str]) -> Statement {
        let update = format!("UPDATE {} SET own_tables = $2 WHERE name = $1", self.consumers);
        let own = (!own.is_empty()).then(|| Value::Json(serde_json::json!(own).to_string()));
        Statement::new(update, params![consumer, own])
    }

    /// The tables that a consumer has named; none if that is not known.
    pub(crate) async fn own_tables(&self, consumer: &str) -> Result<Vec<String>, StoreError> {
        let select = format!(
            "SELECT CAST(own_tables AS text) AS own_tables FROM {} WHERE name = $1",
            self.consumers
        );
        let rows = self.query(Statement::query(select, params![consumer])).await?;
        let own = rows.first().map(|row| self.column::<Option<String>>(row, "own_tables"));
        let own = own.transpose()?.flatten();
        Ok(own.and_then(|own| serde_json::from_str(&own).ok()).unwrap_or_default())
    }

    /// Whether a replay was requested, in an open transaction.
    pub(crate) async fn wants_reset(
        &self,
        session: &mut dyn Session,
        consumer: &str,
    ) -> Result<bool, StoreError> {
        let locked = self.lock_consumer(session, consumer).await?;
        Ok(locked.reset_to.is_some())
    }

    /// The statement that writes down that a consumer stands beyond the log, which ended here.
    pub(crate) fn is_beyond(&self, consumer: &str, drawn: Position) -> Statement {
        let update = format!("UPDATE {} SET beyond_log = $2 WHERE name = $1", self.consumers);
        Statement::new(update, params![consumer, drawn])
    }

    /// The statement that writes down which scope a program has asked for, or that none does.
    pub(crate) fn want_scope(&self, consumer: &str, scope: Option<&Scope>) -> Statement {
        let update = format!("UPDATE {} SET wanted_scope = $2 WHERE name = $1", self.consumers);
        Statement::fence(update, params![consumer, scope.map(Scope::text)], 1)
    }

    /// The statement that gives a consumer the scope that a program has asked for, if that still is
    /// what was looked at.
    pub(crate) fn accept_scope(&self, consumer: &str, wanted: &Scope) -> Statement {
        let update = format!(
            "UPDATE {} SET scope = wanted_scope, wanted_scope = NULL \
             WHERE name = $1 AND wanted_scope = $2",
            self.consumers
        );
        Statement::fence(update, params![consumer, wanted.text()], 1)
    }

    /// Whether there is room for the code that is accepted.
    pub(crate) fn has_code(&self) -> bool {
        self.database.schema() >= since::CODE
    }

    /// The columns about the code of a consumer, after a comma.
    pub(super) fn code_columns(&self) -> &'static str {
        match self.has_code() {
            true => ", code, wanted_code",
            false => ", NULL AS code, NULL AS wanted_code",
        }
    }

    /// The statement that stores the first code that a consumer says it has.
    pub(crate) fn adopt_code(&self, consumer: &str, code: &str) -> Statement {
        let update = format!(
            "UPDATE {} SET code = coalesce(code, CAST($2 AS text)) WHERE name = $1",
            self.consumers
        );
        Statement::fence(update, params![consumer, code], 1)
    }

    /// The statement that writes down which code a program has that is not the accepted one, or that none has.
    pub(crate) fn want_code(&self, consumer: &str, code: Option<&str>) -> Statement {
        let update = format!("UPDATE {} SET wanted_code = $2 WHERE name = $1", self.consumers);
        Statement::fence(update, params![consumer, code], 1)
    }

    /// The statement after which another code is accepted, if the one that was looked at still is.
    pub(crate) fn accept_code(&self, consumer: &str, was: &str, is: &str) -> Statement {
        let update = format!(
            "UPDATE {} SET code = $3, wanted_code = NULL WHERE name = $1 AND code = $2",
            self.consumers
        );
        Statement::fence(update, params![consumer, was, is], 1)
    }

    /// The living workers that run a consumer and whose program is too old to know of codes, in words.
    pub(crate) async fn workers_before_codes(
        &self,
        consumer: &str,
    ) -> Result<Vec<String>, StoreError> {
        self.workers_before(consumer, since::CODE).await
    }

    /// The living workers of a consumer whose program is older than a schema version, in words.
    pub(super) async fn workers_before(
        &self,
        consumer: &str,
        version: u32,
    ) -> Result<Vec<String>, StoreError> {
        let select = format!(
            "SELECT w.replica_set, w.host, w.pid FROM {} AS w WHERE w.lease_us > {} AND \
             (coalesce(w.schema_version, 0) < {fleet} OR (w.schema_version < {version} AND EXISTS \
             (SELECT 1 FROM {} AS r WHERE r.worker = w.id AND r.consumer = $1))) ORDER BY w.id",
            self.workers,
            self.now,
            self.runners,
            fleet = since::FLEET,
        );
        let rows = self.query(Statement::query(select, params![consumer])).await?;
        rows.iter().map(|row| self.worker_in_words(row)).collect()
    }

    fn worker_in_words(&self, row: &Row) -> Result<String, StoreError> {
        let (set, host): (String, String) =
            (self.column(row, "replica_set")?, self.column(row, "host")?);
        Ok(format!("{set} on {host}, pid {}", self.column::<u32>(row, "pid")?))
    }

    /// The living workers whose program is too old to know scopes, in words.
    pub(crate) async fn old_workers(&self) -> Result<Vec<String>, StoreError> {
        let select = format!(
            "SELECT replica_set, host, pid FROM {} WHERE lease_us > {} AND schema_version IS NULL \
             ORDER BY id",
            self.workers, self.now
        );
        let rows = self.query(Statement::query(select, vec![])).await?;
        rows.iter().map(|row| self.worker_in_words(row)).collect()
    }

    /// Keys of events that a consumer has handled, in the order of positions.
    pub(crate) async fn key_samples(&self, consumer: &str) -> Result<Vec<KeySample>, StoreError> {
        let select = format!(
            "SELECT position, event_id, key FROM {} WHERE consumer = $1 ORDER BY position",
            self.key_samples
        );
        let rows = self.query(Statement::query(select, params![consumer])).await?;
        let sample = |row: &Row| {
            Ok(KeySample {
                position: self.column(row, "position")?,
                event_id: self.column(row, "event_id")?,
                key: self.column(row, "key")?,
            })
        };
        rows.iter().map(sample).collect()
    }

    /// The statement that keeps keys of events, with the commit that handles them.
    pub(crate) fn keep_keys(&self, consumer: &str, samples: Vec<KeySample>) -> Statement {
        let row =
            |sample: KeySample| params![consumer, sample.position, sample.event_id, sample.key];
        // What is kept of the same event stays: if it was another key, that must be found out.
        let conflict = "ON CONFLICT (consumer, position) DO UPDATE SET event_id = excluded.event_id, \
                        key = excluded.key WHERE kept.event_id <> excluded.event_id";
        let insert = InsertRows {
            table: format!("{} AS kept", self.key_samples).into(),
            columns: (&["consumer", "position", "event_id", "key"]).into(),
            conflict: conflict.into(),
            rows: samples.into_iter().map(row).collect(),
        };
        Statement::rows(insert)
    }

    /// The statements that drop samples at these positions.
    pub(crate) fn drop_keys(&self, consumer: &str, positions: &[Position]) -> Vec<Statement> {
        let drop = |position: &Position| {
            let delete =
                format!("DELETE FROM {} WHERE consumer = $1 AND position = $2", self.key_samples);
            Statement::new(delete, params![consumer, *position])
        };
        positions.iter().map(drop).collect()
    }
}
