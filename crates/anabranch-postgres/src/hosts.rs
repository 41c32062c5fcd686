//! Which of several servers to connect to: the one that can write.
//!
//! A URL may name several hosts, of which one is the primary and the others are its standbys. The driver takes
//! the first that answers, and waits for ever for one that takes the connection and says nothing (a frozen
//! machine). Here each gets its time, a standby is passed over, and where the primary was last is asked first.

use crate::encryption::{Mode, Place, Said};
use crate::tls::{self, Connector};
use crate::url;
use anabranch_core::{Happening, Notice};
use anabranch_store::Emitter;
use futures_util::future::{Either, select};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;
use tokio_postgres::config::Host;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, SimpleQueryMessage, Socket};

type Stream = <Connector as MakeTlsConnect<Socket>>::Stream;
/// A session, and what drives it.
pub(crate) type Opened = (Client, Connection<Socket, Stream>);

/// Why there is no session.
pub(crate) enum NotOpened {
    /// The server is not encrypted or verified as the URL wants it: why, and what to do.
    NotTrusted(String),
    Driver(Error),
}

/// The servers of a URL.
#[derive(Clone)]
pub(crate) struct Hosts {
    each: Arc<[One]>,
    said: Said,
    /// How long each may take.
    patience: Duration,
    /// Where the primary was last.
    last: Arc<AtomicUsize>,
}

/// One of them, and how it is connected to.
struct One {
    config: Config,
    how: (Mode, Place),
    tls: Connector,
}

impl Hosts {
    /// An error says which host cannot be trusted whatever it answers, and why.
    pub(crate) fn of(config: &Config, said: Said, patience: Duration) -> Result<Self, String> {
        let count = config.get_hosts().len().max(config.get_hostaddrs().len());
        let configs = match count {
            0 | 1 => vec![config.clone()],
            count => (0..count).map(|number| only(config, number)).collect(),
        };
        let mut each: Vec<One> = Vec::new();
        for mut config in configs {
            let place = Place::of(&config);
            let how = (said.mode_for(place), place);
            // What several have in common is made once: it may be a file with hundreds of certificates.
            let tls = match each.iter().find(|one| one.how == how) {
                Some(one) => Connector::clone(&one.tls),
                None => tls::connector(how, &said, &url::hosts(&config))?,
            };
            config.ssl_mode(how.0.for_driver());
            each.push(One { config, how, tls });
        }
        Ok(Self { each: each.into(), said, patience, last: Arc::default() })
    }

    /// How long it takes at most until all of them were asked.
    pub(crate) fn patience(&self) -> Duration {
        self.patience * self.each.len() as u32
    }

    /// Opens a session with the primary; with a standby, if that is all there is.
    pub(crate) async fn open(&self, events: &Emitter) -> Result<Opened, NotOpened> {
        if let [one] = self.each.as_ref() {
            return one.connect().await.map_err(|error| self.why(error, one));
        }
        let (count, first) = (self.each.len(), self.last.load(Ordering::Relaxed));
        let (mut standby, mut failure) = (None, None);
        for number in (first..first + count).map(|number| number % count) {
            let open = async {
                let mut opened = self.each[number].connect().await?;
                let is_standby = is_standby(&mut opened).await?;
                Ok((opened, is_standby))
            };
            match tokio::time::timeout(self.patience, open).await {
                Ok(Ok((opened, false))) => {
                    self.last.store(number, Ordering::Relaxed);
                    return Ok(opened);
                }
                Ok(Ok((opened, true))) => standby = Some(opened),
                Ok(Err(error)) => {
                    // What somebody must change is said, whatever becomes of the others.
                    if !matches!(failure, Some(NotOpened::NotTrusted(_))) {
                        failure = Some(self.why(error, &self.each[number]));
                    }
                }
                Err(_) => {
                    let detail = format!("number={number}");
                    events.emit(Happening::noticed(Notice::HostSilent, detail));
                }
            }
        }
        match (standby, failure) {
            // It may be the primary that is not trusted.
            (_, Some(NotOpened::NotTrusted(why))) => Err(NotOpened::NotTrusted(why)),
            (Some(opened), _) => Ok(opened),
            (None, Some(why)) => Err(why),
            // Whoever asks does not wait for ever.
            (None, None) => std::future::pending().await,
        }
    }

    /// What it means that a session with this host was not opened.
    fn why(&self, error: Error, one: &One) -> NotOpened {
        match tls::why_not_trusted(&error, &self.said, &url::hosts(&one.config)) {
            Some(why) => NotOpened::NotTrusted(why),
            None => NotOpened::Driver(error),
        }
    }
}

impl One {
    async fn connect(&self) -> Result<Opened, Error> {
        self.config.connect(Connector::clone(&self.tls)).await
    }
}

/// Whether a server only repeats another.
async fn is_standby((client, connection): &mut Opened) -> Result<bool, Error> {
    let ask = pin!(client.simple_query("SELECT pg_is_in_recovery()"));
    let drive = pin!(poll_fn(|context| {
        while let Some(Ok(_)) = ready!(connection.poll_message(context)) {}
        Poll::Ready(())
    }));
    let answers = match select(ask, drive).await {
        Either::Left((answers, _)) => answers?,
        // The connection is gone, which is its answer.
        Either::Right(((), ask)) => ask.await?,
    };
    Ok(answers
        .iter()
        .any(|answer| matches!(answer, SimpleQueryMessage::Row(row) if row.get(0) == Some("t"))))
}

/// The same for one of its hosts.
fn only(config: &Config, number: usize) -> Config {
    let mut one = Config::new();
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(name) = config.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(timeout) = config.get_connect_timeout() {
        one.connect_timeout(*timeout);
    }
    if let Some(timeout) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(config.get_keepalives()).keepalives_idle(config.get_keepalives_idle());
    one.ssl_mode(config.get_ssl_mode()).ssl_negotiation(config.get_ssl_negotiation());
    one.target_session_attrs(config.get_target_session_attrs());
    one.channel_binding(config.get_channel_binding());
    match config.get_hosts().get(number) {
        Some(Host::Tcp(name)) => one.host(name.clone()),
        #[cfg(unix)]
        Some(Host::Unix(path)) => one.host_path(path),
        None => &mut one,
    };
    if let Some(address) = config.get_hostaddrs().get(number) {
        one.hostaddr(*address);
    }
    if let Some(port) = config.get_ports().get(number).or(config.get_ports().first()) {
        one.port(*port);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_is_asked_as_the_url_says() {
        let url = "postgres://app:x@one:1,two:2/shop?connect_timeout=3&application_name=me&\
                   sslmode=disable&keepalives_idle=7&options=-c%20a.b%3D1";
        let config: Config = url.parse().unwrap();
        let expected: Config = url.replace("one:1,two:2", "two:2").parse().unwrap();
        assert_eq!(only(&config, 1), expected);
        let one_port: Config = "host=one,two port=7 user=app".parse().unwrap();
        assert_eq!(only(&one_port, 1).get_ports(), [7]);
    }
}
