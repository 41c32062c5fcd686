//! How far it is, on standard error, and what came of it, on standard output.

use anabranch::batch::{BatchProgress, Part, Summary};
use anabranch_terminal::output;
use anabranch_terminal::{say, say_on};
use serde_json::json;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often a line is written where there is no terminal.
const LINES: Duration = Duration::from_secs(5);
const WIDTH: usize = 24;

/// A bar on a terminal, a line every few seconds elsewhere.
pub(super) struct Display {
    job: String,
    is_quiet: bool,
    is_terminal: bool,
    /// When it has written last.
    last: Mutex<Option<Instant>>,
}

impl Display {
    pub(super) fn new(job: &str, is_quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { job: job.to_owned(), is_quiet, is_terminal, last: Mutex::new(None) }
    }

    /// Says what this instance is there for.
    pub(super) fn begin(&self, part: Part, workers: usize) {
        if self.is_quiet {
            return;
        }
        let workers = output::count(workers as u64, "worker");
        say!("{}: {}, {workers}", self.job, part_text(part));
        if let Ok(mut last) = self.last.lock() {
            *last = Some(Instant::now()).filter(|_| !self.is_terminal);
        }
    }

    pub(super) fn show(&self, progress: &BatchProgress) {
        let Ok(mut last) = self.last.lock() else { return };
        if self.is_terminal {
            say_on!("\r\x1b[2K{}", bar(&self.job, progress));
        } else if last.is_some_and(|last| last.elapsed() < LINES) {
            return;
        } else {
            say!("{}: {}", self.job, text(progress));
        }
        *last = Some(Instant::now());
    }

    /// Says why it goes on for a while.
    pub(super) fn told(&self) {
        if self.is_quiet {
            return;
        }
        self.end();
        say!("{}: told to stop; finishing what was begun", self.job);
    }

    /// Leaves the bar as it is.
    pub(super) fn end(&self) {
        if self.is_terminal && self.last.lock().is_ok_and(|last| last.is_some()) {
            say!("");
        }
    }
}

pub(super) fn part_text(part: Part) -> String {
    match part {
        Part::Elastic => "elastic".to_owned(),
        part => format!("part {part}"),
    }
}

fn bar(job: &str, progress: &BatchProgress) -> String {
    let share = match progress.rows {
        0 => 1.0,
        rows => (progress.done as f64 / rows as f64).min(1.0),
    };
    let full = (share * WIDTH as f64) as usize;
    let bar = "█".repeat(full) + &"░".repeat(WIDTH - full);
    format!("{job}  {bar} {:>3.0} %  {}", (share * 100.0).floor(), text(progress))
}

fn text(progress: &BatchProgress) -> String {
    let BatchProgress { succeeded, failed, waiting, done, rows, rate, left, .. } = progress;
    let here = succeeded + failed;
    let left = match left {
        _ if done >= rows => String::new(),
        Some(left) => format!(", about {} left", time(*left)),
        None => ", waiting".to_owned(),
    };
    let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
    let again = if *waiting > 0 { format!(", {waiting} tried again") } else { String::new() };
    format!("{done} of {rows} rows, {here} here{failed}{again}, {rate:.0} rows/s{left}")
}

/// A time to wait for, to the second.
fn time(time: Duration) -> String {
    match time.as_secs_f64().ceil() as u64 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Prints what came of it.
pub(super) fn summary(job: &str, part: Part, summary: &Summary, json: bool) -> anyhow::Result<()> {
    output::of_work(print(job, part, summary, json), || {
        format!("the batch has ended: {}", counts(summary))
    })
}

/// How many rows went well, and how many did not.
fn counts(summary: &Summary) -> String {
    let rows = output::count(summary.succeeded + summary.failed, "row");
    let before = match summary.failed_before {
        0 => String::new(),
        rows => format!(", {rows} failed before"),
    };
    format!("{rows}, {} failed{before}", summary.failed)
}

fn print(job: &str, part: Part, summary: &Summary, json: bool) -> anyhow::Result<()> {
    let rows = summary.succeeded + summary.failed;
    let seconds = summary.took_ms as f64 / 1e3;
    let rate = (rows as f64 / seconds.max(0.001)).round();
    if json {
        let mut object =
            json!({ "job": job, "part": part.to_string(), "rows": rows, "rate": rate });
        if let (Some(object), serde_json::Value::Object(more)) =
            (object.as_object_mut(), serde_json::to_value(summary)?)
        {
            object.extend(more);
        }
        return output::json(&object);
    }
    let lost = match summary.lost {
        0 => String::new(),
        lost => format!(", {lost} taken by others"),
    };
    let again = match summary.retried {
        0 => String::new(),
        attempts => format!(", {}", output::count(attempts, "further attempt")),
    };
    let text = format!(
        "{job}: {}{again}{lost}, {rate:.0} rows/s, {seconds:.1} s, {}, session {}",
        counts(summary),
        part_text(part),
        summary.sessions.join(", ")
    );
    output::line(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_says_how_far_how_fast_and_how_long() {
        let mut progress = BatchProgress::default();
        (progress.succeeded, progress.failed, progress.waiting) = (40, 2, 3);
        (progress.done, progress.rows, progress.rate) = (100, 200, 50.0);
        progress.left = Some(Duration::from_secs(2));
        let half = "█".repeat(12) + &"░".repeat(12);
        let said = "100 of 200 rows, 42 here, 2 failed, 3 tried again, 50 rows/s, about 2 s left";
        assert_eq!(bar("convert", &progress), format!("convert  {half}  50 %  {said}"));
        assert_eq!(time(Duration::from_secs(3_599)), "60 min");
        assert_eq!(time(Duration::from_secs(7_260)), "2 h 1 min");
    }
}
