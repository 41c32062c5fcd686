//! Statements that are ready to be sent: prepared, and fenced where they must change what they say.

use crate::session::{Connection, prepare};
use crate::value::{Bound, values_of};
use anabranch_store::database::{Answer, Expect, InsertRows, Statement, Topic, Work};
use anabranch_store::{Row, Value};
use futures_util::TryStreamExt;
use std::sync::Arc;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{Error, Statement as Prepared};

/// A setting that ends with the transaction: where it is not set, a statement has ended ours.
pub(crate) const OURS: &str = "anabranch.transaction";
/// What the server says that it does not know when a fence runs in another transaction than its own.
const ENDED: &str = "anabranch.transaction_was_ended";

/// What comes before a statement that is a fence.
pub(crate) const BEFORE_FENCED: &str = "WITH changed AS (";

/// What a fence says.
#[derive(Clone, Copy)]
pub(crate) enum Unmet {
    /// It changed another number of rows than it must.
    Unmatched,
    /// It does not run in the transaction that was begun for it.
    Ended,
}

impl Unmet {
    pub(crate) fn said_by(error: &Error) -> Option<Self> {
        let error = error.as_db_error()?;
        match *error.code() {
            SqlState::DIVISION_BY_ZERO => Some(Self::Unmatched),
            SqlState::UNDEFINED_OBJECT if error.message().contains(ENDED) => Some(Self::Ended),
            _ => None,
        }
    }
}

/// A statement that is ready to be sent without a round trip before it.
pub(crate) enum Ready {
    Plain(Prepared),
    /// With one array for each column, and the types of those columns that hold arrays themselves.
    Columns(Prepared, Vec<Option<Type>>),
    /// Nothing to insert.
    Nothing,
}

impl Ready {
    pub(crate) async fn of(
        session: &Connection,
        signal: &str,
        statement: &Statement,
    ) -> Result<Self, Error> {
        match (&statement.work, statement.expect) {
            (Work::Sql(sql, values), Expect::Changes(_)) => {
                prepare(session, &fenced(sql, values.len())).await.map(Self::Plain)
            }
            (Work::Sql(sql, _), _) => prepare(session, sql).await.map(Self::Plain),
            (Work::Begun, _) => {
                // A handler may have written as somebody else: what comes next is ours.
                let role = session.role.replace('\'', "''");
                let sql = format!(
                    "SELECT CASE WHEN current_setting('{OURS}', true) = 'yes' THEN 1 \
                     ELSE current_setting('{ENDED}')::int END, set_config('role', '{role}', true)"
                );
                prepare(session, &sql).await.map(Self::Plain)
            }
            (Work::Signal(Topic::Workers), _) => prepare(session, signal).await.map(Self::Plain),
            // Appends are not sent with others.
            (Work::Signal(Topic::Tasks | Topic::Permits) | Work::Appends(_), _) => {
                Ok(Self::Nothing)
            }
            (Work::Rows(insert), _) if insert.rows.is_empty() => Ok(Self::Nothing),
            (Work::Rows(insert), _) => {
                let (sql, arrays) = set_wise(session, insert).await?;
                let sql = match statement.expect {
                    Expect::Changes(_) => fenced(&sql, insert.columns.len()),
                    _ => sql,
                };
                prepare(session, &sql).await.map(|prepared| Self::Columns(prepared, arrays))
            }
        }
    }

