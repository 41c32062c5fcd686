//! One consumer's failure is its own: the others of its set go on, and it goes on when it is cured.

use crate::on_both;
use crate::support::{Db, Proof, Recorder, fill, proof, query, start, status, until};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{Failure, HandlerError, Retry, RunError, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

on_both! {
    stop_pauses_its_consumer_alone_and_it_goes_on_when_cured,
    a_broken_handler_pauses_its_consumer_and_parks_nothing,
    a_broken_handler_is_noticed_however_many_lanes_share_its_keys,
    a_missing_table_stops_its_projection_until_it_is_there,
    a_consumer_that_is_refused_stops_alone,
    a_refused_scope_goes_on_once_it_is_accepted,
    a_set_whose_consumers_are_all_refused_ends,
    a_set_up_that_fails_is_tried_again,
    fail_fast_ends_with_the_first_failure,
    the_others_are_caught_up_before_the_error,
    resume_ends_an_outage_at_once,
    a_pause_by_somebody_wins_over_a_try,
    a_consumer_that_was_forgotten_does_not_come_back,
    one_bad_event_does_not_keep_a_cured_consumer_stopped,
    nor_does_it_where_nothing_else_is_tried_again,
}

const ALL: Proof = Proof { handled: 500, doubled: 0, keys: 500, wrong: 0 };

/// Short pauses: the cases wait for many tries.
pub fn quick() -> Tuning {
    Tuning::default().probes(Duration::from_millis(20), Duration::from_millis(80))
}

fn set() -> ReplicaSet {
    ReplicaSet::new("s").tuning(quick())
}

/// A switch, and a hook that fails until it is on.
fn until_on(switch: &Arc<AtomicBool>) -> impl Fn(&Event) -> HandlerResult + Send + Sync + 'static {
    let switch = Arc::clone(switch);
    move |_| match switch.load(Ordering::SeqCst) {
        true => Ok(()),
        false => Err(HandlerError::new("the endpoint refuses connections")),
    }
}

async fn until_handled(log: &Log, recorder: &Recorder, all: Proof) {
    let what = format!("{} to handle everything", recorder.name);
    until(&what, async || {
        let known = Consumers::new(log).list().await.ok()?;
        known.iter().find(|known| known.name == recorder.name)?;
        (proof(log, &recorder.table).await == all).then_some(())
    })
    .await;
}

pub async fn until_tried(log: &Log, name: &str, times: u64) {
    until(&format!("{times} tries of {name}"), async || {
        let status = Consumers::new(log).status(name).await.ok()?;
        status.outage.filter(|outage| outage.probes >= times)
    })
    .await;
}

async fn stop_pauses_its_consumer_alone_and_it_goes_on_when_cured(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let on = Arc::new(AtomicBool::new(false));
    let hook = {
        let on = until_on(&on);
        move |event: &Event| if event.stream_id() == "33" { on(event) } else { Ok(()) }
    };
    let retry = Retry::default().first(Duration::from_millis(1)).attempts(3).then(Failure::Stop);
    let bad = db.recorder("bad").hook(hook).settings(Settings::default().retry(retry));
    let good = db.recorder("good");
    let running = start(&log, set().projection(bad.clone()).projection(good.clone()).lanes(3));
    until_handled(&log, &good, ALL).await;
    until_tried(&log, "bad", 3).await;
    let now = status(&log, "bad").await;
    let outage = now.outage.unwrap();
    assert!(outage.error.contains("refuses connections (Numbered Order:33@1"), "{outage}");
    let said = outage.to_string();
    // In a moment, or due already.
    assert!(said.starts_with("stopped by itself") && said.contains(", next i"), "{said}");
    assert!(status(&log, "good").await.outage.is_none());
    assert!(proof(&log, &bad.table).await.handled < 500 && !running.has_ended());
    on.store(true, Ordering::SeqCst);
    until_handled(&log, &bad, ALL).await;
    until("no outage", async || status(&log, "bad").await.outage.is_none().then_some(())).await;
    running.stop().await;
}

