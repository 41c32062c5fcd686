//! States kept in memory, as many as there is room for.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The values that were used last. The older half goes when there are too many: nearly the rule of
/// "least recently used", with two maps and no list.
pub(crate) struct Cache<V> {
    half: usize,
    halves: Mutex<Halves<V>>,
}

struct Halves<V> {
    young: HashMap<String, V>,
    old: HashMap<String, V>,
}

impl<V: Clone> Cache<V> {
    /// Room for so many values, at least two.
    pub(crate) fn of(values: usize) -> Self {
        let halves = Halves { young: HashMap::new(), old: HashMap::new() };
        Self { half: (values / 2).max(1), halves: Mutex::new(halves) }
    }

    pub(crate) fn get(&self, key: &str) -> Option<V> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = halves.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = halves.old.remove_entry(key)?;
        halves.keep(self.half, key, value.clone());
        Some(value)
    }

    /// Takes a value out.
    pub(crate) fn take(&self, key: &str) -> Option<V> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let old = halves.old.remove(key);
        halves.young.remove(key).or(old)
    }

    /// Keeps a value, unless `is_newer` says that the one that is there is to stay.
    pub(crate) fn keep(&self, key: &str, value: V, is_newer: impl Fn(&V, &V) -> bool) {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = halves.young.get(key).or_else(|| halves.old.get(key));
        if kept.is_none_or(|kept| is_newer(&value, kept)) {
            halves.old.remove(key);
            halves.keep(self.half, key.to_owned(), value);
        }
    }
}

impl<V> Halves<V> {
    fn keep(&mut self, half: usize, key: String, value: V) {
        if self.young.len() >= half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let cache = Cache::of(8);
        for number in 0..1_000 {
            cache.keep(&number.to_string(), number, |a, b| a > b);
            assert_eq!(cache.get("0"), Some(0), "it is used all the time");
        }
        let halves = cache.halves.lock().unwrap();
        assert!(halves.young.len() + halves.old.len() <= 8);
        drop(halves);
        assert_eq!((cache.get("999"), cache.get("1")), (Some(999), None));
    }

    #[test]
    fn an_older_value_never_takes_the_place_of_a_newer() {
        let cache = Cache::of(2);
        cache.keep("a", 5, |a, b| a > b);
        cache.keep("a", 4, |a, b| a > b);
        assert_eq!(cache.get("a"), Some(5));
        cache.keep("b", 1, |a, b| a > b);
        cache.keep("a", 4, |a, b| a > b);
        assert_eq!(cache.get("a"), Some(5), "in the older half, too");
    }
}
