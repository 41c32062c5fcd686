//! Workflows in a replica set: actions, timers, schedules, others' events, pause and cancel.

use crate::on_both;
use crate::shop::{Command, Shop};
use crate::support::{Db, query, start, until};
use anabranch::HandlerError;
use anabranch::prelude::*;
use anabranch::workflow::Workflows;
use anabranch::workpool::TaskState;
use anabranch::workpool::Tasks;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_both!(
    actions_run_once_and_their_commands_follow,
    timers_fire_once_are_replaced_and_cancelled,
    a_schedule_fires_once_at_once_after_an_outage,
    workflows_hear_and_tell_each_other,
    a_paused_instance_waits_and_a_cancelled_one_ends,
    an_action_that_fails_for_good_parks_or_goes_on,
    a_compensated_action_is_tried_again_only_by_force,
    a_restart_neither_repeats_nor_forgets_actions,
);

pub async fn shown(shop: &Workflows<Shop>, id: &str) -> Vec<String> {
    shop.state(id).await.unwrap().map(|order| order.state.log).unwrap_or_default()
}

pub async fn until_logged(shop: &Workflows<Shop>, id: &str, wanted: &[&str]) {
    let mut wanted: Vec<&str> = wanted.to_vec();
    wanted.sort_unstable();
    until(&format!("{wanted:?} in {id}"), async || {
        let mut log = shown(shop, id).await;
        log.sort_unstable();
        assert!(log.len() <= wanted.len(), "{log:?} is more than {wanted:?}");
        (log == wanted).then_some(())
    })
    .await;
}

pub fn set(shop: &Workflows<Shop>) -> ReplicaSet {
    ReplicaSet::new("shop").workflow(shop).lanes(2)
}

async fn actions_run_once_and_their_commands_follow(db: Db) {
    let log = db.log().await;
    let shop = Workflows::new(&log, Shop::new("shop"));
    let worker = start(&log, set(&shop));
    for order in 0..20 {
        let id = format!("o{order}");
        shop.send(&id, Command::Place { pay_within_ms: 3_600_000 }).await.unwrap();
        shop.send(&id, Command::Pay).await.unwrap();
    }
    for order in 0..20 {
        let id = format!("o{order}");
        let thanks = format!("thanks {id}");
        until_logged(&shop, &id, &["placed", "paid", &thanks, "did letter", "did ship"]).await;
        let log = shown(&shop, &id).await;
        let at = |what: &str| log.iter().position(|entry| entry == what).unwrap();
        assert!(at("did letter") < at("did ship"), "{log:?}");
    }
    let calls = shop.workflow().calls.lock().unwrap().clone();
    assert_eq!(calls.len(), 40);
    // The payment timers are cancelled, everything else is done.
    let tasks = Tasks::new(&log, "shop.commands");
    until("nothing is open", async || {
        let open = tasks.list(TaskState::Ready, 10).await.unwrap();
        open.is_empty().then_some(())
    })
    .await;
    assert_eq!(tasks.list(TaskState::Cancelled, 100).await.unwrap().len(), 20);
    assert_eq!(tasks.list(TaskState::Scheduled, 100).await.unwrap().len(), 0);
    worker.stop().await;
}

