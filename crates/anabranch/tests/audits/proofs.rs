//! What the cases share.

use crate::support::{Recorder, status, until};
use anabranch::Log;
use anabranch::operate::{Consumers, Proof};
use std::sync::atomic::Ordering;

pub const STREAMS: u64 = 40;

/// Audits a consumer that must be as it should.
pub async fn proven(log: &Log, name: &str) -> Proof {
    match Consumers::new(log).audit(name, |_| {}).await {
        Ok(proof) => proof,
        Err(error) => panic!("{error}\n{}", rows(log).await),
    }
}

/// Waits until a recorder has handled so many events, and all that there are.
pub async fn handled(log: &Log, recorder: &Recorder, count: u64) {
    until("events to be handled", async || {
        let handled = recorder.handled.load(Ordering::Relaxed);
        (handled >= count && status(log, &recorder.name).await.lag == 0).then_some(())
    })
    .await;
}

/// The record as it is stored, for a case that fails.
async fn rows(log: &Log) -> String {
    let table = log.database().dialect().table("audit");
    let select = format!(
        "SELECT id, kind, parents, slots, from_position, to_position, count, handed, aside, skipped \
         FROM {table} ORDER BY id"
    );
    let slots = |row: &anabranch::Row| {
        let bytes: Option<Vec<u8>> = row.get(3).unwrap();
        bytes
            .and_then(|bytes| anabranch::partitioning::SlotSet::from_bytes(&bytes))
            .map(|slots| slots.to_string())
    };
    let mut text = String::new();
    for row in crate::support::query(log, &select, vec![]).await {
        let (id, kind): (i64, String) = (row.get(0).unwrap(), row.get(1).unwrap());
        let [from, to, count] = [4, 5, 6].map(|place| row.get::<i64>(place).unwrap());
        let [parents, handed, aside, skipped] =
            [2, 7, 8, 9].map(|place| row.get::<Option<String>>(place).unwrap().unwrap_or_default());
        text += &format!(
            "{id} {kind} <{parents}> {:?} {from}..{to} {count} [{handed}] [{aside}] [{skipped}]\n",
            slots(&row)
        );
    }
    text
}
