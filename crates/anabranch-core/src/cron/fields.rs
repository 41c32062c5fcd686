//! The five fields, as sets of numbers.

use super::CronError;

/// What one field may hold.
struct Kind {
    name: &'static str,
    first: u8,
    last: u8,
    /// Names for the numbers from `first` on.
    names: &'static [&'static str],
}

const MINUTE: Kind = Kind { name: "minute", first: 0, last: 59, names: &[] };
const HOUR: Kind = Kind { name: "hour", first: 0, last: 23, names: &[] };
const DAY_OF_MONTH: Kind = Kind { name: "day of month", first: 1, last: 31, names: &[] };
const MONTH: Kind = Kind {
    name: "month",
    first: 1,
    last: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
const DAY_OF_WEEK: Kind = Kind {
    name: "day of week",
    first: 0,
    last: 7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};

/// One field: a bit for each number that matches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) set: u64,
    /// Whether it begins with `*`, which decides how it goes with others.
    pub(super) is_star: bool,
}

#[derive(Debug)]
pub(super) struct Fields {
    pub(super) minutes: Field,
    pub(super) hours: Field,
    pub(super) days_of_month: Field,
    pub(super) months: Field,
    pub(super) days_of_week: Field,
}

impl Fields {
    pub(super) fn parse(expression: &str) -> Result<Self, CronError> {
        let words: Vec<&str> = spelled_out(expression.trim())?.split_whitespace().collect();
        let [minute, hour, day_of_month, month, day_of_week] = words[..] else {
            let (expression, found) = (expression.to_owned(), words.len());
            return Err(CronError::Fields { expression, found });
        };
        let parse = |kind: Kind, text| kind.parse(expression, text);
        let mut days_of_week = parse(DAY_OF_WEEK, day_of_week)?;
        // Sunday may be written as 7.
        days_of_week.set = (days_of_week.set | days_of_week.set >> 7) & 0x7f;
        Ok(Self {
            minutes: parse(MINUTE, minute)?,
            hours: parse(HOUR, hour)?,
            days_of_month: parse(DAY_OF_MONTH, day_of_month)?,
            months: parse(MONTH, month)?,
            days_of_week,
        })
    }
}

/// The five fields that a word stands for.
fn spelled_out(expression: &str) -> Result<&str, CronError> {
    Ok(match expression {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        word if word.starts_with('@') => {
            return Err(CronError::Word { word: word.to_owned() });
        }
        fields => fields,
    })
}

impl Kind {
    fn parse(&self, expression: &str, text: &str) -> Result<Field, CronError> {
        let mut set = 0;
        for part in text.split(',') {
            set |= self.part(part).map_err(|expected| CronError::Field {
                expression: expression.to_owned(),
                field: self.name,
                found: part.to_owned(),
                expected,
            })?;
        }
        Ok(Field { set, is_star: text.starts_with('*') })
    }

    /// One part of a list; the error is what should stand there.
    fn part(&self, part: &str) -> Result<u64, String> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (self.number(first)?, self.number(last)?),
            // Seven is Sunday again.
            None if range == "*" => (self.first, if self.last == 7 { 6 } else { self.last }),
            None if step.is_some() => {
                let (first, last) = (self.first, self.last);
                return Err(format!("`*` or a range before the step, as in {first}-{last}/2"));
            }
            None => {
                let number = self.number(range)?;
                (number, number)
            }
        };
        if first > last {
            return Err("a range that goes up; write one that goes round as two".to_owned());
        }
        let step = match step.map(str::parse::<u8>) {
            None => 1,
            Some(Ok(step @ 1..)) => step,
            Some(_) => return Err("a step from 1 on after the `/`, as in */5".to_owned()),
        };
        Ok((first..=last).step_by(step.into()).fold(0, |set, number| set | 1 << number))
    }

    fn number(&self, text: &str) -> Result<u8, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let number = match named {
            Some(place) => Some(self.first + place as u8),
            // `parse` would take a sign.
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            None => None,
        };
        number.filter(|number| (self.first..=self.last).contains(number)).ok_or_else(|| {
            let (first, last) = (self.first, self.last);
            match self.names {
                [] => format!("a number from {first} to {last}"),
                [name, .., last_name] => {
                    format!("a number from {first} to {last}, or {name} to {last_name}")
                }
                [name] => format!("{first} or {name}"),
            }
        })
    }
}
