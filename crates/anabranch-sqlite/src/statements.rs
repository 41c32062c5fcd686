//! Statements on a connection: prepared, with their values, and what is said if they are refused.

use crate::error::store_error;
use crate::lasting;
use crate::strict;
use crate::value::{Bound, value_of};
use anabranch_core::StoreError;
use anabranch_store::control::ONLY_READS;
use anabranch_store::database::{
    Answer, Described, Expect, InsertRows, ONE_STATEMENT, Reason, Statement, Work,
};
use anabranch_store::misfit::{AS_NUMBERS, Misfit};
use anabranch_store::{Row, Value};
use rusqlite::{CachedStatement, Connection};
use std::sync::Arc;

/// The rows of a query that only reads.
pub(crate) fn read(
    connection: &Connection,
    at: &str,
    query: &Statement,
) -> Result<Vec<Row>, Reason> {
    let failed = |error| reason(at, error, query);
    let Work::Sql(sql, values) = &query.work else { return Ok(Vec::new()) };
    let mut ready = Ready::of(connection, sql).map_err(failed)?;
    if !ready.statement.readonly() {
        return Err(Reason::refused(ONLY_READS));
    }
    Ok(one(Ok(&mut ready), values, Expect::Rows).map_err(failed)?.rows)
}

/// Runs a statement without values or rows, which stays prepared.
pub(crate) fn command(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute(()).map(drop)
}

pub(crate) fn roll_back(connection: &Connection) {
    // Fails if SQLite has rolled back by itself.
    let _ = connection.execute_batch("ROLLBACK");
}

/// How many statements of a batch are kept at hand.
const AT_HAND: usize = 8;

/// The statements of a batch: most repeat a few texts, and looking one up by its text for each event
/// took a seventh of the time.
pub(crate) struct Prepared<'c, 's> {
    connection: &'c Connection,
    statements: Vec<(&'s str, Ready<'c>)>,
}

/// A statement, and which value goes to which of its places.
pub(crate) struct Ready<'c> {
    statement: CachedStatement<'c>,
    places: Vec<usize>,
    /// How many values it takes.
    count: usize,
}

impl<'c, 's> Prepared<'c, 's> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { connection, statements: Vec::new() }
    }

    pub(crate) fn get(&mut self, sql: &'s str) -> rusqlite::Result<&mut Ready<'c>> {
        // Most texts are constants, so the same text is at the same place.
        let same = |known: &str| std::ptr::eq(known, sql) || known == sql;
        let found = self.statements.iter().position(|(known, _)| same(known));
        let place = match found {
            Some(place) => place,
            None => {
                if self.statements.len() == AT_HAND {
                    self.statements.remove(0);
                }
                if let Some(said) = lasting::refusal(sql) {
                    return Err(rusqlite::Error::ToSqlConversionFailure(said.into()));
                }
                self.statements.push((sql, Ready::of(self.connection, sql)?));
                self.statements.len() - 1
            }
        };
        Ok(&mut self.statements[place].1)
    }
}

/// What lies in the statement is the statement's fault; the rest is the database's.
pub(crate) fn reason(at: &str, error: rusqlite::Error, statement: &Statement) -> Reason {
    let (said, place) = (said(&error, statement), place(&error, statement));
    match store_error(at, error) {
        StoreError::Other { .. } => Reason::refused_in(statement, said, place),
        other => Reason::Store(other),
    }
}

/// Where in a statement an error lies. The driver prepares it without the white space around it.
fn place(error: &rusqlite::Error, statement: &Statement) -> Option<usize> {
    let rusqlite::Error::SqlInputError { offset, .. } = error else { return None };
    let Work::Sql(sql, _) = &statement.work else { return None };
    let at = usize::try_from(*offset).ok()? + sql.len() - sql.trim_start().len();
    sql.is_char_boundary(at).then_some(at)
}

