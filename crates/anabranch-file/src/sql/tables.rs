//! `{table}` in statements: a table of the projection's own, which has another name while a new version is built beside
//! the old one.
//!
//! Wherever such a table is meant it stands in braces. To find it by its name would be a guess: a column may be called
//! the same, and a new version that wrote the old table by mistake would be worse than a word too many.

use anabranch::backend::database::Lexical;
use anabranch::backend::sql_lexer::{Kind, Piece, Pieces};
use std::ops::Range;

/// What follows the name of a table of a new version.
const NEXT: &str = "_next";

/// A statement whose tables have their names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    /// With the names of the tables. It is as long as the text, so that places in it are places in the text.
    pub(super) sql: String,
    /// With the names that they have in a new version; none if it names no such table.
    pub(super) next: Option<String>,
}

/// A table that is not written as it must be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TableProblem {
    /// Where, in bytes of the statement.
    pub(super) span: Range<usize>,
    pub(super) said: String,
    pub(super) help: String,
}

/// Puts the names of tables where they stand in braces.
pub(super) fn expand(
    sql: &str,
    tables: &[String],
    rules: Lexical,
) -> Result<Expanded, TableProblem> {
    // What cannot be read is refused elsewhere.
    let pieces: Vec<Piece> = Pieces::of(sql, rules).map_while(Result::ok).collect();
    let (mut own, mut next, mut names_one) = (String::new(), String::new(), false);
    let mut at = 0;
    while let Some(piece) = pieces.get(at) {
        let text = &sql[piece.span.clone()];
        if let Some(name) = in_braces(&pieces[at..], sql) {
            let span = piece.span.start..piece.span.start + name.len() + 2;
            let Some(table) = tables.iter().find(|table| *table == name) else {
                let said = format!("`{{{name}}}` is not among the `tables` of the projection");
                let help = format!("add tables = [\"{name}\"] to it, or leave the braces out");
                return Err(TableProblem { span, said, help });
            };
            // What follows at once belongs to the name, as of an index.
            let goes_on = pieces.get(at + 3).is_some_and(|after| after.kind == Kind::Word);
            let (before, after) = if goes_on { ("  ", "") } else { (" ", " ") };
            own += &format!("{before}{table}{after}");
            next += &format!("{before}{table}{NEXT}{after}");
            names_one = true;
            at += 3;
            continue;
        }
        if let Some(table) = tables.iter().find(|table| is_named(piece.kind, text, table)) {
            let said = format!("the table `{table}` is named directly");
            let help = format!(
                "write {{{table}}}, so that a new version has a table of its own; a column needs another name"
            );
            return Err(TableProblem { span: piece.span.clone(), said, help });
        }
        own += text;
        next += text;
        at += 1;
    }
    Ok(Expanded { sql: own, next: names_one.then_some(next) })
}

/// The word in the braces that pieces begin with.
fn in_braces<'s>(pieces: &[Piece], sql: &'s str) -> Option<&'s str> {
    match pieces {
        [open, word, close, ..]
            if (open.kind, word.kind, close.kind)
                == (Kind::Mark('{'), Kind::Word, Kind::Mark('}')) =>
        {
            Some(&sql[word.span.clone()])
        }
        _ => None,
    }
}

/// Whether a piece is the name of a table, in quotes or not.
fn is_named(kind: Kind, text: &str, table: &str) -> bool {
    match kind {
        Kind::Word => text.eq_ignore_ascii_case(table),
        Kind::Quoted if text.starts_with(['"', '`', '[']) => {
            text.get(1..text.len() - 1).is_some_and(|inside| inside.eq_ignore_ascii_case(table))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(sql: &str) -> Result<Expanded, TableProblem> {
        expand(sql, &["totals".to_owned()], Lexical::ANY)
    }

    #[test]
    fn a_table_in_braces_has_its_name_and_another_one_beside_it() {
        for (sql, own, next) in [
            ("DELETE FROM {totals}", "DELETE FROM  totals ", "DELETE FROM  totals_next "),
            (
                "UPDATE {totals} SET n = {totals}.n + 1",
                "UPDATE  totals  SET n =  totals .n + 1",
                "UPDATE  totals_next  SET n =  totals_next .n + 1",
            ),
            (
                "CREATE INDEX {totals}_by_day ON {totals} (day)",
                "CREATE INDEX   totals_by_day ON  totals  (day)",
                "CREATE INDEX   totals_next_by_day ON  totals_next  (day)",
            ),
        ] {
            let done = expanded(sql).unwrap();
            assert_eq!((done.sql.as_str(), done.next.as_deref()), (own, Some(next)));
            assert_eq!(done.sql.len(), sql.len());
        }
        let other = "SELECT '{totals}', 'totals' -- totals";
        assert_eq!(expanded(other).unwrap(), Expanded { sql: other.to_owned(), next: None });
    }

    #[test]
    fn a_table_that_is_named_directly_is_refused_and_so_is_one_that_is_not_listed() {
        for sql in ["DELETE FROM totals", "DELETE FROM Totals", "DELETE FROM \"totals\""] {
            let problem = expanded(sql).unwrap_err();
            assert!(problem.said.contains("is named directly"), "{problem:?}");
            assert_eq!(problem.span.start, 12);
        }
        let problem = expanded("DELETE FROM {others}").unwrap_err();
        assert_eq!(problem.span, 12..20);
        assert!(problem.help.contains("tables = [\"others\"]"), "{problem:?}");
    }
}
