//! `/v1/session`: browsers log in with a token and get a cookie, and callers find out who they are.

use crate::body::Body;
use crate::caller::Caller;
use crate::gate::{Via, cookie, source};
use crate::problem::Problem;
use crate::routes::{Needs, Route};
use crate::scope::Scope;
use crate::secret::{Kind, Secret};
use crate::state::Shared;
use anabranch::errors::ErrorCode;
use axum::Extension;
use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/session", Needs::Token, who_am_i).keeps_consumers().keeps_tenants(),
        Route::post("/v1/session", Needs::Nothing, log_in),
        Route::delete("/v1/session", Needs::Nothing, log_out),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogIn {
    token: String,
}

/// Who the caller is, and what they may do.
#[derive(Serialize)]
struct Me {
    name: String,
    /// The id of the token; none while the server is open.
    token: Option<String>,
    via: &'static str,
    scopes: Vec<Scope>,
    /// Whether bodies of events are hidden from them.
    masked: bool,
    consumers: Option<BTreeSet<String>>,
    tenants: Option<BTreeSet<String>>,
}

impl Me {
    fn of(caller: &Caller, via: Via) -> Self {
        let via = match via {
            Via::Token => "token",
            Via::Session => "session",
            Via::Open => "open",
        };
        Self {
            name: caller.name().to_owned(),
            token: caller.0.token.clone(),
            via,
            scopes: caller.0.scopes.clone(),
            masked: caller.is_masked(),
            consumers: caller.consumers().cloned(),
            tenants: caller.tenants().cloned(),
        }
    }
}

/// Where a request comes from, to count wrong tries.
struct Source(Option<IpAddr>);

impl<S: Send + Sync> FromRequestParts<S> for Source {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(source(parts)))
    }
}

async fn who_am_i(caller: Caller, Extension(via): Extension<Via>) -> Json<Me> {
    Json(Me::of(&caller, via))
}

async fn log_in(
    State(state): State<Shared>,
    Source(source): Source,
    headers: HeaderMap,
    Body(LogIn { token }): Body<LogIn>,
) -> Result<Response, Problem> {
    let caller = state.access.caller(Secret::of_token(&token), Kind::Token, source).await?;
    let secret = state.access.begin_session(&caller).await?;
    let mut response = Json(Me::of(&caller, Via::Session)).into_response();
    let cookie = cookie::set(&secret, &state.settings, is_encrypted(&headers));
    response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

/// It needs no session: logging out twice is fine. A cookie without a session counts as a wrong one, and writes nothing.
async fn log_out(
    State(state): State<Shared>,
    Source(source): Source,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if let Some(secret) = cookie::of(&headers) {
        match state.access.caller(Some(secret.clone()), Kind::Session, source).await {
            Ok(_) => state.access.end_session(&secret).await?,
            Err(problem) if problem.code() == ErrorCode::NotAuthenticated => {}
            Err(problem) => return Err(problem),
        }
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    let cookie = cookie::clear(&state.settings, is_encrypted(&headers));
    response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}

/// Whether a proxy says that the browser's connection is encrypted. A lie only makes the liar's own cookie stricter.
fn is_encrypted(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https")
}