async fn a_broken_handler_pauses_its_consumer_and_parks_nothing(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let on = Arc::new(AtomicBool::new(false));
    // Each key has one try more than it needs to become a key that waits.
    let retry = Retry::default().attempts(2).first(Duration::from_secs(3600));
    let settings = Settings::default().retry(retry);
    let bad = db.recorder("bad").hook(until_on(&on)).settings(settings);
    let (good, calls) = (db.recorder("good"), Arc::clone(&bad.handled));
    let running = start(&log, set().projection(bad.clone()).projection(good.clone()));
    until_handled(&log, &good, ALL).await;
    until_tried(&log, "bad", 1).await;
    let before = (calls.load(Ordering::SeqCst), status(&log, "bad").await.outage.unwrap().probes);
    until_tried(&log, "bad", before.1 + 8).await;
    let probes = status(&log, "bad").await.outage.unwrap().probes - before.1;
    let tried = calls.load(Ordering::SeqCst) - before.0;
    assert!(tried <= probes + 1, "one event each time: {tried} calls, {probes} tries");
    let now = status(&log, "bad").await;
    assert_eq!(now.parked_keys, 0);
    let (aside, tries) = (now.retrying_keys as u64, now.outage.unwrap().probes);
    // Every other try is one of a key that is set aside already.
    assert!(aside <= 99 + tries.div_ceil(2), "{aside} keys are set aside after {tries} tries");
    on.store(true, Ordering::SeqCst);
    until("no outage", async || status(&log, "bad").await.outage.is_none().then_some(())).await;
    // Those that were set aside wait for their time, or for somebody.
    let consumers = Consumers::new(&log);
    for key in consumers.parked("bad").await.unwrap() {
        consumers.retry_parked("bad", &key.key).await.unwrap();
    }
    until_handled(&log, &bad, ALL).await;
    running.stop().await;
}

/// Ten keys are enough, and each of them has five tries: nothing is parked before it is tried in vain.
/// Each lane has fewer keys than are too many; together they have more. None of them is given up.
async fn a_broken_handler_is_noticed_however_many_lanes_share_its_keys(db: Db) {
    let log = db.log().await;
    fill(&log, 0..150, 1..=1).await;
    let hour = Duration::from_secs(3600);
    let retry = Retry::default().attempts(9).first(hour).longest(hour);
    let on = Arc::new(AtomicBool::new(false));
    let bad = db.recorder("bad").hook(until_on(&on)).settings(Settings::default().retry(retry));
    let running = start(&log, set().lanes(4).projection(bad));
    until_tried(&log, "bad", 1).await;
    running.stop().await;
}

async fn a_missing_table_stops_its_projection_until_it_is_there(db: Db) {
    let log = db.log().await;
    fill(&log, 0..50, 1..=1).await;
    let retry = Retry::default().first(Duration::from_millis(1)).longest(Duration::from_millis(4));
    let bad = db.recorder("bad").settings(Settings::default().retry(retry));
    let good = db.recorder("good");
    let both = || set().projection(bad.clone()).projection(good.clone());
    both().catch_up(&log).await.unwrap();
    let table = &bad.table;
    query(&log, &format!("ALTER TABLE {table} RENAME TO {table}_away"), vec![]).await;
    fill(&log, 0..50, 2..=2).await;
    let running = start(&log, both());
    let all = |each: i64| Proof { handled: each * 50, doubled: 0, keys: 50, wrong: 0 };
    until_handled(&log, &good, all(2)).await;
    until_tried(&log, "bad", 2).await;
    assert_eq!(status(&log, "bad").await.parked_keys, 0);
    let said = status(&log, "bad").await.outage.unwrap().error;
    assert!(said.contains(table), "{said}");
    query(&log, &format!("ALTER TABLE {table}_away RENAME TO {table}"), vec![]).await;
    until_handled(&log, &bad, all(2)).await;
    running.stop().await;
}

async fn a_consumer_that_is_refused_stops_alone(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    set().projection(db.recorder("changed")).catch_up(&log).await.unwrap();
    let changed = db.recorder("changed").partition(Partition::customer());
    let good = db.recorder("good");
    let said: Arc<std::sync::Mutex<Option<String>>> = Arc::default();
    let heard = Arc::clone(&said);
    let both = set().projection(changed).projection(good.clone()).on_progress(move |progress| {
        let trouble = progress.consumers.iter().find_map(|consumer| consumer.trouble.clone());
        *heard.lock().unwrap() = trouble;
    });
    let running = start(&log, both);
    until_handled(&log, &good, ALL).await;
    let said = until("its observer to know", async || said.lock().unwrap().clone()).await;
    assert!(said.contains("consumer `changed` is refused"), "{said}");
    assert!(!running.has_ended());
    running.stop().await;
}

