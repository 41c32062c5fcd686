//! Which tasks are meant, where many are.

use anabranch_core::{ErrorCode, TaskState};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Which tasks are meant: all that stand so and meet every condition.
///
/// ```
/// use anabranch_workpool::TaskFilter;
/// # fn f() -> Result<(), anabranch_workpool::TaskConditionError> {
/// let timed_out = TaskFilter::dead().and("pool=payouts".parse()?).and("error~timed out".parse()?);
/// # let _ = timed_out; Ok(()) }
/// # f().unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct TaskFilter {
    pub(crate) standing: Standing,
    pub(crate) conditions: Vec<TaskCondition>,
}

/// How the tasks stand that are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// So.
    Is(TaskState),
    /// They have not ended.
    Open,
}

impl Standing {
    /// Whether a task that stands so is meant.
    pub(crate) fn meets(self, state: TaskState) -> bool {
        match self {
            Self::Is(wanted) => state == wanted,
            Self::Open => state.is_open(),
        }
    }
}

impl TaskFilter {
    /// Those that wait for somebody.
    pub fn dead() -> Self {
        Self::of(Standing::Is(TaskState::Dead))
    }

    /// Those that stand so.
    pub fn in_state(state: TaskState) -> Self {
        Self::of(Standing::Is(state))
    }

    /// Those that have not ended: ready, scheduled or held.
    pub fn open() -> Self {
        Self::of(Standing::Open)
    }

    fn of(standing: Standing) -> Self {
        Self { standing, conditions: Vec::new() }
    }

    /// Those whose key has gone on without them.
    pub fn skipped() -> Self {
        Self::of(Standing::Is(TaskState::Skipped))
    }

    /// Those instead of which others were enqueued. To try these again does both, so nothing less than naming
    /// them finds them.
    pub fn compensated() -> Self {
        Self::of(Standing::Is(TaskState::Compensated))
    }

    /// Only those that meet this condition, too.
    pub fn and(mut self, condition: TaskCondition) -> Self {
        self.conditions.push(condition);
        self
    }
}

/// A condition: `FIELD=VALUE` or `FIELD~TEXT` (it has the text somewhere in it), where the field is `pool`,
/// `key` or `error`. Upper and lower case differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCondition {
    pub(crate) field: Field,
    /// Whether it has the text in it; else it is the text.
    pub(crate) contains: bool,
    pub(crate) text: String,
}

impl TaskCondition {
    /// Whether it is about pools, and none of these meets it.
    #[must_use]
    pub fn is_of_no_pool(&self, pools: &[String]) -> bool {
        let meets = |pool: &String| match self.contains {
            true => pool.contains(&self.text),
            false => *pool == self.text,
        };
        self.field == Field::Pool && !pools.iter().any(meets)
    }
}

/// As it is written.
impl fmt::Display for TaskCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.contains { '~' } else { '=' };
        write!(f, "{}{sign}{}", self.field.name(), self.text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Pool,
    Key,
    Error,
}

impl Field {
    /// Its name, and that of its column.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Key => "key",
            Self::Error => "error",
        }
    }
}

/// A text that is no condition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no condition; write FIELD=VALUE, or FIELD~TEXT for those that contain the text, with one of the \
     fields pool, key and error"
)]
pub struct TaskConditionError(String);

impl TaskConditionError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::InvalidCondition
    }
}

impl FromStr for TaskCondition {
    type Err = TaskConditionError;

    fn from_str(text: &str) -> Result<Self, TaskConditionError> {
        let wrong = || TaskConditionError(text.to_owned());
        let at = text.find(['=', '~']).ok_or_else(wrong)?;
        let (field, rest) = text.split_at(at);
        let fields = [Field::Pool, Field::Key, Field::Error];
        let named = fields.into_iter().find(|known| known.name() == field.trim());
        let field = named.ok_or_else(wrong)?;
        let (contains, text) = (rest.starts_with('~'), &rest[1..]);
        // Everything contains nothing: that would be a slip of the keyboard that retries everything.
        if contains && text.is_empty() {
            return Err(wrong());
        }
        Ok(Self { field, contains, text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_up_to_the_first_sign() {
        let read = |text: &str| {
            let TaskCondition { field, contains, text } = text.parse().unwrap();
            (field, contains, text)
        };
        assert_eq!(read("pool=a=b"), (Field::Pool, false, "a=b".to_owned()));
        assert_eq!(read("error~x = ~y"), (Field::Error, true, "x = ~y".to_owned()));
        assert_eq!(read("key ="), (Field::Key, false, String::new()));
    }

    #[test]
    fn a_condition_on_pools_is_of_one_that_is_there() {
        let is_of_none = |text: &str, pools: &[&str]| {
            let condition: TaskCondition = text.parse().unwrap();
            assert_eq!(condition.to_string(), text, "it is shown as it was written");
            let pools: Vec<String> = pools.iter().map(ToString::to_string).collect();
            condition.is_of_no_pool(&pools)
        };
        let pools = ["mails", "payouts"];
        assert!(!is_of_none("pool=payouts", &pools) && is_of_none("pool=payout", &pools));
        assert!(!is_of_none("pool~out", &pools) && is_of_none("pool~Out", &pools));
        assert!(is_of_none("pool=payouts", &[]) && is_of_none("pool=", &pools));
        assert!(!is_of_none("key=payout", &[]) && !is_of_none("error~payout", &[]));
    }

    #[test]
    fn anything_else_is_refused_with_what_to_write() {
        for text in ["", "pool", "=x", "state=dead", "error~", "Pool=a", "error!=x"] {
            let error = text.parse::<TaskCondition>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}` is no condition")), "{error}");
            assert!(error.contains("pool, key and error"), "{error}");
        }
    }
}
