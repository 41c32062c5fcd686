//! Rows that are written for two slots: found by triggers on the table.

use anabranch_store::database::{RowWatch, Statement};
use anabranch_store::{Namespace, params};

/// What a trigger may follow, and the names of the rows that it then has.
const CHANGES: [(&str, &[&str]); 3] =
    [("INSERT", &["NEW"]), ("UPDATE", &["NEW", "OLD"]), ("DELETE", &["OLD"])];

/// The watch of one log.
pub(crate) struct Watch<'n> {
    namespace: &'n Namespace,
}

impl<'n> Watch<'n> {
    pub(crate) fn of(namespace: &'n Namespace) -> Self {
        Self { namespace }
    }

    fn trigger(&self, table: &str, change: &str) -> String {
        quoted(&format!("{}_row_watch_{table}_{change}", self.namespace))
    }

    /// Notes who wrote a row, and fails if that is another slot. The insert has no conflict clause:
    /// SQLite would put that of the statement which fired the trigger in its place.
    fn look(&self, table: &str, key: &[String], row: &str) -> String {
        let (ns, relation) = (self.namespace, text(table));
        let part = |name: &String| {
            format!("{} || quote({row}.{})", text(&format!("{name}=")), quoted(name))
        };
        let row_key = key.iter().map(part).collect::<Vec<_>>().join(" || ', ' || ");
        let same = format!(
            "w.consumer = n.consumer AND w.relation = {relation} AND w.row_key = {row_key}"
        );
        format!(
            "INSERT INTO {ns}_row_writers SELECT n.consumer, {relation}, {row_key}, n.slot, n.event \
             FROM {ns}_row_writing AS n WHERE NOT EXISTS \
             (SELECT 1 FROM {ns}_row_writers AS w WHERE {same}); \
             SELECT RAISE(ABORT, 'row (' || w.row_key || ') of table ' || w.relation || \
             ' was written for slot ' || w.slot || ' by ' || w.event || ', and now for slot ' || \
             n.slot || ' by ' || n.event || ': two lanes may write it at once') \
             FROM {ns}_row_writers AS w, {ns}_row_writing AS n WHERE {same} AND w.slot <> n.slot;"
        )
    }
}

impl RowWatch for Watch<'_> {
    fn key_of(&self, table: &str) -> Statement {
        let query = "SELECT name FROM pragma_table_info($1) WHERE pk > 0 ORDER BY pk";
        Statement::query(query, params![table])
    }

    fn watch(&self, table: &str, key: &[String]) -> Vec<Statement> {
        let mut statements = self.unwatch(table);
        for (change, rows) in CHANGES {
            let looks: String = rows.iter().map(|row| self.look(table, key, row)).collect();
            let (trigger, ns) = (self.trigger(table, change), self.namespace);
            let create = format!(
                "CREATE TRIGGER {trigger} AFTER {change} ON {table} \
                 WHEN (SELECT slot FROM {ns}_row_writing) IS NOT NULL BEGIN {looks} END"
            );
            statements.push(Statement::new(create, vec![]));
        }
        statements
    }

    fn unwatch(&self, table: &str) -> Vec<Statement> {
        let drop = |change| {
            let drop = format!("DROP TRIGGER IF EXISTS {}", self.trigger(table, change));
            Statement::new(drop, vec![])
        };
        CHANGES.iter().map(|(change, _)| drop(change)).collect()
    }

    fn writes_for(&self, consumer: &str, slot: u16, event: &str) -> Statement {
        let update = format!(
            "UPDATE {}_row_writing SET consumer = $1, slot = $2, event = $3",
            self.namespace
        );
        Statement::new(update, params![consumer, slot, event])
    }

    fn writes_for_none(&self) -> Statement {
        Statement::new(format!("UPDATE {}_row_writing SET slot = NULL", self.namespace), vec![])
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
