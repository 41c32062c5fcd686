//! What each request passes before its handler: who asks, whether they may, what they ask for, how long it takes.

use crate::caller::Caller;
use crate::page::Params;
use crate::problem::Problem;
use crate::routes::{Needs, Rules};
use crate::state::Shared;
use anabranch::errors::ErrorCode;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::time::Duration;

/// How long a request may take that waits for something, until its answer begins.
const LONG: Duration = Duration::from_secs(90);

/// The gate of one route.
pub(crate) async fn gate(
    State((state, rules)): State<(Shared, Rules)>,
    request: Request,
    next: Next,
) -> Response {
    let time = if rules.is_long { LONG } else { state.settings.time };
    let passed = async {
        match pass(&state, rules, request).await {
            Ok(request) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    };
    match tokio::time::timeout(time, passed).await {
        Ok(response) => response,
        Err(_) => {
            let said = format!("it took longer than {} s, and was given up", time.as_secs());
            Problem::new(ErrorCode::RequestTooSlow, said).into_response()
        }
    }
}

async fn pass(_state: &Shared, rules: Rules, request: Request) -> Result<Request, Problem> {
    let (mut parts, body) = request.into_parts();
    let caller = Caller::anybody();
    match rules.needs {
        Needs::Nothing | Needs::Metrics | Needs::Token => {}
        Needs::Scope(scope) => caller.require(scope)?,
    }
    let params = Params::of(&parts)?;
    params.only(rules.params)?;
    parts.extensions.insert(caller);
    parts.extensions.insert(params);
    Ok(Request::from_parts(parts, body))
}
