//! Processes that are hit at random moments, while events keep coming.

use crate::place::Place;
use anabranch::prelude::*;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// Numbers that follow from a seed (SplitMix64).
pub struct Numbers(u64);

impl Numbers {
    /// Those of the seed in the environment, or of another one each time.
    pub fn chosen() -> (u64, Self) {
        let seed = std::env::var("ANABRANCH_SEED").map_or_else(
            |_| Uuid::now_v7().as_u64_pair().1,
            |seed| seed.parse().expect("ANABRANCH_SEED is a number"),
        );
        println!("ANABRANCH_SEED={seed}");
        (seed, Self(seed))
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// A process of `anabranch run`. None outlives the test.
pub struct Process(Child);

impl Process {
    pub fn start(place: &Place, file: &str) -> Self {
        let mut command = place.process(&["run", file]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The programs that it has started.
    pub fn programs(&self) -> Vec<u32> {
        let own = self.0.id();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|entry| {
                let id = entry.file_name().to_str()?.parse().ok()?;
                let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
                // The name may have spaces in it, and stands in brackets.
                let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
                (parent.parse() == Ok(own)).then_some(id)
            })
            .collect()
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub fn stop(mut self) {
        // One that has programs listens to signals, and one that has not may just have been started.
        let listens = !self.programs().is_empty();
        signal("-TERM", self.0.id());
        let ended = self.0.wait().unwrap();
        assert!(ended.success() || !listens, "a process that was to stop ended with {ended}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn signal(which: &str, id: u32) {
    // It may have ended by itself meanwhile.
    let _ = Command::new("kill").args([which, &id.to_string()]).stderr(Stdio::null()).status();
}

/// Appends the next number to each key, again and again.
pub async fn append_until(log: Log, keys: u64, stop: Arc<AtomicBool>, rounds: Arc<AtomicI64>) {
    while !stop.load(Ordering::Relaxed) {
        let number = rounds.load(Ordering::Relaxed) + 1;
        let mut append = Append::new();
        for key in 0..keys {
            let stream = StreamId::new("Order", key.to_string()).unwrap();
            append = append.to(&stream, Expected::Any, [NewEvent::new("Numbered", number)]);
        }
        log.append_all(append).await.unwrap();
        rounds.store(number, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}
