//! What PostgreSQL's errors mean for the log.

use crate::look_alikes;
use crate::room::Room;
use anabranch_core::StoreError;
use anabranch_store::NotRunning;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

const TO_PRIMARY: &str = "connect to the primary, and check default_transaction_read_only";

/// Why a call failed. The cause is shared, since one failed commit is told to every append that was
/// in it.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// There is no session.
    Connect(Arc<Error>),
    /// The server is not encrypted or verified as the URL wants it: why, and what to do.
    NotTrusted(String),
    /// The server did not answer in time when a session was to be opened.
    NotThere(Duration),
    /// The server has no connection left, and how many there may be.
    Full(Arc<Error>, String),
    /// Another session still holds the lock that should show the life of a worker.
    LifeHeld(Duration),
    /// It only repeats another.
    Standby,
    /// All sessions were in use for so long: who holds them, and what to change.
    NoneFree { wait: Duration, holders: String, option: &'static str, limit: String },
    /// It is no PostgreSQL, or a session of it is no session.
    Unsuitable(Unsuitable),
    /// A statement failed.
    Query(Arc<Error>),
    /// The server says nothing.
    Silent(Duration),
    /// The sessions belong to another runtime, which does not run.
    OtherRuntime(NotRunning),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Query(Arc::new(error))
    }
}

impl Failure {
    /// Why a session could not be opened.
    pub(crate) fn opening(error: Error, room: &Room) -> Self {
        let is_full = error.as_db_error().is_some_and(|said| {
            *said.code() == SqlState::TOO_MANY_CONNECTIONS
                // What PgBouncer says, with the code of a broken protocol.
                || said.message().contains("no more connections allowed")
        });
        match is_full {
            true => {
                room.is_full(own_limit(&error));
                Self::Full(Arc::new(error), room.limit())
            }
            false => Self::Connect(Arc::new(error)),
        }
    }

    /// Whether the server has no connection left.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Full(..))
    }

    /// Whether the server's lock table has no room for more.
    pub(crate) fn is_out_of_locks(&self) -> bool {
        matches!(self, Self::Query(error) if error.code() == Some(&SqlState::OUT_OF_MEMORY))
    }

    /// What it means for the log in the database `at`.
    pub(crate) fn at(&self, at: &str) -> StoreError {
        match self {
            Self::Query(error) => store_error(at, error),
            // Where there was no session yet, a broken connection means that nobody is there.
            Self::Connect(error) => match store_error(at, error) {
                StoreError::ConnectionLost { at, source } => StoreError::Unreachable { at, source },
                other => other,
            },
            Self::Silent(time) => {
                let source = format!("no answer within {time:?}").into();
                StoreError::ConnectionLost { at: at.to_owned(), source }
            }
            Self::NotThere(time) => {
                let source = format!("no answer within {time:?}").into();
                StoreError::Unreachable { at: at.to_owned(), source }
            }
            Self::NotTrusted(why) => {
                StoreError::NotTrusted { at: at.to_owned(), source: why.clone().into() }
            }
            Self::OtherRuntime(why) => why.at(at),
            Self::LifeHeld(time) => {
                let source = format!(
                    "another session has held the lock that shows the life of this worker for {time:?}, \
                     perhaps one whose connection was cut without the server's knowledge"
                );
                StoreError::Busy { at: at.to_owned(), source: source.into() }
            }
            Self::Full(error, limit) => StoreError::TooManyConnections {
                at: at.to_owned(),
                limit: limit.clone(),
                source: Box::new(Said(Arc::clone(error))),
            },
            Self::Standby => {
                let (at, source) = (at.to_owned(), "it is a standby".into());
                StoreError::ReadOnly { at, remedy: TO_PRIMARY, source }
            }
            Self::NoneFree { wait, holders, option, limit } => StoreError::NoSession {
                at: at.to_owned(),
                what: format!("all were in use for {wait:?}, by {holders}"),
                remedy: format!("raise {option}, and see that the server has room: {limit}"),
            },
            Self::Unsuitable(Unsuitable { what, remedy }) => {
                let (at, what) = (at.to_owned(), what.clone());
                StoreError::Unsuitable { at, what, remedy }
            }
        }
    }

    /// Whether a session that was there is gone.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self, Self::Query(_)) && matches!(self.at(""), StoreError::ConnectionLost { .. })
    }

    /// Whether the same call may succeed on another session or a moment later.
    pub(crate) fn is_worth_repeating(&self) -> bool {
        // A statement that was cancelled took too long; repeated, it would again.
        let code = self.code();
        code != Some(&SqlState::QUERY_CANCELED)
            // It has waited long enough: perhaps its caller holds what it waits for.
            && !matches!(self, Self::NoneFree { .. })
            && !self.is_lock_timeout()
            // A fail-over takes seconds, and until it is over a server may be read-only.
            && (self.at("").is_transient() || self.is_read_only())
    }

    /// Whether the server lets nobody write just now.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.at(""), StoreError::ReadOnly { .. })
    }

    /// Whether a session can be used again once it has rolled back. One that the server spoke to is sound,
    /// except one that may only read: it began when its role or database could not write, and stays as it
    /// is, while a new one may write.
    pub(crate) fn leaves_session_sound(&self) -> bool {
        self.code().is_some_and(|code| *code != SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// Whether an append may be to blame, so that others of its batch can be stored without it.
    pub(crate) fn may_lie_in_append(&self) -> bool {
        self.code().is_some() && !self.is_read_only()
    }

    /// Whether the server itself refused a statement, so that the session is sound.
    pub(crate) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Query(error) => error.code(),
            _ => None,
        }
    }

    /// Whether somebody held a lock for longer than the statement waits.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        self.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether the server ended the statement because it waited for those who waited for it.
    pub(crate) fn is_deadlock(&self) -> bool {
        self.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED)
    }

    /// Whether a prepared statement no longer fits its tables.
    pub(crate) fn is_stale_plan(&self) -> bool {
        let Self::Query(error) = self else { return false };
        let said = error.as_db_error();
        said.is_some_and(|said| {
            *said.code() == SqlState::FEATURE_NOT_SUPPORTED
                && said.message().contains("cached plan")
        })
    }

    /// Whether a unique index refused a row.
    pub(crate) fn is_collision(&self) -> bool {
        self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }
}

