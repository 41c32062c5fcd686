//! Permits: how much of a consumer each worker may have in work, so that all of them stay within one limit.
//!
//! Who asks locks the consumer, as who claims does, and hands what it gives back to those who wait: they find it
//! in their rows when they are signalled, and need no lock. Permits of a worker without a lease are anybody's: whoever
//! finds them raises the epochs of what that worker owns, so that nothing it does with them is stored.

use super::{IDLE, Tables};
use crate::permits::shares::{Claim, Dealt, deal, hand_out};
use crate::status::LimitStatus;
use anabranch_core::StoreError;
use anabranch_store::database::{End, Statement, Topic};
use anabranch_store::{Row, params};

/// What a worker asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) consumer: &'a str,
    pub(crate) worker: &'a str,
    /// The limit of all workers, as this one knows it. The lowest one holds.
    pub(crate) most: usize,
    pub(crate) in_use: usize,
    pub(crate) wanted: usize,
    /// Whether the use of one is over: then the others come first.
    pub(crate) had_turn: bool,
}

/// A row, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) claim: Claim,
    pub(crate) most: usize,
}

/// The permits of a consumer, as one worker sees them.
#[derive(Debug)]
pub(crate) struct Seen {
    mine: Option<Stored>,
    others: Vec<Claim>,
    /// Those who hold some without a lease.
    dead: Vec<String>,
    /// The lowest limit.
    most: usize,
}

/// What becomes of an ask.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) dealt: Dealt,
    /// The worker's row from now on.
    pub(crate) mine: Stored,
    /// The rows of others that have more from now on.
    pub(crate) grown: Vec<Claim>,
    /// Whether others have to hear of it.
    pub(crate) tells: bool,
}

impl Seen {
    /// From rows, each with whether its worker has a lease.
    pub(crate) fn new(rows: impl IntoIterator<Item = (Stored, bool)>, ask: Ask<'_>) -> Self {
        let (mut mine, mut others, mut dead, mut most) = (None, Vec::new(), Vec::new(), ask.most);
        for (stored, is_alive) in rows {
            match is_alive {
                _ if stored.claim.worker == ask.worker => mine = Some(stored),
                true => {
                    most = most.min(stored.most);
                    others.push(stored.claim);
                }
                false => dead.push(stored.claim.worker),
            }
        }
        Self { mine, others, dead, most }
    }

    /// Deals to the worker, and hands what is free then to those who wait.
    pub(crate) fn decide(&self, ask: Ask<'_>, now_us: i64) -> Decision {
        let Self { mine, others, most, .. } = self;
        let since = mine.as_ref().filter(|mine| !ask.had_turn && mine.claim.wanted > 0);
        let asks = ask.claim(since.map_or(now_us, |mine| mine.claim.since_us));
        let dealt = deal(*most, &asks, others);
        let claim = Claim { held: dealt.held, wanted: dealt.short, ..asks };
        let is_new = dealt.short > 0 && mine.as_ref().is_none_or(|mine| mine.claim.wanted == 0);
        let is_still = dealt.short > 0 && mine.as_ref().is_some_and(|m| dealt.held > m.claim.held);
        let mut grown = hand_out(*most, others.iter().chain([&claim]).cloned().collect());
        grown.retain(|grown| grown.worker != ask.worker);
        // Those who hold some hear of one that waits when it begins to, and when what it got was not enough.
        let tells = !grown.is_empty() || ((is_new || is_still) && !others.is_empty());
        Decision { dealt, mine: Stored { claim, most: ask.most }, grown, tells }
    }

    /// What the worker holds, and how many more it is known to want.
    pub(crate) fn mine(&self) -> (usize, usize) {
        self.mine.as_ref().map_or((0, 0), |mine| (mine.claim.held, mine.claim.wanted))
    }

    /// What it would have if it asked now; `None` if others first have to lose theirs.
    pub(crate) fn would_deal(&self, ask: Ask<'_>) -> Option<Dealt> {
        let since_us = self.mine.as_ref().map_or(i64::MAX, |mine| mine.claim.since_us);
        let asks = ask.claim(since_us);
        self.dead.is_empty().then(|| deal(self.most, &asks, &self.others))
    }
}

impl Ask<'_> {
    fn claim(&self, since_us: i64) -> Claim {
        let (worker, held, wanted) = (self.worker.to_owned(), self.in_use, self.wanted);
        Claim { worker, held, wanted, since_us }
    }
}

impl Tables {
    /// Gives a worker permits, or takes back what it does not use; `None` if it has no lease.
    pub(crate) async fn deal(&self, ask: Ask<'_>) -> Result<Option<Dealt>, StoreError> {
        let mut session = self.database.control();
        self.lock_consumer(session.as_mut(), ask.consumer).await?;
        // In statements of their own, which see what was committed before the lock was granted.
        let statements = vec![self.select_permits(ask.consumer), self.select_lease(ask.worker)];
        let answers = session.run(statements, End::Open { idle: IDLE }).await;
        let answers = answers.map_err(|failed| self.error(failed))?;
        let [permits, lease] = &answers[..] else {
            return Err(self.corrupt("permits without answers".to_owned()));
        };
        let Some(lease) = lease.rows.first() else { return Ok(None) };
        let now_us: i64 = self.column(lease, "now_us")?;
        let seen = self.seen(&permits.rows, ask)?;
        let Decision { dealt, mine, grown, tells } = seen.decide(ask, now_us);
        let mut statements: Vec<Statement> = Vec::new();
        for worker in &seen.dead {
            statements.extend(self.take_permits_of(ask.consumer, worker));
        }
        statements.extend(grown.iter().map(|grown| self.hand_to(ask.consumer, grown)));
        statements.extend(self.write_permits(ask.consumer, seen.mine, mine));
        if tells {
            statements.push(Statement::signal(Topic::Permits));
        }
        session.run(statements, End::Commit).await.map_err(|failed| self.error(failed))?;
        Ok(Some(dealt))
    }

