//! Whether the files of a log are still those that were opened.
//!
//! To delete, move or replace a file that is open changes a name only: its connections go on with the
//! file that nobody can find any more, and what they write is lost when the last of them closes. So the names
//! are compared with what was opened before each use, and after each commit, before it is acknowledged. The
//! write-ahead log and its index are part of it: for as long as a connection is open, SQLite keeps them.

use crate::connection::Place;
use anabranch_core::StoreError;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The files of a log, as they were when it was opened; none for one in memory.
#[derive(Debug, Default)]
pub(crate) struct Files {
    at: String,
    opened: Vec<(PathBuf, Identity)>,
}

/// What a file is, whatever its name.
type Identity = (u64, u64);

impl Files {
    /// Looks at the files of a log that was just opened.
    pub(crate) fn of(place: &Place) -> Self {
        let Some(path) = &place.path else { return Self::default() };
        // The name may lead to another one, and SQLite keeps its own files beside that. Where this program
        // is may change later.
        let named = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let real = path.canonicalize().unwrap_or_else(|_| named.clone());
        let files = [named, beside(&real, "-wal"), beside(&real, "-shm")];
        let opened = files.into_iter().filter_map(|path| {
            let found = std::fs::metadata(&path).ok()?;
            Some((path, identity(&found)))
        });
        Self { at: place.at.clone(), opened: opened.collect() }
    }

    /// What has happened to one of them, if something has. Looking opens nothing: closing a file would give
    /// back the locks that SQLite has on it.
    pub(crate) fn gone(&self) -> Option<Gone> {
        self.opened.iter().find_map(|(path, opened)| {
            let what = match std::fs::metadata(path) {
                Ok(found) if identity(&found) == *opened => return None,
                Ok(_) => "was replaced by another file",
                Err(error) if error.kind() == ErrorKind::NotFound => "was deleted or moved away",
                // Nobody can tell.
                Err(_) => return None,
            };
            let what = format!("{} {what}", path.display());
            Some(Gone { at: self.at.clone(), what })
        })
    }

    /// The same as an error.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.gone().map_or(Ok(()), |gone| Err(gone.into()))
    }
}

/// What has happened to a file, for everybody who has to know.
#[derive(Clone, Debug)]
pub(crate) struct Gone {
    at: String,
    what: String,
}

impl From<Gone> for StoreError {
    fn from(Gone { at, what }: Gone) -> Self {
        Self::Gone { at, what }
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(unix)]
fn identity(found: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (found.dev(), found.ino())
}

/// Elsewhere a file that is open cannot be deleted or replaced.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {
    (0, 0)
}
