//! A projection in several processes, one fixed partition each; see the README.
//!
//!     cargo run --release -p anabranch --example partitioned_projection -- append
//!     PARTITION_KEY=0 TOTAL_PARTITIONS=4 \
//!         cargo run --release -p anabranch --example partitioned_projection

#![allow(clippy::print_stdout, unreachable_pub, reason = "an example shows what it does")]

#[path = "../orders.rs"]
mod orders;

use anabranch::running::progress_bar;
use anabranch::{FixedPartition, ReplicaSet};
use orders::{Arguments, OrderTotals, Outcome, Seen};
use std::process::ExitCode;
use std::sync::Arc;

#[tokio::main]
async fn main() -> ExitCode {
    orders::report(run().await)
}

async fn run() -> Outcome<()> {
    let arguments = Arguments::parse("sqlite:partitioned_projection.db")?;
    let log = arguments.connect().await?;
    if let Some(orders) = arguments.append {
        return orders::append(&log, orders).await;
    }

    // By flags, or PARTITION_KEY of TOTAL_PARTITIONS. A replica set looks for those itself: here they are printed.
    let partition = arguments.partition;
    let name = partition.map_or_else(|| "everything".to_owned(), |fixed| fixed.to_string());
    println!("{name}: started with process {}", std::process::id());

    let parts = partition.map_or(1, FixedPartition::total);
    let seen = Arc::new(Seen::new("partition", parts, 1, arguments.verbose));
    let set = ReplicaSet::new("orders")
        .projection(OrderTotals(Arc::clone(&seen)))
        .on_progress(orders::watch(name.clone()));
    let set = orders::as_partition(set, partition);
    let progress = match arguments.catch_up {
        true => set.on_progress(progress_bar()).catch_up(&log).await?,
        false => set.run(&log).await?, // until Ctrl-C
    };
    orders::summary(&log, &name, &seen, &progress).await
}
