use super::*;
use jiff::ToSpan;
use jiff::civil::DateTime;
use proptest::prelude::*;

fn cron(expression: &str, zone: &str) -> Cron {
    Cron::parse(expression, zone).unwrap()
}

/// The next times after one, as local times with their offset.
fn next(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let cron = cron(expression, zone);
    let first: Timestamp = after.parse().unwrap();
    std::iter::successors(cron.after(first), |time| cron.after(*time))
        .take(count)
        .map(|time| time.to_zoned(cron.zone.clone()).strftime("%Y-%m-%d %H:%M %:z").to_string())
        .collect()
}

const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";
const LORD_HOWE: &str = "Australia/Lord_Howe";

#[test]
fn fields_are_sets() {
    let start = "2026-01-01T00:00:00Z";
    let minutes = next("1,5-7,20-40/10 0 1 1 *", "UTC", start, 7);
    let minutes: Vec<&str> = minutes.iter().map(|time| &time[14..16]).collect();
    assert_eq!(minutes, ["01", "05", "06", "07", "20", "30", "40"]);
    assert_eq!(next("0 9 * FEB-mar/1 Mon", "UTC", start, 1), ["2026-02-02 09:00 +00:00"]);
    for sunday in ["0", "7", "SUN", "7-7", "*/7"] {
        let times = next(&format!("0 0 * * {sunday}"), "UTC", start, 2);
        assert_eq!(times, ["2026-01-04 00:00 +00:00", "2026-01-11 00:00 +00:00"], "{sunday}");
    }
    let weekend = next("0 0 * * 5-7", "UTC", start, 4);
    let days: Vec<&str> = weekend.iter().map(|time| &time[8..10]).collect();
    assert_eq!(days, ["02", "03", "04", "09"]);
}

#[test]
fn words_stand_for_fields() {
    let start = "2026-01-01T00:00:00Z";
    for (word, first) in [
        ("@hourly", "2026-01-01 01:00 +00:00"),
        ("@daily", "2026-01-02 00:00 +00:00"),
        ("@weekly", "2026-01-04 00:00 +00:00"),
        ("@monthly", "2026-02-01 00:00 +00:00"),
        ("@yearly", "2027-01-01 00:00 +00:00"),
    ] {
        assert_eq!(next(word, "UTC", start, 1), [first], "{word}");
    }
}

#[test]
fn of_two_restricted_days_one_is_enough() {
    let start = "2026-11-01T00:00:00Z";
    let times = next("0 0 13 * FRI", "UTC", start, 4);
    let days: Vec<&str> = times.iter().map(|time| &time[5..10]).collect();
    assert_eq!(days, ["11-06", "11-13", "11-20", "11-27"]);
    // With a star, both have to match.
    let times = next("0 0 */2 * FRI", "UTC", start, 3);
    let days: Vec<&str> = times.iter().map(|time| &time[5..10]).collect();
    assert_eq!(days, ["11-13", "11-27", "12-11"]);
}

#[test]
fn leap_days_come_and_impossible_days_never() {
    let leap = next("0 0 29 2 *", "UTC", "2096-02-28T00:00:00Z", 2);
    assert_eq!(leap, ["2096-02-29 00:00 +00:00", "2104-02-29 00:00 +00:00"]);
    let sundays = next("30 12 29 2 */7", "UTC", "2026-01-01T00:00:00Z", 2);
    assert_eq!(sundays, ["2032-02-29 12:30 +00:00", "2060-02-29 12:30 +00:00"]);
    // The longest wait there is: 40 years.
    let far = next("30 12 29 2 */7", "UTC", "2088-03-01T00:00:00Z", 1);
    assert_eq!(far, ["2128-02-29 12:30 +00:00"]);
    for never in ["0 0 30 2 *", "* * 31 4,6,9,11 *", "*/5 * 30,31 2 *"] {
        assert!(next(never, BERLIN, "2026-01-01T00:00:00Z", 1).is_empty(), "{never}");
    }
    assert_eq!(cron("* * * * *", "UTC").after(Timestamp::MAX), None);
    assert_eq!(cron("0 0 * * *", "UTC").after(Timestamp::MAX), None);
    assert!(cron("0 0 * * *", "UTC").after(Timestamp::MIN).is_some());
}

