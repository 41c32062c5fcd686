//! A progress bar for terminals.

use crate::replica_set::{ConsumerProgress, Progress};
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const WIDTH: u64 = 24;
/// How much of what has stopped a consumer is shown.
const TROUBLE: usize = 60;

/// Shows on a terminal how far each consumer is, for [`ReplicaSet::on_progress`](crate::ReplicaSet::on_progress).
/// Where standard error is no terminal it shows nothing.
///
/// ```
/// # use anabranch_runtime::{Projection, ReplicaSet, RunError, progress_bar};
/// # async fn f<P: Projection>(log: anabranch_store::Log, orders: P) -> Result<(), RunError> {
/// ReplicaSet::new("rebuild").projection(orders).on_progress(progress_bar()).catch_up(&log).await?;
/// # Ok(()) }
/// ```
pub fn progress_bar() -> impl Fn(&Progress) + Send + Sync {
    let bar = ProgressBar::new();
    move |progress| bar.show(progress)
}

/// A progress bar that makes room for other lines: for programs that write to standard error while it is shown.
///
/// ```
/// use anabranch_runtime::ProgressBar;
/// let bar = ProgressBar::new();
/// // It is shown by `set.on_progress({ let bar = bar.clone(); move |progress| bar.show(progress) })`.
/// bar.beside(|| eprintln!("a line of a log"));
/// ```
#[derive(Clone, Debug)]
pub struct ProgressBar {
    is_terminal: bool,
    shown: Arc<Mutex<Shown>>,
}

#[derive(Debug)]
struct Shown {
    started: Instant,
    /// Its lines, as they are on the terminal now.
    lines: Vec<String>,
}

impl ProgressBar {
    /// One for standard error. Where that is no terminal it shows nothing.
    #[must_use]
    pub fn new() -> Self {
        let shown = Shown { started: Instant::now(), lines: Vec::new() };
        let is_terminal = std::io::stderr().is_terminal();
        Self { is_terminal, shown: Arc::new(Mutex::new(shown)) }
    }

    /// Shows how far each consumer is.
    pub fn show(&self, progress: &Progress) {
        if let Some(mut shown) = self.shown.lock().ok().filter(|_| self.is_terminal) {
            let lines = lines(progress, shown.started.elapsed());
            write(&format!("{}{}", over(&shown.lines), drawn(&lines)));
            shown.lines = lines;
        }
    }

    /// Does what writes to standard error: the bar is out of the way meanwhile, and comes back below.
    pub fn beside<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(shown) = self.shown.lock().ok().filter(|shown| !shown.lines.is_empty()) else {
            return work();
        };
        write(&over(&shown.lines));
        let done = work();
        write(&drawn(&shown.lines));
        done
    }
}

