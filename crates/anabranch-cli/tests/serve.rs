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
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, at, said }
    }

    fn get(&self, path: &str, token: Option<&str>) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.at).unwrap();
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let token = token.unwrap_or_default();
        let head =
            format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{token}connection: close\r\n\r\n", self.at);
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
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
        assert!(again.said.contains("the log is ") && !again.said.contains("a new one"), "{}", again.said);
    }
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
        };
        assert_eq!(api.get("/v1/consumers", None).0, 401);
        assert_eq!(api.get("/metrics", None).0, 401);
        assert_eq!(api.get("/livez", None).0, 200);
    }
}

/// The process of a server that is not to be ended yet.
fn take(mut api: Api) -> Child {
    let nothing = std::process::Command::new("true").spawn().unwrap();
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
    assert_eq!((tails.len(), refused.as_str()), (6, "429"));
    assert_eq!(api.get("/livez", None).0, 200);
}

    std::mem::replace(&mut api.child, nothing)
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
