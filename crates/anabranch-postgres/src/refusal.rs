//! What is said about a statement that the server, or the driver before it, refused.

use crate::error::Failure;
use anabranch_core::StoreError;
use anabranch_store::database::{Reason, Statement};
use anabranch_store::misfit::{Misfit, in_statement};
use std::error::Error;
use tokio_postgres::error::DbError;

/// What the server's codes for values begin with: not a number, out of range, too long.
const ABOUT_VALUES: &str = "22";

/// What lies in the statement is the statement's fault; the rest is the database's.
pub(crate) fn reason(at: &str, failure: &Failure, statement: Option<&Statement>) -> Reason {
    match failure.at(at) {
        StoreError::Other { source, .. } => {
            let said = source.to_string();
            Reason::Refused {
                said: match statement {
                    Some(statement) => about(failure, said, statement),
                    None => said,
                },
            }
        }
        other => Reason::Store(other),
    }
}

/// A transaction appends to more streams, tags and types than the server can lock.
pub(crate) fn too_many_locks(at: &str, failure: &Failure) -> Reason {
    let said = failure.at(at).to_string();
    let said = format!(
        "{said}; its lock table is too small for what one transaction appends: raise \
         max_locks_per_transaction on the server, or append to fewer streams and with fewer tags for one event"
    );
    Reason::TooMuch { said }
}

/// What is wrong with a value is said together with the statement.
fn about(failure: &Failure, said: String, statement: &Statement) -> String {
    let Failure::Query(error) = failure else { return said };
    if let Some(misfit) = error.source().and_then(|cause| cause.downcast_ref::<Misfit>()) {
        return misfit.in_statement(statement);
    }
    match error.as_db_error() {
        // The driver: too few values, or a column that it cannot read.
        None => in_statement(&said, statement),
        Some(refused) if refused.code().code().starts_with(ABOUT_VALUES) => {
            let place = parameter(refused).map(|place| format!("{place}: ")).unwrap_or_default();
            in_statement(&format!("{place}{said}"), statement)
        }
        Some(_) => said,
    }
}

/// Which value it is about, where the server read it: `… portal parameter $2`.
fn parameter(refused: &DbError) -> Option<&str> {
    let (_, place) = refused.where_()?.split_once("parameter $")?;
    let digits = place.bytes().take_while(u8::is_ascii_digit).count();
    let end = refused.where_()?.len() - place.len() + digits;
    refused.where_()?.get(end - digits - 1..end)
}
