//! A log with a server and workers, each a process that is killed at the end at the latest.

use crate::place::Place;
use crate::process::stdout;
use crate::tab::Tab;
use anabranch::Log;
use anabranch::backend::database::{End, Statement};
use anabranch::prelude::*;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const PATIENCE: Duration = Duration::from_secs(60);

/// A projection that cannot handle an order twice, and a pool whose tasks fail.
pub const FILE: &str = r#"
[[replica_set]]
name = "reports"
lanes = 2

[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
reset = 'DELETE FROM totals'
retry = { attempts = 1, then = "park" }
on.OrderPlaced = 'INSERT INTO totals (id, cents) VALUES (:stream_id, :data.cents)'

[[replica_set.pool]]
name = "mail"
command = ["sh", "-c", '''
echo '{"hello":{"protocol":1}}'; read hello
while read -r task; do
  batch=${task#*:}
  echo "{\"failed\":${batch%%,*},\"error\":\"no such address\",\"again\":\"never\"}"
done
''']
retry = { attempts = 1, then = "park" }
"#;

/// Goes to another page of the document that is open, until that is drawn for the first time: what is seen until then is
/// the page before.
const TURN: &str = r"(page) => new Promise((done) => {
  if (location.hash === page) return done();
  const drawn = () => requestAnimationFrame(() => requestAnimationFrame(done));
  window.addEventListener('hashchange', drawn, { once: true });
  location.hash = page;
})";

pub struct Stage {
    pub place: Place,
    pub log: Log,
    server: Option<Child>,
    at: String,
    runtime: Runtime,
}

/// A process of `anabranch run`.
pub struct Worker {
    child: Child,
    pub id: String,
}

impl Stage {
    pub fn sqlite() -> Self {
        Self::of(Place::sqlite(), FILE)
    }

    pub fn postgres() -> Self {
        Self::of(Place::postgres(), FILE)
    }

    /// On which the death of a worker is found out soon. On a busy machine the living may be taken for dead, too.
    pub fn quick(place: Place) -> Self {
        let quick = "lanes = 2\ntuning = { lease = \"600ms\", heartbeat = \"150ms\" }";
        Self::of(place, &FILE.replace("lanes = 2", quick))
    }

    pub fn of(place: Place, file: &str) -> Self {
        place.write("orders.toml", file);
        let runtime = Runtime::new().unwrap();
        let log = runtime.block_on(place.log());
        let mut stage = Self { place, log, server: None, at: "127.0.0.1:0".to_owned(), runtime };
        stage.start_server();
        stage
    }

    /// A page of the console.
    pub fn page(&self, page: &str) -> String {
        format!("http://{}/{page}", self.at)
    }

    /// On the address that it had before, if it had one.
    pub fn start_server(&mut self) {
        let mut serve = self.place.process(&["serve", "--listen", &self.at]);
        let mut child = serve.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut all = Vec::new();
        let at = said.find_map(|line| {
            let line = line.unwrap();
            let at = line.split_once("the API is served at http://");
            let at = at.and_then(|(_, rest)| Some(rest.split_once(": ")?.0.to_owned()));
            all.push(line);
            at
        });
        // What it says from now on is read, so that it never waits for a reader.
        std::thread::spawn(move || said.for_each(drop));
        self.server = Some(child);
        self.at = at.unwrap_or_else(|| panic!("it does not serve: {all:?}"));
    }

    pub fn kill_server(&mut self) {
        end(&mut self.server.take().unwrap());
    }

    /// Another worker of the file; it is known when this is over.
    pub fn worker(&self) -> Worker {
        let mut run = self.place.process(&["run", "orders.toml"]);
        let child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut worker = Worker { child, id: String::new() };
        let pid = worker.child.id();
        until("the worker has begun", || {
            let listed = stdout(&self.place.command(&["workers", "--json"]));
            let workers = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let known = workers.into_iter().find(|one| one["pid"] == pid);
            worker.id = known.map(|one| one["id"].as_str().unwrap().to_owned()).unwrap_or_default();
            !worker.id.is_empty()
        });
        worker
    }

    /// Its position.
    pub fn append(&self, category: &str, id: &str, event: NewEvent) -> u64 {
        let stream = StreamId::new(category, id).unwrap();
        let appended = self.wait_for(self.log.append(&stream, Expected::Any, [event])).unwrap();
        appended.position().get()
    }

    pub fn order(&self, id: &str, data: &str) -> u64 {
        self.append("Order", id, NewEvent::from_json("OrderPlaced", data))
    }

    /// A statement for its database.
    pub fn sql(&self, sql: &str) {
        let statement = Statement::new(sql.to_owned(), Vec::new());
        let mut session = self.log.database().begin();
        self.wait_for(session.run(vec![statement], End::Commit)).unwrap();
    }

    pub fn wait_for<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(what)
    }

    /// It ends with the stage.
    pub fn spawn(&self, what: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(what);
    }

    /// A command that must succeed.
    pub fn command(&self, arguments: &[&str]) -> String {
        stdout(&self.place.command(arguments))
    }

    /// A line of a shell, which finds the command in its path.
    pub fn shell(&self, line: &str) -> Output {
        let command = std::path::Path::new(env!("CARGO_BIN_EXE_anabranch"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folder = command.parent().unwrap().to_owned();
        let path =
            std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&path)));
        // All that `process` sets, for a shell.
        let own = self.place.process(&[]);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", line]).current_dir(self.place.path("."));
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => drop(shell.env(name, value)),
                None => drop(shell.env_remove(name)),
            }
        }
        shell.env("PATH", path.unwrap()).stdin(Stdio::null()).output().unwrap()
    }

    /// Makes a token with these scopes.
    pub fn token(&self, name: &str, scopes: &str) -> String {
        self.command(&["token", "make", name, "--scope", scopes]).trim().to_owned()
    }

    /// Opens a page of the console, and waits until it is complete.
    pub fn open(&self, tab: &Tab, page: &str) {
        let begins = serde_json::json!(self.page(""));
        if tab.js(&format!("location.href.startsWith({begins})")) == true {
            tab.js(&format!("({TURN})({})", serde_json::json!(page)));
        } else {
            tab.goto(&self.page(page));
        }
        let is_ready = "document.querySelector('[data-test=page]')?.dataset.ready === 'true'";
        tab.wait(&format!("{page} is complete"), is_ready);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            end(server);
        }
    }
}

impl Worker {
    /// As by `kill -9`.
    pub fn kill(mut self) {
        end(&mut self.child);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Waits for a condition.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited a minute until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
