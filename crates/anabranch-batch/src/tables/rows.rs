//! The rows of the source, as statements.
//!
//! What they select ends with two columns of ours, which are read by their place: a source may have columns of
//! any name.

use super::Tables;
use crate::part::Part;
use crate::source::Source;
use anabranch_store::database::{Hint, Statement, quoted_part};
use anabranch_store::{Value, params};

/// One row, with all columns of what stands behind FROM, whether that has rows or not.
pub(crate) fn columns_of(from: &str) -> Statement {
    let select = format!("SELECT s.* FROM (SELECT 1 AS one) AS o LEFT JOIN {from} AS s ON 1 = 0");
    Statement::query(select, vec![])
}

impl Tables {
    /// The same, with rows gone through in the order of a collation.
    pub(crate) fn in_order_of(mut self, collation: Option<String>) -> Self {
        self.collation = collation;
        self
    }

    /// Keys as text, whatever they are, as the log has them. Compared byte by byte, or nearly so, whatever the
    /// collation of the key is.
    pub(super) fn key_text(&self) -> String {
        self.as_text(&format!("s.{}", self.source.key))
    }

    /// A column that holds keys, as the log has them.
    pub(super) fn as_text(&self, column: &str) -> String {
        format!("CAST({column} AS text) COLLATE {}", self.dialect().plain_collation())
    }

    /// What pages are ordered by.
    fn key_in_order(&self) -> String {
        let key = &self.source.key;
        match &self.collation {
            Some(collation) => format!("s.{key} COLLATE {}", quoted_part(collation)),
            None => format!("s.{key}"),
        }
    }

    /// A row, its key, and that as text.
    fn row(&self) -> String {
        let Source { from, key, .. } = &self.source;
        format!(
            "SELECT s.*, s.{key} AS batch_key, {} AS batch_key_text FROM {from} AS s",
            self.key_text()
        )
    }

    /// That a row has no entry in the log. `$1` is the job.
    pub(super) fn has_no_entry(&self) -> String {
        let (log, text) = (&self.log, self.key_text());
        format!("NOT EXISTS (SELECT 1 FROM {log} AS l WHERE l.job = $1 AND l.key = {text})")
    }

    /// Whether a row belongs to a part, where the database can tell.
    fn of_part(&self, part: Part, is_integer: bool) -> String {
        match part {
            Part::Fixed { id, count, hashed: false } if is_integer => {
                let key = &self.source.key;
                // Also for keys below zero.
                format!(" AND ((s.{key} % {count}) + {count}) % {count} = {id}")
            }
            _ => String::new(),
        }
    }

    /// Some key: whether there is one at all.
    pub(crate) fn any_key(&self) -> Statement {
        let Source { from, key, .. } = &self.source;
        Statement::query(format!("SELECT s.{key} AS batch_key FROM {from} AS s LIMIT 1"), vec![])
    }

    /// Some row, if there is one.
    pub(crate) fn any_row(&self) -> Statement {
        Statement::query(format!("SELECT s.* FROM {} AS s LIMIT 1", self.source.from), vec![])
    }

    /// How many rows have no key.
    pub(crate) fn without_key(&self) -> Statement {
        let Source { from, key, .. } = &self.source;
        let select = format!("SELECT count(*) AS n FROM {from} AS s WHERE s.{key} IS NULL");
        Statement::query(select, vec![])
    }

    /// Keys that more than one row has.
    pub(crate) fn doubled(&self, limit: usize) -> Statement {
        let (Source { from, key, .. }, text) = (&self.source, self.key_text());
        let select = format!(
            "SELECT d.key AS key FROM (SELECT {text} AS key FROM {from} AS s WHERE s.{key} IS NOT NULL) AS d \
             GROUP BY d.key HAVING count(*) > 1 ORDER BY d.key LIMIT $1"
        );
        Statement::query(select, params![limit])
    }

    /// The next rows that nobody has claimed, after a key. The last of the statements answers.
    pub(crate) fn unclaimed(
        &self,
        after: Option<&Value>,
        part: (Part, bool),
        limit: usize,
    ) -> Vec<Statement> {
        let (row, order) = (self.row(), self.key_in_order());
        let (unclaimed, of_part) = (self.has_no_entry(), self.of_part(part.0, part.1));
        let mut values = params![self.job.as_str(), limit];
        let after = match after {
            Some(after) => {
                values.push(after.clone());
                format!(" AND {order} > $3")
            }
            None => String::new(),
        };
        let select = format!("{row} WHERE {unclaimed}{after}{of_part} ORDER BY {order} LIMIT $2");
        let mut statements: Vec<_> = self.dialect().hint(Hint::PageByKey).into_iter().collect();
        statements.push(Statement::query(select, values));
        statements
    }

    /// How many rows of a part nobody has claimed, where the database can tell parts. The last of the statements
    /// answers.
    pub(crate) fn missing(&self, part: (Part, bool)) -> Vec<Statement> {
        let (from, unclaimed) = (&self.source.from, self.has_no_entry());
        let of_part = self.of_part(part.0, part.1);
        let select = format!("SELECT count(*) AS n FROM {from} AS s WHERE {unclaimed}{of_part}");
        let mut statements: Vec<_> = self.dialect().hint(Hint::WholeTables).into_iter().collect();
        statements.push(Statement::query(select, params![self.job.as_str()]));
        statements
    }

    /// Rows by their keys.
    pub(crate) fn by_keys(&self, keys: Vec<Value>) -> Statement {
        let (row, order) = (self.row(), self.key_in_order());
        let any = self.is_any(&order, 1);
        let select = format!("{row} WHERE {any} ORDER BY {order}");
        Statement::query(select, vec![Value::Array(keys)])
    }

    /// How many rows each of N parts has.
    pub(crate) fn parts(&self, count: u32) -> Statement {
        let Source { from, key, .. } = &self.source;
        let part = format!("((s.{key} % {count}) + {count}) % {count}");
        let select =
            format!("SELECT {part} AS part, count(*) AS n FROM {from} AS s GROUP BY {part}");
        Statement::query(select, vec![])
    }

    /// How far the whole is: entries that have ended, entries that have not, and rows without one. Not the
    /// rows of the source, since those that are done may be hidden or deleted.
    pub(crate) fn counts(&self) -> Statement {
        let (from, log, unclaimed) = (&self.source.from, &self.log, self.has_no_entry());
        let claimed = super::state::CLAIMED;
        let select = format!(
            "SELECT m.n AS missing, l.done AS done, l.n - l.done AS claimed FROM \
             (SELECT count(*) AS n FROM {from} AS s WHERE {unclaimed}) AS m, \
             (SELECT count(*) AS n, count(CASE WHEN state <> '{claimed}' THEN 1 END) AS done FROM {log} \
             WHERE job = $1) AS l"
        );
        Statement::query(select, params![self.job.as_str()])
    }
}
