//! How a request gets to the collector, and what it answers.

use anabranch_webhook::Client;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How much of an answer is read, and how much of it is told.
const READ: usize = 64 * 1024;
const TOLD: usize = 200;

/// The collector, asked over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    client: Client,
    /// How long an answer may take.
    timeout: Duration,
    /// Why the last request was in vain, if it was.
    complaint: Arc<Mutex<Option<Complaint>>>,
}

/// What the collector has not taken, and why.
#[derive(Debug)]
pub(crate) struct Complaint {
    pub(crate) said: String,
    /// How many spans of the request it refused; nothing if it was all of them.
    pub(crate) refused: Option<u64>,
}

impl Collector {
    pub(crate) fn new(timeout: Duration) -> Self {
        // It is most often beside the program.
        Self { client: Client::new(true), timeout, complaint: Arc::default() }
    }

    /// Why the last request was in vain.
    pub(crate) fn complaint(&self) -> Option<Complaint> {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn complain(&self, complaint: Option<Complaint>) {
        *self.complaint.lock().unwrap_or_else(PoisonError::into_inner) = complaint;
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let reply = match self.client.request(request, self.timeout, READ).await {
            Ok(reply) => reply,
            Err(error) => {
                self.complain(Some(Complaint { said: error.to_string(), refused: None }));
                return Err(error.into());
            }
        };
        let complaint = match reply.status.is_success() {
            true => refused(&reply.body),
            false => {
                let said = format!("{} {}", reply.status, told(&reply.body));
                Some(Complaint { said: said.trim_end().to_owned(), refused: None })
            }
        };
        self.complain(complaint);
        let mut response = Response::builder().status(reply.status);
        if let Some(after) = reply.retry_after {
            response = response.header("retry-after", after.as_secs());
        }
        Ok(response.body(reply.body.into())?)
    }
}

/// What it has not taken, though it has answered that it did.
fn refused(body: &[u8]) -> Option<Complaint> {
    let partial = ExportTraceServiceResponse::decode(body).ok()?.partial_success?;
    let refused = u64::try_from(partial.rejected_spans).ok().filter(|refused| *refused > 0)?;
    let said = format!("{refused} refused: {}", told(partial.error_message.as_bytes()));
    Some(Complaint { said, refused: Some(refused) })
}

/// How an answer began. Control characters would move a terminal.
fn told(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().take(TOLD).collect();
    text.replace(|c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER, " ")
}

impl HttpClient for Collector {
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(self.send(request))
    }
}
