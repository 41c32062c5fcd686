//! Watching peers, to notice their deaths: each worker watches the one before it, so that every death is
//! seen by somebody, and all watch those who are about to leave, since they are members no more. Deaths
//! seldom come alone: after one, several are watched for a while.

use crate::tables::Tables;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How many of those before it a worker watches after a death, and for how long.
const ALARMED: usize = 16;
const ALARM: Duration = Duration::from_secs(3);

pub(super) struct Peers {
    tables: Tables,
    watched: HashMap<String, JoinHandle<()>>,
    alarmed: Option<Instant>,
    deaths: mpsc::Sender<String>,
    /// Workers whose process is gone.
    pub(super) gone: mpsc::Receiver<String>,
}

impl Peers {
    pub(super) fn new(tables: &Tables) -> Self {
        let (deaths, gone) = mpsc::channel(ALARMED);
        Self { tables: tables.clone(), watched: HashMap::new(), alarmed: None, deaths, gone }
    }

    /// Somebody has died.
    pub(super) fn alarm(&mut self) {
        self.alarmed = Some(Instant::now());
    }

    /// Watches the member before `me`, in the order of their ids (the last one if it is the first), or
    /// several after a death; and those who leave.
    pub(super) fn watch(&mut self, members: &[String], leaving: &[String], me: &str) {
        self.alarmed = self.alarmed.filter(|since| since.elapsed() < ALARM);
        let span = if self.alarmed.is_some() { ALARMED } else { 1 };
        let place = members.iter().position(|member| member == me);
        let (before, after) = members.split_at(place.unwrap_or(0));
        // Backwards from it, and from the last one on when it has come to the first.
        let before = before.iter().rev().chain(after.iter().rev()).filter(|peer| *peer != me);
        let before = before.take(if place.is_some() { span } else { 0 });
        let peers: Vec<String> =
            before.chain(leaving.iter().filter(|peer| *peer != me)).cloned().collect();
        self.watched.retain(|peer, task| {
            let stays = peers.contains(peer) && !task.is_finished();
            if !stays {
                task.abort();
            }
            stays
        });
        for peer in peers {
            let (death, deaths) = (self.tables.database.death_of(&peer), self.deaths.clone());
            self.watched.entry(peer.clone()).or_insert_with(|| {
                tokio::spawn(async move {
                    death.await;
                    let _ = deaths.send(peer).await;
                })
            });
        }
    }

    pub(super) fn stop(&mut self) {
        self.watched.drain().for_each(|(_, task)| task.abort());
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.stop();
    }
}
