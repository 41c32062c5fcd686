//! The whole screen of a terminal, for a picture that is drawn again and again; left as it was found, whatever happens.
//!
//! Three things are changed, and changed back together: the alternate screen is shown, so that what stood in the terminal
//! comes back; the cursor is hidden, and lines are not wrapped; keys arrive one by one and are not shown. Ctrl-C still
//! is SIGINT.

use anyhow::Context;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use tokio::sync::mpsc;

const BEGIN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const END: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Terminals that know it show a picture at once, and not line by line.
const BEGIN_PICTURE: &str = "\x1b[?2026h\x1b[H";
const END_PICTURE: &str = "\x1b[?2026l";

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// How the terminal was; none if keys do not come from one.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// How many bursts of keys may wait to be looked at; further ones wait in the terminal.
const BURSTS: usize = 16;

/// The screen, until it is dropped.
pub struct Screen(());

impl Screen {
    /// Whether there is one: standard output is a terminal that can place its cursor.
    pub fn is_there() -> bool {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        stdout().is_terminal() && !is_dumb
    }

    /// Takes the screen.
    pub fn take() -> anyhow::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            // Before the panic is told: what it says would vanish with the alternate screen.
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        if stdin().is_terminal() {
            let modes = tcgetattr(stdin()).context("cannot ask how the terminal is set")?;
            *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(modes.clone());
            IS_TAKEN.store(true, Ordering::SeqCst);
            let set = tcsetattr(stdin(), OptionalActions::Now, &key_by_key(modes));
            if let Err(error) = set {
                give_back();
                return Err(error).context("cannot set the terminal");
            }
        }
        IS_TAKEN.store(true, Ordering::SeqCst);
        let screen = Self(());
        write(BEGIN)?;
        Ok(screen)
    }

    /// Whether somebody has it: what is written on standard error meanwhile would stand in the picture.
    pub fn is_taken() -> bool {
        IS_TAKEN.load(Ordering::SeqCst)
    }

    /// How many columns and rows it has now.
    pub fn size(&self) -> (usize, usize) {
        let size = terminal_size::terminal_size_of(stdout());
        size.map_or((80, 24), |(columns, rows)| (columns.0.into(), rows.0.into()))
    }

    /// Shows lines, each with how many columns it fills, and nothing else. They must not be more than there are rows.
    pub fn show(&self, lines: impl Iterator<Item = (usize, String)>) -> anyhow::Result<()> {
        let (columns, rows) = self.size();
        let mut picture = BEGIN_PICTURE.to_owned();
        let mut shown = 0;
        for (width, line) in lines.take(rows) {
            if shown > 0 {
                picture.push_str("\r\n");
            }
            picture.push_str(&line);
            // In a full line the cursor stands on its last letter, which this would erase.
            if width < columns {
                picture.push_str("\x1b[K");
            }
            shown += 1;
        }
        if shown < rows {
            picture.push_str("\r\n\x1b[J");
        }
        picture.push_str(END_PICTURE);
        write(&picture)
    }

    /// The bytes of the keys that are pressed, as they come; none if standard input is no terminal.
    pub fn keys(&self) -> mpsc::Receiver<Vec<u8>> {
        let (pressed, keys) = mpsc::channel(BURSTS);
        if stdin().is_terminal() {
            // A thread of its own: a read of standard input cannot be given up. It ends with the process.
            std::thread::spawn(move || {
                let mut bytes = [0; 64];
                while let Ok(count @ 1..) = stdin().lock().read(&mut bytes) {
                    if pressed.blocking_send(bytes[..count].to_vec()).is_err() {
                        return;
                    }
                }
            });
        }
        keys
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Keys come one by one and are not shown. Ctrl-C stays SIGINT; the keys that would stop or kill the process, and leave the
/// terminal as it is, and the one that would halt the output, mean nothing.
fn key_by_key(mut modes: Termios) -> Termios {
    modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
    modes.input_modes -= InputModes::IXON;
    modes.special_codes[SpecialCodeIndex::VSUSP] = DISABLED;
    modes.special_codes[SpecialCodeIndex::VQUIT] = DISABLED;
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    modes
}

/// What stands for no key at all (`_POSIX_VDISABLE`).
#[cfg(any(target_os = "linux", target_os = "android"))]
const DISABLED: u8 = 0;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const DISABLED: u8 = 0xff;

/// Leaves the terminal as it was. Once: a panic does it before it is told, and then the screen is dropped.
fn give_back() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = write(END);
    if let Some(modes) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // What was typed and not read is thrown away, so that it does not end up in the shell.
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &modes);
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut stdout = stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.context("the terminal could not be written to")
}
