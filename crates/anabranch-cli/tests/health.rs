//! Metrics and health of `anabranch run`, and `anabranch health`, which asks for it: as processes.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

#[path = "files/place.rs"]
mod place;
mod process;
mod serving;

use place::Place;
use process::{failure, stdout};
use serving::{Serving, get, signal, until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::time::{Duration, Instant};

const FILE: &str = r#"
[[replica_set]]
name = "reports"
tuning = { lease = "3s", heartbeat = "600ms" }

[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
on.OrderPlaced = 'INSERT INTO totals (id, cents) VALUES (:stream_id, :data.cents)'
"#;

fn places() -> [Place; 2] {
    let places = [Place::sqlite(), Place::postgres()];
    places.iter().for_each(|place| place.write("orders.toml", FILE));
    places
}

/// What it says, however long this machine takes for that.
fn health(place: &Place, more: &[&str]) -> Output {
    place.command(&[&["health", "--timeout", "60"], more].concat())
}

/// One line, and what it says.
fn unhealthy(output: &Output, why: &str) {
    let said = failure(output, 1);
    assert!(said.starts_with("not healthy: ") && said.contains(why), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

fn healthy(output: &Output) {
    assert_eq!(stdout(output), "ok\n");
}

/// For `until`: where a worker was late for a moment, it is healthy soon.
fn is_healthy(output: &Output) -> bool {
    let is_so = output.status.success();
    if is_so {
        healthy(output);
    }
    is_so
}

/// A worker whose process is stopped loses its lease. When it goes on it says so, and is ready once it has joined again.
#[test]
fn a_process_that_was_stopped_is_ready_when_it_has_its_lease_again() {
    let [_, place] = places();
    let worker = Serving::start(&place, "orders.toml");
    let url = format!("http://{}", worker.at);
    let ask = |more: &[&str]| health(&place, &[&["--url", &url], more].concat());
    until("it is ready", || is_healthy(&ask(&[])));
    until("it is alive", || is_healthy(&ask(&["--live"])));
    let heir = Serving::start(&place, "orders.toml");
    let of_set = |metric: &str, serving: &Serving| {
        let text = get(serving.at, "/metrics").1;
        let line = text.lines().find_map(|line| line.strip_prefix(metric)?.split_once("} "));
        line.map_or(-1.0, |(_, number)| number.parse::<f64>().unwrap())
    };
    let owned = "anabranch_slots_owned{set=\"reports\"";
    until("both have a share", || {
        of_set(owned, &heir) == 2520.0 && of_set(owned, &worker) == 2520.0
    });
    let fenced = "anabranch_fenced_total{set=\"reports\",what=\"worker\"";
    let before = of_set(fenced, &worker);
    assert!(before >= 0.0, "it is there before it happens");

    signal(worker.id(), "STOP");
    for more in [&[][..], &["--live"]] {
        let began = Instant::now();
        let soon = ["health", "--url", &url, "--timeout", "0.5"];
        unhealthy(&place.command(&[&soon, more].concat()), "no answer within 500ms");
        // Without the limit it would wait for as long as the process stands still.
        assert!(began.elapsed() < Duration::from_secs(60), "the limit is hard");
    }
    until("the heir has it all", || of_set(owned, &heir) == 5040.0);
    // These were asked while it stood still, and are answered before it has joined again.
    let mut asked: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(worker.at).unwrap();
            stream
                .write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                .unwrap();
            stream
        })
        .collect();
    signal(worker.id(), "CONT");
    let answers = asked.iter_mut().map(|stream| {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answers: Vec<String> = answers.collect();
    // After ten seconds it takes itself for stuck, until it has turned over once.
    let says_so = |answer: &String| {
        let why = ["worker", "has not turned over"];
        answer.starts_with("HTTP/1.1 503") && why.iter().any(|why| answer.contains(why))
    };
    assert!(answers.iter().any(says_so), "{answers:?}");
    until("it is ready again", || is_healthy(&ask(&[])));
    until("it has counted that", || of_set(fenced, &worker) > before);
    until("both have a share again", || of_set(owned, &worker) == 2520.0);
    worker.stop();
    heir.stop();
}

#[test]
fn a_database_is_asked_and_a_worker_of_this_host() {
    for place in places() {
        let health = |more: &[&str]| health(&place, more);
        unhealthy(&health(&[]), "no_such_log");
        assert!(place.command(&["migrate"]).status.success());
        healthy(&health(&[]));
        unhealthy(&health(&["--worker"]), "there is no worker on");
        let worker = Serving::start(&place, "orders.toml");
        until("its worker holds its lease", || is_healthy(&health(&["--worker"])));
        until("it is of its set", || is_healthy(&health(&["--worker", "--set", "reports"])));
        let other = health(&["--worker", "--set", "other"]);
        unhealthy(&other, "there is no worker of replica set `other` on");
        let mut elsewhere = place.process(&["health", "--worker", "--timeout", "60"]);
        let elsewhere = elsewhere.env("HOSTNAME", "elsewhere").output().unwrap();
        unhealthy(&elsewhere, "there is no worker on elsewhere");
        signal(worker.id(), "KILL");
        // One that gives no answer in time has not said so.
        let says_so = |output: Output| String::from_utf8_lossy(&output.stderr).contains("is over");
        until("its lease is over", || says_so(health(&["--worker"])));
        unhealthy(&health(&["--worker"]), "is over");
        healthy(&health(&[]));
    }
}

#[test]
fn what_cannot_be_reached_is_not_healthy() {
    let place = Place::sqlite();
    place.write("orders.toml", FILE);
    let health = |arguments: &[&str]| health(&place, arguments);
    assert!(place.command(&["migrate"]).status.success());
    // Nobody listens there, and nobody is given that port meanwhile.
    let gone = "127.0.0.1:9";
    let process = format!("http://{gone}");
    unhealthy(&health(&["--url", &process]), "cannot ask");
    let database = format!("postgres://a:secret@{gone}/shop");
    let output = health(&["--url", &database]);
    unhealthy(&output, gone);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("secret"));
    // The log is one of two that are needed.
    unhealthy(&health(&["--events-url", &database]), gone);
    // One that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    // Without the limit, the one would wait for ever and the other for a minute.
    let silent_database = format!("postgres://a:b@{silent}/shop?connect_timeout=60");
    for url in [format!("http://{silent}"), silent_database] {
        let began = Instant::now();
        unhealthy(&place.command(&["health", "--url", &url, "--timeout", "1"]), "");
        assert!(began.elapsed() < Duration::from_secs(50), "{url} took {:?}", began.elapsed());
    }
    // A server that is another one.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        stream.write_all(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n").unwrap();
    });
    unhealthy(&health(&["--url", &url]), "answers 404: is it Anabranch?");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let place = Place::sqlite();
    for (arguments, why) in [
        (&["--url", "https://a:1"][..], "without TLS"),
        (&["--url", "http://a:1/readyz"], "name host and port alone"),
        (&["--url", "http://"], "name host and port alone"),
        (&["--live"], "--live asks a process"),
        (&["--url", "http://a:1", "--worker"], "leave it out"),
    ] {
        let said = failure(&place.command(&[&["health"], arguments].concat()), 1);
        assert!(said.contains(why) && said.contains("[invalid_arguments]"), "{said}");
    }
    for arguments in [&["--live", "--worker"][..], &["--timeout", "0"], &["--set", "a"]] {
        failure(&place.command(&[&["health"], arguments].concat()), 2);
    }
}

#[test]
fn an_address_that_cannot_be_had_is_said_before_anything_is_made() {
    let place = Place::sqlite();
    place.write("orders.toml", FILE);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let said = failure(&place.command(&["run", "orders.toml", "--metrics", &at]), 1);
    assert!(said.contains(&format!("cannot serve metrics on {at}: ")), "{said}");
    for wrong in ["9090", ":9090", "127.0.0.1", "127.0.0.1:99999", "http://127.0.0.1:9090"] {
        let said = failure(&place.command(&["run", "orders.toml", "--metrics", wrong]), 2);
        assert!(said.contains("as 127.0.0.1:9090"), "{said}");
    }
    assert!(!place.path("orders.db").exists());
    // A name will do.
    let worker = Serving::start_at(&place, &["run", "orders.toml", "--metrics", "localhost:0"]);
    until("it is ready", || get(worker.at, "/readyz") == (200, "ok\n".to_owned()));
    worker.stop();
}
