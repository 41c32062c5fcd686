//! A server on a socket: what `anabranch serve` runs.
//!
//! There is no waiting for a client without an end, and nothing is kept for one without a bound: the number of connections,
//! the time and size of the head of a request, and how long an answer may go unread are limited.
//!
//! | module | subject |
//! |---|---|
//! | `stalls` | gives up a socket whose other side does not read |
//! | `tls` | encrypted connections |

mod stalls;
mod tls;

pub use tls::{Tls, TlsError};

use crate::sse::Farewell;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, Response};
use futures_util::{StreamExt, stream};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use stalls::Stalls;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower_service::Service;

/// The largest head of a request: its line and its headers.
const HEAD_BYTES: usize = 16 * 1024;
/// How many headers it may have.
const HEADERS: usize = 100;
/// After an error of the listener, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The limits that a server sets for its clients.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// How many connections there are at the same time; further ones wait. 512 by default. Tell
    /// [`Api::connections`](crate::Api::connections) the same number.
    pub connections: usize,
    /// How long the head of a request may take to arrive, and how long a connection may be idle; 10 seconds by default.
    pub head: Duration,
    /// How long a client may leave an answer unread, and how long TLS may take to begin; 30 seconds by default.
    pub stall: Duration,
    /// How long requests that are under way may take once the server stops; 10 seconds by default.
    pub grace: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 512,
            head: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        }
    }
}

/// Serves a router until a future resolves, then finishes what is under way; streams of events end at once.
///
/// ```no_run
/// # async fn f(log: anabranch::Log) -> std::io::Result<()> {
/// use anabranch_server::{Api, ServerLimits, serve};
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:7070").await?;
/// let router = Api::new(&log).open_until_first_token().router();
/// serve(listener, None, router, ServerLimits::default(), anabranch::shutdown_signal()).await;
/// # Ok(()) }
/// ```
pub async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    limits: ServerLimits,
    stop: impl Future<Output = ()>,
) {
    let (stopping, stopped) = watch::channel(false);
    let room = Arc::new(Semaphore::new(limits.connections));
    let server = Server { tls, router, limits, stopped };
    tokio::select! {
        never = server.accept(&listener, &room) => match never {},
        () = stop => {}
    }
    drop(listener);
    let _ = stopping.send(true);
    let all = u32::try_from(server.limits.connections).unwrap_or(u32::MAX);
    // Connections that have not ended by then are cut off, with the runtime or by their own limits.
    let _ = tokio::time::timeout(server.limits.grace, room.acquire_many(all)).await;
}

#[derive(Clone)]
struct Server {
    tls: Option<Tls>,
    router: Router,
    limits: ServerLimits,
    stopped: watch::Receiver<bool>,
}

impl Server {
    async fn accept(&self, listener: &TcpListener, room: &Arc<Semaphore>) -> Infallible {
        loop {
            let Ok(place) = Arc::clone(room).acquire_owned().await else {
                std::future::pending().await
            };
            let Ok((stream, from)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let server = self.clone();
            tokio::spawn(async move {
                server.connection(stream, from).await;
                drop(place);
            });
        }
    }

    async fn connection(self, stream: TcpStream, from: SocketAddr) {
        let stream = Stalls::new(stream, self.limits.stall);
        match &self.tls {
            None => self.talk(stream, from).await,
            Some(tls) => {
                let begun = tokio::time::timeout(self.limits.stall, tls.accept(stream)).await;
                if let Ok(Ok(stream)) = begun {
                    self.talk(stream, from).await;
                }
            }
        }
    }

    async fn talk(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send, from: SocketAddr) {
        let service = service_fn(|request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(from));
            let (mut router, stopped) = (self.router.clone(), self.stopped.clone());
            async move {
                let response = router.call(request).await?;
                Ok::<_, Infallible>(ending(response, stopped))
            }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_buf_size(HEAD_BYTES)
            .max_headers(HEADERS);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut stopped = self.stopped.clone();
        // A client that goes away, or sends nonsense, is not an error of the server.
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// An endless answer ends when the server stops, with a last word for its reader, who resumes at the next server.
fn ending(response: Response<Body>, mut stopped: watch::Receiver<bool>) -> Response<Body> {
    let kind = response.headers().get(CONTENT_TYPE);
    if kind.is_none_or(|kind| kind != "text/event-stream") {
        return response;
    }
    // A stream of a router around this one may have none.
    let farewell = response.extensions().get::<Farewell>().cloned();
    response.map(|body| {
        let cut = Arc::<AtomicBool>::default();
        let is_cut = Arc::clone(&cut);
        let stop = async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
            cut.store(true, Ordering::Release);
        };
        // Pieces are whole events, so this stands behind one. What ended by itself has said its own.
        let farewell = stream::once(async move {
            farewell.filter(|_| is_cut.load(Ordering::Acquire)).map(|Farewell(word)| Ok(word))
        });
        let farewell = farewell.filter_map(async |word| word);
        let pieces = body.into_data_stream().take_until(Box::pin(stop));
        Body::from_stream(pieces.chain(Box::pin(farewell)))
    })
}
