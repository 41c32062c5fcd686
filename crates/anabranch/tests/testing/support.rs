//! A kit on each database, and consumers that count what reaches them.

use anabranch::Namespace;
use anabranch::prelude::*;
use anabranch::testing::TestKit;
use anabranch::workpool::{OutsidePool, Pool, Run, Task};
use anabranch::{Options, Retry};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A kit on a log in memory.
pub async fn in_memory() -> TestKit {
    TestKit::new().await.unwrap()
}

/// A kit on a log of its own on PostgreSQL.
pub async fn on_postgres() -> TestKit {
    let url = std::env::var("ANABRANCH_TEST_POSTGRES")
        .expect("these tests need PostgreSQL: run `cargo xtask test`");
    let own = format!("kit_{:016x}", uuid::Uuid::now_v7().as_u64_pair().1);
    let options = Options { namespace: Namespace::new(own).unwrap(), ..Options::default() };
    TestKit::with_log(anabranch::connect_with(&url, &options).await.unwrap())
}

/// Runs each case on both databases.
#[macro_export]
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case($crate::support::in_memory().await).await; })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case($crate::support::on_postgres().await).await; })*
        }
    };
}

/// Orders 1 and 2, with two and one events.
pub async fn three_events(kit: &TestKit) {
    let happened = || NewEvent::new("Happened", ());
    kit.given([("Order:1", happened()), ("Order:2", happened()), ("Order:1", happened())])
        .await
        .unwrap();
}

/// What was done outside of any transaction.
#[derive(Clone, Default)]
pub struct Outside(Arc<Mutex<Vec<String>>>);

impl Outside {
    pub fn does(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub fn done(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Counts the events of each order, in a table and outside.
#[derive(Clone)]
pub struct Counter {
    pub table: String,
    pub outside: Outside,
    pub settings: Settings,
}

impl Counter {
    pub fn of(_kit: &TestKit) -> Self {
        let table = format!("counter_{:016x}", uuid::Uuid::now_v7().as_u64_pair().1);
        // By a clock that goes on, the waits are over soon.
        let soon = Duration::from_millis(20);
        let settings = Settings::default().retry(Retry::default().attempts(3).first(soon));
        Self { table, outside: Outside::default(), settings }
    }

    pub async fn counts(&self, kit: &TestKit) -> Vec<(String, i64)> {
        let select = format!("SELECT id, events FROM {} ORDER BY id", self.table);
        kit.rows(select, params![]).await.unwrap()
    }
}

/// What [`three_events`] count.
pub fn once() -> Vec<(String, i64)> {
    vec![("1".to_owned(), 2), ("2".to_owned(), 1)]
}

impl Projection for Counter {
    fn name(&self) -> &str {
        "counter"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.outside.does(format!("{}@{}", event.stream(), event.version()));
        let table = &self.table;
        let count = format!(
            "INSERT INTO {table} (id, events) VALUES ($1, 1)
             ON CONFLICT (id) DO UPDATE SET events = {table}.events + 1"
        );
        tx.execute(count, params![event.stream_id()]).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let create = format!("CREATE TABLE {} (id TEXT PRIMARY KEY, events BIGINT)", self.table);
        tx.execute(create, vec![]).await
    }
}

/// Notes each delivery, with its idempotency key.
#[derive(Clone, Default)]
pub struct Mailer {
    pub outside: Outside,
    pub at_most_once: bool,
}

impl Subscriber for Mailer {
    fn name(&self) -> &str {
        "mailer"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn guarantee(&self) -> anabranch::running::Guarantee {
        match self.at_most_once {
            true => anabranch::running::Guarantee::AtMostOnce,
            false => anabranch::running::Guarantee::AtLeastOnce,
        }
    }

    async fn deliver(&self, delivery: &anabranch::Delivery<'_>) -> HandlerResult {
        self.outside.does(delivery.idempotency_key());
        Ok(())
    }
}

/// A pool that writes down its tasks, in its transaction and outside.
#[derive(Clone)]
pub struct Clerk {
    pub table: String,
    pub outside: Outside,
}

impl Clerk {
    pub async fn of(kit: &TestKit) -> Self {
        let counter = Counter::of(kit);
        // The table of a projection that nothing happens to.
        let (table, outside) = (counter.table.clone(), counter.outside.clone());
        TestKit::with_log(kit.log().clone()).run(counter).await.unwrap();
        Self { table, outside }
    }
}

impl Pool for Clerk {
    type Output = ();

    fn name(&self) -> &str {
        "clerk"
    }

    async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult {
        self.outside.does(task.id().to_string());
        let table = &self.table;
        let count = format!(
            "INSERT INTO {table} (id, events) VALUES ($1, 1)
             ON CONFLICT (id) DO UPDATE SET events = {table}.events + 1"
        );
        tx.execute(count, params![task.key()]).await
    }
}

/// A pool whose effects are outside.
#[derive(Clone, Default)]
pub struct Caller(pub Outside);

impl OutsidePool for Caller {
    type Output = ();

    fn name(&self) -> &str {
        "caller"
    }

    async fn run(&self, task: &Task, _run: &mut Run) -> HandlerResult {
        self.0.does(task.id().to_string());
        Ok(())
    }
}
