//! Rows that were done before there was a batch.

use crate::process::{failure, stdout};
use crate::table::Rows;
use serde_json::Value;

on_both! {
    finished_rows_are_imported_and_not_handled_again,
    what_is_claimed_or_done_here_is_not_imported_over,
    what_cannot_be_imported_is_refused,
    keys_in_another_spelling_are_refused,
    uuids_in_another_spelling_are_refused,
    an_import_makes_the_log,
}

/// A log of somebody else: of twenty rows, half are done, one of them noted twice, and one is gone.
async fn with_log(rows: &Rows) -> String {
    rows.add(1..=20).await;
    let theirs = rows.table("processing_log");
    rows.sql(&format!("CREATE TABLE {theirs} (record_id bigint, state text)")).await;
    let values: Vec<_> = (1..=10).map(|id| format!("({id}, 'done')")).collect();
    let more = "(11, 'failed'), (12, 'running'), (3, 'done'), (99, 'done')";
    rows.sql(&format!("INSERT INTO {theirs} VALUES {}, {more}", values.join(", "))).await;
    theirs
}

fn import<'a>(theirs: &'a str, condition: &'a str) -> Vec<&'a str> {
    vec![
        "--log-table",
        "plog",
        "--from",
        theirs,
        "--from-key",
        "record_id",
        "--where",
        condition,
        "--json",
    ]
}

fn counts(output: &std::process::Output) -> [Value; 5] {
    let json: Value = serde_json::from_str(&stdout(output)).unwrap();
    ["rows", "keys", "imported", "already", "gone"].map(|name| json[name].clone())
}

const OURS: [&str; 2] = ["--log-table", "plog"];

async fn finished_rows_are_imported_and_not_handled_again(rows: Rows) {
    let theirs = with_log(&rows).await;
    let done = import(&theirs, "state = 'done'");
    assert_eq!(counts(&rows.batch("import", &done)), [12, 11, 11, 0, 1].map(Value::from));
    assert_eq!(counts(&rows.batch("import", &done)), [12, 11, 0, 11, 1].map(Value::from));
    let (verified, sound) = rows.verify(&OURS);
    assert!(sound, "{verified}");
    assert_eq!((&verified["succeeded"], &verified["missing"]), (&11.into(), &10.into()));
    let copy = rows.copy();
    assert_eq!(rows.run(&[&OURS[..], &["--sql", &copy]].concat())["succeeded"], 10);
    let kept = format!("SELECT count(*) AS n FROM {} WHERE id <= 10", rows.table("effects"));
    assert_eq!(rows.number(&kept).await, 0, "what they have done is not done again");
    // After a run it is still the same.
    assert_eq!(counts(&rows.batch("import", &done)), [12, 11, 0, 11, 1].map(Value::from));
    assert!(rows.verify(&[&OURS[..], &["--complete"]].concat()).1);
    // Without JSON it is a line.
    let line = stdout(&rows.batch("import", &done[..8]));
    assert!(line.contains("0 rows imported, 11 already, 1 not in the source (99), of"), "{line}");
    let json: Value = serde_json::from_str(&stdout(&rows.batch("import", &done))).unwrap();
    assert_eq!(json["gone_keys"], serde_json::json!(["99"]));
    rows.drop().await;
}

async fn what_is_claimed_or_done_here_is_not_imported_over(rows: Rows) {
    let theirs = with_log(&rows).await;
    let copy = rows.copy();
    rows.run(&[&OURS[..], &["--limit", "2", "--workers", "1", "--sql", &copy]].concat());
    let done = import(&theirs, "state = 'done'");
    let said = failure(&rows.batch("import", &done), 1);
    let ways = ["2 of its keys", "1 (success, session ", "2 (success, session ", "--where"];
    assert!(ways.iter().all(|way| said.contains(way)), "{said}");
    let log = rows.table("plog");
    let claim = format!("UPDATE {log} SET state = 'claimed' WHERE key = '2'");
    rows.sql(&claim).await;
    let said = failure(&rows.batch("import", &done), 1);
    assert!(said.contains("2 (claimed, session "), "{said}");
    let all = format!("SELECT count(*) AS n FROM {log}");
    assert_eq!(rows.number(&all).await, 2, "all or nothing");
    let rest = import(&theirs, "state = 'done' AND record_id > 2");
    assert_eq!(counts(&rows.batch("import", &rest)), [10, 9, 9, 0, 1].map(Value::from));
    rows.drop().await;
}

