//! The search for the next time that matches.

use super::{Cron, Days};
use jiff::civil::{Date, DateTime, date};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// How far to look. A 29 February on a given day of the week may be 40 years away.
const YEARS: i16 = 41;

impl Cron {
    /// The next of fixed times, each of which is due once a day whatever the clock does.
    pub(super) fn next_fixed(&self, time: Timestamp) -> Option<Timestamp> {
        // A day earlier, since a clock that is set back may go back to the day before.
        let mut day = self.zone.to_datetime(time).date().yesterday().ok()?;
        let last_year = day.year().saturating_add(YEARS);
        loop {
            day = self.days.from(day, last_year)?;
            for hour in numbers(self.hours) {
                for minute in numbers(self.minutes) {
                    let due = moment(&self.zone, day.at(hour, minute, 0, 0));
                    if let Some(due) = due.filter(|due| *due > time) {
                        return Some(due);
                    }
                }
            }
            day = day.tomorrow().ok()?;
        }
    }

    /// The next minute at which the clock on the wall matches. Between two changes of the clock local
    /// time runs evenly, so the search goes from one change to the next.
    pub(super) fn next_by_pace(&self, time: Timestamp) -> Option<Timestamp> {
        let mut from = time.checked_add(1.nanosecond()).ok()?;
        let last_year = self.zone.to_datetime(time).year().saturating_add(YEARS);
        loop {
            let offset = self.zone.to_offset(from);
            let local = whole_minute(offset.to_datetime(from))?;
            let due = offset.to_timestamp(self.matching(local, last_year)?).ok()?;
            let change = self.zone.following(from).next().map(|change| change.timestamp());
            match change.filter(|change| *change <= due) {
                None => return Some(due),
                Some(change) => from = change,
            }
        }
    }

    /// The first local minute from this one on that matches.
    fn matching(&self, local: DateTime, last_year: i16) -> Option<DateTime> {
        let first = self.days.from(local.date(), last_year)?;
        if first == local.date() {
            let (hour, minute) = (local.hour(), local.minute());
            let later = numbers(self.hours).filter(|this| *this >= hour).find_map(|this| {
                let from = if this == hour { minute } else { 0 };
                let minute = numbers(self.minutes).find(|minute| *minute >= from)?;
                Some(first.at(this, minute, 0, 0))
            });
            if later.is_some() {
                return later;
            }
        }
        let day = if first == local.date() { first.tomorrow().ok()? } else { first };
        let day = self.days.from(day, last_year)?;
        Some(day.at(numbers(self.hours).next()?, numbers(self.minutes).next()?, 0, 0))
    }
}

impl Days {
    /// The first day from this one on that matches, up to a year.
    fn from(self, first: Date, last_year: i16) -> Option<Date> {
        let mut day = first;
        while day.year() <= last_year {
            if !has(self.months, day.month()) {
                let (year, month) = (day.year(), day.month());
                let (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
                day = if year > 9999 { return None } else { date(year, month, 1) };
            } else if self.match_day(day) {
                return Some(day);
            } else {
                day = day.tomorrow().ok()?;
            }
        }
        None
    }

    fn match_day(self, day: Date) -> bool {
        let of_month = has(self.of_month, day.day());
        let of_week = has(self.of_week, day.weekday().to_sunday_zero_offset());
        if self.either { of_month || of_week } else { of_month && of_week }
    }
}

/// When a local time comes: the first time, or, if it is left out, when the clock goes on.
fn moment(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(local);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { after, .. } => {
            // By the later offset the time lies before the change.
            let before = after.to_timestamp(local).ok()?;
            let mut changes = zone.following(before);
            changes.find(|change| change.offset() == after).map(|change| change.timestamp())
        }
        _ => ambiguous.earlier().ok(),
    }
}

/// This minute if it has just begun, else the next.
fn whole_minute(local: DateTime) -> Option<DateTime> {
    let begun = local.date().at(local.hour(), local.minute(), 0, 0);
    if begun == local { Some(local) } else { begun.checked_add(1.minute()).ok() }
}

fn has(set: u64, number: i8) -> bool {
    set & 1 << number != 0
}

/// The numbers of a set, upwards.
fn numbers(set: u64) -> impl Iterator<Item = i8> {
    (0..64).filter(move |number| has(set, *number))
}