/// What somebody accepts, or puts back, goes on without a restart.
async fn a_refused_scope_goes_on_once_it_is_accepted(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let wide = db.recorder("scoped");
    set().projection(wide.clone()).catch_up(&log).await.unwrap();
    let settings = Settings::default().scope(anabranch::Scope::types(["Numbered"]));
    let (narrow, good) = (wide.settings(settings), db.recorder("good"));
    let running = start(&log, set().projection(narrow.clone()).projection(good.clone()));
    until_handled(&log, &good, ALL).await;
    fill(&log, 0..500, 2..=2).await;
    let all = Proof { handled: 1000, doubled: 0, keys: 500, wrong: 0 };
    until_handled(&log, &good, all).await;
    assert_eq!(proof(&log, &narrow.table).await, ALL, "it is refused");
    let consumers = Consumers::new(&log);
    let change = consumers.scope_change("scoped").await.unwrap().unwrap();
    consumers.accept_scope(&change).await.unwrap();
    let all = Proof { handled: 1000, doubled: 0, keys: 500, wrong: 0 };
    until_handled(&log, &narrow, all).await;
    running.stop().await;
}

async fn a_set_whose_consumers_are_all_refused_ends(db: Db) {
    let log = db.log().await;
    let both = |partition: Partition| {
        let one = db.recorder("one").partition(partition.clone());
        set().projection(one).projection(db.recorder("two").partition(partition))
    };
    both(Partition::entity("Order")).catch_up(&log).await.unwrap();
    let refused = start(&log, both(Partition::customer())).ended().await.unwrap_err();
    let RunError::Refused { consumer, .. } = &refused else { panic!("{refused}") };
    assert_eq!(consumer, "one");
}

/// A projection whose hook fails until a switch is on, and may be called twice.
struct LateSetUp(Recorder, Arc<AtomicBool>, AtomicBool);

impl Projection for LateSetUp {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn partition(&self) -> Partition {
        self.0.partition.clone()
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.0.handle(event, tx).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        if !self.1.load(Ordering::SeqCst) {
            return Err(HandlerError::new("no room for another table"));
        }
        match self.2.swap(true, Ordering::SeqCst) {
            true => Ok(()),
            false => self.0.set_up(tx).await,
        }
    }
}

async fn a_set_up_that_fails_is_tried_again(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let (late, good) = (db.recorder("late"), db.recorder("good"));
    let on = Arc::new(AtomicBool::new(false));
    let projection = LateSetUp(late.clone(), Arc::clone(&on), AtomicBool::new(false));
    let running = start(&log, set().projection(projection).projection(good.clone()));
    until_handled(&log, &good, ALL).await;
    on.store(true, Ordering::SeqCst);
    until_handled(&log, &late, ALL).await;
    running.stop().await;
}

async fn fail_fast_ends_with_the_first_failure(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let bad = db.recorder("bad").hook(|_| Err(HandlerError::new("no")));
    let both = set().projection(bad).projection(db.recorder("good")).fail_fast();
    let error = start(&log, both).ended().await.unwrap_err();
    assert!(matches!(&error, RunError::Stopped { consumer, .. } if consumer == "bad"), "{error}");
    assert!(status(&log, "bad").await.outage.is_none(), "nobody runs it, so nobody tries it");
}

async fn the_others_are_caught_up_before_the_error(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=4).await;
    let bad = db.recorder("bad").hook(|_| Err(HandlerError::new("no")));
    let slow = db.recorder("good").hook(|_| {
        std::thread::sleep(Duration::from_micros(200));
        Ok(())
    });
    let both = || set().projection(bad.clone()).projection(slow.clone());
    let error = both().catch_up(&log).await.unwrap_err();
    assert!(matches!(&error, RunError::Stopped { consumer, .. } if consumer == "bad"), "{error}");
    let all = Proof { handled: 2000, doubled: 0, keys: 500, wrong: 0 };
    assert_eq!(proof(&log, &slow.table).await, all, "the other one is done");
    assert!(status(&log, "bad").await.outage.is_none());
}

async fn resume_ends_an_outage_at_once(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let on = Arc::new(AtomicBool::new(false));
    let retry = Retry::default().first(Duration::from_millis(1)).attempts(2).then(Failure::Stop);
    let settings = Settings::default().retry(retry);
    let bad = db.recorder("bad").hook(until_on(&on)).settings(settings);
    // Nobody tries it before the test is over.
    let hour = Duration::from_secs(3600);
    let tuning = Tuning::default().probes(hour, hour);
    let running = start(&log, set().tuning(tuning).projection(bad.clone()));
    until("an outage", async || {
        Consumers::new(&log)
            .status("bad")
            .await
            .ok()?
            .outage
            .filter(|outage| outage.next_ms > Some(0))
    })
    .await;
    on.store(true, Ordering::SeqCst);
    Consumers::new(&log).resume("bad").await.unwrap();
    until_handled(&log, &bad, ALL).await;
    running.stop().await;
}

