//! Positions of runners that were there before: read from their own table, written as cursors.

use super::Tables;
use super::consumers::ParkedEvents;
use anabranch_core::audit::RecordKind;
use anabranch_core::{Cursor, Position, SlotSet, StoreError, cursor};
use anabranch_store::database::{Session, Statement};
use anabranch_store::{Row, params};

/// The kind of a consumer that has not run yet, so that nobody knows what it is.
pub(crate) const KIND: &str = "imported";

/// The most rows that a table of checkpoints may have.
pub(crate) const MAX_ROWS: usize = 100_000;

impl Tables {
    /// Adds a consumer that has not run yet in an open transaction, unless it is there; whether it is
    /// new.
    pub(crate) async fn add_imported(
        &self,
        session: &mut dyn Session,
        name: &str,
        strategy: &str,
        slots: &SlotSet,
    ) -> Result<bool, StoreError> {
        let insert = format!(
            "INSERT INTO {} (name, kind, strategy, version, slots, is_set_up) \
             VALUES ($1, $2, $3, 0, $4, $5) ON CONFLICT (name) DO NOTHING RETURNING name",
            self.consumers
        );
        let values = params![name, KIND, strategy, slots.to_bytes(), false];
        let added = self.query_in(session, Statement::query(insert, values)).await?;
        Ok(!added.is_empty())
    }

    /// The statements that put imported cursors in the place of those of a locked consumer. What is
    /// parked goes: it is done by the old runners, or comes again.
    pub(crate) fn import(
        &self,
        name: &str,
        (strategy, slots): (&str, &SlotSet),
        old: &[Cursor],
        mut cursors: Vec<Cursor>,
        is_audited: bool,
    ) -> Vec<Statement> {
        debug_assert!(cursor::covers(&cursors, slots).is_ok(), "{cursors:?}");
        let mut statements = Vec::new();
        if is_audited {
            // Whoever ran it has recorded nothing, and it may be another consumer from here on.
            cursors.iter_mut().for_each(|cursor| cursor.record = Some(0));
            statements.extend([self.clear_record(name), self.mark_audited(name)]);
        }
        let begin = RecordKind::Begin;
        statements.extend(self.restart_with(
            name,
            old,
            cursors,
            ParkedEvents::After(Position::START),
            begin,
        ));
        // Of an earlier import they may be others.
        // So may be what a program by mistake has stored of itself.
        let update = format!(
            "UPDATE {} SET strategy = $2, slots = $3, partition = NULL, scope = NULL, \
             wanted_scope = NULL WHERE name = $1",
            self.consumers
        );
        statements.push(Statement::new(update, params![name, strategy, slots.to_bytes()]));
        statements
    }

    /// The living workers that own cursors of a consumer, in words.
    pub(crate) async fn living_owners(
        &self,
        session: &mut dyn Session,
        consumer: &str,
    ) -> Result<Vec<String>, StoreError> {
        let select = format!(
            "SELECT w.replica_set, w.host, w.pid, w.runs FROM {} AS w WHERE w.lease_us > {} \
             AND EXISTS (SELECT 1 FROM {} AS c WHERE c.consumer = $1 AND c.owner = w.id) \
             ORDER BY w.id",
            self.workers, self.now, self.cursors
        );
        let rows = self.query_in(session, Statement::query(select, params![consumer])).await?;
        let in_words = |row: &Row| {
            let text = |name: &str| self.column::<String>(row, name);
            let pid: u32 = self.column(row, "pid")?;
            let (set, host, runs) = (text("replica_set")?, text("host")?, text("runs")?);
            Ok(format!("{set} on {host}, pid {pid}, {runs}"))
        };
        rows.iter().map(in_words).collect()
    }

    /// Some columns of a table of somebody else's; one row more than [`MAX_ROWS`] if there are too
    /// many.
    pub(crate) async fn foreign_rows(
        &self,
        table: &str,
        columns: &[&str],
    ) -> Result<Vec<Row>, StoreError> {
        // With its table: SQLite takes a quoted name that it does not know for a text.
        let column = |name: &&str| format!("t.{0} AS {0}", quoted(name));
        let columns: Vec<String> = columns.iter().map(column).collect();
        let table: Vec<String> = table.split('.').map(quoted).collect();
        let limit = MAX_ROWS + 1;
        let select =
            format!("SELECT {} FROM {} AS t LIMIT {limit}", columns.join(", "), table.join("."));
        self.query(Statement::query(select, vec![])).await
    }
}

/// A name as both databases read it, whatever it holds.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
