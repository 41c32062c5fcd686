//! Values as PostgreSQL writes them, in the type that the statement asks for.

mod floats;
mod times;
mod words;

use anabranch_store::Value;
use anabranch_store::database::Statement;
use anabranch_store::misfit::Misfit;
use anabranch_store::value::{Digits, time_text, times as texts};
use serde_json::value::RawValue;
use std::error::Error;
use tokio_postgres::Row;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};
use words::{NOT_ONE, in_range, name_of, whole};

type Cause = Box<dyn Error + Send + Sync>;

/// Microseconds from 1970 to 2000, where PostgreSQL's time begins.
pub(crate) const EPOCH_2000_US: i64 = 946_684_800_000_000;

/// A value on its way to the server, and which of the statement's values it is.
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    value: &'a Value,
    number: usize,
    /// Which value of an array.
    element: Option<usize>,
    /// The type of the column that an array goes to as text.
    array: Option<&'a Type>,
    /// Whether it comes from JSON: a text is a string then, and no document.
    is_of_json: bool,
}

impl<'a> Bound<'a> {
    /// The values of a statement.
    pub(crate) fn all(values: impl IntoIterator<Item = &'a Value>) -> Vec<Self> {
        let bound = |(number, value)| Self {
            value,
            number: number + 1,
            element: None,
            array: None,
            is_of_json: false,
        };
        values.into_iter().enumerate().map(bound).collect()
    }

    /// The same of a statement that may be written elsewhere than in Rust.
    pub(crate) fn of(
        statement: &Statement,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Vec<Self> {
        let mut bound = Self::all(values);
        if statement.written.is_some() {
            bound.iter_mut().for_each(|bound| bound.is_of_json = true);
        }
        bound
    }

    /// The same, of columns; arrays in those that are given with their type go as text.
    pub(crate) fn columns(
        values: impl IntoIterator<Item = &'a Value>,
        arrays: &'a [Option<Type>],
    ) -> Vec<Self> {
        let mut bound = Self::all(values);
        bound.iter_mut().zip(arrays).for_each(|(bound, array)| bound.array = array.as_ref());
        bound
    }

    fn elements<'b>(&self, values: &'b [Value]) -> Vec<Bound<'b>>
    where
        'a: 'b,
    {
        let bound = |(element, value)| Bound { value, element: Some(element + 1), ..*self };
        values.iter().enumerate().map(bound).collect()
    }

