//! Whether it is the handler that fails, or single events: counted over all lanes of a consumer in this process.
//!
//! An outage must not depend on how many lanes share the load: ten lanes see a tenth of it each. Nor must keys that
//! fail for reasons of their own look like one: if something has worked since a key failed, that key is to blame
//! until it works again. And what the log refuses to append says that handler and database work: it does not
//! count at all. A handler that says itself that it cannot run is believed at once.

use crate::handler::HandlerError;
use anabranch_core::Again;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// If so many keys fail and nothing works in between, the handler is broken and not the keys: parking them
/// all would only hide it.
const MANY: usize = 100;
/// So many are enough if one of them would be given up, or nothing has worked for [`LONG`].
pub(crate) const FEW: usize = 10;
const LONG: Duration = Duration::from_secs(10);
/// So many keys that are to blame themselves are remembered.
const REMEMBERED: usize = 100_000;

/// Keys that have failed since something worked.
#[derive(Debug)]
pub(crate) struct Streak {
    failing: Mutex<Failing>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Failing {
    /// Their hashes.
    keys: HashSet<u64>,
    /// Those that had failed when something else worked, and have not worked since.
    to_blame: HashSet<u64>,
    since: Option<Instant>,
    /// So many are too many.
    limit: usize,
}

impl Default for Streak {
    fn default() -> Self {
        let (keys, to_blame) = (HashSet::new(), HashSet::new());
        let failing = Failing { keys, to_blame, since: None, limit: MANY };
        Self { failing: Mutex::new(failing), hasher: RandomState::new() }
    }
}

impl Streak {
    /// A key has failed, and would be given up or not. Says whether the handler is to blame.
    pub(crate) fn fails(&self, key: &str, is_given_up: bool, error: &HandlerError) -> bool {
        if error.is_overload() {
            return self.is_not_to_blame(key);
        }
        let counts = || !error.is_answer() && self.counts(key, is_given_up, error.again());
        error.is_unable() || counts()
    }

    /// Whether an answer that is meant for all keys counts as that: not from a key that has got it before and gets it
    /// again while others work.
    fn is_not_to_blame(&self, key: &str) -> bool {
        let Ok(mut failing) = self.failing.lock() else { return true };
        let key = self.hasher.hash_one(key);
        failing.keys.insert(key);
        !failing.to_blame.contains(&key)
    }

    fn counts(&self, key: &str, is_given_up: bool, again: Again) -> bool {
        // One that says when it is to be tried again, or never, says itself that it is to blame; if all of them
        // fail for good, somebody should look all the same.
        let is_given_up = is_given_up && again != Again::Never;
        let failing = self.failing.lock().ok().filter(|_| !matches!(again, Again::After(_)));
        let Some(mut failing) = failing else { return false };
        let key = self.hasher.hash_one(key);
        if failing.to_blame.contains(&key) {
            return false;
        }
        failing.keys.insert(key);
        let lasts = failing.since.get_or_insert_with(Instant::now).elapsed();
        let count = failing.keys.len();
        count >= failing.limit || (count >= FEW && (is_given_up || lasts >= LONG))
    }

    /// These keys have worked.
    pub(crate) fn works<K: AsRef<str>>(&self, keys: impl Iterator<Item = K>) {
        let Ok(mut failing) = self.failing.lock() else { return };
        let failing = &mut *failing;
        if failing.to_blame.len() + failing.keys.len() > REMEMBERED {
            failing.to_blame.clear();
        }
        failing.to_blame.extend(failing.keys.drain());
        if !failing.to_blame.is_empty() {
            for key in keys {
                failing.to_blame.remove(&self.hasher.hash_one(key.as_ref()));
            }
        }
        (failing.since, failing.limit) = (None, MANY);
    }

