//! Statements that begin or end transactions: a handler's statement must not, since its effects
//! commit together with the cursor.

/// The words with which such statements begin. With `PREPARE` only `PREPARE TRANSACTION` is one.
const WORDS: [&str; 9] =
    ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "PREPARE"];

/// The word by which a statement would begin, end or divide the transaction that it runs in.
///
/// Comments, empty statements and punctuation before the first word are passed over. Databases
/// disagree on whether comments nest, so a comment ends at the first `*/` here: what one of them could
/// take for the beginning of a statement is one.
///
/// ```
/// use anabranch_store::control::transaction_control;
/// assert_eq!(transaction_control(" -- done\n commit"), Some("COMMIT"));
/// assert_eq!(transaction_control("INSERT INTO t VALUES ('; COMMIT')"), None);
/// assert_eq!(transaction_control("PREPARE TRANSACTION 'x'"), Some("PREPARE TRANSACTION"));
/// ```
#[must_use]
pub fn transaction_control(sql: &str) -> Option<&'static str> {
    let mut words = Words { rest: sql };
    let first = words.next()?;
    let found = WORDS.into_iter().find(|word| word.eq_ignore_ascii_case(first))?;
    match found {
        "PREPARE" => {
            let is_control =
                words.next().is_some_and(|word| word.eq_ignore_ascii_case("TRANSACTION"));
            is_control.then_some("PREPARE TRANSACTION")
        }
        found => Some(found),
    }
}

/// The words of a text, without comments.
struct Words<'s> {
    rest: &'s str,
}

impl<'s> Iterator for Words<'s> {
    type Item = &'s str;

    fn next(&mut self) -> Option<&'s str> {
        loop {
            if let Some(comment) = self.rest.strip_prefix("--") {
                self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                self.rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
            } else {
                let first = self.rest.chars().next()?;
                if first.is_alphabetic() || first == '_' {
                    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
                    let end = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
                    let (word, rest) = self.rest.split_at(end);
                    self.rest = rest;
                    return Some(word);
                }
                self.rest = &self.rest[first.len_utf8()..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::transaction_control;

    #[test]
    fn what_ends_a_transaction_is_found_however_it_is_written() {
        for (sql, word) in [
            ("COMMIT", "COMMIT"),
            ("commit;", "COMMIT"),
            ("  \n\t;; Rollback To a", "ROLLBACK"),
            ("/* a */ /* b */ END TRANSACTION", "END"),
            ("-- a\r\n--b\nABORT", "ABORT"),
            ("/* /* */ COMMIT", "COMMIT"),
            ("/* /* */ */ COMMIT", "COMMIT"),
            ("COMMIT/**/AND CHAIN", "COMMIT"),
            ("\u{feff}COMMIT", "COMMIT"),
            ("BEGIN IMMEDIATE", "BEGIN"),
            ("START TRANSACTION", "START"),
            ("SAVEPOINT a", "SAVEPOINT"),
            ("RELEASE a", "RELEASE"),
            ("prepare /* x */ transaction 'a'", "PREPARE TRANSACTION"),
            ("(COMMIT)", "COMMIT"),
        ] {
            assert_eq!(transaction_control(sql), Some(word), "{sql}");
        }
    }

    #[test]
    fn other_statements_pass() {
        for sql in [
            "",
            "--",
            "/* COMMIT */",
            "-- COMMIT",
            "SELECT 'COMMIT'",
            "INSERT INTO commit VALUES (1)",
            "WITH end_of AS (SELECT 1) SELECT * FROM end_of",
            "PREPARE x AS SELECT 1",
            "COMMITTED",
            "UPDATE t SET a = 1 -- COMMIT",
            "commit_log",
        ] {
            assert_eq!(transaction_control(sql), None, "{sql}");
        }
    }
}
