//! What the events of the engine add to the metrics.

use crate::families::{Families, Labels};
use anabranch_core::engine_event::{EngineEvent, Happening, Notice, OutageOf};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Of what is away, something is heard more often than that, and after a try that failed when the next one was due. What
/// is not was over meanwhile: another process may have said so.
const LONGEST_SILENCE: Duration = Duration::from_secs(180);
/// A handler that has failed may ask to be left alone for that long.
const LONGEST_PATIENCE: Duration = Duration::from_secs(3_600);

const CHANGES: &str = "anabranch_generation_changes_total";
const FENCED: &str = "anabranch_fenced_total";
const OUTAGES: &str = "anabranch_outage_seconds_total";
const STALLED: &str = "anabranch_read_stalled_seconds";
const ROWS: &str = "anabranch_batch_rows_total";
const DELIVERIES: &str = "anabranch_deliveries_total";

/// Counts of this process, and what lasts.
pub(crate) struct Counted {
    families: Families,
    /// What is away, for whom, and when that was heard last.
    outages: HashMap<Waiter, Heard>,
    /// Whose reading is stalled, since when.
    stalled: HashMap<Labels, Instant>,
}

impl Default for Counted {
    fn default() -> Self {
        let mut families = Families::default();
        for name in [
            "anabranch_append_seconds",
            "anabranch_append_batch_events",
            "anabranch_append_conflicts_total",
        ] {
            families.begin(name, Labels::new());
        }
        for of in OutageOf::ALL.into_iter().filter(|of| !is_of_set(*of)) {
            families.begin(OUTAGES, with(Labels::new(), "of", of.name()));
        }
        Self { families, outages: HashMap::new(), stalled: HashMap::new() }
    }
}

/// When an outage was heard of last.
struct Heard {
    at: Instant,
    /// How long it may be silent without being over.
    silence: Duration,
}

/// Somebody who waits in an outage.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Waiter {
    of: OutageOf,
    set: Option<Arc<str>>,
    consumer: Option<Arc<str>>,
    lane: Option<usize>,
}

/// The set of an event, and its consumer by the name of a label.
fn labels(event: &EngineEvent, of: &'static str) -> Labels {
    let consumer = event.consumer.iter().map(|consumer| (of, Arc::clone(consumer)));
    set(event).into_iter().chain(consumer).collect()
}

fn set(event: &EngineEvent) -> Labels {
    event.set.iter().map(|set| ("set", Arc::clone(set))).collect()
}

fn with(mut labels: Labels, name: &'static str, value: &str) -> Labels {
    labels.push((name, value.into()));
    labels
}

/// Whether it is a replica set that waits; else the sessions of the process, a subscription or a job.
fn is_of_set(of: OutageOf) -> bool {
    use OutageOf::{Batch, BatchWorker, Listener, Peers, Subscription};
    !matches!(of, Listener | Peers | Subscription | Batch | BatchWorker)
}

/// Names of metrics, each with the label that has its kinds, and those.
type ByKind = (&'static str, &'static str, &'static [&'static str]);

const OF_SET: [&str; 3] = [
    "anabranch_takeovers_total",
    "anabranch_heartbeat_failures_total",
    "anabranch_coordination_timeouts_total",
];
const OF_SET_BY_KIND: [ByKind; 2] = [
    (CHANGES, "reason", &["joined", "left", "died", "other"]),
    (FENCED, "what", &["worker", "lane"]),
];
const OF_EVENTS: [&str; 6] = [
    "anabranch_events_handled_total",
    "anabranch_handler_seconds",
    "anabranch_commit_seconds",
    "anabranch_batch_events",
    "anabranch_event_failures_total",
    "anabranch_wakes_missed_total",
];
const OF_TASKS: [&str; 3] =
    ["anabranch_tasks_done_total", "anabranch_task_failures_total", "anabranch_task_seconds"];
/// What comes of a delivery.
const OUTCOMES: [&str; 6] = ["delivered", "failed", "strained", "busy", "gone", "unreachable"];

