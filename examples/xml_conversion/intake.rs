//! Fills the table of documents.

use crate::flaw::make;
use crate::start::Outcome;
use crate::target::{APPLICATIONS, row, run};
use anabranch::backend::database::Statement;
use anabranch::{Log, Value, params};

/// How many documents are stored at a time.
const AT_ONCE: u64 = 500;
/// When the first of them came, in microseconds since 1970; the others one minute after the other.
const FIRST_US: i64 = 1_767_225_600_000_000;
const MINUTE_US: i64 = 60_000_000;

/// Which documents there are: the same seed makes the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intake {
    pub rows: u64,
    pub seed: u64,
}

impl Intake {
    /// What the table holds.
    pub async fn read(log: &Log) -> Outcome<Self> {
        let select =
            format!("SELECT count(*) AS n, coalesce(max(seed), 0) AS seed FROM {APPLICATIONS}");
        let row = row(log, select).await?;
        Ok(Self { rows: row.get("n")?, seed: row.get("seed")? })
    }

    /// Fills the table, unless it is filled so already.
    pub async fn fill(self, log: &Log) -> Outcome<()> {
        let found = Self::read(log).await?;
        if found == self {
            return Ok(());
        }
        if found.rows > 0 {
            return Err(format!(
                "the table {APPLICATIONS} holds {} documents of seed {}; ask for as many, or begin anew \
                 with --fresh",
                found.rows, found.seed
            )
            .into());
        }
        let mut statements = Vec::new();
        for first in (1..=self.rows).step_by(AT_ONCE as usize) {
            let insert = |number: u64| {
                let received = Value::Time(FIRST_US + number as i64 * MINUTE_US);
                let xml = make(self.seed, number).xml;
                Statement::new(
                    format!(
                        "INSERT INTO {APPLICATIONS} (id, seed, received, xml) VALUES ($1, $2, $3, $4)"
                    ),
                    params![number, self.seed, received, xml],
                )
            };
            statements.extend((first..(first + AT_ONCE).min(self.rows + 1)).map(insert));
            run(log, std::mem::take(&mut statements)).await?;
        }
        Ok(())
    }
}
