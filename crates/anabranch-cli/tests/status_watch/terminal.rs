//! A command in a terminal of its own, which says what it shows.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/status_watch/terminal.py");

/// Ends with the test, and the command with it.
pub struct Terminal {
    child: Child,
    asks: ChildStdin,
    says: BufReader<ChildStdout>,
}

/// What it shows.
#[derive(Debug)]
pub struct Seen(Value);

impl Seen {
    pub fn lines(&self) -> Vec<&str> {
        self.0["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
    }

    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    pub fn has(&self, words: &str) -> bool {
        self.text().contains(words)
    }

    /// The lines of the map, as far as they have blocks.
    pub fn map(&self) -> Vec<usize> {
        let blocks = |line: &&str| line.chars().filter(|letter| *letter == '▀').count();
        self.lines().iter().map(blocks).filter(|count| *count > 0).collect()
    }

    /// How many colours the upper halves of its blocks have.
    pub fn colours(&self) -> usize {
        self.0["colours"].as_array().unwrap().len()
    }

    pub fn ended(&self) -> Option<i64> {
        self.0["ended"].as_i64()
    }

    /// Whether the terminal is as it was found: its screen, its cursor, its modes.
    pub fn is_restored(&self) -> bool {
        let is = |name: &str| self.0[name].as_bool().unwrap();
        let found = self.lines()[0] == "$ a command before";
        found && is("has_cursor") && is("wraps") && is("is_as_before") && !is("is_alternate")
    }
}

impl Terminal {
    /// Runs a command, with its directory and its variables.
    pub fn start(size: (usize, usize), command: &Command) -> Self {
        let mut python = Command::new(crate::provided::python());
        python.arg(PROGRAM).args([size.0.to_string(), size.1.to_string()]);
        python.arg(command.get_program()).args(command.get_args());
        python.env_remove("NO_COLOR").env("TERM", "xterm-256color");
        python.current_dir(command.get_current_dir().unwrap());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => python.env(name, value),
                None => python.env_remove(name),
            };
        }
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Self { asks: child.stdin.take().unwrap(), says, child }
    }

    pub fn ask(&mut self, request: &str) -> Seen {
        writeln!(self.asks, "{request}").unwrap();
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        Seen(serde_json::from_str(&line).expect("the terminal has answered"))
    }

    pub fn press(&mut self, keys: &str) {
        let hex: String = keys.bytes().map(|byte| format!("{byte:02x}")).collect();
        self.ask(&format!("keys {hex}"));
    }

    /// Waits until it shows something.
    pub fn until(&mut self, what: &str, is_so: impl Fn(&Seen) -> bool) -> Seen {
        let began = Instant::now();
        loop {
            let seen = self.ask("screen");
            if is_so(&seen) {
                return seen;
            }
            let text = seen.text();
            assert!(began.elapsed() < PATIENCE, "waited a minute until {what}:\n{text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the command has ended so, and has left the terminal as it was.
    pub fn ended(mut self, code: i64) -> Seen {
        let seen = self.until("it has ended", |seen| seen.ended().is_some());
        assert_eq!(seen.ended(), Some(code), "{}", seen.text());
        assert!(seen.is_restored(), "{seen:?}");
        seen
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
