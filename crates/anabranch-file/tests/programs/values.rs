//! JSON values on their way into columns and back.

use crate::on_both;
use crate::script::Script;
use crate::support::{Db, fill, left_by, query};
use anabranch::prelude::*;
use anabranch::{Retry, Settings};
use anabranch_file::program::ProgramProjection;

on_both! {
    null_is_the_same_as_leaving_it_out,
    values_go_into_every_type_and_come_back,
    what_does_not_fit_is_refused,
}

/// A column, what goes into it, and what comes back on PostgreSQL and on SQLite, if not the same.
const VALUES: &[(&str, &str, &str, &str)] = &[
    ("bigint", "9223372036854775807", "", ""),
    ("bigint", "-1", "", ""),
    ("bigint", "1e3", "1000", "1000"),
    ("bigint", "null", "", ""),
    ("bigint", "true", "1", "1"),
    ("boolean", "true", "", "1"),
    (
        "numeric",
        "12345678901234567890.12",
        r#""12345678901234567890.12""#,
        r#""12345678901234567890.12""#,
    ),
    (
        "numeric",
        "-18446744073709551616",
        r#""-18446744073709551616""#,
        r#""-18446744073709551616""#,
    ),
    ("numeric", "19.95", r#""19.95""#, r#""19.95""#),
    ("numeric", r#""19.950""#, r#""19.950""#, r#""19.950""#),
    ("text", r#""é\n\"\u2028""#, "\"é\\n\\\"\u{2028}\"", "\"é\\n\\\"\u{2028}\""),
    ("text", "7", r#""7""#, r#""7""#),
    ("jsonb", r#"{"a": [1.10, {"b": null}]}"#, "", r#""{\"a\": [1.10, {\"b\": null}]}""#),
    ("jsonb", r#"[{"a": 12345678901234567890.12}]"#, "", r#""[{\"a\": 12345678901234567890.12}]""#),
    ("jsonb", r#"[1, "a", null]"#, "", r#""[1,\"a\",null]""#),
    ("json", r#"{"a":   1}"#, "", r#""{\"a\":   1}""#),
    ("text[]", r#"["a","b, c",null]"#, "", r#""[\"a\",\"b, c\",null]""#),
    ("bigint[]", "[1,2]", "", r#""[1,2]""#),
    ("numeric", r#""1E-7""#, r#""0.0000001""#, r#""1E-7""#),
    (
        "numeric[]",
        "[0.1,123456789.123456789,null,1e-7]",
        r#"["0.1","123456789.123456789",null,"0.0000001"]"#,
        r#""[0.1,123456789.123456789,null,1e-7]""#,
    ),
    (
        "numeric[]",
        "[1,18446744073709551615]",
        r#"["1","18446744073709551615"]"#,
        r#""[1,18446744073709551615]""#,
    ),
    ("jsonb[]", r#"[{"a": 1},"b",2]"#, "", r#""[{\"a\": 1},\"b\",2]""#),
    ("uuid", r#""0199a7e2-7c3f-7a00-8000-000000000001""#, "", ""),
    ("timestamptz", r#""2026-11-15T09:16:47.445123Z""#, "", ""),
    ("date", r#""2026-11-15""#, "", ""),
    ("double precision", "0.1", "", ""),
    ("double precision", "1e300", "1e+300", "1e+300"),
];

/// SQLite keeps decimal numbers as text only in a column of that type.
fn of_sqlite(kind: &str) -> &str {
    match kind {
        "bigint" | "boolean" => "BIGINT",
        "double precision" => "REAL",
        _ => "TEXT",
    }
}

async fn values_go_into_every_type_and_come_back(db: Db) {
    let (log, table) = (db.log().await, db.table("v"));
    let is_sqlite = log.database().dialect().name() == "sqlite";
    let kinds = VALUES.iter().map(|(kind, ..)| if is_sqlite { of_sqlite(kind) } else { kind });
    let columns = kinds.enumerate().map(|(number, kind)| format!("v{number} {kind}"));
    let columns: Vec<_> = columns.collect();
    query(&log, &format!("CREATE TABLE {table} ({})", columns.join(", ")), vec![]).await;
    let places: Vec<_> = (1..=VALUES.len()).map(|number| format!("${number}")).collect();
    let insert = format!("INSERT INTO {table} VALUES ({})", places.join(", "));
    let values: Vec<_> = VALUES.iter().map(|(_, json, ..)| *json).collect();
    let line = format!(
        "{{\"execute\":\"{insert}\",\"values\":[{}],\"batch\":\"BATCH\",\"event\":0}}\n",
        values.join(",")
    );
    let body = format!(
        "def handle(n, event):\n    write({line:?})\n    write('{{\"query\":\"SELECT * FROM {table}\",\"batch\":\"BATCH\"}}\\n')\n    \
         note('row', sys.stdin.readline())\nserve(handle)"
    );
    let script = Script::new(&body.replace("\\u{2028}", "\\u2028"));
    fill(&log, 0..1, 1..=1).await;
    let set = ReplicaSet::new("s").projection(script.projection(&db, &log, "p"));
    set.catch_up(&log).await.unwrap();
    let names: Vec<_> = (0..VALUES.len()).map(|number| format!("\"v{number}\"")).collect();
    let back = VALUES.iter().map(|(_, json, postgres, sqlite)| match is_sqlite {
        true if !sqlite.is_empty() => *sqlite,
        false if !postgres.is_empty() => *postgres,
        _ => *json,
    });
    let row = script.note("row").unwrap();
    let expected = format!(
        "{{\"columns\":[{}],\"rows\":[[{}]]}}\n",
        names.join(","),
        back.collect::<Vec<_>>().join(",")
    );
    assert_eq!(row, expected);
}

async fn what_does_not_fit_is_refused(db: Db) {
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let is_sqlite = log.database().dialect().name() == "sqlite";
    for (number, (kind, json, said)) in [
        ("bigint", "18446744073709551615", "18446744073709551615 does not fit"),
        ("uuid", "\"x\"", "the text \"x\" does not fit"),
        ("jsonb[]", "{\"a\":1}", "a list goes there"),
        ("bigint[]", "[1,18446744073709551615]", "18446744073709551615 does not fit"),
    ]
    .into_iter()
    .enumerate()
    .filter(|(number, _)| !is_sqlite || *number == 0)
    {
        let line = format!(
            "{{\"execute\":\"SELECT $1 AS {kind}\",\"values\":[{json}],\"batch\":\"BATCH\",\"event\":0}}\n"
        );
        let line = line.replace(&format!("AS {kind}"), if is_sqlite { "" } else { "::KIND" });
        let body = format!(
            "def handle(n, event):\n    write({:?})\nserve(handle)",
            line.replace("KIND", kind)
        );
        let script = Script::new(&body);
        let name = format!("p{number}");
        let settings = Settings::default().retry(Retry::never());
        let (programs, command) = (&script.programs, script.command());
        let projection = ProgramProjection::new(programs, &log, name, Partition::global(), command);
        let set = ReplicaSet::new("s").projection(projection.with_settings(settings));
        let error = left_by(set, &log).await.first_error.unwrap();
        assert!(error.contains(said), "{kind}: {error}");
    }
}

/// Of each message, all that may be left out.
async fn null_is_the_same_as_leaving_it_out(db: Db) {
    let body = r#"
greet()
while True:
    batch = read()["batch"]
    say(execute=f"DELETE FROM {TABLE}", values=None, event=None, error=None, again=None, result=None, hello=None)
    say(append=dict.fromkeys(["data", "expected", "schema_version", "metadata", "correlation", "causation", "tenant",
        "customer", "tags", "id"]) | {"stream": "A:1", "type": "T"}, event=0)
    say(enqueue=dict.fromkeys(["payload", "after", "at", "unique", "id"]) | {"pool": "q", "key": "k"}, event=0)
    say(done=batch, result=None, failed=None, append=None)
    sys.stdout.flush()
"#;
    let (log, script) = (db.log().await, Script::new(body));
    fill(&log, 0..1, 1..=1).await;
    let scope = Settings::default().scope(anabranch::Scope::types(["Numbered"]));
    let projection = script.projection(&db, &log, "p").with_settings(scope);
    ReplicaSet::new("s").projection(projection).catch_up(&log).await.unwrap();
    let appended = log.read(anabranch::Query::types(["T"])).collect().await.unwrap();
    assert_eq!((appended.len(), appended[0].data_json()), (1, "null"));
    let tasks = anabranch::workpool::Tasks::new(&log, "q");
    let ready = anabranch::workpool::TaskState::Ready;
    assert_eq!(tasks.list(ready, 10).await.unwrap().len(), 1);
}
