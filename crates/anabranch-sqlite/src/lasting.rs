//! Statements whose effect outlives their transaction: on the one connection that writes, they would change what
//! the next transactions of all others mean, and a roll-back does not undo them.

use anabranch_store::control;

/// What may be asked by `PRAGMA`, and the one setting that ends with the transaction.
const HARMLESS: [&str; 12] = [
    "COMPILE_OPTIONS",
    "DATABASE_LIST",
    "DEFER_FOREIGN_KEYS",
    "FOREIGN_KEY_CHECK",
    "FOREIGN_KEY_LIST",
    "FUNCTION_LIST",
    "INDEX_INFO",
    "INDEX_LIST",
    "INDEX_XINFO",
    "TABLE_INFO",
    "TABLE_LIST",
    "TABLE_XINFO",
];

/// Why a statement is refused, if its effect would outlive the transaction.
pub(crate) fn refusal(sql: &str) -> Option<String> {
    let begins = |words: &[&str]| control::begins_with(sql, words);
    if !begins(&["ATTACH", "DETACH", "VACUUM", "PRAGMA", "CREATE"]) {
        return None;
    }
    let (what, remedy) = if begins(&["ATTACH", "DETACH"]) {
        ("ATTACH and DETACH", "keep what belongs together in one file")
    } else if begins(&["VACUUM"]) {
        ("VACUUM", "run it by hand while nothing else runs")
    } else if begins(&["PRAGMA"]) {
        let name = control::words(sql).nth(1).unwrap_or_default().to_ascii_uppercase();
        if HARMLESS.contains(&name.as_str()) {
            return None;
        }
        ("this PRAGMA", "set it where the file is made, by a program of your own")
    } else if makes_temporary(sql) {
        ("a temporary table, view or trigger", "make an ordinary one, and delete from it")
    } else {
        return None;
    };
    Some(format!(
        "{what} would outlive the transaction, on a connection that all consumers of the process share; {remedy}"
    ))
}

/// `CREATE TEMP …`, or `CREATE TABLE temp.…`.
fn makes_temporary(sql: &str) -> bool {
    let mut words = control::words(sql).skip(1).take(6);
    let is_temp = |word: &&str| ["TEMP", "TEMPORARY"].iter().any(|t| t.eq_ignore_ascii_case(word));
    match words.next() {
        Some(first) if is_temp(&first) => true,
        Some(_) => {
            let names = ["IF", "NOT", "EXISTS", "UNIQUE", "INDEX", "VIRTUAL", "TABLE"];
            let is_name = |word: &&str| !names.iter().any(|n| n.eq_ignore_ascii_case(word));
            words.find(is_name).is_some_and(|name| is_temp(&name))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn what_outlives_its_transaction_is_refused_with_a_remedy() {
        for (sql, said) in [
            ("attach 'x.db' AS x", "ATTACH"),
            ("/* a */ DETACH x", "DETACH"),
            ("-- clean\nVACUUM INTO 'x.db'", "VACUUM"),
            ("PRAGMA ignore_check_constraints = ON", "this PRAGMA"),
            ("pragma main.query_only = 1", "this PRAGMA"),
            ("PRAGMA -- \rtable_info\nquery_only = 1", "this PRAGMA"),
            ("-- \rSELECT\nATTACH 'x.db' AS x", "ATTACH"),
            ("CREATE TEMP TABLE t (a)", "temporary table"),
            ("CREATE TEMPORARY TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END", "temporary"),
            ("CREATE TABLE IF NOT EXISTS temp.t (a)", "temporary table"),
        ] {
            let found = refusal(sql).unwrap_or_else(|| panic!("{sql}"));
            assert!(found.contains(said) && found.contains("; "), "{sql}: {found}");
        }
        for sql in [
            "CREATE TABLE temperature (a)",
            "CREATE TABLE t (temp INTEGER)",
            "CREATE UNIQUE INDEX IF NOT EXISTS temps ON t (a)",
            "PRAGMA table_info(t)",
            "PRAGMA defer_foreign_keys = ON",
            "INSERT INTO t VALUES ('ATTACH')",
            "",
        ] {
            assert_eq!(refusal(sql), None, "{sql}");
        }
    }
}
