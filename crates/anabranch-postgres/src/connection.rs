//! URLs, pools and sessions.

use crate::error::Failure;
use crate::hosts::{Hosts, Opened, is_standby};
use crate::tls;
use anabranch_core::{InputError, InputProblem, StoreError};
use anabranch_store::Durability;
use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
    Timeouts,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_postgres::config::Host;
use tokio_postgres::{Config, Error, Statement};

/// How long to wait for the server, unless the URL says otherwise.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// How long to wait for a connection of the pool that others use.
const POOL_WAIT: Duration = Duration::from_secs(60);

/// How long a server may say nothing before it counts as gone, unless the URL says otherwise by
/// `tcp_user_timeout`. The waits for locks are shorter.
const SILENCE: Duration = Duration::from_secs(20);
/// A query with more names than this is not kept prepared: there are too many shapes of such.
const MAX_KEPT_PLACEHOLDERS: usize = 20;

/// What a session says of a server that only repeats another.
pub(crate) const STANDBY: &str = "it is a standby";

/// A server, and how its sessions are opened.
#[derive(Clone)]
pub(crate) struct Server {
    config: Config,
    hosts: Hosts,
    /// For messages: without the password.
    pub(crate) at: String,
    /// The position up to which all events are known to be decided. A new session may lead to a server that
    /// was promoted and had less: what is known begins anew with it, which costs one look.
    pub(crate) decided: Arc<AtomicU64>,
    /// How long it may say nothing.
    silence: Duration,
    session: &'static str,
}

impl Server {
    pub(crate) fn parse(url: &str, durability: Durability) -> Result<Self, StoreError> {
        let mut config: Config = url.parse().map_err(|error| bad_url(&error))?;
        // A password with an @ in it that is not encoded would end up in the name of the host.
        let odd = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
        if config.get_hosts().iter().any(odd) {
            let problem = "holds more than one @; write those of the password as %40";
            return Err(refuse(problem.to_owned()).into());
        }
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WAIT);
        }
        if config.get_application_name().is_none() {
            config.application_name("anabranch");
        }
        let silence = *config.get_tcp_user_timeout().unwrap_or(&SILENCE);
        config.keepalives_idle(Duration::from_secs(30)).tcp_user_timeout(silence);
        let at = describe(&config);
        let tls = tls::connector(config.get_ssl_mode())
            .map_err(|error| StoreError::Other { at: at.clone(), source: error.into() })?;
        let patience = config.get_connect_timeout().copied().unwrap_or(CONNECT_WAIT);
        let hosts = Hosts::of(&config, &tls, patience);
        let session = match durability {
            Durability::Full => include_str!("../queries/session_full.sql"),
            Durability::Relaxed => include_str!("../queries/session_relaxed.sql"),
        };
        Ok(Self { config, hosts, at, decided: Arc::default(), silence, session })
    }

    /// A pool of at most so many sessions, opened when they are needed and set up by some SQL.
    pub(crate) fn pool(&self, size: usize, set_up: &'static str) -> Result<Pool, StoreError> {
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(self.config.clone(), self.hosts.clone(), manager);
        let (session, decided) = (self.session, Arc::clone(&self.decided));
        let prepare = Hook::async_fn(move |client: &mut ClientWrapper, _| {
            decided.store(0, Ordering::Release);
            Box::pin(async move {
                client.batch_execute(session).await.map_err(HookError::Backend)?;
                client.batch_execute(set_up).await.map_err(HookError::Backend)?;
                // A standby does not see the marks of appends in flight on its primary.
                let standby = client.query_one("SELECT pg_is_in_recovery()", &[]).await;
                match standby.map_err(HookError::Backend)?.get(0) {
                    true => Err(HookError::Message(STANDBY.into())),
                    false => Ok(()),
                }
            })
        });
        let create = Some(self.hosts.patience());
        let timeouts = Timeouts { wait: Some(POOL_WAIT), create, recycle: Some(self.silence) };
        Pool::builder(manager)
            .max_size(size.max(1))
            .runtime(Runtime::Tokio1)
            .timeouts(timeouts)
            .post_create(prepare)
            .build()
            .map_err(|error| StoreError::Other { at: self.at.clone(), source: error.into() })
    }

    /// A session outside the pools.
    pub(crate) async fn open(&self) -> Result<Opened, Failure> {
        let open = async {
            let mut opened = self.hosts.open().await?;
            let is_standby = is_standby(&mut opened).await?;
            Ok::<_, Error>((opened, is_standby))
        };
        let patience = self.hosts.patience();
        match tokio::time::timeout(patience, open).await {
            Ok(Ok((opened, false))) => Ok(opened),
            // Locks and notifications of a standby are nobody else's.
            Ok(Ok((_, true))) => Err(Failure::Standby),
            Ok(Err(error)) => Err(Failure::Connect(Arc::new(error))),
            Err(_) => Err(Failure::Silent(patience)),
        }
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

/// The URL is not repeated: it may hold a password.
fn bad_url(error: &tokio_postgres::Error) -> InputError {
    let cause = std::error::Error::source(error).map_or(error.to_string(), ToString::to_string);
    refuse(format!("{cause}; write it as postgres://user:password@host:5432/database"))
}

fn refuse(problem: String) -> InputError {
    InputError { subject: "PostgreSQL URL".to_owned(), problem: InputProblem::BadUrl(problem) }
}

/// A statement, kept for the next time unless its shape is a rare one.
pub(crate) async fn prepare(session: &Object, sql: &str) -> Result<Statement, Error> {
    if sql.matches('$').count() <= MAX_KEPT_PLACEHOLDERS {
        session.prepare_cached(sql).await
    } else {
        session.prepare(sql).await
    }
}

/// A session on loan. It goes back to its pool when its work is done; one that is given up half-way
/// may be anywhere in a transaction, so the server ends that together with the connection.
pub(crate) struct Lease(Option<Object>);

impl Lease {
    pub(crate) async fn of(pool: &Pool) -> Result<Self, Failure> {
        Ok(Self(Some(pool.get().await?)))
    }

    pub(crate) fn session(&self) -> &Object {
        self.0.as_ref().expect("it is there until it is given back")
    }

    pub(crate) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.0.take().map(Object::take));
    }
}

/// `postgres://user@host:port/database`.
fn describe(config: &Config) -> String {
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(number, host)| {
        let port = ports.get(number).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{hosts}/{database}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_never_hold_the_password() {
        let server = Server::parse("postgres://app:secret@db:6543/shop", Durability::Full).unwrap();
        assert_eq!(server.at, "postgres://app@db:6543/shop");
        let Err(error) = Server::parse("postgres://app:secret@db:x/shop", Durability::Full) else {
            panic!("that is no port")
        };
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(error.to_string().contains("write it as postgres://"), "{error}");
        let Err(error) = Server::parse("postgres://app:se@cret@db/shop", Durability::Full) else {
            panic!("that is no host")
        };
        assert!(error.to_string().contains("%40"), "{error}");
        assert!(!format!("{error} {error:?}").contains("cret"), "{error}");
    }
}
