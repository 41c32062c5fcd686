//! Values that are written `?`, as other databases have them. To PostgreSQL that is an operator, so what it says of
//! them helps nobody.

use crate::dialect::LEXICAL;
use anabranch_store::sql_lexer::{Kind, Pieces};
use tokio_postgres::error::SqlState;

/// Whether a statement that failed so may have failed for `?` in the place of values.
pub(crate) fn has_question_marks(code: &SqlState, sql: &str) -> bool {
    // As an operator it is unknown, or stands where none can.
    let is_so = [SqlState::SYNTAX_ERROR, SqlState::UNDEFINED_FUNCTION].contains(code);
    is_so && Pieces::of(sql, LEXICAL).flatten().any(|piece| piece.kind == Kind::Mark('?'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_in_quotes_and_comments_are_none() {
        let found = |sql| has_question_marks(&SqlState::SYNTAX_ERROR, sql);
        for sql in
            ["VALUES (?, ?)", "'a' = ?", "\"a\" - ?", "$1 / ?", "$$?$$ ?", "-- x\n?", "/* */ ?"]
        {
            assert!(found(sql), "{sql}");
        }
        let none =
            ["", "'?'", "'it''s ?'", "\"?\"", "-- ?", "/* ? */", "$$ ? $$", "$a$ ? $$ ? $a$", "'?"];
        for sql in none {
            assert!(!found(sql), "{sql}");
        }
        assert!(found("VALUES ($1, ?, $2)"));
        assert!(!has_question_marks(&SqlState::UNDEFINED_TABLE, "doc ? 'a'"));
    }
}
