//! The headers of every answer, and what becomes of a panic.

use crate::problem::Problem;
use anabranch::errors::ErrorCode;
use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;

/// The headers of an answer unless its handler sets them otherwise: nothing in it may be run, framed, sniffed or stored.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Around everything else.
pub(crate) async fn finish(request: Request, next: Next) -> Response {
    // What a panic leaves behind is dropped with the request; what requests share is in locks that survive it.
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answered.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        tracing::error!(target: "anabranch::server", "a request made the server panic: {said}");
        let said = "a bug in the server; its log has more";
        Problem::new(ErrorCode::ServerPanicked, said).into_response()
    });
    protect(response.headers_mut());
    response
}

fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body, to_bytes};
    use axum::middleware::from_fn;
    use axum::routing::get;
    use axum::{Router, http};
    use tower_service::Service;

    #[tokio::test]
    async fn a_panic_is_a_problem_and_the_next_request_goes_on() {
        async fn panics() {
            panic!("a secret of the handler");
        }
        let routes = Router::new().route("/panics", get(panics)).route("/fine", get(|| async {}));
        let mut router = routes.layer(from_fn(finish));
        let mut ask = async |path: &str| {
            let request = http::Request::get(path).body(Body::empty()).unwrap();
            router.call(request).await.unwrap()
        };
        let answer = ask("/panics").await;
        assert_eq!(answer.status(), 500);
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        let body = to_bytes(answer.into_body(), 10_000).await.unwrap();
        let body = String::from_utf8_lossy(&body);
        assert!(body.contains("server_panicked") && !body.contains("a secret"), "{body}");
        assert_eq!(ask("/fine").await.status(), 200);
    }
}
