//! What commands print on standard output: lines, JSON lines and plain tables; and what they say on
//! standard error. Neither need have a reader: `println!` and `eprintln!` panic without one.

use anyhow::Context;
use jiff::Timestamp;
use serde::Serialize;
use std::fmt::{Arguments, Display, Write as _};
use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Says a line on standard error.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::say(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// Says the beginning of a line.
#[macro_export]
macro_rules! say_on {
    ($($text:tt)*) => {
        $crate::output::say(format_args!($($text)*))
    };
}

/// What [`say!`] does; in one piece, since several processes may share a terminal.
pub fn say(text: Arguments<'_>) {
    let _ = std::io::stderr().write_all(text.to_string().as_bytes());
}

/// How wide lines are where standard output is no terminal.
const PIPED_COLUMNS: usize = 160;

/// How many columns a line of standard output may have.
pub fn columns() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    size.map_or(PIPED_COLUMNS, |(width, _)| width.0.into())
}

/// Whether the reader of standard output is gone.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Prints a line. Text of others, such as an error of a handler, moves no terminal: of control characters only breaks
/// of lines and tabs are left.
pub fn line(text: impl Display) -> anyhow::Result<()> {
    let text = harmless(text.to_string());
    print(format_args!("{text}\n"))
}

/// A text without what would move a terminal.
pub fn harmless(text: String) -> String {
    let moves = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if text.contains(moves) { text.replace(moves, " ") } else { text }
}

/// Prints text as it is. A reader that is gone, as `head` is once it has seen enough, is no error: what
/// a command does is finished, and its exit code says how that went.
pub fn print(text: Arguments<'_>) -> anyhow::Result<()> {
    if is_closed() {
        return Ok(());
    }
    let mut stdout = std::io::stdout().lock();
    match stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        written => written.context("standard output could not be written"),
    }
}

/// What was printed of work that is done: where that could not be written, the error says what was done, so that
/// nobody repeats it.
pub fn of_work(printed: anyhow::Result<()>, done: impl FnOnce() -> String) -> anyhow::Result<()> {
    printed.map_err(|error| anyhow::anyhow!("{error:#}; {}", done()))
}

/// Whether nobody reads what is printed any more, so that a command which only prints may end.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Resolves when the reader goes away, though nothing is printed meanwhile.
pub async fn closed() {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        use tokio::io::Interest;
        use tokio::net::unix::pipe::Sender;
        let stdout = std::io::stdout().as_fd().try_clone_to_owned();
        // Unchecked: nothing is written by this copy, so it may block. It fails for a file, which has
        // no reader that could go.
        if let Ok(watched) = stdout.and_then(Sender::from_owned_fd_unchecked)
            && watched.ready(Interest::ERROR).await.is_ok()
        {
            return;
        }
    }
    std::future::pending().await
}

/// Prints one JSON object as a line.
pub fn json(object: &impl Serialize) -> anyhow::Result<()> {
    print(format_args!("{}\n", serde_json::to_string(object)?))
}

