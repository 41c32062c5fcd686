//! Which servers are trusted: real ones with TLS and without, of known authorities and of others.
//!
//! `0.0.0.0` stands for a host that is not local: it is none of the addresses that are, and leads to this machine all
//! the same.

use crate::fleet::Fleet;
use crate::server::{Server, own};
use crate::support::Db;
use anabranch::StoreError;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/certificates");

/// A host that is not local, with the name that the certificates are for.
const REMOTE: &str = "db.test";
const AT: &str = "hostaddr=0.0.0.0";

/// Files that a server may read. They go with the test.
struct Files(PathBuf);

impl Files {
    /// A certificate and its key.
    fn of(certificate: &str) -> Self {
        let name = format!("anabranch-tls-{}", uuid::Uuid::now_v7().simple());
        let files = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&files.0).unwrap();
        own(&files.0);
        files.put(certificate, "server.pem");
        files.put("server.key", "server.key");
        files
    }

    fn put(&self, from: &str, to: &str) {
        let to = self.0.join(to);
        fs::copy(Path::new(CERTIFICATES).join(from), &to).unwrap();
        // The server refuses a key that others can read.
        fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
        own(&to);
    }

    /// Gives the server another certificate, and cuts all sessions.
    fn renew(&self, certificate: &str, server: &Server) {
        self.put(certificate, "server.pem");
        server.ask("SELECT pg_reload_conf()");
        server.ask(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
        );
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server with this certificate.
fn encrypted(certificate: &str) -> (Server, Files) {
    let files = Files::of(certificate);
    let file = |option: &str, name: &str| format!("{option}={}", files.0.join(name).display());
    let (certificate, key) =
        (file("ssl_cert_file", "server.pem"), file("ssl_key_file", "server.key"));
    (Server::start(&["ssl=on", &certificate, &key, "log_connections=on"]), files)
}

fn url(server: &Server, host: &str, options: &str) -> String {
    format!("{}?{options}", server.url().replace("127.0.0.1", host))
}

fn root(name: &str) -> String {
    format!("sslrootcert={CERTIFICATES}/{name}.pem")
}

/// Connects. Says whether all sessions are encrypted, or why there is none.
async fn connect(server: &Server, url: &str) -> Result<bool, StoreError> {
    let log = || fs::read_to_string(server.home().join("server.log")).unwrap();
    let before = log().len();
    let connected = anabranch::connect(url).await;
    let said = log();
    let mut sessions = said[before..].lines().filter(|line| line.contains("connection authorized"));
    match connected {
        Ok(_) => {
            let first = sessions.next().expect("a session").contains("SSL enabled");
            assert!(sessions.all(|line| line.contains("SSL enabled") == first), "{said}");
            Ok(first)
        }
        Err(error) => {
            assert_eq!(sessions.count(), 0, "a session with {url}: {said}");
            Err(error)
        }
    }
}

async fn assert_refused(server: &Server, url: &str, expected: &str) {
    let error = connect(server, url).await.expect_err(url);
    let said = error.to_string();
    assert!(matches!(error, StoreError::NotTrusted { .. }), "{url}: {error:?}");
    for part in [expected, "sslmode", "sslrootcert", "docs/postgresql-connections.md"] {
        assert!(said.contains(part), "{url}: {said}");
    }
    assert!(!format!("{error:?} {said}").contains("throwaway"), "{said}");
}

#[tokio::test]
async fn a_server_that_is_not_local_must_prove_who_it_is() {
    let (server, _files) = encrypted("server.pem");
    let host = format!("the certificate of db.test:{} is of no authority", server.port());
    assert_refused(&server, &url(&server, REMOTE, AT), &host).await;
    assert_refused(&server, &url(&server, "0.0.0.0", ""), "without sslmode in the URL").await;
    for (options, is_encrypted) in [
        (root("authority"), true),
        ("sslmode=prefer".to_owned(), true),
        ("sslmode=disable".to_owned(), false),
    ] {
        let url = url(&server, REMOTE, &format!("{AT}&{options}"));
        assert_eq!(connect(&server, &url).await.unwrap(), is_encrypted, "{options}");
    }
    for local in ["127.0.0.1", "localhost"] {
        assert!(connect(&server, &url(&server, local, "")).await.unwrap(), "{local}");
    }
}

/// What is not of a log is encrypted like it, and verified like it.
#[tokio::test]
async fn a_session_of_the_driver_is_encrypted_as_a_log_is() {
    use anabranch::postgres::driver_session;
    let (server, _files) = encrypted("server.pem");
    for (options, expected) in [(root("authority"), true), ("sslmode=disable".to_owned(), false)] {
        let url = url(&server, REMOTE, &format!("{AT}&{options}"));
        let client = driver_session(&url).await.unwrap();
        let ssl = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        assert_eq!(client.query_one(ssl, &[]).await.unwrap().get::<_, bool>(0), expected);
    }
    let error = driver_session(&url(&server, REMOTE, AT)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotTrusted { .. }), "{error}");
}

