//! The session of an instance: a lease that is renewed on a task of its own. Claims bear its id.

use crate::batch::Batch;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_core::{Happening, Notice};
use anabranch_store::Database;
use anabranch_store::database::{End, Statement};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How often a lease is renewed before it is over.
const BEATS: u32 = 5;

/// The session of an instance, and those it had before.
pub(crate) struct Session {
    ids: Arc<Mutex<Vec<String>>>,
    beat: JoinHandle<()>,
    tables: Tables,
    database: Arc<dyn Database>,
}

impl Session {
    pub(crate) async fn begin(
        batch: &Batch,
        tables: &Tables,
        database: &Arc<dyn Database>,
    ) -> Result<Self, StoreError> {
        let (part, lease) = (batch.part, batch.lease);
        let new = move |tables: &Tables| {
            let id = uuid::Uuid::now_v7().to_string();
            let begin = tables.begin(&id, &part.to_string(), &anabranch_runtime::host(), lease);
            (id, begin)
        };
        let (id, begin) = new(tables);
        run(database, begin).await?;
        let ids = Arc::new(Mutex::new(vec![id]));
        let (beat_ids, beat_tables) = (Arc::clone(&ids), tables.clone());
        let beat_database = Arc::clone(database);
        let beat = tokio::spawn(async move {
            let (ids, tables, database) = (beat_ids, beat_tables, beat_database);
            loop {
                tokio::time::sleep(lease / BEATS).await;
                let renew = tables.renew(&last(&ids), lease);
                match database.control().run(vec![renew], End::Commit).await {
                    Ok(_) => {}
                    Err(failed) if failed.is_unmatched() => {
                        // Others may have taken what it had claimed; what it claims from now on is
                        // another session's.
                        let (id, begin) = new(&tables);
                        let detail = format!("session={id}");
                        tables.events.emit(Happening::noticed(Notice::BatchSessionLost, detail));
                        if run(&database, begin).await.is_ok()
                            && let Ok(mut ids) = ids.lock()
                        {
                            ids.push(id);
                        }
                    }
                    Err(error) => {
                        tables.events.emit(Happening::failed(Notice::BatchLeaseNotRenewed, &error));
                    }
                }
            }
        });
        Ok(Self { ids, beat, tables: tables.clone(), database: Arc::clone(database) })
    }

    /// Its id now.
    pub(crate) fn id(&self) -> String {
        last(&self.ids)
    }

    /// All it had.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.ids.lock().map(|ids| ids.clone()).unwrap_or_default()
    }

    /// Ends, and gives back what it has claimed if it may have claims.
    pub(crate) async fn end(self, has_claims: bool) -> Result<(), StoreError> {
        self.beat.abort();
        let mut statements = Vec::new();
        for id in self.ids() {
            if has_claims {
                statements.extend(self.tables.give_back(&id));
            }
            statements.push(self.tables.end(&id));
        }
        let done = self.database.control().run(statements, End::Commit).await;
        done.map(drop).map_err(|failed| failed.into_store_error(self.database.at()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.beat.abort();
    }
}

fn last(ids: &Mutex<Vec<String>>) -> String {
    ids.lock().ok().and_then(|ids| ids.last().cloned()).unwrap_or_default()
}

async fn run(database: &Arc<dyn Database>, statement: Statement) -> Result<(), StoreError> {
    let done = database.control().run(vec![statement], End::Commit).await;
    done.map(drop).map_err(|failed| failed.into_store_error(database.at()))
}

/// How long a lease may be.
pub(crate) const LEASES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(500)..=Duration::from_secs(3_600);
