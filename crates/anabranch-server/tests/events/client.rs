//! A server on a port of its own, and a client that speaks HTTP over a socket.

use crate::sse::Sse;
use anabranch::Log;
use anabranch_server::{Api, NewToken, Scope, ServerLimits, TailLimits, Tails, Tokens, serve};
use axum::body::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server of a log.
pub struct Server {
    pub log: Log,
    pub tails: Tails,
    address: SocketAddr,
    running: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Tails that say nothing by themselves, with room for so many events.
pub fn tails_of(ring_events: usize) -> TailLimits {
    TailLimits { ring_events, heartbeat: Duration::from_secs(3600), ..TailLimits::default() }
}

impl Server {
    pub async fn start(log: &Log) -> Self {
        Self::with(log, TailLimits::default(), |api| api).await
    }

    pub async fn with(log: &Log, limits: TailLimits, set: impl FnOnce(Api) -> Api) -> Self {
        let tails = Tails::default();
        let api = Api::new(log).open_until_first_token().tails(&tails).tail_limits(limits);
        let router = set(api).router();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let running = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { log: log.clone(), tails, address, running }
    }

    /// One that is served as the command serves it, until it is told to stop.
    pub async fn that_stops(log: &Log) -> (Self, oneshot::Sender<()>) {
        let router = Api::new(log).open_until_first_token().router();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            serve(listener, None, router, ServerLimits::default(), stopped).await;
        });
        (Self { log: log.clone(), tails: Tails::default(), address, running }, stop)
    }

    /// Somebody without a token.
    pub fn anybody(&self) -> Client {
        Client { address: self.address, token: None }
    }

    /// Somebody with this token, whether there is one or not.
    pub fn with_token(&self, token: &str) -> Client {
        Client { address: self.address, token: Some(token.to_owned()) }
    }

    /// Somebody with a token of these scopes.
    pub async fn with_scopes(&self, scopes: &[Scope]) -> Client {
        self.holder(NewToken::new("test", scopes.iter().copied())).await
    }

    /// Somebody with a token.
    pub async fn holder(&self, token: NewToken) -> Client {
        let (_, secret) = Tokens::new(&self.log).make(token, "test").await.unwrap();
        Client { address: self.address, token: Some(secret.reveal().to_owned()) }
    }
}

/// Who asks. Each request has a connection of its own.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    token: Option<String>,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The answer, if it is a good one.
    pub fn good(self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text);
        self.json()
    }

    /// What was wrong.
    pub fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.json();
        assert_eq!((self.status, problem["code"].as_str()), (status, Some(code)), "{}", self.text);
        problem
    }
}

impl Client {
    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], String::new()).await
    }

    pub async fn post(&self, path: &str, body: impl Into<String>) -> Answer {
        self.post_with(path, &[], body).await
    }

    pub async fn post_with(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<String>,
    ) -> Answer {
        self.ask("POST", path, headers, body.into()).await
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Answer {
        let response = self.send(method, path, headers, body, None).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Answer { status, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    /// Opens a tail.
    pub async fn tail(&self, query: &str) -> Sse {
        self.tail_from(query, None).await
    }

    /// Opens one again, after the last id that it got.
    pub async fn tail_from(&self, query: &str, last: Option<u64>) -> Sse {
        let last = last.map(|last| last.to_string());
        let headers: Vec<_> = last.iter().map(|last| ("last-event-id", last.as_str())).collect();
        let path = format!("/v1/tail?{query}");
        Self::opened(self.send("GET", &path, &headers, String::new(), None).await)
    }

    /// Opens a stream of another kind.
    pub async fn stream(&self, path: &str) -> Sse {
        Self::opened(self.send("GET", path, &[], String::new(), None).await)
    }

    /// Opens one over a socket whose buffer for what comes in is small.
    pub async fn slow_stream(&self, path: &str) -> Sse {
        Self::opened(self.send("GET", path, &[], String::new(), Some(32 * 1024)).await)
    }

    fn opened(response: Response<hyper::body::Incoming>) -> Sse {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        Sse::new(response.into_body())
    }

    /// Opens a tail over a socket whose buffer for what comes in is small.
    pub async fn slow_tail(&self, query: &str) -> Sse {
        self.slow_stream(&format!("/v1/tail?{query}")).await
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
        buffer: Option<u32>,
    ) -> Response<hyper::body::Incoming> {
        let socket = TcpSocket::new_v4().unwrap();
        if let Some(bytes) = buffer {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        let stream = socket.connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, self.address.to_string());
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if self.token.is_none() {
            // That it is no page of another site.
            request = request.header("x-anabranch", "1");
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        sender.send_request(request).await.unwrap()
    }
}
