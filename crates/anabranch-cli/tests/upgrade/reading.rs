//! Commands that look at a log of the last version, or operate it, and leave its schema as it is.

use crate::crew::Worker;
use crate::last_version;
use crate::place::{Place, until};
use crate::process::{failure, stdout};

on_both! {
    a_log_of_the_last_version_is_operated_as_it_is,
    what_a_log_of_the_last_version_has_no_room_for_is_refused,
    migrations_of_the_last_version_never_change,
}

/// Those who look, and those who ask workers for something, which old ones understand.
const COMMANDS: [&str; 23] = [
    "tail",
    "tail --after 0 --json",
    "tail --stream Key:1",
    "status",
    "status ledger",
    "status --json",
    "workers",
    "generations",
    "offsets ledger",
    "offsets ledger --partitions 3",
    "rescale ledger --from 2 --to 3",
    "pause ledger",
    "resume ledger",
    "parked list ledger",
    "tasks pools",
    "tasks enqueue payouts cust-7 40",
    "tasks list payouts",
    "tasks list payouts --state done",
    "tasks retry --where pool=payouts",
    "tasks pause-key payouts cust-7",
    "tasks resume-key payouts cust-7",
    "partition explain Key:1 --consumer ledger",
    "skip-to-head ledger --yes",
];

async fn a_log_of_the_last_version_is_operated_as_it_is(place: Place) {
    let worker = with_a_consumer(&place).await;
    for command in COMMANDS {
        let arguments: Vec<&str> = command.split(' ').collect();
        let output = place.run(&place.new, &arguments);
        assert!(output.status.success(), "{command}: {output:?}");
        assert_eq!(place.schema().await, last_version::SCHEMA, "{command}");
    }
    until("the old worker goes on after all that", async || {
        stdout(&place.run(&place.new, &["status", "ledger"])).contains("running")
    })
    .await;
    assert_eq!(stdout(&place.run(&place.new, &["workers"])).lines().count(), 2);
    assert!(worker.stop().success());
}

async fn what_a_log_of_the_last_version_has_no_room_for_is_refused(place: Place) {
    let worker = with_a_consumer(&place).await;
    assert!(worker.stop().success());
    for command in [
        "forget ledger --yes",
        "import-positions new --strategy entity --rule fnv1a --partitions 1 --checkpoint 0=1 --yes",
        "chaos-worker --number 2",
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let error = failure(&place.run(&place.new, &arguments), 1);
        assert!(error.contains("has schema version 5, this program needs"), "{command}: {error}");
        assert!(error.contains("first install this program everywhere"), "{command}: {error}");
        assert!(error.contains("then run `anabranch migrate`"), "{command}: {error}");
        assert_eq!(place.schema().await, last_version::SCHEMA, "{command}");
    }
}

/// What the last version would apply is what this one applies first.
async fn migrations_of_the_last_version_never_change(place: Place) {
    let print = |program| stdout(&place.run(program, &["migrate", "--print"]));
    let (old, new) = (print(&place.old), print(&place.new));
    let end = "-- the hash rule of a new log";
    // It is one transaction, which that of older versions is not.
    let steps = |script: String| {
        let steps = script.split(end).next().unwrap();
        steps.strip_prefix("BEGIN;\n").unwrap_or(steps).to_owned()
    };
    let (old, new) = (steps(old), steps(new));
    assert!(!old.is_empty() && new.starts_with(&old), "a released migration was changed");
}

/// A log of the last version with one event, which a worker of that version has handled and waits for
/// more.
async fn with_a_consumer(place: &Place) -> Worker {
    stdout(&place.run(&place.old, &["migrate"]));
    stdout(&place.run(&place.old, &["append", "Key:1", "Counted"]));
    let mut worker = Worker::start(place, &place.old, 1);
    place.ledger_is_there(&mut worker).await;
    let handled = format!("SELECT count(*) FROM {}", place.table("handled"));
    until("the event is handled", async || place.number(&handled).await == 1).await;
    worker
}
