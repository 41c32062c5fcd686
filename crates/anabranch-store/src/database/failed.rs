//! Why a batch of statements failed, and what is said about it. All backends say it alike.

use super::{InsertRows, Statement, Work};
use anabranch_core::{AppendError, ErrorCode, StoreError};
use thiserror::Error;

/// How much of a statement is shown.
const MAX_SHOWN: usize = 200;

/// Why a batch of statements failed.
#[derive(Debug, Error)]
#[error("{reason}")]
pub struct Failed {
    /// Which statement of the batch, if one is to blame.
    pub statement: Option<usize>,
    /// What happened.
    pub reason: Reason,
}

/// What happened to a batch of statements.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Reason {
    /// A statement changed another number of rows than it must.
    #[error("the statement did not match what it must change")]
    Unmatched,
    /// A statement ended the transaction before its end: what it wrote may be stored, or be gone, but
    /// no fence matches in another transaction.
    #[error(
        "a statement ended the transaction that the cursor commits in; leave COMMIT and ROLLBACK to \
         the runtime, which commits the effects of a batch together with its cursor"
    )]
    TransactionEnded,
    /// The database refused a statement.
    #[error("{said}{}", told(.statement))]
    Refused {
        /// What the database said.
        said: String,
        /// The statement, shortened, if it is known.
        statement: Option<String>,
        /// Where in its text, in bytes from 0, if the database says so.
        at: Option<usize>,
    },
    /// One transaction cannot do so much: with less it may work.
    #[error("{said}")]
    TooMuch {
        /// What there is too much of, and what to do.
        said: String,
    },
    /// An append of a [`Work::Appends`] was refused.
    #[error("{error}")]
    Append {
        /// Which of them.
        number: usize,
        /// Why.
        error: AppendError,
    },
    /// The database could not be reached, or could not do it now.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Failed {
    /// A failure that no statement is to blame for.
    pub fn store(error: impl Into<StoreError>) -> Self {
        Self { statement: None, reason: Reason::Store(error.into()) }
    }

    /// Whether the same batch may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(&self.reason, Reason::Store(error) if error.is_transient())
    }

    /// Whether somebody may cure it while this program runs, as [`StoreError::is_worth_waiting`] says.
    #[must_use]
    pub fn is_worth_waiting(&self) -> bool {
        matches!(&self.reason, Reason::Store(error) if error.is_worth_waiting())
    }

    /// Whether a fence did not match.
    #[must_use]
    pub fn is_unmatched(&self) -> bool {
        matches!(self.reason, Reason::Unmatched)
    }

    /// The failure as an error of the store, for callers whose statements nobody else wrote: they are not
    /// repeated.
    #[must_use]
    pub fn into_store_error(self, at: &str) -> StoreError {
        let reason = match self.reason {
            Reason::Refused { said, .. } => Reason::refused(said),
            other => other,
        };
        Self { reason, ..self }.with_statement(at)
    }

    /// The same with the statement, for whoever wrote it.
    #[must_use]
    pub fn with_statement(self, at: &str) -> StoreError {
        match self.reason {
            Reason::Store(error) => error,
            other => StoreError::Other { at: at.to_owned(), source: other.to_string().into() },
        }
    }
}

impl Reason {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Unmatched | Self::Refused { .. } => ErrorCode::StatementRefused,
            Self::TransactionEnded => ErrorCode::TransactionEnded,
            Self::TooMuch { .. } => ErrorCode::TransactionTooLarge,
            Self::Append { error, .. } => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    /// Something is refused that is no statement.
    pub fn refused(said: impl Into<String>) -> Self {
        Self::Refused { said: said.into(), statement: None, at: None }
    }

    /// A statement is refused, for what is at a place of its text where that is known. It is shown, or where it
    /// stands, if it says so.
    pub fn refused_in(statement: &Statement, said: impl Into<String>, at: Option<usize>) -> Self {
        let said = said.into();
        match statement.written.and_then(|written| written.place.as_deref()) {
            Some(place) => {
                Self::Refused { said: format!("{said}; in {place}"), statement: None, at }
            }
            None => Self::Refused { said, statement: shown(statement), at },
        }
    }
}

fn told(statement: &Option<String>) -> String {
    statement.as_ref().map(|statement| format!("; in: {statement}")).unwrap_or_default()
}

/// A statement on one line, and not all of it where it is long.
fn shown(statement: &Statement) -> Option<String> {
    let sql = match &statement.work {
        Work::Sql(sql, _) => sql.split_whitespace().collect::<Vec<_>>().join(" "),
        Work::Rows(InsertRows { table, columns, .. }) => {
            format!("insert_rows into {table} ({})", columns.join(", "))
        }
        Work::Appends(_) | Work::Begun | Work::Signal(_) => return None,
    };
    Some(match sql.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &sql[..end]),
        None => sql,
    })
}