#[tokio::test]
async fn a_server_without_encryption_is_used_only_where_that_is_admitted() {
    let server = Server::start(&["log_connections=on"]);
    let host = format!("db.test:{} has no TLS", server.port());
    assert_refused(&server, &url(&server, REMOTE, AT), &host).await;
    for mode in ["sslmode=require", "sslmode=verify-full", &root("authority")] {
        assert_refused(&server, &url(&server, "127.0.0.1", mode), "write sslmode=disable").await;
    }
    for (host, options) in [
        (REMOTE, "hostaddr=0.0.0.0&sslmode=disable"),
        (REMOTE, "hostaddr=0.0.0.0&sslmode=prefer"),
        ("127.0.0.1", ""),
    ] {
        let url = url(&server, host, options);
        assert!(!connect(&server, &url).await.unwrap(), "{url}");
    }
}

#[tokio::test]
async fn each_mode_verifies_what_it_says() {
    let (server, _files) = encrypted("server.pem");
    let (known, other) = (root("authority"), root("stranger"));
    let misnamed = "hostaddr=127.0.0.1";
    for (host, options) in [
        ("127.0.0.1", format!("sslmode=verify-full&{known}")),
        (REMOTE, format!("{misnamed}&sslmode=require&{known}")),
        ("other.test", format!("{misnamed}&sslmode=verify-ca&{known}")),
    ] {
        assert!(connect(&server, &url(&server, host, &options)).await.unwrap(), "{host} {options}");
    }
    for (host, options, said) in [
        (
            "127.0.0.1",
            format!("sslmode=verify-full&{other}"),
            "stranger.pem names, and no other is",
        ),
        ("127.0.0.1", format!("sslmode=verify-ca&{other}"), "stranger.pem names, and no other is"),
        ("127.0.0.1", "sslmode=require".to_owned(), "this machine knows, and no other is"),
        ("127.0.0.1", "sslrootcert=system".to_owned(), "this machine knows, and no other is"),
        (
            "other.test",
            format!("{misnamed}&{known}"),
            "is for db.test, 127.0.0.1, not for this host",
        ),
        ("other.test", format!("{misnamed}&sslmode=require&{known}"), "is for db.test, 127.0.0.1"),
        ("127.0.0.1", root("nothing"), "cannot be read: No such file"),
        ("127.0.0.1", format!("sslrootcert={CERTIFICATES}/server.key"), "holds no certificate"),
    ] {
        assert_refused(&server, &url(&server, host, &options), said).await;
    }
}

