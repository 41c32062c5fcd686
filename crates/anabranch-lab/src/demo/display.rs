//! What is seen while the demo runs: a line that moves on a terminal, a line for each act elsewhere.

use anabranch_terminal::{say, say_on};
use std::io::IsTerminal;
use std::time::Duration;

const WIDTH: usize = 30;

pub(super) struct Display {
    is_quiet: bool,
    is_live: bool,
    events: u64,
}

impl Display {
    pub(super) fn new(is_quiet: bool, events: u64) -> Self {
        Self { is_quiet, is_live: !is_quiet && std::io::stderr().is_terminal(), events }
    }

    /// A new act begins.
    pub(super) fn act(&self, title: &str) {
        if self.is_quiet {
            return;
        }
        self.finish();
        say!("• {title}");
    }

    /// How far it is.
    pub(super) fn show(&self, handled: u64, elapsed: Duration, workers: usize) {
        if !self.is_live {
            return;
        }
        let share = (handled as f64 / self.events as f64).min(1.0);
        let full = (share * WIDTH as f64) as usize;
        let (bar, rest) = ("█".repeat(full), "░".repeat(WIDTH - full));
        let rate = handled as f64 / elapsed.as_secs_f64().max(0.001);
        let percent = share * 100.0;
        say_on!(
            "\r\x1b[2K  {bar}{rest} {percent:>3.0} %  {handled} of {} events  {rate:.0}/s  {workers} \
             workers",
            self.events
        );
    }

    /// How it goes where there is no end.
    pub(super) fn flow(&self, handled: u64, appended: u64, elapsed: Duration, workers: usize) {
        if !self.is_live {
            return;
        }
        let (lag, seconds) = (appended.saturating_sub(handled), elapsed.as_secs());
        say_on!(
            "\r\x1b[2K  {handled} events handled, {lag} to go, {workers} workers, {seconds} s; Ctrl-C proves \
             it and ends"
        );
    }

    /// The moving line is over.
    pub(super) fn finish(&self) {
        if self.is_live {
            say_on!("\r\x1b[2K");
        }
    }
}
