//! Rows that look unclaimed and cannot be claimed, pass after pass: their keys do not come back from the log as
//! they are in the source.

/// How many keys are kept of a pass.
const MOST: usize = 10;
/// After how many passes with the same key it is no accident. Who has lost a row to somebody else sees it
/// claimed the next time.
const PASSES: u32 = 3;

/// Keys that could not be claimed.
#[derive(Default)]
pub(crate) struct Stuck {
    now: Vec<String>,
    before: Vec<String>,
    passes: u32,
}

impl Stuck {
    /// A key was found unclaimed, and was not got.
    pub(crate) fn not_got(&mut self, key: &str) {
        if self.now.len() < MOST {
            self.now.push(key.to_owned());
        }
    }

    /// A pass has ended; says whether there were such keys.
    pub(crate) fn end_pass(&mut self) -> bool {
        let again = self.now.iter().any(|key| self.before.contains(key));
        self.passes = if again { self.passes + 1 } else { 0 };
        self.before = std::mem::take(&mut self.now);
        !self.before.is_empty()
    }

    /// What is wrong, once it is no accident.
    pub(crate) fn problem(&self) -> Option<String> {
        (self.passes >= PASSES).then(|| problem_of(&self.before))
    }
}

/// What is wrong with keys that do not come back.
pub(crate) fn problem_of(keys: &[String]) -> String {
    format!(
        "rows with these keys cannot be claimed, since the keys do not come back as they are stored: {}. Choose \
         another key, or cast it in a query",
        keys.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_lost_to_another_instance_is_no_problem_and_the_same_again_and_again_is() {
        let mut stuck = Stuck::default();
        for pass in 0..10 {
            stuck.not_got(&pass.to_string());
            assert!(stuck.end_pass() && stuck.problem().is_none());
        }
        for _ in 0..=PASSES {
            stuck.not_got("x");
            assert!(stuck.problem().is_none() && stuck.end_pass());
        }
        assert!(stuck.problem().is_some_and(|said| said.contains("stored: x.")));
        assert!(!stuck.end_pass() && stuck.problem().is_none());
    }
}
