//! The file of a log on a disk that is full for a while, and one that is deleted while workers run.

use crate::support::{Db, Running, number, numbered, start, until};
use anabranch::StoreError;
use anabranch::prelude::*;
use anabranch::{AppendError, RunError};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// It concerns the whole set, busy or idle: nobody writes on where nobody would find it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_deleted_ends_the_run_with_the_reason() {
    let db = Db::sqlite();
    let log = db.log().await;
    let path = PathBuf::from(db.url.strip_prefix("sqlite:").unwrap());
    let set =
        ReplicaSet::new("s").projection(db.recorder("orders")).projection(db.recorder("other"));
    let worker = start(&log, set);
    let cursors = format!("SELECT count(*) FROM {}_cursors WHERE owner IS NOT NULL", db.own);
    until("a worker", async || (number(&log, &cursors).await > 0).then_some(())).await;
    fs::remove_file(&path).unwrap();
    let ended = worker.ended().await.unwrap_err();
    assert!(matches!(ended, RunError::Store(StoreError::Gone { .. })), "{ended}");
    assert!(ended.to_string().contains("was deleted or moved away"), "{ended}");
    assert!(!path.exists(), "no empty file takes its place");
}

/// Who has nothing to read notices it all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_deleted_ends_a_worker_without_slots_too() {
    let db = Db::sqlite();
    let log = db.log().await;
    let path = PathBuf::from(db.url.strip_prefix("sqlite:").unwrap());
    let recorder = db.recorder("orders").partition(Partition::global());
    let join = async || start(&db.log().await, ReplicaSet::new("s").projection(recorder.clone()));
    let workers = [join().await, join().await];
    let two = format!("SELECT count(*) FROM {}_workers", db.own);
    until("two workers", async || (number(&log, &two).await == 2).then_some(())).await;
    fs::remove_file(&path).unwrap();
    for worker in workers {
        let ended = worker.ended().await.unwrap_err();
        assert!(matches!(ended, RunError::Store(StoreError::Gone { .. })), "{ended}");
    }
}

