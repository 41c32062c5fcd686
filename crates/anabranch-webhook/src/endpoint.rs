//! Where messages go: an address, its secrets, and what an answer means.

use crate::client::{Client, NoReply, Reply};
use crate::connect::CONNECT;
use crate::secret::Secrets;
use anabranch_core::Event;
use anabranch_runtime::HandlerError;
use anabranch_store::trace::{self, Work};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, StatusCode, Uri};
use jiff::Timestamp;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How much of an answer is read, and how much of it is kept.
const READ: usize = 64 * 1024;
const KEPT: usize = 500;
/// Headers that are not to be set. A context of a trace that stands in a file would be the same for all messages.
const OURS: [&str; 7] = [
    "content-type",
    "content-length",
    "host",
    "transfer-encoding",
    "connection",
    "traceparent",
    "tracestate",
];
/// How long an answer may take, unless something else is said.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Where messages go.
///
/// ```
/// use anabranch_webhook::{Endpoint, Secrets};
/// use std::time::Duration;
/// let endpoint = Endpoint::new("https://example.com/hook")?
///     .secrets(Secrets::of(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])?)
///     .header("authorization", "Bearer 42")?
///     .timeout(Duration::from_secs(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Endpoint {
    uri: Uri,
    headers: HeaderMap,
    secrets: Option<Secrets>,
    timeout: Duration,
    allows_private: bool,
    transport: Transport,
}

#[derive(Clone, Debug)]
enum Transport {
    /// Not chosen yet.
    Unset,
    Http(Client),
    Recorder(Recorder),
}

/// Why something is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// It is no URL of the web.
    #[error("`{0}` is no http or https URL")]
    Url(String),
    /// It has a user or a password in it, which are not sent.
    #[error(
        "a user and a password in the URL are not sent; put them into a header: \
         headers = {{ Authorization = \"${{VARIABLE}}\" }}"
    )]
    Password,
    /// A header cannot be sent.
    #[error(
        "`{0}` is no header that can be sent, or its value has characters that a header cannot have"
    )]
    Header(String),
    /// A header belongs to the specification.
    #[error("the header `{0}` is set by the webhook itself; leave it out")]
    Reserved(String),
}

