//! What a column of a STRICT table refuses. SQLite names the column and what it made of the value (a number of a text
//! that is one), and not the value.

use anabranch_store::Value;
use anabranch_store::database::{InsertRows, Statement, Work};
use anabranch_store::misfit::Misfit;
use rusqlite::{Error, ffi};

/// What a column has refused, if that is what happened: `cannot store REAL value in INTEGER column t.n`.
fn refused(error: &Error) -> Option<String> {
    let code = error.sqlite_error()?.extended_code;
    (code == ffi::SQLITE_CONSTRAINT_DATATYPE).then(|| error.to_string())
}

/// The same with the values that may be meant.
pub(crate) fn said(error: &Error, statement: &Statement) -> Option<String> {
    let said = refused(error)?;
    let Work::Sql(_, values) = &statement.work else { return Some(said) };
    let (kind, column) = said.strip_prefix("cannot store ")?.split_once(" value in ")?;
    let into_blob = column.starts_with("BLOB");
    let values = values.iter().enumerate().filter(|(_, value)| may_be(value, kind, into_blob));
    let values: Vec<_> = values
        .map(|(place, value)| format!("{} is {value}", statement.value_name(place + 1)))
        .collect();
    Some(match values.is_empty() {
        true => said,
        false => format!("{said}: {}", values.join(", ")),
    })
}

/// Of a row, its value is known.
pub(crate) fn in_row(error: Error, insert: &InsertRows, number: usize) -> Error {
    let misfit = || {
        let said = refused(&error)?;
        let (_, column) = said.rsplit_once('.')?;
        let place = insert.columns.iter().position(|name| name.trim_matches('"') == column)?;
        let misfit = Misfit::new(place + 1, insert.rows.get(number)?.get(place)?, &said);
        Some(Misfit { element: Some(number + 1), ..misfit })
    };
    match misfit() {
        Some(misfit) => Error::ToSqlConversionFailure(Box::new(misfit)),
        None => error,
    }
}

/// Whether SQLite may have made a value of this kind of it.
fn may_be(value: &Value, kind: &str, into_blob: bool) -> bool {
    let made = match value {
        Value::Null => return false,
        Value::Bool(_) | Value::Int(_) => "INTEGER",
        Value::Float(_) => "REAL",
        Value::Bytes(_) => "BLOB",
        Value::Text(text) | Value::Json(text)
            if !into_blob && text.trim().parse::<i64>().is_ok() =>
        {
            "INTEGER"
        }
        Value::Text(text) | Value::Json(text)
            if !into_blob && text.trim().parse::<f64>().is_ok() =>
        {
            "REAL"
        }
        _ => "TEXT",
    };
    made == kind
}