impl Counted {
    /// Adds what has happened.
    pub(crate) fn count(&mut self, event: &EngineEvent) {
        let consumer = || labels(event, "consumer");
        match &event.what {
            Happening::RunBegan { .. } => self.set_begins(event),
            Happening::ConsumerStarted { kind, follows_log, .. } => {
                self.consumer_begins(event, kind, *follows_log);
            }
            Happening::BatchHandled { events, position: None, .. } => {
                self.rows(event, "done", *events);
            }
            Happening::BatchHandled { events, handler, commit, .. } => {
                self.families.add("anabranch_events_handled_total", consumer(), *events as f64);
                self.seconds("anabranch_handler_seconds", consumer(), *handler);
                self.seconds("anabranch_commit_seconds", consumer(), *commit);
                self.families.record("anabranch_batch_events", consumer(), *events as f64);
            }
            Happening::EventFailed { .. }
            | Happening::EventHeldUp { .. }
            | Happening::DeliveryFailed { .. } => {
                self.one("anabranch_event_failures_total", consumer());
            }
            Happening::GenerationMade { joined, left, died, .. } => {
                let reason = match () {
                    () if !died.is_empty() => "died",
                    () if !left.is_empty() => "left",
                    () if !joined.is_empty() => "joined",
                    () => "other",
                };
                self.one(CHANGES, with(set(event), "reason", reason));
            }
            Happening::SlotsClaimed { pause, .. } => {
                self.seconds("anabranch_handover_pause_seconds", consumer(), *pause);
            }
            Happening::WorkerDied { .. } => self.one("anabranch_takeovers_total", set(event)),
            Happening::WorkerFenced { .. } => self.one(FENCED, with(set(event), "what", "worker")),
            Happening::LaneFenced { .. } => self.one(FENCED, with(set(event), "what", "lane")),
            Happening::HeartbeatFailed { .. } => {
                self.one("anabranch_heartbeat_failures_total", set(event));
            }
            Happening::CoordinationTimedOut { .. } => {
                self.one("anabranch_coordination_timeouts_total", set(event));
            }
            Happening::WakeMissed { .. } => self.one("anabranch_wakes_missed_total", consumer()),
            Happening::ReadStalled { .. } => {
                self.stalled.entry(consumer()).or_insert_with(Instant::now);
            }
            Happening::ReadResumed { .. } => {
                self.stalled.remove(&consumer());
            }
            _ => self.count_more(event),
        }
    }

    /// Appends, tasks, deliveries, rows of jobs, and outages.
    fn count_more(&mut self, event: &EngineEvent) {
        let pool = || labels(event, "pool");
        match &event.what {
            Happening::Appended { took, .. } => {
                self.seconds("anabranch_append_seconds", Labels::new(), *took);
            }
            Happening::AppendConflicted { .. } => {
                self.one("anabranch_append_conflicts_total", Labels::new());
            }
            Happening::AppendsAnswered { events, .. } => {
                let (name, events) = ("anabranch_append_batch_events", *events as f64);
                self.families.record(name, Labels::new(), events);
            }
            Happening::TaskRan { took, .. } => {
                self.seconds("anabranch_task_seconds", pool(), *took);
            }
            Happening::TasksDone { tasks, .. } => {
                self.families.add("anabranch_tasks_done_total", pool(), *tasks as f64);
            }
            Happening::TaskFailed { .. } => self.one("anabranch_task_failures_total", pool()),
            Happening::DeliveryTried { outcome, .. } => {
                self.one(DELIVERIES, with(labels(event, "consumer"), "outcome", outcome));
            }
            Happening::Notice { kind: Notice::BatchBegan, .. } => {
                self.rows(event, "done", 0);
                self.rows(event, "retried", 0);
            }
            Happening::RowRetried { .. } => self.rows(event, "retried", 1),
            Happening::OutageBegan { of, .. } => {
                let patience = match of {
                    OutageOf::Handler => LONGEST_PATIENCE,
                    _ => Duration::ZERO,
                };
                self.waits(Waiter::of(*of, event), patience);
            }
            Happening::OutageLasts { of, .. } => {
                self.still_waits(Waiter::of(*of, event), Duration::ZERO);
            }
            Happening::OutageTryFailed { patience, .. } => {
                self.still_waits(Waiter::of(OutageOf::Handler, event), *patience);
            }
            Happening::OutageEnded { of, .. } => self.waited(&Waiter::of(*of, event)),
            // Another worker has ended it, or this one does not wait for it any more.
            Happening::Notice {
                kind: Notice::GoesOn | Notice::Broken | Notice::Removed | Notice::Replaced,
                ..
            } => self.waited(&Waiter::of(OutageOf::Handler, event)),
            // What kept it from joining is over, and nothing else says so.
            Happening::WorkerJoined { .. } => self.waited(&Waiter::of(OutageOf::Join, event)),
            Happening::RunEnded { .. } => self.set_ends(event),
            _ => {}
        }
    }

