//! What can go wrong with an input or an append. Each error says what happened, to what, and what to do next.

use crate::code::ErrorCode;
use crate::store_error::StoreError;
use crate::{Position, Query, StreamId};
use thiserror::Error;
use uuid::Uuid;

/// Something handed to the log that no database should see.
///
/// ```
/// use anabranch_core::StreamId;
/// let error = StreamId::new("Order", "").unwrap_err();
/// assert_eq!(error.to_string(), "stream id of category `Order`: is empty; give it at least one character");
/// ```
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{subject}: {problem}")]
#[non_exhaustive]
pub struct InputError {
    /// What was refused, by name.
    pub subject: String,
    /// What is wrong with it, and the remedy.
    pub problem: InputProblem,
}

impl InputError {
    /// That of a subject, which is named as a user knows it.
    ///
    /// ```
    /// use anabranch_core::{InputError, InputProblem};
    /// let error = InputError::new("name of the shop", InputProblem::Empty);
    /// assert_eq!(error.to_string(), "name of the shop: is empty; give it at least one character");
    /// ```
    #[must_use]
    pub fn new(subject: impl Into<String>, problem: InputProblem) -> Self {
        Self { subject: subject.into(), problem }
    }

    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self.problem {
            InputProblem::NotJson(_) | InputProblem::NulInJson => ErrorCode::InvalidJson,
            InputProblem::TooLarge { .. } => ErrorCode::TooLarge,
            InputProblem::BadUrl(_) => ErrorCode::InvalidUrl,
            InputProblem::Isolation(_) => ErrorCode::WrongIsolation,
            InputProblem::NotANumber(_)
            | InputProblem::OutOfRange { .. }
            | InputProblem::Alone(_)
            | InputProblem::Differs { .. }
            | InputProblem::NotAPartition(_) => ErrorCode::InvalidPartition,
            _ => ErrorCode::InvalidInput,
        }
    }

    pub(crate) fn not_a_stream(text: &str) -> Self {
        let subject = format!("stream `{}`", text.escape_debug());
        Self { subject, problem: InputProblem::NoColon }
    }
}

/// What is wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InputProblem {
    /// Nothing there.
    #[error("is empty; give it at least one character")]
    Empty,
    /// Longer than the limit.
    #[error("is {bytes} bytes long, the limit is {limit}; shorten it")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A control character, NUL among them.
    #[error("holds the control character {character:?} at byte {at}; remove or encode it")]
    ControlCharacter {
        /// The character.
        character: char,
        /// Where it stands.
        at: usize,
    },
    /// A stream without a colon.
    #[error("has no colon; write it as category:id, for example Order:ord-123")]
    NoColon,
    /// A category with a colon.
    #[error("holds a colon, which separates category and id; use another character")]
    ColonInCategory,
    /// A part of a scope key with a colon.
    #[error("holds a colon, which separates the parts; use another character")]
    Colon,
    /// Text that is no scope key.
    #[error(
        "is not one; write it as tenant:T:type:id, for example tenant:acme:reservation:res-456"
    )]
    NotScopeKey,
    /// A condition that can never fail.
    #[error(
        "is after the end of every log, so it would never fail; give the position of the last event that was read, or \
         Position::START"
    )]
    AfterEnd,
    /// Too many of something.
    #[error("has {count}, the limit is {limit}; {remedy}")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
        /// What to do.
        remedy: &'static str,
    },
    /// Data over the limit of the log.
    #[error(
        "is {bytes} bytes of JSON, the limit of this log is {limit}; keep large bodies elsewhere \
         and store a reference, or raise Limits::data_bytes"
    )]
    TooLarge {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// Not JSON, or a value that serde could not turn into JSON.
    #[error("is not valid JSON: {0}")]
    NotJson(String),
    /// A NUL character inside a JSON string.
    #[error(
        "holds a NUL character (\\u0000), which PostgreSQL text cannot; remove it, or encode \
         binary data, for example as base64"
    )]
    NulInJson,
    /// An append without events.
    #[error("has no events; add at least one")]
    NoEvents,
    /// A schema version of zero.
    #[error("is 0; schema versions begin at 1")]
    VersionZero,
    /// The same event id twice in one append, with different bodies.
    #[error("stands twice in this append with different bodies; give each event its own id")]
    IdTwice,
    /// A query item without types and tags inside a query with others.
    #[error("names neither a type nor a tag; use Query::all() to match every event")]
    EmptyQueryItem,
    /// A namespace that is not a plain identifier.
    #[error(
        "is not a plain identifier; use a-z, 0-9 and _, beginning with a letter (not pg_ or sqlite), \
         at most 40"
    )]
    NotAnIdentifier,
    /// A transaction whose statements do not see what others have committed meanwhile.
    #[error(
        "is {0}, so it does not see what others append; begin it as READ COMMITTED, the default"
    )]
    Isolation(String),
    /// Text where a number belongs.
    #[error("is `{0}`, which is not a whole number; write it with digits only, for example 2")]
    NotANumber(String),
    /// A number that is too small or too large.
    #[error("is {value}; use {first} to {last}")]
    OutOfRange {
        /// The number.
        value: u64,
        /// The smallest that will do.
        first: u16,
        /// The largest that will do.
        last: u16,
    },
    /// One of two settings that need each other; the name of the other.
    #[error("is set, but {0} is not; set both or neither")]
    Alone(&'static str),
    /// Two names of one setting with different values.
    #[error("is {value}, but {other} is {other_value}; set only one of them")]
    Differs {
        /// The value of the first.
        value: u64,
        /// The name of the second.
        other: &'static str,
        /// The value of the second.
        other_value: u64,
    },
    /// A partition that is not written as one.
    #[error("is `{0}`; write it as INDEX/TOTAL, for example 1/3")]
    NotAPartition(String),
    /// A URL that no backend understands.
    #[error("{0}")]
    BadUrl(String),
}

