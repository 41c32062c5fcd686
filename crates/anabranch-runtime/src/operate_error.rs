//! Why an operator's request was not carried out: as types, so that an API can answer 404 or 409 without
//! reading texts.

use crate::consumer::PROJECTION;
use crate::lane::AUDITED;
use crate::run_error::{beyond_log, shortened};
use crate::scope::Scope;
use anabranch_core::{ErrorCode, ErrorKind, InputError, Position, StoreError, debug_with_code};
use std::fmt;
use thiserror::Error;

/// Why something that was requested of a [consumer](crate::Consumers) was not done. Nothing was changed.
///
/// ```
/// # async fn f(log: anabranch_store::Log) {
/// use anabranch_core::ErrorKind;
/// use anabranch_runtime::{Consumers, OperateError};
/// match Consumers::new(&log).pause("order_summary").await {
///     Ok(()) => println!("204 No Content"),
///     Err(OperateError::NoSuchConsumer { known, .. }) => println!("404, there are {known:?}"),
///     Err(error) if error.kind() == ErrorKind::Conflict => println!("409 {error}"),
///     Err(error) => println!("{} {error} [{}]", error.kind().http_status(), error.code()),
/// }
/// # }
/// ```
#[derive(Error)]
#[non_exhaustive]
pub enum OperateError {
    /// There is no such consumer.
    #[error(
        "{at}: there is no consumer `{}`; one appears when it first runs, and `anabranch status` lists them",
        name.escape_debug()
    )]
    NoSuchConsumer {
        /// In which database.
        at: String,
        /// The name.
        name: String,
        /// The names of those that there are.
        known: Vec<String>,
    },
    /// There is no such replica set.
    #[error(
        "{at}: there is no replica set `{}`; one appears when a worker of it first runs, and `anabranch generations` \
         shows them all",
        name.escape_debug()
    )]
    NoSuchReplicaSet {
        /// In which database.
        at: String,
        /// The name.
        name: String,
        /// The names of those that there are.
        known: Vec<String>,
    },
    /// Workers have joined or left a replica set, so its slots are about to be planned anew.
    #[error(
        "{at}: workers of the replica set `{name}` have joined or left, and its slots are about to be planned anew; \
         try again in a moment"
    )]
    SetChanges {
        /// In which database.
        at: String,
        /// The name.
        name: String,
    },
    /// The consumer has no such key among those that are parked or retried.
    #[error(
        "{at}: consumer `{consumer}` has no parked key `{}`; `anabranch parked list {consumer}` shows them",
        key.escape_debug()
    )]
    NoSuchKey {
        /// In which database.
        at: String,
        /// The consumer.
        consumer: String,
        /// The key.
        key: String,
    },
    /// It is not possible as things stand.
    #[error("{at}: {}", because.said(consumer))]
    NotPossible {
        /// In which database.
        at: String,
        /// With which consumer.
        consumer: String,
        /// Why, and what to do.
        because: Obstacle,
    },
    /// What was given is wrong.
    #[error(transparent)]
    Invalid(#[from] InputError),
    /// The database could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why something is not possible with a consumer as things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// It finds its work elsewhere, and so has no position in the log.
    NoPosition {
        /// What it is.
        kind: String,
    },
    /// It stands where the log has never been.
    BeyondLog {
        /// Where its furthest cursor stands.
        position: Position,
        /// The last position that the log has ever drawn.
        drawn: Position,
    },
    /// Its log was wound back, or is another one than its cursors belong to.
    WoundBack {
        /// What was found.
        what: String,
    },
    /// A replay goes back, and this one would go forwards.
    Forwards {
        /// Where it stands.
        stands: Position,
        /// Where it was to begin.
        to: Position,
    },
    /// A replay that would begin where the log has never been.
    ReplayBeyondLog {
        /// Where it was to begin.
        to: Position,
        /// The last position that the log has ever drawn.
        drawn: Position,
    },
    /// It is folded from the first event on, and was to be replayed from a later one.
    Folded,
    /// What was named cannot be a key of it.
    NotAKey {
        /// What was named.
        key: String,
        /// How it is partitioned.
        partition: String,
    },
    /// It cannot undo what it made of one key.
    NoKeyReset {
        /// What it is.
        kind: String,
    },
    /// It is not known whether it can undo what it made of one key, or workers of an older version run it.
    KeyReplayUnknown {
        /// Those workers, in words.
        workers: Vec<String>,
    },
    /// It is audited, and its record says that each event is handled once.
    KeyReplayAudited,
    /// The log may have lost the first events of a key.
    KeyLacksEvents {
        /// The key.
        key: String,
        /// The first event that the log has.
        first: Option<Position>,
    },
    /// Workers of the last version would not notice.
    OldWorkers {
        /// Which, in words.
        workers: Vec<String>,
    },
    /// The scope that was to be accepted is not asked for any more.
    ScopeChanged {
        /// The scope that was to be accepted.
        wanted: Box<Scope>,
    },
    /// The code that was to be replaced is not the accepted one any more.
    CodeChanged {
        /// The code that was accepted.
        accepted: String,
    },
    /// It was to be audited, and its work is in a table and not in the log.
    NotOfLog {
        /// What it is.
        kind: String,
    },
    /// It is not audited, so there is nothing to prove.
    NotAudited,
    /// It was to be audited and has never run, so nobody knows which events are in its slots.
    NeverRun,
    /// Somebody else prunes or begins its record again and again while it is read.
    RecordChanges,
}

