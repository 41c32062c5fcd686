//! Notices what other processes append.

use crate::connection::Place;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// How often to look. A look reads one number in shared memory, and nobody looks while nobody
/// listens.
const INTERVAL: Duration = Duration::from_millis(10);

/// Starts a thread that changes `wake` whenever another connection has committed. It ends when the
/// store is gone. If the file cannot be opened again, readers still poll.
pub(crate) fn start(place: Place, wake: &Arc<watch::Sender<u64>>) -> std::io::Result<()> {
    let wake = Arc::downgrade(wake);
    let look = move || {
        if let Err(error) = run(&place, &wake) {
            tracing::warn!(at = place.at, %error, "cannot watch the file; readers will poll");
        }
    };
    std::thread::Builder::new().name("anabranch-sqlite-watch".to_owned()).spawn(look)?;
    Ok(())
}

fn run(place: &Place, wake: &Weak<watch::Sender<u64>>) -> Result<(), Box<dyn std::error::Error>> {
    let connection = place.open()?;
    let mut version = connection.prepare("PRAGMA data_version")?;
    let mut last: i64 = -1;
    loop {
        std::thread::sleep(INTERVAL);
        let Some(wake) = wake.upgrade() else {
            return Ok(());
        };
        if wake.receiver_count() == 0 {
            continue;
        }
        // A look that fails, since the file is busy, is made up for by the next one.
        let now = version.query_row((), |row| row.get(0)).unwrap_or(last);
        if now != last {
            last = now;
            wake.send_modify(|count| *count += 1);
        }
    }
}
