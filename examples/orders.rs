//! What the examples share: orders in a log, a projection that sums them up, and what it prints.

#[path = "start.rs"]
mod start;

use anabranch::backend::database::{End, Statement};
use anabranch::prelude::*;
use anabranch::running::Progress;
use anabranch::{FixedPartition, HandlerError};
use serde::{Deserialize, Serialize};
pub use start::{Outcome, as_partition, report};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// How many lines an order has.
const LINES: u64 = 4;
/// How many orders an append holds.
const AT_ONCE: u64 = 200;

/// `[URL] [append [ORDERS]] [--partition INDEX/TOTAL | --partition-key INDEX --total-partitions TOTAL] [--verbose]
/// [--catch-up]`
pub struct Arguments {
    url: String,
    pub partition: Option<FixedPartition>,
    pub append: Option<u64>,
    pub verbose: bool,
    pub catch_up: bool,
}

impl Arguments {
    pub fn parse(default_url: &str) -> Outcome<Self> {
        let url = start::url_or(default_url);
        let (arguments, partition) = start::arguments()?;
        let mut parsed = Self { url, partition, append: None, verbose: false, catch_up: false };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--partition" => {
                    parsed.partition = Some(arguments.next().unwrap_or_default().parse()?);
                }
                "append" => parsed.append = Some(1000),
                "--verbose" => parsed.verbose = true,
                "--catch-up" => parsed.catch_up = true,
                url if url.contains(':') => parsed.url = url.to_owned(),
                number => match (number.parse(), parsed.append) {
                    (Ok(orders), Some(_)) => parsed.append = Some(orders),
                    _ => {
                        return Err(format!(
                            "`{argument}` is none of URL, append [ORDERS], --partition I/N, \
                             --partition-key I --total-partitions N, --verbose, --catch-up"
                        )
                        .into());
                    }
                },
            }
        }
        Ok(parsed)
    }

    pub async fn connect(&self) -> Outcome<Log> {
        start::connect(&self.url).await
    }
}

/// The data of a `LineAdded`.
#[derive(Serialize, Deserialize)]
struct Line {
    cents: u64,
}

/// Appends new orders, the lines of one between those of the others.
pub async fn append(log: &Log, orders: u64) -> Outcome<()> {
    // No two runs share an order, since the log has grown by more events than orders.
    let first = log.head().await?.get() + 1;
    let last = first + orders - 1;
    let mut euros = 0.0;
    for from in (first..=last).step_by(AT_ONCE as usize) {
        for number in 1..=LINES {
            let mut append = Append::new();
            for order in from..=last.min(from + AT_ONCE - 1) {
                let cents = 100 * number + order % 100;
                euros += cents as f64 / 100.0;
                let stream = StreamId::new("Order", format!("ord-{order}"))?;
                append =
                    append.to(&stream, Expected::Any, [NewEvent::new("LineAdded", Line { cents })]);
            }
            log.append_all(append).await?;
        }
    }
    log.flush().await;
    println!("appended {orders} orders, {} events, {euros:.2} euros", orders * LINES);
    Ok(())
}

/// The sum of each order: one source for both databases.
pub struct OrderTotals(pub Arc<Seen>);

impl Projection for OrderTotals {
    fn name(&self) -> &str {
        "order_totals"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let line: Line = event.data()?;
        tx.execute(
            "INSERT INTO order_totals (id, events, cents) VALUES ($1, 1, $2) \
             ON CONFLICT (id) DO UPDATE SET events = order_totals.events + 1, \
             cents = order_totals.cents + excluded.cents",
            params![event.stream_id(), line.cents],
        )
        .await?;
        self.0.note(event);
        Ok(())
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let table = match tx.dialect().name() {
            // STRICT, or SQLite takes text for a number.
            "sqlite" => {
                "CREATE TABLE IF NOT EXISTS order_totals (id TEXT PRIMARY KEY, \
                 events INTEGER NOT NULL, cents INTEGER NOT NULL) STRICT"
            }
            _ => {
                "CREATE TABLE IF NOT EXISTS order_totals (id TEXT PRIMARY KEY, \
                 events BIGINT NOT NULL, cents BIGINT NOT NULL)"
            }
        };
        tx.execute(table, vec![]).await
    }

