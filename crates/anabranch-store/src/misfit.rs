//! What is said about a value that does not fit a statement: which value it is, and what was wanted. All
//! backends say it alike.

use crate::database::{InsertRows, Statement, Work};
use crate::value::Value;
use std::fmt;
use thiserror::Error;

/// What is said where values are written in another way.
pub const AS_NUMBERS: &str = "values are written $1, $2, …";

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
    /// Why it does not fit; nothing, if what is wanted says it.
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
            (_, element) => {
                let name = statement.map(|statement| statement.value_name(*number));
                let name = name.unwrap_or_else(|| format!("${number}").into());
                match element {
                    Some(element) => format!("{name}, its value {element}"),
                    None => name.into_owned(),
                }
            }
        }
    }

    fn said(&self, statement: Option<&Statement>) -> String {
        let Self { wanted, value, problem, .. } = self;
        let wanted = wanted.as_ref().map(|wanted| format!(" ({wanted})")).unwrap_or_default();
        let place = self.place(statement);
        let why = match problem.as_str() {
            "" => String::new(),
            // What to write instead has the value's name in it, if it has one.
            problem => match (statement, self.element) {
                (Some(Statement { work: Work::Sql(..), .. }), None) => {
                    format!(": {}", problem.replace("$n", &place))
                }
                _ => format!(": {problem}"),
            },
        };
        format!("{place}{wanted}: {value} does not fit{why}")
    }

    /// What is said of it in a statement, which knows its columns.
    #[must_use]
    pub fn said_in(&self, statement: &Statement) -> String {
        self.said(Some(statement))
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said(None))
    }
}
