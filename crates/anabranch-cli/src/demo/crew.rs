//! The worker processes: started, told to stop, killed.

use crate::worker_process::WorkerProcess;
use anyhow::Context;
use std::process::Stdio;

/// The processes that run the projection.
pub(super) struct Crew {
    url: String,
    next: u32,
    total: u16,
    working: Vec<Worker>,
    /// Told to stop, and about to.
    leaving: Vec<Worker>,
}

struct Worker {
    index: u16,
    process: WorkerProcess,
}

impl Crew {
    pub(super) fn new(url: &str) -> Self {
        let (working, leaving) = (Vec::new(), Vec::new());
        Self { url: url.to_owned(), next: 1, total: 0, working, leaving }
    }

    pub(super) fn len(&self) -> usize {
        self.working.len()
    }

    /// Goes over to so many partitions: the new processes start at once and wait for the slots that
    /// the old ones let go.
    pub(super) fn scale(&mut self, total: u16) -> anyhow::Result<()> {
        self.total = total;
        let old = std::mem::take(&mut self.working);
        for index in 0..total {
            self.start(index)?;
        }
        for mut worker in old {
            worker.process.tell_to_stop();
            self.leaving.push(worker);
        }
        Ok(())
    }

    /// Starts a second process with the same partition.
    pub(super) fn stand_by(&mut self, index: u16) -> anyhow::Result<()> {
        self.start(index)
    }

    /// Kills the process that has run a partition for longest, as `kill -9` does.
    pub(super) fn kill(&mut self, index: u16) -> anyhow::Result<()> {
        let place = self.working.iter().position(|worker| worker.index == index);
        let mut victim = self.working.remove(place.context("nobody runs that partition")?);
        victim.process.kill()
    }

    fn start(&mut self, index: u16) -> anyhow::Result<()> {
        let (total, name) = (self.total.to_string(), format!("worker-{}", self.next));
        self.next += 1;
        let mut command = WorkerProcess::command()?;
        command.args(["demo-worker", "--url", &self.url, "--name", &name]);
        command.args(["--index", &index.to_string(), "--total", &total]).stdout(Stdio::null());
        let process = WorkerProcess::start(&mut command)?;
        self.working.push(Worker { index, process });
        Ok(())
    }

    /// A worker that ended by itself is an error.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        for worker in &mut self.working {
            if let Some(status) = worker.process.ended()? {
                anyhow::bail!("the worker of partition {} ended: {status}", worker.index);
            }
        }
        Ok(())
    }

    /// Tells all to stop, and waits until they have.
    pub(super) fn dismiss(mut self) -> anyhow::Result<()> {
        for mut worker in std::mem::take(&mut self.working) {
            worker.process.tell_to_stop();
            self.leaving.push(worker);
        }
        for worker in &mut self.leaving {
            let status = worker.process.wait()?;
            anyhow::ensure!(status.success(), "a worker stopped with {status}");
        }
        Ok(())
    }
}
