//! Operations: planned, applied, cancelled, and the journal of all of them.
//!
//! Nothing is changed in another way here: whoever operates over HTTP says first what is to be done, and gets a plan that
//! says what that would do.

use crate::body::Body;
use crate::caller::Caller;
use crate::page::{List, Params};
use crate::problem::Problem;
use crate::routes::{Needs, Route};
use crate::scope::Scope;
use crate::state::{Shared, State as Server};
use anabranch::errors::ErrorCode;
use anabranch::operations::{By, JournalEntry, JournalFilter, Operations, Plan, Request};
use anabranch::workpool::Tasks;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use std::sync::{Arc, Weak};
use std::time::Duration;
use uuid::Uuid;

/// How many plans may be carried out step by step at the same time.
pub(crate) const APPLYING: usize = 16;
/// How often to look for what was left.
const LOOK: Duration = Duration::from_secs(10);
/// How long an answer waits for the end of what goes step by step.
const AT_ONCE: Duration = Duration::from_secs(1);

pub(crate) fn routes() -> Vec<Route> {
    let (read, operate) = (Needs::Scope(Scope::ReadMasked), Needs::Scope(Scope::Operate));
    let routes = [
        Route::post("/v1/plans", operate, make),
        Route::get("/v1/plans", read, list).takes(&["target", "limit"]).watched(),
        Route::get("/v1/plans/{id}", read, show).watched(),
        Route::post("/v1/plans/{id}/apply", operate, apply),
        Route::post("/v1/plans/{id}/cancel", operate, cancel),
        Route::get("/v1/journal", read, journal)
            .takes(&["target", "plan", "before", "limit"])
            .watched(),
    ];
    routes.into_iter().map(Route::keeps_consumers).collect()
}

/// Goes on with what a server has begun to carry out and left, for as long as the API is there. What a command has left
/// is its user's to go on with.
pub(crate) async fn take_up(state: Weak<Server>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(state) = state.upgrade() else { return };
        let operations = Operations::new(&state.log, By::new("the server", "api"));
        // A log that is older than plans has none, and one that is away is asked again.
        let Ok(left) = operations.abandoned().await else { continue };
        for plan in left.into_iter().filter(|plan| plan.via != "cli" && plan.via != "library") {
            let Ok(place) = Arc::clone(&state.applying).try_acquire_owned() else { break };
            let operations = operations.by(By::new(&plan.who, &plan.via));
            tokio::spawn(async move {
                if let Err(error) = operations.apply(plan.id, |_| {}).await {
                    let id = plan.id;
                    tracing::warn!(target: "anabranch::server", "plan {id} was not carried out to its end: {error}");
                }
                drop(place);
            });
        }
    }
}

/// The operations of whoever asks: a browser that is logged in is the console.
fn operations(state: &Server, caller: &Caller, headers: &HeaderMap) -> Operations {
    let is_browser = caller.has_token() && !headers.contains_key(AUTHORIZATION);
    let via = if is_browser { "console" } else { "api" };
    Operations::new(&state.log, By::new(caller.name(), via))
}

/// Whether what an operation is about is there for the caller.
async fn sees(state: &Server, caller: &Caller, request: &Request) -> Result<bool, Problem> {
    if caller.consumers().is_none() {
        return Ok(true);
    }
    match request {
        Request::Task { id, .. } => {
            let task = Tasks::new(&state.log, "").status(*id).await?;
            Ok(task.is_some_and(|task| caller.sees_consumer(&task.pool)))
        }
        // A set runs other consumers as well, and a name of a table may be anybody's.
        Request::Rebalance { .. } => Ok(false),
        Request::SwitchRebuild { tables, .. } if !tables.is_empty() => Ok(false),
        request => Ok(caller.sees_consumer(&request.target())),
    }
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
    caller: Caller,
    headers: HeaderMap,
    Body(request): Body<Request>,
) -> Result<(StatusCode, Json<Plan>), Problem> {
    must_not_guess(&caller, &request)?;
    if !sees(&state, &caller, &request).await? {
        let said = format!("there is no consumer or pool `{}`", request.target().escape_debug());
        return Err(Problem::new(ErrorCode::NoSuchConsumer, said));
    }
    let plan = operations(&state, &caller, &headers).plan(&request).await?;
    Ok((StatusCode::CREATED, Json(plan)))
}

async fn list(
    State(state): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    params: Params,
) -> Result<Json<List<Plan>>, Problem> {
    let target = target(&caller, &params)?;
    let found = operations(&state, &caller, &headers).plans(target, params.limit()?).await?;
    let mut seen = Vec::new();
    for plan in found {
        if sees(&state, &caller, &plan.request).await? {
            seen.push(plan);
        }
    }
    Ok(Json(List::whole(seen)))
}

/// A plan that is there for the caller.
async fn find(
    state: &Server,
    caller: &Caller,
    operations: &Operations,
    id: &str,
) -> Result<Plan, Problem> {
    let id: Uuid = id.parse().map_err(|_| Problem::invalid("the id of a plan is a UUID"))?;
    let plan = operations.get(id).await?;
    match sees(state, caller, &plan.request).await? {
        true => Ok(plan),
        false => Err(Problem::new(ErrorCode::NoSuchPlan, format!("there is no plan {id}"))),
    }
}

async fn show(
    State(state): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<Plan>, Problem> {
    let operations = operations(&state, &caller, &headers);
    Ok(Json(find(&state, &caller, &operations, &id).await?))
}

/// What goes step by step goes on after the answer, which says that it is running.
async fn apply(
    State(state): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Plan>), Problem> {
    let operations = operations(&state, &caller, &headers);
    let plan = find(&state, &caller, &operations, &id).await?;
    let (id, is_of_many) = (plan.id, plan.request.is_of_many());
    let Ok(place) = Arc::clone(&state.applying).try_acquire_owned() else {
        let said = "this server carries out as many plans as it can at the same time; try again when one has ended";
        return Err(Problem::new(ErrorCode::TooManyRequests, said).after_seconds(5));
    };
    let goes_on = operations.clone();
    // A client that goes away ends nothing that it has begun.
    let mut applying = tokio::spawn(async move {
        let applied = goes_on.apply(id, |_| {}).await;
        if let Err(error) = &applied {
            // Whoever asked may be gone by now.
            tracing::warn!(target: "anabranch::server", "plan {id} was not carried out to its end: {error}");
        }
        drop(place);
        applied
    });
    // What is one transaction is over when this answers.
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

async fn cancel(
    State(state): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<Plan>, Problem> {
    let operations = operations(&state, &caller, &headers);
    let plan = find(&state, &caller, &operations, &id).await?;
    Ok(Json(operations.cancel(plan.id).await?))
}

/// What is asked about. Who is limited to consumers has to say of which.
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
    State(state): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
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
    let entries = operations(&state, &caller, &headers).journal(&filter).await?;
    Ok(Json(List::page(entries, limit, |entry| entry.seq.to_string())))
}
