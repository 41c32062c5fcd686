//! What is done with a row.

use crate::record::Record;
use anabranch_runtime::{HandlerError, HandlerResult, Tx};
use anabranch_store::Value;
use std::future::Future;

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

    /// The statement that it runs for each row, if that is all it does, with `$1`, `$2`, … for the
    /// [`columns`](Self::columns): a batch is refused before a row is claimed if the database would refuse it
    /// whatever the row says, for a table that is not there for instance. Default: none.
    fn statement(&self) -> Option<&str> {
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
    columns: Vec<String>,
}

impl SqlHandler {
    /// Reads a statement. Text in quotes and `::` casts are left as they are.
    pub fn parse(text: &str) -> HandlerResult<Self> {
        let (mut sql, mut columns) = (String::new(), Vec::<String>::new());
        let mut rest = text.trim().trim_end_matches(';').chars().peekable();
        let mut quote = None;
        while let Some(c) = rest.next() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, ':') if rest.peek() == Some(&':') => {
                    rest.next();
                    sql.push(':');
                }
                (None, ':') if rest.peek().is_some_and(|c| c.is_alphabetic() || *c == '_') => {
                    let mut name = String::new();
                    while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
                        name.push(c);
                    }
                    let known = columns.iter().position(|known| *known == name);
                    let place = known.unwrap_or_else(|| {
                        columns.push(name);
                        columns.len() - 1
                    });
                    sql += &format!("${}", place + 1);
                    continue;
                }
                _ => {}
            }
            sql.push(c);
        }
        if sql.is_empty() {
            return Err(HandlerError::new("the statement is empty"));
        }
        if quote.is_some() {
            return Err(HandlerError::new("a quote in the statement is not closed"));
        }
        Ok(Self { sql, columns })
    }
}

impl RowHandler for SqlHandler {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn statement(&self) -> Option<&str> {
        Some(&self.sql)
    }

    async fn handle(&self, record: &Record, tx: &mut Tx) -> HandlerResult {
        let mut values = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            values.push(record.get::<Value>(column)?);
        }
        tx.execute(self.sql.clone(), values).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_places() {
        let read = |text| SqlHandler::parse(text).unwrap();
        let handler =
            read("INSERT INTO t SELECT :id, ':no', \"a:b\", :x::text, :id WHERE a = 'it''s :c';");
        assert_eq!(
            handler.sql,
            "INSERT INTO t SELECT $1, ':no', \"a:b\", $2::text, $1 WHERE a = 'it''s :c'"
        );
        assert_eq!(handler.columns, ["id", "x"]);
        assert!(SqlHandler::parse(" ; ").is_err());
        assert!(SqlHandler::parse("SELECT 'open").is_err());
    }
}