    /// A list of JSON, in an array: its numbers keep all their digits, and its objects are JSON.
    fn json_list(&self, list: &str, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Cause> {
        let items: Vec<&RawValue> = serde_json::from_str(list)?;
        let values: Result<Vec<Value>, Cause> = items.into_iter().map(item).collect();
        Bound { is_of_json: true, ..*self }.elements(&values?).to_sql(kind, out)
    }
}

/// One of a list of JSON.
fn item(raw: &RawValue) -> Result<Value, Cause> {
    let text = raw.get();
    Ok(match text.as_bytes().first() {
        Some(b'n') => Value::Null,
        Some(b't') => Value::Bool(true),
        Some(b'f') => Value::Bool(false),
        Some(b'"') => Value::Text(serde_json::from_str(text)?),
        _ => text.parse().map_or_else(|_| Value::Json(text.to_owned()), Value::Int),
    })
}

impl ToSql for Bound<'_> {
    fn to_sql(&self, asked: &Type, out: &mut BytesMut) -> Result<IsNull, Cause> {
        let kind = without_domain(asked);
        let written = match self.value {
            Value::Null => Ok(IsNull::Yes),
            Value::Array(values) => match kind.kind() {
                Kind::Array(_) => return self.elements(values).to_sql(kind, out),
                _ => match self.array.map(Type::kind) {
                    Some(Kind::Array(of)) => {
                        fits(self.value, of).and_then(|()| text(&as_text(self.value), kind, out))
                    }
                    _ => json_array(self.value, kind, out),
                },
            },
            Value::Json(list) if list.starts_with('[') && matches!(kind.kind(), Kind::Array(_)) => {
                return self.json_list(list, kind, out);
            }
            value if self.is_of_json && is_json(kind) => json_scalar(value, kind, out),
            value => scalar(value, kind, out),
        };
        written.map_err(|problem| {
            let misfit = Misfit::new(self.number, self.value, problem);
            let wanted = Some(name_of(asked));
            Box::new(Misfit { element: self.element, wanted, ..misfit }) as Cause
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A domain is written as the type that it narrows; the server checks the rest.
fn without_domain(kind: &Type) -> &Type {
    match kind.kind() {
        Kind::Domain(base) => without_domain(base),
        _ => kind,
    }
}

fn is_json(kind: &Type) -> bool {
    *kind == Type::JSON || *kind == Type::JSONB
}

/// What was JSON becomes the same JSON again.
fn json_scalar(value: &Value, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Cause> {
    match value {
        Value::Text(string) => text(&serde_json::to_string(string)?, kind, out),
        Value::Bool(truth) => text(if *truth { "true" } else { "false" }, kind, out),
        Value::Uuid(id) => text(&serde_json::to_string(id)?, kind, out),
        Value::Time(_) => {
            value.fits_text()?;
            text(&value.to_json().to_string(), kind, out)
        }
        value => scalar(value, kind, out),
    }
}

fn json_array(array: &Value, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Cause> {
    if !is_json(kind) {
        return Err(format!("no array goes there; there are {}[] and jsonb", name_of(kind)).into());
    }
    array.fits_text()?;
    text(&array.to_json().to_string(), kind, out)
}

/// The types to which the server cuts or rounds what comes as text; others it checks.
const CUTTING: [Type; 6] =
    [Type::DATE, Type::TIME, Type::TIMESTAMP, Type::TIMESTAMPTZ, Type::FLOAT4, Type::FLOAT8];

/// Whether all of an array that goes as text is kept.
fn fits(value: &Value, of: &Type) -> Result<(), Cause> {
    match value {
        Value::Null => Ok(()),
        Value::Array(values) => values.iter().try_for_each(|value| fits(value, of)),
        value if CUTTING.contains(of) => match scalar(value, of, &mut BytesMut::new()) {
            Ok(_) => Ok(()),
            Err(problem) => {
                let why = match problem.to_string() {
                    why if why.is_empty() => why,
                    why => format!(": {why}"),
                };
                Err(format!("{value} is no {}{why}", name_of(of)).into())
            }
        },
        _ => Ok(()),
    }
}

/// An array in the server's own form, `{"a","b"}`.
fn as_text(value: &Value) -> String {
    let text = match value {
        Value::Null => return "NULL".to_owned(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(as_text).collect();
            return format!("{{{}}}", values.join(","));
        }
        Value::Bytes(bytes) => {
            format!("\\x{}", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
        }
        Value::Text(text) | Value::Json(text) => text.clone(),
        Value::Float(number) => number.to_string(),
        other => match other.to_json() {
            serde_json::Value::String(text) => text,
            json => json.to_string(),
        },
    };
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// Why a value does not fit of which the server's type has no form.
const OF_ANOTHER_KIND: &str = "it is of another kind";

fn scalar(value: &Value, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Cause> {
    match (value, kind) {
        (Value::Bool(truth), &Type::BOOL) => truth.to_sql(kind, out),
        // As SQLite has it.
        (Value::Bool(truth), _) => scalar(&Value::Int((*truth).into()), kind, out),
        (Value::Int(number @ (0 | 1)), &Type::BOOL) => (*number == 1).to_sql(kind, out),
        (Value::Int(number), &Type::INT8) => number.to_sql(kind, out),
        (Value::Int(number), &Type::INT4) => in_range(i32::try_from(*number))?.to_sql(kind, out),
        (Value::Int(number), &Type::INT2) => in_range(i16::try_from(*number))?.to_sql(kind, out),
        (Value::Int(number), &Type::OID) => in_range(u32::try_from(*number))?.to_sql(kind, out),
        // All 64 bits, not the shortest text that means the same float.
        (Value::Float(number), &Type::INT8 | &Type::INT4 | &Type::INT2)
            if number.fract() == 0.0 && *number >= -TWO_TO_63 && *number < TWO_TO_63 =>
        {
            scalar(&Value::Int(*number as i64), kind, out)
        }
        (Value::Float(number), &Type::FLOAT8) => number.to_sql(kind, out),
        (Value::Float(number), &Type::FLOAT4) => floats::real(*number)?.to_sql(kind, out),
        (Value::Int(number), &Type::NUMERIC) => numeric(&number.to_string(), out),
        (Value::Float(number), &Type::NUMERIC) => numeric(&number.to_string(), out),
        (Value::Bytes(bytes), &Type::BYTEA) => bytes.to_sql(kind, out),
        (Value::Uuid(id), &Type::UUID) => id.to_sql(kind, out),
        (Value::Time(micros), &Type::TIMESTAMPTZ | &Type::TIMESTAMP) => {
            times::since_2000(*micros)?.to_sql(&Type::INT8, out)
        }
        (Value::Text(text) | Value::Json(text), _) => self::text(text, kind, out),
        (Value::Int(number), _) => text(&number.to_string(), kind, out),
        (Value::Unsigned(number), _) => text(&number.to_string(), kind, out),
        (Value::Float(number), _) => text(&number.to_string(), kind, out),
        (Value::Uuid(id), _) => text(&id.to_string(), kind, out),
        (Value::Time(micros), _) => {
            value.fits_text()?;
            text(&time_text(*micros).unwrap_or_default(), kind, out)
        }
        _ => Err(OF_ANOTHER_KIND.into()),
    }
}

/// Text, in whatever type reads it without loss.
fn text(text: &str, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Cause> {
    match *kind {
        Type::JSONB => {
            out.extend_from_slice(&[1]);
            out.extend_from_slice(text.as_bytes());
            Ok(IsNull::No)
        }
        Type::JSON | Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => {
            out.extend_from_slice(text.as_bytes());
            Ok(IsNull::No)
        }
        Type::NUMERIC => numeric(text, out),
        Type::INT8 => whole(text.parse::<i64>())?.to_sql(kind, out),
        Type::INT4 => whole(text.parse::<i32>())?.to_sql(kind, out),
        Type::INT2 => whole(text.parse::<i16>())?.to_sql(kind, out),
        Type::FLOAT8 => floats::parse::<f64>(text)?.to_sql(kind, out),
        Type::FLOAT4 => floats::parse::<f32>(text)?.to_sql(kind, out),
        Type::BOOL => text.parse::<bool>().map_err(|_| NOT_ONE)?.to_sql(kind, out),
        Type::UUID => uuid::Uuid::parse_str(text).map_err(|_| NOT_ONE)?.to_sql(kind, out),
        Type::TIMESTAMPTZ => times::of_text(text, texts::instant)?.to_sql(&Type::INT8, out),
        Type::TIMESTAMP => times::of_text(text, texts::local)?.to_sql(&Type::INT8, out),
        Type::TIME => times::since_midnight(text)?.to_sql(&Type::INT8, out),
        Type::DATE => times::days(text)?.to_sql(&Type::INT4, out),
        // An enum of the user's is text on the wire too.
        ref other if matches!(other.kind(), Kind::Enum(_)) => {
            out.extend_from_slice(text.as_bytes());
            Ok(IsNull::No)
        }
        ref other if matches!(other.kind(), Kind::Array(_)) => Err("a list goes there".into()),
        ref other => Err(format!("write $n::text::{}", name_of(other)).into()),
    }
}

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITE: [(u16, &str); 2] = [(0xD000, "Infinity"), (0xF000, "-Infinity")];

/// How many digits a `numeric` may have.
const MOST_DIGITS: usize = 131_072 + 16_383;

/// A decimal number in PostgreSQL's form: groups of four digits to the base of 10,000.
fn numeric(text: &str, out: &mut BytesMut) -> Result<IsNull, Cause> {
    let bad = || NOT_ONE;
    if text.contains(['e', 'E']) {
        // Decimals of Python and JavaScript are written so once they are small or large.
        let plain = Digits::of(text).ok_or_else(bad)?.plain(MOST_DIGITS);
        let sign = if text.starts_with('-') { "-" } else { "" };
        return numeric(&format!("{sign}{}", plain.ok_or("it has too many digits")?), out);
    }
    let special = match INFINITE.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)) {
        Some((sign, _)) => Some(*sign),
        None => text.eq_ignore_ascii_case("nan").then_some(NAN),
    };
    if let Some(sign) = special {
        [0, 0, sign, 0].iter().for_each(|part| out.extend_from_slice(&part.to_be_bytes()));
        return Ok(IsNull::No);
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return Err(bad().into());
    }
    let padded = |digits: String| -> Vec<u16> {
        let group =
            |four: &[u8]| four.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
        digits.as_bytes().chunks(4).map(group).collect()
    };
    let whole_groups = whole.len().div_ceil(4);
    let fraction_groups = fraction.len().div_ceil(4);
    let mut groups = padded(format!("{whole:0>width$}", width = whole_groups * 4));
    groups.extend(padded(format!("{fraction:0<width$}", width = fraction_groups * 4)));
    let mut weight = i16::try_from(whole_groups)? - 1;
    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    weight -= i16::try_from(leading)?;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    let sign = if negative && !groups.is_empty() { NEGATIVE } else { 0 };
    out.extend_from_slice(&u16::try_from(groups.len())?.to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&u16::try_from(fraction.len())?.to_be_bytes());
    groups.iter().for_each(|group| out.extend_from_slice(&group.to_be_bytes()));
    Ok(IsNull::No)
}

/// The values of a row. A column of a type that has no counterpart is an error that names it.
pub(crate) fn values_of(row: &Row) -> Result<Vec<Value>, tokio_postgres::Error> {
    (0..row.len())
        .map(|column| Ok(row.try_get::<_, Option<Found>>(column)?.map_or(Value::Null, |v| v.0)))
        .collect()
}

struct Found(Value);

impl<'a> FromSql<'a> for Found {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Cause> {
        Ok(Self(match *kind {
            Type::BOOL => Value::Bool(bool::from_sql(kind, raw)?),
            Type::INT2 => Value::Int(i16::from_sql(kind, raw)?.into()),
            Type::INT4 => Value::Int(i32::from_sql(kind, raw)?.into()),
            Type::INT8 => Value::Int(i64::from_sql(kind, raw)?),
            Type::OID => Value::Int(u32::from_sql(kind, raw)?.into()),
            Type::FLOAT4 => Value::Float(f32::from_sql(kind, raw)?.into()),
            Type::FLOAT8 => Value::Float(f64::from_sql(kind, raw)?),
            Type::NUMERIC => Value::Text(decimal(raw)?),
            Type::BYTEA => Value::Bytes(raw.to_owned()),
            Type::UUID => Value::Uuid(uuid::Uuid::from_sql(kind, raw)?),
            Type::JSON => Value::Json(std::str::from_utf8(raw)?.to_owned()),
            Type::JSONB => {
                let text = raw.strip_prefix(&[1]).ok_or("an unknown version of jsonb")?;
                Value::Json(std::str::from_utf8(text)?.to_owned())
            }
            Type::TIMESTAMPTZ | Type::TIMESTAMP => {
                times::moment(i64::from_be_bytes(raw.try_into()?))?
            }
            Type::DATE => Value::Text(times::date(i32::from_be_bytes(raw.try_into()?))?),
            Type::TIME => times::hour(i64::from_be_bytes(raw.try_into()?))?,
            Type::VOID => Value::Null,
            ref other if matches!(other.kind(), Kind::Array(_)) => {
                let values = Vec::<Option<Self>>::from_sql(kind, raw)?;
                values.into_iter().map(|value| value.map_or(Value::Null, |v| v.0)).collect()
            }
            ref other if matches!(other.kind(), Kind::Enum(_)) => {
                Value::Text(std::str::from_utf8(raw)?.to_owned())
            }
            Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => {
                Value::Text(std::str::from_utf8(raw)?.to_owned())
            }
            ref other => {
                return Err(format!("cannot read the type {other}; cast it to text").into());
            }
        }))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// The text of a `numeric`.
fn decimal(raw: &[u8]) -> Result<String, Cause> {
    let part = |number: usize| -> Result<u16, Cause> {
        let bytes = raw.get(number * 2..number * 2 + 2).ok_or("a short numeric")?;
        Ok(u16::from_be_bytes(bytes.try_into()?))
    };
    let (count, weight, sign, scale) = (part(0)?, part(1)? as i16, part(2)?, part(3)?);
    if sign == NAN {
        return Ok("NaN".to_owned());
    }
    if let Some((_, text)) = INFINITE.iter().find(|(infinite, _)| *infinite == sign) {
        return Ok((*text).to_owned());
    }
    let group = |place: i32| -> Result<u16, Cause> {
        let number = i32::from(weight) - place;
        match usize::try_from(number) {
            Ok(number) if number < usize::from(count) => part(4 + number),
            _ => Ok(0),
        }
    };
    let mut whole = String::new();
    for place in (0..=i32::from(weight.max(0))).rev() {
        whole += &format!("{:04}", group(place)?);
    }
    let mut fraction = String::new();
    for place in 1..=i32::from(scale.div_ceil(4)) {
        fraction += &format!("{:04}", group(-place)?);
    }
    fraction.truncate(scale.into());
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let minus = if sign == NEGATIVE { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    Ok(format!("{minus}{whole}{point}{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_come_back_as_they_were() {
        for text in [
            "0",
            "1",
            "-1",
            "19.95",
            "-0.001",
            "10000",
            "99999999.0001",
            "0.00",
            "123456789012345",
            "1000000",
            "0.5",
            "-12345.6789",
            "100000000.10",
        ] {
            let mut out = BytesMut::new();
            numeric(text, &mut out).unwrap();
            assert_eq!(decimal(&out).unwrap(), text);
        }
        for (text, plain) in
            [("1e5", "100000"), ("-1E-7", "-0.0000001"), ("0E-8", "0"), ("1.5e+1", "15")]
        {
            let mut out = BytesMut::new();
            numeric(text, &mut out).unwrap();
            assert_eq!(decimal(&out).unwrap(), plain);
        }
        for bad in ["", "x", "1.2.3", ".", "1e", "e5", "1e5e5", "1e999999", "--1"] {
            assert!(numeric(bad, &mut BytesMut::new()).is_err(), "{bad}");
        }
    }
}
