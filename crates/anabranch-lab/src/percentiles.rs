//! What was measured, in three numbers.

use serde::Serialize;
use std::fmt;

/// The median, the 99th percentile and the maximum of so many milliseconds; nothing if there were
/// none to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) samples: usize,
}

impl Percentiles {
    pub(crate) fn of(mut milliseconds: Vec<f64>) -> Self {
        milliseconds.sort_by(f64::total_cmp);
        let samples = milliseconds.len();
        let at = |share: f64| {
            let rank = ((samples as f64 * share).ceil() as usize).max(1);
            milliseconds.get(rank - 1).map(|value| (value * 1000.0).round() / 1000.0)
        };
        Self { p50: at(0.5), p99: at(0.99), max: at(1.0), samples }
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.p50, self.p99, self.max) {
            (Some(p50), Some(p99), Some(max)) => {
                write!(f, "p50 {p50:.0} ms, p99 {p99:.0} ms, max {max:.0} ms")
            }
            _ => f.write_str("not seen"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_values_that_were_measured() {
        let hundred = Percentiles::of((1..=100).rev().map(f64::from).collect());
        assert_eq!(hundred.to_string(), "p50 50 ms, p99 99 ms, max 100 ms");
        let one = Percentiles::of(vec![7.0]);
        assert_eq!((one.p50, one.p99, one.max), (Some(7.0), Some(7.0), Some(7.0)));
        assert_eq!(Percentiles::of(Vec::new()).to_string(), "not seen");
    }
}
