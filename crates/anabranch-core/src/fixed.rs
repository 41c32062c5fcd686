//! Fixed partitions: "partition 1 of 3", the rule that people already deploy.

use crate::error::{InputError, InputProblem};
use crate::{HashRule, SLOTS, SlotSet};
use std::fmt;
use std::str::FromStr;

/// One of so many fixed partitions. It stands for the slots with `slot % total == index`; for a total
/// that divides 5040 those are exactly the keys with `hash % total == index`.
///
/// ```
/// use anabranch_core::{FixedPartition, HashRule};
/// let partition = FixedPartition::new(1, 3)?;
/// assert_eq!(partition.to_string(), "partition 1 of 3");
/// assert_eq!(partition.reader_name("order"), "order_runner_partition_1_of_3");
/// assert_eq!("1/3".parse::<FixedPartition>()?, partition);
/// assert_eq!(FixedPartition::of_key(HashRule::Fnv1a, "ord-123", 3)?, partition);
/// # Ok::<(), anabranch_core::InputError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedPartition {
    index: u16,
    total: u16,
}

const KEY: &str = "PARTITION_KEY";
const INDEX: &str = "PARTITION_INDEX";
const TOTAL: &str = "TOTAL_PARTITIONS";

/// The flags of a command line, each with the variable that it takes the place of.
const FLAGS: [(&str, &str); 3] =
    [("--partition-key", KEY), ("--partition-index", INDEX), ("--total-partitions", TOTAL)];

impl FixedPartition {
    /// The partition with this index, counted from 0, of so many (1 to 5040).
    pub fn new(index: u16, total: u16) -> Result<Self, InputError> {
        Self::checked(("partition index", index.into()), ("number of partitions", total.into()))
    }

    /// The partition of a key, if there are so many.
    pub fn of_key(rule: HashRule, key: &str, total: u16) -> Result<Self, InputError> {
        let first = Self::new(0, total)?;
        Ok(Self { index: rule.slot(key).get() % total, ..first })
    }

