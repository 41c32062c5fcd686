//! Statements that begin or end transactions: a handler's statement must not, since its effects
//! commit together with the cursor. And statements that only ask.

/// The words with which such statements begin.
const WORDS: [&str; 8] =
    ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"];

/// The words of statements that change the session beyond the transaction: it serves others then. `SET LOCAL`
/// and `SET CONSTRAINTS` end with the transaction, but for `SET LOCAL SESSION AUTHORIZATION`: the cursor would
/// be moved by somebody else. (A database takes back what it can of what no text shows.)
const SESSION_WORDS: [&str; 7] =
    ["SET", "RESET", "DISCARD", "PREPARE", "DEALLOCATE", "LISTEN", "UNLISTEN"];

/// The word by which a statement would begin, end or divide the transaction that it runs in, or change
/// the session beyond it.
///
/// Comments, empty statements and punctuation before the first word are passed over. Databases
/// disagree on whether comments nest, and on whether a carriage return ends one, so all readings are tried: what
/// one of them could take for the beginning of a statement is one.
///
/// ```
/// use anabranch_store::control::transaction_control;
/// assert_eq!(transaction_control(" -- done\n commit"), Some("COMMIT"));
/// assert_eq!(transaction_control("INSERT INTO t VALUES ('; COMMIT')"), None);
/// assert_eq!(transaction_control("PREPARE TRANSACTION 'x'"), Some("PREPARE TRANSACTION"));
/// assert_eq!(transaction_control("SET LOCAL work_mem = '1MB'"), None);
/// ```
#[must_use]
pub fn transaction_control(sql: &str) -> Option<&'static str> {
    readings(sql).find_map(control_in)
}

/// The ways in which databases read a text. Most texts have no comment, and read the same.
fn readings(sql: &str) -> impl Iterator<Item = Words<'_>> {
    let (may_nest, has_returns) = (sql.contains("/*"), sql.contains('\r'));
    let all = [(false, false), (true, false), (false, true), (true, true)].into_iter();
    all.filter(move |(nests, returns_end)| (!nests || may_nest) && (!returns_end || has_returns))
        .map(move |(nests, returns_end)| Words { rest: sql, nests, returns_end })
}

/// The words with which queries begin.
const QUERIES: [&str; 6] = ["SELECT", "WITH", "VALUES", "TABLE", "EXPLAIN", "SHOW"];

/// Why a statement is refused where only queries may be run.
pub const ONLY_READS: &str = "this only reads (SELECT, WITH, VALUES, TABLE, EXPLAIN, SHOW); write in a handler, \
                              by its `Tx`, or over a connection of your own";

/// Whether a statement asks for rows: by its first word, and whatever it does besides is not looked at.
///
/// ```
/// use anabranch_store::control::is_query;
/// assert!(is_query("-- open ones\n select * from orders"));
/// assert!(!is_query("LISTEN orders"));
/// ```
#[must_use]
pub fn is_query(sql: &str) -> bool {
    readings(sql).all(|mut words| {
        let first = words.next().unwrap_or_default();
        QUERIES.iter().any(|word| word.eq_ignore_ascii_case(first))
    })
}

/// Whether the first word of a statement, after comments, is one of these.
///
/// ```
/// use anabranch_store::control::begins_with;
/// assert!(begins_with("-- orders\n create table orders (id INTEGER)", &["CREATE", "ALTER"]));
/// assert!(!begins_with("INSERT INTO orders VALUES (1)", &["CREATE"]));
/// ```
#[must_use]
pub fn begins_with(sql: &str, words: &[&str]) -> bool {
    readings(sql).any(|mut read| {
        let first = read.next().unwrap_or_default();
        words.iter().any(|word| word.eq_ignore_ascii_case(first))
    })
}

/// The words of a statement, without comments and punctuation. Comments end as in the standard: they do not nest, and
/// only a new line ends one of a line.
pub fn words(sql: &str) -> impl Iterator<Item = &str> {
    Words { rest: sql, nests: false, returns_end: false }
}

