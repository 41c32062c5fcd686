//! What is started, and how long it may take.

use super::check;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How much of a command line is shown.
const MAX_SHOWN: usize = 80;

/// A program as a file names it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where it is started.
    pub directory: PathBuf,
    /// Variables beside those of this process.
    pub env: Vec<(String, String)>,
    /// How long it may take to greet, and for a batch until its first query. Default: 30 s.
    pub timeout: Duration,
    /// How long it may take to end once its standard input has ended. Default: 10 s.
    pub grace: Duration,
}

impl Command {
    /// A program and its arguments, in a directory.
    ///
    /// ```
    /// use anabranch_file::program::Command;
    /// let command = Command::new(["python3", "risk.py"], "/srv/risk");
    /// assert_eq!(command.to_string(), "python3 risk.py");
    /// ```
    pub fn new(
        argv: impl IntoIterator<Item = impl Into<String>>,
        directory: impl Into<PathBuf>,
    ) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            directory: directory.into(),
            env: Vec::new(),
            timeout: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        }
    }

    /// Refuses what the system would not start: it would fail every event.
    ///
    /// ```
    /// use anabranch_file::program::Command;
    /// assert!(Command::new(["sh", "-c", "true"], "/").check().is_ok());
    /// let none = Command::new([""; 0], "/");
    /// assert_eq!(none.check().unwrap_err(), "there is no program; name one");
    /// let mut elsewhere = Command::new(["sh"], "/");
    /// elsewhere.env.push(("PATH".to_owned(), "/nowhere".to_owned()));
    /// assert!(elsewhere.check().unwrap_err().starts_with("there is no program `sh` in PATH"));
    /// ```
    pub fn check(&self) -> Result<(), String> {
        let own = self.env.iter().rev().find(|(name, _)| name == "PATH");
        let path = own.map(|(_, path)| OsString::from(path)).or_else(|| env::var_os("PATH"));
        check::check(&self.argv, &self.directory, &path.unwrap_or_default())
    }
}

/// The command line, for messages.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cut(&self.argv.join(" "), MAX_SHOWN))
    }
}

/// The beginning of a text, on one line.
pub(super) fn cut(text: &str, most: usize) -> String {
    let mut cut: String =
        text.chars().take(most).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(most).is_some() {
        cut.push('…');
    }
    cut
}
