//! What runs beside whoever asked for it: for as long as its owner lives, or to its end.

use anabranch_store::Home;
use tokio::task::JoinHandle;

/// A task that ends with its owner.
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    pub(crate) fn spawn(home: &Home, task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(home.spawn(task))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Does what is done on the link to its end, though who waits for it may be gone before: a session that is
/// given up half-way is closed, and all workers of the process show their life by this one.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and who waits here with it.
            Err(_) => std::future::pending().await,
        },
    }
}
