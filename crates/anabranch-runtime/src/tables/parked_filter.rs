//! Keys that are set aside, by what a filter says of them: counted, and asked for a page at a time.

use super::Tables;
use super::parked::Asked;
use crate::consumers::KeyState;
use crate::parked_page::ParkedFilter;
use anabranch_core::{Position, StoreError};
use anabranch_store::database::{Session, Statement};
use anabranch_store::{Row, Value, params};

/// Keys of a consumer that were set aside up to a time, in microseconds since 1970, with their events up to a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meant<'a> {
    pub(crate) consumer: &'a str,
    pub(crate) filter: &'a ParkedFilter,
    pub(crate) up_to_us: i64,
    pub(crate) up_to: Position,
}

impl Tables {
    /// The time by the database's clock, in microseconds since 1970.
    pub(crate) async fn now_us(&self) -> Result<i64, StoreError> {
        let rows = self.query(Statement::query(format!("SELECT {} AS now_us", self.now), vec![]));
        let rows = rows.await?;
        let row = rows.first().ok_or_else(|| self.corrupt("no clock".to_owned()))?;
        self.column(row, "now_us")
    }

    /// How many keys are meant, how many events wait behind them, and the last of these.
    pub(crate) async fn count_parked(
        &self,
        of: Meant<'_>,
    ) -> Result<(u64, u64, Position), StoreError> {
        let mut values = params![of.consumer, of.up_to_us];
        let (keys, events) = (&self.parked_keys, &self.parked_events);
        let meant = self.is_meant(of.filter, &mut values);
        let select = format!(
            "SELECT (SELECT count(*) FROM {keys} AS k WHERE {meant}) AS keys, \
             count(*) AS events, coalesce(max(e.position), 0) AS last FROM {keys} AS k JOIN {events} AS e \
             ON e.consumer = k.consumer AND e.key = k.key WHERE {meant}"
        );
        let rows = self.query(Statement::query(select, values)).await?;
        let row = rows.first().ok_or_else(|| self.corrupt("a count without a row".to_owned()))?;
        let (keys, events) = (self.column(row, "keys")?, self.column(row, "events")?);
        Ok((keys, events, self.column(row, "last")?))
    }

    /// The next keys that are meant, after one.
    pub(crate) async fn meant_keys(
        &self,
        session: &mut dyn Session,
        of: Meant<'_>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let mut values = params![of.consumer, of.up_to_us, limit];
        let meant = self.is_meant(of.filter, &mut values);
        let behind = after.map_or_else(String::new, |after| {
            values.push(after.into());
            format!(" AND k.key > ${}", values.len())
        });
        let select = format!(
            "SELECT k.key FROM {} AS k WHERE {meant}{behind} ORDER BY k.key LIMIT $3",
            self.parked_keys
        );
        let rows = self.query_in(session, Statement::query(select, values)).await?;
        rows.iter().map(|row| self.column(row, "key")).collect()
    }

    /// Notes what somebody wants of those of some keys that are still meant; answers with their keys.
    pub(crate) async fn ask_meant(
        &self,
        session: &mut dyn Session,
        of: Meant<'_>,
        keys: &[String],
        asked: Asked,
    ) -> Result<u64, StoreError> {
        let mut values = params![of.consumer, of.up_to_us, asked.name()];
        values.push(keys.iter().map(|key| Value::from(key.as_str())).collect());
        let meant = self.is_meant(of.filter, &mut values);
        let is_one = self.database.dialect().is_any("k.key", 4);
        let asks = self.asks(asked, of.up_to, &mut values);
        let update = format!(
            "UPDATE {} AS k SET {asks} WHERE {meant} AND {is_one} RETURNING key",
            self.parked_keys
        );
        let rows: Vec<Row> = self.query_in(session, Statement::query(update, values)).await?;
        Ok(rows.len() as u64)
    }

    /// The condition that a key `k` is meant; `$1` is the consumer, `$2` the time.
    fn is_meant(&self, filter: &ParkedFilter, values: &mut Vec<Value>) -> String {
        let dialect = self.database.dialect();
        let mut meant = "k.consumer = $1 AND k.since_us <= $2".to_owned();
        let mut texts = |column: &str, contains: bool, text: &Option<String>| {
            let Some(text) = text else { return };
            values.push(text.as_str().into());
            let place = values.len();
            meant += &match contains {
                true => format!(" AND {}", dialect.contains(column, &format!("${place}"))),
                false => format!(" AND {column} = ${place}"),
            };
        };
        texts("k.key", false, &filter.key);
        texts("k.key", true, &filter.key_contains);
        texts("k.error", true, &filter.error_contains);
        meant += match filter.state {
            None => "",
            Some(KeyState::Parked) => " AND k.retry_us IS NULL AND k.asked IS NULL",
            Some(KeyState::Retrying) => " AND (k.retry_us IS NOT NULL OR k.asked IS NOT NULL)",
        };
        meant
    }
}
