//! The text of a statement, as callers have it.

use std::borrow::Cow;

/// What a statement may be written as: a constant, a `String`, or `&format!(…)`.
///
/// A constant is not copied, and known again by where it stands: one that comes with every event is checked and
/// prepared once. So a `&str` must be a constant; write `text.to_owned()` for one that is not.
///
/// ```
/// # use anabranch_store::database::Statement;
/// let table = "orders_2026";
/// Statement::query("SELECT count(*) FROM orders", vec![]);
/// Statement::query(&format!("SELECT count(*) FROM {table}"), vec![]);
/// ```
pub trait Sql: sealed::Sealed {
    /// The text.
    fn into_text(self) -> Cow<'static, str>;
}

impl Sql for &'static str {
    fn into_text(self) -> Cow<'static, str> {
        Cow::Borrowed(self)
    }
}

impl Sql for String {
    fn into_text(self) -> Cow<'static, str> {
        Cow::Owned(self)
    }
}

impl Sql for &String {
    fn into_text(self) -> Cow<'static, str> {
        Cow::Owned(self.clone())
    }
}

impl Sql for Cow<'static, str> {
    fn into_text(self) -> Self {
        self
    }
}

impl Sql for &Cow<'static, str> {
    fn into_text(self) -> Cow<'static, str> {
        self.clone()
    }
}

mod sealed {
    use std::borrow::Cow;

    pub trait Sealed {}

    impl Sealed for &'static str {}
    impl Sealed for String {}
    impl Sealed for &String {}
    impl Sealed for Cow<'static, str> {}
    impl Sealed for &Cow<'static, str> {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_stays_where_it_is() {
        static SQL: &str = "VALUES (1)";
        let same = |text: &Cow<'static, str>| matches!(text, Cow::Borrowed(text) if std::ptr::eq(*text, SQL));
        assert!(same(&SQL.into_text()));
        assert!(same(&Cow::Borrowed(SQL).into_text()));
        assert!(same(&(&Cow::Borrowed(SQL)).into_text()));
        assert_eq!((&format!("VALUES ({})", 1)).into_text(), SQL);
    }
}
