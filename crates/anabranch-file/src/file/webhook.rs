//! Webhooks, from their tables.

use super::build::{self, Fields, Reader};
use super::consumers;
use super::model::{Target, Webhook};
use super::problem::Problem;
use super::setting::Setting;
use super::text::Text;
use anabranch::Retry;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// How long an answer may take, unless the file says something else.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn webhook(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Webhook> {
    let target = target(reader, fields);
    let types = fields.strings("types");
    let types = types.iter().map(String::as_str).collect();
    let consumer = consumers::consumer(reader, fields, types, Retry::outside())?;
    Some(Webhook {
        consumer,
        target: target?,
        batch: fields.number("batch").unwrap_or(1),
        concurrency: fields.number("concurrency"),
        max_per_second: fields.number("max_per_second"),
    })
}

/// Where messages go.
pub(super) fn target(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Target> {
    let to = reader.setting(fields, "to")?;
    let mut secrets = Vec::new();
    if let Some(value) = fields.value("secret") {
        match value.get_ref() {
            DeValue::Array(items) => {
                secrets.extend(items.iter().filter_map(|item| secret(reader, item)));
            }
            _ => secrets.extend(secret(reader, value)),
        }
    }
    if let Some(value) = fields.value("timeout")
        && fields.duration("timeout") == Some(Duration::ZERO)
    {
        let problem = Problem::new(value.span(), "nothing is answered within no time");
        reader.problem(problem.help("for example timeout = \"20s\""));
    }
    Some(Target {
        to,
        secrets,
        headers: reader.settings(fields, "headers"),
        timeout: fields.duration("timeout").unwrap_or(TIMEOUT),
        private_addresses: fields.truth("private_addresses").unwrap_or_default(),
        span: fields.span.clone(),
    })
}

fn secret(reader: &mut Reader<'_>, value: &Spanned<DeValue<'_>>) -> Option<Setting> {
    let text = match value.get_ref() {
        DeValue::Table(table) => {
            let name = build::text(table.get("env")?)?;
            Text { text: format!("${{{}}}", name.text), span: name.span }
        }
        _ => build::text(value)?,
    };
    reader.setting_of(text)
}
