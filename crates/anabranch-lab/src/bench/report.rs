//! What a benchmark prints: a table, or one JSON object a line.

use crate::percentiles::Percentiles;
use anabranch_terminal::output;
use serde::Serialize;

/// One measured case.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Case {
    pub(crate) bench: &'static str,
    pub(crate) case: &'static str,
    /// How many tasks or lanes work at the same time.
    pub(crate) lanes: usize,
    /// Events a second; the median of the repeats.
    pub(crate) rate: Option<f64>,
    /// The same with the bare driver, or what else is compared.
    pub(crate) limit: Option<f64>,
    /// Rate by limit.
    pub(crate) ratio: Option<f64>,
    /// Rate by that of one task or lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) times_single: Option<f64>,
    /// Events that came to all processes together, by events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read_ratio: Option<f64>,
    /// Rows that the server looked at for that, by events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scan_ratio: Option<f64>,
    /// Rate by workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) per_worker: Option<f64>,
    /// How much longer it takes than the limit; the median of the repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slower_percent: Option<f64>,
    #[serde(flatten)]
    pub(crate) latency: Option<Latency>,
    /// What an idle worker asks the server for, beside its heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queries_per_second: Option<f64>,
    /// The most memory that the process had while it read, in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peak_rss_mb: Option<f64>,
    /// How long what went from one worker to another stood still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handover_pause_ms: Option<Percentiles>,
    /// What one transaction takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch_ms: Option<f64>,
    /// How long a state takes to load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load_ms: Option<Percentiles>,
    /// What was done, and what the limit is.
    pub(crate) what: &'static str,
}

/// From an append to the handler's call.
#[derive(Debug, Serialize)]
pub(crate) struct Latency {
    /// From the moment that the append returned; 0 if the handler was called before that.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// From the moment that the append was called.
    pub(crate) from_call_p50_ms: f64,
    pub(crate) from_call_p99_ms: f64,
    pub(crate) from_call_max_ms: f64,
}

impl Case {
    pub(crate) fn new(
        bench: &'static str,
        case: &'static str,
        lanes: usize,
        what: &'static str,
        rates: Rates,
    ) -> Self {
        let (rate, limit) = (median(rates.ours), median(rates.bare));
        let ratio = rate.zip(limit).map(|(rate, limit)| rounded(rate / limit, 3));
        let (rate, limit) = (rate.map(f64::round), limit.map(f64::round));
        Self { bench, case, lanes, rate, limit, ratio, what, ..Self::default() }
    }

    /// How many times as fast as another case this is.
    pub(crate) fn times(&self, other: &Self) -> Option<f64> {
        self.rate.zip(other.rate).map(|(rate, other)| rounded(rate / other, 1))
    }

    pub(crate) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            return output::json(self);
        }
        let number =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
        let ratio = self.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let mut line = format!(
            "{:<width$} {:>5} {:>10} {:>10} {:>6}  {}",
            self.case,
            self.lanes,
            number(self.rate),
            number(self.limit),
            ratio,
            self.what,
            width = case_width(self.bench),
        );
        if let Some(times) = self.times_single {
            line += &format!("; {times:.1} × single");
        }
        if let Some(rate) = self.per_worker {
            line += &format!("; {rate:.0} a worker");
        }
        if let Some(percent) = self.slower_percent {
            line += &format!("; {percent:.1} % slower");
        }
        if let Some((read, scan)) = self.read_ratio.zip(self.scan_ratio) {
            line += &format!("; read {read:.2} ×, looked at {scan:.2} ×");
        }
        if let Some(latency) = &self.latency {
            let Latency { p50_ms, p99_ms, max_ms, .. } = latency;
            line += &format!("; p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms, max {max_ms:.2} ms");
            let Latency { from_call_p50_ms, from_call_p99_ms, from_call_max_ms, .. } = latency;
            line += &format!(
                "; with the append p50 {from_call_p50_ms:.2} ms, p99 {from_call_p99_ms:.2} ms, \
                 max {from_call_max_ms:.2} ms"
            );
        }
        if let Some(queries) = self.queries_per_second {
            line += &format!("; {queries:.1} queries/s when idle");
        }
        if let Some(peak) = self.peak_rss_mb {
            line += &format!("; peak RSS {peak:.0} MB");
        }
        if let Some(pauses) = &self.handover_pause_ms {
            line += &format!("; pause {pauses}");
        }
        if let Some(batch) = self.batch_ms {
            line += &format!("; batch {batch:.0} ms");
        }
        if let Some(Percentiles { p50: Some(p50), p99: Some(p99), .. }) = self.load_ms {
            line += &format!("; p50 {p50:.1} ms, p99 {p99:.1} ms");
        }
        output::line(line)
    }
}

pub(crate) fn print_header(bench: &str) -> anyhow::Result<()> {
    let lanes = if ["log", "dcb"].contains(&bench) { "tasks" } else { "lanes" };
    let rate = match bench {
        "workpool" => "tasks/s",
        "workflow" => "commands/s",
        "batch" => "rows/s",
        _ => "events/s",
    };
    output::line(format_args!(
        "{:<width$} {lanes:>5} {rate:>10} {:>10} {:>6}",
        "case",
        "limit",
        "ratio",
        width = case_width(bench)
    ))
}

fn case_width(bench: &str) -> usize {
    if bench == "log" { 11 } else { 17 }
}

/// The rates of the repeats.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) ours: Vec<f64>,
    pub(crate) bare: Vec<f64>,
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// Forgets the peak so far, so that the next one is what comes now.
pub(crate) fn reset_peak_rss() {
    // Fails where there is no procfs; then there is no peak to report either.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory since then, in MB.
pub(crate) fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some((kilobytes / 1024.0).round())
}
