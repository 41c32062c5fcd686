//! What a benchmark prints: a table, or one JSON object a line.

use serde::Serialize;

/// One measured case.
#[derive(Debug, Serialize)]
pub(crate) struct Case {
    pub(crate) bench: &'static str,
    pub(crate) case: &'static str,
    /// How many tasks work at the same time.
    pub(crate) lanes: usize,
    /// Events a second; the median of the repeats.
    pub(crate) rate: f64,
    /// The same with the bare driver.
    pub(crate) limit: Option<f64>,
    /// Rate by limit.
    pub(crate) ratio: Option<f64>,
    /// Rate by that of the case `single`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) times_single: Option<f64>,
    /// The most memory that the process had while it read, in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peak_rss_mb: Option<f64>,
    /// What was done, and what the limit is.
    pub(crate) what: &'static str,
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
        let ratio = rate / limit;
        Self {
            bench,
            case,
            lanes,
            rate: rate.round(),
            limit: Some(limit.round()),
            ratio: Some((ratio * 1000.0).round() / 1000.0),
            times_single: None,
            peak_rss_mb: None,
            what,
        }
    }

    pub(crate) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        let number =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
        let ratio = self.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let mut line = format!(
            "{:<11} {:>5} {:>10.0} {:>10} {:>6}  {}",
            self.case,
            self.lanes,
            self.rate,
            number(self.limit),
            ratio,
            self.what
        );
        if let Some(times) = self.times_single {
            line += &format!("; {times:.1} × single");
        }
        if let Some(peak) = self.peak_rss_mb {
            line += &format!("; peak RSS {peak:.0} MB");
        }
        println!("{line}");
        Ok(())
    }
}

pub(crate) fn print_header() {
    println!("{:<11} {:>5} {:>10} {:>10} {:>6}", "case", "tasks", "events/s", "limit", "ratio");
}

/// The rates of the repeats.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    pub(crate) ours: Vec<f64>,
    pub(crate) bare: Vec<f64>,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
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