/// Why a server, or what stands before it, will not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsuitable {
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

/// The limit of a role or a database, if that is what is reached. The place in the server that says so has one
/// name in all languages.
fn own_limit(error: &Error) -> Option<String> {
    let (whose, what) = match error.as_db_error().and_then(DbError::routine)? {
        "InitializeSessionUserId" => ("role", "ROLE"),
        "CheckMyDatabase" => ("database", "DATABASE"),
        _ => return None,
    };
    Some(format!(
        "the CONNECTION LIMIT of the {whose} is reached, whatever max_connections is (ALTER {what} name \
         CONNECTION LIMIT number changes it)"
    ))
}

/// What PostgreSQL said, on one line. It is the last cause of an error, since it holds the others.
#[derive(Debug)]
struct Said(Arc<Error>);

impl std::error::Error for Said {}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(said) = self.0.as_db_error() {
            f.write_str(said.message())?;
            return said.detail().map_or(Ok(()), |detail| write!(f, " ({detail})"));
        }
        let mut cause: &dyn std::error::Error = self.0.as_ref();
        while let Some(next) = cause.source() {
            cause = next;
        }
        write!(f, "{cause}")
    }
}

fn store_error(at: &str, error: &Arc<Error>) -> StoreError {
    let at = at.to_owned();
    let code = error.code().cloned();
    let source = Box::new(Said(Arc::clone(error)));
    let Some(code) = code else {
        return without_code(at, error);
    };
    if is_lost_statement(error) {
        let Unsuitable { what, remedy } = look_alikes::lost_statement(source.to_string());
        return StoreError::Unsuitable { at, what, remedy };
    }
    match code {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            StoreError::LoginRefused { at, source }
        }
        SqlState::INVALID_CATALOG_NAME => {
            let remedy = "create it (createdb NAME), or name another one in the URL \
                          (postgres://user:password@host:5432/database; without a name, the user's is taken)";
            StoreError::CannotOpen { at, remedy, source }
        }
        SqlState::INSUFFICIENT_PRIVILEGE if !is_about_row(error) => {
            StoreError::Denied { at, source }
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            StoreError::ReadOnly { at, remedy: TO_PRIMARY, source }
        }
        SqlState::DISK_FULL => StoreError::Full { at, source },
        SqlState::IO_ERROR => StoreError::Disk { at, source },
        SqlState::LOCK_NOT_AVAILABLE
        | SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::QUERY_CANCELED
        // The lock table is full: it empties as transactions end.
        | SqlState::OUT_OF_MEMORY => StoreError::Busy { at, source },
        SqlState::CANNOT_CONNECT_NOW => StoreError::Unreachable { at, source },
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => {
            StoreError::ConnectionLost { at, source }
        }
        _ => StoreError::Other { at, source },
    }
}

/// Whether a right is missing for one row only: a policy or a trigger has refused it, and takes others. The place in
/// the server that says so has one name in all languages.
fn is_about_row(error: &Error) -> bool {
    let routine = error.as_db_error().and_then(DbError::routine);
    matches!(routine, Some("ExecWithCheckOptions" | "exec_stmt_raise"))
}

/// Whether a statement that was prepared on this session is not there, or one that was not is. The driver
/// calls them `s0`, `s1` and so on.
fn is_lost_statement(error: &Error) -> bool {
    let lost = [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT];
    error.as_db_error().is_some_and(|said| {
        let name = said.message().split('"').nth(1).and_then(|name| name.strip_prefix('s'));
        lost.contains(said.code()) && name.is_some_and(|number| number.parse::<u64>().is_ok())
    })
}

/// The driver's own errors carry no code, only causes.
fn without_code(at: String, error: &Arc<Error>) -> StoreError {
    let source = Box::new(Said(Arc::clone(error)));
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(error.as_ref());
    while let Some(error) = cause {
        text += &error.to_string();
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            let inner = error.get_ref().map(ToString::to_string).unwrap_or_default();
            return if inner.contains("certificate") {
                StoreError::NotTrusted { at, source }
            } else if inner.contains("does not allow writes") {
                // What the URL asks for by target_session_attrs.
                StoreError::ReadOnly { at, remedy: TO_PRIMARY, source }
            } else {
                StoreError::ConnectionLost { at, source }
            };
        }
        cause = error.source();
    }
    if error.is_closed() || text.contains("closed") {
        StoreError::ConnectionLost { at, source }
    } else if text.contains("password missing") {
        let source =
            "it asks for a password: the URL has none, and PGPASSWORD and .pgpass are not read \
                      (ANABRANCH_URL keeps it out of the arguments of the command line)"
                .into();
        StoreError::LoginRefused { at, source }
    } else if text.contains("password") || text.contains("authentication") {
        StoreError::LoginRefused { at, source }
    } else {
        StoreError::Other { at, source }
    }
}
