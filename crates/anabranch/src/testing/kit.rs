//! The kit: a log, a clock, and what goes wrong next.

use super::consumer::Testable;
use super::error::TestError;
use super::faults::{Fault, Faults};
use super::ran::Ran;
use super::rows::FromRow;
use crate::{
    Event, Expected, HandlerError, HandlerResult, Log, NewEvent, ReplicaSet, RunError, Sql,
    StreamId, Value,
};
use anabranch_runtime::Consumers;
use anabranch_runtime::interference::take_slots;
use anabranch_store::Clock;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// How long a run may take, unless the test says otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// A log to test consumers on: given events, they run, and what they wrote is compared. See
/// [`testing`](super) for an example.
///
/// A run is a process of its own: it joins its replica set, does all that is due, and leaves. The next one goes
/// on where it stopped.
pub struct TestKit {
    log: Log,
    clock: Clock,
    armed: Vec<Fault>,
    patience: Duration,
}

impl std::fmt::Debug for TestKit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TestKit({} at {})", self.log.at(), self.now())
    }
}

impl TestKit {
    /// With an empty log in memory, whose clock stands at the present time.
    #[cfg(feature = "sqlite")]
    pub async fn new() -> Result<Self, TestError> {
        Self::starting_at(Timestamp::now()).await
    }