#[test]
fn a_time_that_is_left_out_is_due_when_the_clock_goes_on() {
    let berlin = next("30 2 * * *", BERLIN, "2026-03-28T00:00:00Z", 3);
    let expected =
        ["2026-03-28 02:30 +01:00", "2026-03-29 03:00 +02:00", "2026-03-30 02:30 +02:00"];
    assert_eq!(berlin, expected);
    let new_york = next("15 2 * * *", NEW_YORK, "2026-03-07T12:00:00Z", 2);
    assert_eq!(new_york, ["2026-03-08 03:00 -04:00", "2026-03-09 02:15 -04:00"]);
    let half_an_hour = next("10,20 2 * * *", LORD_HOWE, "2026-10-03T00:00:00Z", 3);
    let expected =
        ["2026-10-04 02:30 +11:00", "2026-10-05 02:10 +11:00", "2026-10-05 02:20 +11:00"];
    assert_eq!(half_an_hour, expected, "once for both");
    let at_both_ends = next("0 2,3 * * *", BERLIN, "2026-03-28T12:00:00Z", 2);
    assert_eq!(at_both_ends, ["2026-03-29 03:00 +02:00", "2026-03-30 02:00 +02:00"]);
    // Samoa left out a whole day.
    let samoa = next("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", 1);
    assert_eq!(samoa, ["2011-12-31 00:00 +14:00"]);
}

#[test]
fn a_time_that_comes_twice_is_due_the_first_time() {
    let berlin = next("30 2 * * *", BERLIN, "2026-10-24T12:00:00Z", 2);
    assert_eq!(berlin, ["2026-10-25 02:30 +02:00", "2026-10-26 02:30 +01:00"]);
    let new_york = next("30 1 * * *", NEW_YORK, "2026-10-31T12:00:00Z", 2);
    assert_eq!(new_york, ["2026-11-01 01:30 -04:00", "2026-11-02 01:30 -05:00"]);
    let half_an_hour = next("15,45 1 * * *", LORD_HOWE, "2026-04-04T00:00:00Z", 3);
    let expected =
        ["2026-04-05 01:15 +11:00", "2026-04-05 01:45 +11:00", "2026-04-06 01:15 +10:30"];
    assert_eq!(half_an_hour, expected);
    // Asked in between the two.
    let between = next("30 2 * * *", BERLIN, "2026-10-25T00:45:00Z", 1);
    assert_eq!(between, ["2026-10-26 02:30 +01:00"]);
}

/// How many minutes lie between times that follow each other.
fn paces(expression: &str, zone: &str, after: &str, count: usize) -> Vec<i64> {
    let cron = cron(expression, zone);
    let first = cron.after(after.parse().unwrap()).unwrap();
    let times = std::iter::successors(Some(first), |time| cron.after(*time));
    let times: Vec<i64> = times.take(count).map(|time| time.as_second() / 60).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn a_pace_is_kept_when_clocks_change() {
    for (zone, change) in [
        (BERLIN, "2026-03-28T23:00:00Z"),
        (BERLIN, "2026-10-24T22:00:00Z"),
        (NEW_YORK, "2026-03-08T05:00:00Z"),
        (NEW_YORK, "2026-11-01T04:00:00Z"),
        (LORD_HOWE, "2026-10-03T13:00:00Z"),
        (LORD_HOWE, "2026-04-04T12:00:00Z"),
    ] {
        let quarters = paces("*/15 * * * *", zone, change, 30);
        assert!(quarters.iter().all(|pace| *pace == 15), "{zone} {change}: {quarters:?}");
        let minutes = paces("* * * * *", zone, change, 400);
        assert!(minutes.iter().all(|pace| *pace == 1), "{zone} {change}");
    }
    assert_eq!(paces("0 * * * *", BERLIN, "2026-10-24T22:30:00Z", 5), [60; 4]);
    // The clock on the wall decides: half an hour is left out, and half past two comes with it.
    assert_eq!(paces("30 * * * *", LORD_HOWE, "2026-10-03T13:00:00Z", 4), [60, 30, 60]);
    // An hour that is left out has no minutes, and one that comes twice has 120.
    let two = "*/30 2 * * *";
    let left_out = next(two, BERLIN, "2026-03-28T12:00:00Z", 1);
    assert_eq!(left_out, ["2026-03-30 02:00 +02:00"]);
    let twice = next(two, BERLIN, "2026-10-24T12:00:00Z", 4);
    let offsets: Vec<&str> = twice.iter().map(|time| &time[11..]).collect();
    assert_eq!(offsets, ["02:00 +02:00", "02:30 +02:00", "02:00 +01:00", "02:30 +01:00"]);
}

#[test]
fn errors_name_the_field_and_what_was_expected() {
    let error = |expression| Cron::parse(expression, "UTC").unwrap_err().to_string();
    assert_eq!(
        error("61 * * * *"),
        "cron `61 * * * *`: minute `61`: expected a number from 0 to 59"
    );
    assert_eq!(
        error("0 0 * * 1,FOO"),
        "cron `0 0 * * 1,FOO`: day of week `FOO`: expected a number from 0 to 7, or SUN to SAT"
    );
    for (expression, part) in [
        ("* 24 * * *", "hour `24`: expected a number from 0 to 23"),
        ("* * 0 * *", "day of month `0`: expected a number from 1 to 31"),
        ("* * * 13 *", "month `13`: expected a number from 1 to 12, or JAN to DEC"),
        ("*/0 * * * *", "minute `*/0`: expected a step from 1 on"),
        ("5/15 * * * *", "minute `5/15`: expected `*` or a range before the step"),
        ("* 22-3 * * *", "hour `22-3`: expected a range that goes up"),
        ("1,,2 * * * *", "minute ``: expected a number"),
        ("+1 * * * *", "minute `+1`: expected a number"),
        ("999 * * * *", "minute `999`: expected a number"),
        ("* * * *", "has 4 fields; expected five"),
        ("", "has 0 fields"),
        ("@never", "cron `@never` is not known; expected @hourly"),
    ] {
        let error = error(expression);
        assert!(error.contains(part), "{expression}: {error}");
    }
    let zone = Cron::parse("* * * * *", "Europe/Atlantis").unwrap_err().to_string();
    assert!(zone.starts_with("time zone `Europe/Atlantis` is not known"), "{zone}");
    assert_eq!(cron(" 0  9 * * MON ", BERLIN).to_string(), "0 9 * * MON Europe/Berlin");
}

/// Whether a local time matches the fields, by the plainest reading.
fn matches(cron: &Cron, local: DateTime) -> bool {
    let has = |set: u64, number: i8| set >> number & 1 == 1;
    let of_month = has(cron.days.of_month, local.day());
    let of_week = has(cron.days.of_week, local.weekday().to_sunday_zero_offset());
    let day = if cron.days.either { of_month || of_week } else { of_month && of_week };
    let month = has(cron.days.months, local.month());
    day && month && has(cron.hours, local.hour()) && has(cron.minutes, local.minute())
}

fn field(first: u8, last: u8) -> impl Strategy<Value = String> {
    let number = first..=last;
    let range = (number.clone(), number.clone(), 1..9u8)
        .prop_map(|(a, b, step)| format!("{}-{}/{step}", a.min(b), a.max(b)));
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => number.clone().prop_map(|number| number.to_string()),
        1 => (2..30u8).prop_map(|step| format!("*/{step}")),
        1 => range,
        1 => (number.clone(), number).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)).prop_map(
        |(minute, hour, day, month, week)| format!("{minute} {hour} {day} {month} {week}"),
    )
}

