//! Timers that came due while nobody ran do not race the actions that they guard.

use crate::on_both;
use crate::running::{set, shown, until_logged};
use crate::shop::*;
use crate::support::{Db, query, start, until};
use anabranch::HandlerError;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::workflow::Workflows;
use anabranch::workpool::Tasks;
use anabranch::workpool::{TaskState, TaskStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_both!(
    an_action_that_waited_comes_before_the_timer_that_guards_it,
    what_an_action_led_to_comes_before_the_timer,
    an_action_that_waits_behind_others_comes_before_its_timer,
    an_action_that_was_tried_holds_up_no_timer,
    a_timer_that_is_cancelled_while_it_waits_never_fires,
    a_timer_that_was_delivered_before_a_crash_comes_once,
    a_timer_that_is_delivered_late_by_a_zombie_comes_once,
);

/// Orders whose timers came due while nobody ran. `stops` are the pools that did nothing before that, and `ready`
/// is how many tasks of one of them each order then has.
async fn outage(
    log: &Log,
    shop: &Workflows<Shop>,
    orders: &[&str],
    stops: &[&str],
    ready: (&str, usize),
) {
    let consumers = Consumers::new(log);
    // Registers them.
    start(log, set(shop)).stop().await;
    for pool in stops {
        consumers.pause(pool).await.unwrap();
    }
    let worker = start(log, set(shop));
    let (pool, count) = ready;
    for (number, order) in (1..).zip(orders) {
        shop.send(order, Command::Place { pay_within_ms: 3_600_000 }).await.unwrap();
        until("what waits", async || {
            let ready = Tasks::new(log, pool).list(TaskState::Ready, 9).await.unwrap();
            let commands = Tasks::new(log, "shop.commands");
            let timers = commands.list(TaskState::Scheduled, 9).await.unwrap();
            (ready.len() == number * count && timers.len() == number).then_some(())
        })
        .await;
    }
    worker.stop().await;
    let late = format!(
        "UPDATE {} SET due_us = 1 WHERE pool = 'shop.commands' AND due_us > 0",
        log.store().database().dialect().table("tasks")
    );
    query(log, &late, vec![]).await;
    for pool in stops {
        consumers.resume(pool).await.unwrap();
    }
}

/// A shop whose letter takes until the gate is open.
fn gated() -> (Shop, Arc<AtomicBool>) {
    let gate = Arc::new(AtomicBool::new(false));
    let open = Arc::clone(&gate);
    let shop = Shop::new("shop").act(move |_, action, _| {
        while action == "letter" && !open.load(Ordering::SeqCst) {
            tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(5)));
        }
        Ok(vec![Command::Note(format!("did {action}"))])
    });
    (shop, gate)
}

async fn until_put_off(commands: &Tasks) {
    until("a timer that was put off", async || {
        let done = commands.list(TaskState::Done, 9).await.unwrap();
        done.iter().any(|task| task.result == Some("put_off".into())).then_some(())
    })
    .await;
}

async fn an_action_that_waited_comes_before_the_timer_that_guards_it(db: Db) {
    let log = db.log().await;
    let (shop, gate) = gated();
    let shop = Workflows::new(&log, shop);
    outage(&log, &shop, &["a"], &["shop.actions", "shop.commands"], ("shop.actions", 1)).await;
    let worker = start(&log, set(&shop));
    until_put_off(&Tasks::new(&log, "shop.commands")).await;
    gate.store(true, Ordering::SeqCst);
    until("the timer", async || (shown(&shop, "a").await.len() == 4).then_some(())).await;
    assert_eq!(shown(&shop, "a").await, ["placed", "thanks a", "did letter", "too late"]);
    worker.stop().await;
}

async fn what_an_action_led_to_comes_before_the_timer(db: Db) {
    let log = db.log().await;
    let shop = Workflows::new(&log, Shop::new("shop"));
    outage(&log, &shop, &["a"], &["shop.commands"], ("shop.commands", 2)).await;
    let worker = start(&log, set(&shop));
    until("the timer", async || (shown(&shop, "a").await.len() == 4).then_some(())).await;
    assert_eq!(shown(&shop, "a").await, ["placed", "thanks a", "did letter", "too late"]);
    worker.stop().await;
}

/// The first action hangs, so its timer comes. The second one has not begun, so its timer waits, though it was found
/// at the same time.
async fn an_action_that_waits_behind_others_comes_before_its_timer(db: Db) {
    let log = db.log().await;
    let gate = Arc::new(AtomicBool::new(false));
    let open = Arc::clone(&gate);
    let shop = Shop { in_flight: 1, ..Shop::new("shop") }.act(move |_, action, _| {
        while !open.load(Ordering::SeqCst) {
            tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(5)));
        }
        Ok(vec![Command::Note(format!("did {action}"))])
    });
    let shop = Workflows::new(&log, shop);
    let stops = ["shop.actions", "shop.commands"];
    outage(&log, &shop, &["a", "b"], &stops, ("shop.actions", 1)).await;
    let worker = start(&log, ReplicaSet::new("shop").workflow(&shop).lanes(1));
    until("the timer of the first", async || {
        (shown(&shop, "a").await == ["placed", "thanks a", "too late"]).then_some(())
    })
    .await;
    let looks = async || {
        let done = Tasks::new(&log, "shop.commands").list(TaskState::Done, 1000).await.unwrap();
        let is_look = |task: &&TaskStatus| task.key == "b" && task.result == Some("put_off".into());
        done.iter().filter(is_look).count()
    };
    let before = looks().await;
    until("the second timer looks on", async || (looks().await >= before + 2).then_some(())).await;
    gate.store(true, Ordering::SeqCst);
    until("the timer of the second", async || (shown(&shop, "b").await.len() == 4).then_some(()))
        .await;
    assert_eq!(shown(&shop, "b").await, ["placed", "thanks b", "did letter", "too late"]);
    worker.stop().await;
}

