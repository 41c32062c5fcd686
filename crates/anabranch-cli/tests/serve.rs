//! `anabranch serve`, `anabranch token` and `anabranch run --listen`: as processes.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

#[path = "files/place.rs"]
mod place;
mod process;
mod serving;

use place::Place;
use process::{failure, stdout};
use serving::{signal, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

const FILE: &str = r#"
[[replica_set]]
name = "reports"

[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
on.OrderPlaced = 'INSERT INTO totals (id, cents) VALUES (:stream_id, :data.cents)'
"#;

/// A process that serves the API; it ends with the test.
struct Api {
    child: Child,
    at: String,
    /// What it said until it had said where.
    said: String,
    /// All that it has said since.
    log: Arc<Mutex<String>>,
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Api {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.process(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        while !said.contains("the API is served at") {
            said += &lines.next().expect("it says where").unwrap();
            said.push('\n');
        }
        let at = said.split_once("http://").unwrap().1.split_once(": ").unwrap().0.to_owned();
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| {
                let mut log = kept.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            });
        });
        Self { child, at, said, log }
    }

    fn get(&self, path: &str, token: Option<&str>) -> (u16, String) {
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let answer = self.ask("GET", path, &token.unwrap_or_default(), "");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// The whole answer to a request with these lines in its head.
    fn ask(&self, method: &str, path: &str, lines: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.at).unwrap();
        let (at, length) = (&self.at, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {at}\r\n{lines}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Ends it as it should end.
    fn stop(mut self) {
        signal(self.child.id(), "TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

fn made(place: &Place, more: &[&str]) -> String {
    let said = stdout(&place.command(&[&["token", "make"], more].concat()));
    said.trim().to_owned()
}

#[test]
fn a_server_is_open_here_until_a_token_is_made_and_ends_when_it_is_told_to() {
    for place in [Place::sqlite(), Place::postgres()] {
        let api = Api::start(&place, &["serve", "--listen", "127.0.0.1:0"]);
        assert!(api.said.contains("open to everybody on this machine"), "{}", api.said);
        assert!(api.said.contains("a new one: there was none"), "{}", api.said);
        assert_eq!(api.get("/v1/consumers", None).0, 200);
        assert_eq!(api.get("/readyz", None), (200, "ok\n".to_owned()));
        let token = made(&place, &["ops", "--scope", "read,operate"]);
        assert!(token.starts_with("anb_") && !token.contains('\n'), "{token}");
        until("it asks for the token", || api.get("/v1/consumers", None).0 == 401);
        assert_eq!(api.get("/v1/consumers", Some(&token)).0, 200);
        let listed = stdout(&place.command(&["token", "list", "--json"]));
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(listed["name"], "ops");
        stdout(&place.command(&["token", "revoke", listed["id"].as_str().unwrap()]));
        until("it is refused", || api.get("/v1/consumers", Some(&token)).0 == 401);
        api.stop();
        let again = Api::start(&place, &["serve", "--listen", "127.0.0.1:0"]);
        assert!(again.said.contains("each request needs a token"), "{}", again.said);
        assert!(
            again.said.contains("the log is ") && !again.said.contains("a new one"),
            "{}",
            again.said
        );
    }
}

/// Tails stay open for as long as their readers like.
#[test]
fn tails_leave_connections_for_others() {
    let place = Place::sqlite();
    let api = Api::start(&place, &["serve", "--listen", "127.0.0.1:0", "--connections", "8"]);
    let mut tails = Vec::new();
    let refused = loop {
        let mut stream = TcpStream::connect(&api.at).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let head = format!("GET /v1/tail HTTP/1.1\r\nhost: {}\r\n\r\n", api.at);
        stream.write_all(head.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("there is a connection for it");
        match &status[9..] {
            b"200" => tails.push(stream),
            status => break String::from_utf8_lossy(status).into_owned(),
        }
    };
    assert_eq!((tails.len(), refused.as_str()), (4, "429"));
    assert_eq!(api.get("/livez", None).0, 200);
}

#[test]
fn other_machines_are_not_let_in_without_a_token() {
    for place in [Place::sqlite(), Place::postgres()] {
        let refused = place.command(&["serve", "--listen", "0.0.0.0:0"]);
        let said = failure(&refused, 1);
        assert!(said.contains("[no_token]") && said.contains("anabranch token make"), "{said}");
        made(&place, &["ops", "--scope", "operate", "--expires", "1h"]);
        let api = Api::start(&place, &["serve", "--listen", "0.0.0.0:0"]);
        let api = Api {
            at: api.at.replace("0.0.0.0", "127.0.0.1"),
            child: take(api),
            said: String::new(),
            log: Arc::default(),
        };
        assert_eq!(api.get("/v1/consumers", None).0, 401);
        assert_eq!(api.get("/metrics", None).0, 401);
        assert_eq!(api.get("/livez", None).0, 200);
    }
}

/// The process of a server that is not to be ended yet.
fn take(mut api: Api) -> Child {
    let nothing = std::process::Command::new("true").spawn().unwrap();
    std::mem::replace(&mut api.child, nothing)
}

#[test]
fn no_secret_is_in_logs_metrics_or_the_journal() {
    for place in [Place::sqlite(), Place::postgres()] {
        let token = made(&place, &["ops", "--scope", "read,operate,append"]);
        let api = Api::start(&place, &["serve", "--listen", "127.0.0.1:0", "--log-level", "trace"]);
        let json = "content-type: application/json\r\nx-anabranch: 1\r\n";
        let bearer = |token: &str| format!("authorization: Bearer {token}\r\n{json}");
        let post = |path: &str, lines: &str, body: &str| api.ask("POST", path, lines, body);
        let has = |answer: String, status: &str| assert_eq!(&answer[9..12], status, "{answer}");
        // Tokens that are good, wrong and made, in heads and bodies; a cookie, and what was appended.
        let wrong = format!("anb_{:043}", 7);
        has(api.ask("GET", "/v1/consumers", &bearer(&wrong), ""), "401");
        has(post("/v1/session", json, &format!(r#"{{"token": "{wrong}"}}"#)), "401");
        let session = post("/v1/session", json, &format!(r#"{{"token": "{token}"}}"#));
        let cookie = session.split_once("anabranch_session=").unwrap().1.split(';').next().unwrap();
        has(
            api.ask("GET", "/v1/session", &format!("cookie: anabranch_session={cookie}\r\n"), ""),
            "200",
        );
        let other = post("/v1/tokens", &bearer(&token), r#"{"name": "other", "scopes": ["read"]}"#);
        let other = other.split_once(r#""secret":""#).unwrap().1.split('"').next().unwrap();
        let event = r#"{"events": [{"type": "Placed", "data": "b0dy-0f-an-event"}]}"#;
        has(post("/v1/streams/Order/1", &bearer(&token), event), "200");
        let task = r#"{"key": "cust-7", "payload": "b0dy-0f-a-task"}"#;
        has(post("/v1/pools/mails/tasks", &bearer(&token), task), "202");
        let plan = post(
            "/v1/plans",
            &bearer(&token),
            r#"{"do": "pause_key", "pool": "mails", "key": "cust-7"}"#,
        );
        let plan = plan.split_once(r#""id":""#).unwrap().1.split('"').next().unwrap();
        has(post(&format!("/v1/plans/{plan}/apply"), &bearer(&token), ""), "200");
        let said = [
            ("the metrics", api.get("/metrics", Some(&token)).1),
            ("the journal", api.get("/v1/journal", Some(&token)).1),
            ("the command", stdout(&place.command(&["journal", "--json"]))),
            ("the log", api.log.lock().unwrap().clone()),
        ];
        assert!(said[1].1.contains(r#""who":"ops""#), "{}", said[1].1);
        assert!(said[3].1.contains("an append is stored"), "it logs: {}", said[3].1);
        let hidden =
            [&token[4..], &wrong, cookie, &other[4..], "b0dy-0f-an-event", "b0dy-0f-a-task"];
        for (name, said) in &said {
            for secret in hidden {
                assert!(!said.contains(secret), "{secret} is in {name}: {said}");
            }
        }
    }
}

/// The first thing that somebody does.
#[test]
fn a_token_is_made_where_there_is_no_log_yet() {
    for place in [Place::sqlite(), Place::postgres()] {
        assert!(made(&place, &["first", "--scope", "read"]).starts_with("anb_"));
        let api = Api::start(&place, &["serve", "--listen", "127.0.0.1:0"]);
        assert_eq!(api.get("/v1/consumers", None).0, 401);
    }
}

#[test]
fn what_cannot_be_a_token_is_refused() {
    let place = Place::sqlite();
    stdout(&place.command(&["migrate"]));
    for (wrong, code) in [
        (&["token", "make", "x"][..], 2),
        (&["token", "make", "x", "--scope", "all"], 2),
        (&["token", "make", "x", "--scope", "read", "--expires", "soon"], 2),
        (&["token", "make", "", "--scope", "read"], 1),
        (&["token", "revoke", "nonsense"], 1),
        (&["serve", "--tls-cert", "x"], 2),
        (&["serve", "--tls-cert", "x", "--tls-key", "y"], 1),
    ] {
        failure(&place.command(wrong), code);
    }
}

#[test]
fn workers_serve_the_api_beside_them() {
    for place in [Place::sqlite(), Place::postgres()] {
        place.write("orders.toml", FILE);
        let api = Api::start(&place, &["run", "orders.toml", "--listen", "127.0.0.1:0"]);
        until("its worker has all slots", || {
            let (status, body) = api.get("/v1/consumers/totals/slots", None);
            status == 200 && body.contains(r#""is_alive":true"#)
        });
        until("it is ready", || api.get("/readyz", None).0 == 200);
        assert!(api.get("/metrics", None).1.contains("anabranch_build_info"));
        api.stop();
    }
}
