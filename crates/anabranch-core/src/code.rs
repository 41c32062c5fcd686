//! The stable code of each error, and the few kinds of them.
//!
//! One list for all crates, so that no code stands for two things. `docs/errors.md` has an entry for each of
//! them, and a test compares the two. A code is never changed and never used for something else.

use crate::{AppendError, CronError, DecodeError, InputError, StoreError, UnknownName};
use serde::{Serialize, Serializer};
use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// What a caller can do about an error, in the few kinds that an API tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// What was named is not there. An HTTP API answers 404.
    NotFound,
    /// It is not possible as things stand now, and may be later or by another way: 409.
    Conflict,
    /// What was given is wrong and will not do, however often it is tried: 400.
    Invalid,
    /// The database cannot do it for the time being: 503.
    Unavailable,
    /// Anything else that has failed: 500.
    Failed,
}

impl ErrorKind {
    /// The status with which an HTTP API answers.
    ///
    /// ```
    /// use anabranch_core::ErrorCode;
    /// assert_eq!(ErrorCode::NoSuchConsumer.kind().http_status(), 404);
    /// ```
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::Invalid => 400,
            Self::Unavailable => 503,
            Self::Failed => 500,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not found",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Makes the codes, so that the list of all of them is whole.
macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $name:literal, $kind:ident;)*) => {
        /// The stable code of an error: a word to search for, in the reference of errors
        /// (`docs/errors.md`), in logs and in issues.
        ///
        /// ```
        /// use anabranch_core::{ErrorCode, ErrorKind, StoreError};
        /// let code = StoreError::Closed.code();
        /// assert_eq!((code, code.name()), (ErrorCode::LogClosed, "log_closed"));
        /// assert_eq!(code.kind(), ErrorKind::Unavailable);
        /// assert_eq!("log_closed".parse(), Ok(code));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $code,)*
        }

        impl ErrorCode {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$code),*];

            /// The code itself.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$code => $name,)* }
            }

            /// Which kind of error it is.
            #[must_use]
            pub const fn kind(self) -> ErrorKind {
                match self { $(Self::$code => ErrorKind::$kind,)* }
            }
        }
    };
}

