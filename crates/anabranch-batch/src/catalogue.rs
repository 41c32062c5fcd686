//! What the database's catalogue knows of a source: whether a key is unique and never NULL, and which table a
//! name means.
//!
//! Rows are told apart by their key alone: two with the same one have one entry in the processing log, so one
//! of them would never be handled. So it is asked before a row is, and what is not shown is refused.

use crate::batch::{column, rows_of};
use crate::source::{Source, quoted};
use anabranch_core::StoreError;
use anabranch_store::database::{Kind, Statement};
use anabranch_store::{Database, params};
use std::sync::Arc;

/// What the catalogue shows of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It is unique.
    Unique {
        /// By which collation, where rows must be gone through by the same (SQLite).
        collation: Option<String>,
        /// It is SQLite's own number of the row: a whole number, never NULL.
        is_rowid: bool,
    },
    /// It is not shown to be. What was found instead.
    Not(String),
}

/// Asks the catalogue.
pub(crate) async fn shown(
    database: &Arc<dyn Database>,
    source: &Source,
) -> Result<Shown, StoreError> {
    match database.dialect().kind {
        _ if !source.is_table => {
            Ok(Shown::Not("the catalogue knows nothing of a query".to_owned()))
        }
        Kind::Postgres => on_postgres(database, source).await,
        _ => on_sqlite(database, source).await,
    }
}

/// Which table a name means, with its schema and as the catalogue spells it; nothing if it knows none.
pub(crate) async fn resolved(
    database: &Arc<dyn Database>,
    source: &Source,
) -> Result<Option<String>, StoreError> {
    let select = match database.dialect().kind {
        Kind::Postgres => Statement::query(
            "SELECT n.nspname || '.' || c.relname AS name FROM pg_catalog.pg_class AS c JOIN \
             pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = \
             to_regclass(CAST($1 AS text))",
            params![quoted(&source.name)],
        ),
        _ => {
            let Asked { table, .. } = Asked::of(&source.name);
            let schema = source.name.split_once('.').map_or("", |(schema, _)| schema);
            // Without a schema, temporary tables come first, and then each database in its turn.
            let select = format!(
                "SELECT t.schema || '.' || t.name AS name FROM pragma_table_list({table}) AS t \
                 LEFT JOIN pragma_database_list AS d ON d.name = t.schema \
                 WHERE $1 = '' OR t.schema = $1 COLLATE NOCASE ORDER BY t.schema <> 'temp', d.seq"
            );
            Statement::query(select, params![schema])
        }
    };
    let rows = rows_of(database, select).await?;
    rows.first().map(|row| column(database.at(), row, "name")).transpose()
}

/// A deferrable index will do, since only committed rows are read. The rows of a table that others inherit
/// are also theirs, which its indexes know nothing of. Where the column's collation takes different texts for
/// equal, pages do so too, and the index must.
const POSTGRES: &str = "SELECT c.relkind::text AS kind, a.attnum IS NOT NULL AS is_column, \
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

async fn on_postgres(database: &Arc<dyn Database>, source: &Source) -> Result<Shown, StoreError> {
    let values = params![quoted(&source.name), source.key_name.as_str()];
    let rows = rows_of(database, Statement::query(POSTGRES, values)).await?;
    let at = database.at();
    let not = |found: &str| Ok(Shown::Not(found.to_owned()));
    let Some(first) = rows.first() else { return not("the catalogue does not know the table") };
    match column::<String>(at, first, "kind")?.as_str() {
        "v" => return not("it is a view, and a view has no indexes"),
        "f" => return not("it is a foreign table, and its indexes are elsewhere"),
        _ if !column::<bool>(at, first, "is_column")? => {
            return not("it has no column of that name");
        }
        _ => {}
    }
    if column(at, first, "has_heirs")? {
        return not("other tables inherit from it, and its indexes do not cover their rows");
    }
    let mut found = None;
    for row in &rows {
        let Some(name) = column::<Option<String>>(at, row, "index_name")? else { continue };
        let problem = match () {
            () if !column::<bool>(at, row, "is_alone")? => "is on more than this column",
            () if column(at, row, "is_partial")? => "is partial: it covers some of the rows",
            () if !column::<bool>(at, row, "is_valid")? => "is not valid: it was never finished",
            () if !column::<bool>(at, row, "compares_alike")? => {
                "has another collation than the column"
            }
            () if !column::<bool>(at, row, "is_not_null")? => return not(NULLABLE),
            () => return Ok(Shown::Unique { collation: None, is_rowid: false }),
        };
        found.get_or_insert_with(|| format!("the unique index {name} {problem}"));
    }
    Ok(Shown::Not(found.unwrap_or_else(|| NONE.to_owned())))
}

