//! How sessions of a server are opened.

use crate::error::Failure;
use crate::hosts::{Hosts, NotOpened};
use crate::room::{self, Room, Seen};
use crate::session::{Bare, Begun, Connection};
use crate::url;
use anabranch_core::StoreError;
use anabranch_store::Emitter;
use anabranch_store::{Durability, Home};
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Config, Error, SimpleQueryMessage, SimpleQueryRow};

/// How long to wait for the server, unless the URL says otherwise.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// How long a server may say nothing before it counts as gone, unless the URL says otherwise by
/// `tcp_user_timeout`. The waits for locks are shorter.
const SILENCE: Duration = Duration::from_secs(20);

/// After how long a silent connection is asked for life, unless the URL says otherwise.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A server, and how its sessions are opened.
#[derive(Clone)]
pub(crate) struct Server {
    hosts: Hosts,
    /// The runtime that its sessions belong to, whoever uses them.
    pub(crate) home: Home,
    /// For messages: without the password.
    pub(crate) at: String,
    /// How many sessions were opened. A new one may lead to a server that was promoted, and had less than the
    /// one before: what is known of a log begins anew with it.
    pub(crate) opened: Arc<AtomicU64>,
    /// How long it may say nothing.
    pub(crate) silence: Duration,
    /// What every session begins with.
    session: &'static str,
    /// How many connections it has room for.
    pub(crate) room: Arc<Room>,
    /// Says what happens to the observers of all logs that share its sessions.
    pub(crate) events: Emitter,
}

/// Adds what a URL does not say, and says how long the server may be silent.
fn complete(config: &mut Config) -> Duration {
    if config.get_hosts().is_empty() {
        // A host without a name is called by its address: its certificate is for that.
        let addresses = config.get_hostaddrs().to_vec();
        for address in &addresses {
            config.host(address.to_string());
        }
        if addresses.is_empty() {
            config.host("localhost");
        }
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_WAIT);
    }
    if config.get_application_name().is_none() {
        config.application_name("anabranch");
    }
    if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
        config.keepalives_idle(KEEPALIVE);
    }
    let silence = *config.get_tcp_user_timeout().unwrap_or(&SILENCE);
    config.tcp_user_timeout(silence);
    silence
}

impl Server {
    pub(crate) fn parse(
        url: &str,
        durability: Durability,
        tracing: bool,
    ) -> Result<Self, StoreError> {
        let (mut config, said) = url::parse(url)?;
        let silence = complete(&mut config);
        let at = url::describe(&config);
        let patience = config.get_connect_timeout().copied().unwrap_or(CONNECT_WAIT);
        let hosts = Hosts::of(&config, said, patience)
            .map_err(|why| StoreError::NotTrusted { at: at.clone(), source: why.into() })?;
        let session = match durability {
            Durability::Full => include_str!("../queries/session_full.sql"),
            Durability::Relaxed => include_str!("../queries/session_relaxed.sql"),
        };
        let (home, opened) = (Home::here(), Arc::default());
        let (room, events) = (Arc::default(), Emitter::new(tracing));
        Ok(Self { hosts, home, at, opened, silence, session, room, events })
    }

    /// A session, set up as all are.
    pub(crate) async fn open(&self) -> Result<Connection, Failure> {
        self.open_listening(|_| {}).await
    }

    /// A session that tells what it is notified of.
    pub(crate) async fn open_listening(
        &self,
        woken: impl Fn(&str) + Send + 'static,
    ) -> Result<Connection, Failure> {
        let server = self.clone();
        let open = async move { server.set_up(server.bare(woken).await?).await };
        self.home.run(open).await.map_err(Failure::OtherRuntime)?
    }

    /// The same server, for sessions that belong to the runtime of the caller.
    pub(crate) fn moved_here(self) -> Self {
        Self { home: Home::here(), ..self }
    }

    /// Makes sure that the runtime of its sessions runs, before somebody waits for one of them.
    pub(crate) async fn runs(&self) -> Result<(), Failure> {
        self.home.runs().await.map_err(Failure::OtherRuntime)
    }

