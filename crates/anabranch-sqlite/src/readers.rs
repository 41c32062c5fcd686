//! Connections that read, each on a thread of its own.
//!
//! A thread that is done with a job takes the next one that waits, so while a log is busy nobody has to be woken for a
//! read. They are started as they are needed, and end with the store.

use crate::connection::{Place, Writer};
use crate::files::Files;
use anabranch_core::StoreError;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Who reads. A database in memory has one connection only, so it reads on the writer's.
#[derive(Clone, Debug)]
pub(crate) enum Readers {
    Pool(Arc<Pool>),
    Writer(Writer),
}

impl Readers {
    pub(crate) fn new(place: &Place, readers: usize, writer: &Writer, files: &Arc<Files>) -> Self {
        if place.path.is_none() {
            return Self::Writer(writer.clone());
        }
        let queue = Queue {
            place: place.clone(),
            files: Arc::clone(files),
            most: readers.max(1),
            state: Mutex::default(),
            more: Condvar::new(),
        };
        Self::Pool(Arc::new(Pool(Arc::new(queue))))
    }

    /// How many connections only read. One that is to be opened again is counted.
    pub(crate) fn open(&self) -> usize {
        match self {
            Self::Writer(_) => 0,
            Self::Pool(pool) => pool.0.state().threads,
        }
    }

    /// Runs a job on a connection that nobody else uses meanwhile.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let pool = match self {
            Self::Writer(writer) => return writer.run(|connection| job(connection)).await,
            Self::Pool(pool) => pool,
        };
        let (reply, answer) = oneshot::channel();
        pool.0.push(Box::new(move |connection| {
            // Who asked may be gone meanwhile.
            if !reply.is_closed() {
                let _ = reply.send(connection.map(job));
            }
        }))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

/// What is done with a connection, or told why there is none.
type Job = Box<dyn FnOnce(Result<&Connection, StoreError>) + Send>;

/// The threads; when it is dropped, they end.
#[derive(Debug)]
pub(crate) struct Pool(Arc<Queue>);

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.more.notify_all();
    }
}

/// What waits for a connection.
struct Queue {
    place: Place,
    files: Arc<Files>,
    /// How many threads there may be.
    most: usize,
    state: Mutex<State>,
    /// Tells an idle thread of a job.
    more: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// How many of them have nothing to do.
    idle: usize,
    is_closed: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(self: &Arc<Self>, job: Job) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.jobs.len() >= state.idle && state.threads < self.most {
            let queue = Arc::clone(self);
            let started = std::thread::Builder::new()
                .name("anabranch-sqlite-read".to_owned())
                .spawn(move || queue.work());
            match started {
                Ok(_) => state.threads += 1,
                // Those that are there do it.
                Err(_) if state.threads > 0 => {}
                Err(error) => {
                    let at = self.place.at.clone();
                    return Err(StoreError::Other { at, source: error.into() });
                }
            }
        }
        state.jobs.push_back(job);
        drop(state);
        self.more.notify_one();
        Ok(())
    }

    /// The next job; none when the store is gone.
    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn work(&self) {
        let mut connection = None;
        while let Some(job) = self.next() {
            connection = self.serve(connection, job);
        }
    }

    /// Does a job; returns the connection if it can be used again.
    fn serve(&self, kept: Option<Connection>, job: Job) -> Option<Connection> {
        let connection = kept.map_or_else(|| self.place.open(), Ok);
        // A file that is gone cannot be opened either; this says why.
        match self.files.check().and(connection) {
            Ok(connection) => {
                let done = catch_unwind(AssertUnwindSafe(|| job(Ok(&connection))));
                done.ok().map(|()| connection)
            }
            Err(error) => {
                job(Err(error));
                None
            }
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("place", &self.place).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_store::contract::soon;
    use anabranch_store::{Clock, Durability};
    use std::sync::mpsc;

    fn readers(directory: &tempfile::TempDir, most: usize) -> Readers {
        let path = Some(directory.path().join("log.db"));
        let (durability, at, clock) = (Durability::Full, String::new(), Clock::machine());
        let place = Place { path, read_only: false, create: true, durability, at, clock };
        let writer = Writer::start(place.open().unwrap()).unwrap();
        let files = Arc::new(Files::of(&place));
        Readers::new(&place, most, &writer, &files)
    }

    fn one(connection: &Connection) -> i64 {
        connection.query_row("SELECT 1", (), |row| row.get(0)).unwrap()
    }

    #[tokio::test]
    async fn a_read_that_panics_takes_nobody_along() {
        let directory = tempfile::tempdir().unwrap();
        let readers = readers(&directory, 1);
        let panics = |_: &Connection| -> i64 { panic!("on purpose") };
        let failed = soon(readers.run(panics)).await;
        assert!(matches!(failed, Err(StoreError::Closed)), "{failed:?}");
        assert_eq!(soon(readers.run(one)).await.unwrap(), 1);
    }

    /// Three reads on two connections: two run at the same time, and the third when one of them is done.
    #[tokio::test]
    async fn as_many_read_at_the_same_time_as_there_may_be() {
        let directory = tempfile::tempdir().unwrap();
        let readers = readers(&directory, 2);
        let ((began, begins), (done, ends)) = (mpsc::channel(), mpsc::channel::<()>());
        let ends = Arc::new(Mutex::new(ends));
        let read = || {
            let (readers, began, ends) = (readers.clone(), began.clone(), Arc::clone(&ends));
            tokio::spawn(async move {
                let job = move |connection: &Connection| {
                    began.send(()).unwrap();
                    ends.lock().unwrap().recv().unwrap();
                    one(connection)
                };
                readers.run(job).await
            })
        };
        let reads = [read(), read(), read()];
        let begins = tokio::task::spawn_blocking(move || {
            begins.recv().unwrap();
            begins.recv().unwrap();
            begins
        });
        let begins = soon(begins).await.unwrap();
        assert!(begins.try_recv().is_err(), "the third has to wait");
        (0..3).for_each(|_| done.send(()).unwrap());
        for read in reads {
            assert_eq!(soon(read).await.unwrap().unwrap(), 1);
        }
        begins.recv().unwrap();
    }
}