    fn set_begins(&mut self, event: &EngineEvent) {
        for name in OF_SET {
            self.families.begin(name, set(event));
        }
        for (name, label, kinds) in OF_SET_BY_KIND {
            for kind in kinds {
                self.families.begin(name, with(set(event), label, kind));
            }
        }
        for of in OutageOf::ALL.into_iter().filter(|of| is_of_set(*of)) {
            self.families.begin(OUTAGES, with(set(event), "of", of.name()));
        }
    }

    fn consumer_begins(&mut self, event: &EngineEvent, kind: &str, follows_log: bool) {
        let consumer = || labels(event, "consumer");
        self.families.begin("anabranch_handover_pause_seconds", consumer());
        if follows_log {
            OF_EVENTS.iter().for_each(|name| self.families.begin(name, consumer()));
            self.families.set(STALLED, consumer(), 0.0);
        }
        match kind {
            "pool" => {
                OF_TASKS.iter().for_each(|name| self.families.begin(name, labels(event, "pool")));
            }
            "webhook" => {
                for outcome in OUTCOMES {
                    self.families.begin(DELIVERIES, with(consumer(), "outcome", outcome));
                }
            }
            _ => {}
        }
    }

    /// Nobody of the set waits any more in this process.
    fn set_ends(&mut self, event: &EngineEvent) {
        let waiters = self.outages.keys().filter(|waiter| waiter.set == event.set);
        for waiter in waiters.cloned().collect::<Vec<_>>() {
            self.waited(&waiter);
        }
    }

    /// Somebody waits from now on, and tries again after this time.
    fn waits(&mut self, waiter: Waiter, patience: Duration) {
        let silence = patience + LONGEST_SILENCE;
        self.outages.insert(waiter, Heard { at: Instant::now(), silence });
    }

    /// Somebody waits since it was last heard, and goes on waiting.
    fn still_waits(&mut self, waiter: Waiter, patience: Duration) {
        self.waited(&waiter);
        self.waits(waiter, patience);
    }

    /// Somebody has waited until now. What was waited is added when it is heard, so that it never becomes less.
    fn waited(&mut self, waiter: &Waiter) {
        if let Some(Heard { at, silence }) = self.outages.remove(waiter)
            && at.elapsed() < silence
        {
            let set = waiter.set.iter().map(|set| ("set", Arc::clone(set))).collect();
            let labels = with(set, "of", waiter.of.name());
            self.families.add(OUTAGES, labels, at.elapsed().as_secs_f64());
        }
    }

    /// What there is now, with what lasts.
    pub(crate) fn now(&self) -> Families {
        let mut families = self.families.clone();
        for (labels, since) in &self.stalled {
            families.set(STALLED, labels.clone(), since.elapsed().as_secs_f64());
        }
        families
    }

    fn one(&mut self, name: &'static str, labels: Labels) {
        self.families.add(name, labels, 1.0);
    }

    fn rows(&mut self, event: &EngineEvent, outcome: &str, rows: usize) {
        let labels = with(labels(event, "consumer"), "outcome", outcome);
        self.families.add(ROWS, labels, rows as f64);
    }

    fn seconds(&mut self, name: &'static str, labels: Labels, time: Duration) {
        self.families.record(name, labels, time.as_secs_f64());
    }
}