fn control_in(mut words: Words<'_>) -> Option<&'static str> {
    let first = words.next()?;
    let is = |word: &&str| word.eq_ignore_ascii_case(first);
    let found = WORDS.into_iter().chain(SESSION_WORDS).find(is)?;
    let mut next_of = |wanted: &[&'static str]| {
        let next = words.next().unwrap_or_default();
        wanted.iter().copied().find(|word| word.eq_ignore_ascii_case(next))
    };
    match found {
        "PREPARE" => next_of(&["TRANSACTION"]).map(|_| "PREPARE TRANSACTION").or(Some(found)),
        "SET" => match next_of(&["LOCAL", "CONSTRAINTS"]) {
            None => Some("SET (without LOCAL)"),
            Some("LOCAL") => next_of(&["SESSION"]).map(|_| "SET LOCAL SESSION AUTHORIZATION"),
            Some(_) => None,
        },
        found => Some(found),
    }
}

/// The words of a text, without comments.
struct Words<'s> {
    rest: &'s str,
    /// Whether a comment in a comment is one.
    nests: bool,
    /// Whether a carriage return ends a comment of a line, as PostgreSQL has it.
    returns_end: bool,
}

impl<'s> Words<'s> {
    /// What follows a comment whose beginning has been read.
    fn after_comment(&self, comment: &'s str) -> &'s str {
        if !self.nests {
            return comment.split_once("*/").map_or("", |(_, rest)| rest);
        }
        let (mut rest, mut depth) = (comment, 1);
        while depth > 0 {
            let next = |mark: &str| rest.find(mark).unwrap_or(usize::MAX);
            let (opens, closes) = (next("/*"), next("*/"));
            if closes == usize::MAX && opens == usize::MAX {
                return "";
            }
            depth = if opens < closes { depth + 1 } else { depth - 1 };
            rest = &rest[opens.min(closes) + 2..];
        }
        rest
    }
}

impl<'s> Iterator for Words<'s> {
    type Item = &'s str;

    fn next(&mut self) -> Option<&'s str> {
        loop {
            if let Some(comment) = self.rest.strip_prefix("--") {
                let ends = |c: char| c == '\n' || (self.returns_end && c == '\r');
                self.rest = comment.split_once(ends).map_or("", |(_, rest)| rest);
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                self.rest = self.after_comment(comment);
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
    use super::{is_query, transaction_control};

    #[test]
    fn a_query_is_one_however_comments_are_read() {
        for sql in ["(SELECT 1)", "with a as (select 1) table a", "/* a */ VALUES (1)"] {
            assert!(is_query(sql), "{sql}");
        }
        for sql in [
            "",
            "PRAGMA x = 1",
            "SELECTED",
            "/* /* */ SELECT 1 -- */ COMMIT",
            "SET a = 1",
            "-- x\rSELECT\nCOMMIT",
        ] {
            assert!(!is_query(sql), "{sql}");
        }
    }

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
            ("-- x\rCOMMIT", "COMMIT"),
            ("-- x\rSELECT\nCOMMIT", "COMMIT"),
            ("/* /* */ -- \rSELECT\n */ -- x\rCOMMIT", "COMMIT"),
            ("/* /* */ x */ COMMIT", "COMMIT"),
            ("/* /* x */ */ /* a */ rollback", "ROLLBACK"),
            ("SET search_path TO x", "SET (without LOCAL)"),
            ("reset all", "RESET"),
            ("DISCARD ALL", "DISCARD"),
            ("PREPARE x AS SELECT 1", "PREPARE"),
            ("deallocate all", "DEALLOCATE"),
            ("LISTEN x", "LISTEN"),
            ("UNLISTEN *", "UNLISTEN"),
            ("set local session authorization x", "SET LOCAL SESSION AUTHORIZATION"),
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
            "COMMITTED",
            "UPDATE t SET a = 1 -- COMMIT",
            "commit_log",
            "/* /* COMMIT */ */ SELECT 1",
            "/* a /* b",
            "set local x = 1",
            "SET LOCAL ROLE x",
            "SET CONSTRAINTS ALL DEFERRED",
        ] {
            assert_eq!(transaction_control(sql), None, "{sql}");
        }
    }
}
