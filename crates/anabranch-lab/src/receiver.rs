//! A server that gets webhooks, for measurements and tests: it keeps what it got, and answers as it is told to.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

/// A message that has come in.
#[derive(Clone, Debug)]
pub struct Received {
    /// When.
    pub at: Instant,
    /// When it was answered; not yet, while it is being decided on.
    pub answered: Option<Instant>,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// The status that it was answered with.
    pub status: u16,
}

impl Received {
    /// A header, or nothing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Its body as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Its events: one, or those of a batch.
    #[must_use]
    pub fn events(&self) -> Vec<serde_json::Value> {
        let mut body = self.json();
        match body["data"].take() {
            serde_json::Value::Array(events) if body["type"] == "batch" => events,
            data => {
                body["data"] = data;
                vec![body]
            }
        }
    }
}

/// How a message is answered.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The status; 0 is 200.
    pub status: u16,
    /// A header, if there is one.
    pub header: Option<(&'static str, String)>,
    /// The body.
    pub body: String,
    /// How long it takes.
    pub after: Duration,
}

impl Reply {
    /// With nothing but a status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }
}

type Decide = Arc<dyn Fn(&Received) -> Reply + Send + Sync>;

/// What serves, and what ends it: it ends when that is dropped, too.
struct Serving {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// A server on an address of its own. It stops when it is dropped.
pub struct Receiver {
    address: SocketAddr,
    kept: Arc<Mutex<Vec<Received>>>,
    decide: Decide,
    serving: Option<Serving>,
}

impl Receiver {
    /// Starts one that answers as it is told to.
    pub async fn start(
        decide: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, kept) = (listener.local_addr()?, Arc::default());
        let mut receiver = Self { address, kept, decide: Arc::new(decide), serving: None };
        receiver.serve(listener);
        Ok(receiver)
    }

    fn serve(&mut self, listener: TcpListener) {
        let (kept, decide) = (Arc::clone(&self.kept), Arc::clone(&self.decide));
        let (end, mut ended) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let stream = tokio::select! {
                    accepted = listener.accept() => accepted.map(|(stream, _)| stream),
                    _ = &mut ended => break,
                };
                let Ok(stream) = stream else { break };
                connections.spawn(serve(stream, Arc::clone(&kept), Arc::clone(&decide)));
                while connections.try_join_next().is_some() {}
            }
            drop(listener);
            connections.shutdown().await;
        });
        self.serving = Some(Serving { end, task });
    }

    /// Closes all connections and refuses new ones. Nothing comes in after this.
    pub async fn stop(&mut self) {
        if let Some(Serving { end, task }) = self.serving.take() {
            drop(end);
            // It does not fail, and if it panicked nothing comes in either.
            let _ = task.await;
        }
    }

    /// Serves again, on the same address.
    pub async fn go_on(&mut self) -> io::Result<()> {
        if self.serving.is_none() {
            let listener = TcpListener::bind(self.address).await?;
            self.serve(listener);
        }
        Ok(())
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// What has come in so far.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.kept().clone()
    }

    /// How much has come in so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Received>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(stream: TcpStream, kept: Arc<Mutex<Vec<Received>>>, decide: Decide) {
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request: Request<Incoming>| {
        let (kept, decide) = (Arc::clone(&kept), Arc::clone(&decide));
        async move { Ok::<_, Infallible>(answer(request, &kept, &decide).await) }
    });
    // A connection that breaks off is the business of whoever opened it.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

async fn answer(
    request: Request<Incoming>,
    kept: &Mutex<Vec<Received>>,
    decide: &Decide,
) -> Response<Full<Bytes>> {
    let at = Instant::now();
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let received = Received { at, answered: None, headers: head.headers, body, status: 0 };
    let Reply { status, header, body, after } = decide(&received);
    let status = if status == 0 { 200 } else { status };
    let place = {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(Received { status, ..received });
        kept.len() - 1
    };
    if !after.is_zero() {
        tokio::time::sleep(after).await;
    }
    if let Some(received) = kept.lock().unwrap_or_else(PoisonError::into_inner).get_mut(place) {
        received.answered = Some(Instant::now());
    }
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    if let Some((name, value)) = header
        && let Ok(value) = value.parse()
    {
        response.headers_mut().insert(name, value);
    }
    response
}
