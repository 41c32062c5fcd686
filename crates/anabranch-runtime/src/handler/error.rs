//! Why a handler failed.

use crate::known_codes::code_of_runtime;
use anabranch_core::{Again, AppendError, ErrorCode};
use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

/// How many characters of an error are told.
const MAX_SAID: usize = 4_000;

type Cause = Box<dyn Error + Send + Sync>;

/// What a handler returns: `HandlerResult` alone is that of one that returns nothing.
pub type HandlerResult<T = ()> = Result<T, HandlerError>;

/// Why a handler failed. By `?` it is made of any error, `anyhow::Error`, boxed error or text:
///
/// ```
/// use anabranch_runtime::HandlerResult;
/// fn amount(text: Option<&str>) -> HandlerResult<u32> {
///     let text = text.ok_or("the order has no amount")?;
///     let amount: u32 = text.parse()?;
///     if amount == 0 {
///         Err(format!("an amount of {text}"))?;
///     }
///     Ok(amount)
/// }
/// assert_eq!(amount(None).unwrap_err().to_string(), "the order has no amount");
/// assert_eq!(amount(Some("x")).unwrap_err().to_string(), "invalid digit found in string");
/// assert_eq!(amount(Some("0")).unwrap_err().to_string(), "an amount of 0");
/// ```
///
/// It is tried again as the [`Retry`](anabranch_core::Retry) of the consumer or pool says. An error that
/// knows better says so by [`for_good`](Self::for_good), [`try_after`](Self::try_after) or
/// [`unable`](Self::unable), which come through an `anyhow::Error` or a box, and all that is wrapped around them there.
///
/// # As an error among others
///
/// As `anyhow::Error`, it is made of every error and so cannot be one itself: stable Rust does not allow
/// both, since it would be made of itself in two ways. It dereferences to the error within, goes into a
/// `Box<dyn Error>` by `?`, and into what else takes errors by [`into_error`](Self::into_error).
///
/// ```
/// # fn shop() -> anabranch_runtime::HandlerResult { Ok(()) }
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     shop()?;
///     Ok(())
/// }
/// ```
///
/// # What the log has refused
///
/// An [`AppendError`] says that the log has looked at an append and refused it (a conflict, an id that is
/// taken, an invalid event), unless it is [`AppendError::Store`]. That is about the one event that was handled:
/// handler and database work, so it never counts towards an
/// [outage](crate::ReplicaSet::run) of the consumer, however many keys get it. It holds for
/// [`Tx::append`](crate::Tx::append), and for an error of `log.append` that a handler passes on as it is, by `?`,
/// or that stands among the causes of another error. (An `anyhow::Error` hides it, unless `context` was added.)
pub struct HandlerError {
    error: Cause,
    again: Again,
    /// Whether it is an answer of the log about what this one event appends.
    is_answer: bool,
    /// Whether one transaction cannot do so much: with fewer events it may.
    is_too_much: bool,
    /// Whether the handler cannot run, whatever the event is.
    is_unable: bool,
    /// Whether the other side asks for less, whatever the event is.
    is_overload: bool,
    /// The code of an error of ours.
    code: Option<ErrorCode>,
}

