//! Does to the workers what was drawn, and writes down when.

use super::crew::Crew;
use super::faults::{Deck, Fault, FaultCounts, Random};
use super::ledger::Ledger;
use super::load::Load;
use super::pauses::{Incident, Window};
use super::worker::{HOLDING, RUNNING};
use anabranch_terminal::say;
use anyhow::Context;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a worker may take to start, to say something, to leave.
const START: Duration = Duration::from_secs(20);
const HOLD: Duration = Duration::from_secs(2);
const LEAVE: Duration = Duration::from_secs(30);
/// How long after a fault, beside two leases, everything may take to be handled again.
const STALL: Duration = Duration::from_secs(20);
/// How long a lease is over before a stopped process goes on.
const PAST_LEASE: Duration = Duration::from_secs(1);
/// How long who has come, or come back, has to get his share.
const RETURN: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);
/// Who handles what has come within this time keeps up.
const KEEPS_UP: Duration = Duration::from_millis(150);

/// What is hit, and with what.
pub(crate) struct Play {
    pub(crate) ledger: Ledger,
    pub(crate) load: Load,
    pub(crate) crew: Crew,
    pub(crate) deck: Deck,
    pub(crate) random: Random,
    pub(crate) lease: Duration,
    pub(crate) workers_max: usize,
    pub(crate) restart_command: Option<String>,
    pub(crate) script: Script,
}

/// What was done.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) incidents: Vec<Incident>,
    pub(crate) quiet: Vec<Window>,
    pub(crate) counts: FaultCounts,
    pub(crate) problems: Vec<String>,
    started: Option<Instant>,
    /// Started while something else was going on, and not waited for yet.
    starting: Vec<i64>,
    restarts: u64,
}

impl Play {
    /// Hits the workers again and again for so long.
    pub(crate) async fn run(&mut self, time: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        self.script.started = Some(started);
        self.settle().await?;
        while started.elapsed() < time {
            let from = self.ledger.now_us().await?;
            tokio::time::sleep(self.random.millis(300, 1000)).await;
            self.script.quiet.push((from, self.ledger.now_us().await?));
            self.crew.check()?;
            let fault = match self.crew.len() {
                // Somebody has ended by himself; that is reported, and the play goes on.
                0 => Fault::Join,
                live => self.deck.draw(&mut self.random, live),
            };
            let alone = !self.random.once_in(4);
            match fault {
                Fault::Kill => self.kill(alone).await?,
                Fault::Stop => self.stop().await?,
                Fault::Join => self.join(alone).await?,
                Fault::Leave => self.leave(alone).await?,
                Fault::Cut => self.cut(alone).await?,
                Fault::Restart => self.restart().await?,
            }
        }
        Ok(())
    }

    /// Writes down that something is done now.
    async fn begin(
        &mut self,
        fault: Fault,
        worker: Option<i64>,
        alone: bool,
    ) -> anyhow::Result<usize> {
        self.script.counts.add(fault);
        let live = self.crew.len();
        let seconds = self.script.started.map_or(0.0, |started| started.elapsed().as_secs_f64());
        let whom = worker.map_or_else(String::new, |number| format!(" worker {number}"));
        let top = if alone { "" } else { ", with more on top" };
        let name = format!("{fault:?}").to_lowercase();
        say!("{seconds:>6.1} s  {name}{whom} ({live} live{top})");
        let at_us = self.ledger.now_us().await?;
        let (begun_us, until_us) = (at_us, i64::MAX);
        let incident = Incident { fault, worker, begun_us, at_us, until_us, alone };
        self.script.incidents.push(incident);
        Ok(self.script.incidents.len() - 1)
    }

    async fn end(&mut self, incident: usize) -> anyhow::Result<()> {
        self.script.incidents[incident].until_us = self.ledger.now_us().await?;
        Ok(())
    }

    /// Lets who has come, or come back, get his share.
    async fn let_return(&mut self, incident: usize) -> anyhow::Result<()> {
        tokio::time::sleep(RETURN).await;
        self.settle().await?;
        self.end(incident).await
    }

    /// One of those who run, but not this one.
    fn victim(&mut self, spared: Option<i64>) -> Option<i64> {
        let mut numbers = self.crew.numbers();
        numbers.retain(|number| Some(*number) != spared && !self.script.starting.contains(number));
        let place = self.random.below(numbers.len() as u64) as usize;
        numbers.get(place).copied()
    }

    async fn kill(&mut self, alone: bool) -> anyhow::Result<()> {
        let Some(victim) = self.victim(None) else { return Ok(()) };
        let incident = self.begin(Fault::Kill, Some(victim), alone).await?;
        self.crew.kill(victim)?;
        if !alone {
            self.one_more(None).await?;
        }
        self.settle().await?;
        self.end(incident).await?;
        tokio::time::sleep(self.random.millis(50, 500)).await;
        match self.crew.len() < self.workers_max {
            true => self.join(true).await,
            false => Ok(()),
        }
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(victim) = self.victim(None) else { return Ok(()) };
        let alone = !self.random.once_in(3);
        // One that holds SQLite's write lock holds up everybody, whoever does what.
        if self.random.once_in(2) && self.ledger.is_postgres() {
            self.open_transaction(victim).await?;
        }
        let incident = self.begin(Fault::Stop, Some(victim), alone).await?;
        self.crew.signal(victim, "STOP")?;
        let goes_on = tokio::time::Instant::now() + self.lease + PAST_LEASE;
        if !alone {
            // It may have stopped with a lock that the others, and this process, wait for.
            for _ in 0..2 {
                let more = tokio::time::timeout_at(goes_on, self.one_more(Some(victim)));
                more.await.unwrap_or(Ok(()))?;
            }
        }
        tokio::time::sleep_until(goes_on).await;
        self.crew.signal(victim, "CONT")?;
        self.settle().await?;
        self.let_return(incident).await
    }

