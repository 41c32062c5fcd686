//! Who owns what, from the tables: what the last generation says, and what the cursors say.

use super::Outcome;
use super::ledger::Ledger;
use super::proof::Rows;
use anabranch::operate::{Consumers, Owner};
use anabranch::{Log, Position};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a hand-over may take on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// The workers of a replica set, and the slots that each of them owns.
pub struct Owners {
    pub generation: i64,
    pub shares: Vec<Share>,
}

pub struct Share {
    pub pid: u32,
    /// Host and process.
    pub place: String,
    pub lanes: usize,
    pub slots: usize,
}

/// Waits until exactly these processes own everything as the last generation says.
pub async fn settled(log: &Log, set: &str, consumer: &str, pids: &[u32]) -> Outcome<Owners> {
    let started = Instant::now();
    loop {
        match owners(log, set, consumer, pids).await {
            Ok(Some(owners)) => return Ok(owners),
            // Nobody has run it yet.
            Ok(None) => {}
            Err(_) if started.elapsed() < PATIENCE => {}
            Err(error) => return Err(error),
        }
        if started.elapsed() > PATIENCE {
            return Err(format!("`{set}` is not shared out after {PATIENCE:?}").into());
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn owners(log: &Log, set: &str, consumer: &str, pids: &[u32]) -> Outcome<Option<Owners>> {
    let consumers = Consumers::new(log);
    let mut actual: BTreeMap<String, Share> = BTreeMap::new();
    for cursor in consumers.status(consumer).await?.cursors {
        let Owner::Worker(worker) = cursor.owner else { return Ok(None) };
        let place = format!("{}:{}", worker.host, worker.pid);
        let share = Share { pid: worker.pid, place, lanes: worker.lanes, slots: 0 };
        actual.entry(worker.id).or_insert(share).slots += cursor.slot_count;
    }
    let Some(last) = consumers.generations(Some(set), 1).await?.pop() else { return Ok(None) };
    let as_desired = last.members.len() == actual.len()
        && last
            .members
            .iter()
            .all(|member| actual.get(&member.worker).is_some_and(|it| it.slots == member.slots));
    let all_here = actual.len() == pids.len() && actual.values().all(|it| pids.contains(&it.pid));
    let mut shares: Vec<Share> = actual.into_values().collect();
    shares.sort_by_key(|share| pids.iter().position(|pid| *pid == share.pid));
    Ok((as_desired && all_here).then_some(Owners { generation: last.generation, shares }))
}

/// Waits until each of these processes has handled something since a time.
pub async fn all_work(log: &Log, ledger: &Ledger, since: Since, pids: &[u32]) -> Outcome<()> {
    let started = Instant::now();
    loop {
        let counts = Rows::read(log, ledger, since.after).await?.by_process(since.at_us);
        if pids.iter().all(|pid| counts.contains_key(pid)) {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            return Err(format!("after {PATIENCE:?} not all of {pids:?} work: {counts:?}").into());
        }
        tokio::time::sleep(LOOK * 5).await;
    }
}

/// Events after a position that were handled after a time.
#[derive(Clone, Copy)]
pub struct Since {
    pub after: Position,
    pub at_us: i64,
}

/// Waits until a consumer has handled everything.
pub async fn caught_up(log: &Log, consumer: &str) -> Outcome<()> {
    let started = Instant::now();
    loop {
        let status = Consumers::new(log).status(consumer).await?;
        if status.lag == 0 {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            return Err(format!("{consumer} is still {} events behind", status.lag).into());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Prints why slots moved, and when, and how many each worker had from then on.
pub async fn generations(log: &Log, sets: &[&str], since_us: i64) -> Outcome<()> {
    println!("\ngenerations");
    let mut all = Consumers::new(log).generations(None, 100).await?;
    all.retain(|it| it.at.as_microsecond() >= since_us && sets.contains(&it.replica_set.as_str()));
    for it in all.iter().rev() {
        let seconds = (it.at.as_microsecond() - since_us) as f64 / 1e6;
        let slots: Vec<_> = it.members.iter().map(|member| member.slots.to_string()).collect();
        let slots = if slots.is_empty() { "nobody".to_owned() } else { slots.join(" + ") };
        let name = format!("{} {}", it.replica_set, it.generation);
        println!("  {name:<14}{seconds:>5.2} s  {}: {slots}", it.reason);
    }
    Ok(())
}
