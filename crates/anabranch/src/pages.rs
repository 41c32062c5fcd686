//! The programs of README.md and of the pages in `docs/`, compiled and run by the tests like those of this crate.
//!
//! `tests/pages.rs` checks that each page with programs is here, so a new one is not forgotten.

macro_rules! pages {
    ($($name:ident: $path:literal),* $(,)?) => {
        $(#[doc = include_str!(concat!("../../../", $path))] mod $name {})*
    };
}

pages! {
    readme: "README.md",
    audit: "docs/audit.md",
    batch_records: "docs/batch-records.md",
    changing_a_projection: "docs/changing-a-projection.md",
    effects_outside: "docs/effects-outside.md",
    errors: "docs/errors.md",
    events_from_events: "docs/events-from-events.md",
    events_of_the_engine: "docs/events-of-the-engine.md",
    how_scaling_works: "docs/how-scaling-works.md",
    metrics: "docs/metrics.md",
    moving_from_hand_run_partitions: "docs/moving-from-hand-run-partitions.md",
    operations: "docs/operations.md",
    rollups: "docs/rollups.md",
    testing: "docs/testing.md",
    traces: "docs/traces.md",
    two_servers: "docs/two-servers.md",
    values: "docs/values.md",
    when_a_handler_fails: "docs/when-a-handler-fails.md",
    work_pools: "docs/work-pools.md",
    workflows: "docs/workflows.md",
    your_own_connections: "docs/your-own-connections.md",
}