/// A word that is none of the known ones.
///
/// ```
/// use anabranch_core::HashRule;
/// let unknown = "sha1".parse::<HashRule>().unwrap_err();
/// assert_eq!(unknown.to_string(), "there is no hash rule `sha1`; use fnv1a, md5 or integer");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no {what} `{}`; use {known}", name.escape_debug())]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: &'static str,
}

impl UnknownName {
    /// That a word is none of the known ones: what it should be, the word, and which there are.
    #[must_use]
    pub fn new(what: &'static str, name: &str, known: &'static str) -> Self {
        Self { what, name: name.to_owned(), known }
    }

    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::UnknownName
    }
}

/// Why an append was not stored. Whatever it is, nothing of that append was written, except where
/// [`AppendError::Store`] says that the outcome is unknown.
#[derive(Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The append itself is wrong; sending it again will not help.
    #[error("refused: {0}")]
    Invalid(InputError),
    /// The stream is not at the version that the caller expected.
    #[error(
        "conflict on stream {stream}: expected {expected}, but it {}; read it again and decide anew",
        stands_at(*.actual)
    )]
    Conflict {
        /// The stream.
        stream: StreamId,
        /// What the caller expected of it.
        expected: crate::Expected,
        /// Its version; 0 when it has no events.
        actual: u64,
    },
    /// An event that matches the condition's query has been appended since.
    #[error(
        "condition failed: {} matches {query} and is newer than position {after}; read again and \
         decide anew",
        the_match(*.position)
    )]
    ConditionFailed {
        /// The query of the condition.
        query: Query,
        /// The position after which no match was allowed.
        after: Position,
        /// The first match; [`Position::END`] for one that was stored at the same moment. It is for messages: what to decide on
        /// is what is read.
        position: Position,
    },
    /// The event's id is in the log already, with a different body.
    #[error(
        "event id {id} is in the log already, as version {version} of stream {stream}, with a \
         different {differs}; give the new event an id of its own"
    )]
    IdReused {
        /// The id.
        id: Uuid,
        /// The stream that has it.
        stream: StreamId,
        /// The version that has it.
        version: u64,
        /// Which part differs, what it is in the log and in the new event: in words.
        differs: Box<str>,
    },
    /// The database could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn stands_at(version: u64) -> String {
    match version {
        0 => "has no events".to_owned(),
        version => format!("stands at version {version}"),
    }
}

crate::debug_with_code!(AppendError, InputError);

impl From<InputError> for AppendError {
    fn from(error: InputError) -> Self {
        Self::Invalid(error)
    }
}

/// What has broken a condition.
fn the_match(position: Position) -> String {
    match position {
        Position::END => "an event that was stored at the same moment".to_owned(),
        position => format!("the event at position {position}"),
    }
}

impl AppendError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(error) => error.code(),
            Self::Conflict { .. } => ErrorCode::StreamConflict,
            Self::ConditionFailed { .. } => ErrorCode::ConditionFailed,
            Self::IdReused { .. } => ErrorCode::IdReused,
            Self::Store(error) => error.code(),
        }
    }

    /// Whether somebody else was faster: read again, decide anew, append again.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::ConditionFailed { .. })
    }

    /// Whether the log has looked at the append and refused it. It lies in what was appended, or in what is
    /// there already; the database works.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        !matches!(self, Self::Store(_))
    }
}
