//! A projection on four lanes of one process; see the README.
//!
//!     cargo run --release -p anabranch --example worker_pool -- append
//!     cargo run --release -p anabranch --example worker_pool

#![allow(clippy::print_stdout, unreachable_pub, reason = "an example shows what it does")]

#[path = "../orders.rs"]
mod orders;

use anabranch::running::progress_bar;
use anabranch::{FixedPartition, ReplicaSet};
use orders::{Arguments, OrderTotals, Outcome, Seen};
use std::process::ExitCode;
use std::sync::Arc;

const LANES: u16 = 4;

#[tokio::main]
async fn main() -> ExitCode {
    orders::report(run().await)
}

async fn run() -> Outcome<()> {
    let arguments = Arguments::parse("sqlite:worker_pool.db")?;
    let log = arguments.connect().await?;
    if let Some(orders) = arguments.append {
        return orders::append(&log, orders).await;
    }

    let name = "pool".to_owned();
    println!("{name}: started with {LANES} lanes in process {}", std::process::id());
    // Everything, unless one partition of several is asked for.
    let partition = arguments.partition.map_or_else(|| FixedPartition::new(0, 1), Ok)?;
    // A handler does not see its lane. Slots are dealt out to lanes one after the other, so for a
    // process that has them all the lane is `slot % LANES`.
    let seen = Arc::new(Seen::new("lane", LANES, partition.total(), arguments.verbose));
    let set = ReplicaSet::new("order-pool")
        .projection(OrderTotals(Arc::clone(&seen)))
        .lanes(LANES.into())
        .on_progress(orders::watch(name.clone()));
    let set = orders::as_partition(set, Some(partition));
    let progress = match arguments.catch_up {
        true => set.on_progress(progress_bar()).catch_up(&log).await?,
        false => set.run(&log).await?, // until Ctrl-C
    };
    orders::summary(&log, &name, &seen, &progress).await
}
