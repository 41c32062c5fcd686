//! The consumers of a log: register, pause, ask for a reset.

use super::Tables;
use super::audit::Tip;
use super::outages::StoredOutage;
use super::parked::{KEEPING, plain};
use crate::fingerprint::Fingerprint;
use anabranch_core::audit::RecordKind;
use anabranch_core::cursor::{Change, Point};
use anabranch_core::{Cursor, Position, SlotSet, StoreError};
use anabranch_store::database::{End, Session, Statement, Topic};
use anabranch_store::migration::since;
use anabranch_store::params;
use uuid::Uuid;

/// With what a problem begins that is about a replay.
const REPLAY_REFUSED: &str = "the last replay was refused";

/// What is kept about a consumer.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) strategy: String,
    pub(crate) version: u32,
    pub(crate) paused: bool,
    /// Why and since when it has stopped by itself.
    pub(crate) outage: Option<StoredOutage>,
    pub(crate) reset_to: Option<Position>,
    /// The log on which that was asked for, if that is stored.
    pub(crate) reset_log: Option<Uuid>,
    /// What could not be done for it.
    pub(crate) problem: Option<String>,
    /// Whether its own hook has been called: not if only its positions were imported.
    pub(crate) is_set_up: bool,
    /// Every slot that it has.
    pub(crate) slots: SlotSet,
    /// The log that its cursors belong to, if that is stored: else the one in this database.
    pub(crate) log: Option<Uuid>,
    /// What was found out about that log.
    pub(crate) wound_back: Option<String>,
    /// The code that is accepted, and the one that a program has and nobody has accepted yet.
    pub(crate) code: Option<String>,
    pub(crate) wanted_code: Option<String>,
}

/// Which of the events that wait behind keys are not kept when cursors are put elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ParkedEvents {
    /// Those after a position: they come again.
    After(Position),
    /// Those up to a position: they are left out.
    UpTo(Position),
}

impl Tables {
    /// What is kept about all consumers, or about one.
    pub(crate) async fn registered(
        &self,
        name: Option<&str>,
    ) -> Result<Vec<Registered>, StoreError> {
        let select = self.select_registered(name, "");
        let rows = self.query(select).await?;
        rows.iter().map(|row| self.registered_of(row)).collect()
    }

    fn select_registered(&self, name: Option<&str>, lock: &str) -> Statement {
        let select = format!(
            "SELECT name, kind, strategy, version, paused, reset_to, problem, is_set_up, slots{}{}{} \
             FROM {} \
             WHERE name = $1 OR $1 = '' ORDER BY name{lock}",
            self.outage_columns(),
            self.log_columns(),
            self.code_columns(),
            self.consumers
        );
        Statement::query(select, params![name.unwrap_or_default()])
    }

    fn registered_of(&self, row: &anabranch_store::Row) -> Result<Registered, StoreError> {
        Ok(Registered {
            name: self.column(row, "name")?,
            kind: self.column(row, "kind")?,
            strategy: self.column(row, "strategy")?,
            version: self.column(row, "version")?,
            paused: self.column(row, "paused")?,
            outage: self.outage(row)?,
            reset_to: self.column(row, "reset_to")?,
            reset_log: self.column(row, "reset_log")?,
            problem: self.column(row, "problem")?,
            is_set_up: self.column(row, "is_set_up")?,
            slots: self.slots(row)?,
            log: self.log_of(row)?,
            wound_back: self.column(row, "wound_back")?,
            code: self.column(row, "code")?,
            wanted_code: self.column(row, "wanted_code")?,
        })
    }

    /// Adds a consumer in an open transaction unless it is there; returns what is kept about it and
    /// whether it is new.
    pub(crate) async fn register(
        &self,
        session: &mut dyn Session,
        wanted: &Registered,
        slots: &SlotSet,
    ) -> Result<(Registered, bool), StoreError> {
        let insert = format!(
            "INSERT INTO {} (name, kind, strategy, version, slots) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (name) DO NOTHING RETURNING name",
            self.consumers
        );
        let values =
            params![&wanted.name, &wanted.kind, &wanted.strategy, wanted.version, slots.to_bytes()];
        let added = self.query_in(session, Statement::query(insert, values)).await?;
        match self.registered_in(session, &wanted.name, self.for_update).await? {
            Some(found) => Ok((found, !added.is_empty())),
            None => Err(self.corrupt(format!("no consumer `{}`", wanted.name))),
        }
    }