    /// A connection of which nothing is known yet.
    pub(crate) async fn bare(
        &self,
        woken: impl Fn(&str) + Send + 'static,
    ) -> Result<Bare, Failure> {
        let patience = self.hosts.patience();
        // Large, and seldom.
        let connect = tokio::time::timeout(patience, Box::pin(self.hosts.open(&self.events)));
        let Ok(connected) = connect.await else { return Err(Failure::NotThere(patience)) };
        let (client, connection) = connected.map_err(|why| match why {
            NotOpened::NotTrusted(why) => Failure::NotTrusted(why),
            NotOpened::Driver(error) => Failure::opening(error, &self.room),
        })?;
        let (end, closed) = watch::channel(false);
        let driver = tokio::spawn(async move {
            let mut connection = connection;
            let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(notification) = message {
                    woken(notification.channel());
                }
            }
            end.send_replace(true);
        });
        Ok(Bare { client, driver: driver.abort_handle(), closed })
    }

    /// Makes it a session of ours, in one round trip.
    pub(crate) async fn set_up(&self, bare: Bare) -> Result<Connection, Failure> {
        self.opened.fetch_add(1, Ordering::AcqRel);
        let look = room::LOOK;
        let set_up = format!(
            "{}; SELECT pg_backend_pid() AS pid, pg_is_in_recovery() AS standby, \
             current_setting('role') AS role, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS started, room.* \
             FROM ({look}) AS room",
            self.session
        );
        let answers = tokio::time::timeout(self.silence, bare.client.simple_query(&set_up)).await;
        let Ok(answers) = answers else { return Err(Failure::NotThere(self.silence)) };
        let answers = answers.map_err(|error| Failure::opening(error, &self.room))?;
        let row = rows(&answers).last();
        let number = |name| row.and_then(|row| int(row, name)).unwrap_or_default();
        // A standby does not see the marks of appends in flight on its primary.
        if row.and_then(|row| row.get("standby")) != Some("f") {
            return Err(Failure::Standby);
        }
        self.room.saw(Seen {
            most: number("most"),
            reserved: number("reserved"),
            used: number("used"),
        });
        let started = row.and_then(|row| row.get("started")?.parse().ok()).unwrap_or_default();
        let role = row.and_then(|row| row.get("role")).unwrap_or("none").to_owned();
        let begun = Begun { pid: number("pid"), role, started };
        Ok(Connection::new(bare, self.session, begun))
    }

    /// Waits for an answer, though not for ever.
    pub(crate) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.silence, work).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failure::Silent(self.silence)),
        }
    }
}

/// The rows among the answers to statements that were sent as text.
pub(crate) fn rows(answers: &[SimpleQueryMessage]) -> impl Iterator<Item = &SimpleQueryRow> {
    answers.iter().filter_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
}

/// A number of a row that is text.
pub(crate) fn int(row: &SimpleQueryRow, name: &str) -> Option<i32> {
    row.get(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_url_says_counts() {
        let times = |url: &str| {
            let mut config = url.parse().unwrap();
            let silence = complete(&mut config);
            (config.get_keepalives_idle().as_secs(), silence.as_secs())
        };
        assert_eq!(times("postgres://db/shop"), (30, 20));
        assert_eq!(times("postgres://db/shop?keepalives_idle=7&tcp_user_timeout=9"), (7, 9));
    }

    #[test]
    fn a_host_without_a_name_is_called_by_its_address() {
        for (url, expected) in [
            ("postgres:///shop", "localhost:5432"),
            ("postgres:///shop?hostaddr=10.0.0.7", "10.0.0.7:5432"),
            ("postgres:///shop?hostaddr=10.0.0.7,%3A%3A2", "10.0.0.7:5432,[::2]:5432"),
            ("postgres://db/shop?hostaddr=10.0.0.7", "db:5432"),
        ] {
            let mut config = url.parse().unwrap();
            complete(&mut config);
            assert_eq!(url::hosts(&config), expected);
        }
    }
}