    /// The handler is called again: so many keys that fail before something works are too many.
    pub(crate) fn begin(&self, limit: usize) {
        if let Ok(mut failing) = self.failing.lock() {
            failing.keys.clear();
            (failing.since, failing.limit) = (None, limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::AppendError;

    fn fail(streak: &Streak, keys: std::ops::Range<usize>, is_given_up: bool) -> Vec<bool> {
        keys.map(|key| streak.counts(&key.to_string(), is_given_up, Again::AsSet)).collect()
    }

    #[test]
    fn a_hundred_keys_or_ten_that_would_be_given_up() {
        let streak = Streak::default();
        assert!(!fail(&streak, 0..99, false).contains(&true));
        assert!(!streak.counts("98", false, Again::AsSet), "it is one of them");
        assert!(streak.counts("99", false, Again::AsSet));
        streak.works(["x"].iter());
        assert_eq!(fail(&streak, 100..110, true), [vec![false; 9], vec![true]].concat());
        streak.works(["x"].iter());
        assert!(!fail(&streak, 200..209, true).contains(&true));
    }

    #[test]
    fn a_key_that_had_failed_when_something_worked_is_to_blame_until_it_works() {
        let streak = Streak::default();
        assert!(!fail(&streak, 0..9, true).contains(&true));
        streak.works(["x"].iter());
        assert!(!fail(&streak, 0..9, true).contains(&true));
        assert!(!fail(&streak, 20..29, true).contains(&true), "those nine do not count");
        assert!(streak.counts("29", true, Again::AsSet), "ten others do");
        streak.works(["3"].iter());
        assert!(!fail(&streak, 40..49, true).contains(&true));
        assert!(!streak.counts("4", true, Again::AsSet));
        assert!(streak.counts("3", true, Again::AsSet), "it has worked meanwhile");
    }

    #[test]
    fn errors_that_say_when_or_never_are_words_about_the_event() {
        let streak = Streak::default();
        for key in 0..1_000 {
            assert!(!streak.counts(&key.to_string(), true, Again::After(LONG)));
        }
        for key in 0..99 {
            assert!(!streak.counts(&key.to_string(), true, Again::Never));
        }
        assert!(streak.counts("99", true, Again::Never), "a hundred in a row are too many");
    }

    #[test]
    fn what_the_log_has_refused_does_not_count() {
        let streak = Streak::default();
        let conflict = AppendError::ConditionFailed {
            query: anabranch_core::Query::all(),
            after: anabranch_core::Position::START,
            position: anabranch_core::Position::new(1),
        };
        let (refused, other) = (HandlerError::from(conflict), HandlerError::new("away"));
        for key in 0..1_000 {
            assert!(!streak.fails(&key.to_string(), true, &refused));
        }
        for key in 0..9 {
            assert!(!streak.fails(&key.to_string(), true, &other));
        }
        assert!(streak.fails("9", true, &other));
    }

    #[test]
    fn a_handler_that_cannot_run_is_to_blame_at_once() {
        let streak = Streak::default();
        assert!(streak.fails("a", false, &HandlerError::unable("no python3")));
        assert!(!streak.fails("b", true, &HandlerError::new("no card")), "it is no other key");
        streak.works(["x"].iter());
        assert!(streak.fails("b", false, &HandlerError::unable("no python3")), "b is not to blame");
    }

    #[test]
    fn an_overload_is_for_all_unless_others_work_meanwhile() {
        let (streak, overload) = (Streak::default(), HandlerError::overload(None, "429"));
        assert!(streak.fails("a", false, &overload));
        assert!(streak.fails("a", false, &overload), "nothing has worked meanwhile");
        streak.works(["x"].iter());
        assert!(!streak.fails("a", false, &overload), "it is about this key");
        assert!(streak.fails("b", false, &overload));
        streak.works(["a"].iter());
        assert!(streak.fails("a", false, &overload), "it has worked since");
    }

    #[test]
    fn after_an_outage_fewer_are_enough_until_something_works() {
        let streak = Streak::default();
        streak.begin(1);
        assert!(streak.counts("a", false, Again::AsSet));
        streak.works(["x"].iter());
        assert!(!streak.counts("b", false, Again::AsSet));
    }
}
