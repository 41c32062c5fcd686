//! Webhooks of a file, and pools whose tasks go to another server.

use crate::file::{Problem, Target};
use anabranch::HandlerResult;
use anabranch::webhook::{Endpoint, Secrets};
use anabranch::workpool::{OutsidePool, PoolSettings, Run, Task};
use serde::Serialize;
use serde_json::value::RawValue;

/// The endpoint of a webhook, and why it cannot be used. One that has problems never runs.
pub(crate) fn endpoint(target: &Target, problems: &mut Vec<Problem>) -> Endpoint {
    let mut resolved = |setting: &crate::file::Setting| {
        setting.resolve().map_err(|problem| problems.push(problem)).ok()
    };
    let to = resolved(&target.to);
    let secrets: Vec<Option<String>> = target.secrets.iter().map(&mut resolved).collect();
    let headers: Vec<(&str, Option<String>, _)> = target
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), resolved(value), value.span()))
        .collect();
    let mut endpoint = match Endpoint::new(to.as_deref().unwrap_or("http://nowhere.invalid")) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            // It may be in a variable, with a password that is not told.
            let said = match target.to.is_literal() {
                true => error.to_string(),
                false => "this variable holds no http or https URL".to_owned(),
            };
            problems.push(
                Problem::new(target.to.span(), said).help("for example https://example.com/hook"),
            );
            Endpoint::nowhere()
        }
    };
    let mut keys = Vec::new();
    for (secret, setting) in secrets.into_iter().zip(&target.secrets) {
        let Some(secret) = secret else { continue };
        match Secrets::of([&secret]) {
            Ok(_) => keys.push(secret),
            Err(error) => {
                let problem = Problem::new(setting.span(), error.to_string());
                // The name of a variable is no secret.
                problems.push(if setting.is_literal() { problem.secret() } else { problem });
            }
        }
    }
    if !keys.is_empty()
        && let Ok(keys) = Secrets::of(keys)
    {
        endpoint = endpoint.secrets(keys);
    }
    for (name, value, span) in headers {
        let Some(value) = value else { continue };
        match endpoint.clone().header(name, &value) {
            Ok(with) => endpoint = with,
            Err(error) => {
                problems.push(Problem::new(span, error.to_string()).secret());
            }
        }
    }
    endpoint.timeout(target.timeout).private_addresses(target.private_addresses)
}

/// A pool whose tasks go to another server, each as a message with the id of the task.
pub(crate) struct WebhookPool {
    name: String,
    settings: PoolSettings,
    to: Endpoint,
    code: Option<String>,
}

/// A task, as it is sent.
#[derive(Serialize)]
struct Message<'a> {
    r#type: &'a str,
    timestamp: String,
    pool: &'a str,
    key: &'a str,
    attempt: u32,
    data: &'a RawValue,
}

impl WebhookPool {
    pub(crate) fn new(name: &str, settings: PoolSettings, to: Endpoint) -> Self {
        Self { name: name.to_owned(), settings, to: to.connected(), code: None }
    }

    /// Which code it has: see [`Settings::code`](anabranch::Settings::code).
    pub(crate) fn with_code(mut self, code: String) -> Self {
        self.code = Some(code);
        self
    }
}

impl OutsidePool for WebhookPool {
    type Output = ();

    fn name(&self) -> &str {
        &self.name
    }

    fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    fn settings(&self) -> PoolSettings {
        self.settings
    }

    async fn run(&self, task: &Task, _: &mut Run) -> HandlerResult {
        let data = serde_json::from_str(task.payload_json())?;
        let (timestamp, attempt) = (jiff::Timestamp::now().to_string(), task.attempt());
        let (pool, key) = (self.name.as_str(), task.key());
        let message = Message { r#type: "task", timestamp, pool, key, attempt, data };
        let body = serde_json::to_vec(&message)?;
        // The same for each attempt: its number is in the body, and the receiver has done it or has not.
        let sent = self.to.send(&format!("task_{}", task.id()), body).await;
        match sent.error(&self.to.address()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
