//! `check FILE`: every mistake with its place, on the database, which is left as it was.

use crate::place::{Place, number};
use crate::process::{failure, stdout};
use serde_json::{Value, json};

const WRONG: &str = r#"
[[replica_set]]
name = "reports"

[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
[replica_set.projection.on]
OrderPlaced = '''
INSERT INTO totals (id, cents)
VALUES (:stream_id, :dta.cents)
'''
OrderPaid = 'UPDATE total SET cents = 0 WHERE id = :stream_id'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_has_its_place_and_what_to_do() {
    for place in [Place::sqlite(), Place::postgres()] {
        let log = place.log().await;
        place.write("orders.toml", WRONG);
        let said = failure(&place.command(&["check", "orders.toml"]), 1);
        for part in [
            "an event has no field `dta`",
            "orders.toml:12:21",
            "12 | VALUES (:stream_id, :dta.cents)",
            "^^^^^^^^^^",
            "did you mean `data`?",
            "orders.toml:14:21",
            "create it in `setup`",
            "orders.toml has 2 mistakes [invalid_file]",
        ] {
            assert!(said.contains(part), "{part} in: {said}");
        }
        let printed = place.command(&["check", "orders.toml", "--json"]);
        assert_eq!(printed.status.code(), Some(1), "{printed:?}");
        let printed = String::from_utf8(printed.stdout).unwrap();
        let found: Vec<Value> =
            printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(found.len(), 2, "{printed}");
        assert_eq!((&found[0]["line"], &found[0]["column"]), (&json!(12), &json!(21)));

        place.write(
            "orders.toml",
            &WRONG.replace("dta", "data").replace("UPDATE total ", "UPDATE totals "),
        );
        let shown = place.command(&["check", "orders.toml"]);
        let text = stdout(&shown);
        for part in ["CONSUMER", r#"entity "Order", fnv1a"#, "data.cents", "stream_id"] {
            assert!(text.contains(part), "{part} in: {text}");
        }
        let tables = match log.database().dialect().name() {
            "sqlite" => "SELECT count(*) FROM sqlite_master WHERE name = 'totals'",
            _ => {
                "SELECT count(*) FROM pg_class WHERE relname = 'totals' AND relnamespace = current_schema()::regnamespace"
            }
        };
        assert_eq!(number(&log, tables).await, 0, "a check leaves nothing");
        let printed: Value =
            serde_json::from_str(&stdout(&place.command(&["check", "orders.toml", "--json"])))
                .unwrap();
        let cents = printed["values"].as_array().unwrap();
        let cents = cents.iter().find(|value| value["field"] == "data.cents").unwrap();
        let wanted = if tables.contains("sqlite") { Value::Null } else { json!("bigint") };
        assert_eq!(cents["type"], wanted, "{printed}");
    }
}

#[test]
fn without_a_database_the_shape_is_checked() {
    let place = Place::sqlite();
    place.write("orders.toml", &WRONG.replace("dta", "data"));
    let shown = place.command(&["check", "orders.toml", "--offline"]);
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(shown.status.success() && said.contains("without a database"), "{said}");
    assert!(!place.path("orders.db").exists());
    // A file of SQLite that is not there yet is checked as an empty one, and is not created.
    let said = failure(&place.command(&["check", "orders.toml"]), 1);
    assert!(said.contains("1 mistake"), "{said}");
    assert!(!place.path("orders.db").exists());
}

#[test]
fn the_schema_in_the_repository_is_the_one_that_is_printed() {
    let place = Place::sqlite();
    let printed: Value =
        serde_json::from_str(&stdout(&place.command(&["check", "--schema"]))).unwrap();
    let stored =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/anabranch-file.json");
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(stored).unwrap()).unwrap();
    assert_eq!(printed, stored);
}

