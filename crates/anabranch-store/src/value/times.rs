//! Times and their texts, without losing anything on the way: what a text says beyond what is asked for is an
//! error, not left out. For backends.

use super::ValueError;
use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time, date};
use jiff::fmt::temporal::Pieces;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// What is said of years that have no text which sorts.
pub(super) const YEARS: &str = "years are from -9999 to 9999";

/// The date and time in UTC, so many microseconds after 1970. There is none where the year has more than four
/// digits. (A [`jiff::Timestamp`] ends a day before.)
///
/// ```
/// # use anabranch_store::value::times::{micros_of, utc_of};
/// let end = utc_of(253_402_300_799_000_000).unwrap();
/// assert_eq!(end.to_string(), "9999-12-31T23:59:59");
/// assert_eq!(micros_of(end), 253_402_300_799_000_000);
/// ```
#[must_use]
pub fn utc_of(micros: i64) -> Option<DateTime> {
    EPOCH.checked_add(SignedDuration::from_micros(micros)).ok()
}

/// Microseconds since 1970, of a date and time in UTC. See [`utc_of`].
#[must_use]
pub fn micros_of(utc: DateTime) -> i64 {
    // The years of a `DateTime` have far fewer microseconds than fit.
    utc.duration_since(EPOCH).as_nanos().div_euclid(1_000) as i64
}

/// A time as text that sorts as the times do: `2026-11-15T09:16:47.445123Z`. There is none where the year
/// has more than four digits.
#[must_use]
pub fn time_text(micros: i64) -> Option<String> {
    utc_of(micros).map(|utc| format!("{utc:.6}Z"))
}

/// A date as text.
#[cfg(any(feature = "chrono", feature = "time"))]
pub(super) fn date_text(year: i32, month: u8, day: u8) -> String {
    match year {
        0..=9999 => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("{year:+07}-{month:02}-{day:02}"),
    }
}

/// The moment of a text that says its offset from UTC, in UTC.
///
/// ```
/// # use anabranch_store::value::times::instant;
/// let moment = instant("2026-11-15T23:30:00-08:00").unwrap();
/// assert_eq!(moment.to_string(), "2026-11-16T07:30:00");
/// assert!(instant("2026-11-15T23:30:00").is_err());
/// ```
pub fn instant(text: &str) -> Result<DateTime, ValueError> {
    match said(text)? {
        (utc, true) => Ok(utc),
        (_, false) => Err("it has no offset from UTC".into()),
    }
}

/// The date and time of a text that says no offset from UTC.
///
/// ```
/// # use anabranch_store::value::times::local;
/// assert!(local("2026-11-15T23:30:00").is_ok());
/// assert!(local("2026-11-15T23:30:00-08:00").is_err());
/// ```
pub fn local(text: &str) -> Result<DateTime, ValueError> {
    match said(text)? {
        (local, false) => Ok(local),
        (_, true) => Err("it has an offset from UTC".into()),
    }
}

/// The time that a text says, in UTC if it says an offset, and whether it does.
pub(super) fn said(text: &str) -> Result<(DateTime, bool), ValueError> {
    let pieces = Pieces::parse(text).map_err(|error| error.to_string())?;
    let local = DateTime::from_parts(pieces.date(), pieces.time().unwrap_or(Time::midnight()));
    refuse_leap(text)?;
    let Some(offset) = pieces.to_numeric_offset() else {
        return match pieces.time_zone_annotation() {
            Some(_) => Err("it names a zone and no offset from UTC".into()),
            None => Ok((local, false)),
        };
    };
    let utc = local.checked_sub(SignedDuration::from_secs(offset.seconds().into()));
    utc.map(|utc| (utc, true)).map_err(|_| YEARS.into())
}

/// The date of a text that says nothing else.
///
/// ```
/// # use anabranch_store::value::times::day;
/// assert!(day("2026-11-15").is_ok());
/// assert!(day("2026-11-15T00:00:00").is_err());
/// ```
pub fn day(text: &str) -> Result<Date, ValueError> {
    let pieces = Pieces::parse(text).map_err(|error| error.to_string())?;
    let more = (pieces.time(), pieces.offset(), pieces.time_zone_annotation());
    match more {
        (None, None, None) => Ok(pieces.date()),
        _ => Err("it is more than a date".into()),
    }
}

/// The time of day of a text that says nothing else.
///
/// ```
/// # use anabranch_store::value::times::hour;
/// assert!(hour("23:30:00").is_ok());
/// assert!(hour("23:30:00-08:00").is_err() && hour("23:59:60").is_err());
/// ```
pub fn hour(text: &str) -> Result<Time, ValueError> {
    let hour = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    if !text.bytes().all(|byte| byte.is_ascii_digit() || b":.,".contains(&byte)) {
        return Err("it is more than a time of day".into());
    }
    refuse_leap(text)?;
    Ok(hour)
}

/// Jiff reads a leap second as the one before it.
fn refuse_leap(text: &str) -> Result<(), ValueError> {
    let clock = text.split_once(['T', 't', ' ']).map_or(text, |(_, clock)| clock);
    let clock = clock.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b':');
    let digits: Vec<u8> = clock.filter(u8::is_ascii_digit).collect();
    match digits.get(4..6) {
        Some(b"60") => Err("it is a leap second, which databases do not keep".into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_four_digit_years_come_back() {
        for text in
            ["9999-12-31T23:59:59.999999", "-009999-01-01T00:00:00", "1969-12-31T23:59:59.999999"]
        {
            let time: DateTime = text.parse().unwrap();
            assert_eq!(utc_of(micros_of(time)), Some(time));
            assert_eq!(instant(&time_text(micros_of(time)).unwrap()), Ok(time));
        }
        assert_eq!(time_text(micros_of(DateTime::MAX) + 1), None);
        assert_eq!(time_text(i64::MIN), None);
        assert!(instant("9999-12-31T23:59:59-01:00").is_err());
    }

    #[test]
    fn a_leap_second_is_found_in_every_form() {
        for text in ["2016-12-31T23:59:60Z", "20161231t235960Z", "2016-12-31 23:59:60.5+01"] {
            assert!(instant(text).unwrap_err().to_string().contains("leap"), "{text}");
        }
        for text in ["2016-12-31T23:59:59.60Z", "2016-12-31T23:59+10:30", "2060-10-10T10:10Z"] {
            instant(text).unwrap();
        }
    }
}
