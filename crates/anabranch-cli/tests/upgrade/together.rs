//! Workers of both versions share a replica set, through the migration, under load.

use crate::crew::{Appender, Worker, all_go_on};
use crate::place::Place;
use crate::process::stdout;
use crate::tally::Tally;
use crate::{last_version, ledger};

on_both! {
    old_and_new_workers_lose_double_and_mix_up_nothing,
    old_workers_beside_new_ones_with_other_consumers,
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
    // Running old workers go on, and one that starts now runs beside them.
    all_go_on(&place, &mut workers).await;
    assert_eq!(place.number(&started).await, before, "a worker had to begin anew");
    workers.push(Worker::start(&place, old, 9));
    all_go_on(&place, &mut workers).await;

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

/// The new program has renamed the ledger, say: in the same set it runs something else. Old workers share
/// what only they run, new ones what only those do, and both what both run.
async fn old_workers_beside_new_ones_with_other_consumers(place: Place) {
    let (old, new) = (place.old.as_path(), place.new.as_path());
    stdout(&place.run(new, &["migrate"]));
    let mut workers = vec![Worker::start(&place, old, 1), Worker::start(&place, old, 2)];
    let appends = Appender::start(&place, old);
    place.ledger_is_there(&mut workers[0]).await;
    all_go_on(&place, &mut workers).await;
    let others = [Tally::start(&place, "tally").await, Tally::start(&place, "tally").await];
    // Only old ones run the ledger: all of it is theirs. Only new ones run the other.
    place.is_shared("ledger", 2).await;
    place.is_shared_evenly("tally", 2).await;
    all_go_on(&place, &mut workers).await;
    // An old one joins and, knowing nothing of that, plans for all alike.
    let epochs =
        format!("SELECT sum(epoch) FROM {} WHERE consumer = 'tally'", place.table("cursors"));
    let before = place.number(&epochs).await;
    workers.push(Worker::start(&place, old, 3));
    place.is_shared("ledger", 3).await;
    place.is_shared_evenly("tally", 2).await;
    assert_eq!(place.number(&epochs).await, before, "what old ones do not run has not moved");
    all_go_on(&place, &mut workers).await;
    // Now a new one runs the ledger, too; an old one dies, and one leaves.
    workers.push(Worker::start(&place, new, 4));
    place.is_shared("ledger", 4).await;
    all_go_on(&place, &mut workers).await;
    workers.remove(0).kill();
    place.is_shared("ledger", 3).await;
    place.is_shared_evenly("tally", 2).await;
    assert!(workers.remove(0).stop().success());
    all_go_on(&place, &mut workers).await;
    // The last old one leaves.
    assert!(workers.remove(0).stop().success());
    place.is_shared("ledger", 1).await;
    place.is_shared_evenly("tally", 2).await;
    all_go_on(&place, &mut workers).await;

    let appended = appends.finish();
    ledger::prove(&place, appended).await;
    Tally::prove(&place, "tally", appended).await;
    for other in others {
        other.stop().await;
    }
    assert!(workers.into_iter().all(|worker| worker.stop().success()));
}
