//! Consumers that are audited: beginning and ending their record, reading it, and pruning what was proven.

use super::Tables;
use super::audit::listed;
use crate::audit::AuditStatus;
use anabranch_core::audit::{AuditedCursor, Checkpoint, Digest, Record, RecordKind};
use anabranch_core::{Cursor, Position, Slot, StoreError, time};
use anabranch_store::database::{End, Session, Statement, Topic};
use anabranch_store::migration::since;
use anabranch_store::{Row, Value, params};
use std::collections::BTreeSet;

/// The columns of a row, for [`Tables::record_row`].
const ROW: &str =
    "id, kind, parents, slots, from_position, to_position, count, digest, handed, aside, skipped";
/// How a row of the last window says that it is a cursor, or what is set aside.
const CURSOR: &str = "cursor";
const ASIDE: &str = "parked";

/// Which record of a consumer it is, and how often that was pruned: whoever proves it notices that another did
/// something to it meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edition {
    number: i64,
    since_us: i64,
}

impl Edition {
    pub(crate) fn since_us(self) -> i64 {
        self.since_us
    }
}

/// What is there of a record at one moment.
#[derive(Debug, Default)]
pub(crate) struct Present {
    pub(crate) records: Vec<Record>,
    pub(crate) cursors: Vec<AuditedCursor>,
    pub(crate) aside: BTreeSet<Position>,
}

/// What becomes of rows that were proven.
pub(crate) struct Prune<'a> {
    /// The rows that others go on from.
    pub(crate) keep: &'a [Checkpoint],
    /// All others.
    pub(crate) delete: &'a [i64],
    /// Up to where every slot is proven, once all of it is.
    pub(crate) proven: Option<Position>,
}

impl Tables {
    /// Whether a consumer is audited, in an open transaction.
    pub(crate) async fn is_audited_in(
        &self,
        session: &mut dyn Session,
        consumer: &str,
    ) -> Result<bool, StoreError> {
        let select = format!(
            "SELECT audit_edition IS NOT NULL AS is_audited FROM {} WHERE name = $1",
            self.consumers
        );
        let rows = self.query_in(session, Statement::query(select, params![consumer])).await?;
        rows.first().map_or(Ok(false), |row| self.column(row, "is_audited"))
    }

    /// The edition of a consumer's record; none while it is not audited.
    pub(crate) async fn edition(&self, consumer: &str) -> Result<Option<Edition>, StoreError> {
        let select =
            format!("SELECT audit_edition, audit_since_us FROM {} WHERE name = $1", self.consumers);
        let rows = self.query(Statement::query(select, params![consumer])).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let number: Option<i64> = self.column(row, "audit_edition")?;
        let since_us: Option<i64> = self.column(row, "audit_since_us")?;
        Ok(number.zip(since_us).map(|(number, since_us)| Edition { number, since_us }))
    }

    /// The statement that says that the record of a consumer begins now.
    pub(crate) fn mark_audited(&self, consumer: &str) -> Statement {
        let update = format!(
            "UPDATE {} SET audit_edition = coalesce(audit_edition, 0) + 1, audit_since_us = {}, \
             audit_proven_us = NULL, audit_proven_position = NULL WHERE name = $1",
            self.consumers, self.now
        );
        Statement::fence(update, params![consumer], 1)
    }

    /// The statements that begin the record of a locked consumer, anew if there is one, with its cursors as they are.
    pub(crate) async fn begin_record(
        &self,
        session: &mut dyn Session,
        consumer: &str,
        cursors: &[Cursor],
    ) -> Result<Vec<Statement>, StoreError> {
        let select = format!(
            "SELECT k.slot, e.position FROM {} AS e JOIN {} AS k \
             ON k.consumer = e.consumer AND k.key = e.key WHERE e.consumer = $1 ORDER BY e.position",
            self.parked_events, self.parked_keys
        );
        let rows = self.query_in(session, Statement::query(select, params![consumer])).await?;
        let mut aside: Vec<(Slot, Position)> = Vec::new();
        for row in &rows {
            aside.push((self.slot(row)?, self.column(row, "position")?));
        }
        let mut statements = vec![self.clear_record(consumer)];
        for cursor in cursors {
            let of_cursor = aside.iter().filter(|(slot, _)| cursor.slots.contains(*slot));
            let of_cursor: Vec<Position> = of_cursor.map(|(_, position)| *position).collect();
            statements.extend(self.record_begin(cursor, &of_cursor));
        }
        statements.push(self.mark_audited(consumer));
        Ok(statements)
    }

