//! The small HTTP server: metrics, and whether the process lives and is ready.
//!
//! It has a thread and a runtime of its own: it answers while the program's runtime is stuck, and says so.

use crate::families::Format;
use crate::health::NotReady;
use crate::watch::Watch;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// How many may ask at the same time; others wait.
const CONNECTIONS: usize = 512;
/// How long a client may take to send what it asks.
const HEADERS: Duration = Duration::from_secs(2);
/// How long a connection lasts, whatever its client does.
const CONNECTION: Duration = Duration::from_secs(60);
/// After an error of the listener, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";

/// A server that runs. It ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(watch: Watch, listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                tokio::select! {
                    () = accept(&listener, &watch) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("anabranch-watch".to_owned()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens; of use if the port was 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // It ends at once: what is under way is cut off.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: &tokio::net::TcpListener, watch: &Watch) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let watch = watch.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let watch = watch.clone();
                async move { Ok::<_, Infallible>(answer(&watch, &request).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
            let connection = http.serve_connection(TokioIo::new(stream), service);
            // A client that goes away, or sends nonsense, concerns nobody.
            let _ = tokio::time::timeout(CONNECTION, connection).await;
            drop(place);
        });
    }
}

async fn answer(watch: &Watch, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/metrics" => {
            let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
            let format = Format::accepted_by(accept.unwrap_or_default());
            of_type(StatusCode::OK, format.content_type(), watch.metrics(format).await)
        }
        "/livez" => health(watch.live()),
        "/readyz" => health(watch.ready().await),
        _ => {
            let known = "not found; there are /metrics, /livez and /readyz\n".to_owned();
            text(StatusCode::NOT_FOUND, known)
        }
    }
}

fn health(is: Result<(), NotReady>) -> Response<Full<Bytes>> {
    match is {
        Ok(()) => text(StatusCode::OK, "ok\n".to_owned()),
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    of_type(status, TEXT, body)
}

fn of_type(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
