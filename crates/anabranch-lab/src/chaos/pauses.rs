//! How long events waited because of what was done, from the ledger. All times are the database's.
//!
//! - **takeover**: from the fault to the first event of each key that its victim owned (had handled
//!   last) which another worker handled. It includes the wait for that event.
//! - **hand-over pause**: at a join or a leave, for each key that changed hands: how long the first
//!   event of its new owner waited since it came, or since the old one's last if that was later.
//! - **unmoved gap**: at a join or a leave, for each key that did not change hands: the longest that
//!   an event waited. The same in quiet times is what it is to be compared with; there a wait ends with
//!   the quiet, since the rest of it is the next fault's.
//!
//! - **resume**: from the moment that a server which was restarted is back to the first event of each
//!   key that was handled.
//!
//! Only faults that came alone count here: which those are follows from the seed, not from how long
//! anything took.

use super::faults::Fault;
use super::ledger::Entry;
use crate::percentiles::Percentiles;
use std::collections::BTreeMap;

/// Something that was done, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incident {
    pub(crate) fault: Fault,
    /// To whom, if to one.
    pub(crate) worker: Option<i64>,
    pub(crate) begun_us: i64,
    /// When it was done: at once, or, for a restart, when the server was back.
    pub(crate) at_us: i64,
    /// When the next thing was done, or could have been.
    pub(crate) until_us: i64,
    /// Whether nothing else was done meanwhile.
    pub(crate) alone: bool,
}

/// Times of the database, from and to.
pub(crate) type Window = (i64, i64);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pauses {
    pub(crate) takeover: Percentiles,
    pub(crate) takeover_hang: Percentiles,
    pub(crate) handover: Percentiles,
    pub(crate) unmoved_gap: Percentiles,
    pub(crate) unmoved_gap_quiet: Percentiles,
    pub(crate) resume: Percentiles,
}

/// Measures all of it.
pub(crate) fn measure(entries: &[Entry], incidents: &[Incident], quiet: &[Window]) -> Pauses {
    let mut keys: BTreeMap<i64, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        keys.entry(entry.key).or_default().push(*entry);
    }
    let (mut takeover, mut hang) = (Vec::new(), Vec::new());
    let (mut handover, mut gap, mut quiet_gap) = (Vec::new(), Vec::new(), Vec::new());
    let mut resume = Vec::new();
    for entries in keys.values() {
        for incident in incidents.iter().filter(|incident| incident.alone) {
            let window = (incident.at_us, incident.until_us);
            match (incident.fault, incident.worker) {
                (Fault::Kill, Some(victim)) => {
                    // However late: there is nobody else who could have done it.
                    takeover.extend(taken_over(entries, victim, (incident.at_us, i64::MAX)));
                }
                (Fault::Stop, Some(victim)) => hang.extend(taken_over(entries, victim, window)),
                (Fault::Join | Fault::Leave, _) => {
                    handover.extend(hand_overs(entries, window));
                    gap.extend(longest_wait(entries, window, i64::MAX));
                }
                (Fault::Restart, _) => {
                    let next = entries.get(first_in(entries, window));
                    resume.extend(next.map(|next| milliseconds(next.handled_us - window.0)));
                }
                _ => {}
            }
        }
        quiet_gap
            .extend(quiet.iter().filter_map(|window| longest_wait(entries, *window, window.1)));
    }
    Pauses {
        takeover: Percentiles::of(takeover),
        takeover_hang: Percentiles::of(hang),
        handover: Percentiles::of(handover),
        unmoved_gap: Percentiles::of(gap),
        unmoved_gap_quiet: Percentiles::of(quiet_gap),
        resume: Percentiles::of(resume),
    }
}

fn milliseconds(micros: i64) -> f64 {
    micros.max(0) as f64 / 1000.0
}

/// The place of the first entry of a key in a window.
fn first_in(entries: &[Entry], (from, _): Window) -> usize {
    entries.iter().take_while(|entry| entry.handled_us < from).count()
}

