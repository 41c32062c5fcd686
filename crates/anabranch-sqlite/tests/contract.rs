//! The contract suite, in memory and in a file.

use anabranch_sqlite::Sqlite;
use anabranch_store::Log;
use anabranch_store::contract::Harness;

fn in_memory() -> Harness {
    Harness::new(false, (), |options| {
        Box::pin(async move { Ok(Log::new(Sqlite::open(":memory:", &options).await?)) })
    })
}

fn in_a_file() -> Harness {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("log.db").display().to_string();
    Harness::new(true, directory, move |options| {
        let path = path.clone();
        Box::pin(async move { Ok(Log::new(Sqlite::open(&path, &options).await?)) })
    })
}

mod memory {
    anabranch_store::contract!(super::in_memory());
}

mod file {
    anabranch_store::contract!(super::in_a_file());
}

/// Of the steps that were released, in order. A release adds to them, and nothing changes them.
const RELEASED: [u64; 8] = [
    0x64d1_4ef3_3822_6214,
    0xf39d_16c5_ea5b_cefd,
    0xf03b_ecf1_d404_be34,
    0x1193_f08b_01da_a912,
    0xe7f0_37ee_d12c_5367,
    0xaada_7e80_d96f_3385,
    0xa0ce_31af_19ac_8383,
    0xadf9_58b6_4ffb_88e3,
];

#[test]
fn released_migrations_never_change_and_later_ones_only_add() {
    let migrations = anabranch_sqlite::MIGRATIONS;
    anabranch_store::contract::migrations::are_kept(&migrations, &RELEASED);
}
