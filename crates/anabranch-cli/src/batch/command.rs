//! A program for each row or page.

use super::page;
use crate::refusal::{refuse, refuse_unless};
use anabranch::batch::Record;
use anabranch::{HandlerError, HandlerResult};
use std::io::ErrorKind;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// How much of what a program says is kept: the last of standard error.
const MAX_SAID: usize = 8 * 1024;
/// How long the answer for a page may be.
const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// How long what a program has said is read after its end, if somebody else holds its output.
const AFTER_ITS_END: Duration = Duration::from_millis(100);

pub(super) struct CommandHandler {
    program: String,
    arguments: Vec<String>,
    job: String,
    per_page: bool,
    timeout: Duration,
    /// Exit codes that say that it may pass.
    retry_exit: Vec<u8>,
}

impl CommandHandler {
    pub(super) fn parse(
        line: &str,
        job: &str,
        per_page: bool,
        timeout: Duration,
        retry_exit: &[u8],
    ) -> anyhow::Result<Self> {
        let mut arguments = words(line)?;
        refuse_unless!(!arguments.is_empty(), InvalidArguments, "there is no program; name one");
        let here = std::env::current_dir().unwrap_or_default();
        let command = anabranch_file::program::Command::new(arguments.clone(), here);
        if let Err(said) = command.check() {
            refuse!(InvalidArguments, "{said}");
        }
        let program = arguments.remove(0);
        let (job, retry_exit) = (job.to_owned(), retry_exit.to_vec());
        Ok(Self { program, arguments, job, per_page, timeout, retry_exit })
    }

    pub(super) async fn handle(&self, record: &Record) -> HandlerResult {
        let key = format!("{}:{}", self.job, record.key());
        self.run(record.to_json().to_string(), Some(key)).await.map(drop)
    }

    pub(super) async fn handle_page(&self, page: &[Record]) -> Option<Vec<HandlerResult>> {
        if !self.per_page {
            return None;
        }
        let answer = self.run(page::rows(page), None).await;
        Some(page::outcomes(page.len(), answer))
    }

    /// Runs it to its end; what it wrote to standard output is kept for a page only.
    async fn run(&self, input: String, key: Option<String>) -> HandlerResult<Vec<u8>> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stderr(Stdio::piped());
        command.stdout(if self.per_page { Stdio::piped() } else { Stdio::null() });
        command.envs(key.map(|key| ("IDEMPOTENCY_KEY", key)));
        command.kill_on_drop(true);
        // Ctrl-C is for this process: rows that were begun are finished.
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn();
        let child = child.map_err(|error| {
            let said = format!("cannot start `{}`: {error}", self.program);
            // It was there when the run began; the machine may be short of something. A key with a NUL is
            // no variable of any program's.
            match error.kind() {
                ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::InvalidInput => {
                    HandlerError::for_good(said)
                }
                _ => HandlerError::new(said),
            }
        })?;
        let ended = tokio::time::timeout(self.timeout, talk(child, input)).await;
        let too_long = || HandlerError::for_good(format!("it took longer than {:?}", self.timeout));
        let (status, answer, said) = ended.map_err(|_| too_long())??;
        if status.success() {
            return Ok(answer);
        }
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let said = last.map_or_else(|| how(status), str::to_owned);
        let may_pass = self.retry_exit.iter().any(|code| status.code() == Some(i32::from(*code)));
        Err(if may_pass { HandlerError::new(said) } else { HandlerError::for_good(said) })
    }
}

/// How a program ended that said nothing.
fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}

/// Writes, reads and waits at the same time: no pipe may fill up. It ends with the program: what that has left in the
/// background may hold its pipes for as long as it likes.
async fn talk(mut child: Child, input: String) -> HandlerResult<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut answer, mut said) = (Vec::new(), Vec::new());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program need not read what it does not care for.
            let _ = stdin.write_all(input.as_bytes()).await;
            let _ = stdin.write_all(b"\n").await;
        }
    };
    let status = {
        let talking = async {
            let (answered, told) =
                (tail(stdout, &mut answer, MAX_ANSWER), tail(stderr, &mut said, MAX_SAID));
            let ((), answered, told) = tokio::join!(write, answered, told);
            answered.and(told)
        };
        tokio::pin!(talking);
        tokio::select! {
            talked = &mut talking => {
                talked?;
                child.wait().await?
            }
            status = child.wait() => {
                let status = status?;
                // What it has said itself is there by now.
                if let Ok(talked) = tokio::time::timeout(AFTER_ITS_END, talking).await {
                    talked?;
                }
                status
            }
        }
    };
    Ok((status, answer, said))
}

/// Reads to the end, and keeps the last of it.
async fn tail(
    from: Option<impl AsyncRead + Unpin>,
    kept: &mut Vec<u8>,
    most: usize,
) -> HandlerResult {
    let Some(mut from) = from else { return Ok(()) };
    while from.read_buf(kept).await? > 0 {
        if kept.len() > 2 * most {
            kept.drain(..kept.len() - most);
        }
    }
    Ok(())
}

/// The words of a command line; quotes hold words together.
fn words(line: &str) -> anyhow::Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    refuse_unless!(quote.is_none(), InvalidArguments, "a quote is not closed in `{line}`");
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        let read = |line| words(line).unwrap();
        assert_eq!(read("a  b 'c d' e\"f g\"''  ''"), ["a", "b", "c d", "ef g", ""]);
        assert!(words("a 'b").is_err());
        assert!(read("  ").is_empty());
    }
}
