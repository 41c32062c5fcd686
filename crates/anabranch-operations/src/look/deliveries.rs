//! What sending deliveries again would do.

use super::counted;
use super::many::seconds;
use crate::basis::{Basis, Bound};
use crate::operation_error::OperationError;
use crate::operations::{Looked, Operations};
use crate::plan::Effect;
use crate::request::{Request, ResendFilter};
use anabranch_core::time;
use anabranch_webhook::{Deliveries, DeliveryState, Filter};

impl Operations {
    pub(super) async fn resend(
        &self,
        request: &Request,
        name: &str,
        filter: &ResendFilter,
    ) -> Result<Looked, OperationError> {
        let known = vec![self.consumers.fingerprint(name).await?];
        let until_us = self.now_us().await?;
        let filter = delivery_filter(name, filter, until_us)?;
        let found = Deliveries::new(&self.log).resend_preview(&filter).await?;
        let sent = found.deliveries.saturating_sub(found.outdated);
        let says = format!(
            "{} of `{name}` would be sent again under the same ids; the later events of {} wait meanwhile",
            counted(sent, "delivery", "deliveries"),
            counted(found.keys, "key", "keys")
        );
        let mut effect = Effect::new(says)
            .count("deliveries", sent)
            .count("keys", found.keys)
            .count("delivered", found.delivered)
            .note((found.delivered > 0).then(|| {
                format!(
                    "{} arrived before: a receiver that does not mind ids takes {} twice",
                    counted(found.delivered, "of them has", "of them have"),
                    if found.delivered == 1 { "it" } else { "them" }
                )
            }))
            .note((found.outdated > 0).then(|| {
                format!(
                    "{} of a time before a replay under new ids, and left out",
                    counted(found.outdated, "is", "are")
                )
            }));
        effect.first = found.first.iter().map(|delivery| delivery.id.clone()).collect();
        effect.is_final = true;
        effect.seconds = seconds(request, sent);
        let bound = Bound::DeliveriesUpTo(until_us);
        Ok(Looked { basis: Basis { consumers: known, set: None, bound }, effect, total: sent })
    }
}

/// The deliveries that a request means, up to a time in microseconds since 1970.
pub(crate) fn delivery_filter(
    consumer: &str,
    filter: &ResendFilter,
    until_us: i64,
) -> Result<Filter, OperationError> {
    let ResendFilter { id, key, state } = filter.clone();
    let named = |name: String| {
        let found = DeliveryState::ALL.into_iter().find(|state| state.name() == name);
        found.ok_or(OperationError::NoSuchDeliveryState { state: name })
    };
    Ok(Filter {
        consumer: Some(consumer.to_owned()),
        id,
        key,
        state: state.map(named).transpose()?,
        until: Some(time::from_micros(until_us)),
        ..Filter::default()
    })
}
