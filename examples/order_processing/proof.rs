//! The proof, from the log and from the records of those outside: every order has one end, and the money
//! is where it belongs.

use super::Outcome;
use super::order::{OrderEvent, Orders, Stage, Transfer};
use super::outside::{Outside, Records};
use super::shop::{self, Shop};
use super::story::Story;
use anabranch::prelude::*;
use anabranch::workflow::Workflow;
use anabranch::workflow::Workflows;
use anabranch::workpool::Tasks;
use anabranch::workpool::{PoolCounts, TaskState};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// How long the slowest machine may take to finish.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// The pools of the two workflows.
const POOLS: [&str; 3] = ["orders.commands", "orders.actions", "shop.commands"];

/// An order, as the log and those outside know it.
#[derive(Default)]
pub struct Account {
    pub events: Vec<OrderEvent>,
    ends: Vec<Stage>,
    /// By card or transfer, as those outside know.
    taken: u64,
    /// As the events say.
    kept: u64,
    arrived: u64,
    sent_back: u64,
    /// What was done outside, by its kind, and how many cents by that.
    done: HashMap<String, (usize, u64)>,
    has_transfer: bool,
}

pub struct Proof {
    accounts: BTreeMap<String, Account>,
    records: Records,
    /// How many tasks of our pools stand how.
    tasks: Vec<PoolCounts>,
    books: shop::Books,
}

