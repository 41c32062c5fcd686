//! What is logged on the thread of a case.

use std::sync::{Arc, Mutex};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Clone, Default)]
pub struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    /// Listens until the guard is dropped.
    pub fn listen() -> (Self, impl Sized) {
        let said = Self::default();
        let guard = said.subscriber().set_default();
        (said, guard)
    }

    /// Listens on all threads that no case listens on, for as long as the process lives.
    pub fn listen_everywhere() -> Self {
        let said = Self::default();
        said.subscriber().init();
        said
    }

    fn subscriber(&self) -> impl SubscriberInitExt {
        let writer = self.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(LevelFilter::INFO)
            .with_writer(move || writer.clone())
            .finish()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines that contain a text.
    pub fn lines(&self, with: &str) -> Vec<String> {
        self.text().lines().filter(|line| line.contains(with)).map(ToOwned::to_owned).collect()
    }
}

impl std::io::Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