/// What a statement would be executed with and answer. SQLite takes any value anywhere.
pub(crate) fn describe(connection: &Connection, at: &str, sql: &str) -> Result<Described, Reason> {
    let statement = || Statement::new(sql.to_owned(), Vec::new());
    if let Some(said) = lasting::refusal(sql) {
        return Err(Reason::refused_in(&statement(), said, Some(0)));
    }
    // Anew: one that is kept from another time may be about a table that is gone.
    let described = connection.prepare(sql.trim()).and_then(|prepared| {
        let (_, count) = places(&prepared)?;
        Ok(Described { values: vec![None; count], columns: names(&prepared).to_vec() })
    });
    described.map_err(|error| match error {
        rusqlite::Error::MultipleStatement => Reason::refused_in(&statement(), ONE_STATEMENT, None),
        error => reason(at, error, &statement()),
    })
}

fn said(error: &rusqlite::Error, statement: &Statement) -> String {
    match error {
        rusqlite::Error::ToSqlConversionFailure(cause) => match cause.downcast_ref::<Misfit>() {
            Some(misfit) => misfit.said_in(statement),
            None => cause.to_string(),
        },
        rusqlite::Error::FromSqlConversionFailure(_, _, cause) => cause.to_string(),
        rusqlite::Error::InvalidParameterCount(has, wants) => {
            format!("it has {has} values and takes {wants}")
        }
        // It would hold the whole statement.
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::InvalidParameterName(names) => {
            format!("{names} stand beside each other; {AS_NUMBERS}")
        }
        other => strict::said(other, statement).unwrap_or_else(|| other.to_string()),
    }
}

pub(crate) fn one(
    ready: rusqlite::Result<&mut Ready<'_>>,
    values: &[Value],
    expect: Expect,
) -> rusqlite::Result<Answer> {
    let ready = ready?;
    ready.bind(values)?;
    let statement = &mut ready.statement;
    if expect == Expect::Rows {
        let mut found = statement.raw_query();
        let (mut columns, mut rows) = (None, Vec::new());
        while let Some(row) = found.next()? {
            // Asked once it runs: a table that has changed since it was prepared may have others.
            let columns: &Arc<[String]> = columns.get_or_insert_with(|| names(row.as_ref()));
            let values = (0..columns.len()).map(|column| value_of(row, column));
            rows.push(Row::new(Arc::clone(columns), values.collect::<rusqlite::Result<_>>()?));
        }
        return Ok(Answer { changed: rows.len() as u64, rows });
    }
    if statement.column_count() == 0 {
        let changed = statement.raw_execute()? as u64;
        return Ok(Answer { changed, rows: Vec::new() });
    }
    let mut rows = statement.raw_query();
    let mut changed = 0;
    while rows.next()?.is_some() {
        changed += 1;
    }
    Ok(Answer { changed, rows: Vec::new() })
}

/// The names of the columns. (Versions of the driver differ on what `column_names` is.)
fn names(statement: &rusqlite::Statement<'_>) -> Arc<[String]> {
    let name = |column| statement.column_name(column).unwrap_or_default().to_owned();
    (0..statement.column_count()).map(name).collect()
}

impl<'c> Ready<'c> {
    fn of(connection: &'c Connection, sql: &str) -> rusqlite::Result<Self> {
        let statement = connection.prepare_cached(sql)?;
        let (places, count) = places(&statement)?;
        Ok(Self { statement, places, count })
    }

    fn bind(&mut self, values: &[Value]) -> rusqlite::Result<()> {
        if values.len() != self.count {
            return Err(rusqlite::Error::InvalidParameterCount(values.len(), self.count));
        }
        for (place, number) in self.places.iter().enumerate() {
            let Some(value) = number.checked_sub(1).and_then(|number| values.get(number)) else {
                return Err(rusqlite::Error::InvalidParameterCount(values.len(), self.count));
            };
            self.statement.raw_bind_parameter(place + 1, Bound { value, number: *number })?;
        }
        Ok(())
    }
}