impl HandlerError {
    /// An error that says this.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            error: message.into().into(),
            again: Again::AsSet,
            is_answer: false,
            is_too_much: false,
            is_unable: false,
            is_overload: false,
            code: None,
        }
    }

    /// An error of ours that says this.
    #[doc(hidden)]
    pub fn with_code(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code: Some(code), ..Self::new(message) }
    }

    /// Its stable code, if it is an error of Anabranch, or one of those is among its causes. It ends the text
    /// of the error, unless that ends with a statement.
    ///
    /// ```
    /// use anabranch_core::{ErrorCode, StoreError};
    /// use anabranch_runtime::HandlerError;
    /// let closed = HandlerError::from(StoreError::Closed);
    /// assert_eq!(closed.code(), Some(ErrorCode::LogClosed));
    /// assert_eq!(closed.to_string(), "the log is closed; connect again [log_closed]");
    /// assert_eq!(HandlerError::new("no such card").code(), None);
    /// ```
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        self.code
    }

    /// An error that no further attempt can mend: the attempts are used up at once, and what comes then
    /// is the same as ever (parked, skipped, stopped; `gave_up` of a pool or a workflow).
    ///
    /// ```
    /// use anabranch_runtime::{HandlerError, HandlerResult};
    /// fn address(text: &str) -> HandlerResult<&str> {
    ///     text.strip_prefix("mailto:").ok_or_else(|| HandlerError::for_good("this is no address"))
    /// }
    /// # assert_eq!(address("x").unwrap_err().again(), anabranch_core::Again::Never);
    /// ```
    pub fn for_good(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { again: Again::Never, is_unable: false, is_overload: false, ..error.into().into() }
    }

    /// An error that says when to try again: not before so much time has passed, a year at most. It counts
    /// as an attempt, and the wait is never shorter than the next one would be. While the whole consumer is
    /// stopped by failures, it is not tried before either, though after an hour at most.
    ///
    /// ```
    /// use anabranch_runtime::HandlerError;
    /// use std::time::Duration;
    /// let seconds = 120; // what a `Retry-After` says
    /// let error = HandlerError::try_after(Duration::from_secs(seconds), "429 Too Many Requests");
    /// # assert_eq!(error.to_string(), "429 Too Many Requests");
    /// ```
    pub fn try_after(wait: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            again: Again::After(wait),
            is_unable: false,
            is_overload: false,
            ..error.into().into()
        }
    }

    /// An error of a handler that cannot run at all, whatever the event is: it counts as an
    /// [outage](crate::ReplicaSet::run) of the consumer or pool at once, and no attempt of the event or task is counted. Others
    /// may be able to run it, and take over; otherwise it is tried now and then, and goes on when it works.
    ///
    /// ```
    /// use anabranch_runtime::{HandlerError, HandlerResult};
    /// fn key() -> HandlerResult<Vec<u8>> {
    ///     std::fs::read("/etc/shop/signing.key")
    ///         .map_err(|error| HandlerError::unable(format!("the signing key cannot be read: {error}")))
    /// }
    /// # assert!(key().unwrap_err().is_unable());
    /// ```
    pub fn unable(message: impl Into<String>) -> Self {
        Self { is_unable: true, ..Self::new(message) }
    }

    /// An error of a handler whose other side asks for less, whatever the event is (`429 Too Many Requests`): the
    /// whole consumer waits, on all workers, so long (an hour at most) or until the next try is due, and then goes on. No attempt of the
    /// event is counted, unless others work meanwhile and this key gets that answer again.
    ///
    /// ```
    /// use anabranch_runtime::HandlerError;
    /// use std::time::Duration;
    /// let error = HandlerError::overload(Some(Duration::from_secs(30)), "429 Too Many Requests");
    /// # assert!(error.is_overload());
    /// ```
    pub fn overload(wait: Option<Duration>, message: impl Into<String>) -> Self {
        let again = wait.map_or(Again::AsSet, Again::After);
        Self { is_overload: true, again, ..Self::new(message) }
    }

    /// Whether the other side asks for less, whatever the event is.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        self.is_overload
    }

    /// Whether the handler cannot run, whatever the event is.
    #[must_use]
    pub fn is_unable(&self) -> bool {
        self.is_unable
    }

    /// What it says about the next attempt.
    #[must_use]
    pub fn again(&self) -> Again {
        self.again
    }

    /// One transaction cannot do so much.
    pub(crate) fn too_much(said: &str) -> Self {
        Self::with_code(ErrorCode::TransactionTooLarge, said).about_too_much()
    }

    /// The same of a batch that was too much at a time: with fewer events it may work, and so many are not tried
    /// again soon.
    #[doc(hidden)]
    #[must_use]
    pub fn about_too_much(self) -> Self {
        Self { is_too_much: true, ..self }
    }

    /// Whether fewer events in one transaction may do.
    pub(crate) fn is_too_much(&self) -> bool {
        self.is_too_much
    }

    /// The same, because of what the log has said about an append.
    pub(crate) fn about_append(self, error: &AppendError) -> Self {
        Self { is_answer: error.is_answer(), code: Some(error.code()), ..self }
    }

    /// Whether the log has looked at what was appended for this event, and refused it. That says nothing against
    /// the handler, nor against the database.
    pub(crate) fn is_answer(&self) -> bool {
        self.is_answer
    }

    /// As an error of the standard library, for functions that return `anyhow::Result` or
    /// `Result<_, Box<dyn Error + Send + Sync>>`. When a handler fails with that, what it says about the
    /// next attempt still holds.
    ///
    /// ```
    /// # use anabranch_runtime::HandlerError;
    /// fn send(address: &str) -> anyhow::Result<()> {
    ///     if !address.contains('@') {
    ///         return Err(HandlerError::for_good("this is no address").into_error().into());
    ///     }
    ///     Ok(())
    /// }
    /// let error = HandlerError::from(send("x").unwrap_err().context("the invoice"));
    /// assert_eq!(error.to_string(), "the invoice: this is no address");
    /// assert_eq!(error.again(), anabranch_core::Again::Never);
    /// ```
    #[must_use]
    pub fn into_error(self) -> impl Error + Send + Sync + 'static {
        Passing(Word(self))
    }
}

