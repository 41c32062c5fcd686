//! Who was taken for dead, by what the generations say, and to whom nothing was done.

use super::faults::Fault;
use super::pauses::Incident;
use anabranch::operate::Generation;
use serde::Serialize;
use std::collections::HashMap;
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
    /// What was done to a process explains one death, and none before.
    pub(crate) fn count(
        generations: &[Generation],
        incidents: &[Incident],
        process: impl Fn(i64) -> Option<u32>,
    ) -> Self {
        let mut harm: HashMap<u32, Vec<i64>> = HashMap::new();
        for incident in incidents {
            let does_harm = matches!(incident.fault, Fault::Kill | Fault::Stop | Fault::Cut);
            if let Some(process) = incident.worker.filter(|_| does_harm).and_then(&process) {
                harm.entry(process).or_default().push(incident.at_us);
            }
        }
        // A restart of the server cuts everybody off.
        let restarts = incidents.iter().filter(|incident| incident.fault == Fault::Restart);
        let restart = restarts.map(|incident| incident.begun_us).min().unwrap_or(i64::MAX);
        let members = generations.iter().flat_map(|generation| &generation.members);
        let places: HashMap<&str, &str> =
            members.map(|member| (member.worker.as_str(), member.place.as_str())).collect();
        let mut deaths = Self::default();
        // The newest comes first.
        for generation in generations.iter().rev() {
            for name in dead(&generation.reason) {
                deaths.died += 1;
                // By its place, or by its id where nobody knows that any more.
                let place = places.get(name).copied().unwrap_or(name);
                let process = place.rsplit(':').next().and_then(|process| process.parse().ok());
                let done = process.and_then(|process: u32| harm.get_mut(&process));
                let explains = |at_us: &i64| *at_us <= generation.at.as_microsecond();
                let cause = done.and_then(|done| {
                    let place = done.iter().position(explains)?;
                    Some(done.remove(place))
                });
                let is_unharmed = cause.is_none() && generation.at.as_microsecond() < restart;
                deaths.unharmed += u64::from(is_unharmed);
            }
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
    use anabranch::Timestamp;

    fn generation(at_us: i64, reason: &str) -> Generation {
        let mut generation = Generation::default();
        generation.at = Timestamp::from_microsecond(at_us).unwrap();
        reason.clone_into(&mut generation.reason);
        generation
    }

    fn hit(fault: Fault, worker: i64, at_us: i64) -> Incident {
        let worker = Some(worker);
        Incident { fault, worker, begun_us: at_us, at_us, until_us: i64::MAX, alone: true }
    }

    #[test]
    fn who_died_though_nothing_was_done_to_him_is_told_from_the_others() {
        let generations = [
            generation(30, "worker at a:101 joined; worker at a:102, worker at a:103 died"),
            generation(20, "worker at a:104 left"),
            generation(10, "uneven load"),
        ];
        let count = |incidents: &[Incident]| {
            let Deaths { died, unharmed } =
                Deaths::count(&generations, incidents, |number| Some(100 + number as u32));
            assert_eq!(died, 2);
            unharmed
        };
        assert_eq!(count(&[hit(Fault::Kill, 2, 5), hit(Fault::Stop, 3, 25)]), 0);
        assert_eq!(count(&[hit(Fault::Cut, 2, 5), hit(Fault::Leave, 3, 5)]), 1);
        assert_eq!(count(&[hit(Fault::Kill, 2, 5), hit(Fault::Stop, 3, 35)]), 1, "too late");
        assert_eq!(count(&[hit(Fault::Restart, 1, 15)]), 0);
        let twice =
            [generation(40, "worker at a:102 died"), generation(30, "worker at a:102 died")];
        let once = [hit(Fault::Stop, 2, 5)];
        let deaths = Deaths::count(&twice, &once, |number| Some(100 + number as u32));
        assert_eq!(deaths, Deaths { died: 2, unharmed: 1 });
    }
}
