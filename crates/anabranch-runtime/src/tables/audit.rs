//! The record of audited consumers: the rows that commits add, and which row a cursor goes on from.
//!
//! A row is made of what the database has of the cursor, in the transaction that moves it: where it was, and which row
//! it wrote last. A lane says only where the cursor goes and what the handler received, so the two are evidence
//! of each other. The fence right behind it makes the cursor name the new row. The cursor is locked before it is read:
//! a commit whose answer was lost may still be under way, and the row that it adds would be passed over.

use super::Tables;
use anabranch_core::audit::{Digester, RecordKind};
use anabranch_core::cursor::{Join, Move};
use anabranch_core::{Cursor, Event, Position, SlotSet};
use anabranch_store::database::Statement;
use anabranch_store::migration::since;
use anabranch_store::{Value, params};

/// What a commit did with events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    digester: Digester,
    /// Where the events are that the handler received, if that is to be stored.
    handed: Option<Vec<Position>>,
    /// What was set aside instead.
    pub(crate) aside: Vec<Position>,
    /// What was left out on purpose.
    pub(crate) skipped: Vec<Position>,
}

impl Entry {
    /// For these events, in the order in which the handler received them.
    pub(crate) fn of<'e>(
        events: impl IntoIterator<Item = &'e Event>,
        keeps_positions: bool,
    ) -> Self {
        let mut entry = Self { handed: keeps_positions.then(Vec::new), ..Self::default() };
        for event in events {
            entry.digester.add(event.position(), &event.id());
            if let Some(handed) = &mut entry.handed {
                handed.push(event.position());
            }
        }
        entry
    }

    /// Events that were left out on purpose, and nothing else.
    pub(crate) fn skipped(positions: Vec<Position>) -> Self {
        Self { skipped: positions, ..Self::default() }
    }

    /// The columns `count`, `digest`, `handed`, `aside` and `skipped`.
    fn values(&self) -> Vec<Value> {
        params![
            self.digester.count(),
            self.digester.finish().map(|digest| digest.to_bytes().to_vec()),
            self.handed.as_deref().and_then(listed),
            listed(&self.aside),
            listed(&self.skipped)
        ]
    }
}

/// Positions as they are stored; nothing where there are none.
pub(super) fn listed(positions: &[Position]) -> Option<String> {
    let texts: Vec<String> = positions.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(","))
}

/// The last row of the record of a cursor that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tip {
    /// It is not audited.
    None,
    /// This one.
    Row(i64),
    /// The row that the transaction wrote last.
    Last,
    /// That of another cursor, by its id.
    Of(i64),
}

impl Tip {
    pub(super) fn of(cursor: &Cursor) -> Self {
        match cursor.record {
            None => Self::None,
            Some(0) => Self::Last,
            Some(row) => Self::Row(row),
        }
    }
}

const COLUMNS: &str = "consumer, kind, parents, slots, from_position, to_position, count, digest, handed, \
                       aside, skipped, recorded_us";

impl Tables {
    /// Whether there is room for a record.
    pub(crate) fn has_audit(&self) -> bool {
        self.database.schema() >= since::AUDIT
    }

