//! Who operates, and on which plan: what handlers take as arguments.

use crate::caller::Caller;
use crate::problem::Problem;
use crate::state::{Shared, State as Server};
use anabranch::operations::{By, OperationError, Operations, Plan, Request};
use anabranch::workpool::Tasks;
use axum::extract::{FromRequestParts, Path};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use uuid::Uuid;

/// Who operates, and the operations in their name.
pub(super) struct Operator {
    pub(super) caller: Caller,
    pub(super) operations: Operations,
}

/// The plan that the path names, which is there for the caller.
pub(super) struct FoundPlan {
    pub(super) operations: Operations,
    pub(super) plan: Plan,
}

impl FromRequestParts<Shared> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, state).await?;
        // A browser that is logged in is the console.
        let is_browser = caller.has_token() && !parts.headers.contains_key(AUTHORIZATION);
        let via = if is_browser { "console" } else { "api" };
        let operations = Operations::new(&state.log, By::new(caller.name(), via));
        Ok(Self { caller, operations })
    }
}

impl FromRequestParts<Shared> for FoundPlan {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let Operator { caller, operations } = Operator::from_request_parts(parts, state).await?;
        let id = Path::<String>::from_request_parts(parts, state).await;
        let id = id.ok().and_then(|Path(id)| id.parse::<Uuid>().ok());
        let id = id.ok_or_else(|| Problem::invalid("the id of a plan is a UUID"))?;
        let plan = operations.get(id).await?;
        match sees_plan(state, &caller, &plan).await? {
            true => Ok(Self { operations, plan }),
            // Word for word as one that does not exist.
            false => Err(OperationError::NoSuchPlan { id }.into()),
        }
    }
}

/// Whether a plan is there for the caller. What one is about that this server cannot read is known to nobody, so it is
/// there for those who see all.
pub(super) async fn sees_plan(
    state: &Server,
    caller: &Caller,
    plan: &Plan,
) -> Result<bool, Problem> {
    match &plan.request {
        Some(request) => sees(state, caller, request).await,
        None => Ok(caller.consumers().is_none()),
    }
}

/// Whether what an operation is about is there for the caller.
pub(super) async fn sees(
    state: &Server,
    caller: &Caller,
    request: &Request,
) -> Result<bool, Problem> {
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