const NONE: &str = "it has no unique index on that column";
const NULLABLE: &str = "it has a unique index, but the column may hold NULL, any number of times";

async fn on_sqlite(database: &Arc<dyn Database>, source: &Source) -> Result<Shown, StoreError> {
    let at = database.at();
    let not = |found: &str| Ok(Shown::Not(found.to_owned()));
    let Asked { table, schema } = Asked::of(&source.name);
    let columns = format!(
        "SELECT name, type, \"notnull\" AS is_not_null, pk FROM pragma_table_xinfo({table}{schema})"
    );
    let columns = rows_of(database, Statement::query(columns, vec![])).await?;
    let (mut key, mut in_primary_key) = (None, 0);
    for row in &columns {
        in_primary_key += usize::from(column::<i64>(at, row, "pk")? > 0);
        if column::<String>(at, row, "name")?.eq_ignore_ascii_case(&source.key_name) {
            key = Some(row);
        }
    }
    let Some(key) = key else { return not("it has no column of that name") };
    let indexes = format!(
        "SELECT i.name AS index_name, i.origin AS origin, i.partial AS is_partial, x.name AS of_column, \
         x.coll AS collation, (SELECT count(*) FROM pragma_index_xinfo(i.name{schema}) AS o WHERE o.key) \
         AS columns FROM pragma_index_list({table}{schema}) AS i, pragma_index_xinfo(i.name{schema}) AS x \
         WHERE i.\"unique\" AND x.key ORDER BY i.seq"
    );
    let indexes = rows_of(database, Statement::query(indexes, vec![])).await?;
    let (mut found, mut has_index_of_primary_key) = (None, false);
    for row in &indexes {
        let is_primary = column::<String>(at, row, "origin")? == "pk";
        has_index_of_primary_key |= is_primary;
        let of_column = column::<Option<String>>(at, row, "of_column")?;
        if !of_column.is_some_and(|name| name.eq_ignore_ascii_case(&source.key_name)) {
            continue;
        }
        let problem = match () {
            () if column::<i64>(at, row, "columns")? > 1 => "is on more than this column",
            () if column(at, row, "is_partial")? => "is partial: it covers some of the rows",
            // SQLite lets NULL into most primary keys, which nobody means; those are counted.
            () if !is_primary && !column::<bool>(at, key, "is_not_null")? => return not(NULLABLE),
            () => {
                let collation = Some(column(at, row, "collation")?);
                return Ok(Shown::Unique { collation, is_rowid: false });
            }
        };
        let name: String = column(at, row, "index_name")?;
        found.get_or_insert_with(|| format!("the unique index {name} {problem}"));
    }
    // A whole number that is the primary key is the number of the row, and needs no index.
    let is_integer = column::<String>(at, key, "type")?.eq_ignore_ascii_case("INTEGER");
    let is_primary = in_primary_key == 1 && column::<i64>(at, key, "pk")? > 0;
    if is_primary && is_integer && !has_index_of_primary_key {
        return Ok(Shown::Unique { collation: None, is_rowid: true });
    }
    let view = format!("SELECT 1 AS n FROM pragma_table_list({table}) WHERE type = 'view'");
    if !rows_of(database, Statement::query(view, vec![])).await?.is_empty() {
        return not("it is a view, and a view has no indexes");
    }
    Ok(Shown::Not(found.unwrap_or_else(|| NONE.to_owned())))
}

/// A table as the functions of SQLite's catalogue are asked for it: its name, and behind a comma its schema,
/// if it has one. Without one they look where FROM does.
struct Asked {
    table: String,
    schema: String,
}

impl Asked {
    fn of(name: &str) -> Self {
        let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
        match name.split_once('.') {
            Some((schema, table)) => {
                Self { table: literal(table), schema: format!(", {}", literal(schema)) }
            }
            None => Self { table: literal(name), schema: String::new() },
        }
    }
}