impl Waiter {
    fn of(of: OutageOf, event: &EngineEvent) -> Self {
        let EngineEvent { set, consumer, lane, .. } = event;
        Self { of, set: set.clone(), consumer: consumer.clone(), lane: *lane }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::Format;

    /// What happens in a set of this name, to its consumer.
    fn count(counted: &mut Counted, set: &str, what: Happening) {
        let mut event = EngineEvent::new(jiff::Timestamp::UNIX_EPOCH, what);
        event.set = Some(set.into());
        event.consumer = Some("orders".into());
        std::thread::sleep(Duration::from_millis(2));
        counted.count(&event);
    }

    fn waited(counted: &Counted, set: &str, of: &str) -> f64 {
        let text = counted.now().text(Format::Prometheus);
        let line = format!("anabranch_outage_seconds_total{{set=\"{set}\",of=\"{of}\"}} ");
        let found = text.lines().find_map(|found| found.strip_prefix(&line));
        found.map_or(0.0, |number| number.parse().unwrap())
    }

    #[test]
    fn an_outage_is_counted_as_long_as_it_is_heard_of() {
        let mut counted = Counted::default();
        let began = || Happening::outage_began(OutageOf::Lane, "away".to_owned());
        let lasts = || Happening::outage_lasts(OutageOf::Lane, "away".to_owned());
        count(&mut counted, "a", began());
        count(&mut counted, "a", lasts());
        let first = waited(&counted, "a", "lane");
        assert!(first > 0.0);
        // Another process may have said that it is over: what is not heard of is not counted.
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(waited(&counted, "a", "lane"), first);
        count(&mut counted, "b", began());
        count(&mut counted, "a", Happening::outage_ended(OutageOf::Lane, None));
        let second = waited(&counted, "a", "lane");
        assert!(second > first);
        // What ends twice has ended once, and begins anew with nothing.
        count(&mut counted, "a", Happening::outage_ended(OutageOf::Lane, None));
        count(&mut counted, "a", began());
        assert_eq!(waited(&counted, "a", "lane"), second);
        // The end of a run ends what its set waits for, and nothing of others.
        count(&mut counted, "a", Happening::run_ended(None, None));
        let third = waited(&counted, "a", "lane");
        assert!(third > second && waited(&counted, "b", "lane") == 0.0);
        count(&mut counted, "a", lasts());
        assert_eq!(waited(&counted, "a", "lane"), third);
    }

    #[test]
    fn what_kept_a_worker_from_joining_is_over_when_it_has_joined() {
        let mut counted = Counted::default();
        let mut at = |what| {
            let mut event = EngineEvent::new(jiff::Timestamp::UNIX_EPOCH, what);
            event.set = Some("a".into());
            std::thread::sleep(Duration::from_millis(2));
            counted.count(&event);
            waited(&counted, "a", "join")
        };
        assert_eq!(at(Happening::outage_began(OutageOf::Join, "away".to_owned())), 0.0);
        let joined = at(Happening::worker_joined(None));
        assert!(joined > 0.0);
        assert_eq!(at(Happening::run_ended(None, None)), joined);
    }

    #[test]
    fn an_outage_of_a_handler_is_over_as_soon_as_it_goes_on() {
        let ends = [Notice::GoesOn, Notice::Broken, Notice::Removed, Notice::Replaced];
        for end in ends {
            let mut counted = Counted::default();
            let patience = Duration::from_secs(3_600);
            count(&mut counted, "a", Happening::outage_began(OutageOf::Handler, "away".to_owned()));
            count(&mut counted, "a", Happening::outage_try_failed("away".to_owned(), patience));
            let first = waited(&counted, "a", "handler");
            assert!(first > 0.0, "the time until the first try counts");
            count(&mut counted, "a", Happening::noticed(end, None));
            let all = waited(&counted, "a", "handler");
            assert!(all > first, "{end:?}");
            count(&mut counted, "a", Happening::run_ended(None, None));
            assert_eq!(waited(&counted, "a", "handler"), all, "{end:?}: it works again by then");
        }
    }

    #[test]
    fn reading_is_stalled_until_it_goes_on() {
        let mut counted = Counted::default();
        let stalled = |counted: &Counted| {
            let text = counted.now().text(Format::Prometheus);
            let line = "anabranch_read_stalled_seconds{set=\"a\",consumer=\"orders\"} ";
            text.lines().find_map(|found| found.strip_prefix(line)).unwrap().parse::<f64>().unwrap()
        };
        count(&mut counted, "a", Happening::consumer_started("projection", true));
        assert_eq!(stalled(&counted), 0.0);
        let position = anabranch_core::Position::START;
        count(&mut counted, "a", Happening::read_stalled(position));
        std::thread::sleep(Duration::from_millis(2));
        assert!(stalled(&counted) > 0.0);
        count(&mut counted, "a", Happening::read_resumed(Duration::ZERO));
        assert_eq!(stalled(&counted), 0.0);
    }
}
