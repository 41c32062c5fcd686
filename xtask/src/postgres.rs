//! A throwaway server under `target/`, on a free port of the loopback address.

use crate::ladder::{self, Found, Rung};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_WAIT: Duration = Duration::from_secs(60);
/// A server's folder is named after the process that started it.
const HOME_PREFIX: &str = "anabranch-postgres-";
const PASSWORD: &str = "throwaway";

/// Runs the server under a shell that starts it again whenever it ends, until the shell's standard
/// input ends: then it ends the server and removes its files ($0). That pipe is ours alone, so the
/// server stops with us, however we end: done, failed, Ctrl-C, or killed.
const SUPERVISOR: &str = r#"
    trap '' INT TERM HUP
    while "$@"; [ ! -e "$0/stop" ]; do sleep 0.1; done &
    cat > /dev/null
    touch "$0/stop"
    while kill -0 $! 2> /dev/null; do
        kill -INT $(head -n 1 "$0/data/postmaster.pid" 2> /dev/null) 2> /dev/null
        sleep 0.05
    done
    cd / && rm -rf "$0" 2> /dev/null
"#;

/// A server that tests may use. One that we started is stopped and removed when this is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    ours: Option<(Child, PathBuf)>,
}

impl Server {
    pub(crate) fn provide(rungs: &[Rung]) -> Result<Self> {
        let target = crate::root().join("target/xtask");
        fs::create_dir_all(&target)?;
        sweep(&target)?;
        match ladder::climb(rungs, &target)? {
            Found::Url(url) => Ok(Self { url, ours: None }),
            Found::Programs(bin) => Self::start(&bin, &target),
        }
    }

    fn start(bin: &Path, target: &Path) -> Result<Self> {
        let user = Account::to_run_as()?;
        let home = user.home(target, bin)?;
        let started = Self::start_in(bin, &home, &user);
        if started.is_err() {
            let _ = fs::remove_dir_all(&home);
        }
        started
    }

    fn start_in(bin: &Path, home: &Path, user: &Account) -> Result<Self> {
        let data = home.join("data");
        let password = home.join("password");
        fs::write(&password, PASSWORD)?;
        user.own(&password)?;
        let mut initdb = Command::new(bin.join("initdb"));
        initdb.args(["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8"]);
        initdb.args(["--locale=C", "--no-sync", "--pgdata"]).arg(&data);
        initdb.arg("--pwfile").arg(&password).current_dir(home);
        let output = user.become_in(&mut initdb).output().context("cannot run initdb")?;
        if !output.status.success() {
            bail!("initdb failed: {}", String::from_utf8_lossy(&output.stderr));
        }

        // Free now; whoever takes it before the server does makes the start fail, not the tests.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = home.join("server.log");
        let mut supervisor = Command::new("sh");
        supervisor
            .args(["-c", SUPERVISOR])
            .arg(home)
            .arg(bin.join("postgres"))
            .arg("-D")
            .arg(&data);
        for setting in [
            "listen_addresses=127.0.0.1",
            &format!("port={port}"),
            "unix_socket_directories=",
            "max_connections=300",
        ] {
            supervisor.args(["-c", setting]);
        }
        supervisor.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(fs::File::create(&log)?);
        let child = user.become_in(supervisor.current_dir(home)).spawn()?;
        let url = format!("postgres://postgres:{PASSWORD}@127.0.0.1:{port}/postgres");
        let server = Self { url, ours: Some((child, home.to_owned())) };
        wait_until_ready(&log)?;
        Ok(server)
    }
}

impl Server {
    /// A shell command that ends the server, which its supervisor starts again at once: `{mode}` in it
    /// is `fast` (sessions are ended in good order) or `immediate` (as in a crash). None for a server
    /// that somebody else runs.
    pub(crate) fn restart_command(&self) -> Option<String> {
        let (_, home) = self.ours.as_ref()?;
        let process = home.join("data/postmaster.pid");
        Some(format!(
            "case {{mode}} in fast) signal=INT ;; *) signal=QUIT ;; esac; \
             kill -$signal \"$(head -n 1 '{}')\"",
            process.display()
        ))
    }
}

/// Removes what killed runs left behind: folders named after processes that are gone.
fn sweep(target: &Path) -> Result<()> {
    for entry in fs::read_dir(target)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(HOME_PREFIX);
        let is_gone = |process: &str| {
            Path::new("/proc/self").exists() && !Path::new("/proc").join(process).exists()
        };
        if process.is_some_and(is_gone) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn wait_until_ready(log: &Path) -> Result<()> {
    let started = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains("ready to accept connections") {
            return Ok(());
        }
        if text.contains("FATAL") || started.elapsed() > START_WAIT {
            bail!("the throwaway PostgreSQL did not start:\n{text}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((mut supervisor, home)) = self.ours.take() {
            drop(supervisor.stdin.take());
            let _ = supervisor.wait();
            let _ = fs::remove_dir_all(home);
        }
    }
}

/// Runs a server until Ctrl-C, or until standard input ends.
pub(crate) fn run_until_interrupted(rungs: &[Rung]) -> Result<()> {
    let server = Server::provide(rungs)?;
    println!("{}", server.url);
    eprintln!("export {}='{}'; Ctrl-C stops the server", ladder::URL_VARIABLE, server.url);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Who the server runs as: PostgreSQL refuses root.
struct Account {
    ids: Option<(u32, u32)>,
}

impl Account {
    fn to_run_as() -> Result<Self> {
        if !is_root() {
            return Ok(Self { ids: None });
        }
        let accounts = fs::read_to_string("/etc/passwd")?;
        let find = |name: &str| {
            let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
            let mut fields = line.split(':').skip(2);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        };
        let ids = find("postgres").or_else(|| find("nobody"));
        Ok(Self { ids: Some(ids.context("run as root, and there is no user postgres or nobody")?) })
    }

    /// A directory of its own for the server: under `target/`, unless the other user cannot get
    /// there.
    fn home(&self, target: &Path, bin: &Path) -> Result<PathBuf> {
        let reachable = |path: &Path| {
            path.ancestors().all(|dir| fs::metadata(dir).is_ok_and(|meta| meta.mode() & 0o001 != 0))
        };
        let parent = if self.ids.is_none() || reachable(target) {
            target.to_owned()
        } else {
            let parent = std::env::temp_dir();
            eprintln!("{} is closed to other users; using {}", target.display(), parent.display());
            parent
        };
        if self.ids.is_some() && !reachable(bin) {
            bail!("{} is closed to the user that the server must run as", bin.display());
        }
        let home = parent.join(format!("{HOME_PREFIX}{}", std::process::id()));
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home)?;
        self.own(&home)?;
        Ok(home)
    }

    fn own(&self, path: &Path) -> Result<()> {
        if let Some((user, group)) = self.ids {
            chown(path, Some(user), Some(group))?;
        }
        Ok(())
    }

    fn become_in<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        match self.ids {
            Some((user, group)) => command.uid(user).gid(group),
            None => command,
        }
    }
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
        || std::env::var("USER").is_ok_and(|user| user == "root")
}
