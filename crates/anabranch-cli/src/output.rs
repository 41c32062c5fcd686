//! What commands print on standard output: lines, JSON lines and plain tables.

use anabranch::Event;
use jiff::Timestamp;
use serde::Serialize;
use std::fmt::{Display, Write as _};
use std::io::Write as _;

/// Prints a line.
pub(crate) fn line(text: impl Display) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        // Whoever reads has seen enough, as `head` does.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}

/// Prints one JSON object as a line.
pub(crate) fn json(object: &impl Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string(object)?)
}

/// A time of the database, as all commands print it.
pub(crate) fn time(micros: i64) -> String {
    let time = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{time:.3}")
}

/// An event on one line.
pub(crate) fn event(event: &Event) -> String {
    let (position, time) = (event.position(), event.recorded_at());
    let (category, stream, version) = (event.category(), event.stream_id(), event.version());
    let tags: String = event.tags().map(|tag| format!(" #{tag}")).collect();
    let (name, data) = (event.event_type(), event.data_json());
    format!("{position:>8}  {time:.3}  {category}:{stream}@{version}  {name} {data}{tags}")
}

/// A count and its noun: `1 key`, `2 keys`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Rows in aligned columns.
pub(crate) struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
    right: [bool; COLUMNS],
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// An empty table with these headings; a column whose heading begins with `>` is aligned to the
    /// right, as numbers are.
    pub(crate) fn new(headings: [&str; COLUMNS]) -> Self {
        let right = headings.map(|heading| heading.starts_with('>'));
        let headings = headings.map(|heading| heading.trim_start_matches('>').to_owned());
        Self { rows: vec![headings], right }
    }

    /// Adds a row. Text of others stays on its line.
    pub(crate) fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells.map(|cell| cell.replace(char::is_control, " ")));
    }

    pub(crate) fn print(&self) -> anyhow::Result<()> {
        line(self.text())
    }

    fn text(&self) -> String {
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: [usize; COLUMNS] = std::array::from_fn(width);
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let _ = match self.right[column] {
                    true => write!(line, "{cell:>width$}  "),
                    false => write!(line, "{cell:<width$}  "),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.pop();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_stay_on_their_line() {
        let mut table = Table::new(["NAME", ">LAG", "ERROR"]);
        table.row(["größer".into(), "7".into(), "one\ntwo".into()]);
        table.row(["b".into(), "1234".into(), String::new()]);
        assert_eq!(table.text(), "NAME     LAG  ERROR\ngrößer     7  one two\nb       1234");
    }
}
