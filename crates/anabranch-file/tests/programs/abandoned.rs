//! A batch that is lost while its program still talks: it is told once, and goes on with the next.

use crate::on_both;
use crate::script::Script;
use crate::support::{Db, Proof, fill, left_by, proof};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{Retry, Settings};

on_both! {
    a_query_after_a_refused_statement_has_one_answer,
    a_query_after_a_refused_append_has_one_answer,
}

/// A program that does this at one event, and then queries for it and for another one.
async fn loses(db: Db, act: &str, said: &str) {
    let log = db.log().await;
    fill(&log, 0..4, 1..=4).await;
    let body = format!(
        r#"
with open("starts", "a") as file:
    file.write("x")
def handle(n, event):
    upsert(n, event)
    if key_of(event) == "2" and event["data"] == 2:
        {act}
        say(query="SELECT 1", values=[], event=0)
        sys.stdout.flush()
        answer = read()
        with open("answers", "a") as file:
            file.write(json.dumps(sorted(answer)) + "\n")
        raise Abandoned()
serve(handle)
"#
    );
    let script = Script::new(&body);
    let settings = Settings::default().retry(Retry::never());
    let projection = script.projection(&db, &log, "p").with_settings(settings);
    let left = left_by(ReplicaSet::new("s").projection(projection).lanes(1), &log).await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 3), "{left:?}");
    let parked = Consumers::new(&log).parked("p").await.unwrap().remove(0);
    assert_eq!(parked.key, "Order:2");
    assert!(parked.error.contains(said), "{}", parked.error);
    let all = Proof { handled: 13, doubled: 0, keys: 4, wrong: 0 };
    assert_eq!(proof(&log, &db.table("p")).await, all);
    let answers = script.note("answers").unwrap();
    assert!(answers.lines().all(|keys| keys == r#"["abandoned", "error"]"#), "{answers}");
    // A second answer would have been taken for a batch, and ended it.
    assert_eq!(script.note("starts").unwrap(), "x");
}

async fn a_query_after_a_refused_statement_has_one_answer(db: Db) {
    loses(db, "execute('COMMIT', [], n)", "COMMIT").await;
}

async fn a_query_after_a_refused_append_has_one_answer(db: Db) {
    let act = "say(append={'stream': 'A:1', 'type': '', 'data': 1}, event=n)";
    loses(db, act, "type").await;
}