impl Endpoint {
    /// An endpoint with this address.
    pub fn new(url: &str) -> Result<Self, EndpointError> {
        let wrong = || EndpointError::Url(without_password(url));
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_web || uri.host().is_none_or(str::is_empty) {
            return Err(wrong());
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(EndpointError::Password);
        }
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (
                USER_AGENT,
                HeaderValue::from_static(concat!("anabranch/", env!("CARGO_PKG_VERSION"))),
            ),
        ]);
        let (timeout, transport) = (TIMEOUT, Transport::Unset);
        Ok(Self { uri, headers, secrets: None, timeout, allows_private: false, transport })
    }

    /// One that nothing can be sent to: a name that nobody may have.
    pub fn nowhere() -> Self {
        let (uri, headers) = (Uri::from_static("http://nowhere.invalid"), HeaderMap::new());
        let (timeout, transport) = (TIMEOUT, Transport::Unset);
        Self { uri, headers, secrets: None, timeout, allows_private: false, transport }
    }

    /// Signs messages with these.
    pub fn secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// Adds a header to each message.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, EndpointError> {
        let wrong = || EndpointError::Header(name.to_owned());
        let lower = name.to_ascii_lowercase();
        let is_ours = lower.starts_with("webhook-") || OURS.contains(&lower.as_str());
        if is_ours {
            return Err(EndpointError::Reserved(lower));
        }
        let header: HeaderName = lower.parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        self.headers.insert(header, value);
        Ok(self)
    }

    /// How long an answer may take. Default: 20 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Whether addresses that are not of the public internet may be reached. Default: not.
    pub fn private_addresses(mut self, allowed: bool) -> Self {
        self.allows_private = allowed;
        self
    }

    /// Sends nothing, and says what would have been sent: the id and the body of each message. For tests.
    pub fn recorded(mut self, by: impl Fn(&str, &[u8]) + Send + Sync + 'static) -> Self {
        self.transport = Transport::Recorder(Recorder(Arc::new(by)));
        self
    }

    /// Its address as it may be shown: what follows the host is often a secret.
    #[must_use]
    pub fn address(&self) -> String {
        shown(&self.uri)
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(crate) fn patience(&self) -> Duration {
        self.timeout
    }

    /// The same, ready to send.
    pub fn connected(mut self) -> Self {
        if matches!(self.transport, Transport::Unset) {
            self.transport = Transport::Http(self.client());
        }
        self
    }

    fn client(&self) -> Client {
        // Before the time for an answer is over: one that cannot be reached is told from one that is slow.
        Client::within(self.allows_private, CONNECT.min(self.timeout / 2))
    }

    /// The same for a message that holds these events: it goes on with their trace.
    pub(crate) async fn send_for<'a>(
        &self,
        id: &str,
        body: Bytes,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Attempt {
        let traced = Work::send(events);
        let attempt = trace::run(traced.as_ref(), self.send(id, body)).await;
        if let Some(traced) = traced.filter(|_| attempt.verdict != Verdict::Arrived) {
            traced.failed(&attempt.said());
        }
        attempt
    }

    /// Sends a message once, under an id that the receiver may know it by. The code that sends it runs in a trace
    /// ([`trace::current`]), if there is one: the header `traceparent` says so.
    pub async fn send(&self, id: &str, body: impl Into<Bytes>) -> Attempt {
        let (at, began, body) = (Timestamp::now(), Instant::now(), body.into());
        let client = match &self.transport {
            Transport::Recorder(recorder) => {
                (recorder.0)(id, &body);
                let (status, answer) = (Some(200), String::new());
                return Attempt {
                    at,
                    status,
                    took: began.elapsed(),
                    answer,
                    verdict: Verdict::Arrived,
                };
            }
            Transport::Http(client) => client.clone(),
            Transport::Unset => self.client(),
        };
        let mut headers = self.headers.clone();
        let timestamp = at.as_second();
        headers.insert("webhook-timestamp", HeaderValue::from(timestamp));
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert("webhook-id", id);
        }
        let signature = self.secrets.as_ref().map(|secrets| secrets.sign(id, timestamp, &body));
        if let Some(Ok(signature)) = signature.map(|signature| HeaderValue::from_str(&signature)) {
            headers.insert("webhook-signature", signature);
        }
        let trace = trace::current().map(|trace| HeaderValue::from_str(&trace.to_string()));
        if let Some(Ok(trace)) = trace {
            headers.insert("traceparent", trace);
        }
        let replied = client.send(&self.uri, headers, body, (self.timeout, READ)).await;
        Attempt::of(at, began.elapsed(), replied)
    }
}

/// One try to deliver a message.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// When it began.
    pub at: Timestamp,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// How long it took.
    pub took: Duration,
    /// How the answer began, or why there was none.
    pub answer: String,
    /// What it means.
    pub verdict: Verdict,
}

/// What an attempt means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The endpoint has it.
    Arrived,
    /// The endpoint does not want this message, or not now.
    Failed {
        /// How long it asks to wait with it.
        after: Option<Duration>,
    },
    /// What stands before the endpoint cannot reach it, or it is slow: fewer at the same time may do.
    Strained {
        /// How long it asks to wait with it.
        after: Option<Duration>,
    },
    /// The endpoint asks for less.
    Busy {
        /// How long it asks to wait.
        after: Option<Duration>,
    },
    /// The endpoint wants no messages any more.
    Gone,
    /// Nothing was sent, since there is no connection.
    Unreachable,
}

impl Verdict {
    /// Its name, for those who count.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Arrived => "delivered",
            Self::Failed { .. } => "failed",
            Self::Strained { .. } => "strained",
            Self::Busy { .. } => "busy",
            Self::Gone => "gone",
            Self::Unreachable => "unreachable",
        }
    }
}