    async fn reset(&self, to: Position, tx: &mut Tx) -> HandlerResult {
        if to > Position::START {
            return Err(HandlerError::new("sums begin with the first event: use --from-start"));
        }
        tx.execute("DELETE FROM order_totals", vec![]).await
    }
}

/// Says which events go where: `slot % parts` is the partition of a process, or the lane of a pool that has every
/// slot; one that has each `step`th of them deals those out. The slot of an order is stored with its events.
pub struct Seen {
    word: &'static str,
    step: u16,
    verbose: bool,
    counts: Vec<AtomicU64>,
}

impl Seen {
    pub fn new(word: &'static str, parts: u16, step: u16, verbose: bool) -> Self {
        let counts = (0..parts).map(|_| AtomicU64::new(0)).collect();
        Self { word, step, verbose, counts }
    }

    /// Prints each event, or one of a hundred. A handler whose transaction fails is called again, so
    /// what it prints is no proof; its table is.
    fn note(&self, event: &Event) {
        let part = usize::from(event.slots().entity.get() / self.step) % self.counts.len();
        let count = self.counts[part].fetch_add(1, Ordering::Relaxed) + 1;
        if self.verbose || count.is_multiple_of(100) {
            let (stream, version, position) = (event.stream(), event.version(), event.position());
            let part = self.name(part);
            println!("{part}: event {count} is {stream}@{version} at position {position}");
        }
    }

    fn name(&self, part: usize) -> String {
        match self.counts.len() {
            1 => "everything".to_owned(),
            total => format!("{} {part} of {total}", self.word),
        }
    }

    /// Prints how many events went where, if that is not all the same place.
    fn print(&self) {
        let counts: Vec<_> = self.counts.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        if counts.iter().filter(|count| **count > 0).count() > 1 {
            for (part, count) in counts.iter().enumerate() {
                println!("{}: {count} events", self.name(part));
            }
        }
    }
}

/// Says when a process gets slots, waits for another one, or has caught up.
pub fn watch(name: String) -> impl Fn(&Progress) + Send + Sync {
    let said = Mutex::new((String::new(), 0));
    move |progress| {
        let (Some(now), Ok(mut said)) = (progress.consumers.first(), said.lock()) else { return };
        let holds = match now.waiting_for.as_slice() {
            [] => format!("holds {} of {} slots", now.slots, now.wanted),
            _ if now.slots == 0 => "standby: another process holds these slots".to_owned(),
            _ => format!("holds {} of {} slots, waits for the others", now.slots, now.wanted),
        };
        if said.0 != holds && (now.slots > 0 || !now.waiting_for.is_empty()) {
            println!("{name}: {holds}");
            said.0 = holds;
        }
        if said.1 != now.handled && now.position >= now.head {
            println!("{name}: caught up at position {}, {} events here", now.head, now.handled);
            said.1 = now.handled;
        }
    }
}

/// What this process did, and what the table holds in all.
pub async fn summary(log: &Log, name: &str, seen: &Seen, progress: &Progress) -> Outcome<()> {
    seen.print();
    let done = progress.consumers.first().ok_or("nothing ran")?;
    println!("{name}: stopped; handled {} events here", done.handled);
    let sum = "SELECT count(*) AS orders, CAST(coalesce(sum(events), 0) AS BIGINT) AS events, \
               CAST(coalesce(sum(cents), 0) AS BIGINT) AS cents FROM order_totals";
    let mut session = log.store().database().begin();
    let answers = session.run(vec![Statement::query(sum, vec![])], End::Commit).await?;
    let row = answers.first().and_then(|answer| answer.rows.first()).ok_or("there is no sum")?;
    let (orders, events): (i64, i64) = (row.get("orders")?, row.get("events")?);
    let euros = row.get::<i64>("cents")? as f64 / 100.0;
    println!("order_totals holds {orders} orders, {events} events, {euros:.2} euros");
    Ok(())
}
