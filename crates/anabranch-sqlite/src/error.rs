//! What SQLite's errors mean for the log.

use anabranch_core::StoreError;
use rusqlite::ErrorCode;
use std::sync::Arc;
use thiserror::Error;

/// What SQLite said. It is the last cause of an error: what lies below is only a number. It is
/// shared, since one failed commit is told to every append that was in it.
#[derive(Debug, Error)]
#[error("{0}")]
struct Said(Arc<rusqlite::Error>);

/// The error of a call on the database `at`.
pub(crate) fn store_error(at: &str, error: impl Into<Arc<rusqlite::Error>>) -> StoreError {
    let (at, error) = (at.to_owned(), error.into());
    let code = error.sqlite_error_code();
    let source = Box::new(Said(error));
    match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Busy { at, source }
        }
        Some(ErrorCode::ReadOnly) => {
            let remedy = "check the permissions of the file and its directory, and that the URL \
                          does not say mode=ro";
            StoreError::ReadOnly { at, remedy, source }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full { at, source },
        Some(ErrorCode::SystemIoFailure) => StoreError::Disk { at, source },
        Some(ErrorCode::PermissionDenied) => StoreError::Denied { at, source },
        Some(ErrorCode::CannotOpen) => {
            let remedy = "check that it exists, or that its directory exists and can be written to";
            StoreError::CannotOpen { at, remedy, source }
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            let remedy =
                "check that the file is a SQLite database, and restore it if it is damaged";
            StoreError::CannotOpen { at, remedy, source }
        }
        _ => StoreError::Other { at, source },
    }
}

/// Whether somebody else holds a lock.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether a unique index refused a row.
pub(crate) fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}
