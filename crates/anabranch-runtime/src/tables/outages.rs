//! Consumers that stopped by themselves: since when, why, and who tries again when.
//!
//! Every statement names what it expects to find, so that of several workers one begins, tries or ends an
//! outage. Logs of older versions have no such columns.

use super::Tables;
use super::parked::plain;
use anabranch_core::{Slot, StoreError};
use anabranch_store::database::{End, Statement, Topic};
use anabranch_store::migration::since;
use anabranch_store::{Row, params};
use std::time::Duration;

/// How a consumer stands that stopped by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredOutage {
    pub(crate) reason: String,
    pub(crate) since_us: i64,
    /// For how long that has been so.
    pub(crate) lasts: Duration,
    /// How often it was tried since.
    pub(crate) probes: i64,
    /// In how long it is tried again; since when it could have been.
    pub(crate) next: Result<Duration, Duration>,
    /// Whose event failed: the owner of this slot tries again.
    pub(crate) slot: Slot,
}

impl Tables {
    /// Whether the log has room for outages: one before schema 6 does not.
    pub(super) fn has_outages(&self) -> bool {
        self.database.schema() >= since::FLEET
    }

    /// The columns that [`outage`](Self::outage) reads, after a comma.
    pub(crate) fn outage_columns(&self) -> String {
        let now = self.now;
        match self.has_outages() {
            true => format!(
                ", outage, outage_since_us, {now} - outage_since_us AS outage_lasts, probes, \
                 probe_us - {now} AS probe_in, outage_slot"
            ),
            false => ", NULL AS outage".to_owned(),
        }
    }

    /// The outage of a consumer, from its row.
    pub(crate) fn outage(&self, row: &Row) -> Result<Option<StoredOutage>, StoreError> {
        let reason: Option<String> = self.column(row, "outage")?;
        let Some(reason) = reason else { return Ok(None) };
        let micros = |micros: i64| Duration::from_micros(micros.unsigned_abs());
        let number = |name| self.column::<Option<i64>>(row, name).map(Option::unwrap_or_default);
        let probe_in = number("probe_in")?;
        let slot = u16::try_from(number("outage_slot")?).ok().and_then(Slot::new);
        Ok(Some(StoredOutage {
            reason,
            since_us: number("outage_since_us")?,
            lasts: micros(number("outage_lasts")?.max(0)),
            probes: number("probes")?,
            next: if probe_in > 0 { Ok(micros(probe_in)) } else { Err(micros(probe_in)) },
            slot: slot.unwrap_or(Slot::ZERO),
        }))
    }

    /// Writes down that a consumer has stopped; says whether nobody had done so before.
    pub(crate) async fn begin_outage(
        &self,
        consumer: &str,
        (reason, slot): (&str, Slot),
        pause: Duration,
    ) -> Result<bool, StoreError> {
        let update = format!(
            "UPDATE {} SET outage = $2, outage_since_us = {now}, probes = 0, \
             probe_us = {now} + $3, outage_slot = $4 WHERE name = $1 AND outage IS NULL",
            self.consumers,
            now = self.now
        );
        let pause = pause.as_micros() as u64;
        self.won(update, params![consumer, plain(reason), pause, slot.get()]).await
    }

    /// Takes the next try for this worker, due or at once, and says when the one after it is due, whatever
    /// becomes of this worker. `false` if another one has taken it, or the outage is over.
    pub(crate) async fn take_probe(
        &self,
        consumer: &str,
        probes: i64,
        pause: Duration,
        at_once: bool,
    ) -> Result<bool, StoreError> {
        let now = self.now;
        let due = if at_once { String::new() } else { format!(" AND probe_us <= {now}") };
        let update = format!(
            "UPDATE {} SET probes = probes + 1, probe_us = {now} + $3 \
             WHERE name = $1 AND outage IS NOT NULL AND NOT paused AND probes = $2{due}",
            self.consumers
        );
        self.won(update, params![consumer, probes, pause.as_micros() as u64]).await
    }

    /// The try that was taken as this one is still under way: the next one is not due yet, unless another
    /// one has been taken since.
    pub(crate) async fn keep_probe(
        &self,
        consumer: &str,
        probes: i64,
        pause: Duration,
    ) -> Result<(), StoreError> {
        let update = format!(
            "UPDATE {} SET probe_us = {now} + $3 \
             WHERE name = $1 AND outage IS NOT NULL AND probes = $2",
            self.consumers,
            now = self.now
        );
        // No signal is needed: a worker that wants to try reads the row.
        let values = params![consumer, probes, pause.as_micros() as u64];
        self.commit(vec![Statement::new(update, values)]).await.map(drop)
    }

    /// The try that was taken as this one was in vain: what it said, and how long the next one is to wait.
    pub(crate) async fn probed_in_vain(
        &self,
        consumer: &str,
        probes: i64,
        (reason, wait): (&str, Duration),
    ) -> Result<(), StoreError> {
        let update = format!(
            "UPDATE {} SET outage = $2, probe_us = {now} + $4 WHERE name = $1 AND outage IS NOT NULL AND probes = $3",
            self.consumers,
            now = self.now
        );
        let wait = wait.as_micros() as u64;
        self.won(update, params![consumer, plain(reason), probes, wait]).await.map(drop)
    }

    /// Ends an outage, if there is one.
    pub(crate) async fn end_outage(&self, consumer: &str) -> Result<bool, StoreError> {
        let update = format!(
            "UPDATE {} SET {} WHERE name = $1 AND outage IS NOT NULL",
            self.consumers,
            Self::NO_OUTAGE
        );
        self.won(update, params![consumer]).await
    }

    /// What a row without an outage says.
    pub(crate) const NO_OUTAGE: &str = "outage = NULL, outage_since_us = NULL, probes = 0, \
                                        probe_us = NULL, outage_slot = NULL";

    /// Runs an update that may find nothing to change, and tells the workers if it did.
    async fn won(
        &self,
        update: String,
        values: Vec<anabranch_store::Value>,
    ) -> Result<bool, StoreError> {
        let statements =
            vec![Statement::fence(update, values, 1), Statement::signal(Topic::Workers)];
        match self.database.control().run(statements, End::Commit).await {
            Ok(_) => Ok(true),
            Err(failed) if failed.is_unmatched() => Ok(false),
            Err(failed) => Err(self.error(failed)),
        }
    }
}