/// What `run` would refuse is found before.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_of_consumers_is_compared() {
    for place in [Place::sqlite(), Place::postgres()] {
        let log = place.log().await;
        let file = WRONG.replace("dta", "data").replace("UPDATE total ", "UPDATE totals ");
        place.write("orders.toml", &file);
        place.order(&log, "1", r#"{"cents": 2}"#).await;
        assert!(place.command(&["run", "orders.toml", "--catch-up"]).status.success());
        assert!(place.command(&["check", "orders.toml"]).status.success());

        place.write("orders.toml", &file.replace("entity:Order", "customer"));
        let said = failure(&place.command(&["check", "orders.toml"]), 1);
        for part in ["it was partitioned by", "orders.toml:6:8", "docs/changing-a-projection.md"] {
            assert!(said.contains(part), "{part} in: {said}");
        }
        failure(&place.command(&["run", "orders.toml", "--catch-up"]), 1);

        // Another type is no mistake, and somebody must say that it is meant.
        place.write(
            "orders.toml",
            &format!("{file}OrderLost = 'DELETE FROM totals WHERE id = :stream_id'\n"),
        );
        let checked = place.command(&["check", "orders.toml"]);
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success() && said.contains("warning: its scope was"), "{said}");
        assert!(said.contains("accept-scope totals --yes"), "{said}");
        failure(&place.command(&["run", "orders.toml", "--catch-up"]), 1);
        assert!(place.command(&["accept-scope", "totals", "--yes"]).status.success());
        // Its statements are others, too.
        let said = failure(&place.command(&["run", "orders.toml", "--catch-up"]), 1);
        assert!(said.contains("--accept"), "{said}");
        assert!(place.command(&["run", "orders.toml", "--catch-up", "--accept"]).status.success());

        // A column that is only in `setup` is not there: the consumer was set up before.
        place.write("orders.toml", &file.replace("SET cents = 0", "SET cents = 0, note = NULL"));
        let said = failure(&place.command(&["check", "orders.toml"]), 1);
        assert!(said.contains("that was executed when the consumer first ran"), "{said}");
    }
}

#[test]
fn what_needs_no_database_is_found_without_one() {
    let place = Place::sqlite();
    place.write(
        "orders.toml",
        r#"
url = "${ANABRANCH_NO_SUCH_VARIABLE}"
[[replica_set]]
name = "reports"
lanes = 4
[[replica_set.projection]]
name = "Bad Name"
partition = "global"
on.A = 'INSERT INTO t VALUES (:streamId)'
on.B = { sqlite = 'SELECT x::text' }
on.C = 'SET LOCAL search_path = x'
[[replica_set.pool]]
name = "reports.schedules"
command = ["no-such-program-anywhere"]
[[replica_set.schedule]]
cron = "0 6 * * *"
enqueue = { pool = "mial", key = "x" }
"#,
    );
    let said = failure(&place.command(&["check", "orders.toml", "--offline"]), 1);
    for part in [
        "its name is not made of",
        "the global strategy",
        "did you mean `stream_id`?",
        "`::` is not a cast in this database",
        "SET LOCAL is refused",
        "there is another consumer `reports.schedules`",
        "there is no program `no-such-program-anywhere`",
        "7 mistakes",
    ] {
        assert!(said.contains(part), "{part} in: {said}");
    }
}

#[test]
fn a_schedule_without_its_pool_is_doubted() {
    let place = Place::sqlite();
    let file = r#"
[[replica_set]]
name = "reports"
[[replica_set.pool]]
name = "mail"
command = ["sh"]
[[replica_set.schedule]]
cron = "0 0 30 2 *"
enqueue = { pool = "mial", key = "x" }
"#;
    place.write("orders.toml", file);
    let checked = place.command(&["check", "orders.toml", "--offline"]);
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
    for part in ["warning: the file has no pool `mial`", "did you mean `mail`?", "is never due"] {
        assert!(said.contains(part), "{part} in: {said}");
    }
    place.write("empty.toml", "");
    let said = failure(&place.command(&["check", "empty.toml", "--offline"]), 1);
    assert!(said.contains("there is nothing to run"), "{said}");
}

/// Before there is an event for it.
#[test]
fn a_program_that_does_not_greet_is_found() {
    use std::io::{BufRead, BufReader};
    let place = Place::sqlite();
    let file = format!(
        "[[replica_set]]\nname = \"r\"\n[[replica_set.program]]\nname = \"p\"\npartition = \"entity\"\n\
         command = [\"{}\", \"p.py\"]\n",
        crate::place::python()
    );
    place.write("p.toml", &file);
    place.write("p.py", "import no_such_module\n");
    let said = failure(&place.command(&["check", "p.toml"]), 1);
    for part in ["has ended (exit status: 1) before its greeting", "no_such_module", "p.toml:6:12"]
    {
        assert!(said.contains(part), "{part} in: {said}");
    }
    let mut command = place.process(&["run", "p.toml"]);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("warning: program") && line.contains("no_such_module")));
    child.kill().unwrap();
    child.wait().unwrap();
}
