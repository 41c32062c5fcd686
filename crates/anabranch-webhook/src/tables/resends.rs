//! Deliveries that are to be sent again: counted, and in an order that sending them does not change.

use super::{COLUMNS, Tables};
use crate::deliveries::{Delivery, Filter};
use crate::resend::ResendPlace;
use anabranch_core::StoreError;
use anabranch_store::database::Statement;
use anabranch_store::params;

/// What a filter finds, in numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) deliveries: u64,
    pub(crate) keys: u64,
    pub(crate) delivered: u64,
    pub(crate) outdated: u64,
}

impl Tables {
    /// Whether the id of a delivery `d` is still that of its events.
    fn is_current(&self) -> String {
        let endpoints = &self.endpoints;
        format!(
            "d.edition = coalesce((SELECT e.edition FROM {endpoints} AS e WHERE e.consumer = d.consumer), 0)"
        )
    }

    /// How many deliveries a filter finds.
    pub(crate) async fn count(&self, filter: &Filter) -> Result<Found, StoreError> {
        let (table, (matching, values)) = (&self.deliveries, Self::matching(filter));
        let select = format!(
            "SELECT count(*) AS deliveries, count(CASE WHEN state = 'delivered' THEN 1 END) AS delivered, \
             count(CASE WHEN {} THEN NULL ELSE 1 END) AS outdated, \
             (SELECT count(*) FROM (SELECT DISTINCT consumer, key FROM {table} WHERE {matching}) AS k) AS keys \
             FROM {table} AS d WHERE {matching}",
            self.is_current()
        );
        let rows = self.database.rows(Statement::query(select, values)).await?;
        let Some(row) = rows.first() else {
            let (at, what) = (self.database.at().to_owned(), "a count without a row".to_owned());
            return Err(StoreError::Corrupt { at, what });
        };
        Ok(Found {
            deliveries: self.column(row, "deliveries")?,
            keys: self.column(row, "keys")?,
            delivered: self.column(row, "delivered")?,
            outdated: self.column(row, "outdated")?,
        })
    }

    /// The next deliveries that a filter finds, in the order of their events; and whether their ids are still those of
    /// their events.
    pub(crate) async fn in_order(
        &self,
        filter: &Filter,
        after: Option<&ResendPlace>,
        limit: usize,
    ) -> Result<Vec<(Delivery, bool)>, StoreError> {
        let (table, (matching, mut values)) = (&self.deliveries, Self::matching(filter));
        let select = format!(
            "SELECT {COLUMNS}, {} AS is_current FROM {table} AS d WHERE {matching} \
             AND (first, consumer, id) > ($7, $8, $9) ORDER BY first, consumer, id LIMIT $10",
            self.is_current()
        );
        let (first, consumer, id) = match after {
            Some(place) => (place.first, place.consumer.as_str(), place.id.as_str()),
            None => (0, "", ""),
        };
        values.extend(params![first, consumer, id, i64::try_from(limit).unwrap_or(i64::MAX)]);
        let rows = self.database.rows(Statement::query(select, values)).await?;
        rows.iter()
            .map(|row| Ok((self.delivery_of(row)?, self.column(row, "is_current")?)))
            .collect()
    }
}