    /// Makes a worker hold a transaction, and locks of rows, that is open when this returns.
    async fn open_transaction(&mut self, worker: i64) -> anyhow::Result<()> {
        if let Some(key) = self.ledger.last_key(worker).await? {
            self.load.hold(key, worker, self.lease / 4).await?;
            self.crew.wait_until_said(worker, HOLDING, HOLD).await?;
        }
        Ok(())
    }

    async fn join(&mut self, alone: bool) -> anyhow::Result<()> {
        let incident = self.begin(Fault::Join, None, alone).await?;
        let number = self.crew.start()?;
        self.script.starting.push(number);
        if !alone {
            self.one_more(None).await?;
        }
        self.settle().await?;
        self.let_return(incident).await
    }

    async fn leave(&mut self, alone: bool) -> anyhow::Result<()> {
        let Some(victim) = self.victim(None) else { return Ok(()) };
        let incident = self.begin(Fault::Leave, Some(victim), alone).await?;
        let terminate = self.random.once_in(2);
        self.crew.tell_to_leave(victim, terminate)?;
        if !alone {
            self.one_more(None).await?;
        }
        self.settle().await?;
        self.end(incident).await
    }

    async fn cut(&mut self, alone: bool) -> anyhow::Result<()> {
        let Some(victim) = self.victim(None) else { return Ok(()) };
        let incident = self.begin(Fault::Cut, Some(victim), alone).await?;
        self.cut_sessions(victim).await?;
        if !alone {
            self.one_more(None).await?;
        }
        self.settle().await?;
        self.let_return(incident).await
    }

    async fn cut_sessions(&mut self, worker: i64) -> anyhow::Result<()> {
        let all = self.random.once_in(2);
        let (name, process) = (self.crew.application(worker), self.crew.process(worker));
        self.ledger.cut(&name, process, all).await
    }

    async fn restart(&mut self) -> anyhow::Result<()> {
        let Some(command) = &self.restart_command else { return Ok(()) };
        let mode = if self.script.restarts.is_multiple_of(2) { "fast" } else { "immediate" };
        let command = command.replace("{mode}", mode);
        self.script.restarts += 1;
        let incident = self.begin(Fault::Restart, None, true).await?;
        let run = command.clone();
        let run =
            tokio::task::spawn_blocking(move || Command::new("sh").args(["-c", &run]).status());
        let status = run.await?.context("cannot run the restart command")?;
        anyhow::ensure!(status.success(), "`{command}` failed: {status}");
        self.script.incidents[incident].at_us = self.ledger.now_us().await?;
        self.settle().await?;
        self.let_return(incident).await
    }

    /// One more fault while another is going on.
    async fn one_more(&mut self, spared: Option<i64>) -> anyhow::Result<()> {
        tokio::time::sleep(self.random.millis(0, 300)).await;
        let kind = self.random.below(4);
        let victim = self.victim(spared).filter(|_| self.crew.len() > 2);
        match (kind, victim) {
            (0, Some(victim)) => {
                self.begin(Fault::Kill, Some(victim), false).await?;
                self.crew.kill(victim)?;
            }
            (1, Some(victim)) => {
                self.begin(Fault::Leave, Some(victim), false).await?;
                self.crew.tell_to_leave(victim, true)?;
            }
            (2, Some(victim)) if self.ledger.is_postgres() => {
                self.begin(Fault::Cut, Some(victim), false).await?;
                self.cut_sessions(victim).await?;
            }
            _ if self.crew.len() < self.workers_max => {
                self.begin(Fault::Join, None, false).await?;
                let number = self.crew.start()?;
                self.script.starting.push(number);
            }
            _ => {}
        }
        Ok(())
    }

    /// Waits until who joins has joined, who leaves has left, and every key is handled again.
    async fn settle(&mut self) -> anyhow::Result<()> {
        for number in std::mem::take(&mut self.script.starting) {
            let is_new = self.crew.numbers().contains(&number);
            if is_new && !self.crew.wait_until_said(number, RUNNING, START).await? {
                let late = format!("worker {number} did not run within {START:?}");
                self.script.problems.push(late);
            }
        }
        self.crew.wait_for_leavers(LEAVE).await?;
        // By then each key has an event that came after the fault.
        tokio::time::sleep(self.load.period * 2).await;
        let (limit, started) = (self.lease * 2 + STALL, Instant::now());
        if !self.wait_until_counted(self.load.appended(), limit).await? {
            let stalled = format!("what came was not handled within {limit:?} of a fault");
            say!("          {stalled}");
            self.script.problems.push(stalled);
        }
        // Whoever had something to make up for is done when he keeps up with what comes; on a machine
        // that is too slow for that, nobody ever is.
        while started.elapsed() < limit {
            if self.wait_until_counted(self.load.appended(), KEEPS_UP).await? {
                break;
            }
        }
        Ok(())
    }

    /// Waits until so many events are counted, though not for ever.
    pub(crate) async fn wait_until_counted(
        &mut self,
        events: u64,
        limit: Duration,
    ) -> anyhow::Result<bool> {
        let started = Instant::now();
        while self.ledger.counted().await? < events {
            if started.elapsed() > limit {
                return Ok(false);
            }
            self.crew.check()?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(true)
    }

    /// All leave in good order.
    pub(crate) async fn dismiss(&mut self) -> anyhow::Result<()> {
        self.crew.check()?;
        for number in self.crew.numbers() {
            self.crew.tell_to_leave(number, false)?;
        }
        self.crew.wait_for_leavers(LEAVE).await?;
        let problems = self.crew.take_problems();
        self.script.problems.extend(problems);
        Ok(())
    }
}
