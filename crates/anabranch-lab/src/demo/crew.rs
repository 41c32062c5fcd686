//! The worker processes: started, told to stop, killed.

use crate::worker_process::WorkerProcess;
use anyhow::Context;
use std::process::Stdio;

/// The processes that run the projection.
pub(super) struct Crew {
    url: String,
    next: u32,
    working: Vec<WorkerProcess>,
    /// Told to stop, and about to.
    leaving: Vec<WorkerProcess>,
}

impl Crew {
    pub(super) fn new(url: &str) -> Self {
        let (working, leaving) = (Vec::new(), Vec::new());
        Self { url: url.to_owned(), next: 1, working, leaving }
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
