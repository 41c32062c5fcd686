//! A PostgreSQL server of a test's own, on a free port, with the settings that the test needs. It ends with the
//! test, however that ends.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_WAIT: Duration = Duration::from_secs(60);
const PASSWORD: &str = "throwaway";

/// Runs the server until standard input ends, which is a pipe of the test's.
const SUPERVISOR: &str = r#"
    trap '' INT TERM HUP
    "$@" &
    cat > /dev/null
    kill -QUIT $! 2> /dev/null
    wait
"#;

/// A server that is running, or can be started again.
pub struct Server {
    home: PathBuf,
    port: u16,
    settings: Vec<String>,
    supervisor: Option<Child>,
}

impl Server {
    /// A new, empty server with these settings (`name=value`).
    pub fn start(settings: &[&str]) -> Self {
        let mut server = Self::prepare(settings);
        let password = server.home.join("password");
        fs::write(&password, PASSWORD).unwrap();
        own(&password);
        let mut initdb = server.program("initdb");
        initdb.args(["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8"]);
        initdb.args(["--locale=C", "--no-sync", "--pgdata"]).arg(server.data());
        let output = initdb.arg("--pwfile").arg(&password).output().unwrap();
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        server.run_somewhere();
        server
    }

    /// A standby that repeats what a server does: made from its files while it is stopped for a moment.
    pub fn standby_of(primary: &mut Self, settings: &[&str]) -> Self {
        let mut standby = Self::prepare(settings);
        primary.stop();
        copy(&primary.data(), &standby.data());
        let follow = format!(
            "primary_conninfo=host=127.0.0.1 port={} user=postgres password={PASSWORD}",
            primary.port
        );
        standby.settings.push(follow);
        let signal = standby.data().join("standby.signal");
        fs::write(&signal, "").unwrap();
        own(&signal);
        primary.run();
        standby.run_somewhere();
        standby
    }

    fn prepare(settings: &[&str]) -> Self {
        // The user that the server runs as must get there.
        let parent = std::env::temp_dir();
        let home = parent.join(format!("anabranch-server-{}", uuid::Uuid::now_v7().simple()));
        fs::create_dir_all(&home).unwrap();
        own(&home);
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Self { home, port: 0, settings, supervisor: None }
    }

    /// Starts it for the first time, on a port that nobody has.
    fn run_somewhere(&mut self) {
        let began = Instant::now();
        loop {
            // Free now; a process that takes it before the server does is the reason for another one.
            self.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if self.try_run() {
                return;
            }
            assert!(began.elapsed() < START_WAIT, "no port is free for the server");
        }
    }

    /// Starts it again after [`stop`](Self::stop), with what it holds, and where others look for it.
    pub fn run(&mut self) {
        let began = Instant::now();
        // Somebody may have its port for a moment, for a connection to somewhere else.
        while !self.try_run() {
            assert!(began.elapsed() < START_WAIT, "port {} is not free any more", self.port);
        }
    }

    /// Starts it. Says whether it got its port; if not, it is not running.
    fn try_run(&mut self) -> bool {
        let log = self.home.join("server.log");
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", SUPERVISOR, "sh"]).arg(programs().join("postgres"));
        supervisor.arg("-D").arg(self.data());
        let own = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", self.port),
            "unix_socket_directories=".to_owned(),
            "fsync=off".to_owned(),
            "shared_buffers=32MB".to_owned(),
        ];
        for setting in own.iter().chain(&self.settings) {
            supervisor.args(["-c", setting]);
        }
        become_another(supervisor.current_dir(&self.home));
        let output = fs::File::create(&log).unwrap();
        supervisor.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(output);
        self.supervisor = Some(supervisor.spawn().unwrap());
        let started = Instant::now();
        loop {
            let said = fs::read_to_string(&log).unwrap();
            if said.contains("ready to accept") {
                return true;
            }
            if said.contains("could not bind") {
                self.stop();
                return false;
            }
            assert!(started.elapsed() < START_WAIT, "the server did not start:\n{said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as a crash would: sessions are cut.
    pub fn stop(&mut self) {
        if let Some(mut supervisor) = self.supervisor.take() {
            drop(supervisor.stdin.take());
            supervisor.wait().unwrap();
        }
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        assert_eq!(self.ask("SELECT pg_promote()"), "t");
    }

    /// The first column of the first row that a statement answers with, as a superuser.
    pub fn ask(&self, sql: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = self.url();
        let sql = sql.to_owned();
        // A test has a runtime already, and this blocks.
        let ask = move || {
            runtime.block_on(async move {
                use anabranch::postgres::tokio_postgres::{NoTls, SimpleQueryMessage, connect};
                let (client, connection) = connect(&url, NoTls).await.unwrap();
                tokio::spawn(connection);
                let answers = client.simple_query(&sql).await.unwrap();
                let row = answers.iter().find_map(|answer| match answer {
                    SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
                    _ => None,
                });
                row.unwrap_or_default()
            })
        };
        std::thread::spawn(ask).join().unwrap()
    }

    /// Its URL, as a superuser.
    pub fn url(&self) -> String {
        self.url_of("postgres", PASSWORD)
    }

    /// Its URL for another role.
    pub fn url_of(&self, role: &str, password: &str) -> String {
        format!("postgres://{role}:{password}@127.0.0.1:{}/postgres", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(programs().join(name));
        become_another(command.current_dir(&self.home));
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// Where the programs of PostgreSQL are. What is missing is a failure, never a skipped test.
pub fn programs() -> PathBuf {
    provided("ANABRANCH_TEST_POSTGRES_PROGRAMS", 0)
}

/// The connection pooler.
pub fn pooler() -> PathBuf {
    provided("ANABRANCH_TEST_PGBOUNCER", 1)
}

/// What `cargo xtask test` has found, or else `cargo xtask programs` finds, in the line of this number.
pub fn provided(variable: &str, line: usize) -> PathBuf {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return path.into();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut ask = Command::new(env!("CARGO"));
    let output = ask.args(["xtask", "programs"]).current_dir(root).output().unwrap();
    let (said, wrong) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let found = said.lines().nth(line);
    found.unwrap_or_else(|| panic!("these tests need {variable}: {wrong}")).into()
}

/// Who the server runs as: PostgreSQL refuses root.
pub fn account() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").is_ok_and(|me| me.uid() != 0) {
        return None;
    }
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let find = |name: &str| {
        let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody"))
}

/// Gives a file to the user that the server runs as.
pub fn own(path: &Path) {
    if let Some((user, group)) = account() {
        chown(path, Some(user), Some(group)).unwrap();
    }
}

/// Lets a command run as that user.
pub fn become_another(command: &mut Command) {
    if let Some((user, group)) = account() {
        command.uid(user).gid(group);
    }
}

/// Copies a folder with all that is in it, for the same user.
fn copy(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    become_another(copy.arg("-a").arg(from).arg(to));
    assert!(copy.status().unwrap().success(), "cannot copy the files of a server");
    let _ = fs::remove_file(to.join("postmaster.pid"));
}
