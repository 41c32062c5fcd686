//! What is said about a value that does not fit a statement: which value it is, what was wanted, and in
//! which statement. All backends say it alike.

use crate::database::{InsertRows, Statement, Work};
use crate::value::Value;
use std::fmt;
use thiserror::Error;

/// How much of a statement is shown.
const MAX_SHOWN: usize = 80;

/// A value that does not fit a statement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Misfit {
    /// Which value of the statement, from 1; of rows, which column.
    pub number: usize,
    /// Which value of an array, or which row, from 1.
    pub element: Option<usize>,
    /// The type that the statement asks for, where the database says so.
    pub wanted: Option<String>,
    /// What the value is.
    pub value: String,
    /// Why it does not fit.
    pub problem: String,
}

impl Misfit {
    /// Of a value at a place.
    pub fn new(number: usize, value: &Value, problem: impl fmt::Display) -> Self {
        let (value, problem) = (value.to_string(), problem.to_string());
        Self { number, element: None, wanted: None, value, problem }
    }

    fn place(&self, statement: Option<&Statement>) -> String {
        let Self { number, element, .. } = self;
        match (statement.map(|statement| &statement.work), element) {
            (Some(Work::Rows(InsertRows { columns, .. })), element) => {
                let column = columns.get(number - 1).copied().unwrap_or("?");
                match element {
                    Some(row) => format!("row {row}, column {column}"),
                    None => format!("column {column}"),
                }
            }
            (_, Some(element)) => format!("${number}, its value {element}"),
            (_, None) => format!("${number}"),
        }
    }

    fn told(&self, statement: Option<&Statement>) -> String {
        let Self { wanted, value, problem, .. } = self;
        let wanted = wanted.as_ref().map(|wanted| format!(" ({wanted})")).unwrap_or_default();
        format!("{}{wanted}: {value} does not fit: {problem}", self.place(statement))
    }

    /// The whole message.
    #[must_use]
    pub fn in_statement(&self, statement: &Statement) -> String {
        in_statement(&self.told(Some(statement)), statement)
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(None))
    }
}

/// What was said, and about which statement.
#[must_use]
pub fn in_statement(said: &str, statement: &Statement) -> String {
    let sql = match &statement.work {
        Work::Sql(sql, _) => sql.split_whitespace().collect::<Vec<_>>().join(" "),
        Work::Rows(InsertRows { table, columns, .. }) => {
            format!("insert_rows into {table} ({})", columns.join(", "))
        }
        Work::Appends(_) | Work::Begun | Work::Signal(_) => return said.to_owned(),
    };
    match sql.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{said}; in: {}…", &sql[..end]),
        None => format!("{said}; in: {sql}"),
    }
}
