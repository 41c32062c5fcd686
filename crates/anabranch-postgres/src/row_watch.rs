//! Rows that are written for two slots: found by a trigger, whose function is part of the schema.

use anabranch_store::database::{RowWatch, Statement};
use anabranch_store::{Namespace, params};

/// The watch of one log.
pub(crate) struct Watch<'n> {
    namespace: &'n Namespace,
}

impl<'n> Watch<'n> {
    pub(crate) fn of(namespace: &'n Namespace) -> Self {
        Self { namespace }
    }

    fn trigger(&self) -> String {
        format!("{}_row_watch", self.namespace)
    }
}

impl RowWatch for Watch<'_> {
    fn key_of(&self, table: &str) -> Statement {
        let query = "SELECT a.attname::text AS name FROM pg_catalog.pg_index AS i \
                     CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (number, place) \
                     JOIN pg_catalog.pg_attribute AS a \
                     ON a.attrelid = i.indrelid AND a.attnum = k.number \
                     WHERE i.indisprimary AND i.indrelid = to_regclass($1) ORDER BY k.place";
        Statement::query(query, params![table])
    }

    fn watch(&self, table: &str, key: &[String]) -> Vec<Statement> {
        let (trigger, namespace) = (self.trigger(), self.namespace);
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let names = std::iter::once(table).chain(key.iter().map(String::as_str));
        let arguments = names.map(text).collect::<Vec<_>>().join(", ");
        let create = format!(
            "CREATE TRIGGER {trigger} AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW \
             EXECUTE FUNCTION \"{namespace}\".watch_row({arguments})"
        );
        let mut statements = self.unwatch(table);
        statements.push(Statement::new(create, vec![]));
        statements
    }

    fn unwatch(&self, table: &str) -> Vec<Statement> {
        let drop = format!("DROP TRIGGER IF EXISTS {} ON {table}", self.trigger());
        vec![Statement::new(drop, vec![])]
    }

    fn writes_for(&self, consumer: &str, slot: u16, event: &str) -> Statement {
        let set = "SELECT set_config('anabranch.consumer', $1, true), \
                   set_config('anabranch.slot', $2, true), set_config('anabranch.event', $3, true)";
        Statement::new(set, params![consumer, slot.to_string(), event])
    }

    fn writes_for_none(&self) -> Statement {
        Statement::new("SELECT set_config('anabranch.slot', '', true)", vec![])
    }
}