    /// The same at a time of your choice, for what depends on the calendar.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch::testing::TestKit;
    /// let kit = TestKit::starting_at("2026-12-31T23:59:00Z".parse()?).await?;
    /// assert_eq!(kit.now().to_string(), "2026-12-31T23:59:00Z");
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "sqlite")]
    pub async fn starting_at(time: Timestamp) -> Result<Self, TestError> {
        let (options, clock) = (crate::Options::default(), Clock::by_hand(time));
        let sqlite = crate::sqlite::Sqlite::in_memory(&options, clock).await?;
        Ok(Self::with_log(Log::new(sqlite)))
    }

    /// On a log of yours, so that the same test runs on PostgreSQL. Its clock goes on by itself: [`advance`] is
    /// refused, and a run waits until what has failed was tried for the last time, so give such consumers a
    /// [`Retry`](crate::Retry) with short waits.
    ///
    /// ```no_run
    /// # use anabranch::testing::TestKit;
    /// # async fn f() -> Result<(), anabranch::StoreError> {
    /// let kit = TestKit::with_log(anabranch::connect("postgres://localhost/test").await?);
    /// # Ok(()) }
    /// ```
    ///
    /// [`advance`]: Self::advance
    #[must_use]
    pub fn with_log(log: Log) -> Self {
        let clock = log.database().clock();
        Self { log, clock, armed: Vec::new(), patience: PATIENCE }
    }

    /// The log: to append with conditions, to enqueue tasks, for the readers of views, for
    /// [`Consumers`](crate::operate::Consumers).
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// How long a run may take before it is [too long](TestError::TooLong). Default 30 s.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Appends events, each to its stream, in this order.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use anabranch::{NewEvent, Query, testing::TestKit};
    /// let kit = TestKit::new().await?;
    /// kit.given([("Order:1", NewEvent::new("OrderPlaced", ()))]).await?;
    /// assert_eq!(kit.log().read(Query::all()).collect().await?.len(), 1);
    /// # Ok(()) }
    /// ```
    pub async fn given<S: AsRef<str>>(
        &self,
        events: impl IntoIterator<Item = (S, NewEvent)>,
    ) -> Result<(), TestError> {
        for (stream, event) in events {
            let stream: StreamId = stream.as_ref().parse()?;
            self.log.append(&stream, Expected::Any, [event]).await?;
        }
        Ok(())
    }

    /// Runs a consumer until everything is done that is due, and says how many events, or tasks, were handled. It
    /// fails if something is left: that has failed, or that a crash has interrupted.
    pub async fn run<K>(&mut self, consumer: impl Testable<K>) -> Result<u64, TestError> {
        let ran = self.try_run(consumer).await?;
        match ran {
            Ran { crashed: true, .. } => Err(TestError::Crashed),
            Ran { left: Some(left), .. } => Err(TestError::Left(left)),
            ran => Ok(ran.handled),
        }
    }

    /// The same for tests of failures: what has failed, and whether it crashed, is in the answer.
    ///
    /// ```
    /// # use anabranch::prelude::*;
    /// # use anabranch::testing::{TestError, TestKit};
    /// # async fn f<P: Projection + Clone>(mut kit: TestKit, orders: P) -> Result<(), TestError> {
    /// kit.fail_at(1, "no stock");
    /// let ran = kit.try_run(orders.clone()).await?;
    /// assert_eq!((ran.retrying(), ran.first_error()), (1, Some("no stock")));
    ///
    /// kit.advance(std::time::Duration::from_secs(60))?;
    /// kit.run(orders).await?; // The next attempt is due, and works.
    /// # Ok(()) }
    /// ```
    pub async fn try_run<K>(&mut self, consumer: impl Testable<K>) -> Result<Ran, TestError> {
        let armed = std::mem::take(&mut self.armed);
        let set = consumer.into_set();
        if armed.is_empty() {
            return self.run_to_end(set).await;
        }
        let faults = Arc::new(Faults::new(&self.log, armed));
        let set = set.interfere(Arc::clone(&faults) as _);
        let ran = tokio::select! {
            ran = self.run_to_end(set) => ran?,
            // What ran is dropped, and its transactions with it.
            () = faults.crashed() => Ran { crashed: true, ..Ran::default() },
        };
        if ran.crashed {
            self.notice_death().await?;
        }
        faults.check().map(|()| ran)
    }

    /// Frees what a process that crashed had. Its own set would notice at once, others when its lease is over: by
    /// a clock that stands still, never.
    async fn notice_death(&self) -> Result<(), TestError> {
        for consumer in Consumers::new(&self.log).list().await? {
            take_slots(&self.log, &consumer.name).await?;
        }
        Ok(())
    }

    /// Runs a set until everything is done, also what it appends itself on the way.
    async fn run_to_end(&self, set: ReplicaSet) -> Result<Ran, TestError> {
        let mut handled = 0;
        let run = async {
            loop {
                let head = self.log.head().await?;
                let ended = set.clone().catch_up_until(&self.log, std::future::pending()).await;
                let (progress, left) = match ended {
                    Ok(progress) => (progress, None),
                    Err(RunError::Incomplete(left)) => (left.progress.clone(), Some(left)),
                    Err(error) => return Err(TestError::from(error)),
                };
                let now = progress.consumers.iter().map(|one| one.handled).sum::<u64>();
                handled += now;
                // One consumer may have enqueued for another that had ended by then.
                let may_go_on = now > 0 && progress.consumers.len() > 1;
                if self.log.head().await? == head && !may_go_on {
                    return Ok(Ran { handled, crashed: false, left });
                }
            }
        };
        let ran = tokio::time::timeout(self.patience, run).await;
        ran.unwrap_or(Err(TestError::TooLong(self.patience)))
    }

    /// Reads rows, as tuples or as [`Row`](crate::Row)s.
    pub async fn rows<R: FromRow>(
        &self,
        sql: impl Sql,
        values: Vec<Value>,
    ) -> Result<Vec<R>, TestError> {
        let rows = self.log.query(sql, values).await?;
        let found = rows.first().map(|row| row.iter().count());
        if let (Some(found), Some(wanted)) = (found, R::COLUMNS)
            && found != wanted
        {
            return Err(TestError::Columns { found, wanted });
        }
        Ok(rows.into_iter().map(R::from_row).collect::<Result<_, _>>()?)
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the clock on: attempts, tasks, timers and schedules that become due with that are for the next run.
    pub fn advance(&mut self, by: Duration) -> Result<(), TestError> {
        match self.clock.advance(by) {
            true => Ok(()),
            false => Err(TestError::NotByHand { at: self.log.at().to_owned() }),
        }
    }

    /// In the next run, a call of a handler fails before it does anything.
    ///
    /// # Panics
    /// If the call is 0: they are counted from 1.
    #[track_caller]
    pub fn fail_at(&mut self, call: u64, error: impl Into<HandlerError>) {
        self.arm(Fault::FailAt(counted(call), error.into()));
    }

    /// In the next run, a call of a handler fails after it has done all it does: what it wrote in its transaction
    /// is rolled back, and what it did elsewhere is done.
    ///
    /// # Panics
    /// If the call is 0: they are counted from 1.
    #[track_caller]
    pub fn fail_after(&mut self, call: u64, error: impl Into<HandlerError>) {
        self.arm(Fault::FailAfter(counted(call), error.into()));
    }

    /// In the next run, each call fails with which this function does, before the handler does anything. It is
    /// not asked about tasks of pools.
    ///
    /// ```
    /// # use anabranch::prelude::*;
    /// # use anabranch::testing::{TestError, TestKit};
    /// # async fn f<P: Projection>(mut kit: TestKit, orders: P) -> Result<(), TestError> {
    /// kit.fail_when(|event| match event.event_type() {
    ///     "OrderCancelled" => Err(HandlerError::for_good("no such order")),
    ///     _ => Ok(()),
    /// });
    /// assert_eq!(kit.try_run(orders).await?.parked(), 1);
    /// # Ok(()) }
    /// ```
    pub fn fail_when(&mut self, fails: impl Fn(&Event) -> HandlerResult + Send + Sync + 'static) {
        self.arm(Fault::FailWhen(Box::new(fails)));
    }

    /// The next run dies after a call of a handler, as by `kill -9`: what is not committed is rolled back, and
    /// what was done elsewhere is done.
    ///
    /// # Panics
    /// If the call is 0: they are counted from 1.
    #[track_caller]
    pub fn crash_after(&mut self, call: u64) {
        self.arm(Fault::CrashAfter(counted(call)));
    }

    /// In the next run, somebody else takes the slots while a call runs, as from a process that has hung for too
    /// long. So its late commit is fenced, with the whole batch, and all of that is delivered once more. What a
    /// handler wrote in its transaction is there once; what it did elsewhere is done twice, under the same
    /// idempotency key. Two calls of one batch are fenced together, once.
    ///
    /// A subscriber with [`Guarantee::AtMostOnce`](crate::running::Guarantee::AtMostOnce) commits before it delivers,
    /// so nothing of it can come again: that is [an error](TestError::AtMostOnce).
    ///
    /// # Panics
    /// If the call is 0: they are counted from 1.
    #[track_caller]
    pub fn deliver_again(&mut self, call: u64) {
        self.arm(Fault::TakeOverAt(counted(call)));
    }

    fn arm(&mut self, fault: Fault) {
        self.armed.push(fault);
    }
}

#[track_caller]
fn counted(call: u64) -> u64 {
    assert!(call > 0, "calls are counted from 1: name the first one 1");
    call
}