impl Default for ProgressBar {
    fn default() -> Self {
        Self::new()
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

/// Back to the first line, and all of them erased.
fn over(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("\x1b[{}A\x1b[J", lines.len()) }
}

/// What is too long for the terminal is cut there, and does not begin a line of its own.
fn drawn(lines: &[String]) -> String {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    format!("\x1b[?7l{text}\x1b[?7h")
}

fn lines(progress: &Progress, elapsed: Duration) -> Vec<String> {
    let width = progress.consumers.iter().map(|consumer| consumer.name.chars().count()).max();
    let width = width.unwrap_or_default();
    let consumers = progress.consumers.iter();
    consumers.map(|consumer| line(consumer, progress.has_ended, elapsed, width)).collect()
}

fn line(consumer: &ConsumerProgress, has_ended: bool, elapsed: Duration, width: usize) -> String {
    let ConsumerProgress { name, position, head, handled, parked, retrying, .. } = consumer;
    let (position, head) = (position.get(), head.get());
    let rate = *handled as f64 / elapsed.as_secs_f64().max(0.001);
    let behind = head.saturating_sub(position);
    let mut left = match behind {
        // Tasks have no positions.
        _ if consumer.has_tasks => String::new(),
        0 if parked + retrying > 0 => String::new(),
        0 => "caught up".to_owned(),
        behind if has_ended => format!("stopped {behind} behind"),
        behind if rate >= 1.0 => format!("about {:.0} s left", behind as f64 / rate),
        _ => "waiting".to_owned(),
    };
    if let Some(trouble) = &consumer.trouble {
        // One line, as long as a terminal is wide.
        let short: String = trouble.chars().take(TROUBLE).collect();
        let dots = if trouble.chars().nth(TROUBLE).is_some() { "…" } else { "" };
        left = format!("stopped: {short}{dots}");
    }
    for (keys, state) in [(parked, "parked"), (retrying, "retrying")] {
        if *keys > 0 {
            let comma = if left.is_empty() { "" } else { ", " };
            let keys = if *keys == 1 { "1 key".to_owned() } else { format!("{keys} keys") };
            left += &format!("{comma}{keys} {state}");
        }
    }
    if consumer.has_tasks {
        let tasks = if *handled == 1 { "task" } else { "tasks" };
        return format!("{name:<width$}  {handled} {tasks} done  {left}").trim_end().to_owned();
    }
    let share = if head == 0 { 1.0 } else { (position as f64 / head as f64).min(1.0) };
    let full = (share * WIDTH as f64) as u64;
    let bar: String = (0..WIDTH).map(|cell| if cell < full { '█' } else { '░' }).collect();
    format!("{name:<width$}  {bar} {:>3.0} %  {rate:.0} events/s  {left}", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::Position;

    fn at(position: u64, handled: u64) -> ConsumerProgress {
        let (name, head) = ("orders".to_owned(), Position::new(200));
        let position = Position::new(position);
        ConsumerProgress { name, position, handled, head, ..ConsumerProgress::default() }
    }

    fn said(consumer: &ConsumerProgress, has_ended: bool) -> String {
        line(consumer, has_ended, Duration::from_secs(2), 6)
    }

    #[test]
    fn one_that_has_stopped_says_why() {
        let trouble = Some(format!("connection refused {}", "x".repeat(100)));
        let line = said(&ConsumerProgress { trouble, ..at(50, 10) }, false);
        assert!(line.contains("stopped: connection refused xxx"), "{line}");
        assert!(line.chars().count() < 150, "{line}");
    }

    #[test]
    fn a_line_says_how_far_and_how_long() {
        let half = "█".repeat(12) + &"░".repeat(12);
        let now = said(&at(100, 100), false);
        assert!(now.contains(&format!("{half}  50 %  50 events/s  about 2 s left")), "{now}");
        assert!(said(&at(200, 200), false).contains("100 %  100 events/s  caught up"));
        assert!(said(&at(0, 0), false).ends_with("  0 %  0 events/s  waiting"));
    }

    #[test]
    fn it_ends_with_the_truth() {
        assert!(said(&at(200, 200), true).ends_with("  caught up"));
        assert!(said(&at(150, 100), true).ends_with("  75 %  50 events/s  stopped 50 behind"));
        let parked = ConsumerProgress { parked: 1, ..at(200, 190) };
        assert!(said(&parked, true).ends_with("100 %  95 events/s  1 key parked"));
        let both = ConsumerProgress { parked: 2, retrying: 3, ..at(100, 0) };
        assert!(said(&both, false).ends_with("  waiting, 2 keys parked, 3 keys retrying"));
    }

    #[test]
    fn tasks_have_no_positions_and_names_are_in_one_column() {
        let tasks = ConsumerProgress { has_tasks: true, name: "mail".to_owned(), ..at(0, 3) };
        assert_eq!(said(&tasks, true), "mail    3 tasks done");
        let dead = ConsumerProgress { parked: 1, ..tasks };
        assert_eq!(said(&dead, true), "mail    3 tasks done  1 key parked");
        let progress = Progress { consumers: vec![dead, at(200, 1)], ..Progress::default() };
        let shown = lines(&progress, Duration::from_secs(1));
        assert!(
            shown[0].starts_with("mail    3") && shown[1].starts_with("orders  █"),
            "{shown:?}"
        );
        assert_eq!(over(&shown), "\x1b[2A\x1b[J");
    }
}
