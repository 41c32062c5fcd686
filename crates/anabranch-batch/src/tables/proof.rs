//! What the proof is made of, as statements.
//!
//! None of them trusts a primary key, and none goes through rows by pages that could pass over one.

use super::{Tables, state};
use crate::source::Source;
use anabranch_store::database::Statement;
use anabranch_store::{Value, params};

impl Tables {
    /// All sums at one moment: a batch may be running.
    pub(crate) fn sums(&self) -> Statement {
        let (Source { from, key, .. }, log, history) = (&self.source, &self.log, &self.history);
        let (text, unclaimed) = (self.key_text(), self.has_no_entry());
        let states = [state::SUCCESS, state::FAILED, state::CLAIMED]
            .map(|state| format!("count(CASE WHEN state = '{state}' THEN 1 END) AS of_{state}"));
        let select = format!(
            "SELECT * FROM (SELECT count(*) AS source_rows, count(s.{key}) AS rows_with_key, \
             count(DISTINCT {text}) AS source_keys FROM {from} AS s) AS r, \
             (SELECT count(*) AS missing FROM {from} AS s WHERE s.{key} IS NOT NULL AND {unclaimed}) AS m, \
             (SELECT count(*) AS entries, count(DISTINCT key) AS entry_keys, {} FROM {log} \
             WHERE job = $1) AS l, \
             (SELECT count(*) AS gone FROM (SELECT key FROM {log} WHERE job = $1 EXCEPT \
             SELECT {text} FROM {from} AS s) AS x) AS g, \
             (SELECT count(*) AS failed_gone FROM (SELECT key FROM {log} WHERE job = $1 AND state = '{}' EXCEPT \
             SELECT {text} FROM {from} AS s) AS y) AS f, \
             (SELECT count(*) AS history FROM {history} WHERE job = $1) AS h",
            states.join(", "),
            state::FAILED
        );
        Statement::query(select, params![self.job.as_str()])
    }

    /// The next keys of rows that are failed, and not by these sessions. A row that is not in the source any more
    /// cannot be tried again.
    pub(crate) fn failed_elsewhere(
        &self,
        sessions: &[String],
        after: Option<&str>,
        limit: usize,
    ) -> Statement {
        let (log, from, text) = (&self.log, &self.source.from, self.key_text());
        let sessions = sessions.iter().map(Value::from).collect();
        let mut values = vec![self.job.as_str().into(), limit.into(), sessions];
        values.extend(after.map(Value::from));
        let beyond = if after.is_some() { " AND l.key > $4" } else { "" };
        let select = format!(
            "SELECT l.key AS key FROM {log} AS l WHERE l.job = $1 AND l.state = '{}' AND NOT ({}) AND \
             l.key IN (SELECT {text} FROM {from} AS s){beyond} ORDER BY l.key LIMIT $2",
            state::FAILED,
            self.is_any("l.session", 3)
        );
        Statement::query(select, values)
    }

    /// Who has handled keys that were handled well more than once: the first few of these keys.
    pub(crate) fn collisions(&self, limit: usize) -> Statement {
        let Self { history, sessions, .. } = self;
        let select = format!(
            "SELECT h.key AS key, h.session AS session, h.part AS part, h.at_us AS at_us, o.host AS host, \
             o.pid AS pid FROM {history} AS h LEFT JOIN {sessions} AS o ON o.id = h.session WHERE h.job = $1 \
             AND h.key IN (SELECT key FROM {history} WHERE job = $1 GROUP BY key HAVING count(*) > 1 \
             ORDER BY key LIMIT $2) ORDER BY h.key, h.at_us, h.session"
        );
        Statement::query(select, params![self.job.as_str(), limit])
    }

    /// Entries that say success without being in the history.
    pub(crate) fn unproven(&self, limit: usize) -> Statement {
        let (log, history, success) = (&self.log, &self.history, state::SUCCESS);
        let select = format!(
            "SELECT key FROM {log} WHERE job = $1 AND state = '{success}' EXCEPT SELECT key FROM {history} \
             WHERE job = $1 ORDER BY key LIMIT $2"
        );
        Statement::query(select, params![self.job.as_str(), limit])
    }

    /// Keys that the history says were handled well, and no entry does.
    pub(crate) fn unrecorded(&self, limit: usize) -> Statement {
        let (log, history, success) = (&self.log, &self.history, state::SUCCESS);
        let select = format!(
            "SELECT key FROM {history} WHERE job = $1 EXCEPT SELECT key FROM {log} WHERE job = $1 AND \
             state = '{success}' ORDER BY key LIMIT $2"
        );
        Statement::query(select, params![self.job.as_str(), limit])
    }

    /// The sessions that have handled rows, with their parts, and how many.
    pub(crate) fn sessions_with_rows(&self) -> Statement {
        let select = format!(
            "SELECT session, part, count(*) AS n FROM {} WHERE job = $1 GROUP BY session, part \
             ORDER BY session, part",
            self.history
        );
        Statement::query(select, params![self.job.as_str()])
    }

    /// The next keys that a session has handled well in a part, each once, after one of them.
    pub(crate) fn keys_of(
        &self,
        (session, part): (&str, &str),
        after: Option<&str>,
        limit: usize,
    ) -> Statement {
        let mut values = params![self.job.as_str(), session, part, limit];
        values.extend(after.map(Value::from));
        let beyond = if after.is_some() { " AND key > $5" } else { "" };
        let select = format!(
            "SELECT DISTINCT key FROM {} WHERE job = $1 AND session = $2 AND part = $3{beyond} \
             ORDER BY key LIMIT $4",
            self.history
        );
        Statement::query(select, values)
    }
}
