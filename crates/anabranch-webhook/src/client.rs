//! An HTTP client for requests that carry JSON somewhere and bring back a short answer.

use crate::connect::{CONNECT, Connect, Forbidden, Within};
use crate::endpoint::Endpoint;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client as Pooled, Error as PooledError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use jiff::Timestamp;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::Instant;

/// How long a connection without a request is kept.
const KEPT: Duration = Duration::from_secs(30);

/// Sends requests, over connections that it keeps. Redirects are not followed.
#[derive(Clone, Debug)]
pub struct Client {
    pool: Pooled<Within<HttpsConnector<Connect>>, Full<Bytes>>,
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// How long it asks to wait before the next request.
    pub retry_after: Option<Duration>,
    /// Where it says that the endpoint is, if it does.
    pub location: Option<String>,
    /// Its body, as far as it was read.
    pub body: Vec<u8>,
    /// Whether the body went on.
    pub is_cut: bool,
}

/// Why nothing came back.
#[derive(Clone, Debug, Error)]
pub enum NoReply {
    /// There is no connection, so nothing was sent.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// The address is not of the public internet, and only such are allowed.
    #[error("{0}")]
    Forbidden(String),
    /// It took too long.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The connection ended, or what came is no HTTP.
    #[error("{0}")]
    Broken(String),
}

impl Client {
    /// A client for addresses of the public internet, or for all.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch_webhook::{Client, Endpoint};
    /// let to = Endpoint::new("https://example.com/rows")?;
    /// let reply = Client::new(false).post(&to, [("idempotency-key", "7")], "{}".into(), 1_000).await?;
    /// println!("{}", reply.status);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn new(allows_private: bool) -> Self {
        Self::within(allows_private, CONNECT)
    }

    /// The same; a connection must be there within this time, or the endpoint cannot be reached.
    pub(crate) fn within(allows_private: bool, patience: Duration) -> Self {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls())
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connect { allows_private });
        let pool = Pooled::builder(TokioExecutor::new())
            .pool_idle_timeout(KEPT)
            .pool_timer(TokioTimer::new())
            .build(Within { connector, patience });
        Self { pool }
    }

    /// Posts a body to an endpoint with its headers and some more, unsigned, and reads so many bytes of the answer.
    pub async fn post<'h>(
        &self,
        to: &Endpoint,
        more: impl IntoIterator<Item = (&'static str, &'h str)>,
        body: Bytes,
        max_answer: usize,
    ) -> Result<Reply, NoReply> {
        let mut headers = to.headers().clone();
        for (name, value) in more {
            let value =
                HeaderValue::from_str(value).map_err(|error| NoReply::Broken(error.to_string()))?;
            headers.insert(name, value);
        }
        self.send(to.uri(), headers, body, (to.patience(), max_answer)).await
    }

    pub(crate) async fn send(
        &self,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
        (timeout, max_answer): (Duration, usize),
    ) -> Result<Reply, NoReply> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        self.request(request, timeout, max_answer).await
    }

    /// Sends a request as it is, and reads so many bytes of the answer, all within this time.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let request = hyper::Request::post("http://localhost:4318/v1/traces").body("{}".into())?;
    /// let client = anabranch_webhook::Client::new(true);
    /// let reply = client.request(request, Duration::from_secs(10), 1_000).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn request(
        &self,
        request: Request<Bytes>,
        timeout: Duration,
        max_answer: usize,
    ) -> Result<Reply, NoReply> {
        let (request, until) = (request.map(Full::new), Instant::now() + timeout);
        match tokio::time::timeout_at(until, self.pool.request(request)).await {
            Ok(Ok(response)) => reply(response, max_answer, (timeout, until)).await,
            Ok(Err(error)) => Err(no_reply(&error)),
            Err(_) => Err(NoReply::TimedOut(timeout)),
        }
    }
}

async fn reply(
    mut response: Response<Incoming>,
    max_answer: usize,
    (timeout, until): (Duration, Instant),
) -> Result<Reply, NoReply> {
    let headers = response.headers();
    let retry_after = headers.get(RETRY_AFTER).and_then(|after| wait(after, Timestamp::now()));
    let location = headers.get(LOCATION).and_then(|to| to.to_str().ok()).map(ToOwned::to_owned);
    let (status, mut body, mut is_cut) = (response.status(), Vec::new(), false);
    loop {
        let frame = match tokio::time::timeout_at(until, response.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            // It has been taken, whatever was to be said about it.
            Ok(Some(Err(_))) | Err(_) if status.is_success() => {
                is_cut = true;
                break;
            }
            Ok(Some(Err(error))) => return Err(NoReply::Broken(with_causes(&error))),
            Err(_) => return Err(NoReply::TimedOut(timeout)),
        };
        let Ok(data) = frame.into_data() else { continue };
        let room = max_answer - body.len();
        body.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            is_cut = true;
            break;
        }
    }
    Ok(Reply { status, retry_after, location, body, is_cut })
}

fn no_reply(error: &PooledError) -> NoReply {
    let mut cause = error.source();
    while let Some(found) = cause {
        let inner = found.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(forbidden) = inner.and_then(|inner| inner.downcast_ref::<Forbidden>()) {
            return NoReply::Forbidden(forbidden.to_string());
        }
        cause = found.source();
    }
    match error.is_connect() {
        true => NoReply::Unreachable(last_cause(error)),
        false => NoReply::Broken(with_causes(error)),
    }
}

/// What is at the bottom of an error: what is above it says only that something failed.
fn last_cause(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

fn with_causes(error: &dyn Error) -> String {
    let last = last_cause(error);
    let said = error.to_string();
    if said.contains(&last) { said } else { format!("{said}: {last}") }
}

/// How long a `Retry-After` asks to wait: so many seconds, or until a time.
fn wait(after: &HeaderValue, now: Timestamp) -> Option<Duration> {
    let text = after.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
}

/// Certificates that the machine trusts, as for the database.
fn tls() -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has both versions of TLS");
    builder.with_root_certificates(roots).with_no_client_auth()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_after_is_seconds_or_a_time() {
        let now: Timestamp = "2015-10-21T07:28:00Z".parse().unwrap();
        let read = |text: &str| wait(&HeaderValue::from_str(text).unwrap(), now);
        assert_eq!(read(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(read("Wed, 21 Oct 2015 07:29:30 GMT"), Some(Duration::from_secs(90)));
        assert_eq!(read("Wed, 21 Oct 2015 07:00:00 GMT"), Some(Duration::ZERO), "it is over");
        for nonsense in ["", "soon", "-5", "1.5", "Wed, 99 Oct 2015 07:29:30 GMT"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }
}