    /// The permits of a consumer, without a lock.
    pub(crate) async fn look_at_permits(&self, ask: Ask<'_>) -> Result<Seen, StoreError> {
        self.seen(&self.query(self.select_permits(ask.consumer)).await?, ask)
    }

    /// How much of a consumer's limit is used, if any is.
    pub(crate) async fn limit_status(
        &self,
        consumer: &str,
    ) -> Result<Option<LimitStatus>, StoreError> {
        if self.database.require_newest_schema().is_err() {
            // A log of the last version has none.
            return Ok(None);
        }
        let rows = self.query(self.select_permits(consumer)).await?;
        let mut status: Option<LimitStatus> = None;
        for row in &rows {
            let Stored { claim, most } = self.stored_permits(row)?;
            if self.column::<bool>(row, "is_alive")? {
                let none = LimitStatus { most, held: 0, waiting: 0 };
                let status = status.get_or_insert(none);
                status.most = status.most.min(most);
                status.held += claim.held;
                status.waiting += claim.wanted;
            }
        }
        Ok(status)
    }

    fn seen(&self, rows: &[Row], ask: Ask<'_>) -> Result<Seen, StoreError> {
        let stored = |row| Ok((self.stored_permits(row)?, self.column(row, "is_alive")?));
        let stored: Vec<_> = rows.iter().map(stored).collect::<Result<_, StoreError>>()?;
        Ok(Seen::new(stored, ask))
    }

    fn hand_to(&self, consumer: &str, to: &Claim) -> Statement {
        let update = format!(
            "UPDATE {} SET held = $3, wanted = $4 WHERE pool = $1 AND worker = $2",
            self.permits
        );
        Statement::new(update, params![consumer, &to.worker, to.held, to.wanted])
    }

    /// A worker runs a consumer no longer: what it held of it is handed to those who wait. Whatever it had asked
    /// for before is done, since this waits for the same lock.
    pub(crate) async fn give_back_permits(
        &self,
        consumer: &str,
        worker: &str,
    ) -> Result<(), StoreError> {
        let (most, in_use, wanted, had_turn) = (usize::MAX, 0, 0, false);
        self.deal(Ask { consumer, worker, most, in_use, wanted, had_turn }).await.map(drop)
    }

    fn select_permits(&self, consumer: &str) -> Statement {
        let select = format!(
            "SELECT p.worker, p.held, p.wanted, p.most, p.since_us, EXISTS (SELECT 1 FROM {} AS w \
             WHERE w.id = p.worker AND w.lease_us > {}) AS is_alive FROM {} AS p \
             WHERE p.pool = $1 ORDER BY p.worker",
            self.workers, self.now, self.permits
        );
        Statement::query(select, params![consumer])
    }

    /// The time, if a worker has a lease.
    fn select_lease(&self, worker: &str) -> Statement {
        let (workers, now) = (&self.workers, self.now);
        let select =
            format!("SELECT {now} AS now_us FROM {workers} WHERE id = $1 AND lease_us > {now}");
        Statement::query(select, params![worker])
    }

    /// The statements after which a worker without a lease holds no permits, and stores nothing that it has
    /// begun with them.
    fn take_permits_of(&self, consumer: &str, worker: &str) -> Vec<Statement> {
        let (cursors, permits) = (&self.cursors, &self.permits);
        let owned = "consumer = $1 AND owner = $2";
        let mut statements = Vec::new();
        if !self.for_update.is_empty() {
            // In the order in which others lock them.
            let lock =
                format!("SELECT id FROM {cursors} WHERE {owned} ORDER BY id{}", self.for_update);
            statements.push(Statement::query(lock, params![consumer, worker]));
        }
        for sql in [
            format!("UPDATE {cursors} SET epoch = epoch + 1 WHERE {owned}"),
            format!("DELETE FROM {permits} WHERE pool = $1 AND worker = $2"),
        ] {
            statements.push(Statement::new(sql, params![consumer, worker]));
        }
        statements
    }

    fn write_permits(
        &self,
        consumer: &str,
        before: Option<Stored>,
        now: Stored,
    ) -> Option<Statement> {
        let permits = &self.permits;
        if before.as_ref() == Some(&now) {
            return None;
        }
        let Stored { claim: Claim { worker, held, wanted, since_us }, most } = now;
        if held + wanted == 0 {
            let delete = format!("DELETE FROM {permits} WHERE pool = $1 AND worker = $2");
            return before.map(|_| Statement::new(delete, params![consumer, worker]));
        }
        let insert = format!(
            "INSERT INTO {permits} (pool, worker, held, wanted, most, since_us) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (pool, worker) DO UPDATE SET \
             held = excluded.held, wanted = excluded.wanted, most = excluded.most, \
             since_us = excluded.since_us"
        );
        let values = params![consumer, worker, held, wanted, most, since_us];
        Some(Statement::new(insert, values))
    }

    fn stored_permits(&self, row: &Row) -> Result<Stored, StoreError> {
        let count = |name| {
            let count: i64 = self.column(row, name)?;
            usize::try_from(count).map_err(|_| self.corrupt(format!("{count} permits")))
        };
        let claim = Claim {
            worker: self.column(row, "worker")?,
            held: count("held")?,
            wanted: count("wanted")?,
            since_us: self.column(row, "since_us")?,
        };
        Ok(Stored { claim, most: count("most")? })
    }
}
