//! A directory with a file that describes replica sets, and a database of its own.

use crate::process;
use anabranch::backend::database::{End, Statement};
use anabranch::prelude::*;
use anabranch::{Namespace, Options, Row};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The package for programs in Python.
pub fn python_client() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python").canonicalize().unwrap()
}

pub fn python() -> String {
    std::env::var("ANABRANCH_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Where a file is run.
pub struct Place {
    url: String,
    namespace: String,
    directory: TempDir,
}

impl Place {
    pub fn sqlite() -> Self {
        Self::new("anabranch".to_owned(), |directory| {
            format!("sqlite:{}", directory.join("orders.db").display())
        })
    }

    /// Tables of the file are in the schema of the log.
    pub fn postgres() -> Self {
        let namespace = format!("files_{:016x}", uuid::Uuid::now_v7().as_u64_pair().1);
        let url = process::postgres();
        let sign = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{sign}options=-csearch_path%3D{namespace}");
        Self::new(namespace, |_| url)
    }

    fn new(namespace: String, url: impl FnOnce(&Path) -> String) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { url: url(directory.path()), namespace, directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The command, to be started in the directory.
    pub fn process(&self, arguments: &[&str]) -> Command {
        let mut command = process::anabranch(self.directory.path());
        for variable in ["PARTITION_KEY", "PARTITION_INDEX", "TOTAL_PARTITIONS"] {
            command.env_remove(variable);
        }
        command.env("ANABRANCH_URL", &self.url).env("ANABRANCH_NAMESPACE", &self.namespace);
        command.env("CRM_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        command.args(arguments).stdin(Stdio::null());
        command
    }

    pub fn command(&self, arguments: &[&str]) -> Output {
        self.process(arguments).output().unwrap()
    }

    pub async fn log(&self) -> Log {
        let namespace = Namespace::new(self.namespace.clone()).unwrap();
        let options = Options { namespace, ..Options::default() };
        anabranch::connect_with(&self.url, &options).await.unwrap()
    }

    /// Appends an order.
    pub async fn order(&self, log: &Log, id: &str, data: &str) {
        let (stream, event) =
            (StreamId::new("Order", id).unwrap(), NewEvent::from_json("OrderPlaced", data));
        log.append(&stream, Expected::Any, [event]).await.unwrap();
    }
}

pub async fn rows(log: &Log, sql: &str) -> Vec<Row> {
    let query = Statement::query(sql.to_owned(), vec![]);
    let answers = log.database().begin().run(vec![query], End::Commit).await.unwrap();
    answers.into_iter().next().unwrap().rows
}

/// The first column of the first row.
pub async fn number(log: &Log, sql: &str) -> i64 {
    rows(log, sql).await[0].get(0).unwrap()
}
