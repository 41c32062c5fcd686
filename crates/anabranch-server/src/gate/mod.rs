//! What each request passes before its handler: identity, rights, parameters, and a time limit.
//!
//! | module | subject |
//! |---|---|
//! | `site` | requests from other web sites are refused |
//! | `finish` | what every answer has, and what a panic becomes |
//! | `cookie` | the cookie of a browser |

pub(crate) mod cookie;
pub(crate) mod finish;
mod site;

use crate::caller::Caller;
use crate::page::Params;
use crate::problem::{Problem, without_places};
use crate::routes::{Needs, Rules};
use crate::scope::Scope;
use crate::secret::{Kind, Secret};
use crate::state::{Shared, State as ServerState};
use anabranch::errors::ErrorCode;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a request that waits for something may take until its answer begins.
const LONG: Duration = Duration::from_secs(90);

/// How the caller was identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    Token,
    Session,
    /// Not at all: the server is open.
    Open,
}

/// Who asks, where that was found out before: a live stream looks with the rights of those who watch, and asks again
/// by itself whether they still have them. Nothing that comes from outside can have it.
#[derive(Clone)]
pub(crate) struct Admitted(pub(crate) Caller);

/// The gate of one route.
pub(crate) async fn gate(
    State((state, rules)): State<(Shared, Rules)>,
    request: Request,
    next: Next,
) -> Response {
    let time = if rules.is_long { LONG } else { state.settings.time };
    let places = [state.log.at(), state.access.tables.at()].map(str::to_owned);
    let passed = without_places(places, async {
        match pass(&state, rules, request).await {
            Ok(request) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    });
    match tokio::time::timeout(time, passed).await {
        Ok(response) => response,
        Err(_) => {
            // What has begun is not taken back: a queued append, a plan that is being applied.
            let seconds = time.as_secs_f64();
            let said =
                format!("it did not finish in {seconds} s; what it was to do may still be done");
            Problem::new(ErrorCode::RequestTooSlow, said).into_response()
        }
    }
}

async fn pass(state: &Shared, rules: Rules, request: Request) -> Result<Request, Problem> {
    let (mut parts, body) = request.into_parts();
    if parts.uri.path().contains("%00") {
        return Err(Problem::invalid("there is a NUL in the address; no name has one"));
    }
    if let Some(Admitted(caller)) = parts.extensions.remove::<Admitted>() {
        require(&caller, rules.needs)?;
        keep(&caller, rules)?;
        parts.extensions.insert(caller);
        return with_params(parts, rules).map(|parts| Request::from_parts(parts, body));
    }
    // Where metrics and reasons are open to this machine, a web page must not get at them by DNS rebinding.
    if !rules.is_probe || state.settings.shows_metrics {
        site::check_host(&parts, &state.settings)?;
        site::check_origin(&parts)?;
        must_be_meant(&parts)?;
    }
    if let Some((caller, via)) = admit(state, rules.needs, &parts).await? {
        keep(&caller, rules)?;
        parts.extensions.insert(caller);
        parts.extensions.insert(via);
    }
    with_params(parts, rules).map(|parts| Request::from_parts(parts, body))
}

/// With the parameters of the request, if all of them are the route's.
fn with_params(mut parts: Parts, rules: Rules) -> Result<Parts, Problem> {
    let params = Params::of(&parts)?;
    params.only(rules.params)?;
    parts.extensions.insert(params);
    Ok(parts)
}

/// Identifies again a caller who is still being answered, and checks whether they may go on.
pub(crate) async fn ask_again(
    state: &ServerState,
    parts: &Parts,
    needed: Scope,
) -> Result<Caller, Problem> {
    let (caller, _) = identify(state, parts, Time::Again).await?;
    caller.require(needed)?;
    Ok(caller)
}

/// Identifies the caller, and refuses those who may not.
async fn admit(
    state: &ServerState,
    needs: Needs,
    parts: &Parts,
) -> Result<Option<(Caller, Via)>, Problem> {
    match needs {
        Needs::Nothing => return Ok(None),
        Needs::Metrics if state.settings.shows_metrics => return Ok(None),
        _ => {}
    }
    let (caller, via) = identify(state, parts, Time::First).await?;
    require(&caller, needs)?;
    Ok(Some((caller, via)))
}

/// Refuses who does not have what a route needs.
fn require(caller: &Caller, needs: Needs) -> Result<(), Problem> {
    match needs {
        Needs::Nothing | Needs::Token => Ok(()),
        Needs::Metrics => caller.require(Scope::ReadMasked),
        Needs::Scope(scope) => caller.require(scope),
    }
}

/// Whether somebody asks, or was let in before and is asked about again.
#[derive(Clone, Copy)]
enum Time {
    First,
    Again,
}

/// The caller, and how they were identified.
async fn identify(
    state: &ServerState,
    parts: &Parts,
    time: Time,
) -> Result<(Caller, Via), Problem> {
    let caller = async |secret, kind| match time {
        Time::First => state.access.caller(secret, kind, source(parts)).await,
        Time::Again => state.access.caller_again(secret, kind).await,
    };
    if let Some(given) = bearer(&parts.headers) {
        if given.is_empty() {
            let said = "the header `authorization` is no token with `Bearer` before it; send `authorization: Bearer anb_…`";
            return Err(Problem::new(ErrorCode::NotAuthenticated, said));
        }
        return Ok((caller(Secret::of_token(given), Kind::Token).await?, Via::Token));
    }
    if let Some(secret) = cookie::of(&parts.headers) {
        match caller(Some(secret), Kind::Session).await {
            Ok(caller) => return Ok((caller, Via::Session)),
            // An old cookie does not keep anybody out of an open server.
            Err(problem) if problem.code() != ErrorCode::NotAuthenticated => return Err(problem),
            Err(problem) if !state.settings.is_open => return Err(problem),
            Err(problem) if state.access.any_token().await? => return Err(problem),
            Err(_) => return Ok((Caller::anybody(), Via::Open)),
        }
    }
    if state.settings.is_open && !state.access.any_token().await? {
        return Ok((Caller::anybody(), Via::Open));
    }
    let said = "no credentials; send a token as `authorization: Bearer anb_…`; `anabranch token make` makes one";
    Err(Problem::new(ErrorCode::NotAuthenticated, said))
}

/// Refuses a limited token where its limits would not be enforced.
fn keep(caller: &Caller, rules: Rules) -> Result<(), Problem> {
    let refuse = |to: &str| {
        let said = format!("the token is limited to {to}, and this is about more than these");
        Err(Problem::new(ErrorCode::NotAllowed, said))
    };
    if caller.consumers().is_some() && !rules.keeps_consumers {
        return refuse("consumers");
    }
    if caller.tenants().is_some() && !rules.keeps_tenants {
        return refuse("tenants");
    }
    Ok(())
}

/// Refuses what a page of another site could make a browser send: a request that changes something needs a header
/// that forms cannot send, and that scripts of other sites may not add. A token is such a header.
fn must_be_meant(parts: &Parts) -> Result<(), Problem> {
    let is_safe = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let is_meant = parts.headers.get("x-anabranch").is_some_and(|value| value == "1");
    if is_safe || is_meant || bearer(&parts.headers).is_some() {
        return Ok(());
    }
    let said =
        "without a token, a request that changes something needs the header `x-anabranch: 1`";
    Err(Problem::new(ErrorCode::CrossSite, said))
}

/// What follows `Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(AUTHORIZATION)?;
    // A header that is not text is a wrong token, not a missing one.
    let given = given.to_str().unwrap_or_default();
    match given.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Some(token.trim()),
        _ => Some(""),
    }
}

/// The address that a request comes from, as far as the server knows; that of a proxy if there is one.
pub(crate) fn source(parts: &Parts) -> Option<IpAddr> {
    let info = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    info.map(|ConnectInfo(address)| address.ip())
}
