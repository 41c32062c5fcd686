//! Another scope than a consumer has been run with, accepted from the command line.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;
mod sums;

use process::{failure, postgres, stdout};
use sums::Bench;

/// What the bench would call its projection.
const NAME: &str = "sums";

/// Handles some of the orders that the sums are of.
struct Scoped(anabranch::Scope);

impl anabranch::Projection for Scoped {
    fn name(&self) -> &str {
        "scoped"
    }
    fn partition(&self) -> anabranch::Partition {
        anabranch::Partition::entities()
    }
    fn settings(&self) -> anabranch::Settings {
        anabranch::Settings::default().scope(self.0.clone())
    }
    async fn handle(
        &self,
        _: &anabranch::Event,
        _: &mut anabranch::Tx,
    ) -> anabranch::HandlerResult<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_is_accepted_with_yes_only() {
    for bench in [Bench::sqlite(), Bench::postgres(postgres())] {
        let log = bench.log().await;
        bench.fill(&log, 1..=3, 1).await;
        let set = |scope| anabranch::ReplicaSet::new("s").projection(Scoped(scope));
        set(anabranch::Scope::types(["Nothing"])).catch_up(&log).await.unwrap();
        let status = stdout(&bench.command(&["status", "scoped"]));
        let said = "nothing to handle: no event of the log is of type Nothing; there are ";
        assert!(status.contains(said), "{status}");
        let status = stdout(&bench.command(&["status", "scoped", "--json"]));
        assert!(
            status.contains("\"unmatched\":\"no event of the log is of type Nothing"),
            "{status}"
        );
        let accept = ["accept-scope", "scoped"];
        let none = failure(&bench.command(&accept), 1);
        assert!(none.contains("no program asks for another scope"), "{none}");
        let refused = set(anabranch::Scope::all()).catch_up(&log).await.unwrap_err().to_string();
        assert!(refused.contains("`anabranch accept-scope scoped --yes`"), "{refused}");
        let asks = failure(&bench.command(&accept), 2);
        assert!(asks.contains("3 events up to there match only now"), "{asks}");
        assert!(asks.contains("add --yes"), "{asks}");
        let output = bench.command(&["accept-scope", "scoped", "--yes"]);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        let accepted = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(accepted.contains("accepted for `scoped`"), "{accepted}");
        set(anabranch::Scope::all()).catch_up(&log).await.unwrap();
    }
}
