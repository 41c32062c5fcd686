//! Workers of both versions share a replica set, through the migration, under load.

use crate::crew::{Appender, Worker, all_go_on};
use crate::place::Place;
use crate::process::{failure, stdout};
use crate::{last_version, ledger};

on_both! {
    old_and_new_workers_lose_double_and_mix_up_nothing,
}

async fn old_and_new_workers_lose_double_and_mix_up_nothing(place: Place) {
    let (old, new) = (place.old.as_path(), place.new.as_path());
    stdout(&place.run(old, &["migrate"]));
    assert_eq!(place.schema().await, last_version::SCHEMA);
    let mut workers: Vec<Worker> = (1..=3).map(|n| Worker::start(&place, old, n)).collect();
    let old_appends = Appender::start(&place, old);
    place.ledger_is_there(&mut workers[0]).await;
    all_go_on(&place, &mut workers).await;

    // Looking does not migrate.
    assert!(stdout(&place.run(new, &["tail", "-n", "1"])).contains("Counted"));
    assert!(stdout(&place.run(new, &["status"])).contains("ledger"));
    assert_eq!(place.schema().await, last_version::SCHEMA);

    let started = format!("SELECT max(started_us) FROM {}", place.table("workers"));
    let before = place.number(&started).await;
    stdout(&place.run(new, &["migrate"]));
    assert!(place.schema().await > last_version::SCHEMA);
    let new_appends = Appender::start(&place, new);
    // Running old workers go on; one that starts now does not.
    all_go_on(&place, &mut workers).await;
    assert_eq!(place.number(&started).await, before, "a worker had to begin anew");
    let refused = place.run(old, &["chaos-worker", "--number", "9"]);
    assert!(failure(&refused, 1).contains("upgrade this program"));

    workers.extend((4..=5).map(|number| Worker::start(&place, new, number)));
    all_go_on(&place, &mut workers).await;
    // Old workers leave and die; new ones take over.
    assert!(workers.remove(0).stop().success());
    workers.remove(0).kill();
    workers.push(Worker::start(&place, new, 6));
    all_go_on(&place, &mut workers).await;
    // And the other way round: an old one takes over from new ones.
    for number in [4, 5] {
        let place_of = workers.iter().position(|worker| worker.number == number).unwrap();
        assert!(workers.remove(place_of).stop().success());
    }
    all_go_on(&place, &mut workers).await;

    let appended = old_appends.finish() + new_appends.finish();
    ledger::prove(&place, appended).await;
    assert!(workers.into_iter().all(|worker| worker.stop().success()));
    ledger::prove(&place, appended).await;
}
