//! Lines of the log on standard error, beside the progress bar.

use anabranch::running::ProgressBar;
use std::io::{self, Write};
use std::sync::LazyLock;

/// The progress bar of this process: it makes room for the lines of the log.
pub(crate) static BAR: LazyLock<ProgressBar> = LazyLock::new(ProgressBar::new);

/// Where the log is written.
pub(crate) struct LogLines;

/// Whether a line would stand in the middle of a picture that fills the terminal; --log-file keeps the lines.
#[cfg(unix)]
fn tears_a_picture() -> bool {
    use std::io::IsTerminal;
    anabranch_terminal::screen::Screen::is_taken() && io::stderr().is_terminal()
}

#[cfg(not(unix))]
fn tears_a_picture() -> bool {
    false
}

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if tears_a_picture() {
            return Ok(bytes.len());
        }
        BAR.beside(|| io::stderr().write(bytes))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if tears_a_picture() {
            return Ok(());
        }
        BAR.beside(|| io::stderr().write_all(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
