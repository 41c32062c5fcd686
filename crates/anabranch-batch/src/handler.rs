//! What is done with a row.

use crate::record::Record;
use anabranch_runtime::{HandlerError, HandlerResult, Tx};
use anabranch_store::Value;
use anabranch_store::database::{Lexical, ONE_STATEMENT};
use anabranch_store::named_values::{self, Segment};
use std::future::Future;

/// How much of a text is shown where it is wrong.
const MAX_SHOWN: usize = 20;

/// Handles rows: what it writes through its [`Tx`] commits together with the row's entry in the processing
/// log, or not at all.
///
/// ```
/// use anabranch_batch::{Record, RowHandler};
/// use anabranch_runtime::{HandlerResult, Tx};
/// use anabranch_store::params;
///
/// struct Convert;
///
/// impl RowHandler for Convert {
///     async fn handle(&self, record: &Record, tx: &mut Tx) -> HandlerResult {
///         let total: i64 = record.get("total")?;
///         let insert = "INSERT INTO totals (id, cents) VALUES ($1, $2)";
///         tx.execute(insert, params![record.key(), total * 100]).await
///     }
/// }
/// ```
pub trait RowHandler: Send + Sync + 'static {
    /// Handles one row. An error takes back what it wrote, and the row is `failed` with what it says.
    fn handle(&self, record: &Record, tx: &mut Tx) -> impl Future<Output = HandlerResult> + Send;

    /// The columns of the source that it reads from every row: a batch whose source lacks one is refused
    /// before a row is claimed. Default: none that is known beforehand.
    fn columns(&self) -> &[String] {
        &[]
    }

    /// The statement that it runs for each row, if that is all it does: a batch is refused before a row is claimed
    /// if the database would refuse it whatever the row says, for a table that is not there for instance. Default:
    /// none.
    fn statement(&self) -> Option<RowStatement<'_>> {
        None
    }

    /// Handles several rows at once whose effects are elsewhere, and answers for each; without it each row
    /// goes to [`handle`](Self::handle).
    fn handle_page(
        &self,
        _page: &[Record],
    ) -> impl Future<Output = Option<Vec<HandlerResult>>> + Send {
        std::future::ready(None)
    }
}

/// A statement that is run for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowStatement<'a> {
    /// The statement, with `$1`, `$2`, … for its values.
    pub sql: &'a str,
    /// The columns whose values these are. One may be there several times.
    pub values: &'a [String],
}

/// Runs a statement for each row: `:name` stands for the value of a column.
///
/// ```
/// use anabranch_batch::SqlHandler;
/// let handler = SqlHandler::parse("INSERT INTO totals SELECT :id, :total * 100")?;
/// # Ok::<(), anabranch_runtime::HandlerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqlHandler {
    sql: String,
    /// The column of each value.
    values: Vec<String>,
    /// The same, each once.
    columns: Vec<String>,
}

impl SqlHandler {
    /// Reads a statement, as [`named_values`] says. What stands in quotes and comments, `::` casts and slices are left
    /// as they are.
    pub fn parse(text: &str) -> HandlerResult<Self> {
        let fail = |at: usize, said: &str| {
            let there: String = text[at..].chars().take(MAX_SHOWN).collect();
            Err(HandlerError::new(format!("{said}, at `{there}`")))
        };
        // Which database it is for is not known before the batch runs.
        let mut statements = match named_values::parse(text, Lexical::ANY) {
            Ok(named) => named.statements,
            Err(error) => return fail(error.at, &error.said),
        };
        let statement = match statements.as_mut_slice() {
            [] => return Err(HandlerError::new("the statement is empty")),
            [statement] => std::mem::take(statement),
            [_, second, ..] => return fail(second.span.start, ONE_STATEMENT),
        };
        let (mut values, mut columns) = (Vec::new(), Vec::new());
        for value in &statement.values {
            let [Segment::Key(name)] = value.path.as_slice() else {
                return fail(
                    value.span.start,
                    "a column has one name; for a part of its value write (:column)…",
                );
            };
            if value.optional {
                return fail(value.span.start, "put a space before an operator that begins with ?");
            }
            if !columns.contains(name) {
                columns.push(name.clone());
            }
            values.push(name.clone());
        }
        Ok(Self { sql: statement.sql, values, columns })
    }
}

impl RowHandler for SqlHandler {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn statement(&self) -> Option<RowStatement<'_>> {
        Some(RowStatement { sql: &self.sql, values: &self.values })
    }

    async fn handle(&self, record: &Record, tx: &mut Tx) -> HandlerResult {
        let values: Vec<Value> =
            self.values.iter().map(|column| record.get(column)).collect::<Result<_, _>>()?;
        tx.execute(self.sql.clone(), values).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_places() {
        let handler = SqlHandler::parse(
            " INSERT INTO t SELECT :id, ':no', \"a:b\", :x::text, :id WHERE a = 'it''s :c' -- :d\n; ",
        );
        let handler = handler.unwrap();
        assert_eq!(
            handler.sql,
            "INSERT INTO t SELECT $1, ':no', \"a:b\", $2::text, $3 WHERE a = 'it''s :c' -- :d"
        );
        assert_eq!(handler.values, ["id", "x", "id"]);
        assert_eq!(handler.columns, ["id", "x"]);
    }

    #[test]
    fn what_is_no_statement_of_columns_is_refused() {
        for (text, said) in [
            (" ; ", "empty"),
            ("-- nothing", "empty"),
            ("SELECT 'open", "at `'open`"),
            (
                "SELECT 1; SELECT 2",
                "several statements in the text; give them one at a time, at `SELECT 2`",
            ),
            ("SELECT :a.b", "one name"),
            ("SELECT :a[1]", "(:column)"),
            ("SELECT :a?'x'", "a space"),
            ("SELECT $1", "write :field"),
        ] {
            let error = SqlHandler::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