    /// The statement that removes the record of a consumer.
    pub(crate) fn clear_record(&self, consumer: &str) -> Statement {
        let delete = format!("DELETE FROM {} WHERE consumer = $1", self.audit);
        Statement::new(delete, params![consumer])
    }

    /// The statements that end the record of a locked consumer.
    pub(crate) fn end_record(&self, consumer: &str) -> Vec<Statement> {
        let cursors = format!("UPDATE {} SET audit = NULL WHERE consumer = $1", self.cursors);
        let consumers = format!(
            "UPDATE {} SET audit_edition = NULL, audit_since_us = NULL, audit_proven_us = NULL, \
             audit_proven_position = NULL WHERE name = $1",
            self.consumers
        );
        let mut statements = vec![
            self.clear_record(consumer),
            Statement::new(cursors, params![consumer]),
            Statement::fence(consumers, params![consumer], 1),
        ];
        statements.extend(self.fence_all(consumer));
        statements.push(Statement::signal(Topic::Workers));
        statements
    }

    /// The consumers that are audited.
    pub(crate) async fn audited(&self) -> Result<Vec<AuditStatus>, StoreError> {
        let select = format!(
            "SELECT name, audit_since_us, audit_proven_us, audit_proven_position, \
             (SELECT count(*) FROM {} AS a WHERE a.consumer = name) AS records \
             FROM {} WHERE audit_edition IS NOT NULL ORDER BY name",
            self.audit, self.consumers
        );
        let status = |row: &Row| {
            let proven_us: Option<i64> = self.column(row, "audit_proven_us")?;
            Ok(AuditStatus {
                consumer: self.column(row, "name")?,
                since: time::from_micros(self.column(row, "audit_since_us")?),
                records: self.column(row, "records")?,
                proven_at: proven_us.map(time::from_micros),
                proven_up_to: self.column(row, "audit_proven_position")?,
            })
        };
        self.query(Statement::query(select, vec![])).await?.iter().map(status).collect()
    }

    /// The living workers of a consumer whose program knows nothing of records, in words.
    pub(crate) async fn workers_before_audits(
        &self,
        consumer: &str,
    ) -> Result<Vec<String>, StoreError> {
        self.workers_before(consumer, since::AUDIT).await
    }

    /// The next rows of a record.
    pub(crate) async fn records_after(
        &self,
        consumer: &str,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let select = format!(
            "SELECT {ROW} FROM {} WHERE consumer = $1 AND id > $2 ORDER BY id LIMIT $3",
            self.audit
        );
        let rows = self.query(Statement::query(select, params![consumer, after, limit])).await?;
        rows.iter().map(|row| self.record_row(row)).collect()
    }

    /// Some rows of a record.
    pub(crate) async fn records_of(
        &self,
        consumer: &str,
        ids: &[i64],
    ) -> Result<Vec<Record>, StoreError> {
        let is_any = self.database.dialect().is_any("id", 2);
        let select = format!(
            "SELECT {ROW} FROM {} WHERE consumer = $1 AND {is_any} ORDER BY id",
            self.audit
        );
        let ids: Value = ids.iter().map(|id| Value::from(*id)).collect();
        let rows = self.query(Statement::query(select, params![consumer, ids])).await?;
        rows.iter().map(|row| self.record_row(row)).collect()
    }

    /// The last rows of a record, with the cursors and what is set aside at the same moment: one statement sees one
    /// state of the database.
    pub(crate) async fn present(&self, consumer: &str, after: i64) -> Result<Present, StoreError> {
        let select = format!(
            "SELECT {ROW} FROM {audit} WHERE consumer = $1 AND id > $2 \
             UNION ALL SELECT coalesce(audit, 0), '{CURSOR}', NULL, slots, position, position, 0, NULL, NULL, \
             NULL, NULL FROM {cursors} WHERE consumer = $1 \
             UNION ALL SELECT 0, '{ASIDE}', NULL, NULL, position, position, 0, NULL, NULL, NULL, NULL \
             FROM {events} AS e WHERE consumer = $1 AND EXISTS (SELECT 1 FROM {keys} AS k \
             WHERE k.consumer = e.consumer AND k.key = e.key)",
            audit = self.audit,
            cursors = self.cursors,
            events = self.parked_events,
            // What waits behind no key is reached by nobody.
            keys = self.parked_keys,
        );
        let mut present = Present::default();
        for row in &self.query(Statement::query(select, params![consumer, after])).await? {
            let kind: String = self.column(row, "kind")?;
            let position = self.column(row, "to_position")?;
            match kind.as_str() {
                CURSOR => {
                    let record = Some(self.column(row, "id")?).filter(|id| *id != 0);
                    let slots = self.slots(row)?;
                    present.cursors.push(AuditedCursor { slots, position, record });
                }
                ASIDE => drop(present.aside.insert(position)),
                _ => present.records.push(self.record_row(row)?),
            }
        }
        present.records.sort_unstable_by_key(|record| record.id);
        Ok(present)
    }

