//! Signs of life: an advisory lock that a worker holds for as long as its process lives.
//!
//! The server sees a connection close the moment its process is gone, and the lock goes with it. A
//! peer waits for that lock, so it learns of a death within milliseconds and without asking again and
//! again. A lock may also go because a connection was cut while the process lives: it is taken again at
//! once, so a peer looks twice before it believes what it sees.

use crate::connection::Server;
use crate::error::Failure;
use crate::keys::Classes;
use crate::wake::{Task, connect};
use anabranch_core::{HashRule, StoreError};
use anabranch_store::database::Who;
use anabranch_store::{Backoff, Namespace};
use std::time::Duration;
use tokio_postgres::{Client, SimpleQueryMessage};

/// How long one wait for a lock lasts: a statement keeps a snapshot, and with it old rows, alive.
/// Below the server's `deadlock_timeout`, after which it would look for deadlocks and log the wait.
const WAIT: Duration = Duration::from_millis(900);
/// How long a worker whose connection was cut has to take its lock again.
const SECOND_LOOK: Duration = Duration::from_millis(150);
/// After a cut of our own, others may have been cut too: they have so long to come back. Nobody
/// waits longer between two tries.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) struct Life {
    server: Server,
    class: i32,
}

impl Life {
    pub(crate) fn new(server: Server, namespace: &Namespace) -> Self {
        Self { server, class: Classes::of(namespace).workers }
    }

    /// Takes a worker's lock, and keeps it until the task is dropped.
    pub(crate) async fn show(self, worker: String) -> Result<Task, StoreError> {
        let mut session = self.take(&worker).await.map_err(|error| error.at(&self.server.at))?;
        Ok(Task::spawn(async move {
            loop {
                let _ = (&mut session.1.0).await;
                tracing::debug!(worker, "the connection that shows its life is gone");
                session = self.take_again(&worker).await;
            }
        }))
    }

    async fn take(&self, worker: &str) -> Result<(Client, Task), Failure> {
        let (client, driver) = connect(&self.server, |_| {}).await?;
        let (class, key) = (self.class, key(worker));
        let name = Who { worker: worker.to_owned(), lane: "life".to_owned() }.name();
        // Idle for as long as the worker lives, and on purpose.
        let take = format!(
            "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'; \
             SET application_name = '{name}'; SELECT pg_advisory_lock({class}, {key})"
        );
        self.server.in_time(client.batch_execute(&take)).await?;
        Ok((client, driver))
    }

    async fn take_again(&self, worker: &str) -> (Client, Task) {
        let mut backoff = Backoff::default();
        loop {
            match self.take(worker).await {
                Ok(session) => return session,
                Err(error) => {
                    let error = error.at(&self.server.at);
                    tracing::debug!(worker, %error, "cannot show its life yet");
                }
            }
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    /// Resolves when a worker's lock is free, and still is a moment later.
    pub(crate) async fn death_of(self, worker: String) {
        let mut backoff = Backoff::default();
        let mut is_first = true;
        loop {
            if let Ok((client, _driver)) = connect(&self.server, |_| {}).await {
                backoff.end();
                if !is_first {
                    tokio::time::sleep(SETTLE).await;
                }
                if self.watch(&client, &worker).await.is_ok() {
                    return;
                }
            }
            is_first = false;
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    /// Waits for the death of a worker on one connection.
    async fn watch(&self, client: &Client, worker: &str) -> Result<(), Failure> {
        let (class, key, wait) = (self.class, key(worker), WAIT.as_millis());
        let name = "SET application_name = 'anabranch watch'; SET statement_timeout = 0";
        self.server.in_time(client.batch_execute(name)).await?;
        // One transaction, so that the lock is free again at once. That the wait ends in vain is caught
        // there: as an error it would stand in the server's log each time.
        let take = format!(
            "SET LOCAL lock_timeout = {wait}; \
             DO $$ BEGIN PERFORM pg_advisory_xact_lock_shared({class}, {key}); \
             PERFORM set_config('anabranch.is_gone', 'yes', true); \
             EXCEPTION WHEN lock_not_available THEN \
             PERFORM set_config('anabranch.is_gone', 'no', true); END $$; \
             SELECT current_setting('anabranch.is_gone')"
        );
        let mut looks = 0;
        loop {
            let answers = self.server.in_time(client.simple_query(&take)).await?;
            let is_gone = answers.iter().any(|answer| {
                matches!(answer, SimpleQueryMessage::Row(row) if row.get(0) == Some("yes"))
            });
            match (is_gone, looks) {
                (false, _) => looks = 0,
                (true, 0) => {
                    looks += 1;
                    tokio::time::sleep(SECOND_LOOK).await;
                }
                (true, _) => return Ok(()),
            }
        }
    }
}

fn key(worker: &str) -> i32 {
    HashRule::fnv1a32(worker) as i32
}
