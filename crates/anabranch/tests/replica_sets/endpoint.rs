//! An endpoint outside, and a subscriber that calls it: it answers, or refuses connections.

use crate::support::*;
use anabranch::prelude::*;
use anabranch::{Delivery, HandlerError, Retry};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

type Received = Arc<Mutex<HashMap<u64, Vec<u64>>>>;

/// A server that writes down what it is sent: a key and a number.
pub struct Endpoint {
    pub port: u16,
    received: Received,
    task: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Opens one at a port that no outgoing connection is given.
    pub async fn open() -> Self {
        for port in 20_000 + (std::process::id() % 10_000) as u16.. {
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await {
                let received = Received::default();
                let task = Some(serve(listener, &received));
                return Self { port, received, task };
            }
        }
        unreachable!("there are ports enough");
    }

    /// Refuses connections from now on.
    pub async fn close(&mut self) {
        let task = self.task.take().unwrap();
        task.abort();
        let _ = task.await;
        let address = ("127.0.0.1", self.port);
        until("it to refuse", async || TcpStream::connect(address).await.err()).await;
    }

    pub async fn open_again(&mut self) {
        let address = ("127.0.0.1", self.port);
        let listener = until("its port", async || TcpListener::bind(address).await.ok()).await;
        self.task = Some(serve(listener, &self.received));
    }

    /// How many keys it has heard of.
    pub fn keys(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    /// The numbers of a key in the order in which they came first, unless one came too late.
    pub fn of_key(&self, key: u64) -> Vec<u64> {
        let received = self.received.lock().unwrap();
        let mut numbers = received.get(&key).cloned().unwrap_or_default();
        let is_in_order = numbers.is_sorted();
        numbers.dedup();
        assert!(is_in_order, "key {key}: {numbers:?}");
        numbers
    }
}

fn serve(listener: TcpListener, received: &Received) -> JoinHandle<()> {
    let received = Arc::clone(received);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let mut connection = BufReader::new(connection);
            let mut line = String::new();
            if connection.read_line(&mut line).await.is_err() {
                continue;
            }
            let Some((key, number)) = line.trim().split_once(' ') else { continue };
            let (key, number) = (key.parse().unwrap(), number.parse().unwrap());
            received.lock().unwrap().entry(key).or_default().push(number);
            let _ = connection.write_all(b"ok\n").await;
        }
    })
}

/// Calls the endpoint for each event.
#[derive(Clone)]
pub struct Caller {
    pub port: u16,
    pub calls: Arc<AtomicU64>,
}

impl Subscriber for Caller {
    fn name(&self) -> &str {
        "caller"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        Settings::default().retry(Retry::default().first(Duration::from_millis(500)))
    }
    async fn deliver(&self, delivery: &Delivery<'_>) -> HandlerResult {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let event = delivery.event();
        let call = format!("{} {}\n", event.stream_id(), event.data::<u64>()?);
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).await?;
        connection.write_all(call.as_bytes()).await?;
        let mut answer = String::new();
        BufReader::new(connection).read_line(&mut answer).await?;
        match answer.as_str() {
            "ok\n" => Ok(()),
            _ => Err(HandlerError::new("no answer")),
        }
    }
}