impl Proof {
    /// Waits until nothing is left to do, then reads everything.
    pub async fn when_all_is_done(log: &Log, outside: &Outside) -> Outcome<Self> {
        let started = Instant::now();
        loop {
            let proof = Self::read(log, outside).await?;
            let Some(left) = proof.left() else { return Ok(proof) };
            if started.elapsed() > PATIENCE {
                proof.check()?;
                return Err(format!("not done after {PATIENCE:?}: {left}").into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn read(log: &Log, outside: &Outside) -> Outcome<Self> {
        // The tasks first: what they have led to by then is in the log.
        let tasks = Tasks::counts(log).await?;
        let (schema, mut accounts) = (Orders::default().schema(), BTreeMap::new());
        for event in log.read(Query::all()).collect().await? {
            match event.category() {
                "Order" => {
                    let order = event.stream_id().to_owned();
                    let found: &mut Account = accounts.entry(order).or_default();
                    found.happened(schema.decode(&event)?);
                }
                "Bank" => {
                    let Transfer { order, cents } = event.data()?;
                    let found = accounts.entry(order).or_default();
                    found.taken += cents;
                    found.has_transfer = true;
                }
                _ => {}
            }
        }
        let records = outside.records().await?;
        for effect in &records.effects {
            let found = accounts.entry(effect.order.clone()).or_default();
            found.taken += if effect.kind == "charge" { effect.cents } else { 0 };
            let done = found.done.entry(effect.kind.clone()).or_default();
            *done = (done.0 + 1, done.1 + effect.cents);
        }
        let shop = Workflows::new(log, Shop).state(shop::ID).await?;
        let books = shop.map(|shop| shop.state).unwrap_or_default();
        Ok(Self { accounts, records, tasks, books })
    }

    fn count(&self, pool: &str, state: TaskState) -> u64 {
        let of_pool = self.tasks.iter().filter(|counts| counts.pool == pool);
        let mut counts = of_pool.flat_map(|counts| &counts.tasks);
        counts.find(|(stands, _)| *stands == state).map_or(0, |(_, count)| *count)
    }

    /// What is still to be done, if there is anything.
    fn left(&self) -> Option<String> {
        let open = |pool: &&str| {
            // The shop's next evening is always scheduled.
            let timers =
                if pool.starts_with("shop") { 0 } else { self.count(pool, TaskState::Scheduled) };
            timers + self.count(pool, TaskState::Ready) + self.count(pool, TaskState::Held)
        };
        let open: u64 = POOLS.iter().map(open).sum();
        let waits = |(id, account): &(&String, &Account)| !account.is_over(Story::of(id));
        let waiting: Vec<&String> = self.accounts.iter().filter(waits).map(|(id, _)| id).collect();
        let sold = self.accounts.values().filter(|account| account.kept > 0).count() as u64;
        let untold = sold.saturating_sub(self.books.orders);
        (open > 0 || !waiting.is_empty() || untold > 0)
            .then(|| format!("{open} tasks, {untold} sales to tell, and the orders {waiting:?}"))
    }

    pub fn records(&self) -> &Records {
        &self.records
    }

    pub fn accounts(&self) -> &BTreeMap<String, Account> {
        &self.accounts
    }

    /// What is not as it should be, if anything, else what was found.
    pub fn check(&self) -> Outcome<String> {
        let mut problems: Vec<String> = Vec::new();
        for (id, account) in &self.accounts {
            problems.extend(account.problems(Story::of(id)).map(|what| format!("{id}: {what}")));
        }
        let sum = |of: fn(&Account) -> u64| self.accounts.values().map(of).sum::<u64>();
        let (taken, kept) = (sum(|it| it.taken), sum(|it| it.kept));
        let (refunded, end) = (sum(|it| it.effects("refund").1), |stage: Stage| {
            self.accounts.values().filter(|it| it.ends.first() == Some(&stage)).count()
        });
        let shipped = end(Stage::Shipped);
        if taken != kept + refunded {
            problems.push(format!("{taken} cents taken, {kept} kept, {refunded} refunded"));
        }
        if (self.books.cents, self.books.orders) != (kept, shipped as u64) {
            problems.push(format!("{kept} cents kept of {shipped} orders, but {:?}", self.books));
        }
        let compensated = self.count("orders.actions", TaskState::Compensated) as usize;
        let given_up = self.accounts.values().filter(|it| it.gave_up()).count();
        let dead = |pool| self.count(pool, TaskState::Dead);
        if compensated != given_up || dead("orders.actions") + dead("orders.commands") > 0 {
            problems.push(format!("{compensated} actions compensated, {given_up} were given up"));
        }
        if !problems.is_empty() {
            let shown: Vec<_> = problems.iter().take(10).cloned().collect();
            return Err(format!("{} problems:\n  {}", problems.len(), shown.join("\n  ")).into());
        }
        let (all, cancelled, failed) =
            (self.accounts.len(), end(Stage::Cancelled), end(Stage::Failed));
        let euros = |cents: u64| format!("{}.{:02}", cents / 100, cents % 100);
        let (calls, effects) = (self.records.calls.len(), self.records.effects.len());
        Ok(format!(
            "{all} orders, each with one end: {shipped} shipped, {cancelled} cancelled, {failed} failed\n\
             {} euros taken = {} kept + {} refunded; the shop's books say {} of {} orders\n\
             {calls} calls to those outside for {effects} effects: each order charged, shipped and \
             refunded at most once",
            euros(taken),
            euros(kept),
            euros(refunded),
            euros(self.books.cents),
            self.books.orders
        ))
    }
}

impl Account {
    fn happened(&mut self, event: OrderEvent) {
        match &event {
            OrderEvent::Paid { cents } | OrderEvent::MoneyTooLate { cents } => {
                self.arrived += cents;
            }
            OrderEvent::Refunded { cents } => self.sent_back += cents,
            OrderEvent::Shipped { cents, .. } => {
                self.kept += cents;
                self.ends.push(Stage::Shipped);
            }
            OrderEvent::Cancelled { .. } => self.ends.push(Stage::Cancelled),
            OrderEvent::Failed => self.ends.push(Stage::Failed),
            _ => {}
        }
        self.events.push(event);
    }

    fn has(&self, which: impl Fn(&OrderEvent) -> bool) -> usize {
        self.events.iter().filter(|event| which(event)).count()
    }

    fn gave_up(&self) -> bool {
        self.has(|event| matches!(event, OrderEvent::ShippingFailed { .. })) > 0
    }

    /// How often something was done outside, and with how many cents in all.
    fn effects(&self, kind: &str) -> (usize, u64) {
        self.done.get(kind).copied().unwrap_or_default()
    }

    /// Whether nobody, the customer included, will do anything more.
    fn is_over(&self, story: Story) -> bool {
        let is_reminded = self.has(|event| matches!(event, OrderEvent::Reminded)) > 0;
        let will_pay = match story {
            Story::Transfer | Story::TooLate => true,
            Story::Forgetful => is_reminded,
            _ => false,
        };
        !self.ends.is_empty()
            && self.taken == self.arrived
            && (self.has_transfer || !will_pay)
            && self.taken == self.kept + self.sent_back
    }

    fn problems(&self, story: Story) -> impl Iterator<Item = String> {
        let (mut found, ends) = (Vec::new(), &self.ends);
        let may_end = |end: &Stage| *end == story.end() || *end == Stage::Cancelled;
        if ends.len() != 1 || !ends.iter().all(may_end) {
            found.push(format!("it is to end as {:?}, and ends as {ends:?}", story.end()));
        }
        let (charges, _) = self.effects("charge");
        let (refunds, refunded) = self.effects("refund");
        let (parcels, _) = self.effects("parcel");
        let shipped = ends.iter().filter(|end| **end == Stage::Shipped).count();
        if charges > 1 || refunds > 1 || parcels != shipped {
            found.push(format!("{charges} charges, {refunds} refunds, {parcels} parcels"));
        }
        if self.taken != self.kept + refunded || refunded != self.sent_back {
            found.push(format!(
                "{} taken, {} kept, {refunded} refunded, {} known as refunded",
                self.taken, self.kept, self.sent_back
            ));
        }
        let reminded = self.has(|event| matches!(event, OrderEvent::Reminded));
        if self.effects("reminder").0 != reminded || reminded > 1 {
            found.push(format!("{reminded} times reminded, {:?}", self.effects("reminder")));
        }
        found.into_iter()
    }
}
