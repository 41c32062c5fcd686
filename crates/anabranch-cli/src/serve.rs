//! The HTTP API, on its own or beside the workers of `run`.

use crate::log_settings::tell;
use crate::refusal::{Refusal, refuse};
use crate::target::Target;
use anabranch::errors::ErrorCode;
use anabranch::watch::Watch;
use anabranch::{Log, StoreError, shutdown_signal};
use anabranch_server::{Api, ServerLimits, Tls, Tokens, serve};
use clap::Args;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Serve the HTTP API: events, consumers, tasks, workflows, metrics and health
///
/// On 127.0.0.1 it is open to everybody on this machine until a token is made (`anabranch token make`); then each request
/// needs one. Other addresses need a token from the start, and should be encrypted: by --tls-cert and --tls-key, or by a
/// proxy. /v1/openapi.json describes the API. It ends with Ctrl-C or SIGTERM, after what was begun is finished.
#[derive(Args)]
#[command(after_help = "See also: anabranch token make, docs/api.md, docs/security.md")]
pub(crate) struct Serve {
    #[command(flatten)]
    target: Target,

    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7070", value_parser = address)]
    listen: SocketAddr,

    #[command(flatten)]
    how: ServeFlags,
}

/// How the API is served.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "HTTP API")]
pub(crate) struct ServeFlags {
    /// Answer for this name, too: the one by which a proxy or a browser reaches the API; may be repeated
    ///
    /// Addresses in numbers and localhost are always answered for.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    /// Encrypt connections: the certificate, with those that vouch for it, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// How many connections there may be at the same time; further ones wait
    #[arg(long, value_name = "COUNT", default_value_t = 512, value_parser = connections)]
    connections: usize,
}

/// `127.0.0.1:7070`, or with a name in place of the address.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    address_as(text, 7070)
}

/// The same, with the port that is usual for what is asked.
pub(crate) fn address_as(text: &str, port: u16) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| {
        format!("write an address of this machine and a port, as 127.0.0.1:{port}; 0.0.0.0 is all of them")
    })
}

fn connections(text: &str) -> Result<usize, String> {
    let count: Option<usize> = text.parse().ok().filter(|count| (1..=100_000).contains(count));
    count.ok_or_else(|| "write a number from 1 to 100000".to_owned())
}

impl Serve {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        // Before anything is made in the database.
        let place = Place::bind(self.listen, &self.how)?;
        let (log, made) = match self.target.connect().await {
            Err(error) if is_missing(&error) => (self.target.create_for_consumers().await?, true),
            connected => (connected?, false),
        };
        // A name with a typo is a log, too: one sees that it is new.
        let made = if made { ", a new one: there was none" } else { "" };
        tell(&format!("the log is {}{made}", log.at()));
        let watch = Watch::new(log).for_server();
        let (stop, stopped) = oneshot::channel();
        let served = place.serve(&watch, stopped).await?;
        shutdown_signal().await;
        let _ = stop.send(());
        let _ = served.await;
        Ok(ExitCode::SUCCESS)
    }
}

/// Nobody has made the log yet; an older one is used as it is.
pub(crate) fn is_missing(error: &StoreError) -> bool {
    [ErrorCode::NoSuchLog, ErrorCode::CannotOpen].contains(&error.code())
}

/// A socket that listens, and what is served there.
pub(crate) struct Place {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    how: ServeFlags,
}

impl Place {
    pub(crate) fn bind(address: SocketAddr, how: &ServeFlags) -> anyhow::Result<Self> {
        let tls = match (&how.tls_cert, &how.tls_key) {
            (Some(certificate), Some(key)) => {
                let read = Tls::from_files(certificate, key);
                let refused = |error: &dyn std::fmt::Display| {
                    Refusal::new(ErrorCode::InvalidArguments, error.to_string())
                };
                Some(read.map_err(|error| refused(&error))?)
            }
            _ => None,
        };
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        });
        match bound {
            Ok((address, listener)) => Ok(Self { listener, address, tls, how: how.clone() }),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => refuse!(
                InvalidArguments,
                "cannot listen on {address}: another process listens there; choose another port by --listen (each of \
                 several workers needs its own)"
            ),
            Err(error) => refuse!(InvalidArguments, "cannot listen on {address}: {error}"),
        }
    }

    /// Serves until it is told to stop, or whoever may tell it is gone.
    pub(crate) async fn serve(
        self,
        watch: &Watch,
        stop: oneshot::Receiver<()>,
    ) -> anyhow::Result<JoinHandle<()>> {
        let (log, is_local) = (watch.log(), self.address.ip().is_loopback());
        let needs_token = self.needs_token(&log, is_local).await?;
        let mut api = Api::new(&log).watch(watch.clone()).open_metrics(is_local);
        if is_local {
            api = api.open_until_first_token();
        }
        if self.tls.is_some() {
            api = api.encrypted();
        }
        api = self.how.hosts.iter().fold(api, |api, name| api.host(name));
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let who = match needs_token {
            true => "each request needs a token",
            false => {
                "open to everybody on this machine until a token is made (anabranch token make)"
            }
        };
        tell(&format!("the API is served at {scheme}://{}: {who}", self.address));
        if !is_local && self.tls.is_none() {
            tell(
                "it is not encrypted: use --tls-cert and --tls-key, or a proxy that encrypts, or tokens can be read on the way",
            );
        }
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let limits = ServerLimits { connections: self.how.connections, ..ServerLimits::default() };
        api = api.connections(limits.connections);
        let (tls, router) = (self.tls, api.router());
        Ok(tokio::spawn(async move {
            let stop = async {
                let _ = stop.await;
            };
            serve(listener, tls, router, limits, stop).await;
        }))
    }

    /// Whether requests need a token; refuses to be open to other machines.
    async fn needs_token(&self, log: &Log, is_local: bool) -> anyhow::Result<bool> {
        let any = Tokens::new(log).any().await;
        let any = any.map_err(|error| Refusal::new(error.code(), error.to_string()))?;
        if !any && !is_local {
            refuse!(
                NoToken,
                "{} is reached by other machines, and no token was made, so anybody could do anything; make one by \
                 `anabranch token make NAME --scope read --scope operate`, or listen on 127.0.0.1",
                self.address
            );
        }
        Ok(any)
    }
}