    pub(crate) async fn send(
        &self,
        session: &Connection,
        statement: &Statement,
    ) -> Result<Answer, Error> {
        let expected = match statement.expect {
            Expect::Changes(changes) => Some(Value::from(changes)),
            _ => None,
        };
        let (prepared, values) = match (self, &statement.work) {
            (Self::Plain(prepared), Work::Sql(_, values)) => (prepared, values.as_slice()),
            (Self::Plain(prepared), _) => (prepared, [].as_slice()),
            (Self::Columns(prepared, arrays), Work::Rows(insert)) => {
                let columns = columns(insert);
                let bound = Bound::columns(columns.iter().chain(&expected), arrays);
                let changed = session.execute_raw(prepared, bound).await?;
                return Ok(Answer { changed, rows: Vec::new() });
            }
            _ => return Ok(Answer::default()),
        };
        let bound = Bound::of(statement, values.iter().chain(&expected));
        if statement.expect != Expect::Rows {
            let changed = session.execute_raw(prepared, bound).await?;
            return Ok(Answer { changed, rows: Vec::new() });
        }
        let found: Vec<_> = session.query_raw(prepared, bound).await?.try_collect().await?;
        let names = prepared.columns().iter().map(|column| column.name().to_owned());
        let columns: Arc<[String]> = names.collect();
        let row = |row| Ok(Row::new(Arc::clone(&columns), values_of(row)?));
        let rows: Vec<Row> = found.iter().map(row).collect::<Result<_, Error>>()?;
        Ok(Answer { changed: rows.len() as u64, rows })
    }
}

/// A statement that fails (division by zero) unless it changes what it must, and with it whatever comes
/// after it in the pipeline: the commit. How much that is comes as one value more, so that there is one
/// statement to prepare for any number of rows. It fails in another way if this is not the transaction
/// that was begun: a statement before it has ended that, and what is changed here would be committed
/// alone.
fn fenced(sql: &str, values: usize) -> String {
    let place = values + 1;
    format!(
        "{BEFORE_FENCED}{sql} RETURNING 1) SELECT CASE \
         WHEN current_setting('{OURS}', true) = 'yes' THEN 1 / (count(*) = ${place})::int \
         ELSE current_setting('{ENDED}')::int END FROM changed"
    )
}

/// `INSERT … SELECT` from one array for each column: one statement for any number of rows. There are no
/// arrays of arrays of any length, so those go as text. Says which columns do, with their types.
async fn set_wise(
    session: &Connection,
    insert: &InsertRows,
) -> Result<(String, Vec<Option<Type>>), Error> {
    let (table, columns) = (&insert.table, insert.columns.join(", "));
    let shape = session.prepare_cached(&format!("SELECT {columns} FROM {table}")).await?;
    let kinds: Vec<&Type> = shape.columns().iter().map(tokio_postgres::Column::type_).collect();
    let arrays_of = kinds.iter().map(|kind| is_array(kind).then(|| (*kind).clone()));
    let arrays_of: Vec<Option<Type>> = arrays_of.collect();
    let numbered = || kinds.iter().enumerate().map(|(number, kind)| (number + 1, *kind));
    let array = |(number, kind)| match is_array(kind) {
        true => format!("${number}::text[]"),
        false => format!("${number}::{}[]", type_name(kind)),
    };
    let value = |(number, kind)| match is_array(kind) {
        true => format!("c{number}::{}", type_name(kind)),
        false => format!("c{number}"),
    };
    let arrays = numbered().map(array).collect::<Vec<_>>().join(", ");
    let rows = match arrays_of.iter().any(Option::is_some) {
        false => format!("SELECT * FROM unnest({arrays})"),
        true => {
            let names: Vec<String> = numbered().map(|(number, _)| format!("c{number}")).collect();
            let values: Vec<String> = numbered().map(value).collect();
            let (values, names) = (values.join(", "), names.join(", "));
            format!("SELECT {values} FROM unnest({arrays}) AS new ({names})")
        }
    };
    let conflict = &insert.conflict;
    Ok((format!("INSERT INTO {table} ({columns}) {rows} {conflict}"), arrays_of))
}

fn is_array(kind: &Type) -> bool {
    matches!(kind.kind(), Kind::Array(_))
}

fn type_name(kind: &Type) -> String {
    match kind.kind() {
        Kind::Simple => kind.name().to_owned(),
        _ => format!("\"{}\".\"{}\"", kind.schema(), kind.name()),
    }
}

fn columns(insert: &InsertRows) -> Vec<Value> {
    let column = |number: usize| insert.rows.iter().map(|row| row[number].clone()).collect();
    (0..insert.columns.len()).map(column).collect()
}
