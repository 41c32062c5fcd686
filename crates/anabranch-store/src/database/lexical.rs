//! By which rules a database reads the text of statements.

/// Where databases disagree on what a piece of SQL is. What is not listed here they read alike: `'…'` with doubled
/// quotes, `"…"`, `--` and `/* … */`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lexical {
    /// A comment in a `/* … */` comment is one, and must be closed too.
    pub nested_comments: bool,
    /// A carriage return ends a `--` comment, not only a line feed.
    pub return_ends_comment: bool,
    /// In `E'…'` a backslash takes the quote after it for text.
    pub escape_strings: bool,
    /// `$$…$$` and `$tag$…$tag$` are text.
    pub dollar_quotes: bool,
    /// `[…]` is a name in quotes; else it is a subscript, a slice or an array.
    pub bracket_names: bool,
    /// `` `…` `` is a name in quotes.
    pub back_quotes: bool,
    /// `?`, `?1`, `@name`, `$name` and `:1` are values; else some of them are operators.
    pub marked_values: bool,
    /// `value::type` is a cast.
    pub colon_casts: bool,
    /// The body of a trigger, from `BEGIN` to `END`, holds statements.
    pub trigger_bodies: bool,
    /// The body of a function, from `BEGIN ATOMIC` to `END`, holds statements.
    pub atomic_bodies: bool,
}

impl Lexical {
    /// For a statement whose database is not known yet: what any of them takes for quoted is quoted, except
    /// `[…]`, and what only some take for a value is none.
    pub const ANY: Self = Self {
        nested_comments: true,
        return_ends_comment: false,
        escape_strings: true,
        dollar_quotes: true,
        bracket_names: false,
        back_quotes: true,
        marked_values: false,
        colon_casts: true,
        trigger_bodies: true,
        atomic_bodies: true,
    };
}
