//! What is exported, and where to.

use crate::collector::Collector;
use crate::queue::Queue;
use hyper::Uri;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::env::VarError;
use std::time::Duration;
use thiserror::Error;
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

/// The variables that name a collector: one for traces alone, and one for all that is exported.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const TIMEOUTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];
/// How long an answer may take, unless one of these says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The only protocol.
const HTTP: &str = "http/protobuf";

/// Exports the spans of `tracing` to a collector of OpenTelemetry, by OTLP over HTTP: those of the engine, and your own.
///
/// Spans wait in a queue of 2,048 and are sent by a thread of its own, at the latest a second after they ended. Nobody
/// waits for that: what does not fit while the collector is away is left out, and a warning says how much. Drop it at
/// the end of the program, or call [`finish`](Self::finish): what has not been sent yet is sent then, within five
/// seconds, and a warning says how much is lost after all.
///
/// ```
/// use anabranch_otlp::Export;
/// use tracing_subscriber::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Nothing is exported unless OTEL_EXPORTER_OTLP_ENDPOINT is set.
/// let export = Export::from_environment("shop")?;
/// tracing_subscriber::registry()
///     .with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr))
///     .with(export.as_ref().map(Export::layer))
///     .init();
/// // … the program …
/// drop(export);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is exported without its layer, and what it has not sent when it is dropped is sent then"]
pub struct Export {
    provider: SdkTracerProvider,
    queue: Queue,
}

/// Why nothing can be exported.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A variable asks for something that there is not.
    #[error("{name}={value}: it may only be {wanted}; set it to that, or leave it out")]
    Unsupported {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        wanted: &'static str,
    },
    /// It is no address of a collector. It is not repeated: it may hold a password.
    #[error(
        "the address of the collector is no http or https URL, such as http://localhost:4318/v1/traces"
    )]
    Address,
    /// A variable holds what is no text.
    #[error("{0} is no text")]
    NoText(&'static str),
    /// The address of the collector, or another setting, cannot be used.
    #[error("spans cannot be exported with these settings (OTEL_EXPORTER_OTLP_…): {0}")]
    Settings(#[from] ExporterBuildError),
    /// There is no thread to send them.
    #[error("no thread could be started to export spans: {0}")]
    Thread(std::io::Error),
}

impl Export {
    /// What the [variables of OpenTelemetry](https://opentelemetry.io/docs/specs/otel/protocol/exporter/) ask for;
    /// nothing unless `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` names a collector, or if
    /// `OTEL_SDK_DISABLED=true` or `OTEL_TRACES_EXPORTER=none`.
    ///
    /// The service is called `OTEL_SERVICE_NAME`, else as it is given. `OTEL_TRACES_SAMPLER` with its argument,
    /// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_EXPORTER_OTLP_TIMEOUT` hold as well.
    pub fn from_environment(service: &str) -> Result<Option<Self>, ExportError> {
        let [traces, all] = ENDPOINTS.map(variable);
        let Some(endpoint) = traces?.or(all?) else { return Ok(None) };
        let is_off =
            variable("OTEL_SDK_DISABLED")?.is_some_and(|it| it.eq_ignore_ascii_case("true"));
        let exporter = "OTEL_TRACES_EXPORTER";
        match variable(exporter)? {
            Some(value) if value == "none" => return Ok(None),
            Some(value) if value != "otlp" => {
                return Err(ExportError::Unsupported { name: exporter, value, wanted: "otlp" });
            }
            _ if is_off => return Ok(None),
            _ => {}
        }
        for name in PROTOCOLS {
            if let Some(value) = variable(name)? {
                if value != HTTP {
                    return Err(ExportError::Unsupported { name, value, wanted: HTTP });
                }
                break;
            }
        }
        must_be_web(&endpoint)?;
        must_be_sampler()?;
        Self::with(service, None).map(Some)
    }

    /// Exports to this address, such as `http://localhost:4318/v1/traces`. The variables that name a collector are not
    /// asked; the others hold.
    ///
    /// ```
    /// # fn main() -> Result<(), anabranch_otlp::ExportError> {
    /// let export = anabranch_otlp::Export::to("http://localhost:4318/v1/traces", "shop")?;
    /// # Ok(()) }
    /// ```
    pub fn to(address: &str, service: &str) -> Result<Self, ExportError> {
        must_be_web(address)?;
        Self::with(service, Some(address))
    }

    fn with(service: &str, address: Option<&str>) -> Result<Self, ExportError> {
        let collector = Collector::new(timeout()?);
        let builder = SpanExporter::builder().with_http().with_http_client(collector.clone());
        let builder = match address {
            Some(address) => builder.with_endpoint(address),
            None => builder,
        };
        let resource = resource(service);
        let queue =
            Queue::start(builder.build()?, collector, &resource).map_err(ExportError::Thread)?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_span_processor(queue.clone())
            .build();
        Ok(Self { provider, queue })
    }

    /// The layer that takes spans, for a subscriber of `tracing`. A filter of its own
    /// ([`with_filter`](tracing_subscriber::Layer::with_filter)) says which: those of the engine are of the target
    /// `anabranch::trace` and of the level `info`.
    #[must_use]
    pub fn layer<S>(&self) -> OpenTelemetryLayer<S, opentelemetry_sdk::trace::SdkTracer>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer("anabranch"));
        // Where in the code, and on which thread, says little, and makes each span twice as large.
        layer.with_location(false).with_threads(false).with_tracked_inactivity(false)
    }

    /// Sends what ended before this call. Says whether all of it has arrived, within five seconds.
    pub fn flush(&self) -> bool {
        self.queue.flush(false)
    }

    /// Sends what is left, and ends. The same as dropping it.
    pub fn finish(self) {}
}