    /// The partition that the environment asks for: `PARTITION_KEY` (or `PARTITION_INDEX`) of
    /// `TOTAL_PARTITIONS`; none if none of them is set.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, InputError> {
        Self::from_args_and_env(&mut Vec::new(), get)
    }

    /// The partition that a command line asks for by `--partition-key N` (or `--partition-index N`) and
    /// `--total-partitions N`, and where a flag is missing, its variable in the environment as in
    /// [`from_env`](Self::from_env). The flags are taken out of the arguments, so what is left is the program's own.
    ///
    /// ```
    /// use anabranch_core::FixedPartition;
    /// let mut arguments: Vec<String> =
    ///     ["work", "--partition-key", "1", "--total-partitions=4"].map(str::to_owned).into();
    /// let partition = FixedPartition::from_args_and_env(&mut arguments, |_| None)?;
    /// assert_eq!(partition, Some(FixedPartition::new(1, 4)?));
    /// assert_eq!(arguments, ["work"]);
    /// # Ok::<(), anabranch_core::InputError>(())
    /// ```
    pub fn from_args_and_env(
        arguments: &mut Vec<String>,
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, InputError> {
        let mut flags = Vec::new();
        for (flag, variable) in FLAGS {
            flags.extend(taken(arguments, flag).map(|text| (flag, variable, text)));
        }
        // A flag for the index by one name beats the variable of the other name as well.
        let is_index = |name: &str| [KEY, INDEX].contains(&name);
        let has_index = flags.iter().any(|(_, variable, _)| is_index(variable));
        let number = |name: &'static str| -> Result<Option<(&'static str, u64)>, InputError> {
            let flag = flags.iter().find(|(_, variable, _)| *variable == name);
            let (name, text) = match flag {
                Some((flag, _, text)) => (*flag, text.clone()),
                None if is_index(name) && has_index => return Ok(None),
                None => match get(name) {
                    Some(text) => (name, text),
                    None => return Ok(None),
                },
            };
            match text.trim().parse() {
                Ok(number) => Ok(Some((name, number))),
                Err(_) => Err(refused(name, InputProblem::NotANumber(text))),
            }
        };
        let index = match (number(KEY)?, number(INDEX)?) {
            (Some((name, value)), Some((other, other_value))) if value != other_value => {
                return Err(refused(name, InputProblem::Differs { value, other, other_value }));
            }
            (key, index) => key.or(index),
        };
        // What is missing is named as what is there was given: by flag, or by variable.
        let missing = |given: &str, variable: &'static str| {
            let flag = FLAGS.iter().find(|(_, of)| *of == variable).map(|(flag, _)| *flag);
            flag.filter(|_| given.starts_with("--")).unwrap_or(variable)
        };
        match (index, number(TOTAL)?) {
            (None, None) => Ok(None),
            (Some(index), Some(total)) => Self::checked(index, total).map(Some),
            (Some((name, _)), None) => {
                Err(refused(name, InputProblem::Alone(missing(name, TOTAL))))
            }
            (None, Some((name, _))) => Err(refused(name, InputProblem::Alone(missing(name, KEY)))),
        }
    }

    /// Each number comes with the name under which it was given.
    fn checked(
        (index_name, index): (&str, u64),
        (total_name, total): (&str, u64),
    ) -> Result<Self, InputError> {
        let total = in_range(total_name, total, 1, SLOTS)?;
        let index = in_range(index_name, index, 0, total - 1)?;
        Ok(Self { index, total })
    }

    /// Its index, counted from 0.
    #[must_use]
    pub const fn index(self) -> u16 {
        self.index
    }

    /// Of how many it is one.
    #[must_use]
    pub const fn total(self) -> u16 {
        self.total
    }

    /// Its slots.
    #[must_use]
    pub fn slots(self) -> SlotSet {
        SlotSet::partition(self.index, self.total)
    }

    /// The name under which such a reader is known: `order_runner_partition_1_of_3`.
    #[must_use]
    pub fn reader_name(self, kind: &str) -> String {
        format!("{kind}_runner_partition_{}_of_{}", self.index, self.total)
    }
}

impl FromStr for FixedPartition {
    type Err = InputError;

    /// From a flag: `1/3` is partition 1 of 3.
    fn from_str(text: &str) -> Result<Self, InputError> {
        let parts = text.split_once('/').map(|(index, total)| (index.trim(), total.trim()));
        let numbers = parts.map(|(index, total)| (index.parse::<u64>(), total.parse::<u64>()));
        match numbers {
            Some((Ok(index), Ok(total))) => {
                Self::checked(("partition index", index), ("number of partitions", total))
            }
            _ => Err(refused("partition", InputProblem::NotAPartition(text.to_owned()))),
        }
    }
}

/// Takes a flag and its value out of the arguments: `--flag VALUE` or `--flag=VALUE`. The last one counts.
fn taken(arguments: &mut Vec<String>, flag: &str) -> Option<String> {
    let mut value = None;
    while let Some((place, of_place)) =
        arguments.iter().enumerate().find_map(|(place, argument)| {
            let rest = argument.strip_prefix(flag)?;
            (rest.is_empty() || rest.starts_with('='))
                .then(|| (place, rest.get(1..).map(str::to_owned)))
        })
    {
        arguments.remove(place);
        // One without a value is no number, and refused as that.
        value = Some(of_place.unwrap_or_else(|| match place < arguments.len() {
            true => arguments.remove(place),
            false => String::new(),
        }));
    }
    value
}

fn in_range(name: &str, value: u64, first: u16, last: u16) -> Result<u16, InputError> {
    let number = u16::try_from(value).ok().filter(|number| (first..=last).contains(number));
    number.ok_or_else(|| refused(name, InputProblem::OutOfRange { value, first, last }))
}

fn refused(subject: &str, problem: InputProblem) -> InputError {
    InputError { subject: subject.to_owned(), problem }
}

impl fmt::Display for FixedPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {} of {}", self.index, self.total)
    }
}

#[cfg(test)]
mod tests;