// Every error, text and boxed error turns into a box, and so does `anyhow::Error`. What cannot is
// `HandlerError`; else this would collide with the conversion of every type to itself.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let error = match error.into().downcast::<Passing>() {
            Ok(passing) => return passing.0.0,
            Err(error) => error,
        };
        let word = causes(error.as_ref()).find_map(|cause| cause.downcast_ref::<Word>());
        let answer = causes(error.as_ref()).find_map(|cause| cause.downcast_ref::<AppendError>());
        let is_answer = answer.is_some_and(AppendError::is_answer);
        let code = causes(error.as_ref()).find_map(code_of);
        Self {
            again: word.map_or(Again::AsSet, |word| word.0.again),
            is_answer: is_answer || word.is_some_and(|word| word.0.is_answer),
            is_too_much: false,
            is_unable: word.is_some_and(|word| word.0.is_unable),
            is_overload: word.is_some_and(|word| word.0.is_overload),
            code,
            error,
        }
    }
}

impl From<HandlerError> for Box<dyn Error> {
    fn from(error: HandlerError) -> Self {
        Box::new(error.into_error())
    }
}

impl Deref for HandlerError {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        self.error.as_ref()
    }
}

/// The code of an error that may be one of ours. Higher layers know more.
fn code_of(error: &(dyn Error + 'static)) -> Option<ErrorCode> {
    let word = || error.downcast_ref::<Word>().and_then(|word| word.0.code);
    code_of_runtime(error).or_else(word)
}

/// The error and what it comes from.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}

impl fmt::Display for HandlerError {
    /// The error with its causes, its first 4,000 characters, and its code: it is logged and stored with each
    /// attempt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.error.to_string();
        let mut said = last.clone();
        for cause in causes(self.error.as_ref()).skip(1).filter(|error| !error.is::<Word>()) {
            let text = cause.to_string();
            if !last.contains(&text) {
                said += ": ";
                said += &text;
            }
            last = text;
        }
        match said.char_indices().nth(MAX_SAID) {
            Some((end, _)) => write!(f, "{}…", &said[..end])?,
            None => f.write_str(&said)?,
        }
        match self.code {
            // Such a text ends with the statement of whoever reads it, and would look as if it went on.
            Some(ErrorCode::StatementRefused) | None => Ok(()),
            Some(code) => write!(f, " [{code}]"),
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A handler's error on its way through code that knows only errors. What it comes from begins with what it
/// says about the next attempt: `anyhow` hides the type of an error in a box, but not of its causes.
#[derive(Debug)]
struct Passing(Word);

impl fmt::Display for Passing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.0.error, f)
    }
}

impl Error for Passing {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.0.0.again {
            Again::AsSet if !self.0.0.is_answer && !self.0.0.is_unable && !self.0.0.is_overload => {
                self.0.source()
            }
            _ => Some(&self.0),
        }
    }
}

/// What a handler's error says about the next attempt, as one of its causes.
#[derive(Debug)]
struct Word(HandlerError);

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.again {
            Again::AsSet if self.0.is_unable => f.write_str("whatever the event is"),
            Again::AsSet => f.write_str("to be tried again"),
            Again::After(wait) => write!(f, "not to be tried again before {wait:?} have passed"),
            Again::Never => f.write_str("not to be tried again"),
        }
    }
}

impl Error for Word {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.error.source()
    }
}

#[cfg(test)]
mod tests;
