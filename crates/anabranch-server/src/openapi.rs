//! The description of the API.

use crate::routes::{Needs, Route};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

/// The description, as it is served.
pub(crate) const OPENAPI: &str = include_str!("../openapi.json");

pub(crate) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/openapi.json", Needs::Nothing, openapi).keeps_consumers().keeps_tenants()]
}

async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}
