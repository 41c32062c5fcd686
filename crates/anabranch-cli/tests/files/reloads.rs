//! A file that changes while it is run: what has changed is handed over, and what has not never stops.

use crate::changes::{FILE, changed, until};
use crate::place::{Place, number, rows};
use crate::process::stdout;
use anabranch::prelude::*;
use std::fs::File;
use std::process::{Child, Stdio};

/// A process that writes what it says into a file, so that it can be looked at while it runs.
struct Process<'p>(Child, &'p Place);

impl<'p> Process<'p> {
    fn start(place: &'p Place, arguments: &[&str]) -> Self {
        let said = File::create(place.path("said.txt")).unwrap();
        let mut command = place.process(arguments);
        Self(command.stdout(Stdio::null()).stderr(said).spawn().unwrap(), place)
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.1.path("said.txt")).unwrap()
    }

    async fn until_said(&self, part: &str) {
        let what = format!("it to say {part:?}");
        until(&what, async || self.said().contains(part).then_some(())).await;
    }

    fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        std::process::Command::new("kill").args([signal, &id]).status().unwrap();
    }

    fn stop(mut self) {
        self.signal("-TERM");
        let ended = self.0.wait().unwrap();
        assert!(ended.success(), "{ended}: {}", self.said());
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The cursors of a consumer with their epochs, which rise when one is claimed or released.
async fn epochs(log: &Log, consumer: &str) -> Vec<(i64, i64)> {
    let cursors = log.database().dialect().table("cursors");
    let select =
        format!("SELECT id, epoch FROM {cursors} WHERE consumer = '{consumer}' ORDER BY id");
    rows(log, &select).await.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect()
}

async fn until_count(log: &Log, table: &str, count: i64) {
    until(&format!("{count} rows of {table}"), async || {
        (number(log, &format!("SELECT count(*) FROM {table}")).await == count).then_some(())
    })
    .await;
}

const ADDED: &str = r#"
[[replica_set.projection]]
name = "added"
partition = "entity:Order"
setup = 'CREATE TABLE added (id TEXT PRIMARY KEY)'
[replica_set.projection.on]
OrderPlaced = 'INSERT INTO added (id) VALUES (:stream_id)'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn only_what_has_changed_is_handed_over() {
    for place in [Place::sqlite(), Place::postgres()] {
        place.write("orders.toml", FILE);
        let log = place.log().await;
        let order = async |id: &str| place.order(&log, id, r#"{"cents": 1}"#).await;
        let by_new =
            async || number(&log, "SELECT count(*) FROM totals WHERE by_code = 'new'").await;
        stdout(&place.command(&["run", "orders.toml", "--catch-up"]));
        let process = Process::start(&place, &["run", "orders.toml", "--watch", "--accept"]);
        order("1").await;
        until_count(&log, "totals", 1).await;
        until_count(&log, "seen", 1).await;
        let seen = epochs(&log, "seen").await;

        // Other code for one, a new one, and one that is gone later.
        place.write("orders.toml", &(changed() + ADDED));
        process.until_said("`totals` has changed; `added` is new, and begins").await;
        process.until_said("accepted for `totals`").await;
        order("2").await;
        until_count(&log, "totals", 2).await;
        until_count(&log, "seen", 2).await;
        until_count(&log, "added", 2).await;
        assert_eq!(by_new().await, 1);

        // What cannot be used changes nothing.
        for (text, why) in [
            ("", "it is empty"),
            (&changed()[..changed().len() - 9], "it ends in the middle of a line"),
            (&changed().replace("INTO seen", "INTO sen"), "INTO sen (id)"),
            (&changed().replacen("entity:Order", "customer", 1), "it was partitioned by"),
            (&changed().replace("\"reports\"", "\"other\""), "needs a restart"),
            (&format!("namespace = \"other\"\n{}", changed()), "needs a restart"),
        ] {
            place.write("orders.toml", text);
            process.until_said(why).await;
            assert!(process.said().contains("what runs goes on as it was"), "{}", process.said());
            std::fs::write(place.path("said.txt"), "").unwrap();
        }
        place.write("orders.toml", &changed());
        process.until_said("`added` is gone").await;
        order("3").await;
        until_count(&log, "totals", 3).await;
        until_count(&log, "seen", 3).await;
        assert_eq!(number(&log, "SELECT count(*) FROM added").await, 2);
        let now = epochs(&log, "seen").await;
        assert_eq!(now, seen, "what has not changed was handed over");

        // Lanes are of the whole set.
        let lanes = changed().replace("name = \"reports\"", "name = \"reports\"\nlanes = 3");
        place.write("orders.toml", &lanes);
        process.until_said("replica set `reports` is run in another way").await;
        order("4").await;
        until_count(&log, "totals", 4).await;
        until_count(&log, "seen", 4).await;
        until("one worker with three lanes", async || {
            let workers = anabranch::operate::Consumers::new(&log).workers().await.unwrap();
            (workers.len() == 1 && workers[0].lanes == 3).then_some(())
        })
        .await;
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reads_the_file_again_and_other_code_waits() {
    let place = Place::sqlite();
    place.write("orders.toml", FILE);
    let log = place.log().await;
    stdout(&place.command(&["run", "orders.toml", "--catch-up"]));
    let process = Process::start(&place, &["run", "orders.toml"]);
    place.order(&log, "1", r#"{"cents": 1}"#).await;
    until_count(&log, "totals", 1).await;
    process.signal("-HUP");
    process.until_said("changes nothing that runs").await;
    place.write("orders.toml", &changed());
    process.signal("-HUP");
    process.until_said("`totals` has changed").await;
    process.until_said("has other code here").await;
    place.order(&log, "2", r#"{"cents": 1}"#).await;
    until_count(&log, "seen", 2).await;
    assert_eq!(number(&log, "SELECT count(*) FROM totals").await, 1);
    // Accepted by another process, it begins in this one.
    let accepts = place.command(&["run", "orders.toml", "--accept", "totals", "--catch-up"]);
    stdout(&accepts);
    until_count(&log, "totals", 2).await;
    place.order(&log, "3", r#"{"cents": 1}"#).await;
    until_count(&log, "totals", 3).await;
    process.stop();
}
