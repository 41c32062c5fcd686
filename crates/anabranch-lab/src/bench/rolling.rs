//! A rolling deploy: four worker processes under a steady load, replaced one by one.

use super::own_log::OwnLog;
use super::report::{Case, Rates};
use super::rescale::{scale, work};
use crate::chaos::crew::Crew;
use crate::chaos::ledger::{Entry, Ledger};
use crate::chaos::load::Load;
use crate::chaos::pauses::hand_overs;
use crate::chaos::worker::RUNNING;
use crate::chaos::{logged, proof};
use crate::percentiles::Percentiles;
use crate::throwaway::Throwaway;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const WORKERS: usize = 4;
/// Each key has an event a second, so that each is seen with its old owner and with its new one. They
/// come in many small appends: a third of what four workers can handle.
const KEYS: u64 = 500;
const RATE: u64 = 500;
const APPENDERS: u64 = 25;
/// How long what was appended may take to be handled.
const LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// Replaces all workers, and says how long keys waited for their new ones.
pub(super) async fn measure(made: &Throwaway) -> anyhow::Result<Case> {
    deploy(&OwnLog::create(made, "rolling").await?).await
}

async fn deploy(own: &OwnLog) -> anyhow::Result<Case> {
    let ledger = Ledger::of(&own.log);
    let mut crew = Crew::new(&own.url, &own.namespace, work())?;
    scale(&mut crew, WORKERS).await?;
    let mut load = Load::start(&own.log, KEYS, RATE, APPENDERS);
    settle(&ledger, &load).await?;
    let from_us = ledger.now_us().await?;
    for old in crew.numbers() {
        let new = crew.start()?;
        let runs = crew.wait_until_said(new, RUNNING, LIMIT).await?;
        anyhow::ensure!(runs, "a worker does not start: {:?}", crew.take_problems());
        crew.tell_to_leave(old, true)?;
        crew.wait_for_leavers(LIMIT).await?;
        settle(&ledger, &load).await?;
    }
    let to_us = ledger.now_us().await?;
    let appended = load.finish().await?;
    wait_until_handled(&ledger, appended).await?;
    scale(&mut crew, 0).await?;
    let entries = ledger.entries().await?;
    let proof = proof::prove(&logged(&own.log).await?, &entries);
    anyhow::ensure!(proof.is_good() && proof.events == appended, "{appended} events: {proof:?}");
    Ok(case(&entries, (from_us, to_us)))
}

/// Waits until each key has had an event, and all is handled.
async fn settle(ledger: &Ledger, load: &Load) -> anyhow::Result<()> {
    tokio::time::sleep(load.period).await;
    wait_until_handled(ledger, load.appended()).await
}

async fn wait_until_handled(ledger: &Ledger, events: u64) -> anyhow::Result<()> {
    let started = Instant::now();
    while ledger.handled().await? < events {
        anyhow::ensure!(started.elapsed() < LIMIT, "{events} events were not handled in {LIMIT:?}");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

fn case(entries: &[Entry], window: (i64, i64)) -> Case {
    let mut keys: BTreeMap<i64, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        keys.entry(entry.key).or_default().push(*entry);
    }
    let pauses = keys.values().flat_map(|entries| hand_overs(entries, window)).collect();
    let inside = |entry: &&Entry| (window.0..window.1).contains(&entry.handled_us);
    let seconds = (window.1 - window.0) as f64 / 1e6;
    let rate = entries.iter().filter(inside).count() as f64 / seconds;
    let what = "4 workers replaced one by one; verified: every event once and in order";
    let rates = Rates { ours: vec![rate], bare: Vec::new() };
    let mut case = Case::new("rescale", "rolling-deploy", 1, what, rates);
    case.handover_pause_ms = Some(Percentiles::of(pauses));
    case
}
