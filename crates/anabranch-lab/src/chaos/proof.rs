//! What the ledger says at the end, held against the log.

use super::ledger::Entry;
use std::collections::{HashMap, HashSet};

/// An event of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub(crate) position: i64,
    pub(crate) key: i64,
    pub(crate) version: i64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) events: u64,
    pub(crate) handled: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) out_of_order: u64,
    /// A few of each, by name.
    pub(crate) examples: Vec<String>,
}

/// How many violations of a kind are named.
const EXAMPLES: usize = 5;

/// Checks that every event of the log was handled once, and those of each key in order.
pub(crate) fn prove(log: &[Logged], entries: &[Entry]) -> Proof {
    let mut proof =
        Proof { events: log.len() as u64, handled: entries.len() as u64, ..Proof::default() };
    let known: HashSet<(i64, i64, i64)> =
        log.iter().map(|event| (event.position, event.key, event.version)).collect();
    let mut seen = HashSet::with_capacity(entries.len());
    let mut last: HashMap<i64, i64> = HashMap::new();
    let mut unknown = 0;
    for entry in entries {
        let Entry { position, key, version, worker, .. } = *entry;
        let what = format!("key {key}, version {version} (position {position}, worker {worker})");
        if !known.contains(&(position, key, version)) {
            unknown += 1;
            proof.name(unknown, || format!("not in the log: {what}"));
        }
        if !seen.insert(position) {
            proof.doubled += 1;
            proof.name(proof.doubled, || format!("doubled: {what}"));
        }
        let before = last.entry(key).or_insert(version);
        if version < *before {
            proof.out_of_order += 1;
            let before = *before;
            proof.name(proof.out_of_order, || format!("out of order: {what} after {before}"));
        }
        *before = version.max(*before);
    }
    for event in log.iter().filter(|event| !seen.contains(&event.position)) {
        proof.lost += 1;
        let Logged { position, key, version } = *event;
        let what = format!("lost: key {key}, version {version} (position {position})");
        proof.name(proof.lost, || what);
    }
    proof
}

impl Proof {
    fn name(&mut self, count: u64, what: impl FnOnce() -> String) {
        if count <= EXAMPLES as u64 {
            self.examples.push(what());
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.lost + self.doubled + self.out_of_order == 0 && self.examples.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(position: i64, key: i64, version: i64) -> Logged {
        Logged { position, key, version }
    }

    fn entry(position: i64, key: i64, version: i64) -> Entry {
        Entry { position, key, version, worker: 1, recorded_us: 0, handled_us: 0 }
    }

    #[test]
    fn each_violation_is_found_and_named() {
        let log = [logged(1, 7, 1), logged(2, 8, 1), logged(3, 7, 2), logged(4, 7, 3)];
        let good = [entry(1, 7, 1), entry(3, 7, 2), entry(2, 8, 1), entry(4, 7, 3)];
        assert!(prove(&log, &good).is_good(), "keys do not wait for each other");

        let doubled = [&good[..], &[entry(2, 8, 1)]].concat();
        let proof = prove(&log, &doubled);
        assert_eq!((proof.lost, proof.doubled, proof.out_of_order), (0, 1, 0));
        assert_eq!(proof.examples, ["doubled: key 8, version 1 (position 2, worker 1)"]);

        let proof = prove(&log, &good[..3]);
        assert_eq!((proof.lost, proof.doubled, proof.out_of_order), (1, 0, 0));
        assert_eq!(proof.examples, ["lost: key 7, version 3 (position 4)"]);

        let swapped = [good[0], good[3], good[2], good[1]];
        let proof = prove(&log, &swapped);
        assert_eq!((proof.lost, proof.doubled, proof.out_of_order), (0, 0, 1));
        assert!(!proof.is_good());

        let invented = [&good[..], &[entry(9, 9, 1)]].concat();
        assert!(!prove(&log, &invented).is_good(), "what is not in the log was not handled either");
    }
}
