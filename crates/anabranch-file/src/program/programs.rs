//! The programs of this process: one thread starts them, and one count knows when all have ended.

use super::command::Command;
use super::recorder::Recorder;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, LazyLock};
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

/// Starts programs and knows when all of them have ended. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Programs {
    launcher: Option<PathBuf>,
    pub(super) recorder: Option<Arc<Recorder>>,
    running: Arc<watch::Sender<usize>>,
}

impl Programs {
    /// Programs that end when their standard input does.
    #[must_use]
    pub fn new() -> Self {
        Self { launcher: None, recorder: None, running: Arc::new(watch::Sender::new(0)) }
    }

    /// Programs that also get a SIGKILL when this process is gone, on Linux: they are started by this one, which is
    /// called `LAUNCHER launch --parent PID -- PROGRAM ARGUMENTS…` and calls [`launch`](super::launch()).
    #[must_use]
    pub fn with_launcher(launcher: impl Into<PathBuf>) -> Self {
        Self { launcher: Some(launcher.into()), ..Self::new() }
    }

    /// Who notes what they are sent, if somebody does.
    pub(crate) fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.recorder.as_ref()
    }

    /// The same, and what they are sent and answer is noted.
    #[must_use]
    pub fn recorded_by(mut self, recorder: &Arc<Recorder>) -> Self {
        self.recorder = Some(Arc::clone(recorder));
        self
    }

    /// Waits until no program runs any more. Programs of a consumer are told to end when it is dropped, and have the
    /// [`grace`](Command::grace) of their command; without this a process that ends kills them at once.
    ///
    /// ```
    /// # use anabranch_file::program::Programs;
    /// # async fn f(programs: Programs, set: anabranch::ReplicaSet, log: anabranch::Log) -> Result<(), anabranch::RunError> {
    /// set.run_until(&log, anabranch::shutdown_signal()).await?;
    /// programs.ended().await;
    /// # Ok(()) }
    /// ```
    pub async fn ended(&self) {
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Starts a program, with all three pipes.
    pub(super) async fn start(&self, command: &Command) -> io::Result<(Child, Running)> {
        let (program, arguments) = command.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut start = match &self.launcher {
            None => tokio::process::Command::new(program),
            Some(launcher) => {
                let mut start = tokio::process::Command::new(launcher);
                let parent = std::process::id().to_string();
                start.args(["launch", "--parent", &parent, "--", program]);
                start
            }
        };
        start.args(arguments).current_dir(&command.directory);
        start.envs(command.env.iter().map(|(name, value)| (name, value)));
        start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        start.kill_on_drop(true);
        // Ctrl-C is for this process: batches that were begun are finished.
        #[cfg(unix)]
        start.process_group(0);
        let running = Running::new(&self.running);
        let (answer, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts programs has ended");
        let start = Start { command: start, runtime: Handle::current(), answer };
        STARTER
            .as_ref()
            .map_err(|error| io::Error::other(error.clone()))?
            .send(start)
            .await
            .map_err(|_| gone())?;
        Ok((started.await.map_err(|_| gone())??, running))
    }
}

impl Default for Programs {
    fn default() -> Self {
        Self::new()
    }
}

/// One that runs, counted.
pub(super) struct Running(Arc<watch::Sender<usize>>);

impl Running {
    fn new(running: &Arc<watch::Sender<usize>>) -> Self {
        running.send_modify(|running| *running += 1);
        Self(Arc::clone(running))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

struct Start {
    command: tokio::process::Command,
    runtime: Handle,
    answer: oneshot::Sender<io::Result<Child>>,
}

/// How many programs may wait to be started.
const MOST_WAITING: usize = 64;

/// The thread that starts programs. The signal of a parent's death comes when the *thread* ends that has started the
/// child, and those of a runtime may end at any time; so it lives as long as the process.
static STARTER: LazyLock<Result<mpsc::Sender<Start>, String>> = LazyLock::new(|| {
    let (starter, mut starts) = mpsc::channel::<Start>(MOST_WAITING);
    let thread = std::thread::Builder::new().name("programs".to_owned()).spawn(move || {
        while let Some(Start { mut command, runtime, answer }) = starts.blocking_recv() {
            let spawn = AssertUnwindSafe(|| {
                // Its pipes belong to the caller's runtime.
                let _entered = runtime.enter();
                command.spawn()
            });
            // A runtime that has ended, or cannot have pipes, makes it panic: that is one start, and not all of them.
            let panicked = |_| Err(io::Error::other("the runtime that asks for it cannot have it"));
            let _ = answer.send(catch_unwind(spawn).unwrap_or_else(panicked));
        }
    });
    thread.map(|_| starter).map_err(|error| format!("no thread can be started: {error}"))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_without_pipes_stops_nobody_else() {
        let command = Command::new(["true"], "/");
        let start = |mut runtime: tokio::runtime::Builder| {
            runtime.build().unwrap().block_on(Programs::new().start(&command)).map(drop)
        };
        let bare = tokio::runtime::Builder::new_current_thread();
        let said = start(bare).unwrap_err().to_string();
        assert_eq!(said, "the runtime that asks for it cannot have it");
        let mut whole = tokio::runtime::Builder::new_current_thread();
        whole.enable_all();
        start(whole).unwrap();
    }
}
