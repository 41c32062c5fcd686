//! Programs of pools that cannot be started: no task is to blame.

use crate::on_both;
use crate::script::Script;
use crate::support::{Db, end_of, start, status, until};
use anabranch::Retry;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, PoolSet, PoolSettings, TaskState, Tasks};
use anabranch_file::program::{OutsideProgramPool, ProgramPool};

on_both! {
    of_a_pool_with_effects_in_the_database,
    of_a_pool_with_effects_outside,
}

/// Tasks that would be dead after one attempt wait until the program is there.
async fn waits(db: Db, set: impl FnOnce(&Script, &Log, PoolSettings) -> ReplicaSet) {
    let (log, script) = (db.log().await, Script::new("import no_such_module"));
    let settings = PoolSettings::default().retry(Retry::never()).in_flight_per_process(3);
    let worker = start(&log, set(&script, &log, settings));
    let (tasks, mut ids) = (Tasks::new(&log, "p"), Vec::new());
    for key in ["a", "b", "b", "c"] {
        ids.push(tasks.enqueue(NewTask::new(key, &1)).await.unwrap().id);
    }
    let outage = until("the outage", async || {
        anabranch::operate::Consumers::new(&log).status("p").await.ok()?.outage
    })
    .await;
    assert!(outage.error.contains("No module named 'no_such_module'"), "{outage:?}");
    until("a try in vain", async || (status(&log, "p").await.outage?.probes > 1).then_some(()))
        .await;
    script.becomes("greet()\nwhile True:\n    say(done=read()['batch'])\n    sys.stdout.flush()");
    for id in ids {
        let task = end_of(&tasks, id).await;
        assert_eq!((task.state, task.attempts), (TaskState::Done, 0), "{:?}", task.error);
    }
    worker.stop().await;
}

async fn of_a_pool_with_effects_in_the_database(db: Db) {
    waits(db, |script, log, settings| {
        let pool = ProgramPool::new(&script.programs, log, "p", settings, script.command());
        ReplicaSet::new("s").pool(pool)
    })
    .await;
}

async fn of_a_pool_with_effects_outside(db: Db) {
    waits(db, |script, log, settings| {
        let pool = OutsideProgramPool::new(&script.programs, log, "p", settings, script.command());
        ReplicaSet::new("s").outside_pool(pool)
    })
    .await;
}
