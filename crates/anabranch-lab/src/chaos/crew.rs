//! The worker processes, and what becomes of them.

use super::worker::Work;
use crate::worker_process::WorkerProcess;
use anabranch::Namespace;
use anyhow::Context;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LOOK: Duration = Duration::from_millis(5);
/// How much of what a worker said last is shown.
const LAST_LINES: usize = 20;

/// All workers: numbered, so that what they have handled can be told apart.
pub(crate) struct Crew {
    url: String,
    namespace: Namespace,
    work: Work,
    /// The processes of all who were ever started, in the order of their numbers.
    processes: Vec<u32>,
    live: Vec<Member>,
    /// Told to stop, and about to.
    leaving: Vec<Member>,
    said: TempDir,
    problems: Vec<String>,
}

struct Member {
    number: i64,
    process: WorkerProcess,
    lines: Arc<Mutex<Vec<String>>>,
    errors: PathBuf,
}

impl Crew {
    pub(crate) fn new(url: &str, namespace: &Namespace, work: Work) -> anyhow::Result<Self> {
        let said = tempfile::tempdir().context("cannot make a temporary directory")?;
        let (live, leaving, problems) = (Vec::new(), Vec::new(), Vec::new());
        let (url, namespace) = (url.to_owned(), namespace.clone());
        let processes = Vec::new();
        Ok(Self { url, namespace, work, processes, live, leaving, said, problems })
    }

    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// The numbers of those who are not told to stop.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        self.live.iter().map(|member| member.number).collect()
    }

    /// The process of a worker, which may have ended.
    pub(crate) fn process(&self, number: i64) -> Option<u32> {
        self.processes.get(usize::try_from(number - 1).ok()?).copied()
    }

    /// Starts one more; returns its number.
    pub(crate) fn start(&mut self) -> anyhow::Result<i64> {
        let number = self.processes.len() as i64 + 1;
        let errors = self.said.path().join(format!("worker-{number}"));
        let mut command = WorkerProcess::command()?;
        command.args(["chaos-worker", "--namespace", self.namespace.as_str()]);
        command.args(["--number", &number.to_string()]).args(self.work.arguments());
        command.env("ANABRANCH_URL", self.url_of(number)).stdout(Stdio::piped());
        let mut process = WorkerProcess::start(command.stderr(File::create(&errors)?))?;
        self.processes.push(process.id());
        let lines = Arc::<Mutex<Vec<String>>>::default();
        if let Some(output) = process.take_stdout() {
            let lines = Arc::clone(&lines);
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                }
            });
        }
        self.live.push(Member { number, process, lines, errors });
        Ok(number)
    }

    /// On PostgreSQL the sessions of a worker bear its name.
    fn url_of(&self, number: i64) -> String {
        if self.url.starts_with("sqlite:") {
            return self.url.clone();
        }
        let mark = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{mark}application_name={}", self.url, self.application(number))
    }

    /// The name of the sessions of a worker.
    pub(crate) fn application(&self, number: i64) -> String {
        format!("{}-{number}", self.namespace)
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&mut self, number: i64) -> anyhow::Result<()> {
        if let Some(place) = self.live.iter().position(|member| member.number == number) {
            self.live.remove(place).process.kill()?;
        }
        Ok(())
    }

    /// Sends a signal, if it is there to be sent one.
    pub(crate) fn signal(&self, number: i64, name: &str) -> anyhow::Result<()> {
        let members = self.live.iter().chain(&self.leaving);
        let mut found = members.filter(|member| member.number == number);
        found.next().map_or(Ok(()), |member| member.process.signal(name))
    }

    /// Tells one to leave: by SIGTERM, or by the end of its standard input.
    pub(crate) fn tell_to_leave(&mut self, number: i64, terminate: bool) -> anyhow::Result<()> {
        if let Some(place) = self.live.iter().position(|member| member.number == number) {
            let mut member = self.live.remove(place);
            if terminate {
                member.process.signal("TERM")?;
            } else {
                member.process.tell_to_stop();
            }
            self.leaving.push(member);
        }
        Ok(())
    }

    /// Waits until all who were told to leave have left; who has not is a problem, and killed.
    pub(crate) async fn wait_for_leavers(&mut self, limit: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        while !self.leaving.is_empty() && started.elapsed() < limit {
            self.check()?;
            tokio::time::sleep(LOOK).await;
        }
        for member in self.leaving.drain(..) {
            let late = format!("worker {} did not leave within {limit:?}", member.number);
            self.problems.push(member.with_errors(&late));
        }
        Ok(())
    }

    /// Whether a worker has said something; it is said once.
    pub(crate) fn has_said(&self, number: i64, line: &str) -> bool {
        let mut found = self.live.iter().filter(|member| member.number == number);
        let Some(member) = found.next() else { return false };
        let mut lines = member.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let place = lines.iter().position(|said| said == line);
        place.is_some_and(|place| lines.remove(place) == line)
    }

    /// Waits until a worker says something, though not for ever.
    pub(crate) async fn wait_until_said(
        &mut self,
        number: i64,
        line: &str,
        limit: Duration,
    ) -> anyhow::Result<bool> {
        let started = Instant::now();
        loop {
            if self.has_said(number, line) {
                return Ok(true);
            }
            self.check()?;
            if started.elapsed() > limit || !self.numbers().contains(&number) {
                return Ok(false);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Looks who has ended: only who was told to may, and in good order.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        for (members, may_end) in [(&mut self.live, false), (&mut self.leaving, true)] {
            let mut place = 0;
            while place < members.len() {
                let Some(status) = members[place].process.ended()? else {
                    place += 1;
                    continue;
                };
                let member = members.remove(place);
                if !may_end || !status.success() {
                    let (number, status) = (member.number, ended_with(status));
                    let problem = format!("worker {number} ended by itself with {status}");
                    self.problems.push(member.with_errors(&problem));
                }
            }
        }
        Ok(())
    }

    /// What has gone wrong with workers so far.
    pub(crate) fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }
}

fn ended_with(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

impl Member {
    /// A problem, with the last that its worker said.
    fn with_errors(&self, problem: &str) -> String {
        let said = std::fs::read_to_string(&self.errors).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ");
        format!("{problem}; it said:\n  {last}")
    }
}
