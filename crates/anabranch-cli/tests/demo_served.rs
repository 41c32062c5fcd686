//! `anabranch demo --serve`: as a process, by its API.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;

use process::{anabranch, failure, run};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// A demo, and where it is served; it ends with the test.
struct Served {
    child: Child,
    at: String,
}

impl Served {
    fn start(here: &Path) -> Self {
        let mut command = anabranch(here);
        command.args(["demo", "--json", "--serve", "127.0.0.1:0"]).env("TMPDIR", here);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = said.next().unwrap().unwrap();
        let at = first.strip_prefix("open http://").expect("the first line says where").to_owned();
        std::thread::spawn(move || said.for_each(drop));
        Self { child, at }
    }

    fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(&self.at).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.at)
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str(body).unwrap()
    }

    fn until(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) {
        let began = Instant::now();
        loop {
            let consumers = self.get("/v1/consumers");
            if is_so(consumers["items"].as_array().unwrap()) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "waited until {what}: {consumers:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn interrupt(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_demo_is_served_and_proves_itself_at_the_end() {
    let here = tempfile::tempdir().unwrap();
    let mut demo = Served::start(here.path());
    let runners = |consumer: &Value| consumer["runners"].as_array().unwrap().len();
    demo.until("several workers run it and a key is parked", |consumers| {
        let parked = |consumer: &Value| consumer["parked_keys"].as_u64().unwrap();
        let several = consumers.iter().any(|c| c["name"] == "order_totals" && runners(c) >= 3);
        several && consumers.iter().any(|c| c["name"] == "shipments" && parked(c) > 0)
    });
    demo.interrupt();
    let mut printed = String::new();
    demo.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(demo.child.wait().unwrap().code(), Some(0), "{printed}");
    let outcome: Value = serde_json::from_str(&printed).unwrap();
    assert!(outcome["events"].as_u64().unwrap() > 2_000, "{outcome}");
    assert_eq!(outcome["handled"], outcome["events"]);
    for zero in ["lost", "doubled", "out_of_order"] {
        assert_eq!(outcome[zero], 0, "{zero}");
    }
    let left: Vec<_> = std::fs::read_dir(here.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_address_that_is_taken_or_open_to_others_is_refused() {
    let here = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let refused = failure(&run(here.path(), &["demo", "--serve", &at]), 1);
    assert!(refused.contains(&at) && refused.contains("demo --serve 127.0.0.1:"), "{refused}");
    let refused = failure(&run(here.path(), &["demo", "--serve", "0.0.0.0:0"]), 2);
    assert!(refused.contains("this machine only"), "{refused}");
}
