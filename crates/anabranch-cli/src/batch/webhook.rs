//! An HTTP request for each row or page.

use super::page;
use crate::refusal::{Refusal, refuse_unless};
use anabranch::batch::Record;
use anabranch::errors::ErrorCode;
use anabranch::{HandlerError, HandlerResult};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::http::header::RETRY_AFTER;
use ureq::http::{HeaderValue, StatusCode, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// How much of an error page is kept, and how long the answer for a page may be.
const MAX_SAID: u64 = 500;
const MAX_ANSWER: u64 = 64 * 1024 * 1024;

pub(super) struct Webhook {
    agent: Agent,
    url: String,
    job: String,
    per_page: bool,
}

impl Webhook {
    pub(super) fn new(
        url: &str,
        job: &str,
        per_page: bool,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let parsed: Uri = url.parse().map_err(|error| {
            Refusal::new(ErrorCode::InvalidArguments, format!("`{url}` is no URL: {error}"))
        })?;
        let scheme = parsed.scheme_str().unwrap_or_default();
        refuse_unless!(
            ["http", "https"].contains(&scheme),
            InvalidArguments,
            "`{url}` is no http or https URL"
        );
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirect would turn a POST into a GET: it is no success.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(timeout));
        if scheme == "https" {
            config = config.tls_config(tls());
        }
        let (url, job) = (url.to_owned(), job.to_owned());
        Ok(Self { agent: config.build().new_agent(), url, job, per_page })
    }

    pub(super) async fn handle(&self, record: &Record) -> HandlerResult {
        let key = idempotency_key(&self.job, record.key());
        self.post(record.to_json().to_string(), Some(key)).await.map(drop)
    }

    pub(super) async fn handle_page(&self, page: &[Record]) -> Option<Vec<HandlerResult>> {
        if !self.per_page {
            return None;
        }
        let answer = self.post(page::rows(page), None).await;
        Some(page::outcomes(page.len(), answer))
    }

    async fn post(&self, body: String, key: Option<String>) -> HandlerResult<Vec<u8>> {
        let mut request = self.agent.post(&self.url).content_type("application/json");
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let send = move || -> HandlerResult<Vec<u8>> {
            let mut answer = request.send(body)?;
            let status = answer.status();
            if status.is_success() {
                return Ok(answer.body_mut().with_config().limit(MAX_ANSWER).read_to_vec()?);
            }
            let said =
                answer.body_mut().with_config().limit(MAX_SAID).lossy_utf8(true).read_to_string();
            let said = said.unwrap_or_default();
            let said = format!("{status} {}", said.trim()).trim_end().to_owned();
            let after =
                answer.headers().get(RETRY_AFTER).and_then(|after| wait(after, Timestamp::now()));
            Err(refused(status, after, said))
        };
        // The client waits with its thread.
        tokio::task::spawn_blocking(send).await?
    }
}

/// What an answer means that is no success: one that says that the request is wrong, or belongs elsewhere, would
/// be the same again; another one may pass, after the time that it names.
fn refused(status: StatusCode, after: Option<Duration>, said: String) -> HandlerError {
    let may_pass =
        [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    match after {
        _ if !status.is_server_error() && !may_pass.contains(&status) => {
            HandlerError::for_good(said)
        }
        Some(wait) => HandlerError::try_after(wait, said),
        None => HandlerError::new(said),
    }
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
fn tls() -> TlsConfig {
    let native = rustls_native_certs::load_native_certs().certs;
    let roots: Vec<_> = native.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

/// `JOB:KEY`, with what a header cannot hold as `%XX`.
fn idempotency_key(job: &str, key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    format!("{job}:{key}")
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch::running::Again;

    #[test]
    fn any_key_fits_a_header() {
        assert_eq!(idempotency_key("convert", "7"), "convert:7");
        assert_eq!(idempotency_key("a b", "ü\r\n%"), "a%20b:%C3%BC%0D%0A%25");
    }

    #[test]
    fn what_is_wrong_is_wrong_for_good_and_what_may_pass_is_tried_again() {
        let again = |status: u16, after| {
            refused(StatusCode::from_u16(status).unwrap(), after, "no".to_owned()).again()
        };
        for status in [301, 400, 401, 404, 409, 410, 422] {
            assert_eq!(again(status, Some(Duration::ZERO)), Again::Never, "{status}");
        }
        let minute = Duration::from_secs(60);
        for status in [408, 425, 429, 500, 502, 503, 504] {
            assert_eq!(again(status, None), Again::AsSet, "{status}");
            assert_eq!(again(status, Some(minute)), Again::After(minute), "{status}");
        }
    }

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

    #[test]
    fn only_http_is_taken() {
        let new = |url| Webhook::new(url, "job", false, Duration::from_secs(1));
        assert!(new("ftp://x").is_err() && new("nothing").is_err() && new("http://x/").is_ok());
        assert!(new("https://localhost:1/").is_ok());
    }
}
