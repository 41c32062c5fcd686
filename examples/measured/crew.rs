//! Worker processes: this program again, with other arguments.

use super::Outcome;
use std::process::{Child, Command, Stdio};
use tokio::sync::oneshot;

/// What tells a worker that it leaves when its standard input ends.
pub const ATTACHED: &str = "--attached";

/// The processes that were started and have not been told to leave.
pub struct Crew {
    url: String,
    working: Vec<Member>,
    leaving: Vec<Member>,
}

/// A process. Its standard input is what tells it to leave, so none outlives this one.
struct Member(Child);

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Crew {
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), working: Vec::new(), leaving: Vec::new() }
    }

    /// Starts one more. The URL goes by the environment: arguments are seen by everybody.
    pub fn start(&mut self, arguments: &[&str]) -> Outcome<u32> {
        let child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .arg(ATTACHED)
            .env("ANABRANCH_URL", &self.url)
            .stdin(Stdio::piped())
            .spawn()?;
        let pid = child.id();
        self.working.push(Member(child));
        Ok(pid)
    }

    /// The processes that should be at work.
    pub fn pids(&self) -> Vec<u32> {
        self.working.iter().map(|member| member.0.id()).collect()
    }

    /// Tells the youngest to leave.
    pub fn dismiss_last(&mut self) {
        if let Some(mut member) = self.working.pop() {
            drop(member.0.stdin.take());
            self.leaving.push(member);
        }
    }

    /// Ends the youngest as `kill -9` does.
    pub fn kill_last(&mut self) -> Outcome<()> {
        if let Some(mut member) = self.working.pop() {
            member.0.kill()?;
        }
        Ok(())
    }

    /// One that ended by itself is an error.
    pub fn check(&mut self) -> Outcome<()> {
        for member in &mut self.working {
            if let Some(status) = member.0.try_wait()? {
                return Err(
                    format!("the worker of process {} ended: {status}", member.0.id()).into()
                );
            }
        }
        Ok(())
    }

    /// Tells all to leave, and waits until they have.
    pub fn dismiss(mut self) -> Outcome<()> {
        while !self.working.is_empty() {
            self.dismiss_last();
        }
        for member in &mut self.leaving {
            let status = member.0.wait()?;
            if !status.success() {
                return Err(format!("a worker left with {status}").into());
            }
        }
        Ok(())
    }
}

/// Resolves when the standard input ends.
pub async fn told_to_leave() {
    let (tell, told) = oneshot::channel();
    // A thread of its own: a read of standard input cannot be given up.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = tell.send(());
    });
    let _ = told.await;
}