    /// The consumer whose name differs from a new one's in nothing but capital letters, in the open transaction that has
    /// added the new one.
    ///
    /// Two that are added at the same moment see each other: both add a row with the name in small letters, which is
    /// unique, so the second waits until the first is committed, and looks then. The row is gone with the commit.
    pub(crate) async fn twin(
        &self,
        session: &mut dyn Session,
        name: &str,
    ) -> Result<Option<String>, StoreError> {
        let lower = name.to_ascii_lowercase();
        if lower != name {
            let insert = format!(
                "INSERT INTO {0} (name, kind, strategy, version, slots) \
                 SELECT $2, kind, strategy, version, slots FROM {0} WHERE name = $1 \
                 ON CONFLICT (name) DO NOTHING RETURNING name",
                self.consumers
            );
            let added = Statement::query(insert, params![name, &lower]);
            if !self.query_in(session, added).await?.is_empty() {
                let delete =
                    format!("DELETE FROM {} WHERE name = $1 RETURNING name", self.consumers);
                self.query_in(session, Statement::query(delete, params![&lower])).await?;
            }
        }
        let select = format!(
            "SELECT name FROM {} WHERE lower(name) = $1 AND name <> $2 ORDER BY name",
            self.consumers
        );
        let twins = Statement::query(select, params![lower, name]);
        let twins = self.query_in(session, twins).await?;
        twins.first().map(|row| self.column(row, "name")).transpose()
    }

    /// What is kept about a consumer, in an open transaction.
    pub(crate) async fn registered_in(
        &self,
        session: &mut dyn Session,
        name: &str,
        lock: &str,
    ) -> Result<Option<Registered>, StoreError> {
        let rows = self.query_in(session, self.select_registered(Some(name), lock)).await?;
        rows.first().map(|row| self.registered_of(row)).transpose()
    }

    /// The statement that says that a consumer's own hook has been called, and what it is.
    pub(crate) fn is_set_up(&self, consumer: &Registered) -> Statement {
        let update = format!(
            "UPDATE {} SET is_set_up = $2, kind = $3, version = $4 WHERE name = $1",
            self.consumers
        );
        let Registered { name, kind, version, .. } = consumer;
        Statement::fence(update, params![name, true, kind, *version], 1)
    }

    /// The statement that matches only while a consumer is as this says.
    pub(crate) fn unchanged(&self, is: &Fingerprint) -> Statement {
        let (mut code, mut values) =
            ("", params![&is.consumer, &is.kind, &is.strategy, is.version, is.paused]);
        values.extend(params![is.replay_from.map_or(-1, |to| to.get() as i64)]);
        if self.database.schema() >= since::CODE {
            code = " AND coalesce(code, '') = $7";
            values.extend(params![is.code.clone().unwrap_or_default()]);
        }
        let mut log = "";
        if self.has_anchors() {
            // As text, with dashes or without: either has been stored.
            log = " AND replace(coalesce(lower(CAST(log_identity AS text)), ''), '-', '') = $8";
            values.extend(params![is.log.map_or_else(String::new, |log| log.simple().to_string())]);
        }
        let update = format!(
            "UPDATE {} SET name = name WHERE name = $1 AND kind = $2 AND strategy = $3 AND version = $4 \
             AND paused = $5 AND coalesce(reset_to, -1) = $6{code}{log}",
            self.consumers
        );
        Statement::fence(update, values, 1)
    }

    /// The statement that matches only while no living worker owns slots of a consumer.
    pub(crate) fn not_run(&self, consumer: &str) -> Statement {
        let (consumers, cursors, workers, now) =
            (&self.consumers, &self.cursors, &self.workers, self.now);
        let update = format!(
            "UPDATE {consumers} SET name = name WHERE name = $1 AND NOT EXISTS (SELECT 1 FROM {cursors} AS c \
             JOIN {workers} AS w ON w.id = c.owner WHERE c.consumer = $1 AND w.lease_us > {now})"
        );
        Statement::fence(update, params![consumer], 1)
    }

