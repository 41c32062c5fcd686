//! An HTTP request for each row or page.

use super::page;
use crate::refusal::Refusal;
use anabranch::batch::Record;
use anabranch::errors::ErrorCode;
use anabranch::webhook::{Client, Endpoint, Reply};
use anabranch::{HandlerError, HandlerResult};
use std::time::Duration;

/// How much of an error page is kept, and how long the answer for a page may be.
const MAX_SAID: usize = 500;
const MAX_ANSWER: usize = 64 * 1024 * 1024;

pub(super) struct Webhook {
    client: Client,
    endpoint: Endpoint,
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
        let endpoint = Endpoint::new(url)
            .map_err(|error| Refusal::new(ErrorCode::InvalidArguments, error.to_string()))?;
        // Whoever starts the command chooses the address, and may reach it anyway.
        let client = Client::new(true);
        Ok(Self { client, endpoint: endpoint.timeout(timeout), job: job.to_owned(), per_page })
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
        let headers = key.as_ref().map(|key| ("idempotency-key", key.as_str()));
        let reply = self.client.post(&self.endpoint, headers, body.into(), MAX_ANSWER).await?;
        if !reply.status.is_success() {
            return Err(refused(&reply));
        }
        if reply.is_cut {
            Err(format!("its answer has more than {MAX_ANSWER} bytes"))?;
        }
        Ok(reply.body)
    }
}

/// What an answer means that is no success: one that says that the request is wrong, or belongs elsewhere, would
/// be the same again; another one may pass, after the time that it names.
fn refused(reply: &Reply) -> HandlerError {
    let (status, after) = (reply.status, reply.retry_after);
    let said = String::from_utf8_lossy(&reply.body[..reply.body.len().min(MAX_SAID)]);
    let said = format!("{status} {}", said.trim()).trim_end().to_owned();
    // Too long, too early, too many.
    let may_pass = status.is_server_error() || [408, 425, 429].contains(&status.as_u16());
    match after {
        _ if !may_pass => HandlerError::for_good(said),
        Some(wait) => HandlerError::try_after(wait, said),
        None => HandlerError::new(said),
    }
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
        let again = |status: u16, retry_after| {
            refused(&Reply { status: status.try_into().unwrap(), retry_after, ..Reply::default() })
                .again()
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
    fn only_http_is_taken() {
        let new = |url| Webhook::new(url, "job", false, Duration::from_secs(1));
        assert!(new("ftp://x").is_err() && new("nothing").is_err() && new("http://x/").is_ok());
        assert!(new("https://localhost:1/").is_ok());
    }
}
