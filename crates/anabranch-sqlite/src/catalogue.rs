//! What SQLite's catalogue knows of tables of users.

use crate::columns;
use crate::effects::Effects;
use anabranch_core::StoreError;
use anabranch_store::database::{self, Catalogue, Database, Kinds, Statement, Uniqueness};
use anabranch_store::params;
use futures_util::future::BoxFuture;

impl Catalogue for &Effects {
    fn resolved<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        Box::pin(async move {
            let Asked { table: literal, .. } = Asked::of(table);
            let schema = table.split_once('.').map_or("", |(schema, _)| schema);
            // Without a schema, temporary tables come first, and then each database in its turn.
            let select = format!(
                "SELECT t.schema || '.' || t.name AS name FROM pragma_table_list({literal}) AS t \
                 LEFT JOIN pragma_database_list AS d ON d.name = t.schema \
                 WHERE $1 = '' OR t.schema = $1 COLLATE NOCASE ORDER BY t.schema <> 'temp', d.seq"
            );
            let rows = self.rows(Statement::query(select, params![schema])).await?;
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
        Box::pin(async move {
            // Of the values, since a column may hold any.
            let select = format!(
                "SELECT DISTINCT typeof(s.{column}) AS kind FROM {from} AS s \
                 WHERE s.{column} IS NOT NULL ORDER BY kind"
            );
            let rows = self.rows(Statement::query(select, vec![])).await?;
            let kinds: Result<Vec<String>, StoreError> =
                rows.iter().map(|row| database::column(self.at(), row, "kind")).collect();
            let kinds = kinds?;
            let names: Vec<&str> = kinds.iter().map(String::as_str).collect();
            Ok(match names[..] {
                [] => Kinds::Unknown,
                ["integer"] => Kinds::Integers,
                ["text"] => Kinds::Texts { equal: None },
                _ => Kinds::Mixed(kinds),
            })
        })
    }

    fn columns_of(&self, table: &str) -> Statement {
        columns::of(table)
    }

    fn named(&self, table: &str) -> String {
        table.to_owned()
    }

    fn same_column(&self, name: &str) -> String {
        name.to_ascii_lowercase()
    }

    fn create_schema(&self, _: &str) -> Option<Statement> {
        None
    }

    fn has_schemas(&self) -> bool {
        false
    }
}

impl Effects {
    async fn unique(&self, name: &str, column: &str) -> Result<Uniqueness, StoreError> {
        let not = |found: &str| Ok(Uniqueness::NotShown(found.to_owned()));
        let Asked { table, schema } = Asked::of(name);
        let columns = format!(
            "SELECT name, type, \"notnull\" AS is_not_null, pk \
             FROM pragma_table_xinfo({table}{schema})"
        );
        let columns = self.rows(Statement::query(columns, vec![])).await?;
        let (mut key, mut in_primary_key) = (None, 0);
        for row in &columns {
            in_primary_key += usize::from(database::column::<i64>(self.at(), row, "pk")? > 0);
            if database::column::<String>(self.at(), row, "name")?.eq_ignore_ascii_case(column) {
                key = Some(row);
            }
        }
        let Some(key) = key else { return not("it has no column of that name") };
        let indexes = format!(
            "SELECT i.name AS index_name, i.origin AS origin, i.partial AS is_partial, \
             x.name AS of_column, x.coll AS collation, \
             (SELECT count(*) FROM pragma_index_xinfo(i.name{schema}) AS o WHERE o.key) AS columns \
             FROM pragma_index_list({table}{schema}) AS i, pragma_index_xinfo(i.name{schema}) AS x \
             WHERE i.\"unique\" AND x.key ORDER BY i.seq"
        );
        let indexes = self.rows(Statement::query(indexes, vec![])).await?;
        let (mut found, mut has_index_of_primary_key) = (None, false);
        for row in &indexes {
            let is_primary = database::column::<String>(self.at(), row, "origin")? == "pk";
            has_index_of_primary_key |= is_primary;
            let of_column = database::column::<Option<String>>(self.at(), row, "of_column")?;
            if !of_column.is_some_and(|name| name.eq_ignore_ascii_case(column)) {
                continue;
            }
            let problem = match () {
                () if database::column::<i64>(self.at(), row, "columns")? > 1 => {
                    "is on more than this column"
                }
                () if database::column(self.at(), row, "is_partial")? => {
                    "is partial: it covers some of the rows"
                }
                // NULL may be in most primary keys, which nobody means; those are counted.
                () if !is_primary && !database::column::<bool>(self.at(), key, "is_not_null")? => {
                    return not(NULLABLE);
                }
                () => {
                    let collation = Some(database::column(self.at(), row, "collation")?);
                    return Ok(Uniqueness::Unique { collation, is_row_number: false });
                }
            };
            let name: String = database::column(self.at(), row, "index_name")?;
            found.get_or_insert_with(|| format!("the unique index {name} {problem}"));
        }
        // A whole number that is the primary key is the number of the row, and needs no index.
        let is_integer =
            database::column::<String>(self.at(), key, "type")?.eq_ignore_ascii_case("INTEGER");
        let is_primary = in_primary_key == 1 && database::column::<i64>(self.at(), key, "pk")? > 0;
        if is_primary && is_integer && !has_index_of_primary_key {
            return Ok(Uniqueness::Unique { collation: None, is_row_number: true });
        }
        let view = format!("SELECT 1 AS n FROM pragma_table_list({table}) WHERE type = 'view'");
        if !self.rows(Statement::query(view, vec![])).await?.is_empty() {
            return not("it is a view, and a view has no indexes");
        }
        Ok(Uniqueness::NotShown(found.unwrap_or_else(|| NONE.to_owned())))
    }
}

const NONE: &str = "it has no unique index on that column";
const NULLABLE: &str = "it has a unique index, but the column may hold NULL, any number of times";

/// A table as the functions of the catalogue are asked for it: its name, and behind a comma its schema,
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
