//! What a backend must provide for tables of users: what its catalogue knows of them.

use super::Statement;
use anabranch_core::StoreError;
use futures_util::future::BoxFuture;

/// The catalogue of a database. Names are as users write them: `table` or `schema.table`.
pub trait Catalogue: Send + Sync {
    /// Which table a name means, with its schema and as the catalogue spells it; nothing if it knows none.
    fn resolved<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>>;

    /// Whether it shows that a column is unique and never NULL.
    fn uniqueness<'a>(
        &'a self,
        table: &'a str,
        column: &'a str,
    ) -> BoxFuture<'a, Result<Uniqueness, StoreError>>;

    /// Of what kinds the values of a column are. `from` is what follows FROM, `column` is quoted.
    fn kinds<'a>(
        &'a self,
        from: &'a str,
        column: &'a str,
    ) -> BoxFuture<'a, Result<Kinds, StoreError>>;

    /// The query for the columns of a table, in order; no rows if there is none. `name`, `declared` (its
    /// type), `family` (`number`, `text` or `other`), `place_in_key` (in the primary key, from 1; or 0), and
    /// two expressions: `exact`, for comparing with a column of the same type, and `by_value`, for one of
    /// another type of the same family. The name of the table is as statements write it.
    fn columns_of(&self, table: &str) -> Statement;

    /// The name of a table as [`columns_of`](Self::columns_of) takes it.
    fn named(&self, table: &str) -> String;

    /// The name of a column such that two that mean the same are the same.
    fn same_column(&self, name: &str) -> String;

    /// The statement that makes a schema, if it is not there; none where a database has no schemas to make.
    fn create_schema(&self, name: &str) -> Option<Statement>;

    /// Whether tables are in schemas that can be made.
    fn has_schemas(&self) -> bool;
}

/// What the catalogue shows of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uniqueness {
    /// It is unique.
    Unique {
        /// By which collation, where rows must be gone through by the same.
        collation: Option<String>,
        /// It is the database's own number of the row: a whole number, never NULL.
        is_row_number: bool,
    },
    /// It is not shown to be. What was found instead.
    NotShown(String),
}

/// Of what kinds the values of a column are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Nobody knows before there is a value.
    Unknown,
    /// All of them are whole numbers.
    Integers,
    /// All of them are texts, or have one text each.
    Texts {
        /// Why two of them may be equal although their texts differ.
        equal: Option<EqualTexts>,
    },
    /// All of them are UUIDs, which the database writes in one way.
    Uuids,
    /// All of one type, whose values have texts that settings change.
    Others(String),
    /// Of these kinds.
    Mixed(Vec<String>),
}

/// Why two values may be equal although their texts differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EqualTexts {
    /// They are numbers with a scale: 1.0 and 1.00.
    Numeric,
    /// By their collation.
    Collation,
}

/// A table name with each of its parts in quotes: `"intake"."log"`.
#[must_use]
pub fn quoted(name: &str) -> String {
    name.split('.').map(quoted_part).collect::<Vec<_>>().join(".")
}

/// A name in quotes.
#[must_use]
pub fn quoted_part(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
