//! The values of metrics, and the two text formats.

use crate::catalogue::{Kind, METRICS, Metric};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// How metrics are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What a client wants that sends this `Accept`: OpenMetrics if it names it, unless it likes plain text better.
    ///
    /// ```
    /// use anabranch_watch::Format;
    /// assert_eq!(Format::accepted_by("*/*"), Format::Prometheus);
    /// assert_eq!(Format::accepted_by("application/openmetrics-text;version=1.0.0"), Format::OpenMetrics);
    /// let both = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.6";
    /// assert_eq!(Format::accepted_by(both), Format::Prometheus);
    /// ```
    #[must_use]
    pub fn accepted_by(accept: &str) -> Self {
        let liked = |kind: &str| {
            let ranges = accept.split(',').map(str::trim);
            let of_kind =
                ranges.filter(|range| range.split(';').next().map(str::trim) == Some(kind));
            let weights = of_kind.map(|range| {
                let q = range.split(';').find_map(|part| part.trim().strip_prefix("q="));
                q.and_then(|q| q.trim().parse().ok()).unwrap_or(1.0_f64)
            });
            weights.fold(0.0, f64::max)
        };
        let open = liked("application/openmetrics-text");
        match open > 0.0 && open >= liked("text/plain") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    /// Its `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The labels of a value, in the order in which they are written.
pub(crate) type Labels = Vec<(&'static str, Arc<str>)>;

/// The values of metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Families(BTreeMap<&'static str, BTreeMap<Labels, Value>>);

#[derive(Clone, Debug)]
enum Value {
    Number(f64),
    Histogram { counts: Vec<u64>, sum: f64 },
}

impl Families {
    /// Sees that a counter or a histogram is there, from 0 on: what appears with 1 has not grown for who looks at it.
    pub(crate) fn begin(&mut self, name: &'static str, labels: Labels) {
        let Some(metric) = named(name) else { return };
        let bounds = metric.kind.buckets();
        let new = || match bounds {
            [] => Value::Number(0.0),
            _ => Value::Histogram { counts: vec![0; bounds.len() + 1], sum: 0.0 },
        };
        self.0.entry(metric.name).or_default().entry(labels).or_insert_with(new);
    }

    /// Adds to a counter.
    pub(crate) fn add(&mut self, name: &'static str, labels: Labels, more: f64) {
        debug_assert!(named(name).is_some(), "{name} is not in the catalogue");
        let value = self.0.entry(name).or_default().entry(labels).or_insert(Value::Number(0.0));
        if let Value::Number(number) = value {
            *number += more;
        }
    }

    /// Sets a gauge.
    pub(crate) fn set(&mut self, name: &'static str, labels: Labels, number: f64) {
        debug_assert!(named(name).is_some(), "{name} is not in the catalogue");
        self.0.entry(name).or_default().insert(labels, Value::Number(number));
    }

    /// Adds a value to a histogram.
    pub(crate) fn record(&mut self, name: &'static str, labels: Labels, number: f64) {
        debug_assert!(named(name).is_some(), "{name} is not in the catalogue");
        self.begin(name, labels.clone());
        let bounds = named(name).map_or(&[][..], |metric| metric.kind.buckets());
        let value = self.0.get_mut(name).and_then(|values| values.get_mut(&labels));
        if let Some(Value::Histogram { counts, sum }) = value {
            counts[bounds.partition_point(|bound| *bound < number)] += 1;
            *sum += number;
        }
    }

    /// Writes all of it.
    pub(crate) fn text(&self, format: Format) -> String {
        let mut text = String::new();
        let with_values =
            METRICS.iter().filter_map(|metric| Some((metric, self.0.get(metric.name)?)));
        for (metric, values) in with_values {
            head(&mut text, metric, format);
            for (labels, value) in values {
                match value {
                    Value::Number(number) => line(&mut text, metric.name, labels, None, *number),
                    Value::Histogram { counts, sum } => {
                        histogram(&mut text, metric, labels, counts, *sum);
                    }
                }
            }
        }
        if format == Format::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }
}

fn head(text: &mut String, metric: &Metric, format: Format) {
    let (name, kind) = match (metric.kind, format) {
        (Kind::Counter, Format::Prometheus) => (metric.name, "counter"),
        // There, a counter is named without its ending, and what is written with it.
        (Kind::Counter, Format::OpenMetrics) => (metric.name.trim_end_matches("_total"), "counter"),
        (Kind::Info, Format::OpenMetrics) => (metric.name.trim_end_matches("_info"), "info"),
        (Kind::Info | Kind::Gauge, _) => (metric.name, "gauge"),
        (Kind::Seconds | Kind::Sizes, _) => (metric.name, "histogram"),
    };
    // Writing to a string never fails.
    let _ = writeln!(text, "# HELP {name} {}", metric.help);
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if format == Format::OpenMetrics && !metric.unit.is_empty() {
        let _ = writeln!(text, "# UNIT {name} {}", metric.unit);
    }
}

fn histogram(text: &mut String, metric: &Metric, labels: &Labels, counts: &[u64], sum: f64) {
    let bounds = metric.kind.buckets().iter().map(|bound| format!("{bound:?}"));
    let bucket = format!("{}_bucket", metric.name);
    let mut below = 0;
    for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(counts) {
        below += count;
        line(text, &bucket, labels, Some(&bound), below as f64);
    }
    line(text, &format!("{}_sum", metric.name), labels, None, sum);
    line(text, &format!("{}_count", metric.name), labels, None, below as f64);
}

fn line(text: &mut String, name: &str, labels: &Labels, bound: Option<&str>, number: f64) {
    text.push_str(name);
    let labels = labels.iter().map(|(name, value)| (*name, value.as_ref()));
    let mut separator = '{';
    for (name, value) in labels.chain(bound.map(|bound| ("le", bound))) {
        let _ = write!(text, "{separator}{name}=\"");
        for letter in value.chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
        separator = ',';
    }
    if separator == ',' {
        text.push('}');
    }
    let _ = writeln!(text, " {number}");
}

/// The metric of a name. Only names of the catalogue are asked for.
fn named(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(value: &str) -> Labels {
        vec![("consumer", value.into())]
    }

    #[test]
    fn both_formats_are_written_as_they_are_specified() {
        let mut families = Families::default();
        families.add("anabranch_events_handled_total", labels("a\"b\\c\nd"), 2.0);
        families.add("anabranch_events_handled_total", labels("a\"b\\c\nd"), 3.0);
        families.set("anabranch_build_info", vec![("version", "1".into())], 1.0);
        let prometheus = families.text(Format::Prometheus);
        let value = "anabranch_events_handled_total{consumer=\"a\\\"b\\\\c\\nd\"} 5\n";
        assert!(prometheus.contains("# TYPE anabranch_events_handled_total counter\n"));
        assert!(prometheus.contains(value), "{prometheus}");
        assert!(prometheus.contains("# TYPE anabranch_build_info gauge\n"));
        let open = families.text(Format::OpenMetrics);
        assert!(open.contains("# TYPE anabranch_events_handled counter\n"));
        assert!(open.contains(value), "{open}");
        assert!(
            open.contains("# TYPE anabranch_build info\nanabranch_build_info{version=\"1\"} 1\n")
        );
        assert!(open.ends_with("# EOF\n"));
    }

    #[test]
    fn a_value_is_counted_in_its_bucket_and_all_above() {
        let mut families = Families::default();
        for seconds in [0.0005, 0.3, 1000.0] {
            families.record("anabranch_handler_seconds", labels("orders"), seconds);
        }
        let text = families.text(Format::Prometheus);
        let bucket = |bound: &str, count: u64| {
            let line = format!(
                "anabranch_handler_seconds_bucket{{consumer=\"orders\",le=\"{bound}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line} is not in {text}");
        };
        bucket("0.0005", 1);
        bucket("0.25", 1);
        bucket("0.5", 2);
        bucket("60.0", 2);
        bucket("+Inf", 3);
        assert!(text.contains("anabranch_handler_seconds_count{consumer=\"orders\"} 3\n"));
        assert!(text.contains("anabranch_handler_seconds_sum{consumer=\"orders\"} 1000.3005\n"));
    }
}
