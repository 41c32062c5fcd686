//! What the tables say at the end: read from what the handlers wrote, not from counters in memory.

use crate::percentiles::Percentiles;
use anabranch::backend::database::Statement;
use anabranch::{Log, Row, params};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;

/// The consumer of which everything is proven.
pub(super) const CONSUMER: &str = "order_totals";

/// How many rows are read at once.
const PAGE: i64 = 50_000;

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Outcome {
    events: u64,
    handled: u64,
    lost: u64,
    doubled: u64,
    out_of_order: u64,
    seconds: f64,
    events_per_second: f64,
    /// How often a slot went from one process to another.
    handovers: usize,
    /// How long a slot with events to handle had nobody who handled them.
    handover_pause_ms: Percentiles,
}

impl Outcome {
    pub(super) fn is_good(&self) -> bool {
        self.lost + self.doubled + self.out_of_order == 0
    }

    pub(super) fn report(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "events        {:>9}", self.events);
        let _ = writeln!(text, "handled       {:>9}", self.handled);
        let _ = writeln!(text, "lost          {:>9}", self.lost);
        let _ = writeln!(text, "doubled       {:>9}", self.doubled);
        let _ = writeln!(text, "out of order  {:>9}", self.out_of_order);
        let (seconds, rate) = (self.seconds, self.events_per_second);
        let _ = writeln!(text, "time          {seconds:>9.1} s, {rate:.0} events/s");
        let _ = writeln!(
            text,
            "hand-overs    {:>9} of slots; pause {}",
            self.handovers, self.handover_pause_ms
        );
        let verdict = match self.is_good() {
            true => "verified from the tables: every event once and in order",
            false => "NOT GOOD: see above",
        };
        let _ = writeln!(text, "{verdict}");
        text
    }
}

/// How many events are handled; 0 before there is a table.
pub(super) async fn handled(log: &Log) -> anyhow::Result<u64> {
    let exists = "SELECT count(*) FROM sqlite_schema WHERE name = 'handled'";
    if number(log, exists).await? == 0 {
        return Ok(0);
    }
    number(log, "SELECT coalesce(max(number), 0) FROM handled").await
}

/// Reads the tables and checks them.
pub(super) async fn prove(log: &Log, seconds: f64) -> anyhow::Result<Outcome> {
    let events = number(log, "SELECT count(*) FROM anabranch_events").await?;
    let handled = number(log, "SELECT count(*) FROM handled").await?;
    let doubled = number(log, "SELECT count(*) - count(DISTINCT position) FROM handled").await?;
    let lost = "SELECT count(*) FROM anabranch_events AS e WHERE NOT EXISTS \
                (SELECT 1 FROM handled AS h WHERE h.position = e.position)";
    query(log, "CREATE INDEX IF NOT EXISTS handled_by_position ON handled (position)").await?;
    let lost = number(log, lost).await?;
    // `number` is the order in which the database took the rows.
    let out_of_order = "SELECT count(*) FROM (SELECT version, max(version) OVER \
                        (PARTITION BY id ORDER BY number \
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM handled) \
                        WHERE version < before";
    let out_of_order = number(log, out_of_order).await?;
    // The totals tell the same story, or one of the two tables is wrong.
    let totals = number(log, "SELECT coalesce(sum(events), 0) FROM order_totals").await?;
    anyhow::ensure!(totals == handled, "the totals count {totals} events, the rows {handled}");
    let pauses = pauses(log).await?;
    Ok(Outcome {
        events,
        handled,
        lost,
        doubled,
        out_of_order,
        seconds: round(seconds),
        events_per_second: (handled as f64 / seconds).round(),
        handovers: pauses.len(),
        handover_pause_ms: Percentiles::of(pauses),
    })
}

/// For each slot that changed hands: from the last event of the old process, or the arrival of the
/// next one if that was later, to the first event of the new one; in milliseconds.
async fn pauses(log: &Log) -> anyhow::Result<Vec<f64>> {
    let page = "SELECT number, slot, worker, recorded_us, handled_us FROM handled WHERE number > $1 \
                ORDER BY number LIMIT $2";
    let mut last: HashMap<i64, (String, i64)> = HashMap::new();
    let (mut pauses, mut after) = (Vec::new(), 0);
    loop {
        let page = Statement::query(page, params![after, PAGE]);
        let rows = log.database().rows(page).await?;
        let Some(end) = rows.last() else { return Ok(pauses) };
        after = end.get("number")?;
        for row in &rows {
            let (slot, worker): (i64, String) = (row.get("slot")?, row.get("worker")?);
            let (recorded_us, handled_us): (i64, i64) =
                (row.get("recorded_us")?, row.get("handled_us")?);
            if let Some((before, at)) = last.get(&slot)
                && *before != worker
            {
                pauses.push((handled_us - recorded_us.max(*at)).max(0) as f64 / 1000.0);
            }
            last.insert(slot, (worker, handled_us));
        }
    }
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

async fn number(log: &Log, sql: &'static str) -> anyhow::Result<u64> {
    let rows = query(log, sql).await?;
    Ok(rows.first().map(|row| row.get(0)).transpose()?.unwrap_or(0))
}

async fn query(log: &Log, sql: &'static str) -> anyhow::Result<Vec<Row>> {
    Ok(log.database().rows(Statement::query(sql, vec![])).await?)
}
