//! The new version takes the place of the old one, in one transaction.

use super::{Rebuild, RebuildError};
use crate::row_watch;
use crate::tables::IDLE;
use anabranch_core::{Cursor, Position};
use anabranch_core::{Happening, Notice};
use anabranch_store::database::{Dialect, End, Statement, Topic};
use std::time::{Duration, Instant};

/// Both versions follow the log, so the new one may be behind by what is just being handled. How long that
/// is waited for in all, without any progress, and between two looks.
const PATIENCE: Duration = Duration::from_secs(10);
const STANDSTILL: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(10);

/// What is tried until the new version is no longer behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Look,
    Switch,
}

impl Rebuild {
    /// Puts the new version in the place of the old one, in one transaction. The old tables are kept
    /// under names that end in `_old`, until the next switch.
    ///
    /// A new version that is behind is waited for, for ten seconds at most and only while it moves.
    pub async fn switch(&self) -> Result<(), RebuildError> {
        self.tables.database.require_newest_schema()?;
        self.patiently(Step::Switch).await
    }

    /// Throws away what was built of the new version, in one transaction: its tables, how far it is, and
    /// its parked keys. The old version is not touched. Workers that still build it are
    /// refused for it, and begin anew when they are started again.
    pub async fn abandon(&self) -> Result<(), RebuildError> {
        self.tables.database.require_newest_schema()?;
        self.must_be_under_way().await?;
        let next_name = self.next_name();
        self.must_name_all().await?;
        let mut statements = row_watch::removal(&next_name, &self.tables).await?;
        // The tables first, as for a switch.
        let drop = |(_, next): &(String, String)| {
            Statement::new(format!("DROP TABLE IF EXISTS {next}"), vec![])
        };
        statements.extend(self.own.iter().map(drop));
        statements.extend(self.tables.forget(&next_name));
        statements.push(Statement::signal(Topic::Workers));
        let mut session = self.tables.database.begin();
        let done = session.run(statements, End::Commit).await;
        done.map_err(|failed| self.tables.error(failed))?;
        Ok(())
    }

    /// Waits until nothing stands in the way of a switch.
    pub(super) async fn can_switch(&self) -> Result<(), RebuildError> {
        self.patiently(Step::Look).await
    }

    /// Waits for a new version that is behind while it moves.
    async fn patiently(&self, step: Step) -> Result<(), RebuildError> {
        let started = Instant::now();
        let (mut furthest, mut moved) = (None, started);
        loop {
            let tried = match (self.look().await, step) {
                (Ok(by_slot), Step::Switch) => self.try_switch(by_slot).await,
                (looked, _) => looked.map(drop),
            };
            let Err(behind @ RebuildError::Behind { next, .. }) = tried else { return tried };
            if Some(next) > furthest {
                (furthest, moved) = (Some(next), Instant::now());
            }
            if started.elapsed() >= PATIENCE || moved.elapsed() >= STANDSTILL {
                return Err(behind);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether a switch would be refused, by a look that waits for nobody. Says whether the two versions can
    /// be compared slot by slot.
    async fn look(&self) -> Result<bool, RebuildError> {
        self.must_be_under_way().await?;
        let next_name = self.next_name();
        let mut partitions = Vec::new();
        for name in [self.name.as_str(), &next_name] {
            let Some(stored) = self.tables.identity(name).await? else {
                return Err(self.tables.no_such_consumer(name).await.into());
            };
            partitions.push((stored.partition, stored.strategy));
        }
        self.must_name_all().await?;
        let by_slot = partitions[0] == partitions[1];
        // The old one first: the new one may only have come further since.
        let old = self.tables.cursors(&self.name).await?;
        let next = self.tables.cursors(&next_name).await?;
        let parked = self.tables.parked(&next_name).await?.len();
        self.check(&old, &next, parked, by_slot).map(|()| by_slot)
    }

    fn check(
        &self,
        old: &[Cursor],
        next: &[Cursor],
        parked: usize,
        by_slot: bool,
    ) -> Result<(), RebuildError> {
        let name = self.name.clone();
        if parked > 0 {
            return Err(RebuildError::Parked { name, keys: parked });
        }
        match behind(old, next, by_slot) {
            Some((old, next)) => Err(RebuildError::Behind { name, old, next }),
            None => Ok(()),
        }
    }

    async fn try_switch(&self, by_slot: bool) -> Result<(), RebuildError> {
        let next_name = self.next_name();
        let watched = row_watch::removal(&next_name, &self.tables).await?;
        let watched = [watched, row_watch::removal(&self.name, &self.tables).await?].concat();
        let mut session = self.tables.database.begin();
        // The tables first: that waits for handlers at work, who hold no cursor yet. The other way
        // round they would wait for each other.
        let dialect = self.tables.database.dialect();
        let mut renames = watched;
        for (table, next_table) in &self.own {
            let kept = format!("{table}_old");
            renames.push(Statement::new(format!("DROP TABLE IF EXISTS {kept}"), vec![]));
            renames.push(rename(dialect, table, &kept));
            renames.push(rename(dialect, next_table, table));
        }
        let renamed = session.run(renames, End::Open { idle: IDLE }).await;
        renamed.map_err(|failed| self.tables.error(failed))?;
        let old = self.tables.lock(session.as_mut(), &self.name).await?;
        let next = self.tables.lock(session.as_mut(), &next_name).await?;
        let parked = self.tables.parked_in(session.as_mut(), &next_name).await?;
        self.check(&old.cursors, &next.cursors, parked, by_slot)?;
        let (before, after) = self.around.clone();
        let mut statements = before;
        statements.extend(self.tables.forget(&self.name));
        statements.extend(self.tables.rename(&next_name, &self.name));
        // Its workers run it under the old name: their cursors are gone from under them.
        statements.extend(self.tables.fence_all(&self.name));
        statements.extend(after);
        statements.push(Statement::signal(Topic::Workers));
        let done = session.run(statements, End::Commit).await;
        done.map_err(|failed| self.tables.error(failed))?;
        let what = Happening::noticed(Notice::Switched, format!("at={}", self.log.at()));
        self.log.events().of(&self.name).emit(what);
        Ok(())
    }
}

/// Where the old version is, and the new one behind it. Where a key has the same slot in both, slots are
/// compared one by one: what the lanes of one version are apart from each other does not matter.
fn behind(old: &[Cursor], next: &[Cursor], by_slot: bool) -> Option<(Position, Position)> {
    let pairs = old.iter().flat_map(|old| next.iter().map(move |next| (old, next)));
    let related = pairs.filter(|(old, next)| !by_slot || !old.slots.is_disjoint(&next.slots));
    let behind = related.filter(|(old, next)| next.position < old.position);
    behind.map(|(old, next)| (old.position, next.position)).min_by_key(|(_, next)| *next)
}

fn rename(dialect: &dyn Dialect, from: &str, to: &str) -> Statement {
    let to = dialect.renamed(to);
    Statement::new(format!("ALTER TABLE {from} RENAME TO {to}"), vec![])
}
