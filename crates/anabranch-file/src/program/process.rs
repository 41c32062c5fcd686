//! One program: what it is sent, what it says, how it ends.

use super::clock::{Awaited, Clock};
use super::command::{Command, cut};
use super::lines::{Lines, MOST_BYTES, Read};
use super::message::Message;
use super::programs::{Programs, Running};
use super::recorder::Recorder;
use super::stderr::{self, Last};
use futures_util::FutureExt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How much of a line is shown that is no message.
const MAX_SHOWN: usize = 120;
/// JSON's numbers are exact up to here in every language.
const LARGEST_BATCH: u64 = (1 << 53) - 1;
/// How long the status of a program and its last words are waited for, once its standard output has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A program has done what it must not: what is said of it. It cannot be talked to any more.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) said: String,
    /// Whether fewer events at a time may do.
    pub(super) is_too_much: bool,
}

impl Broken {
    pub(super) fn new(said: impl Into<String>) -> Self {
        Self { said: said.into(), is_too_much: false }
    }

    fn too_much(said: impl Into<String>) -> Self {
        Self { said: said.into(), is_too_much: true }
    }
}

/// A program that runs. One that is dropped is killed, with all that it has started: it may be in the middle of a
/// conversation.
pub(super) struct Process {
    child: Child,
    /// The number of its process group, too.
    id: Option<u32>,
    stdin: Option<ChildStdin>,
    lines: Lines<ChildStdout>,
    /// What it is sent, and how much of that it has taken.
    out: Vec<u8>,
    sent: usize,
    /// The number of the batch that was begun last; none before the first.
    batch: Option<u64>,
    last_words: Last,
    /// Who notes what is said, and as whose.
    recorder: Option<(Arc<Recorder>, Arc<str>)>,
    logging: JoinHandle<()>,
    _running: Running,
}

/// What an idle program has done meanwhile.
pub(super) enum Meanwhile {
    Nothing,
    /// It has ended.
    Ended,
    /// It has written something.
    Wrote(Broken),
}

impl Process {
    pub(super) async fn start(
        programs: &Programs,
        command: &Command,
        consumer: &Arc<str>,
    ) -> io::Result<Self> {
        let (mut child, running) = programs.start(command).await?;
        let no_pipe = || io::Error::other("it has no pipes");
        let stdout = child.stdout.take().ok_or_else(no_pipe)?;
        let stderr = child.stderr.take().ok_or_else(no_pipe)?;
        let last_words = Last::default();
        let logging = stderr::log(stderr, Arc::clone(consumer), Arc::clone(&last_words));
        Ok(Self {
            id: child.id(),
            stdin: child.stdin.take(),
            child,
            lines: Lines::new(stdout),
            out: Vec::new(),
            sent: 0,
            batch: None,
            last_words,
            recorder: programs.recorder.clone().map(|by| (by, Arc::clone(consumer))),
            logging: tokio::spawn(logging),
            _running: running,
        })
    }

    /// Begins a batch. Returns its number. Nobody can guess it: what a program says too late, or too early, about
    /// another batch is no answer to this one.
    pub(super) fn begin_batch(&mut self) -> u64 {
        self.lines.begin_batch();
        let random = RandomState::new().build_hasher().finish() & LARGEST_BATCH;
        let number = if Some(random) == self.batch { random ^ 1 } else { random };
        self.batch = Some(number);
        number
    }

    /// Sends a message, with the next look at what it says. `write` writes it without the end of its line.
    pub(super) fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        let begin = self.out.len();
        write(&mut self.out);
        // JSON may have been stored with line ends in it; those in its texts are escaped.
        for byte in &mut self.out[begin..] {
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        if let Some((recorder, consumer)) = &self.recorder {
            recorder.sends(consumer, &self.out[begin..]);
        }
        self.out.push(b'\n');
    }

