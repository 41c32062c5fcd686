//! What a server bears: large and slow requests, many connections, readers that stop, and its own end.

use crate::client::Server;
use crate::support::Db;
use anabranch_server::{Api, Scope, ServerLimits, Tls};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LONG: Duration = Duration::from_secs(20);

async fn server(limits: ServerLimits, set: impl FnOnce(Api) -> Api) -> (Db, Server) {
    let db = Db::sqlite();
    let server = Server::with(&db.log().await, limits, set).await;
    (db, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_too_large_is_refused() {
    let (_db, server) = server(ServerLimits::default(), |api| api.append_limit(3000)).await;
    let token = server.token(&[Scope::Operate, Scope::Append]).await;
    let name = "x".repeat(1024 * 1024);
    let large = format!(r#"{{"name": "{name}", "scopes": ["operate"]}}"#);
    server.post("/v1/tokens", &token, &large).await.problem(413, "body_too_large");
    let body = |length: usize| {
        format!(r#"{{"events": [{{"type": "A", "data": "{}"}}]}}"#, "x".repeat(length))
    };
    let large = server.post("/v1/streams/A/1", &token, &body(3000)).await;
    let said = large.problem(413, "body_too_large")["detail"].to_string();
    assert!(said.contains("3000 bytes"), "{said}");
    // A token alone is told what is missing, and is in no answer.
    let bare = server.ask("GET", "/v1/consumers", &[("authorization", &token)], "").await;
    assert!(!bare.text.contains(&token), "{}", bare.text);
    let said = bare.problem(401, "not_authenticated")["detail"].to_string();
    assert!(said.contains("`Bearer` before it"), "{said}");
    server.post("/v1/streams/A/1", &token, &body(2000)).await.good();
    // One that does not say how long it is.
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    let head = format!(
        "POST /v1/streams/A/1 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}0\r\n\r\n"
    );
    let answer = server.raw(head.as_bytes(), LONG).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_are_too_large_are_refused() {
    let (_db, server) = server(ServerLimits::default(), |api| api).await;
    let large =
        format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(20_000));
    let answer = server.raw(large.as_bytes(), LONG).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many: String = (0..200).map(|number| format!("x{number}: y\r\n")).collect();
    let many = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    let answer = server.raw(many.as_bytes(), LONG).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_head_and_a_slow_body_are_given_up() {
    let limits = ServerLimits { head: Duration::from_millis(300), ..ServerLimits::default() };
    let (_db, server) = server(limits, |api| api.time_limit(Duration::from_millis(500))).await;
    let (began, mut slow) = (Instant::now(), TcpStream::connect(server.address).await.unwrap());
    slow.write_all(b"GET /livez HTTP/1.1\r\nhost: localho").await.unwrap();
    let mut read = Vec::new();
    let ended = tokio::time::timeout(LONG, slow.read_to_end(&mut read)).await;
    assert!(ended.is_ok(), "the connection is still open after {:?}", began.elapsed());
    let head = "POST /v1/session HTTP/1.1\r\nhost: localhost\r\nx-anabranch: 1\r\n\
                content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let answer = server.raw(head.as_bytes(), LONG).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("request_too_slow"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_connections_than_there_is_room_for_wait_and_are_answered() {
    let limits = ServerLimits { connections: 2, ..ServerLimits::default() };
    let (_db, server) = server(limits, |api| api).await;
    let idle = [
        TcpStream::connect(server.address).await.unwrap(),
        TcpStream::connect(server.address).await.unwrap(),
    ];
    // Both are taken: what they send is answered.
    let mut taken = Vec::new();
    for mut stream in idle {
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        taken.push(stream);
    }
    let waits =
        server.raw(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n", Duration::from_millis(300));
    assert_eq!(waits.await, "", "there is no room for a third one");
    drop(taken);
    let live = tokio::time::timeout(LONG, server.ask("GET", "/livez", &[], "")).await;
    assert_eq!(live.expect("its turn never came").status, 200);
}

/// Opens what is not answered to its end, and says with which status it began.
async fn hold(server: &Server, path: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    let read = tokio::time::timeout(LONG, stream.read_exact(&mut status)).await;
    read.expect("there is no connection left for it").unwrap();
    (stream, String::from_utf8_lossy(&status[9..]).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tails_and_waits_leave_connections_for_others() {
    use anabranch::workpool::{NewTask, Tasks};
    let limits = ServerLimits { connections: 8, ..ServerLimits::default() };
    let (_db, server) = server(limits, |api| api.connections(8)).await;
    let task = Tasks::new(&server.log, "mails").enqueue(NewTask::new("k", &1)).await.unwrap().id;
    let mut held = Vec::new();
    for (path, most) in [("/v1/tail", 4), ("/v1/live?watch=%2Fv1%2Fworkers", 2)] {
        let mut streams = 0;
        while let (stream, status) = hold(&server, path).await
            && status == "200"
        {
            held.push(stream);
            streams += 1;
        }
        assert_eq!(streams, most, "{path}");
    }
    // One may wait, which is answered in a minute; the next one is told at once that it may not.
    let mut waits = TcpStream::connect(server.address).await.unwrap();
    let wait = format!("/v1/tasks/{task}/wait?seconds=60");
    let head = format!("GET {wait} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    waits.write_all(head.as_bytes()).await.unwrap();
    let began = Instant::now();
    loop {
        let other = format!("/v1/tasks/{task}/wait?seconds=1");
        let answer = tokio::time::timeout(LONG, server.ask("GET", &other, &[], "")).await;
        let answer = answer.expect("there is no connection left for it");
        if answer.status == 429 {
            break;
        }
        assert!(began.elapsed() < LONG, "{}", answer.text);
    }
    let live = tokio::time::timeout(LONG, server.ask("GET", "/livez", &[], "")).await;
    assert_eq!(live.expect("a probe is not answered").status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_ends_tails_at_once_and_finishes_what_is_under_way() {
    let (_db, server) = server(ServerLimits::default(), |api| api).await;
    let mut tail = TcpStream::connect(server.address).await.unwrap();
    tail.write_all(b"GET /v1/tail HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = [0; 15];
    tail.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    // A request of which the body is still to come.
    let mut half = TcpStream::connect(server.address).await.unwrap();
    let body = br#"{"events": [{"type": "A", "data": 1}]}"#;
    let head = format!(
        "POST /v1/streams/A/1 HTTP/1.1\r\nhost: localhost\r\nx-anabranch: 1\r\nexpect: 100-continue\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    half.write_all(head.as_bytes()).await.unwrap();
    let mut goes_on = [0; 25];
    half.read_exact(&mut goes_on).await.unwrap();
    assert!(goes_on.starts_with(b"HTTP/1.1 100"), "the handler reads its body");
    let (address, log) = (server.address, server.log.clone());
    let stopping = tokio::spawn(server.stop());
    let mut rest = Vec::new();
    tokio::time::timeout(LONG, tail.read_to_end(&mut rest)).await.expect("the tail ends").unwrap();
    half.write_all(body).await.unwrap();
    let mut answer = String::new();
    half.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    tokio::time::timeout(LONG, stopping).await.expect("the server ends").unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "it listens no more");
    assert_eq!(log.head().await.unwrap().get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_encrypted_by_a_certificate_of_files() {
    let at = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frame/tls").join(name);
    let (certificate, key) = (at("certificate.pem"), at("key.pem"));
    let tls = Tls::from_files(&certificate, &key).unwrap();
    let db = Db::sqlite();
    let server =
        Server::with_tls(&db.log().await, ServerLimits::default(), Some(tls), Api::encrypted).await;
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::CertificateDer::from_pem_file(&certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Who does not encrypt gets no answer.
    let plain = server.raw(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n", LONG).await;
    assert!(!plain.contains("200 OK"), "{plain}");
    // What is wrong with files is said with their name, and without what they hold.
    let error = Tls::from_files(&key, &key).unwrap_err().to_string();
    assert!(error.contains("key.pem") && error.contains("no certificate"), "{error}");
    let error = Tls::from_files(&certificate, &certificate).unwrap_err().to_string();
    assert!(error.contains("certificate.pem") && !error.contains("MII"), "{error}");
}
