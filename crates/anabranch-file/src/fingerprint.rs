//! What a consumer of a file does, as a hash: equal for files that do the same.
//!
//! It becomes the [code](anabranch::Settings::code) of the consumer, of which one is accepted at a time. So whatever is
//! added here makes every consumer that has it wait to be accepted after an upgrade: add only what changes effects,
//! and only where it is there.

use anabranch::backend::database::Lexical;
use anabranch::backend::sql_lexer::{Kind, Pieces};
use sha2::{Digest, Sha256};

/// How many bytes of the hash are kept: nobody makes collisions on purpose here.
const BYTES: usize = 16;

/// Makes the hash of what a consumer does, from named parts in a fixed order.
///
/// ```
/// use anabranch_file::Fingerprint;
/// let url = |url: &str| Fingerprint::new("webhook").text("url", url).finish();
/// assert_eq!(url("https://a.example"), url("https://a.example"));
/// assert_ne!(url("https://a.example"), url("https://b.example"));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Of a kind of consumer.
    pub fn new(kind: &str) -> Self {
        Self(Sha256::new()).text("kind", kind)
    }

    /// A part of it.
    pub fn text(mut self, name: &str, value: &str) -> Self {
        for part in [name, value] {
            // With its length, so that no two lists of parts make the same bytes.
            self.0.update((part.len() as u64).to_be_bytes());
            self.0.update(part);
        }
        self
    }

    /// A statement, as its database reads it: white space and comments do not count.
    pub fn sql(self, name: &str, statement: &str, rules: Lexical) -> Self {
        self.text(name, &normal_form(statement, rules))
    }

    /// A program: its words, and which variables it is given. Their values may be secrets, and differ from one machine
    /// to the next.
    pub fn program<'w>(
        mut self,
        command: impl IntoIterator<Item = &'w str>,
        env: impl IntoIterator<Item = &'w str>,
    ) -> Self {
        for word in command {
            self = self.text("command", word);
        }
        let mut names: Vec<&str> = env.into_iter().collect();
        names.sort_unstable();
        names.into_iter().fold(self, |print, name| print.text("env", name))
    }

    /// The hash, in hexadecimal digits.
    #[must_use]
    pub fn finish(self) -> String {
        self.0.finalize().iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A statement with one space between its pieces. One that cannot be read stays as it is: it is refused anyway.
fn normal_form(statement: &str, rules: Lexical) -> String {
    let mut pieces = Vec::new();
    for piece in Pieces::of(statement, rules) {
        match piece {
            Ok(piece) if piece.kind == Kind::Space => {}
            Ok(piece) => pieces.push(&statement[piece.span]),
            Err(_) => return statement.to_owned(),
        }
    }
    pieces.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(statement: &str) -> String {
        Fingerprint::new("sql").sql("on", statement, Lexical::ANY).finish()
    }

    #[test]
    fn layout_and_comments_do_not_count() {
        let one = of("INSERT INTO t (a) VALUES ($1)");
        assert_eq!(one, of("INSERT INTO t(a)\n  -- the total\n  VALUES ( $1 ) /* so */"));
        assert_eq!(one.len(), 2 * BYTES);
    }

    #[test]
    fn what_is_done_counts() {
        let one = of("INSERT INTO t (a) VALUES ('a  b')");
        for other in [
            "INSERT INTO t (a) VALUES ('a b')",
            "INSERT INTO t (b) VALUES ('a  b')",
            "INSERT INTO t (a) VALUES ('a  -- b')",
            "INSERT INTO \"t\" (a) VALUES ('a  b')",
        ] {
            assert_ne!(one, of(other), "{other}");
        }
    }

    #[test]
    fn parts_do_not_run_together() {
        let print = |parts: &[(&str, &str)]| {
            let new = Fingerprint::new("x");
            parts.iter().fold(new, |print, (name, value)| print.text(name, value)).finish()
        };
        assert_ne!(print(&[("a", "b"), ("c", "d")]), print(&[("a", "bcd")]));
        assert_ne!(print(&[("a", "bc")]), print(&[("ab", "c")]));
        let of = |command: [&str; 2], env: [&str; 2]| Fingerprint::new("x").program(command, env);
        assert_eq!(of(["a", "b"], ["C", "D"]).finish(), of(["a", "b"], ["D", "C"]).finish());
        assert_ne!(of(["a", "b"], ["C", "D"]).finish(), of(["b", "a"], ["C", "D"]).finish());
    }
}
