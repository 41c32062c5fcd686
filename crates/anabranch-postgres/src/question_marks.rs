//! Values that are written `?`, as other databases have them. To PostgreSQL that is an operator, so what it says of
//! them helps nobody.

use tokio_postgres::error::SqlState;

/// Whether a statement that failed so may have failed for `?` in the place of values.
pub(crate) fn has_question_marks(code: &SqlState, sql: &str) -> bool {
    // As an operator it is unknown, or stands where none can.
    let is_so = [SqlState::SYNTAX_ERROR, SqlState::UNDEFINED_FUNCTION].contains(code);
    is_so && has_mark(sql)
}

/// Whether there is one that stands neither in quotes nor in a comment.
fn has_mark(sql: &str) -> bool {
    let mut rest = sql;
    while let Some(next) = rest.find(['?', '\'', '"', '$', '-', '/']) {
        let (mark, after) = (&rest[next..=next], &rest[next + 1..]);
        let inside = match mark {
            "?" => return true,
            "'" | "\"" => Some((mark, after)),
            "-" => after.strip_prefix('-').map(|comment| ("\n", comment)),
            "/" => after.strip_prefix('*').map(|comment| ("*/", comment)),
            _ => dollar_quote(&rest[next..]),
        };
        rest = match inside {
            Some((end, inside)) => inside.split_once(end).map_or("", |(_, after)| after),
            None => after,
        };
    }
    false
}

/// The end of a text that begins with `$$` or `$tag$`, and what follows the beginning.
fn dollar_quote(sql: &str) -> Option<(&str, &str)> {
    let tag = sql[1..].find('$')?;
    let (quote, inside) = sql.split_at(tag + 2);
    let is_tag = quote[1..=tag].chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_value = quote[1..].starts_with(|c: char| c.is_ascii_digit());
    (is_tag && !is_value).then_some((quote, inside))
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
