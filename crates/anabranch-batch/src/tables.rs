//! The processing log, its sessions and jobs, as statements.

mod imports;
mod jobs;
mod looks;
mod proof;
mod rows;

pub(crate) use rows::columns_of;

use crate::claims::whose;
use crate::part::Part;
use crate::record::Record;
use crate::source::Source;
use anabranch_store::Emitter;
use anabranch_store::database::{ColumnType, Dialect, Hint, Statement, quoted};
use anabranch_store::{Database, Value, params};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How a row stands in the processing log.
pub(crate) mod state {
    pub(crate) const CLAIMED: &str = "claimed";
    pub(crate) const SUCCESS: &str = "success";
    pub(crate) const FAILED: &str = "failed";
}

/// Entries of the log that are there already and can be claimed again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// Claimed by an instance whose lease is over.
    Behind,
    /// Claimed by this session, which does not know of it.
    Own,
    /// Failed before this time.
    FailedBefore(i64),
}

const LOG: [&str; 9] =
    ["job", "key", "state", "session", "part", "attempts", "error", "claimed_us", "finished_us"];

/// The tables of a batch, as statements write them.
#[derive(Clone)]
pub(crate) struct Tables {
    database: Arc<dyn Database>,
    now: &'static str,
    source: Source,
    /// By which rows are gone through, if not by that of their key.
    collation: Option<String>,
    pub(crate) job: String,
    /// Says what happens in the job.
    pub(crate) events: Emitter,
    /// The name of the log, as it was given.
    name: String,
    log: String,
    /// Every success, also one that should not be: what the proof is made of.
    history: String,
    sessions: String,
    /// What each job is of.
    jobs: String,
}

impl Tables {
    pub(crate) fn new(database: &Arc<dyn Database>, source: Source, job: &str, log: &str) -> Self {
        Self {
            database: Arc::clone(database),
            events: database.events().of(job),
            now: database.dialect().now_us(),
            source,
            collation: None,
            job: job.to_owned(),
            name: log.to_owned(),
            log: quoted(log),
            history: quoted(&format!("{log}_history")),
            sessions: quoted(&format!("{log}_sessions")),
            jobs: quoted(&format!("{log}_jobs")),
        }
    }

    pub(crate) fn dialect(&self) -> &dyn Dialect {
        self.database.dialect()
    }

    /// Makes what is not there yet, the target schema among it.
    pub(crate) fn create(&self, schema: Option<&str>) -> Vec<Statement> {
        let Self { log, history, sessions, .. } = self;
        let schema = schema.and_then(|schema| self.database.catalogue().create_schema(schema));
        let mut create = Vec::new();
        // By key first: a job that the statistics do not know yet looks as if it had no entries, and the planner
        // would go through all of them for each page. Every entry is changed once or more; an index of the claims
        // alone would cost more than it gains.
        let room = self.dialect().room_for_changes();
        create.push(format!(
            "CREATE TABLE IF NOT EXISTS {log} (job text NOT NULL, key text NOT NULL, \
             state text NOT NULL, session text NOT NULL, part text NOT NULL, \
             attempts bigint NOT NULL, error text, claimed_us bigint NOT NULL, finished_us bigint, \
             PRIMARY KEY (key, job)){room}"
        ));
        create.push(format!(
            "CREATE TABLE IF NOT EXISTS {history} (job text NOT NULL, key text NOT NULL, \
             session text NOT NULL, part text NOT NULL, at_us bigint NOT NULL)"
        ));
        create.push(format!(
            "CREATE TABLE IF NOT EXISTS {sessions} (id text NOT NULL PRIMARY KEY, \
             job text NOT NULL, part text NOT NULL, host text NOT NULL, pid bigint NOT NULL, \
             started_us bigint NOT NULL, lease_us bigint NOT NULL)"
        ));
        create.push(self.create_jobs());
        let create = create.into_iter().map(|sql| Statement::new(sql, vec![]));
        schema.into_iter().chain(create).collect()
    }

