//! Many want the same few seats at the same moment; see the README.
//!
//!     cargo run --release -p anabranch --example dcb_reservation
//!     cargo run --release -p anabranch --example dcb_reservation -- postgres://…

#![allow(
    clippy::print_stdout,
    unreachable_pub,
    dead_code,
    reason = "an example shows what it does"
)]

mod seats;
#[path = "../start.rs"]
mod start;

use anabranch::Retry;
use anabranch::prelude::*;
use anabranch::workpool::{Dcb, DcbFailure, DcbOutcome, DcbRejected};
use seats::{MOST, ROYAL_BOX, Reserve, Reserved, Seats, seat};
use start::{Outcome, arguments, as_partition, connect, report, url_or};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

const SEATS: usize = 24;
const CUSTOMERS: usize = 5;
/// How many seats each customer asks for, all at once.
const WISHES: usize = 12;
/// How long to wait for what was queued.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    report(run().await)
}

async fn run() -> Outcome<()> {
    let (arguments, partition) = arguments()?;
    let url = arguments.into_iter().next();
    let url = url.unwrap_or_else(|| url_or("sqlite:dcb_reservation.db"));
    let log = connect(&url).await?;
    // A show of its own for each run.
    let show = format!("show-{}", log.head().await?);
    let handler = Seats::default();
    let retry = Retry::default()
        .attempts(12)
        .first(Duration::from_millis(10))
        .longest(Duration::from_millis(100));
    let dcb = Arc::new(Dcb::new(&log, handler.clone()).retry(retry));

    // What meets a conflict is a task from then on, and this runs it: here, and in as many processes
    // as there are.
    let (stop, stopped) = oneshot::channel::<()>();
    let set = ReplicaSet::new("box-office").outside_pool(dcb.pool()).lanes(4);
    let (set, tasks_log) = (as_partition(set, partition), log.clone());
    let office =
        tokio::spawn(async move { set.run_until(&tasks_log, async { drop(stopped.await) }).await });

    let count = CUSTOMERS * WISHES;
    println!(
        "{CUSTOMERS} customers ask for {WISHES} of {SEATS} seats each, {count} requests at once"
    );
    let requests: Vec<_> = (0..count)
        .map(|number| {
            let (dcb, show) = (Arc::clone(&dcb), show.clone());
            tokio::spawn(async move { ask(&dcb, &show, number).await })
        })
        .collect();
    let mut answers = BTreeMap::<String, usize>::new();
    let mut queued = 0;
    for request in requests {
        let answer = request.await??;
        queued += usize::from(answer.was_queued);
        *answers.entry(answer.text).or_default() += 1;
    }
    let tries = handler.tries.load(Ordering::Relaxed);
    println!("{queued} met a conflict, or waited behind one that had: they became tasks");
    println!("{tries} decisions were tried for {count} answers:");
    for (text, count) in &answers {
        println!("  {count:>3} × {text}");
    }

    let wish = Reserve { show: show.clone(), customer: "the king".to_owned() };
    let refused = dcb.decide(&seat(&show, ROYAL_BOX)?, wish, PATIENCE).await;
    match refused {
        Err(DcbFailure::Rejected(rejected @ DcbRejected::MaxRetriesExceeded { .. })) => {
            println!(
                "\nthe royal box is polished whenever somebody decides about it:\n  {rejected}"
            );
        }
        other => return Err(format!("the royal box: {other:?}").into()),
    }

    let _ = stop.send(());
    office.await??;
    prove(&log, &show, answers.get("reserved").copied().unwrap_or(0)).await
}

/// What became of a request.
struct Answer {
    was_queued: bool,
    text: String,
}

/// The seats that a customer asks for overlap with those of the others.
async fn ask(dcb: &Dcb<Seats>, show: &str, number: usize) -> Outcome<Answer> {
    let (customer, wish) = (number % CUSTOMERS, number / CUSTOMERS);
    let seat = seat(show, &format!("{}", (customer * 4 + wish * 5) % SEATS))?;
    let command = Reserve { show: show.to_owned(), customer: format!("cust-{customer}") };
    let mut outcome = dcb.with_dcb_retry(&seat, command).await;
    let was_queued = matches!(outcome, Ok(DcbOutcome::Queued(_)));
    if let Ok(DcbOutcome::Queued(task)) = outcome {
        outcome = dcb.wait(task, PATIENCE).await;
    }
    let text = match outcome {
        Ok(DcbOutcome::Decided(_)) => "reserved".to_owned(),
        Ok(DcbOutcome::Queued(task)) => return Err(format!("task {task} is not done").into()),
        Err(DcbFailure::Rejected(rejected)) => rejected.to_string(),
        Err(error) => return Err(error.into()),
    };
    Ok(Answer { was_queued, text })
}

/// Counts what the log says.
async fn prove(log: &Log, show: &str, answered: usize) -> Outcome<()> {
    let (mut seats, mut customers) = (BTreeMap::new(), BTreeMap::new());
    let mut sold = 0;
    for event in log.read(Query::types(["SeatReserved"])).collect().await? {
        let Reserved { seat, customer } = event.data()?;
        if seat.starts_with(&format!("{show}.")) {
            *seats.entry(seat).or_insert(0) += 1;
            *customers.entry(customer).or_insert(0) += 1;
            sold += 1;
        }
    }
    let twice = seats.values().filter(|count| **count > 1).count();
    let most = customers.values().max().copied().unwrap_or(0);
    if twice > 0 || most > MOST || sold != answered {
        return Err(format!(
            "{twice} seats were sold twice, somebody has {most}, {sold} sold and {answered} answered"
        )
        .into());
    }
    println!(
        "\nverified from the log: {sold} seats sold, each once, as answered; of {} customers nobody \
         has more than {most}",
        customers.len()
    );
    Ok(())
}