async fn an_action_that_was_tried_holds_up_no_timer(db: Db) {
    let log = db.log().await;
    let hour = Duration::from_secs(3_600);
    let shop = Shop::new("shop").act(move |_, _, _| Err(HandlerError::try_after(hour, "not now")));
    let shop = Workflows::new(&log, shop);
    outage(&log, &shop, &["a"], &["shop.actions", "shop.commands"], ("shop.actions", 1)).await;
    let worker = start(&log, set(&shop));
    until_logged(&shop, "a", &["placed", "thanks a", "too late"]).await;
    let actions = Tasks::new(&log, "shop.actions").list(TaskState::Ready, 9).await.unwrap();
    assert_eq!((actions.len(), actions[0].attempts), (1, 1));
    worker.stop().await;
}

/// Its command is in the log, and its task has not ended: the worker died in between. Put off, it must not come again
/// under another id.
async fn a_timer_that_was_delivered_before_a_crash_comes_once(db: Db) {
    let log = db.log().await;
    let shop = Workflows::new(&log, Shop::new("shop"));
    outage(&log, &shop, &["a"], &["shop.actions", "shop.commands"], ("shop.actions", 1)).await;
    let commands = Tasks::new(&log, "shop.commands");
    let timer = until("the timer", async || {
        let waiting = [TaskState::Scheduled, TaskState::Ready];
        let mut tasks = Vec::new();
        for state in waiting {
            tasks.extend(commands.list(state, 9).await.unwrap());
        }
        tasks.into_iter().find(|task| task.run_at.is_some())
    })
    .await;
    shop.send_as(timer.id, "a", Command::Note("too late".to_owned())).await.unwrap();
    let worker = start(&log, set(&shop));
    comes_once(&shop, &commands).await;
    worker.stop().await;
}

/// A worker stands still before it delivers the command, and does so when another one has put the timer off.
async fn a_timer_that_is_delivered_late_by_a_zombie_comes_once(db: Db) {
    let log = db.log().await;
    let (shop, gate) = gated();
    let shop = Workflows::new(&log, shop);
    outage(&log, &shop, &["a"], &["shop.actions", "shop.commands"], ("shop.actions", 1)).await;
    let commands = Tasks::new(&log, "shop.commands");
    let worker = start(&log, set(&shop));
    until_put_off(&commands).await;
    let done = commands.list(TaskState::Done, 99).await.unwrap();
    let first = done.iter().filter(|task| task.result == Some("put_off".into()));
    let first = first.min_by_key(|task| task.enqueued_at).unwrap().id;
    shop.send_as(first, "a", Command::Note("too late".to_owned())).await.unwrap();
    gate.store(true, Ordering::SeqCst);
    comes_once(&shop, &commands).await;
    worker.stop().await;
}

async fn comes_once(shop: &Workflows<Shop>, commands: &Tasks) {
    until("all is done", async || {
        let mut open = commands.list(TaskState::Ready, 9).await.unwrap().len();
        open += commands.list(TaskState::Scheduled, 9).await.unwrap().len();
        let done = shown(shop, "a").await;
        (open == 0 && done.contains(&"did letter".to_owned())).then_some(())
    })
    .await;
    let mut all = shown(shop, "a").await;
    all.sort();
    assert_eq!(all, ["did letter", "placed", "thanks a", "too late"], "once");
}

async fn a_timer_that_is_cancelled_while_it_waits_never_fires(db: Db) {
    let log = db.log().await;
    let (shop, gate) = gated();
    let shop = Workflows::new(&log, shop);
    outage(&log, &shop, &["a"], &["shop.actions", "shop.commands"], ("shop.actions", 1)).await;
    let worker = start(&log, set(&shop));
    let commands = Tasks::new(&log, "shop.commands");
    until_put_off(&commands).await;
    shop.send("a", Command::Pay).await.unwrap();
    until("its end", async || {
        let ended = commands.list(TaskState::Cancelled, 9).await.unwrap();
        (ended.len() == 1).then_some(())
    })
    .await;
    gate.store(true, Ordering::SeqCst);
    until_logged(&shop, "a", &["placed", "thanks a", "paid", "did letter", "did ship"]).await;
    assert!(commands.list(TaskState::Scheduled, 9).await.unwrap().is_empty());
    worker.stop().await;
}
