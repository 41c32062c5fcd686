//! A server on a port of its own, and a client that sends what it is told and nothing else.

use anabranch::Log;
use anabranch::watch::Watch;
use anabranch_server::{Api, NewToken, Scope, ServerLimits, Tls, Tokens, serve};
use axum::body::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server of a log.
pub struct Server {
    pub log: Log,
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
}

impl Server {
    /// As `anabranch serve` runs it on loopback.
    pub async fn start(log: &Log) -> Self {
        Self::with(log, ServerLimits::default(), |api| api).await
    }

    pub async fn with(log: &Log, limits: ServerLimits, set: impl FnOnce(Api) -> Api) -> Self {
        Self::with_tls(log, limits, None, set).await
    }

    pub async fn with_tls(
        log: &Log,
        limits: ServerLimits,
        tls: Option<Tls>,
        set: impl FnOnce(Api) -> Api,
    ) -> Self {
        let watch = Watch::new(log.clone()).for_server();
        let api = Api::new(&watch.log()).open_until_first_token().open_metrics(true).watch(watch);
        let router = set(api).router();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let until = async {
            let _ = stopped.await;
        };
        let running = tokio::spawn(serve(listener, tls, router, limits, until));
        Self { log: log.clone(), address, stop: Some(stop), running }
    }

    pub fn tokens(&self) -> Tokens {
        Tokens::new(&self.log)
    }

    /// A token of these scopes.
    pub async fn token(&self, scopes: &[Scope]) -> String {
        self.make(NewToken::new("test", scopes.iter().copied())).await.1
    }

    /// The id of a new token, and the token.
    pub async fn make(&self, new: NewToken) -> (String, String) {
        let (token, secret) = self.tokens().make(new, "test").await.unwrap();
        (token.id, secret.reveal())
    }

    /// Stops it, and waits for its end.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        (&mut self.running).await.unwrap();
    }

    pub async fn get(&self, path: &str, token: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        self.ask("GET", path, &[("authorization", &bearer)], "").await
    }

    pub async fn post(&self, path: &str, token: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        self.ask("POST", path, &headers, body).await
    }

    /// Sends a request with these headers, and a host unless they name one.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer { status: head.status.as_u16(), headers: head.headers, text }
    }

    /// Sends bytes, and reads until the server closes or has been silent for so long.
    pub async fn raw(&self, bytes: &[u8], patience: Duration) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // It may have answered and gone before all of it was sent.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let mut part = [0; 8192];
        while let Ok(Ok(read @ 1..)) = tokio::time::timeout(patience, stream.read(&mut part)).await
        {
            answer.extend_from_slice(&part[..read]);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The answer, if it is a good one.
    pub fn good(self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// What was wrong.
    pub fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.json();
        assert_eq!((self.status, problem["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        problem
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}
