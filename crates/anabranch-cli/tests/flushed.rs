//! What a command has appended when it ends, other processes have been told of.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;

use anabranch::postgres::tokio_postgres::{AsyncMessage, Client, NoTls, connect};
use futures_util::{StreamExt, stream};
use process::{anabranch, postgres, run};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(10);

/// Hears the notifications of a log.
struct Ears {
    /// Ends the session when it is dropped.
    _client: Client,
    heard: mpsc::UnboundedReceiver<()>,
}

impl Ears {
    async fn of(namespace: &str) -> Self {
        let (client, mut connection) = connect(&postgres(), NoTls).await.unwrap();
        let (hear, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(_) = message {
                    hear.send(()).unwrap();
                }
            }
        });
        client.batch_execute(&format!("LISTEN {namespace}_appended")).await.unwrap();
        Self { _client: client, heard }
    }

    /// Waits for one; without it this would take for ever.
    async fn hear(&mut self, what: &str) {
        let heard = tokio::time::timeout(PATIENCE, self.heard.recv()).await;
        heard.unwrap_or_else(|_| panic!("nobody was told of {what}")).unwrap();
    }
}

/// A line, and one that is refused; returns the exit code.
fn append(here: &Path, namespace: &str) -> Option<i32> {
    let mut command = anabranch(here);
    command.args(["append", "--lines", "--url", &postgres(), "--namespace", namespace]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, r#"{{"stream": "Order:1", "type": "OrderPlaced"}}"#).unwrap();
    writeln!(input, "no JSON").unwrap();
    drop(input);
    child.wait().unwrap().code()
}

#[tokio::test(flavor = "multi_thread")]
async fn others_hear_of_an_append_before_the_command_ends() {
    let here = tempfile::tempdir().unwrap();
    let namespace = format!("heard_{}", std::process::id());
    let log = ["--url", &postgres(), "--namespace", &namespace];
    assert!(run(here.path(), &[&["migrate"], &log[..]].concat()).status.success());
    let mut ears = Ears::of(&namespace).await;
    let one = [&["append", "Order:1", "OrderPlaced"], &log[..]].concat();
    assert!(run(here.path(), &one).status.success());
    ears.hear("one event").await;
    // The line before one that is refused is stored.
    for _ in 0..5 {
        assert_eq!(append(here.path(), &namespace), Some(1));
        ears.hear("the line before the refused one").await;
    }
}