async fn a_pause_by_somebody_wins_over_a_try(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let on = Arc::new(AtomicBool::new(false));
    let bad = db.recorder("bad").hook(until_on(&on));
    let calls = Arc::clone(&bad.handled);
    // How often the worker has said that it is paused.
    let looks = Arc::new(AtomicU64::new(0));
    let looked = Arc::clone(&looks);
    let watched = set().projection(bad.clone()).on_progress(move |progress| {
        looked.fetch_add(progress.consumers[0].paused.into(), Ordering::SeqCst);
    });
    let running = start(&log, watched);
    until_tried(&log, "bad", 2).await;
    let consumers = Consumers::new(&log);
    consumers.pause("bad").await.unwrap();
    // A try that was under way may end; then nothing, while the worker goes on saying that it is paused. Between
    // two such words there would have been several tries.
    until("nothing to be tried", async || {
        let (before, seen) = (calls.load(Ordering::SeqCst), looks.load(Ordering::SeqCst));
        let is_later = async || (looks.load(Ordering::SeqCst) >= seen + 4).then_some(());
        until("more looks", is_later).await;
        (seen > 0 && calls.load(Ordering::SeqCst) == before).then_some(())
    })
    .await;
    let now = status(&log, "bad").await;
    assert!(now.paused && now.outage.is_some());
    on.store(true, Ordering::SeqCst);
    consumers.resume("bad").await.unwrap();
    until_handled(&log, &bad, ALL).await;
    running.stop().await;
}

async fn a_consumer_that_was_forgotten_does_not_come_back(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let (gone, good) = (db.recorder("gone"), db.recorder("good"));
    let on = Arc::new(AtomicBool::new(true));
    let may_begin_anew = LateSetUp(gone.clone(), on, AtomicBool::new(false));
    let looks = Arc::new(AtomicU64::new(0));
    let looked = Arc::clone(&looks);
    let both = set().projection(may_begin_anew).projection(good.clone());
    let both = both.on_progress(move |progress| {
        looked.fetch_add(progress.consumers[0].trouble.is_some().into(), Ordering::SeqCst);
    });
    let running = start(&log, both);
    until_handled(&log, &gone, ALL).await;
    Consumers::new(&log).forget("gone").await.unwrap();
    fill(&log, 0..500, 2..=2).await;
    until("it to be missed", async || (looks.load(Ordering::SeqCst) > 10).then_some(())).await;
    let all = Proof { handled: 1000, doubled: 0, keys: 500, wrong: 0 };
    until_handled(&log, &good, all).await;
    let progress = running.stop().await;
    let trouble = progress.consumers[0].trouble.clone().unwrap();
    assert!(trouble.contains("it was forgotten"), "{trouble}");
    let known = Consumers::new(&log).list().await.unwrap();
    assert_eq!(known.iter().map(|known| known.name.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(proof(&log, &gone.table).await, ALL, "it has handled nothing again");
}

/// A projection that fails until it is cured, and then still for the first key that is not set aside.
async fn cured_but_for_the_next_key(db: &Db, next: &'static str, retry: Retry, all: Proof) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let on = Arc::new(AtomicBool::new(false));
    let hook = {
        let on = until_on(&on);
        move |event: &Event| match event.stream_id() == next {
            true => Err(HandlerError::new("poison")),
            false => on(event),
        }
    };
    let bad = db.recorder("bad").hook(hook).settings(Settings::default().retry(retry));
    // It is seen before the first try, which must find it cured.
    let tuning = Tuning::default().probes(Duration::from_secs(1), Duration::from_secs(1));
    let running = start(&log, set().tuning(tuning).projection(bad.clone()));
    until("an outage", async || {
        Consumers::new(&log).status("bad").await.ok()?.outage.filter(|outage| outage.probes == 0)
    })
    .await;
    on.store(true, Ordering::SeqCst);
    until_handled(&log, &bad, all).await;
    running.stop().await;
}

async fn one_bad_event_does_not_keep_a_cured_consumer_stopped(db: Db) {
    let retry = Retry::default().first(Duration::from_millis(5)).attempts(1000);
    let retry = retry.longest(Duration::from_millis(20));
    let all = Proof { handled: 499, doubled: 0, keys: 499, wrong: 0 };
    cured_but_for_the_next_key(&db, "99", retry, all).await;
}

async fn nor_does_it_where_nothing_else_is_tried_again(db: Db) {
    // The first nine are parked at once.
    let all = Proof { handled: 490, doubled: 0, keys: 490, wrong: 0 };
    cured_but_for_the_next_key(&db, "9", Retry::never(), all).await;
}
