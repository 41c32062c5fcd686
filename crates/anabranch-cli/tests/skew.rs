//! Clocks that are hours apart: workers go by the database's, so it does not matter.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "other tests need more of it")]
mod process;

use anabranch::sqlite::rusqlite::Connection;
use process::{anabranch, postgres};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// Shifts the clock on the wall by -11.5 to 12.5 hours, for each process by another number of them.
/// The monotonic clock stays as it is.
const SHIM: &str = r"
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t shift(void) { return (getpid() * 7 % 25 - 12) * 3600 + 1800; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
        now->tv_sec += shift();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int failed = syscall(SYS_gettimeofday, now, zone);
    if (!failed && now)
        now->tv_sec += shift();
    return failed;
}

time_t time(time_t *now) {
    struct timespec shifted;
    clock_gettime(CLOCK_REALTIME, &shifted);
    if (now)
        *now = shifted.tv_sec;
    return shifted.tv_sec;
}
";

/// The same as in the shim.
fn shift(process: i64) -> i64 {
    (process * 7 % 25 - 12) * 3600 + 1800
}

fn build_shim(directory: &Path) -> PathBuf {
    let (source, shim) = (directory.join("skew.c"), directory.join("skew.so"));
    std::fs::write(&source, SHIM).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).arg(&source);
    let built = cc.stdin(Stdio::null()).output().expect("this test needs a C compiler: cc");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    shim
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// What time it is under the shim, as processes see it: each sees the one that it should.
fn assert_clocks_are_apart(shim: &Path) {
    let mut seen = Vec::new();
    for _ in 0..4 {
        let mut date = Command::new("sh");
        date.args(["-c", "echo $$; exec date +%s"]).env("LD_PRELOAD", shim);
        let said = String::from_utf8(date.output().unwrap().stdout).unwrap();
        let numbers: Vec<i64> = said.lines().map(|line| line.parse().unwrap()).collect();
        let [process, time] = numbers[..] else { panic!("{said}") };
        let hours_apart = time - now();
        assert!(hours_apart.abs_diff(shift(process)) < 60, "{hours_apart} s in {process}");
        seen.push(shift(process));
    }
    seen.dedup();
    assert!(seen.len() > 1, "all have the same: {seen:?}");
}

/// What time it is for this program: SQLite has no clock but that of whoever writes.
fn assert_the_program_is_under_it(directory: &Path, shim: &Path) {
    let mut append = anabranch(directory);
    append.args(["append", "--url", "sqlite:clock.db", "Order:1", "Placed", "{}"]);
    append.env("LD_PRELOAD", shim).stdin(Stdio::null()).stdout(Stdio::null());
    let mut appended = append.spawn().unwrap();
    let process = i64::from(appended.id());
    assert!(appended.wait().unwrap().success());
    let connection = Connection::open(directory.join("clock.db")).unwrap();
    let recorded = "SELECT recorded_us / 1000000 FROM anabranch_events";
    let recorded: i64 = connection.query_row(recorded, (), |row| row.get(0)).unwrap();
    let apart = recorded - now();
    assert!(apart.abs_diff(shift(process)) < 60, "{apart} s in {process}");
}

/// Each worker lives under another clock, and so does whoever hits them: who is gone is taken over
/// from, who is not keeps his lease.
#[test]
fn workers_whose_clocks_are_hours_apart_neither_die_of_it_nor_live_on() {
    let here = tempfile::tempdir().unwrap();
    let shim = build_shim(here.path());
    assert_clocks_are_apart(&shim);
    assert_the_program_is_under_it(here.path(), &shim);
    let mut chaos = anabranch(here.path());
    // A lease that a busy machine does not stall for.
    chaos.args(["chaos", "--json", "--lease", "3", "--workers", "3", "--rate", "1000"]);
    chaos.args(["--seconds", "10", "--seed", "7", "--url", &postgres()]);
    let output = chaos.env("LD_PRELOAD", &shim).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", String::from_utf8_lossy(&output.stdout));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    for none in ["lost", "doubled", "out_of_order", "unharmed"] {
        assert_eq!(outcome[none], 0, "{none}: {outcome}\n{said}");
    }
    let count = |of: &Value| of.as_u64().unwrap();
    let (kills, stops) = (count(&outcome["faults"]["kill"]), count(&outcome["faults"]["stop"]));
    assert!(kills > 0 && stops > 0, "{outcome}");
    // And everything was handled all the same: they were taken over from.
    assert!(count(&outcome["died"]) >= kills + stops, "{outcome}\n{said}");
}