/// How long it took until another worker handled an event of this key, if it was the victim's.
fn taken_over(entries: &[Entry], victim: i64, (from, to): Window) -> Option<f64> {
    let first = first_in(entries, (from, to));
    let owner = entries.get(first.checked_sub(1)?)?;
    if owner.worker != victim {
        return None;
    }
    let heir = entries[first..].iter().find(|entry| entry.worker != victim)?;
    (heir.handled_us < to).then(|| milliseconds(heir.handled_us - from))
}

/// How long the first event waited each time that this key changed hands in a window.
pub(crate) fn hand_overs(entries: &[Entry], (from, to): Window) -> impl Iterator<Item = f64> {
    let pairs = entries.windows(2).map(|pair| (pair[0], pair[1]));
    pairs
        .filter(move |(old, new)| old.worker != new.worker && (from..to).contains(&new.handled_us))
        .map(|(old, new)| milliseconds(new.handled_us - new.recorded_us.max(old.handled_us)))
}

/// The longest that an event of this key that came in a window waited, but not after `end`; if it did
/// not change hands.
fn longest_wait(entries: &[Entry], (from, to): Window, end: i64) -> Option<f64> {
    let first = first_in(entries, (from, to));
    let owner = entries.get(first.checked_sub(1)?)?.worker;
    let inside = || entries[first..].iter().take_while(|entry| entry.recorded_us < to);
    if inside().any(|entry| entry.worker != owner) {
        return None;
    }
    let came = inside().filter(|entry| entry.recorded_us >= from);
    came.map(|entry| milliseconds(entry.handled_us.min(end) - entry.recorded_us)).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of one key, in milliseconds.
    fn entry(worker: i64, recorded: i64, handled: i64) -> Entry {
        let (recorded_us, handled_us) = (recorded * 1000, handled * 1000);
        Entry { position: recorded, key: 1, version: recorded, worker, recorded_us, handled_us }
    }

    fn incident(fault: Fault, worker: i64, at: i64, until: i64) -> Incident {
        let (at_us, until_us) = (at * 1000, until * 1000);
        Incident { fault, worker: Some(worker), begun_us: at_us, at_us, until_us, alone: true }
    }

    #[test]
    fn a_takeover_is_from_the_fault_to_the_heirs_first_event() {
        let entries = [entry(1, 10, 12), entry(1, 20, 22), entry(2, 30, 130), entry(2, 40, 131)];
        let max = |incident| measure(&entries, &[incident], &[]).takeover.max;
        assert_eq!(max(incident(Fault::Kill, 1, 25, 500)), Some(105.0));
        assert_eq!(max(incident(Fault::Kill, 2, 25, 500)), None, "it did not own the key");
        assert_eq!(max(Incident { alone: false, ..incident(Fault::Kill, 1, 25, 500) }), None);
        assert_eq!(max(incident(Fault::Kill, 1, 25, 60)), Some(105.0), "late ones count");
        let hang = |until| {
            measure(&entries, &[incident(Fault::Stop, 1, 25, until)], &[]).takeover_hang.max
        };
        assert_eq!((hang(500), hang(60)), (Some(105.0), None));
        let restart = incident(Fault::Restart, 0, 25, 500);
        assert_eq!(measure(&entries, &[restart], &[]).resume.max, Some(105.0));
    }

    #[test]
    fn a_key_that_moves_has_a_pause_and_one_that_stays_a_gap() {
        let moved = [entry(1, 10, 12), entry(1, 20, 50), entry(2, 30, 90), entry(2, 95, 99)];
        let stayed = [entry(1, 10, 12), entry(1, 20, 22), entry(1, 30, 65), entry(1, 200, 900)];
        let stayed = stayed.map(|entry| Entry { key: 2, ..entry });
        let both = [&moved[..], &stayed[..]].concat();
        let pauses = measure(&both, &[incident(Fault::Join, 2, 15, 100)], &[(150_000, 950_000)]);
        assert_eq!((pauses.handover.samples, pauses.handover.max), (1, Some(40.0)));
        assert_eq!((pauses.unmoved_gap.samples, pauses.unmoved_gap.max), (1, Some(35.0)));
        assert_eq!(pauses.unmoved_gap_quiet.max, Some(700.0));
        let quiet = measure(&both, &[], &[(150_000, 300_000)]).unmoved_gap_quiet;
        assert_eq!(quiet.max, Some(100.0), "what follows is not quiet");
    }
}
