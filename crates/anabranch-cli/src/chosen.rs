//! The consumers that a command is about: all of them, or one by its name.

use anabranch::operate::{ConsumerStatus, Consumers, UnrunPool};

/// All consumers, or one; and the pools among them that have tasks and that no worker has ever run.
pub(crate) async fn chosen(
    consumers: &Consumers,
    name: Option<&str>,
) -> anyhow::Result<(Vec<ConsumerStatus>, Vec<UnrunPool>)> {
    let mut unrun = consumers.unrun_pools().await?;
    let Some(name) = name else { return Ok((consumers.list().await?, unrun)) };
    unrun.retain(|pool| pool.name == name);
    let known = match unrun.is_empty() {
        true => vec![consumers.status(name).await?],
        false => Vec::new(),
    };
    Ok((known, unrun))
}
