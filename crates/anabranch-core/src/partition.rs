//! Partitions: how a consumer's events are keyed, and so which of them keep their order.

use crate::{Event, HashRule, Slot, SlotSet};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

mod classify;
mod of_key;
mod stored;
mod strategy;

pub use classify::{Answers, Recommendation, classify};
pub use strategy::Strategy;

/// How a consumer's events are keyed. Events of one key are handled in order by one owner; events of
/// different keys may be handled at the same time.
///
/// ```
/// use anabranch_core::Partition;
/// let by_order = Partition::entity("Order");
/// let by_region = Partition::custom("by-region", |event| {
///     event.tags().find_map(|tag| tag.strip_prefix("region:")).map(str::to_owned)
/// });
/// assert_eq!(by_order.strategy().recommended_lanes(), 10);
/// assert_eq!(by_region.strategy().name(), "custom");
/// ```
#[derive(Clone)]
pub struct Partition {
    by: By,
    rule: Option<HashRule>,
}

#[derive(Clone)]
enum By {
    /// The stream; of one category, or of any.
    Entity(Option<Arc<str>>),
    Customer,
    Saga,
    Global,
    /// The tenant and the tag with this name.
    Dcb(Arc<str>),
    Custom(Arc<str>, KeyFn),
}

type KeyFn = Arc<dyn Fn(&Event) -> Option<String> + Send + Sync>;

impl Partition {
    /// By stream, for events of one category: `Order:ord-123`.
    #[must_use]
    pub fn entity(category: impl Into<Arc<str>>) -> Self {
        Self::by(By::Entity(Some(category.into())))
    }

    /// By stream, for streams of any category.
    #[must_use]
    pub fn entities() -> Self {
        Self::by(By::Entity(None))
    }

    /// By customer: `cust-123`.
    #[must_use]
    pub fn customer() -> Self {
        Self::by(By::Customer)
    }

    /// By business process, which is the correlation of its events: `corr-123`.
    #[must_use]
    pub fn saga() -> Self {
        Self::by(By::Saga)
    }

    /// All events in one sequence.
    #[must_use]
    pub fn global() -> Self {
        Self::by(By::Global)
    }

    /// By the scope of a dynamic consistency boundary: the tenant and the first tag `scope:ID` of an
    /// event, `dcb:tenant:T:reservation:res-456`.
    #[must_use]
    pub fn dcb(scope: impl Into<Arc<str>>) -> Self {
        Self::by(By::Dcb(scope.into()))
    }

    /// By a function of yours. It must answer the same for an event for ever, or order is lost.
    #[must_use]
    pub fn custom(
        name: impl Into<Arc<str>>,
        key: impl Fn(&Event) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::by(By::Custom(name.into(), Arc::new(key)))
    }

    fn by(by: By) -> Self {
        Self { by, rule: None }
    }

    /// Hashes keys by this rule instead of the log's. Events are then routed at the client, since
    /// the slots that are stored with them do not serve.
    #[must_use]
    pub fn with_rule(self, rule: HashRule) -> Self {
        Self { rule: Some(rule), ..self }
    }

    /// The hash rule that it uses on a log with this one.
    #[must_use]
    pub fn rule(&self, log_rule: HashRule) -> HashRule {
        self.rule.unwrap_or(log_rule)
    }

