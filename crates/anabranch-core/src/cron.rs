//! Cron: when something is due again, in local time.

mod fields;
mod search;

use crate::ErrorCode;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt;
use thiserror::Error;

/// A schedule in the words of cron, in a time zone.
///
/// Five fields: minute, hour, day of month, month, day of week. Each is `*`, a number, a range `9-17`,
/// either of the first and last with a step (`*/5`, `9-17/2`), or a list of these. Months and days of
/// the week have names (`JAN`, `MON`); Sunday is 0 or 7. Where both the day of month and the day of
/// week are restricted, one of them has to match. `@hourly`, `@daily`, `@weekly`, `@monthly` and
/// `@yearly` stand for the usual five.
///
/// ```
/// use anabranch_core::Cron;
/// let office_hours = Cron::parse("*/5 9-17 * * MON-FRI", "Europe/Berlin")?;
/// let friday_evening = "2026-11-13T17:55:00+01:00".parse().unwrap();
/// let monday_morning = "2026-11-16T09:00:00+01:00".parse().unwrap();
/// assert_eq!(office_hours.after(friday_evening), Some(monday_morning));
/// # Ok::<(), anabranch_core::CronError>(())
/// ```
///
/// # When clocks change
///
/// The rule is that of Vixie's cron. A schedule of **fixed times** (neither minute nor hour begins
/// with `*`) is due as often as on any other day: a time that is left out is due at the moment at
/// which the clock goes on, once for all times that were left out, and a time that comes twice is
/// due the first time only. A schedule **with a pace** (`*/15 * * * *`, `30 * * * *`, `* 2 * * *`) is due
/// whenever the clock on the wall matches: so `*/15 * * * *` goes on every 15 minutes through both
/// changes, and what falls wholly into an hour that is left out is not due that day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    expression: String,
    zone_name: String,
    zone: TimeZone,
    minutes: u64,
    hours: u64,
    days: Days,
    /// Whether it goes by the clock on the wall, minute by minute, when clocks change.
    has_pace: bool,
}

/// Which days match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Days {
    of_month: u64,
    months: u64,
    of_week: u64,
    /// Whether one of the two fields for days is enough.
    either: bool,
}

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CronError {
    /// There are not five fields.
    #[error(
        "cron `{expression}` has {found} fields; expected five: minute, hour, day of month, month, \
         day of week, for example `0 9 * * MON-FRI`"
    )]
    Fields {
        /// The schedule.
        expression: String,
        /// How many there are.
        found: usize,
    },
    /// A word that begins with `@`, and is none of ours.
    #[error(
        "cron `{word}` is not known; expected @hourly, @daily, @weekly, @monthly, @yearly, or five \
         fields"
    )]
    Word {
        /// The word.
        word: String,
    },
    /// A field that does not hold what it should.
    #[error("cron `{expression}`: {field} `{found}`: expected {expected}")]
    Field {
        /// The schedule.
        expression: String,
        /// Which field.
        field: &'static str,
        /// The part of it that is wrong.
        found: String,
        /// What should stand there.
        expected: String,
    },
    /// A time zone that is not in the database of time zones.
    #[error(
        "time zone `{zone}` is not known; expected a name of the IANA database, for example \
         Europe/Berlin or UTC"
    )]
    Zone {
        /// The name.
        zone: String,
    },
}

impl CronError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::InvalidCron
    }
}

impl Cron {
    /// Reads a schedule.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, CronError> {
        let fields = fields::Fields::parse(expression)?;
        let unknown = |_| CronError::Zone { zone: zone.to_owned() };
        Ok(Self {
            expression: expression.split_whitespace().collect::<Vec<_>>().join(" "),
            zone_name: zone.to_owned(),
            zone: TimeZone::get(zone).map_err(unknown)?,
            minutes: fields.minutes.set,
            hours: fields.hours.set,
            days: Days {
                of_month: fields.days_of_month.set,
                months: fields.months.set,
                of_week: fields.days_of_week.set,
                either: !fields.days_of_month.is_star && !fields.days_of_week.is_star,
            },
            has_pace: fields.minutes.is_star || fields.hours.is_star,
        })
    }

    /// When it is due next, strictly after a time; never, if no such day comes (`0 0 30 2 *`).
    #[must_use]
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        if self.has_pace { self.next_by_pace(time) } else { self.next_fixed(time) }
    }

    /// The schedule without its time zone.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The name of its time zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.zone_name
    }
}

impl fmt::Display for Cron {
    /// The schedule and its time zone: `0 9 * * MON-FRI Europe/Berlin`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.expression, self.zone_name)
    }
}

#[cfg(test)]
mod tests;
