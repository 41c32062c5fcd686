//! One look at a resource: what is asked, by whose rights, and the event that is sent of the answer.

use crate::caller::{Caller, Known};
use crate::gate::Admitted;
use crate::problem::Problem;
use crate::scope::Scope;
use crate::sse::frame;
use anabranch::errors::ErrorCode;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::sync::Arc;
use tower_service::Service;

/// How large an answer may be that is watched.
const ANSWER: usize = 2 << 20;

/// What is looked at, and by whose rights: those who have the same see the same, so one look is enough for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sight {
    pub(super) path: String,
    masked: bool,
    consumers: Option<BTreeSet<String>>,
    tenants: Option<BTreeSet<String>>,
}

impl Sight {
    pub(super) fn new(path: String, caller: &Caller) -> Self {
        Self {
            path,
            masked: caller.is_masked(),
            consumers: caller.consumers().cloned(),
            tenants: caller.tenants().cloned(),
        }
    }

    /// Somebody with these rights and nothing else: no name, no token. So an answer cannot depend on anything that those
    /// who share it do not share.
    fn caller(&self) -> Caller {
        Caller(Arc::new(Known {
            name: "who watches".to_owned(),
            token: None,
            scopes: vec![if self.masked { Scope::ReadMasked } else { Scope::Read }],
            consumers: self.consumers.clone(),
            tenants: self.tenants.clone(),
            until: None,
        }))
    }

    /// Asks the resource, by its gate and its handler.
    pub(super) async fn look(&self, mut router: Router) -> Bytes {
        let request = Request::get(&self.path).extension(Admitted(self.caller()));
        let response = match request.body(Body::empty()) {
            Ok(request) => match router.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            Err(error) => Problem::invalid(format!("that is no address: {error}")).into_response(),
        };
        let status = response.status().as_u16();
        match text(response).await {
            Some(body) => self.event(status, &body),
            None => {
                let said = format!(
                    "the answer has more than {ANSWER} bytes, which are not sent again at each change; ask for less, by \
                     `limit`, or ask for it by itself"
                );
                self.refused(Problem::new(ErrorCode::BodyTooLarge, said)).await
            }
        }
    }

    /// The event that says why there is no answer.
    pub(super) async fn refused(&self, problem: Problem) -> Bytes {
        let status = problem.status();
        let body = text(problem.into_response()).await;
        self.event(status, body.as_deref().unwrap_or("null"))
    }

    /// The body goes into it as it stands, digit for digit.
    fn event(&self, status: u16, body: &str) -> Bytes {
        let path = Value::from(self.path.as_str());
        frame(None, "answer", &format!(r#"{{"path":{path},"status":{status},"body":{body}}}"#))
    }
}

/// The body of an answer; none if it is too large.
async fn text(response: Response) -> Option<String> {
    let bytes = to_bytes(response.into_body(), ANSWER).await.ok()?;
    let text = String::from_utf8(bytes.to_vec()).ok()?;
    // Whatever is no JSON would spoil the event.
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(_) => Some(text),
        Err(_) => Some("null".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;

    fn sight(path: &str) -> Sight {
        Sight::new(path.to_owned(), &Caller::anybody())
    }

    #[tokio::test]
    async fn an_answer_is_sent_as_it_stands_and_what_is_too_large_is_refused() {
        let router = Router::new()
            .route("/digits", get(|| async { r#"{"a": 1.10}"# }))
            .route("/text", get(|| async { "no JSON" }))
            .route("/large", get(|| async { format!("\"{}\"", "x".repeat(ANSWER)) }));
        let look = async |path: &str| {
            let event = sight(path).look(router.clone()).await;
            String::from_utf8(event.to_vec()).unwrap()
        };
        let digits =
            "event: answer\ndata: {\"path\":\"/digits\",\"status\":200,\"body\":{\"a\": 1.10}}\n\n";
        assert_eq!(look("/digits").await, digits);
        assert!(look("/text").await.contains("\"body\":null}"));
        let large = look("/large").await;
        assert!(large.contains("\"status\":413,\"body\":{") && large.len() < 1000, "{large}");
        assert!(look("/none").await.contains("\"status\":404,\"body\":null"));
    }
}