async fn what_cannot_be_imported_is_refused(rows: Rows) {
    let theirs = with_log(&rows).await;
    let refused = |arguments: &[&str]| failure(&rows.batch("import", arguments), 1);
    let none = refused(&import(&theirs, "state = 'finished'"));
    assert!(none.contains("no row") && none.contains("--where"), "{none}");
    let other = refused(&import(&theirs, "record_id = 99"));
    assert!(other.contains("none of them is a key of"), "{other}");
    assert!(other.contains("`99`") && other.contains("`1`"), "{other}");
    let mut wrong = import(&theirs, "state = 'done'");
    wrong[5] = "number";
    let said = refused(&wrong);
    assert!(said.contains("has no column `number`") && said.contains("record_id, state"), "{said}");
    wrong[3] = "no_such_table";
    let said = refused(&wrong);
    assert!(said.contains("cannot read no_such_table") && !said.contains("SELECT"), "{said}");
    let said = refused(&import(&theirs, "stat = 'done'"));
    assert!(said.contains("--where `stat = 'done'`") && said.contains("stat"), "{said}");
    assert!(!said.contains("batch_finished_keys"), "it is no statement of theirs: {said}");
    // SQLite would take it for a text, and the condition would hold for every row.
    let said = refused(&import(&theirs, "\"stte\" <> 'failed'"));
    assert!(said.contains("stte") && said.contains("--where"), "{said}");
    rows.sql(&format!("INSERT INTO {theirs} VALUES (NULL, 'done')")).await;
    let said = refused(&import(&theirs, "state = 'done'"));
    assert!(said.contains("1 of its rows has no key"), "{said}");
    let (verified, _) = rows.verify(&OURS);
    assert_eq!(verified["entries"], 0, "{verified}");
    rows.drop().await;
}

/// They name rows of the source to a person, and none to the log: the rows would be handled again.
async fn keys_in_another_spelling_are_refused(rows: Rows) {
    rows.add(1..=20).await;
    let theirs = rows.table("old_log");
    rows.sql(&format!("CREATE TABLE {theirs} (record_id text, state text)")).await;
    let spelled = "('7', 'done'), ('007', 'odd'), (' 8', 'odd'), ('9.0', 'odd'), ('+10', 'odd'), \
                   ('1e1', 'odd'), ('-0012', 'not'), ('0.5', 'not'), ('12a', 'not'), ('', 'not')";
    rows.sql(&format!("INSERT INTO {theirs} VALUES {spelled}")).await;
    for condition in ["true", "state = 'odd'"] {
        let said = failure(&rows.batch("import", &import(&theirs, condition)), 1);
        let named = ["5 of its keys", "`007` is 7", "` 8` is 8", "`9.0` is 9", "`+10` is 10"];
        assert!(named.iter().all(|way| said.contains(way)), "{said}");
        assert!(said.contains("CREATE VIEW") && said.contains("CAST"), "{said}");
    }
    let log = format!("SELECT count(*) AS n FROM {}", rows.table("plog"));
    rows.verify(&OURS);
    assert_eq!(rows.number(&log).await, 0, "nothing is written");
    // What is no key of the source in any spelling is none.
    let output = rows.batch("import", &import(&theirs, "state IN ('done', 'not')"));
    assert_eq!(counts(&output), [5, 5, 5, 0, 4].map(Value::from));
    // The way out.
    let cast = rows.table("old_log_cast");
    rows.sql(&format!(
        "CREATE VIEW {cast} AS SELECT *, CAST(CAST(record_id AS numeric) AS bigint) AS cast_key FROM {theirs}"
    ))
    .await;
    let mut import = import(&cast, "state = 'odd'");
    import[5] = "cast_key";
    assert_eq!(counts(&rows.batch("import", &import)), [5, 4, 3, 1, 0].map(Value::from));
    rows.drop().await;
}

async fn uuids_in_another_spelling_are_refused(rows: Rows) {
    let (source, theirs) = (rows.table("orders"), rows.table("old_orders"));
    let kind = if rows.is_postgres() { "uuid" } else { "text" };
    rows.sql(&format!("CREATE TABLE {source} (id {kind} NOT NULL PRIMARY KEY)")).await;
    rows.sql(&format!("CREATE TABLE {theirs} (id text)")).await;
    let ids = [1, 2].map(|n| format!("018f3f3e-8f6b-7c1a-8f3e-0000000000a{n}"));
    for id in &ids {
        rows.sql(&format!("INSERT INTO {source} VALUES ('{id}')")).await;
    }
    let upper = ids[1].to_uppercase();
    rows.sql(&format!("INSERT INTO {theirs} VALUES ('{}'), ('{upper}')", ids[0])).await;
    let of = ["--source", &source, "--key", "id", "--job", "job", "--from", &theirs];
    let output = rows.batch_alone("import", &[&of[..], &["--where", "true"]].concat());
    if rows.is_postgres() {
        let said = failure(&output, 1);
        let names = ["1 of its keys is", &format!("`{upper}` is {}", ids[1]), "AS uuid)"];
        assert!(names.iter().all(|name| said.contains(name)), "{said}");
    } else {
        // There it is text, and another one.
        assert!(stdout(&output).contains(&format!("1 not in the source ({upper})")), "{output:?}");
    }
    rows.drop().await;
}

/// As a run does: who comes from a log of their own has nothing of ours yet.
async fn an_import_makes_the_log(rows: Rows) {
    let theirs = with_log(&rows).await;
    let (source, name) = (rows.table("source"), format!("{}_new", rows.schema()));
    let import = format!(
        "anabranch batch import --namespace {name} --source {source} --key id --job job --log-table plog \
         --target-schema {} --from {theirs} --from-key record_id --where \"state = 'done'\"",
        rows.schema()
    );
    let said = stdout(&rows.shell(&import));
    assert!(said.contains("11 rows imported"), "{said}");
    if rows.is_postgres() {
        rows.sql(&format!("DROP SCHEMA {name} CASCADE")).await;
    }
    rows.drop().await;
}
