//! Errors as `application/problem+json` (RFC 9457), with the stable codes of `docs/errors.md`.

use crate::token::TokenError;
use anabranch::AppendError;
use anabranch::errors::{ErrorCode, ErrorKind, error_code};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::error::Error;

/// After how many seconds to try again while the database is away.
const AGAIN_SECONDS: u64 = 2;

/// Why a request was not answered as asked.
///
/// Every error of the library becomes one by `?`. The caller reads the text of the error. An error without a code is
/// written to the log instead, and the caller reads nothing of it.
///
/// ```
/// use anabranch::errors::ErrorCode;
/// use anabranch_server::Problem;
/// let problem = Problem::new(ErrorCode::NoSuchTask, "there is no task 7").with("task", 7);
/// assert_eq!((problem.status(), problem.code()), (404, ErrorCode::NoSuchTask));
/// ```
#[derive(Debug)]
pub struct Problem(Box<Parts>);

#[derive(Debug)]
struct Parts {
    code: ErrorCode,
    status: StatusCode,
    detail: String,
    members: Map<String, Value>,
    retry_after: Option<u64>,
}

impl Problem {
    /// With the status of its code.
    #[must_use]
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let status = status_of(code);
        let is_away = status == StatusCode::SERVICE_UNAVAILABLE;
        Self(Box::new(Parts {
            code,
            status,
            detail: detail.into(),
            members: Map::new(),
            retry_after: is_away.then_some(AGAIN_SECONDS),
        }))
    }

    /// Invalid input.
    #[must_use]
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidInput, detail)
    }

    /// With one more member, for programs to read.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.0.members.insert(name.to_owned(), value);
        self
    }

    /// With the seconds after which to try again.
    #[must_use]
    pub(crate) fn after_seconds(mut self, seconds: u64) -> Self {
        self.0.retry_after = Some(seconds);
        self
    }

    /// Its status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.0.status.as_u16()
    }

    /// Its code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// An error of a library, or what came of one.
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let code = error.downcast_ref::<TokenError>().map(TokenError::code);
        let Some(code) = code.or_else(|| error_code(error)) else {
            tracing::error!(target: "anabranch::server", "a request failed: {error}");
            let said = "the server could not do this; its log says why";
            return Self::new(ErrorCode::DatabaseError, said);
        };
        let problem = Self::new(code, without_place(&error.to_string()));
        match error.downcast_ref::<AppendError>() {
            Some(error) => problem.with_conflict(error),
            None => problem,
        }
    }

    fn body(&self) -> Value {
        let Parts { code, status, detail, members, .. } = &*self.0;
        let mut body = json!({
            "type": format!("errors#{code}"),
            "title": title(*code),
            "status": status.as_u16(),
            "detail": detail,
            "code": code,
            "kind": ErrorKind::name(code.kind()),
        });
        if let Value::Object(body) = &mut body {
            for (name, value) in members {
                // What the standard names is never taken by a member of ours.
                body.entry(name).or_insert_with(|| value.clone());
            }
        }
        body
    }

    /// With what a caller needs to decide anew.
    fn with_conflict(self, error: &AppendError) -> Self {
        match error {
            AppendError::Conflict { stream, expected, actual, .. } => self
                .with("stream", stream.to_string())
                .with("expected", expected.to_string())
                .with("actual", actual),
            _ => self,
        }
    }
}

tokio::task_local! {
    /// Where the databases of the request are, as errors name them.
    static PLACES: [String; 2];
}

/// Answers a request. What is said of errors meanwhile names the databases no more.
pub(crate) async fn without_places<F: Future>(places: [String; 2], answering: F) -> F::Output {
    PLACES.scope(places, answering).await
}

/// What an error says, without where the database is: that is for those who run the server.
fn without_place(said: &str) -> String {
    let leave_out =
        |places: &[String; 2]| places.iter().fold(said.to_owned(), |said, at| leave_out(&said, at));
    PLACES.try_with(leave_out).unwrap_or_else(|_| said.to_owned())
}

/// A text without this place.
pub(crate) fn leave_out(said: &str, place: &str) -> String {
    if place.is_empty() {
        return said.to_owned();
    }
    let said = said.strip_prefix(&format!("{place}: ")).unwrap_or(said);
    said.replace(place, "the database")
}

/// The status of a code: that of its kind, except for those of HTTP itself.
fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::NotAuthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::NotAllowed | ErrorCode::WrongHost | ErrorCode::CrossSite => {
            StatusCode::FORBIDDEN
        }
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        other => StatusCode::from_u16(other.kind().http_status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// A title for people: the code in words.
fn title(code: ErrorCode) -> String {
    code.name().replace('_', " ")
}

impl<E: Error + 'static> From<E> for Problem {
    fn from(error: E) -> Self {
        Self::of(&error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.body();
        let Parts { code, status, retry_after, .. } = *self.0;
        let mut response = (status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if code == ErrorCode::NotAuthenticated {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch::StoreError;

    #[test]
    fn a_database_that_is_away_is_worth_another_try() {
        let response = Problem::from(StoreError::Closed).into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }

    #[test]
    fn what_has_no_code_is_not_told() {
        let problem = Problem::from(std::io::Error::other("the password is 7"));
        assert_eq!(problem.status(), 500);
        assert!(!problem.0.detail.contains("password"));
    }

    #[test]
    fn no_member_takes_the_place_of_one_of_the_standard() {
        let problem = Problem::invalid("a").with("detail", "b").with("x", 1);
        let members = &problem.0.members;
        assert_eq!(members.len(), 2);
        let body = problem.body();
        assert_eq!((&body["detail"], &body["x"]), (&json!("a"), &json!(1)));
    }

    #[test]
    fn every_code_has_a_status_of_an_error() {
        for code in ErrorCode::ALL {
            assert!((400..=599).contains(&status_of(*code).as_u16()), "{code}");
        }
    }
}