    /// Which strategy it is.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        match self.by {
            By::Entity(_) => Strategy::Entity,
            By::Customer => Strategy::Customer,
            By::Saga => Strategy::Saga,
            By::Global => Strategy::Global,
            By::Dcb(_) => Strategy::Dcb,
            By::Custom(..) => Strategy::Custom,
        }
    }

    /// The one category whose events it is for.
    #[must_use]
    pub fn category(&self) -> Option<&str> {
        match &self.by {
            By::Entity(category) => category.as_deref(),
            _ => None,
        }
    }

    /// All that decides which slot an event is in, as text: the strategy, the names that it was made
    /// with, and the hash rule. A consumer's cursors hold slots, so it keeps this for ever.
    ///
    /// ```
    /// use anabranch_core::{HashRule, Partition};
    /// let of = |partition: Partition| partition.identity(HashRule::Fnv1a);
    /// assert_eq!(of(Partition::entity("Order")), "entity \"Order\", fnv1a");
    /// assert_eq!(of(Partition::customer().with_rule(HashRule::Md5)), "customer, md5");
    /// assert_ne!(of(Partition::dcb("seat")), of(Partition::dcb("show")));
    /// ```
    #[must_use]
    pub fn identity(&self, log_rule: HashRule) -> String {
        let (strategy, rule) = (self.strategy(), self.rule(log_rule));
        match &self.by {
            By::Global => strategy.to_string(),
            By::Entity(None) | By::Customer | By::Saga => format!("{strategy}, {rule}"),
            By::Entity(Some(name)) | By::Dcb(name) | By::Custom(name, _) => {
                format!("{strategy} {name:?}, {rule}")
            }
        }
    }

    /// The key of an event, as people read it.
    pub fn key<'e>(&self, event: &'e Event) -> Result<Cow<'e, str>, MissingKey> {
        let missing = |field| MissingKey { field, strategy: self.strategy() };
        let field = |name| move || missing(Cow::Borrowed(name));
        match &self.by {
            By::Entity(_) => Ok(format!("{}:{}", event.category(), event.stream_id()).into()),
            By::Customer => event.customer().map(Cow::Borrowed).ok_or_else(field("customer")),
            By::Saga => event.correlation().map(Cow::Borrowed).ok_or_else(field("correlation")),
            By::Global => Ok(Cow::Borrowed("global")),
            By::Dcb(scope) => {
                let tenant = event.tenant().ok_or_else(field("tenant"))?;
                let id = event.tags().find_map(|tag| id_in(tag, scope));
                let id = id.ok_or_else(|| missing(format!("tag `{scope}:ID`").into()))?;
                Ok(format!("dcb:tenant:{tenant}:{scope}:{id}").into())
            }
            By::Custom(name, key) => {
                key(event).map(Cow::Owned).ok_or_else(|| missing(format!("key `{name}`").into()))
            }
        }
    }

    /// The slot of an event in a log with this rule: the stored one where there is one.
    ///
    /// An entity's slot is that of the stream's id alone, which is what people already deploy. An
    /// event without a key is in slot 0, so that exactly one owner meets it, and its failure.
    #[must_use]
    pub fn slot(&self, event: &Event, log_rule: HashRule) -> Slot {
        let stored = event.slots();
        let slot = match self.server_slot(log_rule) {
            Some(SlotColumn::Entity) => Some(stored.entity),
            Some(SlotColumn::Customer) => stored.customer,
            Some(SlotColumn::Saga) => stored.saga,
            None => self.computed(event, self.rule.unwrap_or(log_rule)),
        };
        slot.unwrap_or(Slot::ZERO)
    }

    fn computed(&self, event: &Event, rule: HashRule) -> Option<Slot> {
        match self.by {
            By::Entity(_) => Some(rule.slot(event.stream_id())),
            By::Global => Some(Slot::ZERO),
            _ => self.key(event).ok().map(|key| rule.slot(&key)),
        }
    }

    /// The slots that its cursors cover.
    #[must_use]
    pub fn slots(&self) -> SlotSet {
        match self.by {
            By::Global => SlotSet::from_slot(Slot::ZERO),
            _ => SlotSet::all(),
        }
    }

    /// The stored slot by which the server can filter, if one serves. Where the column is empty, the
    /// event has no key and belongs to slot 0.
    #[must_use]
    pub fn server_slot(&self, log_rule: HashRule) -> Option<SlotColumn> {
        if self.rule.is_some_and(|rule| rule != log_rule) {
            return None;
        }
        match self.by {
            By::Entity(_) => Some(SlotColumn::Entity),
            By::Customer => Some(SlotColumn::Customer),
            By::Saga => Some(SlotColumn::Saga),
            By::Global | By::Dcb(_) | By::Custom(..) => None,
        }
    }
}

/// The ID of a tag `scope:ID`.
fn id_in<'t>(tag: &'t str, scope: &str) -> Option<&'t str> {
    tag.strip_prefix(scope)?.strip_prefix(':').filter(|id| !id.is_empty())
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({}", self.strategy())?;
        match &self.by {
            By::Entity(Some(name)) | By::Dcb(name) | By::Custom(name, _) => write!(f, " {name}")?,
            By::Entity(None) | By::Customer | By::Saga | By::Global => {}
        }
        match self.rule {
            Some(rule) => write!(f, " by {rule})"),
            None => f.write_str(")"),
        }
    }
}

/// Which of an event's stored [`Slots`](crate::Slots).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotColumn {
    /// That of the stream's id.
    Entity,
    /// That of the customer.
    Customer,
    /// That of the correlation.
    Saga,
}

/// An event lacks what its consumer is partitioned by. The caller puts the names of the event and
/// the consumer before it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("has no {field}, which the {strategy} strategy needs")]
pub struct MissingKey {
    /// What it lacks.
    pub field: Cow<'static, str>,
    /// What needs it.
    pub strategy: Strategy,
}

#[cfg(test)]
mod tests;
