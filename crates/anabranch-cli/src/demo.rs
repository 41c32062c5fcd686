//! A small but honest demo: append from many tasks, follow, and verify from the log itself.

use anabranch::prelude::*;
use anyhow::{Context, ensure};
use clap::Args;
use serde::Serialize;
use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Instant;

const TASKS: u64 = 32;
const ORDERS_EACH: u64 = 125;
const SEATS: u64 = 50;

/// See it work: many tasks append orders and fight for seats while a subscriber follows
///
/// Everything happens in a SQLite file of its own, which is removed at the end. Then the log is
/// read back and checked: nothing lost, nothing twice, everything in order, every seat sold once.
#[derive(Args)]
pub(crate) struct Demo {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What the demo found, read from the log and from what the subscriber received.
#[derive(Debug, Default, Serialize)]
struct Outcome {
    events: u64,
    handled: u64,
    lost: u64,
    doubled: u64,
    out_of_order: u64,
    seats: u64,
    seats_oversold: u64,
    conflicts: u64,
    seconds: f64,
    events_per_second: f64,
}

impl Outcome {
    fn is_good(&self) -> bool {
        self.lost + self.doubled + self.out_of_order + self.seats_oversold == 0
    }
}

impl Demo {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
        let url = format!("sqlite:{}", directory.path().join("demo.db").display());
        let log = anabranch::connect(&url).await?;
        if !self.json {
            eprintln!(
                "{TASKS} tasks append orders and fight for {SEATS} seats, one subscriber follows …"
            );
        }
        let outcome = play(&log).await?;
        if self.json {
            println!("{}", serde_json::to_string(&outcome)?);
        } else {
            print!("{}", report(&outcome));
        }
        Ok(if outcome.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What one task appended.
#[derive(Default)]
struct Appended {
    orders: Vec<StreamId>,
    seats: Vec<u64>,
    conflicts: u64,
}

async fn play(log: &Log) -> anyhow::Result<Outcome> {
    let expected = TASKS * ORDERS_EACH * 3 + SEATS;
    let subscriber = tokio::spawn(follow(log.clone(), expected));
    let started = Instant::now();
    let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(work(log.clone(), task))).collect();
    let mut appended = Vec::new();
    for task in tasks {
        appended.push(task.await??);
    }
    let seconds = started.elapsed().as_secs_f64();
    let received = subscriber.await??;
    verify(log, &appended, &received, seconds).await
}

/// Places, pays and ships orders, and tries to reserve every seat.
async fn work(log: Log, task: u64) -> anyhow::Result<Appended> {
    let mut appended = Appended::default();
    for number in 0..ORDERS_EACH {
        let order = StreamId::new("Order", format!("{task}-{number}"))?;
        let customer = format!("cust-{}", (task * ORDERS_EACH + number) % 97);
        let event = |name, version: u64| {
            let data =
                serde_json::json!({ "order": number, "step": version, "total": 40 + number });
            NewEvent::new(name, data).with_customer(customer.clone())
        };
        log.append(&order, Expected::NoStream, [event("OrderPlaced", 1)]).await?;
        log.append(&order, Expected::Exact(1), [event("OrderPaid", 2), event("OrderShipped", 3)])
            .await?;
        appended.orders.push(order);
    }
    for seat in 0..SEATS {
        let tag = format!("seat:{seat}");
        let reserved = NewEvent::new("SeatReserved", seat).tag(tag.clone());
        let append = Append::new()
            .to(&StreamId::new("Guest", task.to_string())?, Expected::Any, [reserved])
            .unless(Query::types(["SeatReserved"]).tagged([tag]), Position::START);
        match log.append_all(append).await {
            Ok(_) => appended.seats.push(seat),
            Err(error) if error.is_conflict() => appended.conflicts += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(appended)
}

/// Receives as many events as there must be.
async fn follow(log: Log, expected: u64) -> anyhow::Result<Vec<Event>> {
    let mut events = log.subscribe(Query::all(), Position::START);
    let mut received = Vec::new();
    while (received.len() as u64) < expected {
        received.push(events.next().await.context("the subscription ended")??);
    }
    Ok(received)
}

async fn verify(
    log: &Log,
    appended: &[Appended],
    received: &[Event],
    seconds: f64,
) -> anyhow::Result<Outcome> {
    let stored = log.read(Query::all()).collect().await?;
    let events = stored.len() as u64;
    let mut outcome = Outcome {
        events,
        handled: received.len() as u64,
        conflicts: appended.iter().map(|task| task.conflicts).sum(),
        seats: appended.iter().map(|task| task.seats.len() as u64).sum(),
        seconds,
        events_per_second: events as f64 / seconds,
        ..Outcome::default()
    };
    let mut seen = HashMap::new();
    received.iter().for_each(|event| *seen.entry(event.id()).or_insert(0u64) += 1);
    outcome.doubled = seen.values().map(|times| times - 1).sum();
    outcome.lost = stored.iter().filter(|event| !seen.contains_key(&event.id())).count() as u64;
    let backwards = |pair: &[Event]| pair[0].position() >= pair[1].position();
    outcome.out_of_order = received.windows(2).filter(|pair| backwards(pair)).count() as u64;

    for order in appended.iter().flat_map(|task| &task.orders) {
        let events = log.read_stream(order).collect().await?;
        let steps: Vec<(u64, &str)> =
            events.iter().map(|event| (event.version(), event.event_type())).collect();
        outcome.lost += 3u64.saturating_sub(steps.len() as u64);
        if steps != [(1, "OrderPlaced"), (2, "OrderPaid"), (3, "OrderShipped")] {
            outcome.out_of_order += 1;
        }
    }
    for seat in 0..SEATS {
        let sold = log.read(Query::tags([format!("seat:{seat}")])).collect().await?.len() as u64;
        outcome.seats_oversold += sold.saturating_sub(1);
        ensure!(sold > 0, "nobody got seat {seat}");
    }
    Ok(outcome)
}

fn report(outcome: &Outcome) -> String {
    let Outcome { events, handled, lost, doubled, out_of_order, .. } = outcome;
    let Outcome { seats, seats_oversold, conflicts, seconds, events_per_second, .. } = outcome;
    let verdict = if outcome.is_good() { "all good" } else { "BROKEN" };
    format!(
        "appended      {events} events in {seconds:.2} s, {events_per_second:.0}/s, each durable\n\
         followed      {handled}\n\
         lost          {lost}\n\
         doubled       {doubled}\n\
         out of order  {out_of_order}\n\
         seats sold    {seats} ({seats_oversold} twice), {conflicts} times somebody was faster\n\
         verified from the log: {verdict}\n"
    )
}
