//! Commands that look at a log of the last version, and leave it as it is.

use crate::last_version;
use crate::place::Place;
use crate::process::stdout;

on_both! {
    a_log_of_the_last_version_is_looked_at_and_left_as_it_is,
}

async fn a_log_of_the_last_version_is_looked_at_and_left_as_it_is(place: Place) {
    stdout(&place.run(&place.old, &["migrate"]));
    stdout(&place.run(&place.old, &["append", "Key:1", "Counted"]));
    for looks in [
        &["tail"][..],
        &["status"],
        &["workers"],
    ] {
        let output = place.run(&place.new, looks);
        assert!(output.status.success(), "{looks:?}: {output:?}");
        assert_eq!(place.schema().await, last_version::SCHEMA, "{looks:?}");
    }
}