/// A time of the database, as all commands print it.
pub fn time(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// A count and its noun: `1 key`, `2 keys`.
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Rows in aligned columns.
pub struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
    right: [bool; COLUMNS],
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// An empty table with these headings; a column whose heading begins with `>` is aligned to the
    /// right, as numbers are.
    pub fn new(headings: [&str; COLUMNS]) -> Self {
        let right = headings.map(|heading| heading.starts_with('>'));
        let headings = headings.map(|heading| heading.trim_start_matches('>').to_owned());
        Self { rows: vec![headings], right }
    }

    /// Adds a row. Text of others stays on its line.
    pub fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells.map(|cell| cell.replace(char::is_control, " ")));
    }

    /// Prints it. On a terminal that is narrower than the table, long texts go on in the next line of their column.
    pub fn print(&self) -> anyhow::Result<()> {
        let size = terminal_size::terminal_size_of(std::io::stdout());
        line(self.text(size.map(|(width, _)| width.0.into())))
    }

    /// Its lines, at most so wide if that can be.
    fn text(&self, most: Option<usize>) -> String {
        let widths = self.widths(most);
        let mut text = String::new();
        for row in &self.rows {
            let cells: [Vec<String>; COLUMNS] =
                std::array::from_fn(|column| wrapped(&row[column], widths[column]));
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for number in 0..height {
                let mut line = String::new();
                for (column, cell) in cells.iter().enumerate() {
                    let (width, cell) =
                        (widths[column], cell.get(number).map_or("", String::as_str));
                    let _ = match self.right[column] {
                        true => write!(line, "{cell:>width$}  "),
                        false => write!(line, "{cell:<width$}  "),
                    };
                }
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        text.pop();
        text
    }

    /// How wide the columns are. Where they are too wide together, the widest texts get less.
    fn widths(&self, most: Option<usize>) -> [usize; COLUMNS] {
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let mut widths: [usize; COLUMNS] = std::array::from_fn(width);
        let between = 2 * COLUMNS.saturating_sub(1);
        let excess = |widths: &[usize; COLUMNS]| {
            (widths.iter().sum::<usize>() + between).saturating_sub(most.unwrap_or(usize::MAX))
        };
        while excess(&widths) > 0 {
            let texts = (0..COLUMNS).filter(|&column| !self.right[column]);
            let Some(widest) = texts.max_by_key(|&column| widths[column]) else { break };
            if widths[widest] <= NARROWEST {
                break;
            }
            widths[widest] -= 1;
        }
        widths
    }
}

/// A column is never made narrower than this.
const NARROWEST: usize = 16;

/// A text in lines of at most so many characters, broken between words where it can be.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line, mut taken) = (Vec::new(), String::new(), 0);
    for word in text.split_inclusive(' ') {
        if taken > 0 && taken + word.trim_end().chars().count() > width {
            lines.push(std::mem::take(&mut line));
            taken = 0;
        }
        for letter in word.chars() {
            if taken == width && letter != ' ' {
                lines.push(std::mem::take(&mut line));
                taken = 0;
            }
            if taken < width {
                line.push(letter);
                taken += 1;
            }
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_moves_no_terminal() {
        let said = |text: &str| harmless(text.to_owned());
        assert_eq!(said("no\u{1b}[31m\r\u{7}\u{9b}2J"), "no [31m   2J");
        assert_eq!(said("one\n\ttwo ✓"), "one\n\ttwo ✓");
    }

    #[test]
    fn columns_are_aligned_and_cells_stay_on_their_line() {
        let mut table = Table::new(["NAME", ">LAG", "ERROR"]);
        table.row(["größer".into(), "7".into(), "one\ntwo".into()]);
        table.row(["b".into(), "1234".into(), String::new()]);
        assert_eq!(table.text(None), "NAME     LAG  ERROR\ngrößer     7  one two\nb       1234");
    }

    #[test]
    fn long_texts_go_on_in_their_column() {
        let mut table = Table::new(["NAME", ">LAG", "STATE"]);
        table.row(["crm".into(), "7".into(), "stopped: the endpoint is not there any more".into()]);
        table.row(["b".into(), "12".into(), "x".repeat(40)]);
        let wide = table.text(Some(200));
        assert_eq!((wide.clone(), wide.lines().count()), (table.text(None), 3));
        let expected = [
            "NAME  LAG  STATE",
            "crm     7  stopped: the",
            "           endpoint is not",
            "           there any more",
            "b      12  xxxxxxxxxxxxxxxxx",
            "           xxxxxxxxxxxxxxxxx",
            "           xxxxxx",
        ];
        assert_eq!(table.text(Some(28)).lines().collect::<Vec<_>>(), expected);
        // No column gets too narrow to be read, whatever the terminal.
        assert!(table.text(Some(1)).lines().all(|line| line.chars().count() <= 11 + NARROWEST));
    }
}
