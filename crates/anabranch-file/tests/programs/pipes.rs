//! What goes through the pipes: one line for each message, and no side waits for the other.

use crate::on_both;
use crate::script::Script;
use crate::support::{Db, number};
use anabranch::StreamId;
use anabranch::prelude::*;

on_both! {
    line_ends_in_json_do_not_end_a_message,
    it_may_answer_while_it_still_reads_a_batch_larger_than_a_pipe,
}

fn order() -> StreamId {
    StreamId::new("Order", "1").unwrap()
}

async fn line_ends_in_json_do_not_end_a_message(db: Db) {
    let body = r#"
def handle(n, event):
    row = query(os.environ["QUERY"])
    note("seen", json.dumps([event["data"], event["metadata"], row]))
serve(handle)
"#;
    let (log, script) = (db.log().await, Script::new(body));
    let pretty = NewEvent::from_json("Placed", "{\n  \"total\":\r\n 40 }");
    let metadata: Box<serde_json::value::RawValue> = serde_json::from_str("{\"a\":\n1}").unwrap();
    let events = [pretty.with_metadata(metadata)];
    log.append(&order(), Expected::Any, events).await.unwrap();
    let (query, row) = match log.database().dialect().name() {
        "sqlite" => ("SELECT '{' || char(10) || '}'", "\"{\\n}\""),
        _ => ("SELECT ('{' || chr(10) || '}')::json", "{}"),
    };
    let mut command = script.command();
    command.env.push(("QUERY".to_owned(), query.to_owned()));
    let projection = script.projection_by(&db, &log, "p", command);
    ReplicaSet::new("s").projection(projection).catch_up(&log).await.unwrap();
    let seen = format!("[{{\"total\": 40}}, {{\"a\": 1}}, [[{row}]]]");
    assert_eq!(script.note("seen").unwrap(), seen);
}

async fn it_may_answer_while_it_still_reads_a_batch_larger_than_a_pipe(db: Db) {
    let body = r#"
greet()
while True:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 4096)
        if not part:
            sys.exit(0)
        line += part
        # The number comes first.
        BATCH = int(line[len('{"batch":'):line.index(b",")])
        # More than it has read.
        execute(f"INSERT INTO {TABLE} VALUES (1, $1, '')", ["x" * 10_000])
        sys.stdout.flush()
    say(done=json.loads(line)["batch"])
    sys.stdout.flush()
"#;
    let (log, script) = (db.log().await, Script::new(body));
    let large = || NewEvent::new("Placed", "y".repeat(10_000));
    let events: Vec<_> = (0..200).map(|_| large()).collect();
    log.append(&order(), Expected::Any, events).await.unwrap();
    let projection = script.projection(&db, &log, "p");
    ReplicaSet::new("s").projection(projection).catch_up(&log).await.unwrap();
    let answers = number(&log, &format!("SELECT count(*) FROM {}", db.table("p"))).await;
    assert!(answers * 4096 >= 200 * 10_000, "{answers}");
}