/// Which value goes to which place of a statement, and how many it takes. `$3` is the third value wherever it
/// stands; SQLite numbers such names as it meets them.
fn places(statement: &rusqlite::Statement<'_>) -> rusqlite::Result<(Vec<usize>, usize)> {
    let places = 1..=statement.parameter_count();
    // SQLite counts them apart: `VALUES ($2, ?)` would store the second value twice.
    let name = |place| statement.parameter_name(place).unwrap_or("?");
    if let Some(cast) = places.clone().map(name).find(is_cast) {
        return Err(rusqlite::Error::ToSqlConversionFailure(no_cast(cast).into()));
    }
    let (numbered, others): (Vec<_>, Vec<_>) = places.clone().map(name).partition(is_number);
    if let (Some(number), Some(other)) = (numbered.first(), others.first()) {
        let names = format!("`{number}` and `{other}`");
        return Err(rusqlite::Error::InvalidParameterName(names));
    }
    let number = |place| name(place)[1..].parse().unwrap_or(place);
    let places: Vec<usize> = places.map(number).collect();
    let count = places.iter().copied().max().unwrap_or(0);
    Ok((places, count))
}

/// Whether a value is written as `$1`.
fn is_number(name: &&str) -> bool {
    name.strip_prefix('$').is_some_and(|number| number.parse::<usize>().is_ok())
}

/// Whether it begins as `$1` does and goes on: SQLite takes `$1::text` for one name, and so would bind values in the
/// order in which such names come.
fn is_cast(name: &&str) -> bool {
    let begins =
        name.strip_prefix('$').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    begins && !is_number(name)
}

fn no_cast(name: &str) -> String {
    let end = name[1..].find(|c: char| !c.is_ascii_digit()).map_or(name.len(), |end| end + 1);
    let number = &name[..end];
    format!(
        "SQLite takes `{name}` for one name; a cast is written CAST({number} AS type) here, or left out"
    )
}

/// A row at a time: there is no network to save.
pub(crate) fn many(connection: &Connection, insert: &InsertRows) -> rusqlite::Result<Answer> {
    let places: Vec<String> = (1..=insert.columns.len()).map(|n| format!("?{n}")).collect();
    let (table, columns) = (&insert.table, insert.columns.join(", "));
    let (places, conflict) = (places.join(", "), &insert.conflict);
    let sql = format!("INSERT INTO {table} ({columns}) VALUES ({places}) {conflict}");
    let mut ready = Ready::of(connection, &sql)?;
    let mut changed = 0;
    for (number, row) in insert.rows.iter().enumerate() {
        ready.bind(row).map_err(|error| in_row(number + 1, error))?;
        let executed = ready.statement.raw_execute();
        changed += executed.map_err(|error| strict::in_row(error, insert, number))? as u64;
    }
    Ok(Answer { changed, rows: Vec::new() })
}

/// Which row a value that does not fit is in.
fn in_row(row: usize, error: rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::ToSqlConversionFailure(cause) => match cause.downcast::<Misfit>() {
            Ok(misfit) => {
                let misfit = Misfit { element: Some(row), ..*misfit };
                rusqlite::Error::ToSqlConversionFailure(Box::new(misfit))
            }
            Err(cause) => rusqlite::Error::ToSqlConversionFailure(cause),
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SQLite takes `$2::bigint` for a name, and would bind the first value to it.
    #[test]
    fn a_cast_of_postgres_is_refused_with_what_to_write() {
        let connection = Connection::open_in_memory().unwrap();
        for (sql, name) in [
            ("SELECT $2::bigint, $1::text", "$2::bigint"),
            ("SELECT $1, $2::bigint", "$2::bigint"),
            ("SELECT $1a", "$1a"),
        ] {
            let Err(refused) = Ready::of(&connection, sql) else { panic!("{sql}") };
            let said = said(&refused, &Statement::new(sql, Vec::new()));
            assert!(said.contains(name) && said.contains("CAST($"), "{sql}: {said}");
        }
        for sql in ["SELECT $2, $1", "SELECT ?2, ?1", "SELECT $name", "SELECT CAST($1 AS BIGINT)"] {
            assert!(Ready::of(&connection, sql).is_ok(), "{sql}");
        }
    }
}
