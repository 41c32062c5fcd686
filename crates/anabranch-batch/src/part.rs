//! Which rows an instance handles: all that nobody else has claimed, or part I of N.

use anabranch_core::{ErrorCode, HashRule};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Which rows an instance handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Any that nobody else has claimed.
    #[default]
    Elastic,
    /// Part `id` of `count`.
    Fixed {
        /// Which part, from 0.
        id: u32,
        /// How many there are.
        count: u32,
        /// By the FNV-1a hash of the key instead of the key itself; text is always hashed.
        hashed: bool,
    },
}

/// Ids that make no part.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PartError(String);

impl PartError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::InvalidPart
    }
}

impl Part {
    /// The part that an instance id and an instance count say, if they are given.
    ///
    /// ```
    /// use anabranch_batch::Part;
    /// assert_eq!(Part::new(None, None, false), Ok(Part::Elastic));
    /// assert_eq!(Part::new(Some(2), Some(3), false).unwrap().to_string(), "2 of 3");
    /// assert!(Part::new(Some(3), Some(3), false).unwrap_err().to_string().contains("0 to 2"));
    /// assert!(Part::new(Some(1), None, false).is_err());
    /// ```
    pub fn new(id: Option<u32>, count: Option<u32>, hashed: bool) -> Result<Self, PartError> {
        let refuse = |problem: String| Err(PartError(problem));
        match (id, count) {
            (None, None) => Ok(Self::Elastic),
            (Some(_), Some(0)) => refuse("the instance count is 0; give at least 1".to_owned()),
            (Some(id), Some(count)) if id < count => Ok(Self::Fixed { id, count, hashed }),
            (Some(id), Some(count)) => refuse(format!(
                "instance id {id} is out of range; with an instance count of {count} it is 0 to {}",
                count - 1
            )),
            (Some(id), None) => refuse(format!(
                "instance id {id} is given without an instance count; give both, or neither to share \
                 with whoever else runs"
            )),
            (None, Some(count)) => refuse(format!(
                "an instance count of {count} is given without an instance id; give both (the id is 0 \
                 to {}), or neither to share with whoever else runs",
                count.saturating_sub(1)
            )),
        }
    }

    /// The part of N that a key belongs to.
    #[must_use]
    pub fn index(key: &str, count: u32, hashed: bool) -> u32 {
        let by_number = HashRule::integer(key, count).filter(|_| !hashed);
        by_number.unwrap_or_else(|| HashRule::fnv1a32(key) % count)
    }

    /// Whether a key belongs to it.
    #[must_use]
    pub fn has(self, key: &str) -> bool {
        match self {
            Self::Elastic => true,
            Self::Fixed { id, count, hashed } => Self::index(key, count, hashed) == id,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elastic => f.write_str("elastic"),
            Self::Fixed { id, count, hashed: false } => write!(f, "{id} of {count}"),
            Self::Fixed { id, count, hashed: true } => write!(f, "{id} of {count} by hash"),
        }
    }
}

impl FromStr for Part {
    type Err = PartError;

    /// From its text.
    fn from_str(text: &str) -> Result<Self, PartError> {
        if text == "elastic" {
            return Ok(Self::Elastic);
        }
        let (ids, hashed) = match text.strip_suffix(" by hash") {
            Some(ids) => (ids, true),
            None => (text, false),
        };
        let ids = ids
            .split_once(" of ")
            .and_then(|(id, count)| Some((id.parse::<u32>().ok()?, count.parse::<u32>().ok()?)));
        let (id, count) = ids.ok_or_else(|| PartError(format!("`{text}` is no part")))?;
        Self::new(Some(id), Some(count), hashed)
    }
}

/// How uneven N parts are, in words, if one of them has far more than its share.
#[must_use]
pub fn uneven(rows: &[u64]) -> Option<String> {
    let total: u64 = rows.iter().sum();
    let (part, most) = rows.iter().enumerate().max_by_key(|(_, rows)| **rows)?;
    let fair = total as f64 / rows.len() as f64;
    // A few rows are never even.
    let is_uneven = rows.len() > 1 && total >= 20 && *most as f64 > fair * 1.5;
    is_uneven.then(|| {
        let share = (*most as f64 * 100.0 / total as f64).round();
        format!("uneven: partition {part} has {share} % of the rows; use elastic or --hash")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_by_number_or_by_hash() {
        assert_eq!(Part::index("7", 3, false), 1);
        assert_eq!(Part::index("-1", 3, false), 2);
        assert_eq!(Part::index("abc", 3, false), HashRule::fnv1a32("abc") % 3);
        assert_eq!(Part::index("7", 3, true), HashRule::fnv1a32("7") % 3);
        // 10^30 + 7 and its negative; numeric keys may be as long as they like.
        assert_eq!(Part::index("1000000000000000000000000000007", 3, false), 2);
        assert_eq!(Part::index("-1000000000000000000000000000007", 3, false), 1);
        assert_eq!(Part::index("1.5", 3, false), HashRule::fnv1a32("1.5") % 3);
    }

    #[test]
    fn wrong_ids_are_refused_with_the_range() {
        let error = |id, count| Part::new(id, count, false).unwrap_err().to_string();
        assert!(error(Some(5), Some(3)).contains("0 to 2"));
        assert!(error(None, Some(3)).contains("0 to 2"));
        assert!(error(Some(1), None).contains("give both"));
        assert!(error(Some(0), Some(0)).contains("at least 1"));
    }

    #[test]
    fn a_part_comes_back_from_its_text() {
        for text in ["elastic", "2 of 3", "0 of 7 by hash"] {
            assert_eq!(text.parse::<Part>().unwrap().to_string(), text);
        }
        assert!("3 of 3".parse::<Part>().is_err() && "x".parse::<Part>().is_err());
    }

    #[test]
    fn skew_is_named() {
        assert_eq!(uneven(&[34, 33, 33]), None);
        assert_eq!(uneven(&[1, 0]), None);
        let said = uneven(&[97, 3]).unwrap();
        assert_eq!(said, "uneven: partition 0 has 97 % of the rows; use elastic or --hash");
    }
}