    /// The column of a cursor that names its last row, after a comma.
    pub(super) fn tip_column(&self) -> &'static str {
        if self.has_audit() { ", audit" } else { ", NULL AS audit" }
    }

    /// What sets it, after a comma: to the row that the transaction wrote last.
    pub(super) fn tip_is_last(&self) -> String {
        format!(", audit = {}", self.last_record)
    }

    /// The expression for the last row of a cursor that is written.
    pub(super) fn tip(&self, tip: Tip) -> Option<String> {
        match tip {
            Tip::None => None,
            Tip::Row(row) => Some(row.to_string()),
            Tip::Last => Some(self.last_record.clone()),
            Tip::Of(cursor) => {
                Some(format!("(SELECT audit FROM {} WHERE id = {cursor})", self.cursors))
            }
        }
    }

    /// The row for a step of a cursor, before the statements that move it.
    pub(crate) fn record_step(&self, step: &Move, entry: &Entry) -> Statement {
        let (audit, cursors, now, lock) = (&self.audit, &self.cursors, self.now, self.for_update);
        let ((_, epoch), cursor) = (step.from, &step.cursor);
        let kind = RecordKind::Step.name();
        if step.absorbed.is_empty() {
            let slots = if step.has_recorded_slots { "NULL" } else { "slots" };
            let insert = format!(
                "INSERT INTO {audit} ({COLUMNS}) SELECT consumer, '{kind}', CAST(audit AS text), \
                 {slots}, position, $3, $4, $5, $6, $7, $8, {now} FROM {cursors} \
                 WHERE id = $1 AND epoch = $2{lock}"
            );
            let mut values = params![cursor.id, epoch, cursor.position];
            values.extend(entry.values());
            return Statement::fence(insert, values, 1);
        }
        let mut ids: Vec<i64> = step.absorbed.iter().map(|other| other.id).collect();
        ids.push(cursor.id);
        let of = ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        // Which rows they are is the fence's to say, which comes next.
        let insert = format!(
            "WITH c AS MATERIALIZED (SELECT consumer, audit, position FROM {cursors} WHERE id IN ({of}) \
             ORDER BY id{lock}) INSERT INTO {audit} ({COLUMNS}) SELECT min(consumer), '{kind}', \
             (SELECT string_agg(CAST(t.audit AS text), ',') FROM (SELECT DISTINCT audit FROM c) AS t), \
             $1, min(position), $2, $3, $4, $5, $6, $7, {now} FROM c HAVING count(*) = {}",
            ids.len()
        );
        let mut values = params![step.slots().to_bytes(), cursor.position];
        values.extend(entry.values());
        Statement::fence(insert, values, 1)
    }

    /// The row for what was done with events that had been set aside, and the fence of their cursor, which stays where
    /// it is.
    pub(crate) fn record_at(
        &self,
        holder: &Cursor,
        kind: RecordKind,
        entry: &Entry,
    ) -> Vec<Statement> {
        let (audit, cursors, now, lock) = (&self.audit, &self.cursors, self.now, self.for_update);
        let kind = kind.name();
        let insert = format!(
            "INSERT INTO {audit} ({COLUMNS}) SELECT consumer, '{kind}', CAST(audit AS text), slots, position, \
             position, $3, $4, $5, $6, $7, {now} FROM {cursors} WHERE id = $1 AND epoch = $2{lock}"
        );
        let mut values = params![holder.id, holder.epoch];
        values.extend(entry.values());
        vec![Statement::fence(insert, values, 1), self.hold_recorded(holder)]
    }

    /// The fence of the cursor under which events behind a key are left out, with their row if it is audited.
    pub(crate) fn record_skipped(&self, holder: &Cursor, positions: &[Position]) -> Vec<Statement> {
        match holder.record.is_some() && !positions.is_empty() {
            true => {
                let entry = Entry::skipped(positions.to_vec());
                self.record_at(holder, RecordKind::Skip, &entry)
            }
            false => vec![self.hold(holder.id, holder.epoch)],
        }
    }

    /// The fence of a cursor that moves no further and has written a row.
    fn hold_recorded(&self, holder: &Cursor) -> Statement {
        let hold = format!(
            "UPDATE {} SET epoch = epoch{} WHERE id = $1 AND epoch = $2",
            self.cursors,
            self.tip_is_last()
        );
        Statement::fence(hold, params![holder.id, holder.epoch], 1)
    }

    /// The row for cursors that are divided anew.
    pub(super) fn record_join(&self, consumer: &str, join: &Join) -> Statement {
        let at = join.point.position;
        self.record_put(consumer, RecordKind::Join, &join.parents, &join.slots, (at, at))
    }

    /// The row for slots that are put to a position, whatever was handled.
    pub(super) fn record_put(
        &self,
        consumer: &str,
        kind: RecordKind,
        parents: &[i64],
        slots: &SlotSet,
        (from, to): (Position, Position),
    ) -> Statement {
        let insert = format!(
            "INSERT INTO {} ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, 0, NULL, NULL, NULL, NULL, {})",
            self.audit, self.now
        );
        let texts: Vec<String> = parents.iter().map(ToString::to_string).collect();
        let parents = (!texts.is_empty()).then(|| texts.join(","));
        let values = params![consumer, kind.name(), parents, slots.to_bytes(), from, to];
        Statement::fence(insert, values, 1)
    }

    /// The row for a cursor that takes the place of others, or begins; none if the consumer is not audited.
    pub(super) fn record_restart(
        &self,
        consumer: &str,
        kind: RecordKind,
        old: &[Cursor],
        fresh: &Cursor,
    ) -> Option<Statement> {
        let (slots, to) = (&fresh.slots, fresh.position);
        if kind == RecordKind::Begin {
            return fresh.record.map(|_| self.record_put(consumer, kind, &[], slots, (to, to)));
        }
        let old = old.iter().filter(|old| !old.slots.is_disjoint(slots));
        let mut parents: Vec<i64> = old.clone().filter_map(|old| old.record).collect();
        parents.sort_unstable();
        parents.dedup();
        let from = old.map(|old| old.position).min().unwrap_or(to);
        let is_audited = !parents.is_empty();
        is_audited.then(|| self.record_put(consumer, kind, &parents, slots, (from, to)))
    }

    /// The row with which the record of a locked cursor begins, with what is set aside of its slots.
    pub(crate) fn record_begin(&self, cursor: &Cursor, aside: &[Position]) -> [Statement; 2] {
        let (audit, cursors, now) = (&self.audit, &self.cursors, self.now);
        let kind = RecordKind::Begin.name();
        let insert = format!(
            "INSERT INTO {audit} ({COLUMNS}) SELECT consumer, '{kind}', NULL, slots, position, position, \
             0, NULL, NULL, $2, NULL, {now} FROM {cursors} WHERE id = $1"
        );
        let insert = Statement::fence(insert, params![cursor.id, listed(aside)], 1);
        let name =
            format!("UPDATE {cursors} SET epoch = epoch{} WHERE id = $1", self.tip_is_last());
        [insert, Statement::fence(name, params![cursor.id], 1)]
    }
}
