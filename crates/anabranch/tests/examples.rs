//! The examples, run as a user runs them, on both databases.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch::{FixedPartition, HashRule};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// How long a case waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Cargo builds examples with the tests, next to the folder that holds the test itself.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let profile: PathBuf = test.parent().unwrap().parent().unwrap().into();
    Command::new(profile.join("examples").join(name))
}

fn postgres() -> String {
    std::env::var("ANABRANCH_TEST_POSTGRES")
        .expect("these tests need PostgreSQL: run `cargo xtask test`")
}

/// A database for one case, and a folder to run in.
struct Place {
    url: Option<String>,
    namespace: String,
    directory: tempfile::TempDir,
}

impl Place {
    /// The file that the example chooses itself, and a schema of its own on PostgreSQL.
    fn both() -> [Self; 2] {
        let place = |url: Option<String>| {
            let namespace = format!("ex_{:016x}", uuid::Uuid::now_v7().as_u64_pair().1);
            let own_tables = |url: String| {
                let sign = if url.contains('?') { '&' } else { '?' };
                format!("{url}{sign}options=-csearch_path%3D{namespace}")
            };
            let url = url.map(own_tables);
            Self { url, namespace, directory: tempfile::tempdir().unwrap() }
        };
        [place(None), place(Some(postgres()))]
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = example(name);
        command.current_dir(self.directory.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        let urls = ["ANABRANCH_URL", "DATABASE_URL"];
        for variable in
            urls.into_iter().chain(["PARTITION_KEY", "PARTITION_INDEX", "TOTAL_PARTITIONS"])
        {
            command.env_remove(variable);
        }
        command.env("ANABRANCH_NAMESPACE", &self.namespace);
        command.args(&self.url).args(arguments);
        command
    }

    fn run(&self, name: &str, arguments: &[&str]) -> String {
        text_of(self.command(name, arguments).spawn().unwrap())
    }

    /// A process for a fixed partition.
    fn partition(&self, index: u16, total: u16, arguments: &[&str]) -> Child {
        let mut command = self.command("partitioned_projection", arguments);
        command.env("PARTITION_KEY", index.to_string()).env("TOTAL_PARTITIONS", total.to_string());
        command.spawn().unwrap()
    }

    /// Runs all partitions at once until they have caught up. Returns the positions that were
    /// handled, each in the right process.
    fn all_partitions(&self, total: u16) -> BTreeSet<u64> {
        let start = |index| self.partition(index, total, &["--catch-up", "--verbose"]);
        let running: Vec<_> = (0..total).map(start).collect();
        let mut positions = BTreeSet::new();
        for (index, child) in running.into_iter().enumerate() {
            let text = text_of(child);
            let label = format!("partition {index} of {total}: ");
            let events = text.lines().filter(|line| line.contains(": event "));
            let mut count = 0;
            for line in events {
                let line = line.strip_prefix(&label).unwrap_or_else(|| panic!("{text}"));
                let (stream, position) = line.rsplit_once(" at position ").unwrap();
                let (_, stream) = stream.rsplit_once(":").unwrap();
                let (id, _) = stream.split_once('@').unwrap();
                let partition = FixedPartition::of_key(HashRule::Fnv1a, id, total).unwrap();
                assert_eq!(usize::from(partition.index()), index, "{line}");
                assert!(positions.insert(position.parse().unwrap()), "{line}: twice");
                count += 1;
            }
            assert!(count > 0, "{text}");
            assert!(text.contains(&format!("{label}stopped; handled {count} events")), "{text}");
        }
        positions
    }
}

fn text_of(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// What was appended, as the summary names it: `1000 orders, 4000 events, 11980.00 euros`.
fn appended(text: &str) -> &str {
    text.strip_prefix("appended ").unwrap().trim_end()
}

#[test]
fn tickets_are_sold_once_on_both_databases() {
    for arguments in [vec![], vec![postgres()]] {
        let output = example("tickets").args(&arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("40 guests came, 31 were turned away"), "{text}");
        assert!(text.contains("10 tickets sold, 250 euros taken"), "{text}");
    }
}

#[test]
fn four_partitions_handle_every_order_once_and_three_go_on() {
    let name = "partitioned_projection";
    for place in Place::both() {
        let text = place.run(name, &["append", "250"]);
        assert_eq!(place.all_partitions(4).len(), 1000);
        let summary = place.run(name, &["--catch-up"]);
        assert!(summary.contains("everything: stopped; handled 0 events"), "{summary}");
        assert!(summary.contains(&format!("order_totals holds {}", appended(&text))), "{summary}");

        let wrong = place.command(name, &["--partition", "4/4"]).stderr(Stdio::piped()).output();
        let wrong = String::from_utf8(wrong.unwrap().stderr).unwrap();
        assert!(wrong.contains("partition index"), "{wrong}");
        place.run(name, &["append", "30"]);
        place.run(name, &["--catch-up", "--partition", "2/7"]);
        let rest = place.all_partitions(3).len();
        assert!((60..120).contains(&rest), "one of seven partitions was done before: {rest}");
        let summary = place.run(name, &["--catch-up"]);
        assert!(summary.contains("order_totals holds 280 orders, 1120 events"), "{summary}");
    }
}

#[test]
fn a_second_process_for_a_partition_is_a_standby_that_takes_over() {
    for place in Place::both() {
        place.run("partitioned_projection", &["append", "50"]);
        let first = Running::of(place.partition(1, 4, &[]), "caught up");
        let second = Running::of(place.partition(1, 4, &[]), "standby: another process");
        first.stop();
        second.wait_for("holds 1260 of 1260 slots");
        second.stop();
    }
}

#[test]
fn a_pool_shares_the_work_between_its_lanes() {
    for place in Place::both() {
        let text = place.run("worker_pool", &["append", "250"]);
        let summary = place.run("worker_pool", &["--catch-up"]);
        assert!(summary.contains("pool: stopped; handled 1000 events"), "{summary}");
        assert!(summary.contains(&format!("order_totals holds {}", appended(&text))), "{summary}");
        let count = |lane: u16| -> u64 {
            let label = format!("lane {lane} of 4: ");
            let line = summary.lines().filter_map(|line| line.strip_prefix(&label)).next_back();
            let count = line.and_then(|line| line.strip_suffix(" events"));
            count.unwrap_or_else(|| panic!("{summary}")).parse().unwrap()
        };
        let counts: Vec<u64> = (0..4).map(count).collect();
        assert_eq!(counts.iter().sum::<u64>(), 1000, "{summary}");
        assert!(counts.iter().all(|count| *count > 0), "{summary}");
    }
}

/// SIGTERM hits it while it catches up with 20,000 events: it finishes its batch, leaves with 0, and the
/// next one goes on where it stopped.
#[test]
fn sigterm_in_a_heavy_catch_up_loses_and_doubles_nothing() {
    let name = "partitioned_projection";
    for place in Place::both() {
        let text = place.run(name, &["append", "5000"]);
        let running = Running::of(place.command(name, &[]).spawn().unwrap(), "event 100 is");
        let handled = running.end("-TERM");
        assert!(handled > 0 && handled < 20_000, "{handled}");
        let summary = place.run(name, &["--catch-up"]);
        let rest = format!("everything: stopped; handled {} events", 20_000 - handled);
        assert!(summary.contains(&rest), "{summary}");
        assert!(summary.contains(&format!("order_totals holds {}", appended(&text))), "{summary}");
    }
}

/// Workers come and go as processes, by themselves and by `kill -9`: the example reads the tables, and
/// fails if an event is missing, there twice or out of order.
#[test]
fn one_worker_becomes_three_and_one_again_under_load() {
    for place in Place::both() {
        let short = ["--workers", "3", "--seconds", "0.5", "--rate", "3000"];
        let left = place.run("scaling", &short);
        let killed = place.run("scaling", &[&short[..], &["--kill"]].concat());
        for (text, how) in [(&left, "left"), (&killed, "died")] {
            assert!(text.contains("\nverified from the tables: scaling has "), "{text}");
            assert!(
                text.contains("each once and in order per key, handled by 3 processes"),
                "{text}"
            );
            let owners = text.lines().filter(|line| line.contains(" slots ") && line.contains('█'));
            assert_eq!(owners.count(), 1 + 3 + 1, "{text}");
            let names = |line: &str, what: &str| {
                if line.contains(what) { line.matches("worker at ").count() } else { 0 }
            };
            let joined: usize = text.lines().map(|line| names(line, " joined: ")).sum();
            let gone: usize = text.lines().map(|line| names(line, &format!(" {how}: "))).sum();
            // The last one leaves in good order. On a machine that stalls there may be more.
            assert!(joined >= 3 && gone >= if how == "left" { 3 } else { 2 }, "{text}");
        }
    }
}

#[test]
fn a_set_that_fails_and_is_rescaled_leaves_the_other_one_alone() {
    for place in Place::both() {
        let text = place.run("multiple_replica_sets", &["--seconds", "0.5"]);
        let proof = |set: &str, processes: usize| {
            let line = text.lines().find(|line| line.contains(&format!("tables: {set} has ")));
            let line = line.unwrap_or_else(|| panic!("{text}"));
            assert!(line.ends_with(&format!("handled by {processes} processes")), "{text}");
        };
        proof("critical", 3);
        proof("analytics", 2);
        assert!(text.contains("analytics had stopped by itself: consumer `analytics`"), "{text}");
        // While analytics stopped, came back and was rescaled, critical stayed as it was.
        let generation = |phase: &str| {
            let line = text.lines().find(|line| line.starts_with(phase)).unwrap();
            let mut numbers = line.split("generation ").skip(1);
            let mut next = || numbers.next().unwrap().split(',').next().unwrap().to_owned();
            (next(), next())
        };
        let (before, after) = (generation("critical in 3 processes"), generation("after"));
        assert!(before.0 == after.0 || text.contains("uneven load"), "{text}");
        assert_ne!(before.1, after.1, "{text}");
    }
}

/// Orders go through workers that come and go, by themselves and by `kill -9`: the example counts, and
/// fails if an order has no end or two, or money is missing.
#[test]
fn orders_are_processed_while_workers_come_and_go() {
    for place in Place::both() {
        for how in [None, Some("--kill")] {
            let arguments = [&["--seconds", "0.5", "--rate", "20"], how.as_slice()].concat();
            let text = place.run("order_processing", &arguments);
            assert!(text.contains("\nverified from the tables:\n"), "{text}");
            let owners = text.lines().filter(|line| line.contains(" slots ") && line.contains('█'));
            assert_eq!(owners.count(), 1 + 3 + 1, "{text}");
            assert!(text.contains("(0 18 * * * Europe/Berlin): next at 2"), "{text}");
        }
    }
}

#[test]
fn fixed_partitions_process_orders() {
    for place in Place::both() {
        let partition = |index: &str| {
            let mut command = place.command("order_processing", &["work"]);
            command.env("PARTITION_KEY", index).env("TOTAL_PARTITIONS", "2");
            Running::of(command.spawn().unwrap(), "holds 2520 of 5040 slots")
        };
        let workers = ["0", "1"].map(partition);
        let text = place.run("order_processing", &["place", "40", "--rate", "100"]);
        assert!(text.contains("\n40 orders, each with one end: "), "{text}");
        for mut worker in workers {
            let pid = worker.child.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            let line = worker.wait_for("left; ran ");
            assert_ne!(line, "left; ran 0 actions");
            assert!(worker.child.wait().unwrap().success());
        }
    }
}

#[test]
fn seats_are_reserved_once_though_many_want_them() {
    for place in Place::both() {
        let text = place.run("dcb_reservation", &[]);
        assert!(text.contains("\nverified from the log: "), "{text}");
        assert!(text.contains("nobody has more than 4"), "{text}");
        assert!(text.contains("  DCB_MAX_RETRIES_EXCEEDED: 12 attempts on "), "{text}");
        // Five customers with four seats each are fewer than the 24 seats that are asked for.
        assert!(text.contains("× REJECTED: the customer has 4 seats"), "{text}");
        assert!(text.contains("× REJECTED: the seat is taken"), "{text}");
        // With so many conflicts some became tasks.
        let queued = text.lines().find(|line| line.contains("they became tasks")).unwrap();
        assert!(!queued.starts_with("0 "), "{text}");
    }
}

/// Documents become rows, in one process, in several and in fixed parts; the example compares its tables with
/// what the documents were made of, and fails if one row or one failure differs.
#[test]
fn documents_are_converted_once_by_many_instances() {
    for place in Place::both() {
        let convert =
            |more: &[&str]| place.run("xml_conversion", &[&["--rows", "500"], more].concat());
        let proven = |text: &str, sessions: usize, part: &str| {
            assert!(text.contains("\nverified: every document once, "), "{text}");
            let all = "500 documents: 479 converted, 21 failed, 0 not processed, 0 collisions";
            assert!(text.contains(all), "{text}");
            let reason =
                "1 × BirthDateInWords  /application/applicant/birthDate: \"31.02.1990\" is not";
            assert!(text.contains(reason), "{text}");
            let found = text.lines().filter(|line| line.contains("rows, ") && line.contains(part));
            assert!((1..=sessions).contains(&found.count()), "{text}");
        };
        proven(&convert(&[]), 3, "  elastic ");
        // Everything is done, so there is nothing to do, and it is still proven.
        let again = convert(&[]);
        assert!(again.contains("  elastic: 0 converted, 0 failed"), "{again}");
        proven(&again, 3, "  elastic ");
        proven(&convert(&["--fresh", "--processes", "--fixed", "--instances", "2"]), 2, " of 2 ");

        // What the tables hold is really looked at.
        place.run("xml_conversion", &["fill", "--rows", "100", "--fresh"]);
        let mut check = place.command("xml_conversion", &["check"]);
        let unproven = check.stderr(Stdio::piped()).output().unwrap();
        assert_eq!(unproven.status.code(), Some(1), "{unproven:?}");
        let said = String::from_utf8(unproven.stderr).unwrap();
        assert!(said.contains("100 rows are not processed yet"), "{said}");
        assert!(said.contains("applicant has 0 rows, not "), "{said}");

        let text = script(&place, 2, "xml_conversion", &["work"]);
        assert!(text.contains("[1]   elastic: ") && text.contains("[2]   elastic: "), "{text}");
        let text = place.run("xml_conversion", &["check"]);
        assert!(text.contains("100 documents: 96 converted, 4 failed, 0 not"), "{text}");
    }
}

/// Runs processes of an example by the script until they have ended.
fn script(place: &Place, count: usize, name: &str, arguments: &[&str]) -> String {
    let count = count.to_string();
    text_of(scripted(place, &[&count], &place.command(name, arguments)).spawn().unwrap())
}

fn scripted(place: &Place, count: &[&str], worker: &Command) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/start-workers.sh");
    let mut command = Command::new(script);
    command.args(count).arg(worker.get_program()).args(worker.get_args());
    command.current_dir(place.directory.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    for (name, value) in worker.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// SIGTERM goes to the script alone, Ctrl-C to all processes of the terminal.
#[test]
fn a_script_starts_workers_and_stops_them_together() {
    for (place, ctrl_c) in Place::both().into_iter().zip([true, false]) {
        let mut command = scripted(&place, &["2"], &place.command("scaling", &["work"]));
        let child = command.process_group(0).spawn().unwrap();
        let mut running = Running::of(child, "] holds 2520 of 5040 slots");
        running.wait_for("] holds 2520 of 5040 slots");
        let pid = running.child.id();
        let (signal, to) = match ctrl_c {
            true => ("-INT", format!("-{pid}")),
            false => ("-TERM", pid.to_string()),
        };
        assert!(Command::new("kill").args([signal, "--", &to]).status().unwrap().success());
        running.wait_for("] left; handled 0 events");
        running.wait_for("] left; handled 0 events");
        assert!(running.child.wait().unwrap().success());
    }
}

#[test]
fn a_script_starts_each_partition_as_one_process() {
    let name = "partitioned_projection";
    for (place, flag) in
        Place::both().into_iter().zip([&["--partitions", "3"][..], &["--partitions=3"]])
    {
        place.run(name, &["append", "60"]);
        let mut worker = place.command(name, &["--catch-up"]);
        worker.env("PARTITION_INDEX", "2"); // of no use where each has its own
        let text = text_of(scripted(&place, flag, &worker).spawn().unwrap());
        for part in 0..3 {
            let started = format!("[{part}] partition {part} of 3: started");
            let stopped = format!("[{part}] partition {part} of 3: stopped; handled ");
            assert!(text.contains(&started) && text.contains(&stopped), "{text}");
        }
        let rest = place.run(name, &["--catch-up"]);
        assert!(rest.contains("everything: stopped; handled 0 events"), "{rest}");
    }
}

#[test]
fn flags_make_an_example_one_partition_of_several() {
    let name = "partitioned_projection";
    for place in Place::both() {
        place.run(name, &["append", "40"]);
        let flags = ["--catch-up", "--partition-key", "1", "--total-partitions", "2"];
        let mut command = place.command(name, &flags);
        command.env("PARTITION_KEY", "0").env("TOTAL_PARTITIONS", "7");
        let text = text_of(command.spawn().unwrap());
        assert!(
            text.contains("partition 1 of 2: stopped; handled "),
            "flags beat variables: {text}"
        );
        let alone = place.command(name, &flags[..3]).stderr(Stdio::piped()).output().unwrap();
        let alone = String::from_utf8(alone.stderr).unwrap();
        assert!(alone.contains("--total-partitions is not; set both or neither"), "{alone}");
        // The pool and the worker that is elastic otherwise take them as well.
        let text = place.run("worker_pool", &flags);
        assert!(text.contains("stopped; handled "), "{text}");
        let flags = ["work", "--partition-key=0", "--total-partitions=4"];
        let running = place.command("scaling", &flags).spawn().unwrap();
        let mut running = Running::of(running, "holds 1260 of 5040 slots");
        let pid = running.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(running.child.wait().unwrap().success());
    }
}

#[test]
fn an_example_takes_the_database_of_others() {
    let [place, _] = Place::both();
    let mut command = place.command("partitioned_projection", &["append", "3"]);
    text_of(command.env("DATABASE_URL", "sqlite:theirs.db").spawn().unwrap());
    assert!(place.directory.path().join("theirs.db").exists());
}

/// A process that goes on until it is told to stop.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Waits until it has said something.
    fn of(mut child: Child, said: &str) -> Self {
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let running = Self { child, lines };
        running.wait_for(said);
        running
    }

    fn wait_for(&self, said: &str) -> String {
        loop {
            let next = self.lines.recv_timeout(PATIENCE);
            let line = next.unwrap_or_else(|_| panic!("it never said: {said}"));
            if line.contains(said) {
                return line;
            }
        }
    }

    /// As Ctrl-C does.
    fn stop(self) {
        self.end("-INT");
    }

    /// Ends it by a signal; it must leave in good order, within its grace time. Says how many events it
    /// handled.
    fn end(mut self, signal: &str) -> u64 {
        let (pid, told) = (self.child.id().to_string(), std::time::Instant::now());
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let line = self.wait_for("stopped; handled");
        assert!(self.child.wait().unwrap().success());
        assert!(told.elapsed() < Duration::from_secs(10), "{:?}", told.elapsed());
        let (_, count) = line.split_once("handled ").unwrap();
        count.split(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Running {
    /// A case that failed leaves no process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
