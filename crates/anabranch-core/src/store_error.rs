//! What a database could not do, and what to do about it.

use crate::Position;
use crate::code::ErrorCode;
use crate::error::InputError;
use std::error::Error;
use thiserror::Error;

/// Any error with its cause, as backends hand it up.
pub type Source = Box<dyn Error + Send + Sync>;

/// What a database could not do, and what to do about it. `at` names the database, never with its
/// password.
///
/// Its text is whole: it says what the driver said. So [`Error::source`] is none, here and in all errors of
/// Anabranch whose text holds their cause; the cause itself is the field `source`.
#[derive(Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The URL or an option is wrong.
    #[error(transparent)]
    Invalid(#[from] InputError),
    /// No connection to the database.
    #[error(
        "cannot reach {at}: {}; check that the server runs, and its host and port", root(.source)
    )]
    Unreachable {
        /// Which database.
        at: String,
        /// What the driver said.
        r#source: Source,
    },
    /// The database does not let this user in.
    #[error(
        "{at} refused the login: {}; check user and password (in a URL, a % of the password is %25), and \
         pg_hba.conf",
        root(.source)
    )]
    LoginRefused {
        /// Which database.
        at: String,
        /// What the driver said.
        r#source: Source,
    },
    /// The server cannot prove who it is, or is not encrypted.
    #[error(
        "{at} is not trusted: {}; sslmode and sslrootcert in the URL say what is encrypted and whose certificates \
         are trusted (docs/postgresql-connections.md)",
        root(.source)
    )]
    NotTrusted {
        /// Which database.
        at: String,
        /// What the driver said.
        r#source: Source,
    },
    /// There is no such database or file.
    #[error("cannot open {at}: {}; {remedy}", root(.source))]
    CannotOpen {
        /// Which database.
        at: String,
        /// What to do.
        remedy: &'static str,
        /// What the driver said.
        r#source: Source,
    },
    /// The connection went away in mid-flight.
    #[error("lost the connection to {at}: {}; it is safe to repeat the call", root(.source))]
    ConnectionLost {
        /// Which database.
        at: String,
        /// What the driver said.
        r#source: Source,
    },
    /// The user may not do that.
    #[error("{at} denied permission: {}; grant it, or connect as the owner", root(.source))]
    Denied {
        /// Which database.
        at: String,
        /// What the driver said.
        r#source: Source,
    },
    /// The log was brought up to date by a newer program, and does not admit this one any more.
    #[error(
        "the log `{namespace}` in {at} has schema version {found} and admits programs from version \
         {admits} on, but this one knows versions up to {known}; upgrade this program. In this order: \
         install the newer program everywhere this one may be started, start newer workers, then stop \
         the older ones, which go on until then"
    )]
    SchemaTooNew {
        /// Which database.
        at: String,
        /// Which log in it.
        namespace: String,
        /// What it has.
        found: u32,
        /// The oldest version whose programs may start on it.
        admits: u32,
        /// What this program knows.
        known: u32,
    },
    /// The log has not been brought up to date, and automatic migration is off.
    #[error(
        "the log `{namespace}` in {at} has schema version {found}, this program needs {known}; first \
         install this program everywhere the older one may be started, since that is not admitted \
         after the migration; then run `anabranch migrate`, or apply the steps after {found} that \
         `anabranch migrate --print` shows"
    )]
    SchemaTooOld {
        /// Which database.
        at: String,
        /// Which log in it.
        namespace: String,
        /// What it has.
        found: u32,
        /// What this program needs.
        known: u32,
    },
    /// There is no such log, and automatic migration, which would create it, is off.
    #[error(
        "there is no log `{namespace}` in {at}; check the URL and the namespace, or create it with \
         `anabranch migrate`"
    )]
    NoLog {
        /// Which database.
        at: String,
        /// Which log was looked for.
        namespace: String,
    },
    /// The log was created with another hash rule.
    #[error(
        "the log `{namespace}` in {at} was created with the hash rule {found}, not {asked}; the \
         slots of its events cannot change: leave the rule out, or start a new log"
    )]
    OtherRule {
        /// Which database.
        at: String,
        /// Which log in it.
        namespace: String,
        /// Its rule.
        found: crate::HashRule,
        /// The rule that was asked for.
        asked: crate::HashRule,
    },
    /// Events and their consumers are on two servers, and what was asked for needs one transaction over both.
    #[error("{what} is refused: the events are in {log}, cursors and effects in {at}; {remedy}")]
    TwoServers {
        /// Where cursors and effects are.
        at: String,
        /// Where the events are.
        log: Box<str>,
        /// What was asked for.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A log and the database of its consumers would make slots in different ways.
    #[error(
        "the log in {log} has the hash rule {log_rule}, and the database of its consumers, {at}, was made \
         with {rule}, so their slots would differ; make that one anew with {log_rule} (Options::hash_rule, or \
         `anabranch migrate --hash-rule`)"
    )]
    TwoRules {
        /// Where the events are.
        log: String,
        /// The rule of the log.
        log_rule: crate::HashRule,
        /// Where cursors and effects are to be.
        at: String,
        /// The rule there.
        rule: crate::HashRule,
    },
    /// What is to hold a log's consumers has the identity of that log.
    #[error(
        "{log} and {at} hold the same log, {identity}: one is a copy of the other, or both name one database. \
         If they are one database, use the same URL for both; if one is a copy, keep the consumers in a \
         database of their own"
    )]
    SameLog {
        /// Where the events are.
        log: String,
        /// Where cursors and effects are to be.
        at: String,
        /// The identity of both.
        identity: uuid::Uuid,
    },
    /// The log is not the one any more that cursors on another server belong to: it was wound back, or another
    /// one is in its place. New events would be skipped in silence, so nothing is handled.
    #[error(
        "{at}: {what}. As it stands a consumer would skip new events. Let it handle what the log holds now \
         (`anabranch replay CONSUMER --from-start`, or `--after POSITION`), or go on after that \
         (`anabranch skip-to-head CONSUMER`)"
    )]
    WoundBack {
        /// Where the log is.
        at: String,
        /// What was found.
        what: String,
    },
    /// The consumer's positions are of another log than the one at hand.
    #[error(transparent)]
    OtherLog(Box<OtherLog>),
    /// The database cannot be written to.
    #[error("{at} is read-only: {}; {remedy}", root(.source))]
    ReadOnly {
        /// Which database.
        at: String,
        /// What to do.
        remedy: &'static str,
        /// What the driver said.
        r#source: Source,
    },
    /// No space left.
    #[error("the disk of {at} is full: {}; free some space and repeat the call", root(.source))]
    Full {
        /// Which database.
        at: String,
        /// What the driver said.
        r#source: Source,
    },
    /// The disk fails.
    #[error("the disk of {at} fails: {}; look at the disk, and repeat the call", root(.source))]
    Disk {
        /// Which database.
        at: String,
        /// What the driver said.
        r#source: Source,
    },
    /// The file of the log is not the one any more that was opened.
    #[error(
        "{at} is gone: {what} while it was open. Nothing is stored any more: what was acknowledged before \
         is in the file that was there. Put that back (this program goes on then, if it still runs), or \
         restore a backup and start again"
    )]
    Gone {
        /// Which database.
        at: String,
        /// What happened to which file.
        what: String,
    },
    /// The log ends before the position where a subscription stands.
    #[error(
        "{at} has never been beyond position {drawn}, but a subscription stands at {position}: the log was \
         emptied or restored from an older backup, or a standby that was behind has become the primary. It \
         would ignore the next {} events; subscribe again after a position that is in the log",
        .position.get() - .drawn.get()
    )]
    FellBack {
        /// Which database.
        at: String,
        /// Where the subscription stands.
        position: Position,
        /// The last position that the log has ever drawn.
        drawn: Position,
    },
    /// Somebody else holds what this call needs.
    #[error("{at} is busy: {}; repeat the call, and look for a long write transaction", root(.source))]
    Busy {
        /// Which database.
        at: String,
        /// What the driver said.
        r#source: Source,
    },
    /// The server has no connection left for a session that this process needs.
    #[error(
        "{at} has no connection left: {}; {limit}. A process takes a session for each lane at work and \
         four more: raise that limit, lower the lanes or Options::sessions, or run fewer processes",
        root(.source)
    )]
    TooManyConnections {
        /// Which database.
        at: String,
        /// How many there may be, as far as it is known.
        limit: String,
        /// What the driver said.
        r#source: Source,
    },
    /// All sessions that this call could use are in use, some of them perhaps by its caller.
    #[error(
        "{at}: no session is free: {what}; end a transaction before you read or append through the log, or \
         {remedy}"
    )]
    NoSession {
        /// Which database.
        at: String,
        /// What holds them.
        what: String,
        /// How to have more.
        remedy: String,
    },
    /// The server only looks like one that will do, or something stands between it and this program.
    #[error("{at} will not do: {what}; {remedy}")]
    Unsuitable {
        /// Which database.
        at: String,
        /// What it is.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// What was read is not what Anabranch writes.
    #[error("{at} holds something unexpected: {what}; was it changed by hand?")]
    Corrupt {
        /// Which database.
        at: String,
        /// What was found.
        what: String,
    },
    /// The log was opened in another async runtime, which runs its tasks and does not run now. An append may
    /// be stored all the same, when it goes on: append it again with the same ids.
    #[error(
        "{at} was opened in another async runtime, which {why}; open the log in the runtime that uses it"
    )]
    OtherRuntime {
        /// Which database.
        at: String,
        /// What is the matter with it.
        why: &'static str,
    },
    /// The log was closed, or its runtime is shutting down.
    #[error("the log is closed; connect again")]
    Closed,
    /// Anything else that the database said.
    #[error("{at}: {}", root(.source))]
    Other {
        /// Which database.
        at: String,
        /// What the driver said.
        r#source: Source,
    },
}

