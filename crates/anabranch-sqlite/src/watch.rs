//! Notices what other processes append.

use crate::connection::Place;
use anabranch_core::{Happening, Notice};
use anabranch_store::Emitter;
use anabranch_store::database::Topic;
use rusqlite::Connection;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// How often to look. A look reads one number in shared memory, and nobody looks while nobody
/// listens.
const INTERVAL: Duration = Duration::from_millis(10);

type Sender = watch::Sender<u64>;

/// Who is told of what is signalled, topic by topic.
pub(crate) type Signals = Arc<[Sender; Topic::ALL.len()]>;

/// Starts a thread that changes `wake` whenever another connection has committed, and `signals`
/// whenever a count that `query` reads has grown. It ends when the store is gone. If the file
/// cannot be opened again, readers still poll.
pub(crate) fn start(
    place: Place,
    query: String,
    wake: &Arc<Sender>,
    signals: &Signals,
    events: Emitter,
) -> std::io::Result<()> {
    let (wake, signals) = (Arc::downgrade(wake), Arc::downgrade(signals));
    let look = move || {
        if let Err(error) = run(&place, &query, &wake, &signals) {
            let (error, at) = (Some(error.to_string()), format!("at={}", place.at));
            events.emit(Happening::notice(Notice::FileNotWatched, error, Some(at)));
        }
    };
    std::thread::Builder::new().name("anabranch-sqlite-watch".to_owned()).spawn(look)?;
    Ok(())
}

fn run(
    place: &Place,
    query: &str,
    wake: &Weak<Sender>,
    signals: &Weak<[Sender; Topic::ALL.len()]>,
) -> Result<(), Box<dyn std::error::Error>> {
    let connection = place.open()?;
    let mut counts = [-1_i64; Topic::ALL.len()];
    let mut version = connection.prepare("PRAGMA data_version")?;
    let mut last: i64 = -1;
    loop {
        std::thread::sleep(INTERVAL);
        let (Some(wake), Some(signals)) = (wake.upgrade(), signals.upgrade()) else {
            return Ok(());
        };
        let listeners: usize = signals.iter().map(Sender::receiver_count).sum();
        if wake.receiver_count() + listeners == 0 {
            continue;
        }
        // A look that fails, since the file is busy, is made up for by the next one.
        let now = version.query_row((), |row| row.get(0)).unwrap_or(last);
        if now == last {
            continue;
        }
        wake.send_modify(|count| *count += 1);
        let Ok(found) = look(&connection, query) else { continue };
        last = now;
        for ((signal, count), found) in signals.iter().zip(&mut counts).zip(found) {
            if *count != found {
                *count = found;
                signal.send_modify(|count| *count += 1);
            }
        }
    }
}

/// The counts of signals, topic by topic.
fn look(connection: &Connection, query: &str) -> rusqlite::Result<[i64; Topic::ALL.len()]> {
    connection.prepare_cached(query)?.query_row((), |row| {
        let mut counts = [0; Topic::ALL.len()];
        for (place, count) in counts.iter_mut().enumerate() {
            // An older log has no such counter.
            *count = row.get::<_, Option<i64>>(place)?.unwrap_or_default();
        }
        Ok(counts)
    })
}
