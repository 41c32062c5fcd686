//! Files: projections in SQL beside the same in Rust, and programs beside the same loop by hand.

use super::handlers::{COLUMNS, Upsert};
use super::own_log::OwnLog;
use super::project::timed;
use super::report::{self, Case, Rates};
use super::{Measured, Side};
use crate::throwaway::Throwaway;
use anabranch::ReplicaSet;
use anabranch::backend::database::{End, Statement};
use anabranch_file::Sets;
use anabranch_file::file::{File, Source};
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::process::Command;

const LANES: usize = 2;
/// How many events the loop by hand handles: it commits for each.
const BY_HAND: u64 = 3_000;
const HAND_WRITTEN: &str = include_str!("by_hand.py");

/// Consumers of a file: SQL beside the same projection in Rust, and a Python program beside the same by hand
///
/// All keep the same totals with one upsert an event, on 2 lanes, and what they wrote is checked. By hand means a
/// Python program with its own driver (sqlite3, or psycopg, which is installed into a throwaway environment) and a
/// checkpoint commit for each event. Works in tables of its own and removes them at the end.
#[derive(Args)]
pub(crate) struct BenchRun {
    #[command(flatten)]
    database: Measured,

    /// How many events the log has
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,

    /// How many streams they are spread over
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    streams: u64,

    /// How often each measurement is repeated; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,

    /// Which cases; all if not given
    #[arg(long, value_delimiter = ',')]
    cases: Vec<What>,

    /// The interpreter
    #[arg(long, default_value = "python3")]
    python: PathBuf,

    /// Where the package for Python is
    #[arg(long, default_value = "clients/python", value_name = "DIRECTORY")]
    client: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// A projection in SQL, beside the same in Rust
    Sql,
    /// A program in Python, beside the same loop by hand
    Python,
}