async fn timers_fire_once_are_replaced_and_cancelled(db: Db) {
    let log = db.log().await;
    let shop = Workflows::new(&log, Shop::new("shop"));
    let worker = start(&log, set(&shop));
    let remind = |name: &str, ms| Command::Remind { name: name.to_owned(), ms };
    shop.send("a", remind("first", 300)).await.unwrap();
    shop.send("a", remind("gone", 400)).await.unwrap();
    shop.send("a", remind("second", 3_600_000)).await.unwrap();
    shop.send("a", remind("second", 500)).await.unwrap();
    shop.send("a", Command::Forget { name: "gone".to_owned() }).await.unwrap();
    until_logged(&shop, "a", &["remember first 300", "remember second 500"]).await;
    let tasks = Tasks::new(&log, "shop.commands");
    for fired in tasks.list(TaskState::Done, 10).await.unwrap() {
        let late = fired.finished_at.unwrap().duration_since(fired.run_at.unwrap());
        assert!(late.as_millis() < 1_000 && late.as_millis() >= 0, "{late:?}");
    }
    // One whose time comes while nobody runs fires as soon as somebody does, once.
    shop.send("b", remind("late", 10)).await.unwrap();
    until("the timer is set", async || {
        let known = tasks.list(TaskState::Scheduled, 10).await.unwrap();
        (!known.is_empty() || !shown(&shop, "b").await.is_empty()).then_some(())
    })
    .await;
    worker.stop().await;
    shop.send("c", remind("later", 10)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    let workers = [start(&log, set(&shop)), start(&log, set(&shop))];
    until_logged(&shop, "b", &["remember late 10"]).await;
    until_logged(&shop, "c", &["remember later 10"]).await;
    for worker in workers {
        worker.stop().await;
    }
}

async fn a_schedule_fires_once_at_once_after_an_outage(db: Db) {
    let log = db.log().await;
    let yearly = Shop { cron: Some("0 5 1 1 *"), ..Shop::new("shop") };
    let shop = Workflows::new(&log, yearly.clone());
    let tasks = Tasks::new(&log, "shop.commands");
    let waits = async || {
        until("a time that waits", async || {
            let waits = tasks.list(TaskState::Scheduled, 10).await.unwrap();
            (waits.len() == 1).then(|| waits[0].clone())
        })
        .await
    };
    let worker = start(&log, set(&shop));
    let next = waits().await;
    let local = next.run_at.unwrap().in_tz("Europe/Berlin").unwrap();
    assert_eq!((local.month(), local.day(), local.hour()), (1, 1, 5));
    worker.stop().await;
    // Its time comes, several times over, while nobody runs.
    let late = format!(
        "UPDATE {} SET due_us = 1 WHERE pool = 'shop.commands'",
        log.store().database().dialect().table("tasks")
    );
    query(&log, &late, vec![]).await;
    let workers = [start(&log, set(&shop)), start(&log, set(&shop))];
    until_logged(&shop, "clock", &["ticked"]).await;
    let after = until("the time after it", async || {
        let waits = tasks.list(TaskState::Scheduled, 10).await.unwrap();
        waits.into_iter().find(|task| task.id != next.id)
    })
    .await;
    assert_eq!(tasks.list(TaskState::Scheduled, 10).await.unwrap().len(), 1);
    assert!(after.run_at.unwrap() >= next.run_at.unwrap());
    for worker in workers {
        worker.stop().await;
    }
    // A schedule that has changed does not wait for the old time, and the old one sends nothing.
    let daily = Shop { cron: Some("30 4 * * *"), ..yearly };
    let shop = Workflows::new(&log, daily);
    let worker = start(&log, set(&shop));
    until("the new time", async || {
        let waits = tasks.list(TaskState::Scheduled, 10).await.unwrap();
        (waits.len() == 2).then_some(())
    })
    .await;
    let old = format!(
        "UPDATE {} SET due_us = 1 WHERE id = {}",
        log.store().database().dialect().table("tasks"),
        format_args!("'{}'", after.id)
    );
    worker.stop().await;
    query(&log, &old, vec![]).await;
    let worker = start(&log, set(&shop));
    let status = tasks.wait(after.id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(status.result, Some("outdated".into()));
    assert_eq!(shown(&shop, "clock").await, ["ticked"]);
    worker.stop().await;
}

async fn workflows_hear_and_tell_each_other(db: Db) {
    let log = db.log().await;
    let shop = Workflows::new(&log, Shop::new("shop"));
    let office = Workflows::new(&log, Shop { hears: true, ..Shop::new("office") });
    let set = ReplicaSet::new("both").workflow(&shop).workflow(&office);
    let worker = start(&log, set);
    shop.send("1", Command::Pay).await.unwrap();
    office.send("2", Command::Pay).await.unwrap();
    until_logged(&office, "of-1", &["heard of 1"]).await;
    let tell = Command::Tell { id: "9".to_owned(), note: "hello".to_owned() };
    shop.send("1", tell).await.unwrap();
    until_logged(&shop, "9", &["hello"]).await;
    assert_eq!(shown(&office, "of-2").await, Vec::<String>::new());
    worker.stop().await;
}

async fn a_paused_instance_waits_and_a_cancelled_one_ends(db: Db) {
    let log = db.log().await;
    let shop = Workflows::new(&log, Shop::new("shop"));
    for id in ["a", "b"] {
        shop.send(id, Command::Note("begun".to_owned())).await.unwrap();
        shop.send(id, Command::Remind { name: "x".to_owned(), ms: 1 }).await.unwrap();
        shop.send(id, Command::Do("work".to_owned())).await.unwrap();
    }
    shop.pause("a", "a holiday").await.unwrap();
    shop.cancel("b", "no money").await.unwrap();
    let worker = start(&log, set(&shop));
    shop.send("c", Command::Do("work".to_owned())).await.unwrap();
    until_logged(&shop, "c", &["did work"]).await;
    // What was under way waits, or has ended.
    let (commands, actions) = (Tasks::new(&log, "shop.commands"), Tasks::new(&log, "shop.actions"));
    for tasks in [&commands, &actions] {
        until("a's wait and b's have ended", async || {
            let mut open = tasks.list(TaskState::Ready, 10).await.unwrap();
            open.extend(tasks.list(TaskState::Scheduled, 10).await.unwrap());
            let held = tasks.list(TaskState::Held, 10).await.unwrap();
            (open.is_empty() && held.iter().all(|task| task.key == "a")).then_some(())
        })
        .await;
    }
    assert_eq!(shown(&shop, "a").await, ["begun"]);
    assert!(shop.send("a", Command::Pay).await.is_err());
    shop.resume("a").await.unwrap();
    until_logged(&shop, "a", &["begun", "did work", "remember x 1"]).await;
    assert_eq!(shown(&shop, "b").await, ["begun"]);
    worker.stop().await;
}

/// The command of its failure and that of its success are two, whatever their numbers.
async fn a_compensated_action_is_tried_again_only_by_force(db: Db) {
    let log = db.log().await;
    let works = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&works);
    let shop =
        Shop::new("shop").act(move |_, action, attempt| match is_well.load(Ordering::SeqCst) {
            false => Err(HandlerError::for_good("no such address")),
            true => Ok(vec![Command::Note(format!("did {action} at {attempt}"))]),
        });
    let shop = Workflows::new(&log, shop);
    let worker = start(&log, set(&shop));
    shop.send("a", Command::Do("letter".to_owned())).await.unwrap();
    until_logged(&shop, "a", &["gave up letter: no such address"]).await;
    assert_eq!(shop.workflow().calls.lock().unwrap().len(), 1, "for good");
    let actions = Tasks::new(&log, "shop.actions");
    let compensated = actions.list(TaskState::Compensated, 10).await.unwrap();
    assert_eq!((compensated.len(), compensated[0].attempts), (1, 1));
    // What the command has logged is there before its task has ended.
    until("the end of the command", async || {
        let refused = actions.retry(compensated[0].id).await.unwrap_err().to_string();
        assert!(refused.contains("of pool `shop.commands`, key `a` ("), "{refused}");
        refused.contains("key `a` (done)").then_some(())
    })
    .await;
    works.store(true, Ordering::SeqCst);
    actions.retry_anyway(compensated[0].id).await.unwrap();
    until_logged(&shop, "a", &["gave up letter: no such address", "did letter at 1"]).await;
    worker.stop().await;
}

async fn an_action_that_fails_for_good_parks_or_goes_on(db: Db) {
    let log = db.log().await;
    let works = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&works);
    let shop = Shop::new("shop").act(move |_, action, attempt| match action {
        "flaky" if attempt < 3 => Err(HandlerError::new("not yet")),
        "broken" => Err(HandlerError::new("no such address")),
        "hopeless" if !is_well.load(Ordering::SeqCst) => Err(HandlerError::new("no")),
        action => Ok(vec![Command::Note(format!("did {action} at {attempt}"))]),
    });
    let shop = Workflows::new(&log, shop);
    let worker = start(&log, set(&shop));
    for action in ["flaky", "broken", "hopeless", "last"] {
        shop.send("a", Command::Do(action.to_owned())).await.unwrap();
    }
    until_logged(&shop, "a", &["did flaky at 3", "gave up broken: no such address"]).await;
    let actions = Tasks::new(&log, "shop.actions");
    let dead = until("a dead action that holds its instance", async || {
        let dead = actions.list(TaskState::Dead, 10).await.unwrap();
        let hopeless = dead.into_iter().find(|task| task.error.as_deref() == Some("no"));
        hopeless.filter(|task| task.attempts == 3)
    })
    .await;
    // Somebody mends it.
    works.store(true, Ordering::SeqCst);
    actions.retry(dead.id).await.unwrap();
    let all =
        ["did flaky at 3", "gave up broken: no such address", "did hopeless at 1", "did last at 1"];
    until_logged(&shop, "a", &all).await;
    worker.stop().await;
}

async fn a_restart_neither_repeats_nor_forgets_actions(db: Db) {
    let log = db.log().await;
    let shop = Workflows::new(&log, Shop::new("shop"));
    let mut expected: Vec<String> = Vec::new();
    for round in 0..10 {
        let other = db.log().await;
        let here = Workflows::new(&other, shop.workflow().clone());
        let worker = start(&other, set(&here));
        let action = format!("a{round}");
        for id in 0..5 {
            shop.send(&id.to_string(), Command::Do(action.clone())).await.unwrap();
        }
        expected.push(format!("did {action}"));
        if round % 2 == 0 {
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            until_logged(&shop, "3", &expected).await;
        }
        worker.crash();
    }
    let worker = start(&log, set(&shop));
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    for id in 0..5 {
        until_logged(&shop, &id.to_string(), &expected).await;
        assert_eq!(shown(&shop, &id.to_string()).await, expected, "in order");
    }
    worker.stop().await;
}
