//! Migrations: a released one never changes, and those after the first release only add, so that workers
//! that run meanwhile go on.

use crate::migration::{Migration, Migrations};

/// From this step on workers of an older version may run while a step is applied.
const ADD_FROM: u32 = 5;

/// Fails if a released step was changed (its [`checksum`] is another one), if a later step does more than
/// add, or if a step does not state truly which programs it admits.
pub fn are_kept(migrations: &Migrations, released: &[u64]) {
    let mut admits = 0;
    for (number, step) in migrations.steps.iter().enumerate() {
        let Migration { version, name, sql, .. } = *step;
        assert_eq!(version as usize, number + 1, "steps count from 1 without holes");
        if let Some(released) = released.get(number) {
            let now = checksum(sql);
            assert_eq!(
                now, *released,
                "migration {version} is released, but was changed ({now:#x})"
            );
        }
        assert!((admits..=version).contains(&step.admits), "{version} admits {}", step.admits);
        admits = step.admits;
        if version >= ADD_FROM {
            let row = format!("(version, name, admits) VALUES ({version}, '{name}', {admits});");
            assert!(sql.contains(&row), "migration {version} does not write {row}");
            assert_eq!(more_than_adds(sql), None, "migration {version} may only add");
        }
    }
    assert!(released.len() <= migrations.steps.len(), "a released migration is gone");
}

/// FNV-1a, 64 bits: a checksum of a step's SQL.
#[must_use]
pub fn checksum(sql: &str) -> u64 {
    sql.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What of a step would hit programs that know nothing of it.
fn more_than_adds(sql: &str) -> Option<String> {
    let code: Vec<&str> = sql.lines().filter_map(|line| line.split("--").next()).collect();
    let code = code.join("\n").to_uppercase();
    let words: Vec<&str> = code
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let refused = words.windows(2).find(|pair| {
        // A trigger may be told of it.
        let is_done = *pair != ["TRUNCATE", "ON"];
        matches!(
            pair,
            ["DROP" | "RENAME" | "TRUNCATE" | "RESTART", _]
                | ["DELETE", "FROM"]
                | ["ADD", "CONSTRAINT"]
                | ["CREATE", "UNIQUE" | "OR"]
        ) && is_done
            || matches!(pair, ["ALTER", what] if !["TABLE", "SEQUENCE"].contains(what))
            || matches!(pair, ["ADD", what] if *what != "COLUMN")
    });
    if let Some(pair) = refused {
        return Some(pair.join(" "));
    }
    // Older programs insert rows without the column.
    let columns = code.split(';').flat_map(|statement| statement.split("ADD COLUMN").skip(1));
    let mut missing = columns.filter(|c| c.contains("NOT NULL") && !c.contains("DEFAULT"));
    missing.next().map(|column| format!("ADD COLUMN{column} without a DEFAULT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_may_only_add() {
        for fine in [
            "CREATE TABLE a (b text NOT NULL); -- DROP nothing\n",
            "ALTER TABLE a ADD COLUMN b text, ADD COLUMN c int NOT NULL DEFAULT 0;",
            "CREATE TRIGGER t AFTER DELETE ON a BEGIN UPDATE s SET v = 1; END;",
            "ALTER SEQUENCE a START 1;",
            "CREATE TRIGGER t BEFORE DELETE OR TRUNCATE ON a;",
        ] {
            assert_eq!(more_than_adds(fine), None);
        }
        for (bad, found) in [
            ("DROP TABLE a;", "DROP TABLE"),
            ("ALTER TABLE a\n    RENAME TO b;", "RENAME TO"),
            ("alter table a alter column b type int;", "ALTER COLUMN"),
            ("ALTER TABLE a ALTER b TYPE int;", "ALTER B"),
            ("ALTER TABLE a ADD CONSTRAINT c CHECK (b > 0);", "ADD CONSTRAINT"),
            ("ALTER TABLE a ADD UNIQUE (b);", "ADD UNIQUE"),
            ("DELETE FROM a;", "DELETE FROM"),
            ("TRUNCATE a;", "TRUNCATE A"),
            ("ALTER TABLE a\nDROP COLUMN b;", "DROP COLUMN"),
            ("CREATE UNIQUE INDEX b ON a (c);", "CREATE UNIQUE"),
            ("CREATE OR REPLACE FUNCTION f() RETURNS int;", "CREATE OR"),
            ("ALTER SEQUENCE a RESTART 1;", "RESTART 1"),
            (
                "ALTER TABLE a ADD COLUMN b int NOT NULL;",
                "ADD COLUMN B INT NOT NULL without a DEFAULT",
            ),
        ] {
            assert_eq!(more_than_adds(bad).as_deref(), Some(found), "{bad}");
        }
    }

    #[test]
    #[should_panic(expected = "migration 1 is released, but was changed")]
    fn a_released_step_never_changes() {
        let steps: &[Migration] = &[Migration { version: 1, name: "log", sql: "b", admits: 1 }];
        are_kept(&Migrations { steps, keep_rule: "", reads_from: 1 }, &[checksum("a")]);
    }

    #[test]
    #[should_panic(expected = "does not write (version, name, admits) VALUES (5, 'five', 4);")]
    fn a_step_writes_which_programs_it_admits() {
        const fn step(version: u32, admits: u32) -> Migration {
            Migration { version, name: "five", sql: "", admits }
        }
        let steps: &[Migration] =
            const { &[step(1, 1), step(2, 2), step(3, 3), step(4, 4), step(5, 4)] };
        are_kept(&Migrations { steps, keep_rule: "", reads_from: 1 }, &[]);
    }
}
