//! What a server of metrics and health answers.

use crate::support::PATIENCE;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The status and the body of an answer.
pub fn get(at: SocketAddr, path: &str, accept: &str) -> (u16, String) {
    try_get(at, path, accept).unwrap()
}

/// The same, for those who ask again if there is none.
pub fn try_get(at: SocketAddr, path: &str, accept: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    status.zip(body).ok_or_else(|| io::Error::other(format!("no answer: {answer}")))
}

/// The same, while the runtime of the test goes on.
pub async fn asked(at: SocketAddr, path: &'static str, accept: &'static str) -> (u16, String) {
    tokio::task::spawn_blocking(move || get(at, path, accept)).await.unwrap()
}

/// Asks until the answer is as it should be.
pub async fn until_says(
    at: SocketAddr,
    path: &'static str,
    is_good: impl Fn(u16, &str) -> bool,
) -> String {
    let began = Instant::now();
    loop {
        let (status, body) = asked(at, path, "*/*").await;
        if is_good(status, &body) {
            return body;
        }
        assert!(began.elapsed() < PATIENCE, "{path} says {status}: {body}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub async fn until_ready(at: SocketAddr) {
    until_says(at, "/readyz", |status, _| status == 200).await;
}

/// Returns the reason.
pub async fn until_not_ready(at: SocketAddr, why: &'static str) -> String {
    until_says(at, "/readyz", |status, body| status == 503 && body.contains(why)).await
}

/// The value of a line of metrics, if it is there.
pub fn value(text: &str, name: &str) -> Option<f64> {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.map(|number| number.parse().unwrap())
}