impl BenchRun {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        self.database.run(async |made| Box::pin(self.measure(made)).await).await
    }

    async fn measure(&self, made: &Throwaway) -> anyhow::Result<()> {
        let wants = |what| self.cases.is_empty() || self.cases.contains(&what);
        let directory = tempfile::tempdir()?;
        let interpreter = match wants(What::Python) {
            true => self.interpreter(directory.path()).await?,
            false => PathBuf::new(),
        };
        let own = &mut OwnLog::create(made, "run").await?;
        let at = own.log.at().to_owned();
        self.database.say(|| format!("{at}: {} repeats, the median counts", self.repeats));
        self.database
            .say(|| format!("filling: {} events in {} streams", self.events, self.streams));
        own.fill(self.events, self.streams).await?;
        let warm_up = Upsert::new("warm_up", own.table("warm_up"));
        timed(own, ReplicaSet::new("bench").lanes(LANES).projection(warm_up), self.events).await?;
        if !self.database.json {
            report::print_header("run")?;
        }
        if wants(What::Sql) {
            self.sql(own, directory.path()).await?;
        }
        if wants(What::Python) {
            self.python(own, directory.path(), &interpreter).await?;
        }
        Ok(())
    }

    async fn sql(&self, own: &mut OwnLog, directory: &Path) -> anyhow::Result<()> {
        let mut rates = Rates::default();
        for repeat in 1..=self.repeats {
            for side in self.database.turns(repeat) {
                let rate = match side {
                    Side::Ours => {
                        let name = format!("sql_{repeat}");
                        let table = own.table(&name);
                        let on = format!(
                            "on.OrderPlaced = '''{}'''\nsetup = 'CREATE TABLE {table} {COLUMNS}'\n",
                            super::handlers::upsert(table)
                                .replace("$1", ":stream_id")
                                .replace("$2", ":data.total")
                        );
                        self.of_file(own, directory, "projection", &name, &on).await?
                    }
                    Side::Limit => {
                        let name = format!("rust_{repeat}");
                        let upsert = Upsert::new(name.as_str(), own.table(&name));
                        let set = ReplicaSet::new("bench").lanes(LANES).projection(upsert);
                        timed(own, set, self.events).await?
                    }
                };
                let what = if side == Side::Ours { "in SQL" } else { "in Rust" };
                self.database.say(|| format!("sql: repeat {repeat}, {what} {rate:.0} events/s"));
                match side {
                    Side::Ours => rates.ours.push(rate),
                    Side::Limit => rates.bare.push(rate),
                }
            }
        }
        let words = "1 upsert an event, in SQL in a file; limit: the same projection in Rust";
        Case::new("run", "sql", LANES, words, rates).print(self.database.json)
    }

    async fn python(
        &self,
        own: &mut OwnLog,
        directory: &Path,
        interpreter: &Path,
    ) -> anyhow::Result<()> {
        std::fs::write(directory.join("by_hand.py"), HAND_WRITTEN)?;
        let client = self.client.canonicalize().with_context(|| {
            format!("there is no package in {}; name it by --client", self.client.display())
        })?;
        let mut rates = Rates::default();
        for repeat in 1..=self.repeats {
            for side in self.database.turns(repeat) {
                let (rate, what) = match side {
                    Side::Ours => {
                        let name = format!("python_{repeat}");
                        let table = own.table(&name);
                        let program = program(&super::handlers::upsert(table));
                        std::fs::write(directory.join("program.py"), program)?;
                        let lines = format!(
                            "command = [{:?}, 'program.py']\nenv = {{ PYTHONPATH = {client:?} }}\n\
                             setup = 'CREATE TABLE {table} {COLUMNS}'\n",
                            self.python.display().to_string()
                        );
                        let rate = self.of_file(own, directory, "program", &name, &lines).await?;
                        (rate, "as a program")
                    }
                    Side::Limit => {
                        let table = own.table(format_args!("by_hand_{repeat}"));
                        (self.by_hand(own, directory, interpreter, table).await?, "by hand")
                    }
                };
                self.database.say(|| format!("python: repeat {repeat}, {what} {rate:.0} events/s"));
                match side {
                    Side::Ours => rates.ours.push(rate),
                    Side::Limit => rates.bare.push(rate),
                }
            }
        }
        let words = "1 upsert an event, by a program in Python; limit: the same loop by hand, a commit an event";
        Case::new("run", "python", LANES, words, rates).print(self.database.json)
    }

    /// Runs one consumer of a file over the whole log, and checks what it wrote.
    async fn of_file(
        &self,
        own: &mut OwnLog,
        directory: &Path,
        kind: &str,
        name: &str,
        lines: &str,
    ) -> anyhow::Result<f64> {
        let text = format!(
            "[[replica_set]]\nname = \"bench\"\nlanes = {LANES}\n[[replica_set.{kind}]]\nname = \"{name}\"\n\
             partition = \"entity:Order\"\n{lines}"
        );
        let file = File::parse(&Source::new(directory.join("bench.toml"), text))?;
        let set = Sets::default().of(&file, &own.log)?.swap_remove(0).set;
        let rate = timed(own, set, self.events).await?;
        own.verify(own.table(name), self.events).await?;
        Ok(rate)
    }

    async fn by_hand(
        &self,
        own: &mut OwnLog,
        directory: &Path,
        interpreter: &Path,
        table: &str,
    ) -> anyhow::Result<f64> {
        let tables = [
            format!("CREATE TABLE {table} {COLUMNS}"),
            format!("CREATE TABLE {table}_cursor (position BIGINT NOT NULL)"),
            format!("INSERT INTO {table}_cursor VALUES (0)"),
        ];
        let tables = tables.map(|sql| Statement::new(sql, vec![])).into();
        own.log.database().begin().run(tables, End::Commit).await?;
        let (kind, address) = match own.is_postgres() {
            true => ("postgres", own.url.as_str()),
            false => ("sqlite", own.url.trim_start_matches("sqlite:")),
        };
        let count = BY_HAND.min(self.events);
        let mut command = Command::new(interpreter);
        command.arg(directory.join("by_hand.py")).args([kind, address, own.table("events"), table]);
        let ran = command.arg(count.to_string()).kill_on_drop(true).output().await?;
        let said = String::from_utf8_lossy(&ran.stderr);
        anyhow::ensure!(ran.status.success(), "the loop by hand failed: {said}");
        own.verify(table, count).await?;
        String::from_utf8_lossy(&ran.stdout).trim().parse().context("the loop by hand says no rate")
    }

    /// An interpreter with a driver for the database.
    async fn interpreter(&self, directory: &Path) -> anyhow::Result<PathBuf> {
        if self.database.url.starts_with("sqlite:") {
            return Ok(self.python.clone());
        }
        self.database.say(|| "installing psycopg into a throwaway environment".to_owned());
        let home = directory.join("python");
        let environment = home.display().to_string();
        run(&self.python, &["-m", "venv", &environment]).await?;
        let python = home.join("bin/python");
        let install = ["-m", "pip", "install", "--quiet", "psycopg[binary]"];
        run(&python, &install)
            .await
            .context("install it yourself, and name that interpreter by --python")?;
        Ok(python)
    }
}

async fn run(program: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let ran = Command::new(program).args(arguments).kill_on_drop(true).output().await;
    let ran = ran.with_context(|| format!("cannot start {}", program.display()))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    anyhow::ensure!(ran.status.success(), "{} {arguments:?} failed: {said}", program.display());
    Ok(())
}

/// A program of about ten lines, as a user would write it.
fn program(upsert: &str) -> String {
    format!(
        "from anabranch import run\n\nUPSERT = \"{upsert}\"\n\n\n\
         def handle(event, tx):\n    tx.execute(UPSERT, event.stream_id, event.data[\"total\"])\n\n\nrun(handle)\n"
    )
}
