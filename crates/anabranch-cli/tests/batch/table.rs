//! A table of rows, one of effects, and the command that works on them.

use crate::process;
use anabranch::backend::database::{End, Statement};
use anabranch::{Log, Namespace, Options, Row};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

pub struct Rows {
    url: String,
    namespace: String,
    pub directory: tempfile::TempDir,
    log: Log,
}

impl Rows {
    pub async fn sqlite() -> Self {
        Self::new("sqlite:rows.db".to_owned()).await
    }

    pub async fn postgres() -> Self {
        Self::new(process::postgres()).await
    }

    async fn new(url: String) -> Self {
        let namespace = format!("batch_{:016x}", uuid::Uuid::now_v7().as_u64_pair().1);
        let directory = tempfile::tempdir().unwrap();
        let path = |file: &str| format!("sqlite:{}", directory.path().join(file).display());
        let at = url.strip_prefix("sqlite:").map_or_else(|| url.clone(), path);
        let options =
            Options { namespace: Namespace::new(namespace.clone()).unwrap(), ..Options::default() };
        let log = anabranch::connect_with(&at, &options).await.unwrap();
        let rows = Self { url, namespace, directory, log };
        let (source, effects) = (rows.table("source"), rows.table("effects"));
        rows.sql(&format!("CREATE TABLE {source} (id bigint PRIMARY KEY, name text)")).await;
        rows.sql(&format!("CREATE TABLE {effects} (id bigint, name text CHECK (name <> 'bad'))"))
            .await;
        rows
    }

    /// The source anew, with a key that may be there more than once, or not at all.
    pub async fn without_unique_key(&self) {
        let source = self.table("source");
        self.sql(&format!("DROP TABLE {source}")).await;
        self.sql(&format!("CREATE TABLE {source} (id bigint, name text)")).await;
    }

    /// A table of its own.
    pub fn table(&self, name: &str) -> String {
        match self.url.starts_with("sqlite") {
            true => name.to_owned(),
            false => format!("{}.{name}", self.namespace),
        }
    }

    /// Where its tables are, on PostgreSQL.
    pub fn schema(&self) -> &str {
        &self.namespace
    }

    pub fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres")
    }

    pub async fn sql(&self, sql: &str) -> Vec<Row> {
        let run = vec![Statement::query(sql.to_owned(), vec![])];
        let answers = self.log.store().database().begin().run(run, End::Commit).await;
        answers.unwrap().remove(0).rows
    }

    pub async fn number(&self, sql: &str) -> u64 {
        self.sql(sql).await[0].get("n").unwrap()
    }

    /// Adds rows with these keys, each named after its key.
    pub async fn add(&self, keys: impl IntoIterator<Item = i64>) {
        let values: Vec<_> = keys.into_iter().map(|key| format!("({key}, 'n{key}')")).collect();
        let source = self.table("source");
        self.sql(&format!("INSERT INTO {source} (id, name) VALUES {}", values.join(", "))).await;
    }

    /// The command, with the flags that all have in common.
    fn command(&self, what: &str, arguments: &[&str]) -> std::process::Command {
        let source = self.table("source");
        let common = ["--key", "id", "--job", "job", "--source", &source];
        self.command_alone(what, &[&common[..], arguments].concat())
    }

    fn command_alone(&self, what: &str, arguments: &[&str]) -> std::process::Command {
        let mut command = process::anabranch(self.directory.path());
        command
            .args(["batch", what, "--target-schema", &self.namespace])
            .args(arguments)
            .env("ANABRANCH_URL", &self.url)
            .env("ANABRANCH_NAMESPACE", &self.namespace)
            .env("NO_PROXY", "*")
            .stdin(Stdio::null());
        command
    }

    pub fn batch(&self, what: &str, arguments: &[&str]) -> Output {
        self.command(what, arguments).output().unwrap()
    }

    /// The same without a source, a key or a job.
    pub fn batch_alone(&self, what: &str, arguments: &[&str]) -> Output {
        self.command_alone(what, arguments).output().unwrap()
    }

    /// A line as a user types it.
    pub fn shell(&self, line: &str) -> Output {
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_anabranch"));
        let path = std::env::var("PATH").unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", line]).current_dir(self.directory.path()).stdin(Stdio::null());
        command.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
        command.env("ANABRANCH_URL", &self.url).env("ANABRANCH_NAMESPACE", &self.namespace);
        command.output().unwrap()
    }

    /// Copies rows to the effects.
    pub fn copy(&self) -> String {
        format!("INSERT INTO {} (id, name) VALUES (:id, :name)", self.table("effects"))
    }

    /// Begins to run, and says its summary as JSON.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command("run", arguments);
        command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().unwrap()))
    }

    /// Runs to its end, and says its summary.
    pub fn run(&self, arguments: &[&str]) -> Value {
        self.start(arguments).summary()
    }

    pub fn verify(&self, arguments: &[&str]) -> (Value, bool) {
        let output = self.batch("verify", &[&["--json"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (serde_json::from_slice(&output.stdout).expect(&said), output.status.success())
    }

    /// Fails unless every row has had its effect, once.
    pub async fn are_done(&self) {
        let (verified, sound) = self.verify(&["--complete"]);
        assert!(sound, "{verified}");
        assert_eq!(self.differences().await, 0, "{verified}");
    }

    /// Rows without effect, effects without row, and effects that are there twice.
    pub async fn differences(&self) -> u64 {
        let (source, effects) = (self.table("source"), self.table("effects"));
        self.number(&format!(
            "SELECT (SELECT count(*) FROM {source} s WHERE NOT EXISTS (SELECT 1 FROM {effects} e \
             WHERE e.id = s.id AND e.name = s.name)) + (SELECT count(*) FROM {effects} e WHERE NOT \
             EXISTS (SELECT 1 FROM {source} s WHERE e.id = s.id)) + (SELECT count(*) - count(DISTINCT \
             id) FROM {effects}) AS n"
        ))
        .await
    }

    pub async fn effects(&self) -> u64 {
        self.number(&format!("SELECT count(*) AS n FROM {}", self.table("effects"))).await
    }

    pub async fn until_effects(&self, rows: u64) {
        let started = Instant::now();
        while self.effects().await < rows {
            assert!(started.elapsed() < PATIENCE, "there are never {rows} effects");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub async fn drop(self) {
        if !self.url.starts_with("sqlite") {
            self.sql(&format!("DROP SCHEMA {} CASCADE", self.namespace)).await;
        }
    }
}

/// An instance that runs; it does not outlive its test.
pub struct Running(Option<Child>);

impl Running {
    /// As `kill -9` does.
    pub fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub fn terminate(&self) {
        let process = self.0.as_ref().unwrap().id().to_string();
        assert!(
            std::process::Command::new("kill")
                .args(["-TERM", &process])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits until it says something on standard error.
    pub fn until_said(&mut self, text: &str) {
        let mut said = BufReader::new(self.0.as_mut().unwrap().stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains(text)), "it never says {text}");
    }

    pub fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }

    pub fn summary(self) -> Value {
        let output = self.output();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let summary: Value = serde_json::from_slice(&output.stdout).expect(&said);
        // Rows that failed are no success for a script.
        let code = i32::from(summary["failed"] != 0 || summary["failed_before"] != 0);
        assert_eq!(output.status.code(), Some(code), "{summary} {said}");
        summary
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