    /// The statement that pauses or resumes a consumer. One that is resumed tries again what has stopped
    /// it, and nobody wonders any more about a replay that was refused. Older logs have no columns of outages.
    pub(crate) fn pause(&self, consumer: &str, paused: bool) -> Statement {
        let outage = match self.has_outages() && !paused {
            true => format!(", {}", Self::NO_OUTAGE),
            false => String::new(),
        };
        let replay = match paused {
            true => String::new(),
            false => format!(
                ", problem = CASE WHEN problem LIKE '{REPLAY_REFUSED}%' THEN NULL ELSE problem END"
            ),
        };
        let update =
            format!("UPDATE {} SET paused = $2{outage}{replay} WHERE name = $1", self.consumers);
        Statement::fence(update, params![consumer, paused], 1)
    }

    /// The statement that asks the next worker that has this log for a reset. Older logs have no such column.
    pub(crate) fn ask_reset(&self, consumer: &str, to: Position, log: Uuid) -> Statement {
        let (mut on, mut values) = ("", params![consumer, to]);
        if self.has_anchors() {
            on = ", reset_log = $3";
            values.extend(params![log]);
        }
        let update = format!(
            "UPDATE {} SET reset_to = $2, problem = NULL{on} WHERE name = $1",
            self.consumers
        );
        Statement::fence(update, values, 1)
    }

    /// The statement that begins another edition of the ids of a webhook's deliveries.
    pub(crate) fn next_edition(&self, consumer: &str) -> Statement {
        let upsert = format!(
            "INSERT INTO {} AS e (consumer, free_us, edition) VALUES ($1, 0, 1) \
             ON CONFLICT (consumer) DO UPDATE SET edition = e.edition + 1",
            self.endpoints
        );
        Statement::new(upsert, params![consumer])
    }

    /// The statement that writes down what somebody must know.
    pub(crate) fn note_problem(&self, consumer: &str, problem: &str) -> Statement {
        let update = format!("UPDATE {} SET problem = $2 WHERE name = $1", self.consumers);
        Statement::new(update, params![consumer, plain(problem)])
    }

    /// The statements that withdraw a reset which cannot be done: workers may claim again.
    pub(crate) fn withdraw_reset(&self, consumer: &str, problem: &str) -> Vec<Statement> {
        let update = format!(
            "UPDATE {} SET reset_to = NULL{}, problem = $2, generation = generation + 1 \
             WHERE name = $1",
            self.consumers,
            self.no_reset_log()
        );
        vec![
            Statement::new(
                update,
                params![consumer, format!("{REPLAY_REFUSED}: {}", plain(problem))],
            ),
            Statement::signal(Topic::Workers),
        ]
    }

    /// The statements that put all cursors of a locked consumer to one position and take them from
    /// their owners. Events that were parked after `keep` come again; those before it stay parked. `kind` says what that is in the record of an audited consumer.
    pub(crate) fn restart_at(
        &self,
        consumer: &str,
        cursors: &[Cursor],
        slots: &SlotSet,
        to: impl Into<Point>,
        keep: Position,
        kind: RecordKind,
    ) -> Vec<Statement> {
        let fresh = vec![Cursor::free(slots.clone(), to)];
        self.restart_with(consumer, cursors, fresh, ParkedEvents::After(keep), kind)
    }

    /// The same with cursors in the place of these, and without what is parked of some events.
    pub(crate) fn restart_with(
        &self,
        consumer: &str,
        cursors: &[Cursor],
        mut fresh: Vec<Cursor>,
        without: ParkedEvents,
        kind: RecordKind,
    ) -> Vec<Statement> {
        let epoch = cursors.iter().map(|cursor| cursor.epoch).max().unwrap_or(0) + 1;
        fresh.iter_mut().for_each(|cursor| cursor.epoch = epoch);
        let delete = cursors.iter().map(|cursor| cursor.id).collect();
        let change = Change { delete, ..Change::default() };
        let (mut statements, _) = self.write(consumer, &change);
        for cursor in &fresh {
            let row = self.record_restart(consumer, kind, cursors, cursor);
            let tip = if row.is_some() { Tip::Last } else { Tip::None };
            statements.extend(row);
            statements.push(self.write_cursor(consumer, cursor, tip));
        }
        let (keys, events) = (&self.parked_keys, &self.parked_events);
        let (which, bound) = match without {
            ParkedEvents::After(keep) => (">", keep),
            ParkedEvents::UpTo(position) => ("<=", position),
        };
        let delete = format!("DELETE FROM {events} WHERE consumer = $1 AND position {which} $2");
        statements.push(Statement::new(delete, params![consumer, bound]));
        let delete = format!(
            "DELETE FROM {keys} WHERE consumer = $1 AND coalesce(asked, '') NOT IN {KEEPING} \
             AND NOT EXISTS (SELECT 1 FROM {events} AS e WHERE e.consumer = $1 AND e.key = {keys}.key)"
        );
        statements.push(Statement::new(delete, params![consumer]));
        // Somebody has said where it stands, and so that it is to be tried.
        let tried = match self.has_outages() {
            true => format!(", {}", Self::NO_OUTAGE),
            false => String::new(),
        };
        let goes_on = if self.has_anchors() { ", wound_back = NULL" } else { "" };
        let done = self.no_reset_log();
        let raise = format!(
            "UPDATE {} SET generation = generation + 1, reset_to = NULL, problem = NULL, \
             beyond_log = NULL{tried}{goes_on}{done} WHERE name = $1",
            self.consumers
        );
        statements.push(Statement::fence(raise, params![consumer], 1));
        statements.push(Statement::signal(Topic::Workers));
        statements
    }

