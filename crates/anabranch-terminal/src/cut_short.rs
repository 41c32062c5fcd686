//! Work that is ended before its time, so that what it made can be removed: by a signal, or because
//! nobody reads its figures.

use crate::output;
use std::fmt;
use std::future::Future;
use std::process::ExitCode;

/// Why it was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutShort {
    /// SIGINT, as by Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// The reader of standard output is gone.
    Unread,
}

impl CutShort {
    /// As a shell reports processes that signals ended; a reader that has seen enough is no failure.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::Unread => 0,
        })
    }
}

impl fmt::Display for CutShort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
            Self::Unread => "nobody reads the output",
        })
    }
}

impl std::error::Error for CutShort {}

/// Runs it until it ends or a signal comes.
pub async fn unless_signalled<T>(
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    // First the signal: it may be why the work fails, since the workers of a terminal get it too.
    tokio::select! {
        biased;
        cut = signalled() => Err(cut.into()),
        done = work => done,
    }
}

/// The same for work of which only the figures matter: it ends with their reader.
pub async fn unless_unread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    unless_signalled(async {
        tokio::select! {
            done = work => done,
            () = output::closed() => Err(CutShort::Unread.into()),
        }
    })
    .await
}

/// Resolves when a signal says that it is to end.
#[cfg(unix)]
pub async fn signalled() -> CutShort {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).ok();
    let both = (listen(SignalKind::interrupt()), listen(SignalKind::terminate()));
    let (Some(mut interrupt), Some(mut terminate)) = both else {
        // Then a signal ends the process, as it does without anybody who listens.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => CutShort::Interrupted,
        _ = terminate.recv() => CutShort::Terminated,
    }
}

/// Resolves when a signal says that it is to end.
#[cfg(not(unix))]
pub async fn signalled() -> CutShort {
    match tokio::signal::ctrl_c().await {
        Ok(()) => CutShort::Interrupted,
        Err(_) => std::future::pending().await,
    }
}