impl Obstacle {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoPosition { .. } => ErrorCode::NoPosition,
            Self::BeyondLog { .. } => ErrorCode::BeyondLog,
            Self::WoundBack { .. } => ErrorCode::LogWoundBack,
            Self::Forwards { .. } => ErrorCode::ReplayForwards,
            Self::ReplayBeyondLog { .. } => ErrorCode::ReplayBeyondLog,
            Self::Folded => ErrorCode::ReplayOfFold,
            Self::NotAKey { .. } => ErrorCode::NotAKey,
            Self::NoKeyReset { .. } => ErrorCode::NoKeyReset,
            Self::KeyReplayUnknown { .. } => ErrorCode::KeyReplayUnknown,
            Self::KeyReplayAudited => ErrorCode::KeyReplayAudited,
            Self::KeyLacksEvents { .. } => ErrorCode::EventsMissing,
            Self::OldWorkers { .. } => ErrorCode::OldWorkers,
            Self::ScopeChanged { .. } => ErrorCode::ScopeChanged,
            Self::CodeChanged { .. } => ErrorCode::CodeChanged,
            Self::NotOfLog { .. } => ErrorCode::AuditOfRows,
            Self::NotAudited => ErrorCode::NotAudited,
            Self::NeverRun => ErrorCode::AuditBeforeFirstRun,
            Self::RecordChanges => ErrorCode::AuditDisturbed,
        }
    }

    fn said(&self, consumer: &str) -> impl fmt::Display {
        let name = consumer;
        match self {
            Self::NoPosition { kind } => {
                format!("consumer `{name}` is a {kind} and has no position in the log")
            }
            Self::BeyondLog { position, drawn } => beyond_log(name, *position, *drawn),
            Self::WoundBack { what } => format!(
                "how far consumer `{name}` is cannot be told: {what} (`anabranch replay {name} --from-start`, \
                 `anabranch skip-to-head {name}`); delete no events before that"
            ),
            Self::Forwards { stands, to } => format!(
                "consumer `{name}` stands at position {stands}, and a replay goes back: after {to} it would \
                 leave events out; choose a position up to {stands}, or skip to the head"
            ),
            Self::ReplayBeyondLog { to, drawn } => format!(
                "the last position that the log has ever drawn is {drawn}, so `{name}` cannot begin again \
                 after {to}; choose a position up to {drawn}"
            ),
            Self::Folded => format!(
                "`{name}` is folded from the first event on, so it can only be replayed from the start; what \
                 it made of events that were deleted is lost then"
            ),
            Self::NotAKey { key, partition } => format!(
                "`{}` cannot be a key of `{name}`, which is partitioned by {partition}; write it as \
                 `anabranch parked list` does, such as Order:ord-123 for a stream",
                key.escape_debug()
            ),
            Self::NoKeyReset { kind } => format!(
                "consumer `{name}` is a {kind} that cannot undo what it made of one key, so its events would \
                 count twice; {}replay all of it (`anabranch replay {name} --from-start`)",
                match kind.as_str() {
                    PROJECTION => "give it a hook (Projection::resets_keys and reset_key), or ",
                    _ => "",
                }
            ),
            Self::KeyReplayUnknown { workers } if workers.is_empty() => format!(
                "it is not known whether `{name}` can undo what it made of one key; start a worker of this \
                 version once, which says so"
            ),
            Self::KeyReplayUnknown { workers } => format!(
                "workers of an older version run `{name}` and cannot handle one key again: {}; stop them, or \
                 deploy this version everywhere",
                workers.join("; ")
            ),
            Self::KeyReplayAudited => {
                format!("consumer `{name}` is audited: {}", AUDITED.replace("NAME", name))
            }
            Self::KeyLacksEvents { key, first } => format!(
                "the log {}, so what `{name}` made of earlier events of the key `{}` could not be made again; \
                 Consumers::replay_what_is_left_of_key handles those that are left",
                match first {
                    Some(first) => format!("begins with position {first}"),
                    None => "has no events any more".to_owned(),
                },
                key.escape_debug()
            ),
            Self::OldWorkers { workers } => format!(
                "workers of an older version would go on with `{name}` as it was: {}; stop them, or \
                 deploy this version everywhere, then accept it",
                workers.join("; ")
            ),
            Self::ScopeChanged { wanted } => format!(
                "the scope that a program asks for `{name}` is no longer ({wanted}); look again"
            ),
            Self::CodeChanged { accepted } => format!(
                "the accepted code of `{name}` is no longer {}, which was to be replaced; look again",
                shortened(accepted)
            ),
            Self::NotOfLog { kind } => format!(
                "consumer `{name}` is a {kind}: its work is in a table and not in the log, so there is nothing \
                 to compare a record with; `anabranch tasks` shows what became of tasks, and `anabranch batch \
                 verify` proves batch records"
            ),
            Self::NotAudited => format!(
                "consumer `{name}` is not audited, so nothing is recorded that could be proven; \
                 `anabranch audit {name} --start` begins with what is handled from then on"
            ),
            Self::NeverRun => format!(
                "consumer `{name}` has never run, so it is not known which events are in its slots; start its \
                 program once"
            ),
            Self::RecordChanges => format!(
                "the record of `{name}` was pruned or begun anew by others while it was read, several times; \
                 run one audit of a consumer at a time"
            ),
        }
    }
}

debug_with_code!(OperateError);

impl OperateError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoSuchConsumer { .. } => ErrorCode::NoSuchConsumer,
            Self::NoSuchReplicaSet { .. } => ErrorCode::NoSuchReplicaSet,
            Self::SetChanges { .. } => ErrorCode::SetChanges,
            Self::NoSuchKey { .. } => ErrorCode::NoSuchKey,
            Self::NotPossible { because, .. } => because.code(),
            Self::Invalid(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    /// Which kind of error it is: what an API answers.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }
}
