//! Signs of life: a locked file for each worker, beside the database.
//!
//! All workers of a SQLite log run on one machine. The system gives a file's lock back the moment the
//! process that holds it is gone, so its peers need not wait for its lease. A database in memory has one
//! process, which keeps the signs itself: there a worker is dead when what ran it was dropped.

use anabranch_store::Namespace;
use anabranch_store::database::LifeSign;
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often to look at a lock: that is one call of the system, and no query.
const LOOK: Duration = Duration::from_millis(50);

/// Where the signs are.
#[derive(Clone, Debug)]
pub(crate) enum Life {
    /// In files that begin like this.
    Files(PathBuf),
    /// In this process.
    Here(Arc<watch::Sender<HashSet<String>>>),
}

impl Life {
    pub(crate) fn beside(database: Option<&Path>, namespace: &Namespace) -> Self {
        let Some(path) = database else {
            return Self::Here(Arc::default());
        };
        let mut prefix = path.as_os_str().to_owned();
        prefix.push(format!("-{namespace}-worker-"));
        Self::Files(prefix.into())
    }

    pub(crate) fn show(&self, worker: &str) -> std::io::Result<LifeSign> {
        let prefix = match self {
            Self::Files(prefix) => prefix,
            Self::Here(workers) => {
                workers.send_if_modified(|shown| shown.insert(worker.to_owned()));
                return Ok(Box::new(Here { worker: worker.to_owned(), workers: workers.clone() }));
            }
        };
        let path = path(prefix, worker);
        let file = File::create(&path)?;
        file.lock()?;
        Ok(Box::new(Shown { path, _file: file }))
    }

    /// Resolves when nobody shows it any more.
    pub(crate) async fn death_of(self, worker: String) {
        let prefix = match self {
            Self::Files(prefix) => prefix,
            Self::Here(workers) => {
                let gone = |shown: &HashSet<String>| !shown.contains(&worker);
                return drop(workers.subscribe().wait_for(gone).await);
            }
        };
        let path = path(&prefix, &worker);
        loop {
            let is_gone = match File::open(&path) {
                Ok(file) => file.try_lock_shared().is_ok(),
                // Removed by whoever left, or was buried. Any other error says nothing about it.
                Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            };
            if is_gone {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Removes what a dead worker has left behind.
    pub(crate) fn remove(&self, worker: &str) {
        if let Self::Files(prefix) = self {
            let _ = std::fs::remove_file(path(prefix, worker));
        }
    }
}

fn path(prefix: &Path, worker: &str) -> PathBuf {
    let mut path = prefix.as_os_str().to_owned();
    path.push(worker);
    path.into()
}

/// The sign of a worker that lives in this process.
#[derive(Debug)]
struct Here {
    worker: String,
    workers: Arc<watch::Sender<HashSet<String>>>,
}

impl Drop for Here {
    fn drop(&mut self) {
        self.workers.send_if_modified(|shown| shown.remove(&self.worker));
    }
}

/// The locked file of a worker that lives.
#[derive(Debug)]
struct Shown {
    path: PathBuf,
    _file: File,
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(life: &Life, worker: &str) -> PathBuf {
        match life {
            Life::Files(prefix) => path(prefix, worker),
            Life::Here(_) => unreachable!("there are files"),
        }
    }

    #[tokio::test]
    async fn a_death_in_memory_is_seen_and_a_life_is_too() {
        let life = Life::beside(None, &Namespace::default());
        let shown = life.show("w-1").unwrap();
        let mut death = Box::pin(life.clone().death_of("w-1".to_owned()));
        assert!(tokio::time::timeout(LOOK * 4, &mut death).await.is_err(), "it lives");
        drop(shown);
        death.await;
    }

    #[tokio::test]
    async fn a_death_is_seen_and_a_life_is_too() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.db");
        let life = Life::beside(Some(&file), &Namespace::default());
        let shown = life.show("w-1").unwrap();
        let mut death = Box::pin(life.clone().death_of("w-1".to_owned()));
        let alive = tokio::time::timeout(LOOK * 4, &mut death).await;
        assert!(alive.is_err(), "it lives");
        drop(shown);
        death.await;
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
    }

    #[tokio::test]
    async fn a_file_that_a_killed_process_left_is_no_life() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.db");
        let life = Life::beside(Some(&file), &Namespace::default());
        File::create(path_of(&life, "w-1")).unwrap();
        life.clone().death_of("w-1".to_owned()).await;
        life.remove("w-1");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    /// Such as that this process has run out of files: then it must not take what a healthy one owns.
    #[tokio::test]
    async fn an_error_of_our_own_is_no_death_of_a_peer() {
        let directory = tempfile::tempdir().unwrap();
        let life = Life::beside(Some(&directory.path().join("x.db")), &Namespace::default());
        let path = path_of(&life, "w\0");
        assert_ne!(File::open(path).unwrap_err().kind(), std::io::ErrorKind::NotFound);
        let death = life.death_of("w\0".to_owned());
        assert!(tokio::time::timeout(LOOK * 4, death).await.is_err(), "nobody knows");
    }
}
