//! A consumer that the last version does not know, run by this process in the set of the ledger's workers.

use crate::place::{Place, until};
use anabranch::prelude::*;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The set in which `chaos-worker` runs the ledger.
const SET: &str = "chaos";

/// Writes down every event.
struct Projected {
    name: &'static str,
    table: String,
}

impl Projection for Projected {
    fn name(&self) -> &str {
        self.name
    }

    fn partition(&self) -> Partition {
        Partition::entity("Key")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let insert = format!("INSERT INTO {} VALUES ($1)", self.table);
        tx.execute(insert, params![event.position()]).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        tx.execute(format!("CREATE TABLE {} (position BIGINT)", self.table), vec![]).await
    }
}

/// A worker of this version that runs it.
pub struct Tally {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Tally {
    pub async fn start(place: &Place, name: &'static str) -> Self {
        let (log, table) = (place.log().await, place.table(name));
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stop = async {
                let _ = stopped.await;
            };
            let set = ReplicaSet::new(SET).projection(Projected { name, table }).lanes(2);
            set.run_until(&log, stop).await.unwrap();
        });
        Self { stop, task }
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }

    /// Waits until all is handled, and fails unless every event is there once.
    pub async fn prove(place: &Place, name: &str, appended: u64) {
        let appended = i64::try_from(appended).unwrap();
        let rows = format!("SELECT count(*) FROM {}", place.table(name));
        until("every event is counted", async || place.number(&rows).await >= appended).await;
        let once = format!("SELECT count(DISTINCT position) FROM {}", place.table(name));
        assert_eq!((place.number(&rows).await, place.number(&once).await), (appended, appended));
    }
}