impl Drop for Export {
    fn drop(&mut self) {
        self.queue.end();
    }
}

fn must_be_web(address: &str) -> Result<(), ExportError> {
    let is_web = address.trim().parse::<Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
    });
    if is_web { Ok(()) } else { Err(ExportError::Address) }
}

/// Refuses a sampler that the SDK does not know: it would record everything, and say so to nobody.
fn must_be_sampler() -> Result<(), ExportError> {
    if let Some(value) = variable(SAMPLER)?
        && !SAMPLERS.contains(&value.as_str())
    {
        let wanted = "always_on, always_off, traceidratio, or one of them after parentbased_";
        return Err(ExportError::Unsupported { name: SAMPLER, value, wanted });
    }
    if let Some(value) = variable(SAMPLER_ARGUMENT)?
        && !value.parse::<f64>().is_ok_and(|ratio| (0.0..=1.0).contains(&ratio))
    {
        let wanted = "a number from 0 to 1";
        return Err(ExportError::Unsupported { name: SAMPLER_ARGUMENT, value, wanted });
    }
    Ok(())
}

/// Who exports.
fn resource(service: &str) -> Resource {
    let attributes = std::env::var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let is_named = std::env::var("OTEL_SERVICE_NAME").is_ok_and(|name| !name.is_empty())
        || attributes.split(',').any(|pair| pair.trim_start().starts_with("service.name="));
    match is_named {
        true => Resource::builder().build(),
        false => Resource::builder().with_service_name(service.to_owned()).build(),
    }
}

/// How long an answer may take.
fn timeout() -> Result<Duration, ExportError> {
    for name in TIMEOUTS {
        let Some(value) = variable(name)? else { continue };
        return match value.trim().parse() {
            Ok(millis) => Ok(Duration::from_millis(millis)),
            Err(_) => {
                Err(ExportError::Unsupported { name, value, wanted: "a number of milliseconds" })
            }
        };
    }
    Ok(TIMEOUT)
}

/// A variable; one that is empty is not set.
fn variable(name: &'static str) -> Result<Option<String>, ExportError> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.trim().is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(ExportError::NoText(name)),
    }
}
