//! The server, in a process of its own: so its memory is not that of its clients.

use super::own_log::OwnLog;
use super::report::{peak_rss_mb, reset_peak_rss};
use crate::throwaway;
use crate::worker_process::WorkerProcess;
use anabranch::Namespace;
use anabranch_server::{Api, ServerLimits, TailFigures, TailLimits, Tails, serve};
use anabranch_terminal::output;
use anyhow::Context;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::process::{ExitCode, Stdio};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Connections beside those of the tails.
const SPARE: usize = 200;

/// Serves the API until its standard input ends; says what it has cost for each line there
#[derive(Args)]
pub(crate) struct Server {
    /// The database; from the environment, since others can see arguments
    #[arg(long, env = "ANABRANCH_URL", hide_env_values = true)]
    url: String,

    #[arg(long)]
    namespace: String,

    #[arg(long)]
    tails: usize,
}

/// What the server has cost since it was asked last.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) peak_rss_mb: Option<f64>,
    pub(crate) cpu_seconds: f64,
    pub(crate) events_read: u64,
    pub(crate) events_written: u64,
    pub(crate) events_sent: u64,
    pub(crate) pages_read: u64,
    pub(crate) subscriptions: u64,
    pub(crate) dropped: u64,
}

impl Cost {
    fn of(figures: TailFigures) -> Self {
        let cost = Self {
            peak_rss_mb: peak_rss_mb(),
            cpu_seconds: super::cpu::cpu_seconds().unwrap_or_default(),
            events_read: figures.events_read,
            events_written: figures.events_written,
            events_sent: figures.events_sent,
            pages_read: figures.pages_read,
            subscriptions: figures.subscriptions,
            dropped: figures.dropped,
        };
        reset_peak_rss();
        cost
    }
}

impl Server {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let namespace = Namespace::new(&self.namespace)?;
        let log = throwaway::connect(&self.url, &namespace, false).await?;
        let tails = Tails::default();
        let limits = TailLimits { tails: self.tails, ..TailLimits::default() };
        let api = Api::new(&log).open_until_first_token().tails(&tails).tail_limits(limits);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        output::line(listener.local_addr()?)?;
        let limits = ServerLimits { connections: self.tails + SPARE, ..ServerLimits::default() };
        let asked = async {
            let mut asked = BufReader::new(tokio::io::stdin()).lines();
            while let Ok(Some(_)) = asked.next_line().await {
                if output::json(&Cost::of(tails.figures())).is_err() {
                    return;
                }
            }
        };
        serve(listener, None, api.router(), limits, asked).await;
        Ok(ExitCode::SUCCESS)
    }
}

/// The process, as who has started it sees it.
pub(crate) struct ServerProcess {
    pub(crate) address: SocketAddr,
    asks: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl ServerProcess {
    pub(crate) async fn start(own: &OwnLog, tails: u16) -> anyhow::Result<Self> {
        let mut command = Command::from(WorkerProcess::command()?);
        command
            .args(["bench", "server", "--namespace", own.namespace.as_str()])
            .args(["--tails", &tails.to_string()])
            .env("ANABRANCH_URL", &own.url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().context("cannot start a server")?;
        let (asks, says) = (child.stdin.take(), child.stdout.take());
        let (asks, says) = asks.zip(says).context("it has pipes")?;
        let mut says = BufReader::new(says).lines();
        let address = says.next_line().await?.context("a server has ended without a word")?;
        Ok(Self { address: address.parse()?, asks, says, child })
    }

    /// What it has cost since it was asked last.
    pub(crate) async fn cost(&mut self) -> anyhow::Result<Cost> {
        self.asks.write_all(b"\n").await?;
        let said = self.says.next_line().await?.context("the server has ended")?;
        Ok(serde_json::from_str(&said)?)
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let Self { asks, mut child, .. } = self;
        drop(asks);
        let status = child.wait().await?;
        anyhow::ensure!(status.success(), "the server has failed: {status}");
        Ok(())
    }
}
