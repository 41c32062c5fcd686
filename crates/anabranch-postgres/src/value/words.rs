//! What is said of values that do not fit: in words of people, not of parsers.

use super::Cause;
use std::num::{IntErrorKind, ParseIntError, TryFromIntError};
use tokio_postgres::types::{Kind, Type};

/// What people write for the names that the server has for its types.
const NAMES: [(&str, &str); 8] = [
    ("int2", "smallint"),
    ("int4", "integer"),
    ("int8", "bigint"),
    ("float4", "real"),
    ("float8", "double precision"),
    ("bool", "boolean"),
    ("bpchar", "char"),
    ("varbit", "bit varying"),
];

/// The name of a type, as statements write it.
pub(super) fn name_of(kind: &Type) -> String {
    let name = kind.to_string();
    let (array, element) = match name.strip_prefix('_') {
        Some(element) if matches!(kind.kind(), Kind::Array(_)) => ("[]", element),
        _ => ("", name.as_str()),
    };
    let known = NAMES.iter().find(|(name, _)| *name == element);
    format!("{}{array}", known.map_or(element, |(_, name)| *name))
}

/// Why a text does not fit that is not of the type at all: which type that is, is said anyway.
pub(super) const NOT_ONE: &str = "";
pub(super) const OUT_OF_RANGE: &str = "it is out of range";

pub(super) fn in_range<T>(number: Result<T, TryFromIntError>) -> Result<T, Cause> {
    number.map_err(|_| OUT_OF_RANGE.into())
}

pub(super) fn whole<T>(number: Result<T, ParseIntError>) -> Result<T, Cause> {
    number.map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => OUT_OF_RANGE.into(),
        _ => NOT_ONE.into(),
    })
}
