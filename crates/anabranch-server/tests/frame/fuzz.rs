//! Random requests to all routes of the description: no panic, no 500, no hang, and nothing that is not HTTP.

use crate::client::Server;
use crate::filled::filled;
use crate::on_both;
use crate::support::Db;
use anabranch_server::{Api, Scope, ServerLimits};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

on_both!(no_request_breaks_the_server);

/// How many requests are made up.
const REQUESTS: usize = 3000;

/// How many are sent at the same time.
const TOGETHER: usize = 48;
/// How long an answer may take. The server gives up much sooner.
const PATIENCE: Duration = Duration::from_secs(100);

/// A line of the description.
#[derive(Clone)]
struct Route {
    method: String,
    path: String,
    params: Vec<String>,
}

impl Route {
    fn all(document: &Value) -> Vec<Self> {
        let paths = document["paths"].as_object().unwrap().iter();
        let routes = paths.flat_map(|(path, methods)| {
            methods.as_object().unwrap().iter().map(|(method, operation)| {
                let params = operation["parameters"].as_array().into_iter().flatten();
                let params = params.filter(|param| param["in"] == "query");
                let params = params.map(|param| param["name"].as_str().unwrap().to_owned());
                Self { method: method.to_uppercase(), path: path.clone(), params: params.collect() }
            })
        });
        routes.collect()
    }
}

/// What requests are made of.
struct Dice {
    state: u64,
    routes: Vec<Route>,
    /// The id of a plan.
    plan: String,
}

impl Dice {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn text(&mut self) -> String {
        if self.below(2) == 0 {
            let plan = self.plan.clone();
            return self
                .one(&["orders", "mails", "Order", "1", "2", "seats", "12a", &plan])
                .to_owned();
        }
        let known = [
            "orders",
            "others",
            "mails",
            "Order",
            "1",
            "2",
            "seats",
            "12a",
            "0",
            "-1",
            "18446744073709551616",
            "9223372036854775807",
            "null",
            "%00",
            "%",
            "%zz",
            "%ff%fe",
            "..",
            ".",
            "",
            "%2e%2e%2f",
            "a%20b",
            "%F0%9F%92%A9",
            "'",
            "%27%3B--",
            "*",
            "{name}",
            "00000000-0000-0000-0000-000000000000",
            "\u{e9}",
            "x".repeat(3000).leak(),
        ];
        self.one(&known).to_owned()
    }

    /// A method and a path: of a route most of the time, with what belongs into it or with something else.
    fn place(&mut self) -> (String, String) {
        let route = self.below(self.routes.len());
        let Route { method, path, params } = self.routes[route].clone();
        let method = match self.below(6) {
            0 => self.one(&[
                "GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH", "get", "TRACE", "X",
            ]),
            _ => method.as_str(),
        };
        let mut path = match self.below(12) {
            0 => self.one(&["/", "//", "/{}", "/v1/{}", "/v1/{}/{}/{}", "*", ""]).to_owned(),
            _ => path,
        };
        while let Some((before, rest)) = path.clone().split_once('{') {
            let rest = rest.split_once('}').map_or("", |(_, rest)| rest);
            path = format!("{before}{}{rest}", self.text());
        }
        let count = self.below(6).saturating_sub(3);
        for number in 0..count {
            path.push(if number == 0 { '?' } else { '&' });
            let name = match (self.below(4), params.len()) {
                (0, _) | (_, 0) => self.one(&["nonsense", "limit", "after", "", "%00"]).to_owned(),
                (_, some) => params[self.below(some)].clone(),
            };
            path += &name;
            if self.below(5) > 0 {
                path.push('=');
                path += &self.text();
            }
        }
        (method.to_owned(), path)
    }

    fn body(&mut self) -> Vec<u8> {
        let known: [&[u8]; 23] = [
            b"", b"{", b"{}", b"[]", b"null", b"\xff\xfe", b"\"x\"", br#"{"events": []}"#, br#"{"events": [{"type": "A", "data": 1}]}"#,
            br#"{"events": [{"type": "", "data": 1}]}"#, br#"{"events": [{"type": "A\u0000", "data": "\u0000"}], "expected": 7}"#,
            br#"{"streams": [{"stream": "A:1", "events": [{"type": "A"}]}], "unless": {"query": {"items": []}, "after": 1}}"#,
            br#"{"query": {"items": [{"types": [], "tags": ["x"]}]}}"#, br#"{"key": "k", "payload": {"a": 1e999}}"#,
            br#"{"key": "", "payload": 1, "delay_ms": 99999999999999999999}"#, br#"{"command": {}, "id": "x"}"#,
            br#"{"do": "pause", "consumer": "orders"}"#, br#"{"do": "parked", "consumer": "orders", "action": "retry", "per_second": 0}"#,
            br#"{"do": "replay", "consumer": "others", "from": {"last": 18446744073709551615}}"#,
            br#"{"do": "tasks", "all": true, "action": "retry"}"#, br#"{"do": "tasks", "conditions": ["\u0000=1"], "action": "cancel"}"#, br#"{"token": "anb_x"}"#, br#"{"name": "f", "scopes": ["read"], "expires_in_seconds": 18446744073709551615}"#,
        ];
        let mut body = known[self.below(known.len())].to_vec();
        match self.below(12) {
            0 => body = (0..self.below(200)).map(|_| self.next() as u8).collect(),
            1 => body = b"[".repeat(self.below(5000)),
            2 => body.truncate(self.below(body.len() + 1)),
            3 => body = vec![b'x'; self.below(100_000)],
            _ => {}
        }
        body
    }

