//! Operations: planned, applied, cancelled, and the journal of all of them.
//!
//! Nothing is changed in another way here: an operation over HTTP is first a plan, which says what it would do.
//!
//! | module | subject |
//! |---|---|
//! | `asked` | who operates, and on which plan |
//! | `applying` | the plans that this process carries out |
//! | `taking_up` | going on with those that a server has left |

mod applying;
mod asked;
mod taking_up;

pub(crate) use applying::Applying;
pub(crate) use taking_up::take_up;

use crate::body::Body;
use crate::caller::Caller;
use crate::meant::Meant;
use crate::page::{List, Params};
use crate::problem::Problem;
use crate::routes::{Needs, Route};
use crate::scope::Scope;
use crate::state::Shared;
use anabranch::errors::ErrorCode;
use anabranch::operations::{JournalEntry, JournalFilter, Plan, Request};
use applying::carry_out;
use asked::{FoundPlan, Operator, sees, sees_plan};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use std::time::Duration;

/// How long an answer waits for the end of what goes step by step.
const AT_ONCE: Duration = Duration::from_secs(1);

pub(crate) fn routes() -> Vec<Route> {
    let (read, operate) = (Needs::Scope(Scope::ReadMasked), Needs::Scope(Scope::Operate));
    let routes = [
        Route::post("/v1/plans", operate, make),
        Route::get("/v1/plans", read, list).takes(&["target", "limit"]).watched(),
        Route::get("/v1/plans/{id}", read, show).watched(),
        // It waits for as long as other requests may take, and then has something to say.
        Route::post("/v1/plans/{id}/apply", operate, apply).long(),
        Route::post("/v1/plans/{id}/cancel", operate, cancel),
        Route::get("/v1/journal", read, journal)
            .takes(&["target", "plan", "before", "limit"])
            .watched(),
    ];
    routes.into_iter().map(Route::keeps_consumers).collect()
}

/// Refuses a filter by what handlers have said to those who may not read that: they would read it by guessing.
fn must_not_guess(caller: &Caller, request: &Request) -> Result<(), Problem> {
    let by_error = match request {
        Request::Parked { filter, .. } => filter.error_contains.is_some(),
        Request::Tasks { conditions, .. } => {
            conditions.iter().any(|text| text.trim_start().starts_with("error"))
        }
        _ => false,
    };
    if by_error { caller.require(Scope::Read) } else { Ok(()) }
}

async fn make(
    State(state): State<Shared>,
    Operator { caller, operations }: Operator,
    Body(meant): Body<Meant>,
) -> Result<(StatusCode, Json<Plan>), Problem> {
    let request = meant.request()?;
    must_not_guess(&caller, &request)?;
    if !sees(&state, &caller, &request).await? {
        let said = format!("there is no consumer or pool `{}`", request.target().escape_debug());
        return Err(Problem::new(ErrorCode::NoSuchConsumer, said));
    }
    Ok((StatusCode::CREATED, Json(operations.plan(&request).await?)))
}

async fn list(
    State(state): State<Shared>,
    Operator { caller, operations }: Operator,
    params: Params,
) -> Result<Json<List<Plan>>, Problem> {
    let target = target(&caller, &params)?;
    let mut seen = Vec::new();
    for plan in operations.plans(target, params.limit()?).await? {
        if sees_plan(&state, &caller, &plan).await? {
            seen.push(plan);
        }
    }
    Ok(Json(List::whole(seen)))
}

async fn show(FoundPlan { plan, .. }: FoundPlan) -> Json<Plan> {
    Json(plan)
}

/// What goes step by step goes on after the answer, which says that it is running. So does what takes longer than a
/// request may.
async fn apply(
    State(state): State<Shared>,
    FoundPlan { operations, plan }: FoundPlan,
) -> Result<(StatusCode, Json<Plan>), Problem> {
    let (id, is_of_many) = (plan.id, plan.request.as_ref().is_some_and(Request::is_of_many));
    // What is one transaction takes no place: it is what is urgent, and is over soon.
    let place = if is_of_many { Some(state.applying.begin(id)?) } else { None };
    let mut applying = carry_out(operations.clone(), id, place);
    let at_once = if is_of_many { AT_ONCE } else { state.settings.time };
    match tokio::time::timeout(at_once, &mut applying).await {
        Ok(applied) => {
            let applied = applied.map_err(|_| {
                let said = "applying the plan has failed; look at it again";
                Problem::new(ErrorCode::ServerPanicked, said)
            })?;
            Ok((StatusCode::OK, Json(applied?)))
        }
        Err(_) => Ok((StatusCode::ACCEPTED, Json(operations.get(id).await?))),
    }
}

async fn cancel(FoundPlan { operations, plan }: FoundPlan) -> Result<Json<Plan>, Problem> {
    Ok(Json(operations.cancel(plan.id).await?))
}

/// What is asked about. Callers that are limited to consumers have to say which.
fn target<'p>(caller: &Caller, params: &'p Params) -> Result<Option<&'p str>, Problem> {
    match params.one("target")? {
        None if caller.consumers().is_some() => {
            let said = "the token is limited to consumers; say which one: `?target=NAME`";
            Err(Problem::invalid(said))
        }
        target => Ok(target),
    }
}

async fn journal(
    Operator { caller, operations }: Operator,
    params: Params,
) -> Result<Json<List<JournalEntry>>, Problem> {
    let target = target(&caller, &params)?;
    if target.is_some_and(|target| !caller.sees_consumer(target)) {
        return Ok(Json(List::whole(Vec::new())));
    }
    let limit = params.limit()?;
    let filter = JournalFilter {
        target: target.map(str::to_owned),
        plan: params.parsed("plan", "the id of a plan")?,
        before: params.parsed("before", "the number of an entry")?,
        // One more, to see whether there are more.
        limit: limit + 1,
    };
    let entries = operations.journal(&filter).await?;
    Ok(Json(List::page(entries, limit, |entry| entry.seq.to_string())))
}
