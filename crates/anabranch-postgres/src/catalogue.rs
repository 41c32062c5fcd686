//! What PostgreSQL's catalogue knows of tables of users.

use crate::columns;
use crate::effects::Effects;
use anabranch_core::StoreError;
use anabranch_store::database::{
    self, Catalogue, Database, EqualTexts, Kinds, Statement, Uniqueness, quoted,
};
use anabranch_store::params;
use futures_util::future::BoxFuture;

/// A deferrable index will do, since only committed rows are read. The rows of a table that others inherit
/// are also theirs, which its indexes know nothing of. Where the column's collation takes different texts for
/// equal, pages do so too, and the index must.
const INDEXES: &str = "SELECT c.relkind::text AS kind, a.attnum IS NOT NULL AS is_column, \
     coalesce(a.attnotnull, false) AS is_not_null, c.relkind = 'r' AND EXISTS (SELECT 1 FROM \
     pg_catalog.pg_inherits AS h WHERE h.inhparent = c.oid) AS has_heirs, \
     i.indexrelid::regclass::text AS index_name, i.indnkeyatts = 1 AND i.indkey[0] = a.attnum AS is_alone, \
     i.indpred IS NOT NULL AS is_partial, i.indisvalid AS is_valid, i.indcollation[0] = a.attcollation OR \
     coalesce((SELECT o.collisdeterministic FROM pg_catalog.pg_collation AS o WHERE o.oid = \
     a.attcollation), true) AS compares_alike \
     FROM pg_catalog.pg_class AS c LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND \
     a.attname = CAST($2 AS text) AND a.attnum > 0 AND NOT a.attisdropped LEFT JOIN \
     pg_catalog.pg_index AS i ON i.indrelid = c.oid AND i.indisunique AND a.attnum = ANY (i.indkey) \
     WHERE c.oid = to_regclass(CAST($1 AS text)) ORDER BY i.indexrelid";

const RESOLVED: &str = "SELECT n.nspname || '.' || c.relname AS name FROM pg_catalog.pg_class AS c JOIN \
     pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(CAST($1 AS text))";

const NONE: &str = "it has no unique index on that column";
const NULLABLE: &str = "it has a unique index, but the column may hold NULL, any number of times";

const INTEGERS: [&str; 3] = ["smallint", "integer", "bigint"];
const TEXTS: [&str; 4] = ["text", "character varying", "character", "name"];

impl Catalogue for &Effects {
    fn resolved<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        Box::pin(async move {
            let rows = self.rows(Statement::query(RESOLVED, params![quoted(table)])).await?;
            rows.first().map(|row| database::column(self.at(), row, "name")).transpose()
        })
    }

    fn uniqueness<'a>(
        &'a self,
        table: &'a str,
        column: &'a str,
    ) -> BoxFuture<'a, Result<Uniqueness, StoreError>> {
        Box::pin(self.unique(table, column))
    }

    fn kinds<'a>(
        &'a self,
        from: &'a str,
        column: &'a str,
    ) -> BoxFuture<'a, Result<Kinds, StoreError>> {
        Box::pin(self.kinds_of(from, column))
    }

    fn columns_of(&self, table: &str) -> Statement {
        columns::of(table)
    }

    fn named(&self, table: &str) -> String {
        quoted(table)
    }

    fn same_column(&self, name: &str) -> String {
        name.to_owned()
    }

    fn create_schema(&self, name: &str) -> Option<Statement> {
        let create = format!("CREATE SCHEMA IF NOT EXISTS {}", quoted(name));
        Some(Statement::new(create, vec![]))
    }

    fn has_schemas(&self) -> bool {
        true
    }
}

impl Effects {
    async fn unique(&self, table: &str, column: &str) -> Result<Uniqueness, StoreError> {
        let not = |found: &str| Ok(Uniqueness::NotShown(found.to_owned()));
        let rows = self.rows(Statement::query(INDEXES, params![quoted(table), column])).await?;
        let Some(first) = rows.first() else { return not("the catalogue does not know the table") };
        match database::column::<String>(self.at(), first, "kind")?.as_str() {
            "v" => return not("it is a view, and a view has no indexes"),
            "f" => return not("it is a foreign table, and its indexes are elsewhere"),
            _ if !database::column::<bool>(self.at(), first, "is_column")? => {
                return not("it has no column of that name");
            }
            _ => {}
        }
        if database::column(self.at(), first, "has_heirs")? {
            return not("other tables inherit from it, and its indexes do not cover their rows");
        }
        let mut found = None;
        for row in &rows {
            let Some(name) = database::column::<Option<String>>(self.at(), row, "index_name")?
            else {
                continue;
            };
            let problem = match () {
                () if !database::column::<bool>(self.at(), row, "is_alone")? => {
                    "is on more than this column"
                }
                () if database::column(self.at(), row, "is_partial")? => {
                    "is partial: it covers some of the rows"
                }
                () if !database::column::<bool>(self.at(), row, "is_valid")? => {
                    "is not valid: it was never finished"
                }
                () if !database::column::<bool>(self.at(), row, "compares_alike")? => {
                    "has another collation than the column"
                }
                () if !database::column::<bool>(self.at(), row, "is_not_null")? => {
                    return not(NULLABLE);
                }
                () => return Ok(Uniqueness::Unique { collation: None, is_row_number: false }),
            };
            found.get_or_insert_with(|| format!("the unique index {name} {problem}"));
        }
        Ok(Uniqueness::NotShown(found.unwrap_or_else(|| NONE.to_owned())))
    }

    /// Of the column, which may be of a domain.
    async fn kinds_of(&self, from: &str, column: &str) -> Result<Kinds, StoreError> {
        let some = format!("(SELECT s.{column} FROM {from} AS s LIMIT 1)");
        let select = format!(
            "SELECT coalesce(nullif(t.typbasetype, 0), t.oid)::regtype::text AS kind, \
             t.typtype = 'e' AS is_enum, CASE WHEN t.typcollation <> 0 THEN \
             (SELECT c.collisdeterministic FROM pg_catalog.pg_collation AS c WHERE c.oid = \
             pg_collation_for({some})::regcollation) END AS is_deterministic \
             FROM pg_catalog.pg_type AS t WHERE t.oid = pg_typeof({some})"
        );
        let rows = self.rows(Statement::query(select, vec![])).await?;
        let Some(row) = rows.first() else { return Ok(Kinds::Unknown) };
        let kind: String = database::column(self.at(), row, "kind")?;
        let is_enum: bool = database::column(self.at(), row, "is_enum")?;
        let is_plain =
            database::column::<Option<bool>>(self.at(), row, "is_deterministic")? != Some(false);
        Ok(match kind.as_str() {
            kind if INTEGERS.contains(&kind) => Kinds::Integers,
            "uuid" => Kinds::Uuids,
            "numeric" => Kinds::Texts { equal: Some(EqualTexts::Numeric) },
            kind if is_enum || TEXTS.contains(&kind) => {
                Kinds::Texts { equal: (!is_plain).then_some(EqualTexts::Collation) }
            }
            _ => Kinds::Others(kind),
        })
    }
}
