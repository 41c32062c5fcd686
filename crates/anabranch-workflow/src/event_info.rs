//! What an event carries besides its data.

use anabranch_core::NewEvent;
use anabranch_core::limits::{self, MAX_NAME_BYTES};
use serde::Serialize;
use serde_json::{Map, Value};

/// The field of the metadata in which the first event of a command says how many there are: the answer to a
/// repeated one. It makes two decisions of different length two different bodies, too, so that no part of the
/// second can be stored behind the first.
pub(crate) const COMMAND_EVENTS: &str = "command_events";

/// What an event of a workflow carries besides its data, by [`Workflow::describe`](crate::Workflow::describe):
/// what other consumers partition, filter and query by.
///
/// ```
/// use anabranch_workflow::EventInfo;
/// let info = EventInfo::none()
///     .customer("cust-7")
///     .tenant("acme")
///     .tag("order:ord-123")
///     .correlation("checkout-9")
///     .metadata("channel", "web");
/// assert_ne!(info, EventInfo::none());
/// // What the state does not have yet:
/// assert_eq!(EventInfo::none().customer(None::<&str>), EventInfo::none());
/// ```
///
/// An empty text is no key: an event with one is refused. Where there may be none, give an `Option`.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct EventInfo {
    customer: Option<String>,
    tenant: Option<String>,
    correlation: Option<String>,
    tags: Vec<String>,
    metadata: Map<String, Value>,
    /// What could not be made into JSON.
    problem: Option<String>,
}

impl EventInfo {
    /// Nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Its customer: the key of the customer strategy.
    pub fn customer(mut self, customer: impl MaybeText) -> Self {
        self.customer = customer.into_text();
        self
    }

    /// Its tenant.
    pub fn tenant(mut self, tenant: impl MaybeText) -> Self {
        self.tenant = tenant.into_text();
        self
    }

    /// What it belongs to: the key of the saga strategy.
    pub fn correlation(mut self, correlation: impl MaybeText) -> Self {
        self.correlation = correlation.into_text();
        self
    }

    /// One more tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// One more field of its metadata. `command_events` is Anabranch's own.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        match serde_json::to_value(value) {
            _ if name == COMMAND_EVENTS => {
                let problem = format!("the field `{name}` of its metadata is Anabranch's own");
                self.problem = Some(format!("{problem}; rename it"));
            }
            Ok(value) => drop(self.metadata.insert(name, value)),
            Err(error) => self.problem = Some(format!("its metadata `{name}`: {error}")),
        }
        self
    }

    /// Refuses what no event can carry, by the name under which the workflow says it.
    fn check(&self) -> Result<(), String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let one = |what: &'static str, text: &Option<String>| Some((what, text.clone()?));
        let keys = [
            one("customer", &self.customer),
            one("tenant", &self.tenant),
            one("correlation", &self.correlation),
        ];
        let tags = self.tags.iter().map(|tag| ("tag", tag.clone()));
        for (what, text) in keys.into_iter().flatten().chain(tags) {
            if text.is_empty() {
                return Err(format!(
                    "its {what}, by `describe`, is empty; leave it out where there is none (`None`)"
                ));
            }
            let subject = || format!("its {what}, by `describe`");
            limits::check_name(&text, MAX_NAME_BYTES, subject)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The event with all of this, and how many its command led to if it is to say that.
    pub(crate) fn of(
        mut self,
        mut event: NewEvent,
        command_events: Option<usize>,
    ) -> Result<NewEvent, String> {
        self.check()?;
        if let Some(count) = command_events {
            self.metadata.insert(COMMAND_EVENTS.to_owned(), count.into());
        }
        event = event.with_tags(self.tags);
        let Self { customer, tenant, correlation, .. } = self;
        event = customer.into_iter().fold(event, NewEvent::with_customer);
        event = tenant.into_iter().fold(event, NewEvent::with_tenant);
        event = correlation.into_iter().fold(event, NewEvent::with_correlation);
        match self.metadata.is_empty() {
            true => Ok(event),
            false => Ok(event.with_metadata(self.metadata)),
        }
    }
}

/// A text, or none: what [`EventInfo`] takes where an event may have nothing.
pub trait MaybeText: sealed::Sealed {
    /// The text, if there is one.
    fn into_text(self) -> Option<String>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! texts {
    ($($text:ty),*) => {$(
        impl sealed::Sealed for $text {}
        impl MaybeText for $text {
            fn into_text(self) -> Option<String> {
                Some(self.into())
            }
        }
        impl sealed::Sealed for Option<$text> {}
        impl MaybeText for Option<$text> {
            fn into_text(self) -> Option<String> {
                self.map(Into::into)
            }
        }
    )*};
}

texts!(String, &String, &str, std::borrow::Cow<'_, str>);

impl sealed::Sealed for &Option<String> {}

impl MaybeText for &Option<String> {
    fn into_text(self) -> Option<String> {
        self.clone()
    }
}
