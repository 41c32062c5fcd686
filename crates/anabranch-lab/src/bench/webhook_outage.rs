//! An endpoint that is down for a while, in the middle of the work, and one key that it never takes: who waits afterwards?

use super::own_log::OwnLog;
use crate::receiver::{Received, Receiver, Reply};
use anabranch::operate::{ConsumerStatus, Consumers};
use anabranch::{ReplicaSet, Retry, Settings};
use anabranch_terminal::output;
use anyhow::{bail, ensure};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// How often it is looked whether all is done.
const LOOK: Duration = Duration::from_millis(50);
/// How long the end of the work may take, after the endpoint is back.
const PATIENCE: Duration = Duration::from_secs(300);

/// The stream whose messages are always refused.
pub(super) const REFUSED: &str = "Order:ord-0";

/// What was seen. Times are in seconds.
#[derive(Debug, Serialize)]
pub(super) struct Outage {
    bench: &'static str,
    case: &'static str,
    keys: u64,
    events: u64,
    /// How long the endpoint was down.
    down: f64,
    /// From its return to the next message that it took.
    first_taken: f64,
    /// From its return until only the refused key was left.
    caught_up: f64,
    /// Keys that were parked in the end.
    parked: usize,
    /// Messages that came again though they had been taken, under their ids.
    taken_again: u64,
}

impl Outage {
    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            return output::json(self);
        }
        let Self { keys, events, down, first_taken, caught_up, parked, taken_again, .. } = self;
        output::line(format_args!(
            "outage: {events} events of {keys} keys, down for {down:.1} s; back, it took the first message after \
             {first_taken:.2} s and had all after {caught_up:.2} s; {parked} key parked (the one that it always refuses), \
             {taken_again} messages came again"
        ))
    }
}

/// How the endpoint answers.
pub(super) fn decide(message: &Received) -> Reply {
    let is_refused = message.events().iter().any(|event| event["stream"] == REFUSED);
    if is_refused { Reply::status(422) } else { Reply::default() }
}

/// A refused key is given up soon, so that it is parked when the others are done.
pub(super) fn settings() -> Settings {
    Settings::default().retry(Retry::outside().attempts(3))
}

/// Takes the endpoint away for a while once a tenth has arrived, and waits until only the refused key is left.
pub(super) async fn measure(
    own: &OwnLog,
    (set, name): (ReplicaSet, &str),
    receiver: &mut Receiver,
    (events, keys): (u64, u64),
    down: Duration,
) -> anyhow::Result<Outage> {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let log = own.log.clone();
    let running =
        tokio::spawn(async move { set.run_until(&log, async { drop(stopped.await) }).await });
    let began = Instant::now();
    while (receiver.count() as u64) < events / 10 {
        ensure!(began.elapsed() < PATIENCE && !running.is_finished(), "nothing arrives");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    receiver.stop().await;
    let (was_down, before) = (Instant::now(), receiver.count());
    tokio::time::sleep(down).await;
    ensure!(receiver.count() == before, "something arrived while it was down");
    let during = status(own, name).await?;
    ensure!(during.parked_keys <= 1, "{} keys were parked by the outage", during.parked_keys);
    receiver.go_on().await?;
    let (back, down) = (Instant::now(), was_down.elapsed());
    let parked = until_done(own, name, back).await?;
    let caught_up = back.elapsed();
    drop(stop);
    running.await??;
    let received = receiver.received();
    let first_taken = received.get(before).map(|message| message.at.duration_since(back));
    let taken_again = verify(&received, events, keys)?;
    Ok(Outage {
        bench: "webhook",
        case: "outage",
        keys,
        events,
        down: down.as_secs_f64(),
        first_taken: first_taken.unwrap_or_default().as_secs_f64(),
        caught_up: caught_up.as_secs_f64(),
        parked,
        taken_again,
    })
}

async fn status(own: &OwnLog, name: &str) -> anyhow::Result<ConsumerStatus> {
    Ok(Consumers::new(&own.log).status(name).await?)
}

/// Waits until nothing is left that could be done. Fails unless the refused key alone is parked then.
async fn until_done(own: &OwnLog, name: &str, since: Instant) -> anyhow::Result<usize> {
    loop {
        let now = status(own, name).await?;
        if now.lag_ready == 0 && now.outage.is_none() {
            break;
        }
        if since.elapsed() > PATIENCE {
            bail!("after {PATIENCE:?} {} events are not handled", now.lag_ready);
        }
        tokio::time::sleep(LOOK).await;
    }
    let parked = Consumers::new(&own.log).parked(name).await?;
    let keys: Vec<&str> = parked.iter().map(|key| key.key.as_str()).collect();
    ensure!(keys == [REFUSED], "parked are {keys:?}, and not only {REFUSED}");
    Ok(keys.len())
}

/// Each event of the other keys was taken, in order for each key. Says how many messages came again.
fn verify(received: &[Received], events: u64, keys: u64) -> anyhow::Result<u64> {
    let (mut last, mut seen) = (HashMap::new(), HashSet::new());
    let (mut taken, mut again) = (0, 0);
    for message in received.iter().filter(|message| message.status == 200) {
        if !seen.insert(message.header("webhook-id").to_owned()) {
            again += 1;
            continue;
        }
        for event in message.events() {
            let version = event["version"].as_u64().unwrap_or_default();
            let before = last.insert(event["stream"].to_string(), version).unwrap_or(0);
            ensure!(version == before + 1, "{} came after {before}", event["stream"]);
            taken += 1;
        }
    }
    // Events go to the streams in turn.
    let expected = events - events.div_ceil(keys);
    ensure!(taken == expected, "{taken} of {expected} events were taken");
    Ok(again)
}