/// A server's own certificate is trusted by name, as `psql` does, though it was made as an authority.
#[tokio::test]
async fn a_certificate_that_is_self_signed_can_be_named() {
    let (server, _files) = encrypted("self_signed.pem");
    let own = root("self_signed");
    let ca = url(&server, REMOTE, &format!("{AT}&sslmode=verify-ca&{own}"));
    assert!(connect(&server, &ca).await.unwrap());
    assert_refused(&server, &url(&server, REMOTE, &format!("{AT}&{own}")), "names no host").await;
    let other = url(&server, REMOTE, &format!("{AT}&sslmode=verify-ca&{}", root("authority")));
    assert_refused(&server, &other, "the certificate of db.test").await;
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_refused_whoever_made_it() {
    for (certificate, authority) in
        [("expired", "authority"), ("expired_self_signed", "expired_self_signed")]
    {
        let (server, _files) = encrypted(&format!("{certificate}.pem"));
        for mode in ["verify-ca", "verify-full"] {
            let options = format!("sslmode={mode}&{}", root(authority));
            assert_refused(&server, &url(&server, "127.0.0.1", &options), "has expired").await;
        }
        // Nobody looks at it.
        assert!(connect(&server, &url(&server, "127.0.0.1", "sslmode=prefer")).await.unwrap());
    }
}

#[tokio::test]
async fn each_of_several_hosts_is_verified_or_not_as_it_is_local_or_not() {
    let (remote, _files) = encrypted("server.pem");
    let local = Server::start(&["log_connections=on"]);
    let of = |hosts: [(&str, u16, &str); 2]| {
        let names = hosts.map(|(name, port, _)| format!("{name}:{port}")).join(",");
        let addresses = hosts.map(|(_, _, address)| address).join(",");
        format!("postgres://postgres:throwaway@{names}/postgres?hostaddr={addresses}")
    };
    let far = (REMOTE, remote.port(), "0.0.0.0");
    let near = ("localhost", local.port(), "127.0.0.1");
    // One that is not trusted is passed over while there is another.
    assert!(!connect(&local, &of([far, near])).await.unwrap());
    let gone = ("localhost", 1, "127.0.0.1");
    for hosts in [[far, gone], [gone, far]] {
        assert_refused(&remote, &of(hosts), "the certificate of db.test").await;
    }
    let both = format!("{}&{}", of([far, gone]), root("authority"));
    assert!(connect(&remote, &both).await.unwrap());
}

/// Whoever renews it is elsewhere, and need not know who waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_expires_under_workers_is_waited_for() {
    let (server, files) = encrypted("server.pem");
    let trusting = url(&server, "127.0.0.1", &format!("sslmode=verify-full&{}", root("authority")));
    let mut fleet = Fleet::start(Db::at(trusting.clone()), [&trusting, &trusting], &trusting).await;
    files.renew("expired.pem", &server);
    fleet.until_refused("has expired", &server.url()).await;
    files.renew("server.pem", &server);
    fleet.end(&server.url()).await;
}

/// The authorities of the machine are those in a file that the environment names. A process has one environment,
/// so each case has one of its own.
#[tokio::test]
async fn authorities_of_the_machine_are_trusted() {
    const URL: &str = "ANABRANCH_TEST_TRUSTING";
    if let Ok(url) = std::env::var(URL) {
        let connected = anabranch::connect(&url).await.map(drop);
        return connected.unwrap_or_else(|error| panic!("{error}"));
    }
    let (server, _files) = encrypted("server.pem");
    let empty = format!("{CERTIFICATES}/README.md");
    for (file, options, expected) in [
        (format!("{CERTIFICATES}/authority.pem"), AT.to_owned(), None),
        (format!("{CERTIFICATES}/authority.pem"), format!("{AT}&sslrootcert=system"), None),
        (format!("{CERTIFICATES}/stranger.pem"), AT.to_owned(), Some("this machine knows")),
        (empty.clone(), AT.to_owned(), Some("this machine has no certificates of authorities")),
        (empty, format!("{AT}&{}", root("authority")), None),
    ] {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        process.args(["encryption::authorities_of_the_machine_are_trusted", "--exact"]);
        process.env(URL, url(&server, REMOTE, &options)).env("SSL_CERT_FILE", &file);
        let output = process.env_remove("SSL_CERT_DIR").output().unwrap();
        let said = format!("{output:?}");
        assert_eq!(output.status.success(), expected.is_none(), "{file} {options}: {said}");
        assert!(said.contains(expected.unwrap_or("1 passed")), "{file} {options}: {said}");
    }
}
