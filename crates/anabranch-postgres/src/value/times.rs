//! Times as PostgreSQL counts them. Its ends of time, `infinity` and `-infinity`, are text.

use super::{Cause, EPOCH_2000_US};
use anabranch_store::Value;
use anabranch_store::value::{ValueError, times};
use jiff::civil::{Date, DateTime, Time};

/// The ends of time, which are no moments.
const ENDS: [(i64, &str); 2] = [(i64::MAX, "infinity"), (i64::MIN, "-infinity")];

/// The ends of a `date`, which are no days.
const DAY_ENDS: [(i32, &str); 2] = [(i32::MAX, "infinity"), (i32::MIN, "-infinity")];

/// The day from which PostgreSQL counts.
const FIRST_DAY: Date = jiff::civil::date(2000, 1, 1);

fn end_of<N: Copy>(text: &str, ends: [(N, &str); 2]) -> Option<N> {
    ends.iter().find(|(_, end)| end.eq_ignore_ascii_case(text)).map(|(end, _)| *end)
}

/// A `timestamptz` or `timestamp`, of microseconds since 2000.
pub(super) fn moment(micros: i64) -> Result<Value, Cause> {
    if let Some((_, end)) = ENDS.iter().find(|(end, _)| *end == micros) {
        return Ok(Value::from(*end));
    }
    let since_1970 = micros.checked_add(EPOCH_2000_US);
    let since_1970 = since_1970.ok_or("a time beyond the year 294246; cast it to text")?;
    Ok(Value::Time(since_1970))
}

/// Microseconds since 2000, of those since 1970.
pub(super) fn since_2000(micros: i64) -> Result<i64, Cause> {
    let since_2000 = micros.checked_sub(EPOCH_2000_US).filter(|micros| *micros != i64::MIN);
    since_2000.ok_or_else(|| "it is out of range".into())
}

/// Microseconds since 2000, of a text that is read in one of the two ways.
pub(super) fn of_text(
    text: &str,
    read: fn(&str) -> Result<DateTime, ValueError>,
) -> Result<i64, Cause> {
    match end_of(text, ENDS) {
        Some(end) => Ok(end),
        None => since_2000(times::micros_of(read(text)?)),
    }
}

/// A `time`, of microseconds since midnight.
pub(super) fn hour(micros: i64) -> Result<Value, Cause> {
    let span = jiff::Span::new().try_microseconds(micros)?;
    Ok(Value::from(Time::midnight().checked_add(span)?))
}

/// Microseconds since midnight.
pub(super) fn since_midnight(text: &str) -> Result<i64, Cause> {
    let time = times::hour(text)?;
    Ok(time.duration_since(Time::midnight()).as_micros() as i64)
}

/// The text of a `date`: `2026-11-15`.
pub(super) fn date(days: i32) -> Result<String, Cause> {
    if let Some((_, end)) = DAY_ENDS.iter().find(|(end, _)| *end == days) {
        return Ok((*end).to_owned());
    }
    let span = jiff::Span::new().try_days(days)?;
    Ok(FIRST_DAY.checked_add(span)?.to_string())
}

pub(super) fn days(text: &str) -> Result<i32, Cause> {
    match end_of(text, DAY_ENDS) {
        Some(end) => Ok(end),
        None => Ok(FIRST_DAY.until(times::day(text)?)?.get_days()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_come_back_as_they_were() {
        let all =
            ["2000-01-01", "1999-12-31", "2024-02-29", "0001-01-01", "9999-12-31", "infinity"];
        for text in all {
            assert_eq!(date(days(text).unwrap()).unwrap(), text);
        }
        assert_eq!(days("2000-03-01").unwrap(), 60);
        assert!(days("2023-02-29").is_err() && date(i32::MAX - 1).is_err());
    }

    #[test]
    fn only_an_end_is_an_end() {
        for (end, text) in ENDS {
            assert_eq!(moment(end).unwrap(), Value::from(text));
            assert_eq!(of_text(text, times::instant).unwrap(), end);
        }
        assert!(since_2000(i64::MIN).is_err() && since_2000(i64::MIN + EPOCH_2000_US).is_err());
        assert!(moment(i64::MAX - 1).is_err());
        assert_eq!(moment(since_2000(0).unwrap()).unwrap(), Value::Time(0));
    }
}