    /// The tables that it makes, with the columns that they must have.
    pub(crate) fn columns(&self) -> [(String, &'static [&'static str]); 4] {
        let of = |suffix: &str, columns: &'static [&'static str]| {
            (format!("{}{suffix}", self.name), columns)
        };
        [
            of("", &LOG),
            of("_history", &["job", "key", "session", "part", "at_us"]),
            of("_sessions", &["id", "job", "part", "host", "pid", "started_us", "lease_us"]),
            of("_jobs", &["job", "kind", "source", "key_column", "stored_us"]),
        ]
    }

    fn is_any(&self, column: &str, place: usize) -> String {
        self.dialect().is_any(column, place)
    }

    /// Claims rows: of several who try, one gets each. The last of the statements answers.
    pub(crate) fn claim(&self, session: &str, part: Part, keys: &[String]) -> Vec<Statement> {
        let each = self.dialect().each(4, ColumnType::Text);
        let insert = format!(
            "INSERT INTO {} (job, key, state, session, part, attempts, claimed_us) SELECT $1, k.value, \
             '{}', $2, $3, 0, {} FROM {each} WHERE true ON CONFLICT DO NOTHING RETURNING key",
            self.log,
            state::CLAIMED,
            self.now
        );
        let keys = keys.iter().map(Value::from).collect();
        // A claim that a crash of the server loses was never there; what is stored because of it comes
        // after it and waits for both.
        let mut statements: Vec<_> = self.dialect().hint(Hint::LightCommit).into_iter().collect();
        statements.push(Statement::query(
            insert,
            vec![self.job.as_str().into(), session.into(), part.to_string().into(), keys],
        ));
        statements
    }

    /// Which entries are left to be claimed again. `$3` is the session.
    fn left(&self, left: Left) -> String {
        let (claimed, failed) = (state::CLAIMED, state::FAILED);
        match left {
            Left::FailedBefore(us) => {
                format!("state = '{failed}' AND finished_us < {us} AND $3 = $3")
            }
            Left::Own => format!("state = '{claimed}' AND session = $3"),
            Left::Behind => {
                format!("state = '{claimed}' AND session <> $3 AND NOT ({})", self.is_alive())
            }
        }
    }

    /// The next entries, by their key, that are left to be claimed again. Whether they are of a part is
    /// for the key to say: the part of their entry is that of whoever claimed them before.
    pub(crate) fn find_left(
        &self,
        left: Left,
        session: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Statement {
        let mut values = params![self.job.as_str(), limit, session];
        values.extend(after.map(Value::from));
        let beyond = if after.is_some() { " AND key > $4" } else { "" };
        let which = self.left(left);
        let select = format!(
            "SELECT key FROM {} WHERE job = $1 AND {which}{beyond} ORDER BY key LIMIT $2",
            self.log
        );
        Statement::query(select, values)
    }

    /// Claims entries again. The condition stands here too: two who take the same ones wait for each
    /// other, and the second looks again.
    pub(crate) fn take(&self, left: Left, session: &str, part: Part, keys: &[String]) -> Statement {
        let (log, now, claimed) = (&self.log, self.now, state::CLAIMED);
        let (which, any) = (self.left(left), self.is_any("key", 4));
        let update = format!(
            "UPDATE {log} SET state = '{claimed}', session = $3, part = CAST($2 AS text), \
             claimed_us = {now} WHERE job = $1 AND {which} AND {any} RETURNING key, attempts"
        );
        let keys = keys.iter().map(Value::from).collect();
        Statement::query(
            update,
            vec![self.job.as_str().into(), part.to_string().into(), session.into(), keys],
        )
    }

    /// Rows are done, if they are still claimed by this session.
    pub(crate) fn succeed(&self, session: &str, part: &str, done: &[&Record]) -> Vec<Statement> {
        if done.is_empty() {
            return Vec::new();
        }
        let (log, history, now) = (&self.log, &self.history, self.now);
        let each = self.dialect().each(4, ColumnType::Text);
        let note = format!(
            "INSERT INTO {history} (job, key, session, part, at_us) \
             SELECT $1, k.value, $2, $3, {now} FROM {each}"
        );
        let list: Value = done.iter().map(|record| Value::from(record.key())).collect();
        let note =
            Statement::new(note, vec![self.job.as_str().into(), session.into(), part.into(), list]);
        // By the keys: a plan that was made while the table was small would go through all of it for as long
        // as the connection lives.
        let mut statements: Vec<_> = self.dialect().hint(Hint::RowsByKey).into_iter().collect();
        statements.push(note);
        let update = format!(
            "UPDATE {log} SET state = '{}', attempts = attempts + $4, error = NULL, finished_us = {now} \
             WHERE job = $1 AND session = $2 AND state = '{}' AND {}",
            state::SUCCESS,
            state::CLAIMED,
            self.is_any("key", 3)
        );
        // Nearly all have succeeded at once.
        let mut by_tries = BTreeMap::<u32, Vec<&str>>::new();
        for record in done {
            by_tries.entry(record.failed + 1).or_default().push(record.key());
        }
        for (tries, keys) in by_tries {
            let list: Value = keys.iter().map(Value::from).collect();
            let values = vec![self.job.as_str().into(), session.into(), list, tries.into()];
            statements.push(Statement::fence(update.clone(), values, keys.len() as u64));
        }
        statements
    }

    /// A row has failed for the last time, if it is still claimed by the same session.
    pub(crate) fn fail(&self, record: &Record, error: &str) -> Statement {
        let update = format!(
            "UPDATE {} SET state = '{}', attempts = attempts + $5, error = $4, finished_us = {} \
             WHERE job = $1 AND session = $2 AND key = $3 AND state = '{}'",
            self.log,
            state::FAILED,
            self.now,
            state::CLAIMED
        );
        let error = error.replace('\0', "\u{fffd}");
        let (session, key, tries) = (record.session.as_str(), record.key(), record.failed + 1);
        Statement::fence(update, params![self.job.as_str(), session, key, error, tries], 1)
    }

    /// How many of some rows this session has ended, and how.
    pub(crate) fn ended(&self, session: &str, keys: &[&str]) -> Statement {
        let any = self.is_any("key", 3);
        let select = format!(
            "SELECT state, count(*) AS n FROM {} WHERE job = $1 AND session = $2 AND {any} \
             GROUP BY state",
            self.log
        );
        let keys = keys.iter().map(Value::from).collect();
        Statement::query(select, vec![self.job.as_str().into(), session.into(), keys])
    }

    /// Gives back what a session has claimed and not begun.
    pub(crate) fn give_back(&self, session: &str) -> Vec<Statement> {
        let (log, claimed, failed) = (&self.log, state::CLAIMED, state::FAILED);
        let own = format!("job = $1 AND session = $2 AND state = '{claimed}'");
        let delete = format!("DELETE FROM {log} WHERE {own} AND attempts = 0");
        let again = format!("UPDATE {log} SET state = '{failed}' WHERE {own}");
        let values = || params![self.job.as_str(), session];
        vec![Statement::new(delete, values()), Statement::new(again, values())]
    }

    /// Gives back single claims of a session, whose rows are not there.
    pub(crate) fn give_back_keys(&self, session: &str, keys: &[String]) -> Vec<Statement> {
        let (log, claimed, failed) = (&self.log, state::CLAIMED, state::FAILED);
        let any = self.is_any("key", 3);
        let own = format!("job = $1 AND session = $2 AND state = '{claimed}' AND {any}");
        let delete = format!("DELETE FROM {log} WHERE {own} AND attempts = 0");
        let again = format!("UPDATE {log} SET state = '{failed}' WHERE {own}");
        let keys: Value = keys.iter().map(Value::from).collect();
        let values = || vec![self.job.as_str().into(), session.into(), keys.clone()];
        vec![Statement::new(delete, values()), Statement::new(again, values())]
    }

    /// The keys that are claimed, and by whom. The log has no index of them, so it is asked for all at once.
    pub(crate) fn claims(&self, session: &str) -> Statement {
        let select = format!(
            "SELECT key, CASE WHEN session = $2 THEN '{}' WHEN {} THEN '{}' ELSE '{}' END AS whose \
             FROM {} WHERE job = $1 AND state = '{}'",
            whose::OWN,
            self.is_alive(),
            whose::OTHERS,
            whose::NOBODYS,
            self.log,
            state::CLAIMED
        );
        Statement::query(select, params![self.job.as_str(), session])
    }

    /// That the session of an entry has a lease.
    fn is_alive(&self) -> String {
        format!(
            "session IN (SELECT o.id FROM {} AS o WHERE o.lease_us > {})",
            self.sessions, self.now
        )
    }

    /// A session begins.
    pub(crate) fn begin(
        &self,
        session: &str,
        part: &str,
        host: &str,
        lease: Duration,
    ) -> Statement {
        let now = self.now;
        let insert = format!(
            "INSERT INTO {} (id, job, part, host, pid, started_us, lease_us) \
             VALUES ($1, $2, $3, $4, $5, {now}, {now} + $6)",
            self.sessions
        );
        let values =
            params![session, self.job.as_str(), part, host, std::process::id(), micros(lease)];
        Statement::new(insert, values)
    }

    /// A session goes on, unless its lease is over: others may have taken what it had.
    pub(crate) fn renew(&self, session: &str, lease: Duration) -> Statement {
        let now = self.now;
        let update = format!(
            "UPDATE {} SET lease_us = {now} + $2 WHERE id = $1 AND lease_us > {now}",
            self.sessions
        );
        Statement::fence(update, params![session, micros(lease)], 1)
    }

    /// A session has ended.
    pub(crate) fn end(&self, session: &str) -> Statement {
        let update = format!("UPDATE {} SET lease_us = 0 WHERE id = $1", self.sessions);
        Statement::new(update, params![session])
    }

    /// The database's clock.
    pub(crate) fn clock(&self) -> Statement {
        Statement::query(format!("SELECT {} AS now_us", self.now), vec![])
    }

    /// Rows that have failed, the oldest first.
    pub(crate) fn failed(&self, limit: usize) -> Statement {
        let select = format!(
            "SELECT key, error, attempts, finished_us FROM {} WHERE job = $1 AND state = '{}' \
             ORDER BY finished_us, key LIMIT $2",
            self.log,
            state::FAILED
        );
        Statement::query(select, params![self.job.as_str(), limit])
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4)
}
