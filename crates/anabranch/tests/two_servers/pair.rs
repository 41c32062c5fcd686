//! A database for the events and another for all else.

use crate::server::Server;
use crate::support::*;
use anabranch::backend::database::{End, Statement};
use anabranch::prelude::*;
use std::path::PathBuf;

/// Both databases of one case.
pub struct Pair {
    pub events: Db,
    pub home: Db,
    /// The servers of the events and of the home, where they have one: never the same.
    pub servers: [Option<Server>; 2],
}

fn on_server() -> (Db, Option<Server>) {
    let server = Server::start(&[]);
    (Db::at(server.url()), Some(server))
}

impl Pair {
    pub fn sqlite() -> Self {
        Self { events: Db::sqlite(), home: Db::sqlite(), servers: [None, None] }
    }

    pub fn postgres() -> Self {
        Self { events: Db::postgres(), home: Db::postgres(), servers: [None, None] }
    }

    pub fn sqlite_and_postgres() -> Self {
        Self { home: Db::postgres(), ..Self::sqlite() }
    }

    pub fn postgres_and_sqlite() -> Self {
        Self { events: Db::postgres(), ..Self::sqlite() }
    }

    /// The same with servers of its own, one for each side: they can be stopped. (On the server of all tests the
    /// two are apart too, as two logs of one database are.)
    pub fn on_servers(mut self) -> Self {
        for (db, server) in [&mut self.events, &mut self.home].into_iter().zip(&mut self.servers) {
            if db.url.starts_with("postgres:") {
                (*db, *server) = on_server();
            }
        }
        self
    }

    /// A handle as another process would have.
    pub async fn log(&self) -> Log {
        self.events.log().await.with_database(&self.home.log().await).await.unwrap()
    }

    pub fn recorder(&self) -> Recorder {
        self.home.recorder("orders")
    }

    pub fn set(&self) -> ReplicaSet {
        ReplicaSet::new("s").projection(self.recorder()).lanes(2)
    }

    /// What the tables of the recorder must say.
    pub async fn is_whole(&self, log: &Log, streams: i64, each: i64) {
        let whole = Proof { handled: streams * each, doubled: 0, keys: streams, wrong: 0 };
        assert_eq!(proof(log, &self.recorder().table).await, whole);
    }

    /// The file of the events.
    pub fn file(&self) -> PathBuf {
        self.events.url.strip_prefix("sqlite:").unwrap().into()
    }
}

/// Runs each case with each pair of databases.
#[macro_export]
macro_rules! on_all_pairs {
    ($($case:ident),* $(,)?) => {
        $crate::on_all_pairs! { @pairs [sqlite, postgres, sqlite_and_postgres, postgres_and_sqlite] ($($case)*) }
    };
    (@pairs [$($pair:ident),*] $cases:tt) => {
        $($crate::on_all_pairs! { @pair $pair $cases })*
    };
    (@pair $pair:ident ($($case:ident)*)) => {
        mod $pair {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case($crate::pair::Pair::$pair()).await; })*
        }
    };
}

/// Runs statements in the database of the events.
pub async fn in_log(log: &Log, statements: &[String]) {
    let statements = statements.iter().map(|sql| Statement::new(sql.clone(), vec![])).collect();
    log.store().database().begin().run(statements, End::Commit).await.unwrap();
}

/// The state of a log before something happened to it. On PostgreSQL a table beside it, and in SQLite too: for a
/// restored file the handles would have to be opened anew, which `wound_back` does in a case of its own.
pub struct Backup {
    events: String,
    head: Position,
}

impl Backup {
    pub async fn of(log: &Log) -> Self {
        let database = log.store().database();
        Self { events: database.dialect().table("events"), head: log.head().await.unwrap() }
    }

    /// Winds the log back to it, as a restored backup or a standby that was behind does: the positions that are
    /// lost are given again.
    pub async fn restore(&self, log: &Log) {
        let (database, head) = (log.store().database(), self.head);
        let dialect = database.dialect();
        let (events, tags) = (&self.events, dialect.table("event_tags"));
        let mut sql = vec![
            format!("DELETE FROM {tags} WHERE position > {head}"),
            format!("DELETE FROM {events} WHERE position > {head}"),
        ];
        sql.push(match dialect.name() {
            "postgres" => {
                let sequence = format!("pg_get_serial_sequence('{events}', 'position')");
                format!("SELECT setval({sequence}, {head})")
            }
            _ => {
                let settings = dialect.table("settings");
                format!("UPDATE {settings} SET value = '0' WHERE name = 'deleted_up_to'")
            }
        });
        in_log(log, &sql).await;
    }

    /// Winds the log back to it and fills it again, in one step: nobody sees it between the two.
    pub async fn replace_tail(&self, log: &Log) {
        let (database, head, events) = (log.store().database(), self.head, &self.events);
        let other = match database.dialect().name() {
            "postgres" => "gen_random_uuid()",
            _ => "randomblob(16)",
        };
        in_log(log, &[format!("UPDATE {events} SET id = {other} WHERE position > {head}")]).await;
    }
}