    fn record_row(&self, row: &Row) -> Result<Record, StoreError> {
        let (id, kind): (i64, String) = (self.column(row, "id")?, self.column(row, "kind")?);
        let corrupt = |what: &str| self.corrupt(format!("row {id} of the record has {what}"));
        let kind =
            RecordKind::from_name(&kind).ok_or_else(|| corrupt("a kind that is not known here"))?;
        let digest: Option<Vec<u8>> = self.column(row, "digest")?;
        let digest = digest.map(|bytes| {
            Digest::from_bytes(&bytes).ok_or_else(|| corrupt("a digest that is none"))
        });
        let slots: Option<Vec<u8>> = self.column(row, "slots")?;
        let slots = slots.map(|_| self.slots(row)).transpose()?;
        let list = |name: &str| -> Result<Option<Vec<i64>>, StoreError> {
            let text: Option<String> = self.column(row, name)?;
            let numbers = |text: String| {
                text.split(',').filter(|part| !part.is_empty()).map(str::parse).collect()
            };
            let numbers: Option<Result<Vec<i64>, _>> = text.map(numbers);
            numbers.transpose().map_err(|_| corrupt("a list that is none"))
        };
        let positions = |name: &str| -> Result<Option<Vec<Position>>, StoreError> {
            let numbers = list(name)?;
            Ok(numbers.map(|numbers| numbers.into_iter().map(Position::from_i64).collect()))
        };
        Ok(Record {
            id,
            kind,
            parents: list("parents")?.unwrap_or_default(),
            slots,
            from: self.column(row, "from_position")?,
            to: self.column(row, "to_position")?,
            count: self.column(row, "count")?,
            digest: digest.transpose()?,
            handed: positions("handed")?,
            aside: positions("aside")?.unwrap_or_default(),
            skipped: positions("skipped")?.unwrap_or_default(),
        })
    }

    /// Makes `proven` rows of those that others go on from, and deletes the other proven ones, if all of it still is
    /// what was proven. Returns the edition after that; none if somebody else did something to the record.
    pub(crate) async fn prune(
        &self,
        consumer: &str,
        edition: Edition,
        prune: &Prune<'_>,
    ) -> Result<Option<Edition>, StoreError> {
        let (audit, now) = (&self.audit, self.now);
        let is_pruned = !prune.keep.is_empty() || !prune.delete.is_empty();
        let (raised, mut proven) = (i64::from(is_pruned), String::new());
        let mut values =
            params![consumer, edition.number, edition.since_us, edition.number + raised];
        if let Some(up_to) = prune.proven {
            proven = format!(", audit_proven_us = {now}, audit_proven_position = $5");
            values.extend(params![up_to]);
        }
        let raise = format!(
            "UPDATE {} SET audit_edition = $4{proven} \
             WHERE name = $1 AND audit_edition = $2 AND audit_since_us = $3",
            self.consumers
        );
        let mut statements = vec![Statement::fence(raise, values, 1)];
        let kind = RecordKind::Proven.name();
        for checkpoint in prune.keep {
            let update = format!(
                "UPDATE {audit} SET kind = '{kind}', parents = NULL, slots = $3, from_position = $4, \
                 to_position = $5, count = 0, digest = NULL, handed = $6, aside = $7, skipped = NULL \
                 WHERE consumer = $1 AND id = $2"
            );
            let Checkpoint { record, slots, from, to, handed, aside } = checkpoint;
            // With a custom key there is a list, though it may have nothing in it.
            let handed = handed.as_deref().map(|handed| listed(handed).unwrap_or_default());
            let values =
                params![consumer, *record, slots.to_bytes(), *from, *to, handed, listed(aside)];
            statements.push(Statement::fence(update, values, 1));
        }
        if !prune.delete.is_empty() {
            let is_any = self.database.dialect().is_any("id", 2);
            let delete = format!("DELETE FROM {audit} WHERE consumer = $1 AND {is_any}");
            let ids: Value = prune.delete.iter().map(|id| Value::from(*id)).collect();
            let count = prune.delete.len() as u64;
            statements.push(Statement::fence(delete, params![consumer, ids], count));
        }
        match self.database.control().run(statements, End::Commit).await {
            Ok(_) => Ok(Some(Edition { number: edition.number + raised, ..edition })),
            Err(failed) if failed.is_unmatched() => Ok(None),
            Err(failed) => Err(self.error(failed)),
        }
    }
}
