//! Statements that come again and again.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::RwLock;

/// How many texts are kept for good, and how long each may be. A program that writes values into its statements would
/// fill the memory otherwise.
const MOST: usize = 1_000;
const MOST_BYTES: usize = 10_000;

static KEPT: RwLock<Option<HashSet<&'static str>>> = RwLock::new(None);

/// The text of a statement. What comes often is a constant: transactions look at those once.
pub(super) fn statement(text: &str) -> Cow<'static, str> {
    let owned = || Cow::Owned(text.to_owned());
    if text.len() > MOST_BYTES {
        return owned();
    }
    let found = |kept: &Option<HashSet<&'static str>>| kept.as_ref()?.get(text).copied();
    if let Ok(kept) = KEPT.read()
        && let Some(text) = found(&kept)
    {
        return Cow::Borrowed(text);
    }
    let Ok(mut kept) = KEPT.write() else { return owned() };
    if let Some(text) = found(&kept) {
        return Cow::Borrowed(text);
    }
    let kept = kept.get_or_insert_default();
    if kept.len() >= MOST {
        return owned();
    }
    let text: &'static str = Box::leak(text.into());
    kept.insert(text);
    Cow::Borrowed(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_texts_are_kept_and_no_more() {
        let is_kept = |text: &str| matches!(statement(text), Cow::Borrowed(_));
        assert!(is_kept("statement 1"));
        assert!(!is_kept(&"x".repeat(MOST_BYTES + 1)));
        for number in 0..MOST {
            statement(&format!("statement {number}"));
        }
        assert!(!is_kept("another one"));
        assert!(is_kept("statement 1"));
        assert_eq!(statement("another one"), "another one");
    }
}
