//! The event to append.

use crate::error::{InputError, InputProblem};
use crate::limits::{self, Limits, MAX_NAME_BYTES, MAX_TAGS};
use crate::{Event, Json, TraceContext};
use serde::Serialize;
use uuid::Uuid;

/// An event that is about to be appended.
///
/// It gets a fresh UUIDv7 as its id; give it one of yours to make a retry of your own idempotent.
/// Whatever is wrong with it, unserialisable data among that, is reported by the append.
///
/// ```
/// use anabranch_core::NewEvent;
/// let event = NewEvent::new("OrderPlaced", serde_json::json!({ "total": 40 }))
///     .with_customer("cust-7")
///     .with_tag("order:ord-123");
/// assert_eq!(event.tags(), ["order:ord-123"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    id: Uuid,
    id_is_callers: bool,
    event_type: String,
    schema_version: u32,
    data: Result<Json, InputProblem>,
    metadata: Option<Result<Json, InputProblem>>,
    correlation: Option<String>,
    causation: Option<String>,
    tenant: Option<String>,
    customer: Option<String>,
    tags: Vec<String>,
    trace: Option<TraceContext>,
}

impl NewEvent {
    /// An event of this type with this data.
    pub fn new(event_type: impl Into<String>, data: impl Serialize) -> Self {
        Self::with_data(event_type, Json::from_value(&data))
    }

    /// An event whose data is JSON text already.
    pub fn from_json(event_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self::with_data(event_type, Json::parse(data))
    }

    fn with_data(event_type: impl Into<String>, data: Result<Json, InputProblem>) -> Self {
        Self {
            id: Uuid::now_v7(),
            id_is_callers: false,
            event_type: event_type.into(),
            schema_version: 1,
            data,
            metadata: None,
            correlation: None,
            causation: None,
            tenant: None,
            customer: None,
            tags: Vec::new(),
            trace: None,
        }
    }

    /// The id of the event. Appending the same id with the same body again changes nothing and
    /// succeeds; with another body it is an error.
    #[must_use]
    pub fn with_id(mut self, id: Uuid) -> Self {
        self.set_id(id);
        self
    }

    pub(crate) fn set_id(&mut self, id: Uuid) {
        (self.id, self.id_is_callers) = (id, true);
    }

    /// The version of the type's schema, 1 unless said otherwise.
    #[must_use]
    pub fn with_schema_version(mut self, version: u32) -> Self {
        self.schema_version = version;
        self
    }

    /// Metadata: anything that serialises to a JSON object.
    #[must_use]
    pub fn with_metadata(mut self, metadata: impl Serialize) -> Self {
        let json = Json::from_value(&metadata).and_then(|json| {
            if json.as_str().starts_with('{') {
                Ok(json)
            } else {
                Err(InputProblem::NotJson("metadata must be an object".to_owned()))
            }
        });
        self.metadata = Some(json);
        self
    }

    /// What the event belongs to: the key of the saga strategy.
    #[must_use]
    pub fn with_correlation(mut self, correlation: impl Into<String>) -> Self {
        self.correlation = Some(correlation.into());
        self
    }

    /// What caused the event: the id of an event or a command.
    #[must_use]
    pub fn with_causation(mut self, causation: impl Into<String>) -> Self {
        self.causation = Some(causation.into());
        self
    }

    /// Caused by that event: its id becomes the causation, and its correlation goes on (or begins
    /// with its id).
    #[must_use]
    pub fn caused_by(self, event: &Event) -> Self {
        let id = event.id().to_string();
        let correlation = event.correlation().unwrap_or(&id).to_owned();
        self.with_correlation(correlation).with_causation(id)
    }

    /// The tenant of the event.
    #[must_use]
    pub fn with_tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// The customer of the event: the key of the customer strategy.
    #[must_use]
    pub fn with_customer(mut self, customer: impl Into<String>) -> Self {
        self.customer = Some(customer.into());
        self
    }

