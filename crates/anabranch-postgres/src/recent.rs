//! What was used of late, by its text: the rest is dropped.

use std::collections::HashMap;

/// Up to so many things, by their texts. When it is full, the one that was not used for the longest time goes.
pub(crate) struct Recent<T> {
    most: usize,
    uses: u64,
    kept: HashMap<String, (u64, T)>,
}

impl<T: Clone> Recent<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, uses: 0, kept: HashMap::new() }
    }

    pub(crate) fn get(&mut self, text: &str) -> Option<T> {
        self.uses += 1;
        let (used, found) = self.kept.get_mut(text)?;
        *used = self.uses;
        Some(found.clone())
    }

    pub(crate) fn insert(&mut self, text: &str, thing: T) {
        if self.kept.len() >= self.most && !self.kept.contains_key(text) {
            // A look at all of them is little beside the round trip that has made this one.
            let oldest = self.kept.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(text, _)| text.clone()) {
                self.kept.remove(&oldest);
            }
        }
        self.uses += 1;
        self.kept.insert(text.to_owned(), (self.uses, thing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut recent = Recent::new(3);
        for number in 0..10 {
            recent.insert(&number.to_string(), number);
            assert_eq!(recent.get("0"), Some(0), "it is used all the time");
        }
        assert_eq!(recent.kept.len(), 3);
        assert_eq!((recent.get("8"), recent.get("9"), recent.get("7")), (Some(8), Some(9), None));
        recent.insert("8", 80);
        assert_eq!((recent.get("8"), recent.get("9"), recent.kept.len()), (Some(80), Some(9), 3));
    }
}
