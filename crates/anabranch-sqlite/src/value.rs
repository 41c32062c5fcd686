//! Values as SQLite stores them.

use anabranch_store::Value;
use anabranch_store::misfit::Misfit;
use anabranch_store::value::time_text;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Type, Value as Owned, ValueRef};

/// A value on its way to a statement, and which of its values it is.
pub(crate) struct Bound<'a> {
    pub(crate) value: &'a Value,
    pub(crate) number: usize,
}

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.value {
            Value::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Value::Bool(truth) => ToSqlOutput::Owned(Owned::Integer((*truth).into())),
            Value::Int(number) => ToSqlOutput::Owned(Owned::Integer(*number)),
            // As text it would be rounded to a float by every column that prefers numbers.
            Value::Unsigned(number) => match i64::try_from(*number) {
                Ok(number) => ToSqlOutput::Owned(Owned::Integer(number)),
                Err(_) => return Err(self.misfit(TOO_LARGE)),
            },
            Value::Float(number) if number.is_nan() => {
                return Err(self.misfit("SQLite would store NULL"));
            }
            Value::Float(number) => ToSqlOutput::Owned(Owned::Real(*number)),
            Value::Text(text) | Value::Json(text) => {
                ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))
            }
            Value::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Value::Uuid(id) => ToSqlOutput::Owned(Owned::Text(id.to_string())),
            other => {
                other.fits_text().map_err(|problem| self.misfit(problem))?;
                let text = match other {
                    Value::Time(micros) => time_text(*micros),
                    _ => None,
                };
                ToSqlOutput::Owned(Owned::Text(text.unwrap_or_else(|| other.to_json().to_string())))
            }
        })
    }
}

const TOO_LARGE: &str =
    "SQLite counts to 9223372036854775807; pass it as a text, into a TEXT column";

impl Bound<'_> {
    fn misfit(&self, problem: impl std::fmt::Display) -> rusqlite::Error {
        let misfit = Misfit::new(self.number, self.value, problem);
        rusqlite::Error::ToSqlConversionFailure(Box::new(misfit))
    }
}

/// The value of a column. Text that is none is refused: made readable, it would be another.
pub(crate) fn value_of(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Value> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Float(number),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => {
                let name = row.as_ref().column_name(column)?;
                let problem = format!(
                    "column {name} is not valid UTF-8 text; CAST({name} AS BLOB) are its bytes"
                );
                return Err(rusqlite::Error::FromSqlConversionFailure(
                    column,
                    Type::Text,
                    problem.into(),
                ));
            }
        },
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_owned()),
    })
}
