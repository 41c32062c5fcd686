//! Lines of the log on standard error, beside the progress bar.

use anabranch::running::ProgressBar;
use std::io::{self, Write};
use std::sync::LazyLock;

/// The progress bar of this process: it makes room for the lines of the log.
pub(crate) static BAR: LazyLock<ProgressBar> = LazyLock::new(ProgressBar::new);

/// Where the log is written.
pub(crate) struct LogLines;

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        BAR.beside(|| io::stderr().write(bytes))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        BAR.beside(|| io::stderr().write_all(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
