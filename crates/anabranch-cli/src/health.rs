//! Whether a process, or a database and its workers here, are healthy: for probes that run a command.

use crate::refusal::{Printed, refuse, refuse_unless};
use crate::target::Target;
use anabranch::operate::{Consumers, host};
use anabranch_terminal::{output, say};
use anyhow::Context;
use clap::Args;
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// More than any answer of ours has.
const MOST_BYTES: u64 = 64 << 10;

/// Say whether a process or a database is healthy, for probes that run a command
///
/// With --url http://HOST:PORT, where a process runs with --metrics: whether that process is ready (its workers hold their
/// leases and reach the database), or with --live only whether it turns over. With the URL of a database: whether that
/// answers, and that of the events if it is another; with --worker also whether a worker of this host holds its lease.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 healthy; 1 not, or it cannot be asked, with the reason in one line; 2 options that are not known.\nSee also: docs/metrics.md"
)]
pub(crate) struct Health {
    #[command(flatten)]
    target: Target,

    /// Ask a process only whether it turns over (/livez): for liveness, which must not depend on a database
    #[arg(long, conflicts_with = "worker")]
    live: bool,

    /// At a database: a worker of this host must hold its lease, too; the host is the one that `anabranch workers` shows
    #[arg(long)]
    worker: bool,

    /// With --worker: a worker of this replica set
    #[arg(long, value_name = "NAME", requires = "worker")]
    set: Option<String>,

    /// What has not answered after so many seconds is not healthy
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "write seconds above 0, such as 5 or 0.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if time.is_zero() { Err(wrong()) } else { Ok(time) }
}

impl Health {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let server = match self.target.url.split_once("://") {
            Some(("http", rest)) => Some(authority(rest)?),
            Some(("https", _)) => {
                refuse!(InvalidArguments, "metrics and health are served without TLS: use http://")
            }
            None if !self.target.url.starts_with("sqlite:") => refuse!(
                InvalidArguments,
                "--url needs a scheme: http://HOST:PORT asks a process, sqlite:FILE or postgres://… a database"
            ),
            _ => None,
        };
        refuse_unless!(
            server.is_some() || !self.live,
            InvalidArguments,
            "--live asks a process: name its address, as in --url http://127.0.0.1:9090"
        );
        refuse_unless!(
            server.is_none() || !self.worker,
            InvalidArguments,
            "--worker asks a database; a process says by itself whether its workers hold their leases, so leave it out"
        );
        let asked = async {
            match &server {
                Some(server) => self.ask_process(server).await,
                None => self.ask_database().await,
            }
        };
        let Ok(answer) = tokio::time::timeout(self.timeout, asked).await else {
            say!("not healthy: no answer within {:?}", self.timeout);
            // What still waits, for a name server perhaps, would be waited for at the end of the runtime.
            std::process::exit(1);
        };
        match answer {
            Ok(()) => {
                output::line("ok")?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                let said = Printed::of(&error).to_string();
                let said = said.strip_prefix("error: ").unwrap_or(&said);
                say!("not healthy: {}", said.split_whitespace().collect::<Vec<_>>().join(" "));
                Ok(ExitCode::FAILURE)
            }
        }
    }

    /// Of the server that `--metrics` starts.
    async fn ask_process(&self, server: &str) -> anyhow::Result<()> {
        let path = if self.live { "/livez" } else { "/readyz" };
        let to_it = || format!("cannot ask http://{server}{path}");
        let mut stream = TcpStream::connect(server).await.with_context(to_it)?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.with_context(to_it)?;
        let mut answer = Vec::new();
        stream.take(MOST_BYTES).read_to_end(&mut answer).await.with_context(to_it)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_ref(), ""));
        let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        match status {
            Some("200") => Ok(()),
            Some("503") => anyhow::bail!("{}", body.trim()),
            Some(other) => anyhow::bail!("http://{server}{path} answers {other}: is it Anabranch?"),
            None => anyhow::bail!("http://{server}{path} does not answer in HTTP"),
        }
    }

    async fn ask_database(&self) -> anyhow::Result<()> {
        let log = self.target.connect().await?;
        log.head().await?;
        if !self.worker && !log.is_apart() {
            return Ok(());
        }
        let (workers, here) = (Consumers::new(&log).workers().await?, host());
        let is_meant = |set: &str| self.set.as_ref().is_none_or(|wanted| wanted == set);
        let mut of_here =
            workers.iter().filter(|worker| worker.host == here && is_meant(&worker.replica_set));
        let of_set = self.set.as_ref().map(|set| format!(" of replica set `{set}`"));
        let of_set = of_set.unwrap_or_default();
        if !self.worker || of_here.clone().any(|worker| worker.is_alive) {
            return Ok(());
        }
        match of_here.next() {
            Some(dead) => {
                anyhow::bail!("the lease of worker {} on {here}{of_set} is over", dead.id)
            }
            None => anyhow::bail!("there is no worker{of_set} on {here}"),
        }
    }
}

/// Host and port of a URL, whose scheme was taken off.
fn authority(rest: &str) -> anyhow::Result<String> {
    let server = rest.strip_suffix('/').unwrap_or(rest);
    refuse_unless!(
        !server.is_empty() && !server.contains(['/', '?', '#', '@']),
        InvalidArguments,
        "name host and port alone, as in http://127.0.0.1:9090: the path follows from --live"
    );
    let has_port = server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { server.to_owned() } else { format!("{server}:80") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_and_a_port() {
        for (rest, server) in
            [("a:9090", "a:9090"), ("a:9090/", "a:9090"), ("a", "a:80"), ("[::1]:1", "[::1]:1")]
        {
            assert_eq!(authority(rest).unwrap(), server);
        }
        for wrong in ["", "/", "a:9090/readyz", "u:p@a:9090", "a?b"] {
            assert!(authority(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_is_in_seconds() {
        assert_eq!(seconds("0.5").unwrap(), Duration::from_millis(500));
        for wrong in ["0", "-1", "NaN", "1e99", "5s", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
