//! Worker processes of this program's own: started, told to stop, signalled, killed.

use anyhow::Context;
use std::future::Future;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use tokio::sync::oneshot;

/// A process that runs a hidden command of this program. Its standard input is what tells it to
/// stop: it ends with it, and so with this process too.
pub(crate) struct WorkerProcess {
    child: Child,
}

impl WorkerProcess {
    /// This program, for arguments to be added. Its workers share what there is, whatever partition
    /// the environment names.
    pub(crate) fn command() -> anyhow::Result<Command> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        for name in ["PARTITION_KEY", "PARTITION_INDEX", "TOTAL_PARTITIONS"] {
            command.env_remove(name);
        }
        Ok(command)
    }

    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let child = command.stdin(Stdio::piped()).spawn().context("cannot start a worker")?;
        Ok(Self { child })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it says, if its command has a pipe for that.
    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    pub(crate) fn tell_to_stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("cannot kill a worker")?;
        self.child.wait().context("cannot wait for a worker")?;
        Ok(())
    }

    /// Sends a signal by its name, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) -> anyhow::Result<()> {
        let (option, process) = (format!("-{name}"), self.id().to_string());
        let status = Command::new("kill").args([&option, &process]).status();
        let status = status.context("cannot run `kill`, which sends signals")?;
        anyhow::ensure!(status.success(), "`kill {option} {process}` failed: {status}");
        Ok(())
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    pub(crate) fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.child.wait()?)
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // Nothing is left behind when whoever started it fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other end, in the worker: resolves when standard input ends.
pub(crate) fn shutdown_signal() -> impl Future<Output = ()> + Send {
    let (stop, stopped) = oneshot::channel();
    // A thread of its own: a read of standard input cannot be given up.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = stop.send(());
    });
    async {
        let _ = stopped.await;
    }
}
