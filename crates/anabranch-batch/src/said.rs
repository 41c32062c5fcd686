//! What a database says of statements that users wrote parts of.

use anabranch_store::database::{Statement, Work};

/// The same without the whole statement, which SQLite repeats: it is not the one that the user wrote.
pub(crate) fn without(statement: &Statement, said: &str) -> String {
    let Work::Sql(sql, _) = &statement.work else { return said.to_owned() };
    let Some((before, behind)) = said.split_once(&format!(" in {sql}")) else {
        return said.to_owned();
    };
    let behind = behind.strip_prefix(" at offset ").unwrap_or(behind);
    format!("{before}{}", behind.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_stays() {
        let said = "x.db: no such column: a in SELECT a at offset 7; look";
        let select = Statement::query("SELECT a", vec![]);
        assert_eq!(without(&select, said), "x.db: no such column: a; look");
        assert_eq!(without(&select, "no such column: a"), "no such column: a");
    }
}