crate::debug_with_code!(StoreError);

/// The positions of a consumer are of another log than the one at hand.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "consumer `{consumer}` in {at} reads another log than the one in {log}: its cursors belong to \
     {belongs_to}, and this is {identity}; connect to the log that it reads (Log::with_database, or --events-url). \
     Only if this one is in its place from now on, let it begin with this one (`anabranch replay {consumer} \
     --from-start`, or `anabranch skip-to-head {consumer}`)"
)]
pub struct OtherLog {
    /// The consumer.
    pub consumer: String,
    /// Where its cursors are.
    pub at: String,
    /// The log at hand.
    pub log: String,
    /// The identity of the log that it reads.
    pub belongs_to: uuid::Uuid,
    /// The identity of the log at hand.
    pub identity: uuid::Uuid,
}

impl StoreError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(error) => error.code(),
            Self::Unreachable { .. } => ErrorCode::Unreachable,
            Self::LoginRefused { .. } => ErrorCode::LoginRefused,
            Self::NotTrusted { .. } => ErrorCode::NotTrusted,
            Self::CannotOpen { .. } => ErrorCode::CannotOpen,
            Self::ConnectionLost { .. } => ErrorCode::ConnectionLost,
            Self::Denied { .. } => ErrorCode::PermissionDenied,
            Self::SchemaTooNew { .. } => ErrorCode::SchemaTooNew,
            Self::SchemaTooOld { .. } => ErrorCode::SchemaTooOld,
            Self::NoLog { .. } => ErrorCode::NoSuchLog,
            Self::OtherRule { .. } => ErrorCode::OtherHashRule,
            Self::TwoServers { .. } => ErrorCode::TwoServers,
            Self::TwoRules { .. } => ErrorCode::TwoHashRules,
            Self::SameLog { .. } => ErrorCode::SameLog,
            Self::WoundBack { .. } => ErrorCode::LogWoundBack,
            Self::OtherLog(_) => ErrorCode::OtherLog,
            Self::ReadOnly { .. } => ErrorCode::ReadOnly,
            Self::Full { .. } => ErrorCode::DiskFull,
            Self::Disk { .. } => ErrorCode::DiskFailed,
            Self::Gone { .. } => ErrorCode::LogGone,
            Self::FellBack { .. } => ErrorCode::LogFellBack,
            Self::Busy { .. } => ErrorCode::DatabaseBusy,
            Self::TooManyConnections { .. } => ErrorCode::TooManyConnections,
            Self::NoSession { .. } => ErrorCode::NoFreeSession,
            Self::Unsuitable { .. } => ErrorCode::UnsuitableServer,
            Self::Corrupt { .. } => ErrorCode::UnexpectedContent,
            Self::OtherRuntime { .. } => ErrorCode::OtherRuntime,
            Self::Closed => ErrorCode::LogClosed,
            Self::Other { .. } => ErrorCode::DatabaseError,
        }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::ConnectionLost { .. }
                | Self::Busy { .. }
                | Self::TooManyConnections { .. }
                | Self::NoSession { .. }
        )
    }

    /// Whether somebody may cure it while this program runs: a worker waits then and goes on by itself, and
    /// no event is to blame. Besides what is transient, that is a disk that is full or fails, a database
    /// that is read-only, a right that is missing, and a certificate that has to be renewed.
    ///
    /// ```
    /// use anabranch_core::StoreError;
    /// let at = "postgres://app@db:5432/shop".to_owned();
    /// let full = StoreError::Full { at, source: "no space left".into() };
    /// assert!(full.is_worth_waiting() && !full.is_transient());
    /// assert!(!StoreError::Closed.is_worth_waiting());
    /// ```
    #[must_use]
    pub fn is_worth_waiting(&self) -> bool {
        self.is_transient()
            || matches!(
                self,
                Self::Full { .. }
                    | Self::Disk { .. }
                    | Self::ReadOnly { .. }
                    | Self::Denied { .. }
                    | Self::NotTrusted { .. }
            )
    }
}

/// The last cause in the chain: drivers wrap the one sentence that matters ("connection refused").
fn root(source: &Source) -> &dyn Error {
    let mut cause: &(dyn Error + 'static) = source.as_ref();
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause
}
