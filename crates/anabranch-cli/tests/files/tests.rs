//! `test FILE`: on the real engine, in a throwaway database, never in the user's.

use crate::place::Place;
use crate::process::{failure, stdout};
use serde_json::Value;

const FILE: &str = r#"
url = "${ANABRANCH_URL}"

[[replica_set]]
name = "reports"

[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
on.OrderPlaced = 'INSERT INTO totals (id, cents) VALUES (:stream_id, :data.cents)'

[[test]]
name = "an order is kept"
given = [{ type = "OrderPlaced", stream = "Order:1", data = { cents = 40 } }]
then = { sql = 'SELECT id, cents FROM totals', rows = [["1", 40]] }

[[test]]
name = "an order is doubled"
given = [{ type = "OrderPlaced", stream = "Order:2", data = { cents = 40 } }]
then = { sql = 'SELECT id, cents FROM totals', rows = [["2", 80]] }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_test_shows_both_sides_and_the_user_s_database_is_not_touched() {
    for (place, name) in [(Place::sqlite(), "sqlite"), (Place::postgres(), "postgres")] {
        place.write("orders.toml", FILE);
        let ran = place.command(&["test", "orders.toml"]);
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        let shown = String::from_utf8(ran.stdout).unwrap();
        for part in [
            "ok      an order is kept",
            "FAILED  an order is doubled",
            "orders.toml:21",
            "expected      actual",
            r#"["2", 80]  |  ["2", 40]"#,
        ] {
            assert!(shown.contains(part), "{part} in: {shown}");
        }
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(said.contains(&format!("1 of 2 tests failed, on {name} [test_failed]")), "{said}");

        let one = ["test", "orders.toml", "--only", "kept", "--json"];
        let one: Value = serde_json::from_str(stdout(&place.command(&one)).trim()).unwrap();
        assert_eq!((&one["name"], &one["passed"]), (&"an order is kept".into(), &true.into()));

        // There is no log where the file says, and nothing in it.
        let status = failure(&place.command(&["status"]), 1);
        assert!(status.contains("[no_such_log]") || status.contains("[cannot_open]"), "{status}");
    }
}

#[test]
fn a_server_is_needed_for_tests_on_one() {
    let place = Place::sqlite();
    place.write("orders.toml", FILE);
    let said = failure(&place.command(&["test", "orders.toml", "--on", "postgres"]), 1);
    assert!(said.contains("--on postgres needs a server"), "{said}");
    let said = failure(&place.command(&["test", "orders.toml", "--only", "nothing"]), 1);
    assert!(said.contains("no test matches; the file has 2 tests"), "{said}");
}

const FAILING: &str = r#"
[[replica_set]]
name = "reports"
[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, note TEXT)'
on.OrderPlaced = 'INSERT INTO totals (id, note) VALUES (:stream_id, :data.a_rather_long_name.of_a_field_that_is_not_there)'
on.OrderNoted = 'INSERT INTO totals (id, note) VALUES (:stream_id, :data.note)'

[[test]]
name = "cannot be run"
given = [{ sql = "INSERT INTO nowhere VALUES (1)" }]
then = { parked = [] }

[[test]]
name = "fails"
given = [{ type = "OrderPlaced", stream = "Order:1", data = {} }]
then = { sql = 'SELECT note FROM nowhere', rows = [["x"]] }

[[test]]
name = "differs at its end"
given = [{ type = "OrderNoted", stream = "Order:1", data = { note = "LONG1" } }]
then = { sql = 'SELECT note FROM totals', rows = [["LONG2"]] }

[[test]]
name = "passes"
then = { sql = 'SELECT note FROM totals', rows = [] }
"#;

#[test]
fn what_fails_is_shown_whole_and_ends_no_other_test() {
    for place in [Place::sqlite(), Place::postgres()] {
        place.write("orders.toml", &FAILING.replace("LONG", &"long ".repeat(60)));
        let ran = place.command(&["test", "orders.toml"]);
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        let shown = String::from_utf8(ran.stdout).unwrap();
        let words: Vec<&str> = shown.split_whitespace().collect();
        let (shown_in_words, long) = (words.join(" "), "long ".repeat(60));
        for part in [
            "FAILED cannot be run it could not be run to its end (orders.toml:11)",
            "orders.toml:13",
            "FAILED fails keys that have failed",
            "+ totals Order:1: the event (OrderPlaced) has no `data.a_rather_long_name.of_a_field_that_is_not_there`; \
             write :data.a_rather_long_name.of_a_field_that_is_not_there? where it may be missing",
            "rows of the query (orders.toml:19)",
            &format!("- [\"{long}2\"] + [\"{long}1\"]"),
            "ok passes",
        ] {
            assert!(shown_in_words.contains(part), "{part} in: {shown}");
        }
        assert!(shown.contains("nowhere"), "{shown}");
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(said.contains("3 of 4 tests failed"), "{said}");

        let ran = place.command(&["test", "orders.toml", "--json"]);
        let lines = String::from_utf8(ran.stdout).unwrap();
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines[0]["error"].as_str().unwrap().contains("nowhere"), "{lines:?}");
        let passed: Vec<&Value> = lines.iter().map(|line| &line["passed"]).collect();
        assert_eq!(passed, [false, false, false, true]);
    }
}

/// In memory nothing is needed of what the file names.
#[test]
fn tests_in_memory_need_no_variables() {
    let place = Place::sqlite();
    place.write("orders.toml", &FILE.replace("${ANABRANCH_URL}", "${ANABRANCH_NO_SUCH_VARIABLE}"));
    let said = failure(&place.command(&["test", "orders.toml"]), 1);
    assert!(said.contains("the variable ANABRANCH_NO_SUCH_VARIABLE is not set"), "{said}");
    let ran = place.command(&["test", "orders.toml", "--on", "sqlite", "--only", "kept"]);
    assert!(ran.status.success(), "{ran:?}");
    let ran = place.command(&["check", "orders.toml", "--url", "sqlite:other.db"]);
    assert!(ran.status.success(), "{ran:?}");
}
