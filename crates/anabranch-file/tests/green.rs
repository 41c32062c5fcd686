//! A test of a file is green only if all is as it expects: nothing that fails, or is not looked at, passes unseen.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch::postgres::ThrowawayDatabase;
use anabranch::testing::TestKit;
use anabranch_file::file::{File, Problems, Source};
use anabranch_file::program::Programs;

const FILE: &str = r#"
[[replica_set]]
name = "set"
lanes = 4
[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL); CREATE TABLE prices (sku TEXT, cents BIGINT)'
retry = { attempts = 5, then = "skip" }
on.Placed = '''
INSERT INTO totals SELECT :stream_id, CAST(:data.count AS BIGINT) * p.cents FROM prices AS p WHERE p.sku = :data.sku
'''
[[replica_set.projection]]
name = "regions"
partition = "field:data.region"
on.Sold = 'SELECT 1'
[[replica_set.pool]]
name = "mail"
command = ["sh", "-c", 'echo "{\"hello\":{\"protocol\":1}}"; read a; read b; b=${b#*:}; echo "{\"failed\":${b%%,*},\"error\":\"no such address\",\"again\":\"never\"}"; read c']
retry = { attempts = 3, then = "skip" }
[[replica_set.pool]]
name = "payouts"
effects = "database"
command = ["sh", "-c", 'echo "{\"hello\":{\"protocol\":1}}"; read a; read b; b=${b#*:}; echo "{\"failed\":${b%%,*},\"error\":\"no such account\",\"again\":\"never\"}"; read c']
[[replica_set.pool]]
name = "mute"
command = ["sh", "-c", "exit 3"]
"#;

fn parse(test: &str) -> Result<File, Problems> {
    parse_with(FILE, test)
}

fn parse_with(file: &str, test: &str) -> Result<File, Problems> {
    File::parse(&Source::new("case.toml", format!("{file}\n[[test]]\n{test}\n")))
}

/// What is not as the test expects, on both databases.
async fn run(test: &str) -> String {
    run_with(FILE, test).await
}

async fn run_with(file: &str, test: &str) -> String {
    let file = parse_with(file, test).unwrap_or_else(|problems| panic!("{problems}"));
    let server = std::env::var("ANABRANCH_TEST_POSTGRES")
        .expect("these tests need PostgreSQL: run `cargo xtask test`");
    let mut all = Vec::new();
    for database in ["sqlite", "postgres"] {
        let made = match database {
            "postgres" => Some(ThrowawayDatabase::create(&server).await.unwrap()),
            _ => None,
        };
        let url = made.as_ref().map_or("sqlite::memory:", ThrowawayDatabase::url);
        let log = anabranch::connect(url).await.unwrap();
        let kit = TestKit::with_log(log.clone());
        let found =
            Box::pin(anabranch_file::test(&file, &file.tests[0], kit, Programs::new())).await;
        log.close().await;
        if let Some(made) = made {
            made.remove().await.unwrap();
        }
        let found = found.unwrap_or_else(|error| panic!("{database}: {error}"));
        let shown = found.iter().map(|one| format!("{}\n{}", one.what, one.difference.shown(160)));
        all.push(shown.collect::<String>());
    }
    let [sqlite, postgres] = all.as_slice() else { panic!("two databases") };
    assert_eq!(sqlite.is_empty(), postgres.is_empty(), "{sqlite}\n{postgres}");
    sqlite.clone()
}

