//! The demo with the API and the console beside it, until Ctrl-C: the acts come again and again, at a pace that a person
//! can watch.

use super::crew::Crew;
use super::display::Display;
use super::orders::Flow;
use super::proof::{self, Outcome};
use anabranch::Log;
use anabranch::operate::Consumers;
use anabranch::watch::Watch;
use anabranch_server::{Api, ServerLimits, serve};
use anabranch_terminal::cut_short::{CutShort, signalled, unless_signalled};
use anabranch_terminal::say;
use anyhow::Context;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Where it listens unless somebody says otherwise.
pub(super) const USUAL: &str = "127.0.0.1:7070";

/// How long an act lasts, in events that come meanwhile.
const ACT: Duration = Duration::from_secs(12);
const LOOK: Duration = Duration::from_millis(200);
/// How long the last events may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// What the API still does is cut off then.
const GRACE: Duration = Duration::from_secs(1);

/// The acts, one after the other, and then again.
const ACTS: [(&str, Change); 4] = [
    ("3 workers, 2 lanes each", |crew| crew.scale(3)),
    ("5 workers: two more have joined", |crew| crew.scale(5)),
    ("one was killed (kill -9); the others take over", |crew| {
        // Somebody else may have killed some.
        crew.scale(crew.len().max(2))?;
        crew.kill()
    }),
    ("2 workers: the others have left", |crew| crew.scale(2)),
];

type Change = fn(&mut Crew) -> anyhow::Result<()>;

/// Everybody who reaches it may do everything, so only this machine does.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    match found {
        Some(address) if address.ip().is_loopback() => Ok(address),
        Some(_) => Err(format!(
            "everybody who reaches the demo may do everything, so it listens on this machine only, as {USUAL}"
        )),
        None => Err(format!("write an address of this machine and a port, as {USUAL}")),
    }
}

/// A socket that listens, before anything is made.
pub(super) struct Place {
    listener: TcpListener,
    address: SocketAddr,
}

impl Place {
    pub(super) fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        });
        match bound {
            Ok((address, listener)) => Ok(Self { listener, address }),
            Err(error) => {
                let other = SocketAddr::new(address.ip(), address.port().wrapping_add(1).max(1024));
                anyhow::bail!(
                    "cannot listen on {address}: {error}; name another address, as in `anabranch demo --serve {other}`"
                )
            }
        }
    }

    /// Begins to serve; ends when the answer is dropped.
    fn serve(self, log: &Log) -> anyhow::Result<Served> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let watch = Watch::new(log.clone()).for_server();
        let api = Api::new(log).watch(watch).open_metrics(true).open_until_first_token();
        let limits = ServerLimits { grace: GRACE, ..Default::default() };
        let router = api.connections(limits.connections).router();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stop = async {
                let _ = stopped.await;
            };
            serve(listener, None, router, limits, stop).await;
        });
        Ok(Served { task, stop })
    }

    /// Plays until Ctrl-C, and says then what the tables say.
    pub(super) async fn play(
        self,
        log: &Log,
        url: &str,
        display: Display,
    ) -> anyhow::Result<Outcome> {
        say!("open http://{}", self.address);
        let served = self.serve(log)?;
        let mut stage = Stage {
            log,
            display,
            crew: Crew::of_console(url),
            orders: Flow::start(log),
            started: Instant::now(),
        };
        let cut = tokio::select! {
            biased;
            cut = signalled() => cut,
            ended = Box::pin(stage.rounds()) => return Err(ended.err().context("the acts have no end")?),
        };
        stage.display.finish();
        if cut != CutShort::Interrupted {
            return Err(cut.into());
        }
        // Ctrl-C once more ends it at once.
        let outcome = Box::pin(unless_signalled(stage.finish())).await?;
        served.stop().await;
        Ok(outcome)
    }
}

/// The API, while it is served.
struct Served {
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Served {
    async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// What the acts play on.
struct Stage<'a> {
    log: &'a Log,
    display: Display,
    crew: Crew,
    orders: Flow,
    started: Instant,
}

impl Stage<'_> {
    /// Plays all acts, again and again; ends only if something fails.
    async fn rounds(&mut self) -> anyhow::Result<()> {
        for (title, change) in ACTS.iter().cycle() {
            change(&mut self.crew)?;
            self.display.act(title);
            self.act().await?;
        }
        Ok(())
    }

    /// An act ends when so many events more are handled. It waits if somebody has paused the consumer.
    async fn act(&mut self) -> anyhow::Result<()> {
        let until = proof::handled(self.log).await? + self.orders.within(ACT);
        loop {
            let handled = proof::handled(self.log).await?;
            self.show(handled);
            if handled >= until {
                return Ok(());
            }
            anyhow::ensure!(self.orders.is_running(), "orders are not appended any more");
            let ended = self.crew.mourn()?;
            if ended > 0 {
                self.display.act(&format!("{ended} ended by somebody else's hand"));
            }
            if self.crew.len() == 0 {
                self.crew.scale(1)?;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn show(&self, handled: u64) {
        let appended = self.orders.appended();
        self.display.flow(handled, appended, self.started.elapsed(), self.crew.len());
    }

    /// No more orders, and the proof when all are handled.
    async fn finish(mut self) -> anyhow::Result<Outcome> {
        self.display.act("no more orders; the rest is handled, then the tables are read");
        let seconds = self.started.elapsed().as_secs_f64();
        let events = self.orders.finish().await?;
        let (consumers, asked) = (Consumers::new(self.log), Instant::now());
        while proof::handled(self.log).await? < events {
            let mut all = consumers.list().await?.into_iter();
            // It is not there before the first worker has begun.
            if let Some(status) = all.find(|status| status.name == proof::CONSUMER) {
                if status.paused {
                    consumers.resume(proof::CONSUMER).await?;
                }
                // What is set aside, or was left out by hand, does not come any more: the proof says so.
                if status.lag_ready == 0 {
                    break;
                }
            }
            self.crew.mourn()?;
            self.crew.scale(self.crew.len().max(1))?;
            anyhow::ensure!(asked.elapsed() < PATIENCE, "not all is handled after {PATIENCE:?}");
            tokio::time::sleep(LOOK).await;
        }
        self.crew.dismiss()?;
        let outcome = proof::prove(self.log, seconds).await?;
        if !outcome.is_good() {
            say!(
                "note: events that were appended, skipped or parked by hand are counted as well; the journal of the \
                 console has what was done"
            );
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_reaches_the_demo() {
        assert_eq!(address(USUAL).unwrap().port(), 7070);
        assert!(address("[::1]:0").is_ok());
        assert!(address("0.0.0.0:7070").unwrap_err().contains("this machine only"));
        assert!(address("7070").unwrap_err().contains("127.0.0.1:7070"));
    }
}
