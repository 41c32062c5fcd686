//! Deliveries sent again by the workers: asked for here, without the endpoint's secret, and done in the order of each key.

use crate::deliveries::{Deliveries, Delivery, Filter};
use anabranch_core::{Position, StoreError};
use anabranch_runtime::{Consumers, OperateError};
use anabranch_store::database::{End, Statement, Topic};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many deliveries a preview names.
const NAMED: usize = 10;

/// What sending again what a filter finds would do.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ResendPreview {
    /// So many deliveries are found.
    pub deliveries: u64,
    /// Of so many keys; the later events of each wait meanwhile.
    pub keys: u64,
    /// So many of them have arrived before: their receivers get them twice.
    pub delivered: u64,
    /// So many have ids of a time before a replay under new ids, and are left out: they would come under other ids.
    pub outdated: u64,
    /// The first of them.
    pub first: Vec<Delivery>,
}

/// Where to go on with what a filter finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResendPlace {
    pub(crate) first: u64,
    pub(crate) consumer: String,
    pub(crate) id: String,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Resent {
    /// So many deliveries are sent again.
    pub asked: u64,
    /// So many were left out, since their ids are not those of their events any more.
    pub outdated: u64,
    /// Where to go on; nothing if that was all.
    pub next: Option<ResendPlace>,
    /// The last one that was found.
    pub last: Option<ResendPlace>,
}

impl Deliveries {
    /// What [`resend_where`](Self::resend_where) would do with all that a filter finds, whatever its limit. Refused as
    /// that would be.
    ///
    /// ```no_run
    /// # async fn f(log: &anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_webhook::{Deliveries, Filter};
    /// let filter = Filter { consumer: Some("crm".to_owned()), ..Filter::default() };
    /// let preview = Deliveries::new(log).resend_preview(&filter).await?;
    /// println!("{} deliveries of {} keys", preview.deliveries, preview.keys);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn resend_preview(&self, filter: &Filter) -> Result<ResendPreview, OperateError> {
        let found = self.tables.count(filter).await?;
        let first = self.tables.in_order(filter, None, NAMED).await?;
        let first: Vec<Delivery> = first.into_iter().map(|(delivery, _)| delivery).collect();
        let named = first.iter().map(|delivery| delivery.consumer.as_str());
        let mut consumers: Vec<&str> =
            filter.consumer.as_deref().into_iter().chain(named).collect();
        consumers.dedup();
        for consumer in consumers {
            Consumers::new(&self.log).deliver_again(consumer, &BTreeMap::new()).await?;
        }
        let (deliveries, keys) = (found.deliveries, found.keys);
        let (delivered, outdated) = (found.delivered, found.outdated);
        Ok(ResendPreview { deliveries, keys, delivered, outdated, first })
    }

    /// Asks the workers to send the next deliveries that a filter finds once more, whatever became of them: so many at
    /// most, in the order of their events, after a place. Their ids stay the same. Each is sent by the worker that has
    /// its key; later events of the key wait for it. Of a key that is parked the whole is tried again.
    ///
    /// Who sends much at a rate asks for a page at a time, and sets [`until`](Filter::until), so that what is sent
    /// meanwhile is not found. All deliveries of a page are asked for in one transaction, or none.
    ///
    /// ```no_run
    /// # async fn f(log: &anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_webhook::{Deliveries, DeliveryState, Filter};
    /// let deliveries = Deliveries::new(log);
    /// let state = Some(DeliveryState::Failed);
    /// let filter = Filter { state, until: Some(jiff::Timestamp::now()), ..Filter::default() };
    /// let mut after = None;
    /// loop {
    ///     let page = deliveries.resend_where(&filter, after.as_ref(), 100).await?;
    ///     after = page.next;
    ///     if after.is_none() {
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn resend_where(
        &self,
        filter: &Filter,
        after: Option<&ResendPlace>,
        limit: usize,
    ) -> Result<Resent, OperateError> {
        self.resend_page(filter, after, limit, |_, _| Vec::new()).await
    }

    /// The same together with the statements of `then`, which receives how many deliveries are asked for and the place of
    /// the last one that was found. If there are no more, `then` is not called.
    #[doc(hidden)]
    pub async fn resend_page(
        &self,
        filter: &Filter,
        after: Option<&ResendPlace>,
        limit: usize,
        then: impl Fn(u64, &ResendPlace) -> Vec<Statement> + Send,
    ) -> Result<Resent, OperateError> {
        let found = self.tables.in_order(filter, after, limit).await?;
        let is_page = found.len() == limit && limit > 0;
        let last = found.last().map(|(last, _)| ResendPlace::of(last));
        let next = last.clone().filter(|_| is_page);
        // In one order, so that two who ask for the same keys do not wait for each other.
        let mut wanted: BTreeMap<String, BTreeMap<String, Vec<Position>>> = BTreeMap::new();
        let (mut asked, mut outdated) = (0, 0);
        for (delivery, is_current) in found {
            if !is_current {
                outdated += 1;
                continue;
            }
            asked += 1;
            let keys = wanted.entry(delivery.consumer).or_default();
            keys.entry(delivery.key).or_default().extend(delivery.members);
        }
        let mut statements = Vec::new();
        for (consumer, keys) in &wanted {
            statements.extend(Consumers::new(&self.log).deliver_again(consumer, keys).await?);
        }
        statements.extend(last.iter().flat_map(|last| then(asked, last)));
        if !statements.is_empty() {
            statements.push(Statement::signal(Topic::Workers));
            let ran = self.tables.database.control().run(statements, End::Commit).await;
            ran.map_err(|failed| -> StoreError {
                failed.into_store_error(self.tables.database.at())
            })?;
        }
        Ok(Resent { asked, outdated, next, last })
    }
}

impl ResendPlace {
    fn of(delivery: &Delivery) -> Self {
        let first = delivery.members.first().copied().unwrap_or_default().get();
        Self { first, consumer: delivery.consumer.clone(), id: delivery.id.clone() }
    }
}
