//! The worker processes: started, told to stop, killed.

use crate::worker_process::WorkerProcess;
use anyhow::Context;
use std::process::Stdio;

/// The processes that run the projection.
pub(super) struct Crew {
    url: String,
    /// Whether somebody looks on in the console.
    is_watched: bool,
    next: u32,
    working: Vec<WorkerProcess>,
    /// Told to stop, and about to.
    leaving: Vec<WorkerProcess>,
}

impl Crew {
    pub(super) fn new(url: &str) -> Self {
        let (working, leaving) = (Vec::new(), Vec::new());
        Self { url: url.to_owned(), is_watched: false, next: 1, working, leaving }
    }

    /// One that runs the consumer whose keys are parked as well. Ctrl-C reaches this process alone: its workers handle
    /// what is left.
    pub(super) fn of_console(url: &str) -> Self {
        Self { is_watched: true, ..Self::new(url) }
    }

    pub(super) fn len(&self) -> usize {
        self.working.len()
    }

    /// Goes over to so many workers: some start, or the oldest leave.
    pub(super) fn scale(&mut self, workers: usize) -> anyhow::Result<()> {
        while self.working.len() < workers {
            self.start()?;
        }
        while self.working.len() > workers {
            let mut worker = self.working.remove(0);
            worker.tell_to_stop();
            self.leaving.push(worker);
        }
        Ok(())
    }

    /// Kills the oldest, as `kill -9` does.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.working.is_empty(), "there is nobody to kill");
        self.working.remove(0).kill()
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let name = format!("worker-{}", self.next);
        self.next += 1;
        let mut command = WorkerProcess::command()?;
        command.args(["demo-worker", "--url", &self.url, "--name", &name]).stdout(Stdio::null());
        if self.is_watched {
            command.arg("--ships");
            // Keys are parked by design; lines about that would stand in the middle of what is shown.
            if std::env::var_os("RUST_LOG").is_none() {
                command.env("RUST_LOG", "off");
            }
            #[cfg(unix)]
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        self.working.push(WorkerProcess::start(&mut command)?);
        Ok(())
    }

    /// A worker that ended by itself is an error.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        for worker in &mut self.working {
            if let Some(status) = worker.ended()? {
                anyhow::bail!("a worker ended by itself: {status}");
            }
        }
        Ok(())
    }

    /// Lets go of those that have ended: as they were told, or by somebody else's hand. Says how many these were.
    pub(super) fn mourn(&mut self) -> anyhow::Result<usize> {
        let mut ended = 0;
        for (workers, is_expected) in [(&mut self.leaving, true), (&mut self.working, false)] {
            let mut left = Vec::new();
            for mut worker in workers.drain(..) {
                match worker.ended()? {
                    None => left.push(worker),
                    Some(_) if is_expected => {}
                    Some(_) => ended += 1,
                }
            }
            *workers = left;
        }
        Ok(ended)
    }

    /// Tells all to stop, and waits until they have.
    pub(super) fn dismiss(mut self) -> anyhow::Result<()> {
        self.scale(0)?;
        for worker in &mut self.leaving {
            let status = worker.wait().context("cannot wait for a worker")?;
            anyhow::ensure!(status.success(), "a worker stopped with {status}");
        }
        Ok(())
    }
}