impl Attempt {
    fn of(at: Timestamp, took: Duration, replied: Result<Reply, NoReply>) -> Self {
        let (status, answer, verdict) = match replied {
            Ok(reply) => {
                let answer = said(&reply);
                let Reply { status, retry_after: after, .. } = reply;
                let verdict = match status {
                    status if status.is_success() => Verdict::Arrived,
                    StatusCode::GONE => Verdict::Gone,
                    StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                        Verdict::Busy { after }
                    }
                    StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                        Verdict::Strained { after }
                    }
                    _ => Verdict::Failed { after },
                };
                (Some(status.as_u16()), answer, verdict)
            }
            Err(no_reply) => {
                let verdict = match no_reply {
                    NoReply::Unreachable(_) | NoReply::Forbidden(_) => Verdict::Unreachable,
                    NoReply::TimedOut(_) => Verdict::Strained { after: None },
                    NoReply::Broken(_) => Verdict::Failed { after: None },
                };
                (None, no_reply.to_string(), verdict)
            }
        };
        Self { at, status, took, answer, verdict }
    }

    /// In words.
    #[must_use]
    pub fn said(&self) -> String {
        match self.status.map(StatusCode::from_u16) {
            Some(Ok(status)) => format!("{status} {}", self.answer).trim_end().to_owned(),
            _ => self.answer.clone(),
        }
    }

    /// What a handler says about it: nothing if it has arrived.
    #[must_use]
    pub fn error(&self, to: &str) -> Option<HandlerError> {
        let said = || format!("{to}: {}", self.said());
        Some(match self.verdict {
            Verdict::Arrived => return None,
            Verdict::Failed { after: Some(wait) } | Verdict::Strained { after: Some(wait) } => {
                HandlerError::try_after(wait, said())
            }
            Verdict::Failed { after: None } | Verdict::Strained { after: None } => {
                HandlerError::new(said())
            }
            Verdict::Busy { after } => HandlerError::overload(after, said()),
            Verdict::Gone => {
                let paused = "the endpoint wants no more messages, so the webhook is paused; `anabranch resume` goes on";
                HandlerError::unable(format!("{}; {paused}", said()))
            }
            Verdict::Unreachable => HandlerError::unable(said()),
        })
    }

    /// Whether it says something about the endpoint, whatever the message is.
    pub(crate) fn is_about_endpoint(&self) -> bool {
        matches!(self.verdict, Verdict::Busy { .. } | Verdict::Gone | Verdict::Unreachable)
    }
}

/// How an answer began. Control characters would move a terminal.
fn said(reply: &Reply) -> String {
    if let (true, Some(to)) = (reply.status.is_redirection(), &reply.location) {
        // Where it leads may be as secret as the endpoint itself, and the body often repeats it.
        let to = to.parse().map_or_else(|_| "elsewhere".to_owned(), |to| shown(&to));
        return format!("redirects to {to}, which is not followed");
    }
    let text = String::from_utf8_lossy(&reply.body);
    let text: String = text.chars().take(KEPT).collect();
    text.replace(|c: char| c.is_control(), " ").trim().to_owned()
}

/// An address as it may be shown: what follows the host is often a secret, and so is what stands before it.
fn shown(uri: &Uri) -> String {
    let rest = if uri.path().len() > 1 || uri.query().is_some() { "/…" } else { "" };
    let Some(authority) = uri.authority() else { return rest.to_owned() };
    let host = authority.as_str().rsplit('@').next().unwrap_or_default();
    format!("{}://{host}{rest}", uri.scheme_str().unwrap_or_default())
}

/// A URL as it may be shown.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://…@{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

/// Gets the id and the body of each message, in the place of the endpoint.
#[derive(Clone)]
struct Recorder(Arc<Record>);

type Record = dyn Fn(&str, &[u8]) + Send + Sync;

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for wrong in ["", "example.com", "ftp://x", "file:///etc/passwd", "http://"] {
            let error = Endpoint::new(wrong).unwrap_err();
            assert_eq!(error, EndpointError::Url(wrong.to_owned()));
        }
        let error = Endpoint::new("https://me:hunter2@example.com/").unwrap_err();
        assert_eq!(error, EndpointError::Password);
        let endpoint = Endpoint::new("https://example.com:8443/services/T00?token=1").unwrap();
        assert_eq!(endpoint.address(), "https://example.com:8443/…");
        assert_eq!(Endpoint::new("http://example.com").unwrap().address(), "http://example.com");
        let reserved = endpoint.clone().header("Webhook-Id", "1").unwrap_err();
        assert_eq!(reserved, EndpointError::Reserved("webhook-id".to_owned()));
        let trace = endpoint.clone().header("Traceparent", "1").unwrap_err();
        assert_eq!(trace, EndpointError::Reserved("traceparent".to_owned()));
        assert!(matches!(endpoint.clone().header("a b", "1"), Err(EndpointError::Header(_))));
        let secret = endpoint.header("Authorization", "Bearer 42").unwrap();
        assert!(!format!("{secret:?}").contains("42"));
    }
}
