//! Connections: their pragmas, and the one thread that writes.

use crate::error::{is_busy, store_error};
use anabranch_core::StoreError;
use anabranch_store::{Clock, Durability};
use rusqlite::config::DbConfig;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a connection waits for the write lock of another process.
const BUSY_WAIT: Duration = Duration::from_secs(10);
/// How many statements a connection keeps prepared.
const STATEMENTS: usize = 64;

/// How many pages the write-ahead log may have before they are copied to the database: 32 MiB. A commit of many streams
/// or tags changes a page for each, mostly the same ones again and again, so they are copied once in a while.
const CHECKPOINT_PAGES: i64 = 8192;
/// How large its file may stay after a reader has held that up: twice as much, in bytes.
const MAX_WAL_BYTES: i64 = 64 << 20;
/// How much of the database the writing connection keeps in memory, in KiB.
const WRITER_CACHE_KIB: i64 = 32 << 10;

/// Where the database is, and how its connections are opened.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// `None` for a database in memory.
    pub(crate) path: Option<PathBuf>,
    pub(crate) read_only: bool,
    /// Whether a file that is not there is made.
    pub(crate) create: bool,
    pub(crate) durability: Durability,
    /// For messages.
    pub(crate) at: String,
    pub(crate) clock: Clock,
}

impl Place {
    /// Prepares a connection for writing, and makes sure that the file uses WAL.
    pub(crate) fn prepare_writer(&self, connection: &Connection) -> Result<(), StoreError> {
        let prepare = || -> rusqlite::Result<()> {
            if !self.read_only {
                use_wal(connection)?;
            }
            let synchronous = match self.durability {
                Durability::Full => "FULL",
                Durability::Relaxed => "NORMAL",
            };
            connection.pragma_update(None, "synchronous", synchronous)?;
            // Less than nothing is KiB; else it would be pages.
            connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
            connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
            connection.pragma_update(None, "journal_size_limit", MAX_WAL_BYTES)
        };
        prepare().map_err(|error| store_error(&self.at, error))
    }

    /// Opens a connection, which reads.
    pub(crate) fn open(&self) -> Result<Connection, StoreError> {
        let open = || -> rusqlite::Result<Connection> {
            let access = if self.read_only {
                OpenFlags::SQLITE_OPEN_READ_ONLY
            } else if self.create {
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
            } else {
                OpenFlags::SQLITE_OPEN_READ_WRITE
            };
            let memory = Path::new(":memory:");
            let path = self.path.as_deref().unwrap_or(memory);
            let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let mut connection = Connection::open_with_flags(path, flags)?;
            set_up(&mut connection)?;
            if self.clock.is_by_hand() {
                tell_time(&connection, &self.clock)?;
            }
            Ok(connection)
        };
        open().map_err(|error| store_error(&self.at, error))
    }
}

/// What all connections have. (Versions of the driver differ on whether that changes it.)
fn set_up(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait_for_writer))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Else a column that is not there, in double quotes, is taken for a text: a misspelt condition holds for
    // all rows, or for none.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    Ok(())
}

/// Lets statements ask a clock that is moved by hand.
fn tell_time(connection: &Connection, clock: &Clock) -> rusqlite::Result<()> {
    let clock = clock.clone();
    let now = move |_: &Context<'_>| Ok(clock.now().as_microsecond());
    connection.create_scalar_function("anabranch_now_us", 0, FunctionFlags::SQLITE_UTF8, now)
}

/// Turns on WAL. The first one to do so needs the file alone, and SQLite does not ask the busy handler
/// for that.
fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if is_busy(&error) && wait_for_writer(tries) => tries += 1,
            done => return done,
        }
    }
}

/// Looks again every millisecond: SQLite's own waits grow to 100 ms, which would be most of the time
/// that several busy processes spend.
fn wait_for_writer(tries: i32) -> bool {
    std::thread::sleep(Duration::from_millis(1));
    Duration::from_millis(tries.unsigned_abs().into()) < BUSY_WAIT
}

pub(crate) type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The one thread that writes. It ends when the last handle is gone.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    pub(crate) fn start(mut connection: Connection) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let work = move || queue.into_iter().for_each(|job| job(&mut connection));
        std::thread::Builder::new().name("anabranch-sqlite".to_owned()).spawn(work)?;
        Ok(Self { jobs })
    }

    /// Hands over a job, which runs after those that came before it.
    pub(crate) fn hand_over(&self, job: Job) -> Result<(), StoreError> {
        self.jobs.send(job).map_err(|_| StoreError::Closed)
    }

    /// Runs a job on the writing connection, after those that came before it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move |connection: &mut Connection| {
            let _ = reply.send(job(connection));
        });
        self.hand_over(job)?;
        answer.await.map_err(|_| StoreError::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_are_on_disk_unless_the_user_asks_for_less() {
        let directory = tempfile::tempdir().unwrap();
        for (durability, synchronous) in [(Durability::Full, 2), (Durability::Relaxed, 1)] {
            let path = Some(directory.path().join("log.db"));
            let place = Place {
                path,
                read_only: false,
                create: true,
                durability,
                at: String::new(),
                clock: Clock::machine(),
            };
            let connection = place.open().unwrap();
            place.prepare_writer(&connection).unwrap();
            let pragma = |name: &str| -> String {
                let value = |row: &rusqlite::Row<'_>| {
                    row.get_ref(0)?
                        .as_i64()
                        .map_or_else(|_| row.get(0), |number| Ok(number.to_string()))
                };
                connection.pragma_query_value(None, name, value).unwrap()
            };
            assert_eq!(pragma("synchronous"), synchronous.to_string());
            assert_eq!(pragma("journal_mode"), "wal");
        }
    }
}
