//! What is taken over from a log of somebody else, as statements.

use super::{Tables, state};
use crate::import::Finished;
use crate::source::Source;
use anabranch_store::database::Statement;
use anabranch_store::{Value, params};

/// The part of entries that were imported.
pub(crate) const IMPORTED: &str = "imported";

impl Tables {
    /// Which statement of an import it is that imports.
    pub(crate) const IMPORTS: usize = 1;

    /// The keys that are finished, as the log has keys.
    fn keys_of_finished(&self, finished: &Finished) -> String {
        let Finished { from, key, condition, .. } = finished;
        let text = self.as_text(&format!("f.{key}"));
        // A comment at the end of the condition ends with its line.
        format!("SELECT {text} AS key FROM {from} AS f WHERE ({condition}\n)")
    }

    /// How many there are, and how many of them are not in the source.
    pub(crate) fn finished(&self, finished: &Finished) -> Statement {
        let (keys, source) = (self.keys_of_finished(finished), &self.source.from);
        let text = self.key_text();
        // A name that no table of theirs has: on SQLite the query would be taken for its own source.
        let select = format!(
            "WITH batch_finished_keys AS ({keys}) SELECT count(*) AS finished_rows, count(DISTINCT key) AS \
             finished_keys, count(*) - count(key) AS without_key, (SELECT count(*) FROM (SELECT key FROM \
             batch_finished_keys WHERE key IS NOT NULL EXCEPT SELECT {text} FROM {source} AS s) AS x) AS gone \
             FROM batch_finished_keys"
        );
        Statement::query(select, vec![])
    }

    /// The next of those that are not in the source.
    pub(crate) fn gone(&self, finished: &Finished, after: Option<&str>, limit: usize) -> Statement {
        let (keys, source) = (self.keys_of_finished(finished), &self.source.from);
        let text = self.key_text();
        let mut values = params![limit];
        values.extend(after.map(Value::from));
        let beyond = if after.is_some() { " AND key > $2" } else { "" };
        let select = format!(
            "WITH batch_finished_keys AS ({keys}) SELECT key FROM batch_finished_keys WHERE key IS NOT \
             NULL{beyond} EXCEPT SELECT {text} AS key FROM {source} AS s ORDER BY key LIMIT $1"
        );
        Statement::query(select, values)
    }

    /// Which of some keys the source has.
    pub(crate) fn in_source(&self, keys: &[&str]) -> Statement {
        let (source, text) = (&self.source.from, self.key_text());
        let any = self.is_any(&text, 1);
        let keys = keys.iter().map(Value::from).collect();
        Statement::query(format!("SELECT {text} AS key FROM {source} AS s WHERE {any}"), vec![keys])
    }

    /// Some key of the source, as the log has it.
    pub(crate) fn any_key_text(&self) -> Statement {
        let (Source { from, key, .. }, text) = (&self.source, self.key_text());
        let select =
            format!("SELECT {text} AS key FROM {from} AS s WHERE s.{key} IS NOT NULL LIMIT 1");
        Statement::query(select, vec![])
    }

    /// Entries of finished keys that were not imported. `$1` is the job.
    fn other_entries(&self, finished: &Finished) -> String {
        let (log, keys, success) = (&self.log, self.keys_of_finished(finished), state::SUCCESS);
        format!(
            "FROM {log} AS l WHERE l.job = $1 AND NOT (l.state = '{success}' AND l.part = '{IMPORTED}') AND \
             l.key IN ({keys})"
        )
    }

    /// The first of them, and how many there are.
    pub(crate) fn others(&self, finished: &Finished, limit: usize) -> Statement {
        let others = self.other_entries(finished);
        let select = format!(
            "SELECT l.key AS key, l.state AS state, l.session AS session, count(*) OVER () AS n {others} \
             ORDER BY l.key LIMIT $2"
        );
        Statement::query(select, params![self.job.as_str(), limit])
    }

    /// Imports what has no entry, under a session that ends with it, unless there are other entries by then.
    pub(crate) fn import(&self, finished: &Finished, session: &str, host: &str) -> Vec<Statement> {
        let Self { log, history, sessions, now, .. } = self;
        let (keys, success) = (self.keys_of_finished(finished), state::SUCCESS);
        let insert = format!(
            "INSERT INTO {log} (job, key, state, session, part, attempts, claimed_us, finished_us) \
             SELECT CAST($1 AS text), k.key, '{success}', CAST($2 AS text), '{IMPORTED}', 0, {now}, {now} FROM \
             (SELECT DISTINCT key FROM ({keys}) AS f) AS k WHERE true ON CONFLICT DO NOTHING"
        );
        let note = format!(
            "INSERT INTO {history} (job, key, session, part, at_us) SELECT job, key, session, part, \
             finished_us FROM {log} WHERE job = $1 AND session = $2"
        );
        let end = format!(
            "UPDATE {sessions} SET lease_us = 0 WHERE id = $2 AND NOT EXISTS (SELECT 1 {})",
            self.other_entries(finished)
        );
        let values = || params![self.job.as_str(), session];
        vec![
            self.begin(session, IMPORTED, host, std::time::Duration::ZERO),
            Statement::new(insert, values()),
            Statement::new(note, values()),
            Statement::fence(end, values(), 1),
        ]
    }
}
