//! `/v1/batches`: jobs of batch records, who runs them, and rows that have failed.
//!
//! A batch names the tables that it keeps its log in, so whoever looks names them, too.

use super::READ;
use crate::caller::Caller;
use crate::page::{List, Params};
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use anabranch::batch::jobs::LOG_TABLE;
use anabranch::batch::{FailedRow, Job, Jobs};
use anabranch::errors::ErrorCode;
use axum::Json;
use axum::extract::{Path, State};

/// PostgreSQL has no longer names.
const MAX_NAME: usize = 63;

pub(super) fn routes() -> Vec<Route> {
    let params: &[&str] = &["table", "limit", "after"];
    vec![
        Route::get("/v1/batches", READ, list).takes(params).watched(),
        Route::get("/v1/batches/{job}/failed", READ, failed).takes(params),
    ]
}

/// By their names.
async fn list(
    State(state): State<Shared>,
    caller: Caller,
    params: Params,
) -> Result<Json<List<Job>>, Problem> {
    let limit = params.limit()?;
    let jobs = Jobs::new(&state.log, table(&params)?);
    let mut found = jobs.list(params.one("after")?, limit + 1).await?;
    if caller.is_masked() {
        // A query may name whom it is about.
        let queries = found.iter_mut().filter_map(|job| job.of.as_mut());
        queries.filter(|of| of.kind != "table").for_each(|of| of.source.clear());
    }
    Ok(Json(List::page(found, limit, |job| job.job.clone())))
}

/// By their keys.
async fn failed(
    State(state): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    params: Params,
) -> Result<Json<List<FailedRow>>, Problem> {
    let jobs = Jobs::new(&state.log, table(&params)?);
    let found = jobs.failed(&job, params.one("after")?, params.limit()?).await?;
    let mut found = found.ok_or_else(|| {
        let said = format!("there is no job `{}` in that processing log", job.escape_debug());
        Problem::new(ErrorCode::NoSuchJob, said)
    })?;
    if caller.is_masked() {
        // What a handler says often quotes the row.
        found.rows.iter_mut().for_each(|row| row.error.clear());
    }
    Ok(Json(List { items: found.rows, next: found.next }))
}

/// Which processing log is meant: a name, with its schema before a dot if it has one.
fn table(params: &Params) -> Result<&str, Problem> {
    let name = params.one("table")?.unwrap_or(LOG_TABLE);
    let is_name = |part: &str| {
        let letters = part.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        letters && (1..=MAX_NAME).contains(&part.len())
    };
    if name.split('.').count() > 2 || !name.split('.').all(is_name) {
        let said = "`table` is the name of a processing log: letters, digits and `_`, with its schema before a dot \
                    if it has one";
        return Err(Problem::invalid(said));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn is_taken(name: &str) -> bool {
        let uri = format!("/v1/batches?table={name}");
        let (parts, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
        table(&Params::of(&parts).unwrap()).is_ok()
    }

    #[test]
    fn a_name_is_taken_and_nothing_else() {
        for name in ["processing_log", "intake.log_2", "_", "pr%C3%BCfungen", &"a".repeat(63)] {
            assert!(is_taken(name), "{name}");
        }
        let long = "a".repeat(64);
        for name in [
            "", ".", "a.", ".a", "a.b.c", "a%20b", "a-b", "a%22b", "a'b", "a;b", "a%2F*", "a$1",
            "a(b)", &long,
        ] {
            assert!(!is_taken(name), "{name}");
        }
    }
}