codes! {
    /// A name, a number or an amount that is not allowed.
    InvalidInput = "invalid_input", Invalid;
    /// Something that is not JSON, or JSON that a database cannot hold.
    InvalidJson = "invalid_json", Invalid;
    /// Data over the limit of the log.
    TooLarge = "too_large", Invalid;
    /// A database URL that cannot be used.
    InvalidUrl = "invalid_url", Invalid;
    /// Fixed partitions that are not given as such.
    InvalidPartition = "invalid_partition", Invalid;
    /// A word that is none of the known ones.
    UnknownName = "unknown_name", Invalid;
    /// A schedule that is none.
    InvalidCron = "invalid_cron", Invalid;
    /// A condition of a filter of tasks that is none.
    InvalidCondition = "invalid_condition", Invalid;
    /// A transaction that does not see what others append.
    WrongIsolation = "wrong_isolation", Invalid;
    /// A value that does not fit its type or its place.
    InvalidValue = "invalid_value", Invalid;
    /// A column that does not hold what was asked for.
    WrongColumn = "wrong_column", Failed;
    /// Arguments of the command that do not go together.
    InvalidArguments = "invalid_arguments", Invalid;
    /// A file that describes replica sets has mistakes.
    InvalidFile = "invalid_file", Invalid;
    /// A test of a file has failed.
    TestFailed = "test_failed", Failed;

    /// The stream has another version than expected.
    StreamConflict = "stream_conflict", Conflict;
    /// An event that the condition excludes has been appended.
    ConditionFailed = "condition_failed", Conflict;
    /// The id of an event is taken by another one.
    IdReused = "id_reused", Conflict;
    /// There is no such event.
    NoSuchEvent = "no_such_event", NotFound;

    /// An event of a type that the schema does not know.
    UnknownEventType = "unknown_event_type", Failed;
    /// An event that a newer schema wrote.
    NewerEventSchema = "newer_event_schema", Failed;
    /// An upcaster gave up.
    UpcastFailed = "upcast_failed", Failed;
    /// Data of an event that does not fit its type.
    EventDoesNotFit = "event_does_not_fit", Failed;
    /// A value that cannot be written as an event.
    EventNotWritable = "event_not_writable", Invalid;

    /// No connection to the database.
    Unreachable = "unreachable", Unavailable;
    /// The database does not let this user in.
    LoginRefused = "login_refused", Unavailable;
    /// The server cannot prove who it is.
    NotTrusted = "not_trusted", Unavailable;
    /// There is no such database or file, or it cannot be opened.
    CannotOpen = "cannot_open", Unavailable;
    /// The connection went away.
    ConnectionLost = "connection_lost", Unavailable;
    /// The user of the database may not do that.
    PermissionDenied = "permission_denied", Unavailable;
    /// A newer program has changed the log, which does not admit this one any more.
    SchemaTooNew = "schema_too_new", Unavailable;
    /// The log was not migrated.
    SchemaTooOld = "schema_too_old", Unavailable;
    /// There is no such log.
    NoSuchLog = "no_such_log", NotFound;
    /// The log has another hash rule.
    OtherHashRule = "other_hash_rule", Conflict;
    /// Events and cursors are on two servers, and something needs one transaction over both.
    TwoServers = "two_servers", Conflict;
    /// A log and the database of its consumers make slots in different ways.
    TwoHashRules = "two_hash_rules", Conflict;
    /// What is to hold a log's consumers is a copy of that log.
    SameLog = "same_log", Conflict;
    /// The log was wound back behind cursors on another server.
    LogWoundBack = "log_wound_back", Conflict;
    /// A consumer's positions are of another log.
    OtherLog = "other_log", Conflict;
    /// The database cannot be written to.
    ReadOnly = "read_only", Unavailable;
    /// No space left.
    DiskFull = "disk_full", Unavailable;
    /// The disk fails.
    DiskFailed = "disk_failed", Unavailable;
    /// The file of the log is not there any more.
    LogGone = "log_gone", Unavailable;
    /// The log ends before the place of a reader.
    LogFellBack = "log_fell_back", Conflict;
    /// Somebody else holds what a call needs.
    DatabaseBusy = "database_busy", Unavailable;
    /// The server has no connection left.
    TooManyConnections = "too_many_connections", Unavailable;
    /// All sessions of this process are in use.
    NoFreeSession = "no_free_session", Unavailable;
    /// The server, or what stands before it, will not do.
    UnsuitableServer = "unsuitable_server", Unavailable;
    /// Something in the database is not what Anabranch writes.
    UnexpectedContent = "unexpected_content", Failed;
    /// The async runtime of the log does not run.
    OtherRuntime = "other_runtime", Failed;
    /// The log was closed.
    LogClosed = "log_closed", Unavailable;
    /// Anything else that the database said.
    DatabaseError = "database_error", Failed;

    /// A consumer that cannot run as it is.
    ConsumerRefused = "consumer_refused", Conflict;
    /// A consumer whose code is not the accepted one.
    OtherCode = "other_code", Conflict;
    /// A replica set that cannot run as it is.
    ReplicaSetRefused = "replica_set_refused", Conflict;
    /// A consumer that stands where the log has never been.
    BeyondLog = "beyond_log", Conflict;
    /// A consumer that has stopped because its handler failed.
    HandlerStopped = "handler_stopped", Failed;
    /// A catch-up that has left something behind.
    CatchUpIncomplete = "catch_up_incomplete", Failed;
    /// The code of a handler panicked.
    HandlerPanicked = "handler_panicked", Failed;
    /// The database refused a statement.
    StatementRefused = "statement_refused", Failed;
    /// A statement ended the transaction of its handler.
    TransactionEnded = "transaction_ended", Failed;
    /// More than one transaction can do.
    TransactionTooLarge = "transaction_too_large", Failed;

    /// There is no such consumer.
    NoSuchConsumer = "no_such_consumer", NotFound;
    /// There is no such replica set.
    NoSuchReplicaSet = "no_such_replica_set", NotFound;
    /// The consumer has no such parked key.
    NoSuchKey = "no_such_key", NotFound;
    /// No such delivery of a webhook is kept.
    NoSuchDelivery = "no_such_delivery", NotFound;
    /// The consumer has no position in the log.
    NoPosition = "no_position", Conflict;
    /// A replay that would go forwards.
    ReplayForwards = "replay_forwards", Conflict;
    /// A replay that would begin beyond the log.
    ReplayBeyondLog = "replay_beyond_log", Conflict;
    /// A replay of part of what is folded from the first event on.
    ReplayOfFold = "replay_of_fold", Conflict;
    /// A replay of events that the log has no more.
    EventsMissing = "events_missing", Conflict;
    /// Slots of a replica set are about to be planned anew.
    SetChanges = "set_changes", Conflict;
    /// What was named cannot be a key of the consumer.
    NotAKey = "not_a_key", Invalid;
    /// A replay of one key of a consumer that cannot undo what it made of one key.
    NoKeyReset = "no_key_reset", Conflict;
    /// A replay of one key of a consumer of which nobody knows whether it can do that.
    KeyReplayUnknown = "key_replay_unknown", Conflict;
    /// A replay of one key, or a delivery sent again, of a consumer that is audited.
    KeyReplayAudited = "key_replay_audited", Conflict;
    /// Workers of the last version are in the way.
    OldWorkers = "old_workers", Conflict;
    /// The scope that was to be accepted is another one by now.
    ScopeChanged = "scope_changed", Conflict;
    /// The code that was to be replaced is not the accepted one any more.
    CodeChanged = "code_changed", Conflict;
    /// An audit of what is not handled from the log.
    AuditOfRows = "audit_of_rows", Conflict;
    /// The consumer is not audited.
    NotAudited = "not_audited", Conflict;
    /// An audit of what has never run.
    AuditBeforeFirstRun = "audit_before_first_run", Conflict;
    /// Others change the record of an audit while it is read.
    AuditDisturbed = "audit_disturbed", Conflict;
    /// Nobody asks for another scope.
    NoScopeChange = "no_scope_change", Conflict;
    /// Workers run what was to be removed.
    StillRunning = "still_running", Conflict;
    /// No plan has this id.
    NoSuchPlan = "no_such_plan", NotFound;
    /// The plan has expired.
    PlanExpired = "plan_expired", Conflict;
    /// The plan was applied, cancelled or begun by somebody else already.
    PlanUsed = "plan_used", Conflict;
    /// What the plan was made on has changed.
    PlanOutdated = "plan_outdated", Conflict;
    /// Another version of the program made the plan, and this one cannot read it.
    PlanUnreadable = "plan_unreadable", Conflict;
    /// The plan is of another operation than the one that was to be done.
    PlanDiffers = "plan_differs", Conflict;
    /// What cannot be taken back was not confirmed.
    NotConfirmed = "not_confirmed", Conflict;
    /// No new version is being built.
    NoRebuild = "no_rebuild", NotFound;
    /// A table of the projection is not there.
    NoSuchTable = "no_such_table", NotFound;
    /// The new version is behind the old one.
    RebuildBehind = "rebuild_behind", Conflict;
    /// Keys of the new version are parked.
    RebuildParked = "rebuild_parked", Conflict;
    /// The new version writes tables that were not named.
    RebuildTables = "rebuild_tables", Conflict;
    /// Positions that would lose or repeat events.
    ImportRefused = "import_refused", Conflict;
    /// A table of checkpoints that does not hold what it should.
    ImportTable = "import_table", Invalid;

    /// The record of a consumer shows events that were not handled.
    AuditGap = "audit_gap", Failed;
    /// The record of a consumer shows events that were handled twice.
    AuditDouble = "audit_double", Failed;
    /// The record of a consumer shows events that were handled in another order.
    AuditOrder = "audit_order", Failed;
    /// The record of a consumer and the log do not fit together.
    AuditMismatch = "audit_mismatch", Failed;
    /// The record of a consumer contradicts itself or is not whole.
    AuditRecord = "audit_record", Failed;
    /// A cursor is not where the record says.
    AuditCursor = "audit_cursor", Failed;

    /// There is no such pool.
    NoSuchPool = "no_such_pool", NotFound;
    /// There is no such task.
    NoSuchTask = "no_such_task", NotFound;
    /// The task does not stand so that this can be done.
    WrongTaskState = "wrong_task_state", Conflict;
    /// Others were enqueued instead of the task.
    TaskCompensated = "task_compensated", Conflict;
    /// The key has gone on, and nobody knows what was done instead of the task.
    TaskPassed = "task_passed", Conflict;
    /// The task is somebody else's by now.
    TaskLost = "task_lost", Conflict;
    /// A payload or result that does not fit its type.
    PayloadDoesNotFit = "payload_does_not_fit", Failed;

    /// A command on a scope that its handler has refused.
    DcbRejected = "dcb_rejected", Conflict;
    /// A command on a scope that met a conflict each time.
    DcbMaxRetriesExceeded = "dcb_max_retries_exceeded", Conflict;
    /// A command on a scope whose handler failed until its attempts were used up.
    DcbGivenUp = "dcb_given_up", Failed;
    /// A command on a scope whose handler failed at once.
    DcbUndecided = "dcb_undecided", Failed;
    /// A command on a scope that was cancelled.
    DcbCancelled = "dcb_cancelled", Conflict;

    /// There is no such instance of a workflow.
    NoSuchInstance = "no_such_instance", NotFound;
    /// A workflow has refused a command.
    CommandRejected = "command_rejected", Conflict;
    /// The instance is paused.
    InstancePaused = "instance_paused", Conflict;
    /// The instance was cancelled.
    InstanceCancelled = "instance_cancelled", Conflict;
    /// Others changed the instance before each attempt.
    InstanceContended = "instance_contended", Conflict;

    /// A batch that cannot run as it is.
    BatchRefused = "batch_refused", Conflict;
    /// A batch that met rows which it cannot go through.
    BatchStopped = "batch_stopped", Failed;
    /// The processing log has no such job.
    NoSuchJob = "no_such_job", NotFound;
    /// A part of a batch that is none.
    InvalidPart = "invalid_part", Invalid;

    /// Who asks has not said who that is, or not truly.
    NotAuthenticated = "not_authenticated", Invalid;
    /// Who asks may not do that.
    NotAllowed = "not_allowed", Invalid;
    /// The API has no such address.
    NoSuchRoute = "no_such_route", NotFound;
    /// The address has no such method.
    MethodNotAllowed = "method_not_allowed", Invalid;
    /// A body that is not of the type that the address takes.
    UnsupportedMediaType = "unsupported_media_type", Invalid;
    /// A body over the limit of the server.
    BodyTooLarge = "body_too_large", Invalid;
    /// A request that has come or was answered too slowly.
    RequestTooSlow = "request_too_slow", Unavailable;
    /// More tries than a client may have in a time.
    TooManyRequests = "too_many_requests", Unavailable;
    /// A request for a host that the server does not answer for.
    WrongHost = "wrong_host", Invalid;
    /// A request that may come from another web site.
    CrossSite = "cross_site", Invalid;
    /// The server has panicked over a request.
    ServerPanicked = "server_panicked", Failed;
    /// There is no such token.
    NoSuchToken = "no_such_token", NotFound;
    /// A server for other machines, and no token was made.
    NoToken = "no_token", Conflict;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ErrorCode {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().copied().find(|code| code.name() == name);
        found.ok_or_else(|| UnknownName::new("error code", name, "one of docs/errors.md"))
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The code of an error that is one of these types.
#[doc(hidden)]
#[macro_export]
macro_rules! code_among {
    ($error:expr; $($type:ty),* $(,)?) => {
        ::std::option::Option::None
            $(.or_else(|| $error.downcast_ref::<$type>().map(|error| error.code())))*
    };
}

impl ErrorCode {
    /// The code of an error of this crate.
    #[doc(hidden)]
    #[must_use]
    pub fn of_core(error: &(dyn Error + 'static)) -> Option<Self> {
        code_among!(error; StoreError, AppendError, InputError, UnknownName, DecodeError, CronError)
    }
}

/// Debugs errors as they are displayed, with their code: a program that returns one from `main` shows what to
/// do, and what to look for.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_with_code {
    ($($error:ty),* $(,)?) => {
        $(impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::write!(f, "{self} [{}]", self.code())
            }
        })*
    };
}
