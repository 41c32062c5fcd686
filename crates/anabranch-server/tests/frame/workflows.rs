//! States of workflows: folded where the code is, else the snapshot that was kept last.

use crate::client::Server;
use crate::on_both;
use crate::support::Db;
use anabranch::prelude::*;
use anabranch::workflow::{Workflow, Workflows};
use anabranch_server::{Scope, ServerLimits};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

on_both!(
    states_are_folded_where_the_code_is,
    a_mask_hides_folded_states_and_what_cannot_be_read,
    without_the_code_the_last_snapshot_is_shown,
);

struct Notes;

#[derive(Clone, Default, Serialize, Deserialize)]
struct Text {
    lines: Vec<String>,
}

#[derive(Serialize, Deserialize)]
enum Command {
    Write(String),
}

#[derive(Serialize, Deserialize)]
enum NoteEvent {
    Written { line: String },
}

impl Workflow for Notes {
    type State = Text;
    type Command = Command;
    type Event = NoteEvent;
    type Action = ();
    type Rejection = std::fmt::Error;

    fn name(&self) -> &str {
        "notes"
    }

    /// Not its name, so that the one is not taken for the other.
    fn category(&self) -> &str {
        "Note"
    }

    fn decide(&self, _: &Text, command: &Command) -> Result<Vec<NoteEvent>, std::fmt::Error> {
        let Command::Write(line) = command;
        Ok(vec![NoteEvent::Written { line: line.clone() }])
    }

    fn evolve(&self, text: &mut Text, event: &NoteEvent) {
        let NoteEvent::Written { line } = event;
        text.lines.push(line.clone());
    }

    fn snapshot_every(&self) -> Option<u64> {
        Some(2)
    }
}

/// Three lines of the note `a`, with a snapshot of the second one.
async fn written(db: &Db) -> (Log, Workflows<Notes>) {
    let log = db.log().await;
    let notes = Workflows::new(&log, Notes);
    for line in ["one", "two", "s3cret"] {
        notes.send("a", Command::Write(line.to_owned())).await.unwrap();
        notes.flush().await;
    }
    (log, notes)
}

async fn with_code(log: &Log, notes: Workflows<Notes>) -> Server {
    Server::with(log, ServerLimits::default(), |api| api.workflow(notes)).await
}

async fn get(server: &Server, path: &str) -> Value {
    server.ask("GET", path, &[], "").await.good()
}

async fn states_are_folded_where_the_code_is(db: Db) {
    let (log, notes) = written(&db).await;
    let server = with_code(&log, notes.clone()).await;
    let one = get(&server, "/v1/workflows/notes/a").await;
    assert_eq!(one["version"], 3);
    let state =
        json!({"version": 3, "mode": "running", "state": {"lines": ["one", "two", "s3cret"]}});
    assert_eq!(one["state"], state);
    // The snapshot is behind it, and says so.
    assert_eq!(
        (&one["snapshot"]["version"], &one["snapshot"]["state"]["lines"]),
        (&json!(2), &json!(["one", "two"]))
    );
    let events = get(&server, one["events"].as_str().unwrap()).await;
    assert_eq!(events["items"].as_array().unwrap().len(), 3);
    let before = get(&server, "/v1/workflows/notes/a?version=1").await;
    assert_eq!((&before["version"], &before["state"]["version"]), (&json!(3), &json!(1)));
    assert_eq!(before["state"]["state"]["lines"], json!(["one"]));
    // What another process has stored meanwhile is in it.
    let other = Workflows::new(&db.log().await, Notes);
    other.send("a", Command::Write("four".to_owned())).await.unwrap();
    other.cancel("a", "done").await.unwrap();
    let now = get(&server, "/v1/workflows/notes/a").await["state"].clone();
    assert_eq!((&now["version"], &now["mode"]), (&json!(5), &json!("cancelled")));
    assert_eq!(now["state"]["lines"][3], "four");
    let later = server.ask("GET", "/v1/workflows/notes/a?version=6", &[], "").await;
    assert_eq!(later.problem(400, "invalid_input")["version"], 5);
    for wrong in ["0", "-1", "x", "", "1&version=2"] {
        let path = format!("/v1/workflows/notes/a?version={wrong}");
        server.ask("GET", &path, &[], "").await.problem(400, "invalid_input");
    }
    server.ask("GET", "/v1/workflows/notes/b", &[], "").await.problem(404, "no_such_instance");
    let listed = get(&server, "/v1/workflows").await;
    assert_eq!(listed["items"], json!([{"workflow": "notes", "has_code": true}]));
}

async fn a_mask_hides_folded_states_and_what_cannot_be_read(db: Db) {
    let (log, notes) = written(&db).await;
    let server = with_code(&log, notes).await;
    let (read, masked) =
        (server.token(&[Scope::Read]).await, server.token(&[Scope::ReadMasked]).await);
    for path in ["/v1/workflows/notes/a", "/v1/workflows/notes/a?version=3"] {
        assert!(server.get(path, &read).await.text.contains("s3cret"), "{path}");
        let hidden = server.get(path, &masked).await;
        assert!(!hidden.text.contains("s3cret"), "{}", hidden.text);
        let state = json!({"version": 3, "mode": "running", "state": null, "masked": true});
        assert_eq!(hidden.good()["state"], state);
    }
    // An event that the code cannot read is quoted by the error.
    let stream = StreamId::new("Note", "b").unwrap();
    let event = NewEvent::new("Written", json!({"line": {"s3cret": 7}}));
    log.append(&stream, Expected::Any, [event]).await.unwrap();
    let event = NewEvent::new("Written", "s3cret");
    let other = StreamId::new("Note", "c").unwrap();
    log.append(&other, Expected::Any, [event]).await.unwrap();
    for id in ["b", "c"] {
        let path = format!("/v1/workflows/notes/{id}");
        let (whole, hidden) = (server.get(&path, &read).await, server.get(&path, &masked).await);
        assert!(
            whole.status >= 400 && whole.json()["code"] == hidden.json()["code"],
            "{}",
            whole.text
        );
        assert!(id == "b" || whole.text.contains("s3cret"), "{}", whole.text);
        assert!(
            hidden.text.contains("cannot read") && !hidden.text.contains("s3cret"),
            "{}",
            hidden.text
        );
    }
}

async fn without_the_code_the_last_snapshot_is_shown(db: Db) {
    let (log, _) = written(&db).await;
    let server = Server::start(&log).await;
    let one = get(&server, "/v1/workflows/notes/a").await;
    assert_eq!((&one["state"], &one["snapshot"]["version"]), (&Value::Null, &json!(2)));
    // Where the events are is known by the code.
    assert_eq!((&one["version"], &one["events"]), (&Value::Null, &Value::Null));
    let listed = get(&server, "/v1/workflows").await;
    assert_eq!(listed["items"], json!([{"workflow": "notes", "has_code": false}]));
    // The category may also be the name.
    let same = get(&server, "/v1/workflows/Note/a").await;
    assert_eq!((&same["version"], &same["snapshot"]), (&json!(3), &Value::Null));
}
