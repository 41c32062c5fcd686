//! Statements that were not written in Rust, and what their authors call things.

/// How a statement was written that does not stand in Rust, but in a file or in a program of another language. It is
/// made once for each text, so that a statement only points to it.
///
/// The values of such a statement come from JSON: where the database asks for JSON, a text is a string of it and a
/// truth value is `true`, while [`Value::Text`](crate::Value::Text) of Rust may hold a whole document.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// What its values are called, in their order, such as `:data.cents`; those without a name are `$1`, `$2`, ….
    pub values: Vec<String>,
    /// Where it stands, such as `orders.toml:14`. Messages name it instead of showing the statement.
    pub place: Option<String>,
}

impl Written {
    /// Somewhere, without names.
    pub const ELSEWHERE: &'static Self = &Self { values: Vec::new(), place: None };
}
