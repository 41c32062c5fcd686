//! `/metrics`, `/livez` and `/readyz`: for Prometheus and for probes.

use crate::problem::Problem;
use crate::routes::{Needs, Route};
use crate::state::Shared;
use anabranch::errors::ErrorCode;
use anabranch::watch::{Format, NotReady, Watch};
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;

const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/metrics", Needs::Metrics, metrics).for_probes(),
        Route::get("/livez", Needs::Nothing, live).for_probes(),
        Route::get("/readyz", Needs::Nothing, ready).for_probes(),
    ]
}

fn watch(state: &Shared) -> Result<&Watch, Problem> {
    let none = || Problem::new(ErrorCode::NoSuchRoute, "nothing is watched here");
    state.watch.as_ref().ok_or_else(none)
}

async fn metrics(
    State(state): State<Shared>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let watch = watch(&state)?;
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::accepted_by(accept.unwrap_or_default());
    Ok(([(CONTENT_TYPE, format.content_type())], watch.metrics(format).await))
}

async fn live(State(state): State<Shared>) -> Result<impl IntoResponse, Problem> {
    Ok(health(watch(&state)?.live(), &state))
}

async fn ready(State(state): State<Shared>) -> Result<impl IntoResponse, Problem> {
    Ok(health(watch(&state)?.ready().await, &state))
}

/// Probes send no token. The reason why it is not ready names databases, so it is only given where metrics are open.
fn health(is: Result<(), NotReady>, state: &Shared) -> impl IntoResponse + use<> {
    let (status, said) = match is {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) if state.settings.shows_metrics => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".to_owned()),
    };
    (status, [(CONTENT_TYPE, TEXT)], said)
}