/// Set where the test runs again, on a small disk of its own.
const SMALL_DISK: &str = "ANABRANCH_TEST_SMALL_DISK";
const TEST: &str = "sqlite_files::a_disk_that_is_full_for_a_while_is_waited_for";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_for_a_while_is_waited_for() {
    if let Some(directory) = std::env::var_os(SMALL_DISK) {
        return wait_for_room(Path::new(&directory)).await;
    }
    // A disk that only this process and its children see; nobody need be root for that.
    let directory = tempfile::tempdir().unwrap();
    let mount = r#"mount -t tmpfs -o size=40m none "$0" && exec "$@""#;
    let mut again = Command::new("unshare");
    again.args(["--map-root-user", "--mount", "sh", "-c", mount]).arg(directory.path());
    again.arg(std::env::current_exe().unwrap()).args(["--exact", TEST, "--nocapture"]);
    let output = again.env(SMALL_DISK, directory.path()).output().expect("unshare is there");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Set where the test runs again, with files that may not grow beyond a few megabytes.
const SMALL_FILES: &str = "ANABRANCH_TEST_SMALL_FILES";
const FAILING: &str = "sqlite_files::a_disk_that_fails_for_a_while_is_waited_for";

/// A write that the system refuses, though there is room: SQLite takes it for a disk that fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_for_a_while_is_waited_for() {
    if let Some(directory) = std::env::var_os(SMALL_FILES) {
        return wait_for_disk(Path::new(&directory)).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut again = Command::new("prlimit");
    again.args(["--fsize=4000000:", "sh", "-c", r#"trap "" XFSZ; exec "$@""#, "sh"]);
    again.arg(std::env::current_exe().unwrap()).args(["--exact", FAILING, "--nocapture"]);
    let output = again.env(SMALL_FILES, directory.path()).output().expect("prlimit is there");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

async fn wait_for_disk(directory: &Path) {
    let (log, worker, away) = hoard(directory).await;
    let id = StreamId::new("Order", "1").unwrap();
    log.append(&id, Expected::Any, [numbered(1)]).await.unwrap();
    until_it_waits(&worker, &away, "look at the disk").await;
    let large = (0..6).map(|_| NewEvent::new("Large", "x".repeat(900_000)));
    let refused = log.append(&id, Expected::Any, large).await.unwrap_err();
    assert!(matches!(refused, AppendError::Store(StoreError::Disk { .. })), "{refused:?}");
    let mut heal = Command::new("prlimit");
    heal.args(["--fsize=unlimited:", "--pid", &std::process::id().to_string()]);
    assert!(heal.status().unwrap().success());
    until("what it could not write", async || {
        (number(&log, "SELECT count(*) FROM hoard").await == 1).then_some(())
    })
    .await;
    let last = worker.stop().await;
    assert_eq!((last.consumers[0].parked, last.consumers[0].retrying), (0, 0));
}

/// Writes more for each event than there is room for.
struct Hoarder {
    table: String,
}

impl Projection for Hoarder {
    fn name(&self) -> &str {
        "hoarder"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let sql = format!("INSERT INTO {} VALUES ($1, zeroblob(8000000))", self.table);
        tx.execute(sql, params![event.position()]).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let sql = format!("CREATE TABLE {} (position INTEGER, hoard BLOB)", self.table);
        tx.execute(sql, vec![]).await
    }
}

/// Why a worker waits for its database, if it does.
type Away = Arc<Mutex<Option<String>>>;

/// A worker with a hoarder, on a log in a directory.
async fn hoard(directory: &Path) -> (Log, Running, Away) {
    let url = format!("sqlite:{}", directory.join("log.db").display());
    let log = anabranch::connect(&url).await.unwrap();
    let away = Away::default();
    let seen = Arc::clone(&away);
    let set = ReplicaSet::new("s").projection(Hoarder { table: "hoard".to_owned() });
    let worker = start(
        &log,
        set.on_progress(move |progress| {
            *seen.lock().unwrap() = progress.consumers[0].away.clone();
        }),
    );
    (log, worker, away)
}

async fn until_it_waits(worker: &Running, away: &Away, says: &str) {
    until("a worker that waits", async || {
        assert!(!worker.has_ended());
        let why = away.lock().unwrap().clone()?;
        why.contains(says).then_some(())
    })
    .await;
}

async fn wait_for_room(directory: &Path) {
    let (log, worker, away) = hoard(directory).await;
    let cursors = "SELECT count(*) FROM anabranch_cursors WHERE owner IS NOT NULL";
    until("a worker", async || (number(&log, cursors).await > 0).then_some(())).await;
    let filler = directory.join("filler");
    fill(&filler);
    let id = StreamId::new("Order", "1").unwrap();
    log.append(&id, Expected::Any, [numbered(1)]).await.unwrap();
    until_it_waits(&worker, &away, "free some space").await;
    let large = (0..6).map(|_| NewEvent::new("Large", "x".repeat(900_000)));
    let refused = log.append(&id, Expected::Any, large).await.unwrap_err();
    assert!(matches!(refused, AppendError::Store(StoreError::Full { .. })), "{refused:?}");
    assert_eq!(number(&log, "SELECT count(*) FROM hoard").await, 0);

    fs::remove_file(&filler).unwrap();
    until("what it could not write", async || {
        (number(&log, "SELECT count(*) FROM hoard").await == 1).then_some(())
    })
    .await;
    until("no more waiting", async || away.lock().unwrap().is_none().then_some(())).await;
    log.append(&id, Expected::Exact(1), [numbered(2)]).await.unwrap();
    until("the next", async || {
        (number(&log, "SELECT count(*) FROM hoard").await == 2).then_some(())
    })
    .await;
    let last = worker.stop().await;
    assert_eq!((last.consumers[0].parked, last.consumers[0].retrying), (0, 0));
}

/// Leaves room for what is small.
fn fill(filler: &Path) {
    let mut file = fs::File::create(filler).unwrap();
    let mut size = 0;
    while file.write_all(&[7; 4096]).is_ok() {
        size += 4096;
    }
    file.set_len(size - (1 << 20)).unwrap();
}
