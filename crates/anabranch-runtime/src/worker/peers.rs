//! Watching peers, to notice their deaths: each worker watches the one before it, so that every death is
//! seen by somebody, and all watch those who are about to leave, since they are members no more.

use crate::tables::Tables;
use std::collections::HashMap;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub(super) struct Peers {
    tables: Tables,
    watched: HashMap<String, JoinHandle<()>>,
    deaths: mpsc::UnboundedSender<String>,
    /// Workers whose process is gone.
    pub(super) gone: mpsc::UnboundedReceiver<String>,
}

impl Peers {
    pub(super) fn new(tables: &Tables) -> Self {
        let (deaths, gone) = mpsc::unbounded_channel();
        Self { tables: tables.clone(), watched: HashMap::new(), deaths, gone }
    }

    /// Watches the member before `me`, in the order of their ids (the last one if it is the first), and
    /// those who leave.
    pub(super) fn watch(&mut self, members: &[String], leaving: &[String], me: &str) {
        let place = members.iter().position(|member| member == me);
        let before = match place {
            Some(0) => members.last(),
            Some(place) => members.get(place - 1),
            None => None,
        };
        let peers = before.into_iter().chain(leaving).filter(|peer| *peer != me);
        let peers: Vec<String> = peers.cloned().collect();
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
                    let _ = deaths.send(peer);
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
