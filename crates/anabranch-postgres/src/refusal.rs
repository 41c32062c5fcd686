//! What is said about a statement that the server, or the driver before it, refused.

use crate::error::Failure;
use crate::question_marks::has_question_marks;
use crate::ready::BEFORE_FENCED;
use anabranch_core::StoreError;
use anabranch_store::database::{Expect, Reason, Statement, Work};
use anabranch_store::misfit::{AS_NUMBERS, Misfit};
use std::error::Error;
use tokio_postgres::error::{DbError, ErrorPosition};

/// What the server's codes for values begin with: not a number, out of range, too long.
const ABOUT_VALUES: &str = "22";

/// What lies in the statement is the statement's fault; the rest is the database's.
pub(crate) fn reason(at: &str, failure: &Failure, statement: Option<&Statement>) -> Reason {
    match failure.at(at) {
        StoreError::Other { source, .. } => {
            let said = source.to_string();
            match statement {
                Some(statement) => {
                    let said = about(failure, said, statement);
                    Reason::refused_in(statement, said, place(failure, statement))
                }
                None => Reason::refused(said),
            }
        }
        other => Reason::Store(other),
    }
}

/// Where in a statement an error lies: the server counts characters of what it was sent, from 1.
fn place(failure: &Failure, statement: &Statement) -> Option<usize> {
    let Failure::Query(error) = failure else { return None };
    let ErrorPosition::Original(position) = error.as_db_error()?.position()? else { return None };
    let Work::Sql(sql, _) = &statement.work else { return None };
    let before = match statement.expect {
        Expect::Changes(_) => BEFORE_FENCED.chars().count(),
        Expect::Nothing | Expect::Rows => 0,
    };
    let characters = usize::try_from(*position).ok()?.checked_sub(before + 1)?;
    // It may lie at the end, where something is missing.
    let mut ends = sql.char_indices().map(|(at, _)| at).chain([sql.len()]);
    ends.nth(characters)
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

/// What is wrong with a value is said together with its place.
fn about(failure: &Failure, said: String, statement: &Statement) -> String {
    let Failure::Query(error) = failure else { return said };
    if let Some(misfit) = error.source().and_then(|cause| cause.downcast_ref::<Misfit>()) {
        return misfit.said_in(statement);
    }
    // Else it is the driver: too few values, or a column that it cannot read.
    let Some(refused) = error.as_db_error() else { return said };
    if refused.code().code().starts_with(ABOUT_VALUES) {
        let place = parameter(refused)
            .map(|number| format!("{}: ", statement.value_name(number)))
            .unwrap_or_default();
        return format!("{place}{said}");
    }
    match &statement.work {
        Work::Sql(sql, _) if has_question_marks(refused.code(), sql) => {
            format!("{said}; {AS_NUMBERS}")
        }
        _ => said,
    }
}

/// Which value it is about, where the server read it: `… portal parameter $2`.
fn parameter(refused: &DbError) -> Option<usize> {
    let (_, place) = refused.where_()?.split_once("parameter $")?;
    let digits = place.bytes().take_while(u8::is_ascii_digit).count();
    place.get(..digits)?.parse().ok()
}
