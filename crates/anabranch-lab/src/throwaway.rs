//! Logs that a command makes for itself: they are removed however it ends.

use crate::bench::bare::Bare;
use anabranch::{Log, Namespace, Options};
use anabranch_terminal::cut_short::signalled;
use std::sync::Arc;
use tokio::sync::Mutex;

pub(crate) struct Throwaway {
    url: String,
    /// Locked while one is being made: nothing is removed in between.
    made: Arc<Mutex<Vec<Namespace>>>,
}

impl Throwaway {
    /// For a database that other connections can see.
    pub(crate) fn new(url: &str) -> anyhow::Result<Self> {
        anyhow::ensure!(
            url != "sqlite::memory:",
            "a database in memory can be seen by no other connection; use sqlite:FILE"
        );
        Ok(Self { url: url.to_owned(), made: Arc::default() })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Makes a log.
    pub(crate) async fn log(&self, namespace: &Namespace) -> anyhow::Result<Log> {
        let (url, namespace) = (self.url.clone(), namespace.clone());
        let mut made = Arc::clone(&self.made).lock_owned().await;
        // A task that goes on though its caller is cut short: half a migration may be committed yet.
        let making = tokio::spawn(async move {
            let log = connect(&url, &namespace, true).await?;
            made.push(namespace);
            anyhow::Ok(log)
        });
        making.await?
    }

    /// Removes what was made, and passes on what came of the work that needed it.
    pub(crate) async fn remove<T>(self, outcome: anyhow::Result<T>) -> anyhow::Result<T> {
        let mut left = Vec::new();
        for namespace in self.made.lock().await.drain(..) {
            // Whoever asks a second time does not want to wait for a lock.
            let removed = tokio::select! {
                removed = remove(&self.url, &namespace) => removed,
                cut = signalled() => Err(cut.into()),
            };
            if let Err(error) = removed {
                left.push(format!("`{namespace}` could not be removed: {error}"));
            }
        }
        if left.is_empty() {
            return outcome;
        }
        // A failure, whatever else there is to say.
        left.extend(outcome.err().map(|error| error.to_string()));
        Err(anyhow::anyhow!("{}", left.join("; ")))
    }
}

async fn remove(url: &str, namespace: &Namespace) -> anyhow::Result<()> {
    Bare::connect(url, namespace).await?.drop_log().await
}

/// Connects to a log by its namespace.
pub(crate) async fn connect(
    url: &str,
    namespace: &Namespace,
    migrate: bool,
) -> anyhow::Result<Log> {
    let options = Options { namespace: namespace.clone(), migrate, ..Options::default() };
    Ok(anabranch::connect_with(url, &options).await?)
}