fn zone() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["UTC", BERLIN, NEW_YORK, LORD_HOWE, "Asia/Kolkata", "Pacific/Apia"])
}

proptest! {
    #[test]
    fn times_grow_and_match(
        expression in expression(), zone in zone(), second in 1_000_000_000..2_500_000_000_i64,
    ) {
        let cron = cron(&expression, zone);
        let mut time = Timestamp::from_second(second).unwrap();
        for _ in 0..20 {
            let Some(due) = cron.after(time) else { break };
            prop_assert!(due > time);
            let local = due.to_zoned(cron.zone.clone()).datetime();
            let change = cron.zone.following(due - 1.nanosecond()).next();
            let is_at_change = change.is_some_and(|change| change.timestamp() == due);
            prop_assert!(matches(&cron, local) || (is_at_change && !cron.has_pace), "{local}");
            time = due;
        }
    }

    /// Minute by minute over a few days, against the plainest reading.
    #[test]
    fn nothing_is_left_out(
        minute in field(0, 59), hour in field(0, 23), zone in zone(), day in 0..5_000_i64,
    ) {
        let cron = cron(&format!("{minute} {hour} * * *"), zone);
        let start = Timestamp::from_second(1_300_000_000 / 60 * 60 + day * 86_400).unwrap();
        let end = start + 72.hours();
        let mut expected = Vec::new();
        let mut done = std::collections::HashSet::new();
        let mut now = start + 1.minute();
        while now <= end {
            let local = now.to_zoned(cron.zone.clone()).datetime();
            let before = (now - 1.minute()).to_zoned(cron.zone.clone()).datetime();
            let left_out = {
                let mut missed = before + 1.minute();
                let mut found = false;
                while missed < local {
                    found |= matches(&cron, missed);
                    missed += 1.minute();
                }
                found && !cron.has_pace
            };
            // The first of two: what was seen before the start may come again, too.
            let first = cron.has_pace || (done.insert(local) && is_first(&cron, local, now));
            if (matches(&cron, local) && first) || left_out {
                expected.push(now);
            }
            now += 1.minute();
        }
        let found: Vec<Timestamp> = std::iter::successors(cron.after(start), |t| cron.after(*t))
            .take_while(|time| *time <= end)
            .collect();
        prop_assert_eq!(found, expected);
    }
}

fn is_first(cron: &Cron, local: DateTime, now: Timestamp) -> bool {
    let first = cron.zone.to_ambiguous_timestamp(local).earlier().unwrap();
    first == now
}
