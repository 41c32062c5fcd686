//! A progress bar for terminals.

use crate::replica_set::Progress;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const WIDTH: u64 = 24;

/// Shows on a terminal how far each consumer is, for [`ReplicaSet::observe`](crate::ReplicaSet::observe).
/// Where standard error is no terminal it shows nothing.
///
/// ```
/// # use anabranch_runtime::{Projection, ReplicaSet, RunError, progress_bar};
/// # async fn f<P: Projection>(log: anabranch_store::Log, orders: P) -> Result<(), RunError> {
/// ReplicaSet::new("rebuild").projection(orders).observe(progress_bar()).catch_up(&log).await?;
/// # Ok(()) }
/// ```
pub fn progress_bar() -> impl Fn(&Progress) + Send + Sync {
    let is_terminal = std::io::stderr().is_terminal();
    let state = Mutex::new(Bar { started: Instant::now(), lines: 0 });
    move |progress| {
        if is_terminal && let Ok(mut bar) = state.lock() {
            let (text, elapsed) = (String::new(), bar.started.elapsed());
            let text = progress.consumers.iter().fold(text, |text, consumer| {
                let (position, head) = (consumer.position, consumer.head);
                text + &line(&consumer.name, position, head, consumer.handled, elapsed) + "\n"
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

fn line(name: &str, position: u64, head: u64, handled: u64, elapsed: Duration) -> String {
    let share = if head == 0 { 1.0 } else { (position as f64 / head as f64).min(1.0) };
    let full = (share * WIDTH as f64) as u64;
    let bar: String = (0..WIDTH).map(|cell| if cell < full { '█' } else { '░' }).collect();
    let rate = handled as f64 / elapsed.as_secs_f64().max(0.001);
    let behind = head.saturating_sub(position);
    let left = match behind {
        0 => "caught up".to_owned(),
        behind if rate >= 1.0 => format!("about {:.0} s left", behind as f64 / rate),
        _ => "waiting".to_owned(),
    };
    format!("\r\x1b[2K{name}  {bar} {:>3.0} %  {rate:.0} events/s  {left}", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_and_how_long() {
        let line =
            |position, handled| line("orders", position, 200, handled, Duration::from_secs(2));
        let half = "█".repeat(12) + &"░".repeat(12);
        assert!(line(100, 100).contains(&format!("{half}  50 %  50 events/s  about 2 s left")));
        assert!(line(200, 200).contains("100 %  100 events/s  caught up"));
        assert!(line(0, 0).ends_with("  0 %  0 events/s  waiting"));
    }
}
