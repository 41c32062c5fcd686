//! `run FILE --catch-up`: it ends when everything that was there is handled, and its exit code is the truth.

use crate::place::{Place, number};
use crate::printed::lines;
use crate::process::{failure, stdout};
use serde_json::{Value, json};

const TOTALS: &str = r#"
url = "${ANABRANCH_URL}"

[[replica_set]]
name = "reports"
lanes = 2

[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
retry = { attempts = 1, then = "park" }
on.OrderPlaced = 'INSERT INTO totals (id, cents) VALUES (:stream_id, :data.cents)'

[[replica_set]]
name = "counts"

[[replica_set.projection]]
name = "counter"
partition = "global"
setup = ['CREATE TABLE counter (orders BIGINT NOT NULL)', 'INSERT INTO counter VALUES (0)']
on."*" = 'UPDATE counter SET orders = orders + 1'
"#;

fn figures(printed: &Value, name: &str) -> Value {
    let consumers = printed["consumers"].as_array().unwrap();
    let mut found = consumers.iter().find(|one| one["name"] == name).unwrap().clone();
    found.as_object_mut().unwrap().remove("name");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_when_everything_is_handled_and_says_how_much() {
    for place in [Place::sqlite(), Place::postgres()] {
        let log = place.log().await;
        place.write("orders.toml", TOTALS);
        for order in 0..50 {
            place.order(&log, &order.to_string(), r#"{"cents": 2}"#).await;
        }
        let ran = place.command(&["run", "orders.toml", "--catch-up", "--json"]);
        let [printed] = lines(&ran).try_into().unwrap();
        assert_eq!(printed["complete"], true);
        for name in ["totals", "counter"] {
            assert_eq!(figures(&printed, name), json!({ "handled": 50, "parked": 0, "lag": 0 }));
        }
        assert!(ran.stderr.is_empty(), "there is no terminal: {ran:?}");
        let again = place.command(&["run", "orders.toml", "--catch-up"]);
        let said = String::from_utf8(again.stderr).unwrap();
        assert!(said.contains("2 consumers caught up in"), "{said}");
        assert!(said.contains("handled here: totals 0, counter 0"), "{said}");
        assert_eq!(number(&log, "SELECT CAST(sum(cents) AS BIGINT) FROM totals").await, 100);
        assert_eq!(number(&log, "SELECT orders FROM counter").await, 50);

        // Nothing is handled again, and one set can be run alone.
        place.order(&log, "50", r#"{"cents": 2}"#).await;
        let one = ["run", "orders.toml", "--catch-up", "--json", "--set", "counts"];
        let [printed] = lines(&place.command(&one)).try_into().unwrap();
        assert_eq!(printed["consumers"].as_array().unwrap().len(), 1);
        assert_eq!(figures(&printed, "counter"), json!({ "handled": 1, "parked": 0, "lag": 0 }));
        assert_eq!(number(&log, "SELECT count(*) FROM totals").await, 50);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_handled_is_named() {
    for place in [Place::sqlite(), Place::postgres()] {
        let log = place.log().await;
        place.write("orders.toml", TOTALS);
        place.order(&log, "good", r#"{"cents": 2}"#).await;
        for _ in 0..2 {
            place.order(&log, "bad", r#"{"price": 2}"#).await;
        }
        let ran = place.command(&["run", "orders.toml", "--catch-up", "--json"]);
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        let printed: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(printed["complete"], false);
        let totals = figures(&printed, "totals");
        assert_eq!((&totals["handled"], &totals["parked"]), (&json!(1), &json!(1)), "{totals}");
        assert_eq!(figures(&printed, "counter"), json!({ "handled": 3, "parked": 0, "lag": 0 }));
        let said = String::from_utf8(ran.stderr).unwrap();
        for part in ["totals", "Order:bad", "has no `data.cents`", "[catch_up_incomplete]"] {
            assert!(said.contains(part), "{part} in: {said}");
        }

        // It still is the truth when nothing new was there.
        let again = place.command(&["run", "orders.toml", "--catch-up"]);
        let said = failure(&again, 1);
        assert!(said.contains("totals") && said.contains("parked"), "{said}");

        // A file that can handle it, and somebody who asks for it.
        place.write("orders.toml", &TOTALS.replace(":data.cents", "coalesce(:data.cents?, 0)"));
        let retried = place.command(&["parked", "retry", "totals", "Order:bad"]);
        assert!(retried.status.success(), "{retried:?}");
        let ran = place.command(&["run", "orders.toml", "--catch-up", "--json", "--accept"]);
        // Order:bad came twice, and the second one breaks the primary key.
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        assert_eq!(number(&log, "SELECT count(*) FROM totals").await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_told_to_stop_ends_with_success() {
    use std::io::{BufRead, BufReader};
    for place in [Place::sqlite(), Place::postgres()] {
        let log = place.log().await;
        place.write("orders.toml", TOTALS);
        place.order(&log, "1", r#"{"cents": 2}"#).await;
        let mut command = place.process(&["run", "orders.toml", "--json"]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = said.next().unwrap().unwrap();
        assert!(
            first.contains("running `reports` (totals; 2 lanes), `counts` (counter; 1 lane) on"),
            "{first}"
        );
        // Its tables are made by it.
        while place.command(&["status", "totals", "--json"]).status.code() != Some(0)
            || number(&log, "SELECT count(*) FROM totals").await == 0
        {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let id = child.id().to_string();
        assert!(std::process::Command::new("kill").arg(&id).status().unwrap().success());
        let ended = child.wait_with_output().unwrap();
        let printed: Value = serde_json::from_str(stdout(&ended).trim()).unwrap();
        assert_eq!(figures(&printed, "totals"), json!({ "handled": 1, "parked": 0, "lag": 0 }));
    }
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_created() {
    let place = Place::sqlite();
    let said = failure(&place.command(&["run", "nope.toml"]), 1);
    assert!(said.contains("cannot read nope.toml"), "{said}");
    place.write("orders.toml", TOTALS);
    let said = failure(&place.command(&["run", "orders.toml", "--set", "count"]), 1);
    assert!(said.contains("no replica set `count`; it has reports, counts"), "{said}");
    place.write("empty.toml", "");
    let said = failure(&place.command(&["run", "empty.toml"]), 1);
    assert!(said.contains("has no [[replica_set]]"), "{said}");
    place.write("wrong.toml", &TOTALS.replace("lanes", "lane").replace("entity:", "entiti:"));
    let said = failure(&place.command(&["run", "wrong.toml"]), 1);
    for part in ["unknown key `lane`", "did you mean `lanes`?", "wrong.toml:6:1", "2 mistakes"] {
        assert!(said.contains(part), "{part} in: {said}");
    }
    assert!(!place.path("orders.db").exists(), "a file that is wrong creates no log");
}

#[test]
fn a_database_that_is_down_is_named_without_its_password() {
    let place = Place::sqlite();
    place.write("orders.toml", TOTALS);
    let url = "postgres://shop:geheim@127.0.0.1:1/shop";
    let said = failure(&place.command(&["run", "orders.toml", "--catch-up", "--url", url]), 1);
    assert!(said.contains("127.0.0.1:1") && !said.contains("geheim"), "{said}");
}

/// The others go on, and nobody waits for them to learn of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_is_refused_is_named_at_once() {
    use std::io::{BufRead, BufReader};
    let place = Place::sqlite();
    let broken = TOTALS.replace("CREATE TABLE counter", "CREATE TABEL counter");
    place.write("orders.toml", &broken);
    let mut command = place.process(&["run", "orders.toml", "--json"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut until = |part: &str| {
        let found = said.by_ref().map(Result::unwrap).find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("it never says {part}"))
    };
    until("consumer `counter` is refused");
    until("replica set `counts` has ended; the others go on");
    assert!(
        std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap().success()
    );
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let printed: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let counter = figures(&printed, "counter");
    assert_eq!((&counter["lag"], &printed["complete"]), (&Value::Null, &false.into()), "{printed}");
    assert!(counter["error"].as_str().unwrap().contains("TABEL"), "{printed}");
}