    /// Removes a consumer with all that belongs to it.
    pub(crate) fn forget(&self, consumer: &str) -> Vec<Statement> {
        let of = |table: &str, column: &str| {
            let delete = format!("DELETE FROM {table} WHERE {column} = $1");
            Statement::new(delete, params![consumer])
        };
        let mut statements = vec![
            of(&self.cursors, "consumer"),
            of(&self.parked_keys, "consumer"),
            of(&self.parked_events, "consumer"),
            of(&self.key_samples, "consumer"),
            of(&self.row_writers, "consumer"),
            of(&self.permits, "pool"),
            of(&self.consumers, "name"),
        ];
        // Older logs have none of these.
        if self.has_audit() {
            statements.push(of(&self.audit, "consumer"));
        }
        if self.database.schema() >= since::DELIVERIES {
            statements.push(of(&self.deliveries, "consumer"));
            statements.push(of(&self.endpoints, "consumer"));
        }
        if self.has_key_replays() {
            statements.push(of(&self.replayed_events, "consumer"));
        }
        statements
    }

    /// Gives everything of one consumer the name of another, which has been forgotten.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Vec<Statement> {
        let of = |table: &str, column: &str| {
            let update = format!("UPDATE {table} SET {column} = $2 WHERE {column} = $1");
            Statement::new(update, params![from, to])
        };
        vec![
            of(&self.consumers, "name"),
            of(&self.cursors, "consumer"),
            of(&self.audit, "consumer"),
            of(&self.parked_keys, "consumer"),
            of(&self.parked_events, "consumer"),
            of(&self.replayed_events, "consumer"),
            of(&self.key_samples, "consumer"),
        ]
    }

    /// The statement that takes a locked cursor from its owner, wherever it stands.
    pub(crate) fn free(&self, cursor: &Cursor) -> Statement {
        let free = format!(
            "UPDATE {} SET owner = NULL, epoch = epoch + 1 WHERE id = $1 AND epoch = $2",
            self.cursors
        );
        Statement::fence(free, params![cursor.id, cursor.epoch], 1)
    }

    /// Takes the cursors of a consumer from their owners, wherever they stand.
    pub(crate) fn fence_all(&self, consumer: &str) -> Vec<Statement> {
        let free = format!(
            "UPDATE {} SET owner = NULL, epoch = epoch + 1 \
             WHERE consumer = $1 AND owner IS NOT NULL",
            self.cursors
        );
        let raise =
            format!("UPDATE {} SET generation = generation + 1 WHERE name = $1", self.consumers);
        vec![Statement::new(free, params![consumer]), Statement::new(raise, params![consumer])]
    }

    /// Runs a statement that needs the consumer to exist; says whether it does.
    pub(crate) async fn on_existing(
        &self,
        mut statements: Vec<Statement>,
    ) -> Result<bool, StoreError> {
        statements.push(Statement::signal(Topic::Workers));
        match self.database.control().run(statements, End::Commit).await {
            Ok(_) => Ok(true),
            Err(failed) if failed.is_unmatched() => Ok(false),
            Err(failed) => Err(self.error(failed)),
        }
    }
}