    /// Where the append stands in a trace, if that is not the span in which it happens. It is kept beside the event, not
    /// in it: a repeated append in another span is the same append, and the first one's context stays.
    #[must_use]
    pub fn with_trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    pub(crate) fn carry(&mut self, trace: TraceContext) {
        self.trace.get_or_insert(trace);
    }

    /// One more tag. A tag that is there already is not added again.
    #[must_use]
    pub fn with_tag(mut self, tag: impl Into<String>) -> Self {
        let tag = tag.into();
        if !self.tags.contains(&tag) {
            self.tags.push(tag);
        }
        self
    }

    /// More tags.
    #[must_use]
    pub fn with_tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        tags.into_iter().fold(self, Self::with_tag)
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Whether the caller chose the id, so that it may be in the log already.
    #[must_use]
    pub fn id_is_callers(&self) -> bool {
        self.id_is_callers
    }

    /// Its type.
    #[must_use]
    pub fn event_type(&self) -> &str {
        &self.event_type
    }

    /// The version of its type's schema.
    #[must_use]
    pub fn schema_version(&self) -> u32 {
        self.schema_version
    }

    /// Its data, if it could be made into JSON.
    #[must_use]
    pub fn data(&self) -> Option<&Json> {
        self.data.as_ref().ok()
    }

    /// Its metadata, if there is any and it could be made into JSON.
    #[must_use]
    pub fn metadata(&self) -> Option<&Json> {
        self.metadata.as_ref()?.as_ref().ok()
    }

    /// What it belongs to.
    #[must_use]
    pub fn correlation(&self) -> Option<&str> {
        self.correlation.as_deref()
    }

    /// What caused it.
    #[must_use]
    pub fn causation(&self) -> Option<&str> {
        self.causation.as_deref()
    }

    /// Its tenant.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// Its customer.
    #[must_use]
    pub fn customer(&self) -> Option<&str> {
        self.customer.as_deref()
    }

    /// Where its append stands in a trace.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        self.trace
    }

    /// Its tags.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Refuses what no database should see. `which` says which event it is, for the message.
    pub(crate) fn validate(&self, limits: &Limits, which: usize) -> Result<(), InputError> {
        let whose = |part: &str| {
            format!("{part} of event {} (`{}`)", which + 1, self.event_type.escape_debug())
        };
        limits::check_name(&self.event_type, MAX_NAME_BYTES, || {
            format!("type of event {}", which + 1)
        })?;
        if self.schema_version == 0 || self.schema_version > i32::MAX as u32 {
            let problem = if self.schema_version == 0 {
                InputProblem::VersionZero
            } else {
                let (count, limit) = (self.schema_version as usize, i32::MAX as usize);
                InputProblem::TooMany { count, limit, remedy: "count versions from 1" }
            };
            return Err(InputError { subject: whose("schema version"), problem });
        }
        for (part, json) in [("data", Some(&self.data)), ("metadata", self.metadata.as_ref())] {
            let problem = match json {
                Some(Err(problem)) => problem.clone(),
                Some(Ok(json)) if json.as_str().len() > limits.data_bytes => {
                    let (bytes, limit) = (json.as_str().len(), limits.data_bytes);
                    InputProblem::TooLarge { bytes, limit }
                }
                _ => continue,
            };
            return Err(InputError { subject: whose(part), problem });
        }
        for (part, name) in [
            ("correlation", &self.correlation),
            ("causation", &self.causation),
            ("tenant", &self.tenant),
            ("customer", &self.customer),
        ] {
            if let Some(name) = name {
                limits::check_name(name, MAX_NAME_BYTES, || whose(part))?;
            }
        }
        if self.tags.len() > MAX_TAGS {
            let (count, remedy) = (self.tags.len(), "keep only those that decisions query");
            let problem = InputProblem::TooMany { count, limit: MAX_TAGS, remedy };
            return Err(InputError { subject: whose("tags"), problem });
        }
        for tag in &self.tags {
            limits::check_name(tag, MAX_NAME_BYTES, || {
                whose(&format!("tag `{}`", tag.escape_debug()))
            })?;
        }
        Ok(())
    }
}
