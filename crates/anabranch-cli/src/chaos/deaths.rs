//! Who was taken for dead, by what the generations say, and to whom nothing was done.

use super::faults::Fault;
use super::pauses::Incident;
use anabranch::Generation;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Deaths {
    /// How many were taken for dead.
    died: u64,
    /// How many of them had not been killed, stopped or cut off.
    unharmed: u64,
}

impl Deaths {
    /// Counts those whom the generations call dead; `process` is the process of a worker's number.
    pub(crate) fn count(
        generations: &[Generation],
        incidents: &[Incident],
        process: impl Fn(i64) -> Option<u32>,
    ) -> Self {
        let does_harm = |fault| matches!(fault, Fault::Kill | Fault::Stop | Fault::Cut);
        let harmed: HashSet<u32> = incidents
            .iter()
            .filter(|incident| does_harm(incident.fault))
            .filter_map(|incident| process(incident.worker?))
            .collect();
        // A restart of the server cuts everybody off.
        let all = incidents.iter().any(|incident| incident.fault == Fault::Restart);
        let members = generations.iter().flat_map(|generation| &generation.members);
        let places: HashMap<&str, &str> =
            members.map(|member| (member.worker.as_str(), member.place.as_str())).collect();
        let mut deaths = Self::default();
        for name in generations.iter().flat_map(|generation| dead(&generation.reason)) {
            deaths.died += 1;
            // By its place, or by its id where nobody knows that any more.
            let place = places.get(name).copied().unwrap_or(name);
            let process = place.rsplit(':').next().and_then(|process| process.parse().ok());
            let is_harmed = process.is_some_and(|process: u32| harmed.contains(&process));
            deaths.unharmed += u64::from(!all && !is_harmed);
        }
        deaths
    }
}

/// The places or ids of those who are dead, where that is why there is a new generation.
fn dead(reason: &str) -> impl Iterator<Item = &str> {
    let dead = reason.split("; ").filter_map(|part| part.strip_suffix(" died"));
    let names = dead.flat_map(|names| names.split(", "));
    names.map(|name| name.trim_start_matches("worker ").trim_start_matches("at "))
}

impl fmt::Display for Deaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} taken for dead, {} of them unharmed", self.died, self.unharmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(reason: &str) -> Generation {
        let (replica_set, reason) = ("s".to_owned(), reason.to_owned());
        Generation { replica_set, generation: 1, at_us: 0, reason, members: Vec::new() }
    }

    fn hit(fault: Fault, worker: i64) -> Incident {
        Incident { fault, worker: Some(worker), at_us: 0, until_us: 0, alone: true }
    }

    #[test]
    fn who_died_though_nothing_was_done_to_him_is_told_from_the_others() {
        let generations = [
            generation("worker at a:101 joined; worker at a:102, worker at a:103 died"),
            generation("worker at a:104 left"),
            generation("uneven load"),
        ];
        let process = |number| Some(100 + number as u32);
        let count = |incidents: &[Incident]| Deaths::count(&generations, incidents, process);
        let harmed = [hit(Fault::Kill, 2), hit(Fault::Stop, 3)];
        assert_eq!(count(&harmed), Deaths { died: 2, unharmed: 0 });
        let other = [hit(Fault::Cut, 2), hit(Fault::Leave, 3)];
        assert_eq!(count(&other), Deaths { died: 2, unharmed: 1 });
        assert_eq!(count(&[hit(Fault::Restart, 1)]), Deaths { died: 2, unharmed: 0 });
    }
}
