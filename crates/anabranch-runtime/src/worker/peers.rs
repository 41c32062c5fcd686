//! Watching a peer: each worker watches the one before it, so that every death is seen by somebody.

use crate::tables::Tables;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Watches one other worker at a time.
pub(super) struct Peers {
    tables: Tables,
    watching: Option<(String, JoinHandle<()>)>,
    deaths: mpsc::UnboundedSender<String>,
    /// Workers whose process is gone.
    pub(super) gone: mpsc::UnboundedReceiver<String>,
}

impl Peers {
    pub(super) fn new(tables: &Tables) -> Self {
        let (deaths, gone) = mpsc::unbounded_channel();
        Self { tables: tables.clone(), watching: None, deaths, gone }
    }

    /// Watches the member before `me`, in the order of their ids; the last one if it is the first.
    pub(super) fn watch(&mut self, members: &[String], me: &str) {
        let place = members.iter().position(|member| member == me);
        let peer = match place {
            Some(0) if members.len() > 1 => members.last(),
            Some(place) if place > 0 => members.get(place - 1),
            _ => None,
        };
        if self.watching.as_ref().map(|(watched, _)| watched) == peer {
            return;
        }
        self.stop();
        self.watching = peer.map(|peer| {
            let (death, deaths) = (self.tables.database.death_of(peer), self.deaths.clone());
            let id = peer.clone();
            let task = tokio::spawn(async move {
                death.await;
                let _ = deaths.send(id);
            });
            (peer.clone(), task)
        });
    }

    pub(super) fn stop(&mut self) {
        if let Some((_, task)) = self.watching.take() {
            task.abort();
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.stop();
    }
}