/// The mistakes of a test, as `said | help`.
fn mistakes(test: &str) -> Vec<String> {
    let problems = parse(test).unwrap_err();
    let said = problems
        .all()
        .iter()
        .map(|problem| format!("{} | {}", problem.said, problem.help.as_deref().unwrap_or("-")));
    said.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_fails_is_a_failure() {
    for (pool, failed, error) in [
        ("mail", "mail k", "no such address"),
        ("payouts", "payouts k", "no such account"),
        // Its program has seen no task.
        ("mute", "mute (all of it)", "before its greeting"),
    ] {
        let given = format!("given = [{{ pool = \"{pool}\", key = \"k\" }}]\n");
        let shown = run(&format!("{given}then = {{ sql = 'SELECT 1', rows = [[1]] }}")).await;
        let line = format!("+ {failed}: ");
        assert!(shown.contains(&line) && shown.contains(error), "{pool}: {shown}");
        let expected = format!("{given}then = {{ parked = [\"{failed}\"], error = \"{error}\" }}");
        assert_eq!(run(&expected).await, "", "{pool}");
        let other = format!("{given}then = {{ parked = [\"{failed}\"], error = \"is full\" }}");
        assert!(run(&other).await.contains("- … is full …"), "{pool}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_be_skipped_is_parked_in_a_test() {
    let given = "given = [{ stream = \"Order:1\", type = \"Placed\", data = {} }]\n";
    let shown = run(&format!("{given}then = {{ sql = 'SELECT id FROM totals', rows = [] }}")).await;
    assert!(shown.contains("+ totals Order:1: the event (Placed) has no `data.count`"), "{shown}");
    let any = format!("{given}then = {{ error = \"has no `data.count`\" }}");
    assert_eq!(run(&any).await, "", "an error alone is that of any key");
    assert_ne!(run("then = { error = \"has no\" }").await, "", "nothing has said so");
    assert_ne!(run(&format!("{given}then = {{ parked = [] }}")).await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_stops_is_a_failure() {
    let given = "given = [{ stream = \"Sale:1\", type = \"Sold\", data = {} }]\n";
    let shown = run(&format!("{given}then = {{ sql = 'SELECT 1', rows = [[1]] }}")).await;
    assert!(shown.contains("field:data.region") && shown.contains("+ regions"), "{shown}");
    assert_eq!(run(&format!("{given}then = {{ error = \"field:data.region\" }}")).await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_cannot_begin_is_a_failure() {
    let file = r#"
[[replica_set]]
name = "set"
[[replica_set.projection]]
name = "first"
partition = "entity"
setup = 'CREATE TABLE twice (id TEXT)'
on.A = 'SELECT 1'
[[replica_set]]
name = "other"
[[replica_set.projection]]
name = "second"
partition = "entity"
setup = 'CREATE TABLE twice (id TEXT)'
on.A = 'SELECT 1'
"#;
    let shown = run_with(file, "then = { sql = 'SELECT id FROM twice', rows = [] }").await;
    assert!(shown.contains("second") && shown.contains("already exists"), "{shown}");
    assert_eq!(run_with(file, "then = { error = \"already exists\" }").await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_handled_in_their_order_whatever_the_lanes() {
    let file = r#"
[[replica_set]]
name = "set"
lanes = 8
[[replica_set.projection]]
name = "seen"
partition = "entity"
setup = 'CREATE TABLE seen (id BIGINT)'
on.Seen = 'INSERT INTO seen VALUES (CAST(:stream_id AS BIGINT))'
"#;
    let given: Vec<String> = (0..60)
        .map(|number| format!("{{ stream = \"Thing:{number}\", type = \"Seen\" }}"))
        .collect();
    let rows: Vec<String> = (0..60).map(|number| format!("[{number}]")).collect();
    let (given, rows) = (given.join(", "), rows.join(", "));
    let test =
        format!("given = [{given}]\nthen = {{ sql = 'SELECT id FROM seen', rows = [{rows}] }}");
    assert_eq!(run_with(file, &test).await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_are_given_in_order_and_after_the_setups() {
    let test = r#"
given = [
    { sql = "INSERT INTO prices VALUES ('a', 40); INSERT INTO prices VALUES ('b', 7)" },
    { stream = "Order:1", type = "Placed", data = { count = 2, sku = "a" } },
    { sql = { sqlite = ["INSERT INTO totals VALUES ('s', 1)"], postgres = "INSERT INTO totals VALUES ('p', 1)" } },
    { stream = "Order:2", type = "Placed", data = { count = 9007199254740993, sku = "b" } },
]
then = { sql = "SELECT cents FROM totals WHERE cents > 1 ORDER BY id", rows = [[80], [63050394783186951]] }
"#;
    assert_eq!(run(test).await, "");
    let other = test.replace("63050394783186951", "63050394783186952");
    assert!(run(&other).await.contains("[63050394783186952]  |  [63050394783186951]"));
}

#[test]
fn a_test_that_would_check_nothing_is_refused() {
    for (test, expected) in [
        ("then = []", "nothing is expected | that nothing fails is { parked = [] }"),
        ("then = {}", "nothing is expected | for example"),
        ("then = [{ consumer = \"mail\" }]", "nothing is expected of the `consumer` | say what"),
        (
            "then = { consumer = \"mial\", sent = [] }",
            "this file has no program, webhook or pool `mial` | did you mean `mail`?",
        ),
        (
            "then = { consumer = \"totals\", answered = [] }",
            "this file has no program, webhook or pool `totals` | expected one of mail, payouts, mute",
        ),
        (
            "given = [{ pool = \"male\", key = \"k\" }]\nthen = { parked = [] }",
            "this file has no pool `male` | did you mean `mail`?",
        ),
    ] {
        let found = mistakes(test);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{test}: {found:?}");
    }
}

#[test]
fn what_is_given_is_an_event_a_task_or_a_statement_and_nothing_between() {
    let neither = "this is neither an event, a task nor a statement | an event has `stream` and `type`, a task has";
    for (given, expected) in [
        (
            "{ stream = \"Order:1\", type = \"A\", payload = 3 }",
            "unknown key `payload` in an event | `payload` is for a task",
        ),
        (
            "{ pool = \"mail\", key = \"k\", data = 3 }",
            "unknown key `data` in a task | `data` is for an event",
        ),
        ("{ sql = \"SELECT 1\", data = 3 }", "unknown key `data` in a statement | `data` is for"),
        (
            "{ stream = \"Order:1\", type = \"A\", dta = 3 }",
            "unknown key `dta` in an event | did you",
        ),
        ("{ stream = \"Order:1\", pool = \"mail\" }", neither),
        ("{ data = 3 }", neither),
        ("{}", neither),
        ("{ stream = \"Order:1\" }", "an event lacks `type` | type: Its type"),
        ("{ stream = \"Order\", type = \"A\" }", ""),
        ("{ stream = \"Order:1\", type = \"A\", tags = [7] }", "`tags` holds a whole number"),
        (
            "{ stream = \"Order:1\", type = \"A\", data = { x = [nan] } }",
            "there is no nan in JSON |",
        ),
        ("{ stream = \"Order:1\", type = \"A\", data = -inf }", "there is no -inf in JSON |"),
        (
            "{ pool = \"mail\", key = \"k\", payload = 18446744073709551616 }",
            "18446744073709551616 is too large",
        ),
    ] {
        let found = mistakes(&format!("given = [{given}]\nthen = {{ parked = [] }}"));
        assert!(found.len() == 1 && found[0].starts_with(expected), "{given}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_that_are_given_keep_their_digits() {
    let file = parse(
        "given = [{ stream = \"Order:1\", type = \"A\", data = { a = 1_2345678901234567890.10, b = 0x10 } }, \
         { pool = \"mail\", key = \"k\", payload = [18446744073709551615, 0.1234567890123456789] }]\n\
         then = { parked = [] }",
    );
    let test = file.unwrap().tests.remove(0);
    let anabranch_file::file::Given::Event { event, .. } = &test.given[0] else {
        panic!("an event")
    };
    assert_eq!(event.data().unwrap().as_str(), r#"{"a":12345678901234567890.10,"b":16}"#);
    let anabranch_file::file::Given::Task { payload, .. } = &test.given[1] else {
        panic!("a task")
    };
    assert_eq!(payload.get(), "[18446744073709551615,0.1234567890123456789]");
}
