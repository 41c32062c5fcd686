//! The world outside: a payment provider, a parcel service and a mailer, as far as an example needs them.
//!
//! They are in the same database so that the example needs nothing else, but never in a transaction of a
//! worker: what they have done stays done, whatever becomes of the worker. Each writes down every call,
//! and does what it is asked to do once for each idempotency key.

use super::Outcome;
use super::story::Story;
use anabranch::backend::database::{Answer, Database, End, Failed, Statement};
use anabranch::prelude::*;
use anabranch::{HandlerError, Value};
use std::sync::Arc;
use std::time::Duration;

/// How long it takes to get there, and back.
const DISTANCE: Duration = Duration::from_millis(3);
/// How often the payment provider does not answer when it has one of its days.
const BAD_DAYS: usize = 2;

const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS outside_calls (idempotency_key TEXT NOT NULL, kind TEXT NOT NULL, \
     order_id TEXT NOT NULL, process BIGINT NOT NULL, at_us BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS outside_effects (idempotency_key TEXT PRIMARY KEY, \
     kind TEXT NOT NULL, order_id TEXT NOT NULL, cents BIGINT NOT NULL)",
];

#[derive(Clone)]
pub struct Outside {
    database: Arc<dyn Database>,
    /// Whether to print every call.
    is_loud: bool,
}

/// What comes of a charge.
pub enum Charge {
    Taken,
    Declined(String),
}

impl Outside {
    pub async fn open(log: &Log, is_loud: bool) -> Outcome<Self> {
        let outside = Self { database: log.store().database(), is_loud };
        let tables = || TABLES.iter().map(|table| Statement::new(*table, vec![])).collect();
        if outside.run(tables()).await.is_err() {
            // Two processes made them at the same moment; PostgreSQL lets one of them fail.
            outside.run(tables()).await?;
        }
        Ok(outside)
    }

    /// Takes money, or says why not.
    pub async fn charge(&self, key: &str, order: &str, cents: u64) -> HandlerResult<Charge> {
        let calls = self.call(key, "charge", order).await?;
        match Story::of(order) {
            Story::Flaky if calls <= BAD_DAYS => {
                Err(HandlerError::new("the payment provider does not answer"))
            }
            Story::Declined => Ok(Charge::Declined("the card was declined".to_owned())),
            _ => {
                self.once(key, "charge", order, cents).await?;
                Ok(Charge::Taken)
            }
        }
    }

    /// Gives money back.
    pub async fn refund(&self, key: &str, order: &str, cents: u64) -> HandlerResult {
        self.call(key, "refund", order).await?;
        self.once(key, "refund", order, cents).await
    }

    /// Sends a parcel, and answers its number.
    pub async fn ship(&self, key: &str, order: &str) -> HandlerResult<String> {
        self.call(key, "parcel", order).await?;
        if Story::of(order) == Story::NoAddress {
            return Err(HandlerError::for_good("nobody lives there"));
        }
        self.once(key, "parcel", order, 0).await?;
        Ok(format!("parcel-{order}"))
    }

    pub async fn send_reminder(&self, key: &str, order: &str) -> HandlerResult {
        self.call(key, "reminder", order).await?;
        self.once(key, "reminder", order, 0).await
    }

    /// Writes a call down, by the database's clock. Answers how often this key has called by now.
    async fn call(&self, key: &str, kind: &str, order: &str) -> HandlerResult<usize> {
        let insert = format!(
            "INSERT INTO outside_calls (idempotency_key, kind, order_id, process, at_us) \
             VALUES ($1, $2, $3, $4, {})",
            self.database.dialect().now_us()
        );
        let calls = "SELECT order_id FROM outside_calls WHERE idempotency_key = $1";
        let answers = self
            .run(vec![
                Statement::new(insert, params![key, kind, order, std::process::id()]),
                Statement::query(calls, params![key]),
            ])
            .await?;
        if self.is_loud {
            println!("{kind} of {order}");
        }
        tokio::time::sleep(DISTANCE).await;
        Ok(answers.last().map_or(0, |answer| answer.rows.len()))
    }

    /// Does it, if it has not been done under this key.
    async fn once(&self, key: &str, kind: &str, order: &str, cents: u64) -> HandlerResult {
        let insert = "INSERT INTO outside_effects (idempotency_key, kind, order_id, cents) \
                      VALUES ($1, $2, $3, $4) ON CONFLICT (idempotency_key) DO NOTHING";
        self.run(vec![Statement::new(insert, params![key, kind, order, cents])]).await?;
        // Done, and nobody inside knows: a worker that dies now will call again.
        tokio::time::sleep(DISTANCE).await;
        Ok(())
    }

    async fn run(&self, statements: Vec<Statement>) -> Result<Vec<Answer>, Failed> {
        self.database.begin().run(statements, End::Commit).await
    }

    /// All that was ever called, and all that was ever done.
    pub async fn records(&self) -> Outcome<Records> {
        let calls = "SELECT idempotency_key, process, at_us FROM outside_calls ORDER BY at_us";
        let effects = "SELECT idempotency_key, kind, order_id, cents FROM outside_effects";
        let no_values = Vec::<Value>::new;
        let both =
            vec![Statement::query(calls, no_values()), Statement::query(effects, no_values())];
        let mut records = Records::default();
        for row in self.run(both).await?.iter().flat_map(|answer| &answer.rows) {
            let key = row.get("idempotency_key")?;
            match row.get("at_us") {
                Ok(at_us) => records.calls.push(Call { key, process: row.get("process")?, at_us }),
                Err(_) => records.effects.push(Effect {
                    key,
                    kind: row.get("kind")?,
                    order: row.get("order_id")?,
                    cents: row.get("cents")?,
                }),
            }
        }
        Ok(records)
    }
}

/// What those outside have written down.
#[derive(Default)]
pub struct Records {
    pub calls: Vec<Call>,
    pub effects: Vec<Effect>,
}

pub struct Call {
    pub key: String,
    /// Who called.
    pub process: u32,
    /// When, by the clock of the database.
    pub at_us: i64,
}

pub struct Effect {
    pub key: String,
    pub kind: String,
    pub order: String,
    pub cents: u64,
}
