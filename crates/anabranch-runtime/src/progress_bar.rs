//! A progress bar for terminals.

use crate::replica_set::{ConsumerProgress, Progress};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
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
    let is_terminal = std::io::stderr().is_terminal();
    let state = Mutex::new(Bar { started: Instant::now(), lines: 0 });
    move |progress| {
        if is_terminal && let Ok(mut bar) = state.lock() {
            let (text, elapsed) = (String::new(), bar.started.elapsed());
            let text = progress.consumers.iter().fold(text, |text, consumer| {
                text + &line(consumer, progress.has_ended, elapsed) + "\n"
            });
            // Back to the first line, and over what was there.
            let back = if bar.lines > 0 { format!("\x1b[{}A", bar.lines) } else { String::new() };
            eprint!("{back}{text}");
            let _ = std::io::stderr().flush();
            bar.lines = progress.consumers.len();
        }
    }
}

struct Bar {
    started: Instant,
    lines: usize,
}

fn line(consumer: &ConsumerProgress, has_ended: bool, elapsed: Duration) -> String {
    let ConsumerProgress { name, position, head, handled, parked, retrying, .. } = consumer;
    let (position, head) = (position.get(), head.get());
    let share = if head == 0 { 1.0 } else { (position as f64 / head as f64).min(1.0) };
    let full = (share * WIDTH as f64) as u64;
    let bar: String = (0..WIDTH).map(|cell| if cell < full { '█' } else { '░' }).collect();
    let rate = *handled as f64 / elapsed.as_secs_f64().max(0.001);
    let behind = head.saturating_sub(position);
    let mut left = match behind {
        0 if parked + retrying > 0 => String::new(),
        0 => "caught up".to_owned(),
        behind if has_ended => format!("stopped {behind} behind"),
        behind if rate >= 1.0 => format!("about {:.0} s left", behind as f64 / rate),
        _ => "waiting".to_owned(),
    };
    if let Some(trouble) = &consumer.trouble {
        // One line, as long as a terminal is wide.
        let short: String = trouble.chars().take(TROUBLE).collect();
        left = format!("stopped: {short}");
    }
    for (keys, state) in [(parked, "parked"), (retrying, "retrying")] {
        if *keys > 0 {
            let comma = if left.is_empty() { "" } else { ", " };
            let keys = if *keys == 1 { "1 key".to_owned() } else { format!("{keys} keys") };
            left += &format!("{comma}{keys} {state}");
        }
    }
    format!("\r\x1b[2K{name}  {bar} {:>3.0} %  {rate:.0} events/s  {left}", share * 100.0)
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
        line(consumer, has_ended, Duration::from_secs(2))
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
}
