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