    fn request(&mut self, tokens: &[String]) -> Vec<u8> {
        let ((method, path), body) = (self.place(), self.body());
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if self.below(20) > 0 {
            head += "host: localhost\r\n";
        }
        head += "connection: close\r\n";
        let token = &tokens[self.below(tokens.len())];
        let lines = [
            format!("authorization: Bearer {token}"),
            "authorization: Bearer".to_owned(),
            "authorization: \u{1}".to_owned(),
            "x-anabranch: 1".to_owned(),
            "origin: null".to_owned(),
            "sec-fetch-site: cross-site".to_owned(),
            "cookie: anabranch_session=x".to_owned(),
            "cookie: ;;=;".to_owned(),
            "content-type: application/json".to_owned(),
            "content-type: text/plain".to_owned(),
            "content-encoding: gzip".to_owned(),
            "accept: text/event-stream".to_owned(),
            "accept-encoding: br".to_owned(),
            "idempotency-key: \u{e9}".to_owned(),
            "idempotency-key: k".to_owned(),
            "last-event-id: x".to_owned(),
            "range: bytes=0-1".to_owned(),
            "upgrade: websocket".to_owned(),
            "x-forwarded-proto: https".to_owned(),
            format!("x: {}", "y".repeat(self.below(3000))),
        ];
        if self.below(8) > 0 {
            head += &format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n");
        }
        for _ in 0..self.below(6).saturating_sub(3) {
            head += &format!("{}\r\n", lines[self.below(lines.len())]);
        }
        match self.below(12) {
            0 => head += "transfer-encoding: chunked\r\n",
            1 => head += &format!("content-length: {}\r\n", body.len() + 7),
            2 => {}
            _ => head += &format!("content-length: {}\r\n", body.len()),
        }
        let mut bytes = format!("{head}\r\n").into_bytes();
        bytes.extend(body);
        bytes
    }
}

/// What came back, and whether that was all.
struct Exchange {
    answer: String,
    is_over: bool,
}

/// Sends bytes, and reads until the server closes. A tail has no end: of it the head is read.
async fn exchange(server: SocketAddr, bytes: &[u8]) -> Exchange {
    let mut stream = TcpStream::connect(server).await.unwrap();
    // It may have answered and gone before all of it was sent.
    let _ = stream.write_all(bytes).await;
    let (mut read, mut part) = (Vec::new(), [0; 8192]);
    let is_over = loop {
        match tokio::time::timeout(PATIENCE, stream.read(&mut part)).await {
            Err(_) => break false,
            Ok(Ok(0) | Err(_)) => break true,
            Ok(Ok(length)) => read.extend_from_slice(&part[..length]),
        }
        let head = String::from_utf8_lossy(&read);
        if head.contains("\r\n\r\n") && head.contains("text/event-stream") {
            break true;
        }
    };
    Exchange { answer: String::from_utf8_lossy(&read).into_owned(), is_over }
}

async fn no_request_breaks_the_server(db: Db) {
    let filled = filled(&db).await;
    let limits = ServerLimits { head: Duration::from_millis(500), ..ServerLimits::default() };
    let set = |api: Api| api.time_limit(Duration::from_millis(1500));
    let server = Server::with(&filled.log, limits, set).await;
    let mut tokens = vec!["anb_wrong".to_owned()];
    for scopes in [
        &[Scope::Read][..],
        &[Scope::ReadMasked],
        &[Scope::Operate],
        &[Scope::Append],
        &[Scope::Read, Scope::Operate, Scope::Append],
    ] {
        tokens.push(server.token(scopes).await);
    }
    // The last one, again and again: most of what is made up should get past the gate.
    let whole = tokens.last().unwrap().clone();
    tokens.extend(std::iter::repeat_n(whole.clone(), 10));
    let routes = Route::all(&server.get("/v1/openapi.json", &whole).await.good());
    assert!(routes.len() > 40, "{} routes", routes.len());
    let pause = r#"{"do": "pause", "consumer": "others"}"#;
    let plan =
        server.post("/v1/plans", &whole, pause).await.good()["id"].as_str().unwrap().to_owned();
    let seed: u64 =
        std::env::var("ANABRANCH_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut dice = Dice { state: seed, routes, plan };
    let (mut answered, mut good) = (0, 0);
    let requests: Vec<Vec<u8>> = (0..REQUESTS).map(|_| dice.request(&tokens)).collect();
    for some in requests.chunks(TOGETHER) {
        let asks = some.iter().map(|request| exchange(server.address, request));
        for (request, exchange) in some.iter().zip(futures_util::future::join_all(asks).await) {
            let shown = String::from_utf8_lossy(&request[..request.len().min(1500)]);
            let Exchange { answer, is_over } = exchange;
            assert!(is_over, "no end after {PATIENCE:?}: {answer}\nto {shown}");
            let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
            let Some(status) = status else {
                assert!(answer.is_empty(), "no HTTP: {answer}\nto {shown}");
                continue;
            };
            assert!(status != "500", "{answer}\nto {shown}");
            assert!(status != "503" || answer.contains("request_too_slow"), "{answer}\nto {shown}");
            answered += 1;
            good += usize::from(status.starts_with('2'));
        }
    }
    assert!(
        answered > REQUESTS * 9 / 10 && good > REQUESTS / 20,
        "{answered} answered, {good} good"
    );
    eprintln!("seed {seed}: {answered} answered, {good} of them with what was asked for");
    // It lives, and knows its callers.
    assert_eq!(server.get("/v1/consumers", &whole).await.status, 200);
}
