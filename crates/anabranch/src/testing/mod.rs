//! A test kit: your consumers on given events, with failures, crashes and a clock to move.
//!
//! A [`TestKit`] has a log in memory and runs projections, views, rollups, subscribers, pools and workflows on it:
//! by the lanes, transactions, fences and retries that production has, so what a test shows is what happens there.
//!
//! ```
//! use anabranch::prelude::*;
//! use anabranch::testing::TestKit;
//!
//! struct OrderCount;
//!
//! impl Projection for OrderCount {
//!     fn name(&self) -> &str { "order_count" }
//!     fn partition(&self) -> Partition { Partition::entity("Order") }
//!     async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
//!         tx.execute(
//!             "INSERT INTO order_count (id, events) VALUES ($1, 1)
//!              ON CONFLICT (id) DO UPDATE SET events = order_count.events + 1",
//!             params![event.stream_id()],
//!         )
//!         .await
//!     }
//!     async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
//!         let table = "CREATE TABLE order_count (id TEXT PRIMARY KEY, events BIGINT)";
//!         tx.execute(table, vec![]).await
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut kit = TestKit::new().await?;
//! let placed = || NewEvent::new("OrderPlaced", ());
//! kit.given([("Order:1", placed()), ("Order:2", placed()), ("Order:1", placed())]).await?;
//!
//! // The process dies after the second event, before anything is committed.
//! kit.crash_after(2);
//! assert!(kit.try_run(OrderCount).await?.crashed());
//!
//! // The next one goes on, and each event counts once.
//! kit.run(OrderCount).await?;
//! let counts: Vec<(String, i64)> =
//!     kit.rows("SELECT id, events FROM order_count ORDER BY id", params![]).await?;
//! assert_eq!(counts, [("1".to_owned(), 2), ("2".to_owned(), 1)]);
//! # Ok(()) }
//! ```
//!
//! What can go wrong is armed for the next run, and its calls are counted from 1, over all consumers of that run:
//!
//! | | the next run |
//! |---|---|
//! | [`fail_at`](TestKit::fail_at), [`fail_after`](TestKit::fail_after), [`fail_when`](TestKit::fail_when) | a call of a handler returns an error, before or after its effects |
//! | [`crash_after`](TestKit::crash_after) | the process dies after a call: what is not committed is gone |
//! | [`deliver_again`](TestKit::deliver_again) | somebody takes over while a call runs: its late commit is fenced |
//!
//! Time stands still until [`advance`](TestKit::advance) moves it. A run does what is due, and returns; waits between
//! attempts, tasks for later, timers and schedules become due when the clock has moved that far.
//!
//! Decisions of workflows alone, without a database: [`workflow::Kit`](crate::workflow::Kit). The page
//! `docs/testing.md` has more examples.

mod consumer;
mod error;
mod faults;
mod kit;
mod ran;
mod rows;

pub use consumer::{Testable, kind};
pub use error::TestError;
pub use kit::TestKit;
pub use ran::Ran;
pub use rows::FromRow;