    /// The next message.
    pub(super) async fn next(&mut self, clock: &mut Clock) -> Result<Message<'_>, Broken> {
        let line = loop {
            match self.lines.take() {
                Some(line) => break line,
                None => self.exchange(clock).await?,
            }
        };
        let line = self.lines.get(line);
        if let Some((recorder, consumer)) = &self.recorder {
            recorder.answers(consumer, line);
        }
        let text = std::str::from_utf8(line).map_err(|_| wrote(line, "it is not UTF-8"))?;
        let (message, of) = Message::read(text).map_err(|problem| wrote(line, &problem))?;
        match (self.batch, of) {
            (Some(number), Some(of)) if of != number => Err(Broken::new(format!(
                "wrote `{}`, and the batch that it handles is {number}: answer each batch before it is `done`, with \
                 its number. What was said of a batch that had ended is not stored",
                show(line)
            ))),
            _ => Ok(message),
        }
    }

    /// Sends all that is to be sent.
    pub(super) async fn flush(&mut self, clock: &mut Clock) -> Result<(), Broken> {
        while self.sent < self.out.len() {
            self.exchange(clock).await?;
        }
        Ok(())
    }

    /// Sends and reads a part, whichever is possible: no pipe may fill up on either side.
    async fn exchange(&mut self, clock: &mut Clock) -> Result<(), Broken> {
        let began = Instant::now();
        let (out, stdin, lines) = (&self.out[self.sent..], &mut self.stdin, &mut self.lines);
        let write = async {
            match stdin {
                Some(stdin) if !out.is_empty() => stdin.write(out).await,
                _ => std::future::pending().await,
            }
        };
        let step = async {
            tokio::select! {
                written = write => Step::Written(written),
                read = lines.read() => Step::Read(read),
            }
        };
        let step = timeout(clock.left(), step).await;
        clock.spend(began.elapsed());
        match step {
            Ok(Step::Written(Ok(bytes))) => self.sent += bytes,
            Ok(Step::Written(Err(_))) => {
                // Whether it has ended too is seen at its output.
                self.stdin = None;
                self.sent = self.out.len();
            }
            Ok(Step::Read(Ok(Read::More))) => {}
            Ok(Step::Read(Ok(Read::TooMuch))) => {
                let (most, shown) = (MOST_BYTES >> 20, show(self.lines.rest()));
                return Err(Broken::too_much(format!(
                    "has written more than {most} MiB for one batch, at the end `{shown}`: standard output is \
                     for answers only, and smaller batches (`batch_size`) have fewer"
                )));
            }
            Ok(Step::Read(Ok(Read::End) | Err(_))) => return Err(self.death(clock).await),
            Err(_) if self.stdin.is_none() => {
                let up = clock.is_up();
                return Err(Broken::new(format!("has closed its standard input, and then {up}")));
            }
            Err(_) => return Err(Broken::too_much(clock.is_up())),
        }
        Ok(())
    }

    /// What is said of a program whose output has ended.
    async fn death(&mut self, clock: &Clock) -> Broken {
        let status = timeout(LAST_WORDS, self.child.wait()).await;
        if matches!(status, Ok(Ok(_))) {
            self.kill_group();
        }
        let _ = timeout(LAST_WORDS, &mut self.logging).await;
        let how = match &status {
            Ok(Ok(status)) => format!("has ended ({status})"),
            _ => "has closed its standard output".to_owned(),
        };
        let (before, hint) = match (clock.awaited(), &status) {
            (Awaited::Greeting, Ok(Ok(status))) if status.success() => {
                ("before its greeting", " (does it call run(handle)?)")
            }
            (Awaited::Greeting, _) => ("before its greeting", ""),
            _ => ("before the end of its answer", ""),
        };
        let said = match self.last_words.lock().ok().and_then(|words| words.told()) {
            None => "it said nothing on standard error".to_owned(),
            Some(said) => format!("it said last: {said}"),
        };
        Broken::new(format!("{how} {before}{hint}; {said}"))
    }

    /// Kills what is left of its process group, once.
    ///
    /// The number of a group is not given to anybody else while one of its processes is left, be it only to be waited
    /// for. So this comes right after the program was waited for, and never later: by then the number might be that of
    /// a stranger.
    fn kill_group(&mut self) {
        let id = self.id.take();
        #[cfg(unix)]
        {
            let id = id.and_then(|id| i32::try_from(id).ok());
            if let Some(group) = id.and_then(rustix::process::Pid::from_raw) {
                let kill = rustix::process::Signal::KILL;
                let _ = rustix::process::kill_process_group(group, kill);
            }
        }
        #[cfg(not(unix))]
        if id.is_some() {
            let _ = self.child.start_kill();
        }
    }

    /// Whether it has said something after the end of a batch.
    pub(super) fn must_be_quiet(&self) -> Result<(), Broken> {
        match self.lines.rest() {
            [] => Ok(()),
            rest => {
                let shown = show(rest);
                Err(Broken::new(format!(
                    "wrote `{shown}` after the end of a batch, where nothing is expected: answer each batch \
                     once, and use standard error for logs"
                )))
            }
        }
    }

    /// What it has done since its last batch.
    pub(super) fn meanwhile(&mut self) -> Meanwhile {
        match self.lines.read().now_or_never() {
            None => Meanwhile::Nothing,
            Some(Ok(Read::End) | Err(_)) => Meanwhile::Ended,
            Some(Ok(Read::More | Read::TooMuch)) => match self.must_be_quiet() {
                Ok(()) => Meanwhile::Nothing,
                Err(broken) => Meanwhile::Wrote(broken),
            },
        }
    }

    /// Tells it to end, and gives it time. What is left of it then is killed.
    pub(super) async fn end(mut self, grace: Duration) {
        self.stdin = None;
        let mut drop_all = vec![0; 4096];
        let ended = async {
            loop {
                tokio::select! {
                    _ = self.child.wait() => break,
                    // It may have to say something before it can end.
                    Ok(1..) = self.lines.pipe().read(&mut drop_all) => {}
                    else => break,
                }
            }
        };
        let _ = timeout(grace, ended).await;
        self.kill_group();
    }
}

enum Step {
    Written(io::Result<usize>),
    Read(io::Result<Read>),
}

impl Drop for Process {
    fn drop(&mut self) {
        // If it has ended and was not waited for, what it has started may be left.
        self.kill_group();
    }
}

fn wrote(line: &[u8], problem: &str) -> Broken {
    let shown = show(line);
    Broken::new(format!(
        "wrote `{shown}`, which is no message ({problem}): standard output is for answers only \
         (docs/programs.md), use standard error for logs"
    ))
}

fn show(bytes: &[u8]) -> String {
    // Enough for so many characters of any length.
    cut(&String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SHOWN * 4)]), MAX_SHOWN)
}
