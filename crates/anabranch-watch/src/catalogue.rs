//! Every metric: its name, unit, kind and help.

/// A metric that is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name, as Prometheus knows it.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its unit, which its name ends with; empty if it has none.
    pub unit: &'static str,
    /// What it means.
    pub help: &'static str,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// It only grows, from the start of the process on.
    Counter,
    /// It is what it is now.
    Gauge,
    /// A histogram of durations.
    Seconds,
    /// A histogram of counts.
    Sizes,
    /// Always 1; its labels say something.
    Info,
}

impl Kind {
    /// The upper bounds of a histogram's buckets; nothing for others.
    #[must_use]
    pub fn buckets(self) -> &'static [f64] {
        match self {
            Self::Seconds => &[
                0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
                10.0, 30.0, 60.0,
            ],
            Self::Sizes => &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 5000.0],
            Self::Counter | Self::Gauge | Self::Info => &[],
        }
    }
}

const fn metric(name: &'static str, kind: Kind, unit: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, unit, help }
}

/// All of them, in the order in which they are written.
pub const METRICS: &[Metric] = &[
    metric(
        "anabranch_lag_events",
        Kind::Gauge,
        "events",
        "Events that are not handled, an upper bound by position, parked ones included.",
    ),
    metric(
        "anabranch_lag_ready_events",
        Kind::Gauge,
        "events",
        "The same without what is parked: what more workers could do.",
    ),
    metric(
        "anabranch_lag_seconds",
        Kind::Gauge,
        "seconds",
        "Age of the oldest event that no cursor has passed: without those that are set aside.",
    ),
    metric(
        "anabranch_events_handled_total",
        Kind::Counter,
        "",
        "Events whose effects this process has committed.",
    ),
    metric(
        "anabranch_handler_seconds",
        Kind::Seconds,
        "seconds",
        "Time in the handler for a batch.",
    ),
    metric(
        "anabranch_commit_seconds",
        Kind::Seconds,
        "seconds",
        "Time from the end of the handler until the commit of its batch is answered.",
    ),
    metric("anabranch_batch_events", Kind::Sizes, "events", "Events in one transaction of a lane."),
    metric(
        "anabranch_event_failures_total",
        Kind::Counter,
        "",
        "Times that an event has failed in its handler.",
    ),
    metric(
        "anabranch_parked_keys",
        Kind::Gauge,
        "",
        "Keys that have failed and wait for somebody.",
    ),
    metric(
        "anabranch_parked_events",
        Kind::Gauge,
        "events",
        "Events that wait behind parked keys.",
    ),
    metric("anabranch_workers", Kind::Gauge, "", "Living workers of the replica set."),
    metric(
        "anabranch_slots_owned",
        Kind::Gauge,
        "",
        "Slots that are owned by living workers, of those that are looked at.",
    ),
    metric("anabranch_slots_idle", Kind::Gauge, "", "Slots of which nothing advances, by reason."),
    metric(
        "anabranch_generation",
        Kind::Gauge,
        "",
        "Number of the current assignment of slots to workers.",
    ),
    metric(
        "anabranch_generation_changes_total",
        Kind::Counter,
        "",
        "Assignments that this process has made, by reason.",
    ),
    metric(
        "anabranch_handover_pause_seconds",
        Kind::Seconds,
        "seconds",
        "For how long nobody handled slots that were handed over, at most.",
    ),
    metric(
        "anabranch_takeovers_total",
        Kind::Counter,
        "",
        "Dead workers that this process has found.",
    ),
    metric(
        "anabranch_fenced_total",
        Kind::Counter,
        "",
        "Times that others had taken over what a worker or a lane of this process had.",
    ),
    metric(
        "anabranch_heartbeat_failures_total",
        Kind::Counter,
        "",
        "Signs of life that could not be stored.",
    ),
    metric(
        "anabranch_coordination_timeouts_total",
        Kind::Counter,
        "",
        "Times that slots were on their way for longer than the coordination time-out.",
    ),
    metric(
        "anabranch_outage_seconds_total",
        Kind::Counter,
        "seconds",
        "Seconds in which something was away or failed everywhere, summed over those who waited.",
    ),
    metric(
        "anabranch_wakes_missed_total",
        Kind::Counter,
        "",
        "Times that a poll has found events of which no wake had told.",
    ),
    metric(
        "anabranch_read_stalled_seconds",
        Kind::Gauge,
        "seconds",
        "For how long events are there that must not be handled yet, since an append before them is in flight.",
    ),
    metric(
        "anabranch_append_seconds",
        Kind::Seconds,
        "seconds",
        "Time that the caller of an append has waited, if it was stored.",
    ),
    metric(
        "anabranch_append_batch_events",
        Kind::Sizes,
        "events",
        "Events in appends that were sent together.",
    ),
    metric(
        "anabranch_append_conflicts_total",
        Kind::Counter,
        "",
        "Appends that were refused, since a stream or a query did not stand where expected.",
    ),
    metric("anabranch_tasks", Kind::Gauge, "", "Tasks by pool and state."),
    metric("anabranch_task_seconds", Kind::Seconds, "seconds", "Time in the function of a task."),
    metric(
        "anabranch_tasks_done_total",
        Kind::Counter,
        "",
        "Tasks whose end this process has committed.",
    ),
    metric("anabranch_task_failures_total", Kind::Counter, "", "Times that a task has failed."),
    metric(
        "anabranch_deliveries_total",
        Kind::Counter,
        "",
        "Attempts to deliver a message of a webhook, by outcome.",
    ),
    metric("anabranch_batch_rows_total", Kind::Counter, "", "Rows of batch jobs, by outcome."),
    metric(
        "anabranch_sessions",
        Kind::Gauge,
        "",
        "Sessions that this process has open at its databases, by what they are for.",
    ),
    metric(
        "anabranch_observer_dropped_total",
        Kind::Counter,
        "",
        "Events of the engine that did not fit into the queue of an observer.",
    ),
    metric(
        "anabranch_database_up",
        Kind::Gauge,
        "",
        "1 if what is read from the database could be read for this answer.",
    ),
    metric("anabranch_build_info", Kind::Info, "", "Version of the library."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_their_units_and_kinds() {
        for Metric { name, kind, unit, help } in METRICS {
            let base = name.strip_suffix("_total").unwrap_or(name);
            assert!(name.starts_with("anabranch_"), "{name}");
            assert!(unit.is_empty() || base.ends_with(unit), "{name} has the unit {unit}");
            assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}");
            assert!(help.ends_with('.') && !help.contains(['\n', '\\', '"']), "{name}");
            assert_eq!(METRICS.iter().filter(|other| other.name == *name).count(), 1, "{name}");
        }
    }
}
