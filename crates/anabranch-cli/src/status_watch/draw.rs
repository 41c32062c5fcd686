//! The whole picture as lines: no more and no wider than the terminal has.

use super::keys::HELP;
use super::line::{Line, Style};
use super::map::{COLUMNS, ColourBy, Map, ROWS};
use super::overview::overview;
use super::picture::{ConsumerLine, Picture};
use super::why::RED;

/// What somebody has chosen to see, and how the looks go.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// The consumer whose map is shown; the first if there is none of that name.
    pub(super) chosen: Option<String>,
    pub(super) by: ColourBy,
    pub(super) is_paused: bool,
    pub(super) shows_help: bool,
    /// How often it looks, in words.
    pub(super) every: String,
    /// Why the last look saw nothing.
    pub(super) error: Option<String>,
    pub(super) has_colours: bool,
}

impl View {
    /// Which of the consumers is chosen.
    pub(super) fn chosen(&self, picture: &Picture) -> usize {
        let is_chosen = |consumer: &ConsumerLine| Some(&consumer.name) == self.chosen.as_ref();
        picture.consumers.iter().position(is_chosen).unwrap_or(0)
    }
}

/// How many columns a legend needs at the side.
const LEGEND: usize = 32;
const KEYS: &str = "q end  Tab consumer  o owner  l lag  r reason  space pause  ? help";

/// Draws.
pub(super) fn draw(picture: &Picture, view: &View, (columns, rows): (usize, usize)) -> Vec<Line> {
    let mut lines = vec![title(picture, view, columns)];
    if let Some(error) = &view.error {
        let style = Style { is_reversed: true, ..Style::coloured(RED) };
        lines.push(Line::of(format!(" {error} "), style));
    }
    // The title, and the keys at the bottom.
    let left = rows.saturating_sub(lines.len() + 1);
    let mut body = match (view.shows_help, picture.consumers.is_empty()) {
        (true, _) => help(),
        (false, true) => {
            vec![
                Line::default(),
                Line::plain("there are no consumers yet; one appears when it first runs"),
            ]
        }
        (false, false) => consumers(picture, view, columns, left),
    };
    body.resize(left, Line::default());
    lines.append(&mut body);
    lines.push(footer(picture, view, columns, left));
    lines.truncate(rows);
    lines.into_iter().map(|line| line.cut(columns)).collect()
}

fn title(picture: &Picture, view: &View, columns: usize) -> Line {
    let rate = picture.appended.map_or_else(String::new, |rate| format!(", {rate}/s appended"));
    let workers = match picture.workers() {
        1 => "1 worker".to_owned(),
        workers => format!("{workers} workers"),
    };
    let left = Line::of("anabranch status", Style::bold())
        .with(format!("  log at {}{rate}, {workers}", picture.head), Style::default());
    let right = match view.is_paused {
        true => Line::of(" paused ", Style { is_reversed: true, ..Style::default() }),
        false => Line::plain(format!("every {}", view.every)),
    };
    match columns.checked_sub(right.width()) {
        Some(width) if left.width() < width => {
            let mut line = left.padded(width);
            line.append(right);
            line
        }
        _ => left,
    }
}

fn footer(picture: &Picture, view: &View, columns: usize, left: usize) -> Line {
    if view.shows_help {
        return Line::plain("? back  q end");
    }
    let missing = !picture.consumers.is_empty() && !has_room(columns, left);
    let text = match missing {
        // The title, the overview's two lines, the heading, the map, a legend, and this.
        true => {
            format!("q end  ? help  the map of slots needs a terminal of {COLUMNS} × {}", ROWS + 6)
        }
        false => KEYS.to_owned(),
    };
    Line::plain(text)
}

/// Whether the map fits beneath the heading of the table and one consumer.
fn has_room(columns: usize, rows: usize) -> bool {
    columns >= COLUMNS && rows >= 2 + 1 + ROWS + usize::from(!is_wide(columns))
}

/// Whether the legend stands beside the map.
fn is_wide(columns: usize) -> bool {
    columns >= COLUMNS + 2 + LEGEND
}

fn consumers(picture: &Picture, view: &View, columns: usize, rows: usize) -> Vec<Line> {
    let chosen = view.chosen(picture);
    if !has_room(columns, rows) {
        return overview(picture, chosen, rows, view.has_colours);
    }
    let consumer = &picture.consumers[chosen];
    let map = Map::of(consumer, view.by, view.has_colours);
    // Two lines of the overview, the heading, and a legend below.
    let room = rows.saturating_sub(2 + 1 + usize::from(!is_wide(columns)));
    let (lines_of_map, legend) = (map.lines(room), map.legend(consumer, room));
    let mut below = match is_wide(columns) {
        true => Vec::new(),
        false => side_by_side(&legend, columns),
    };
    // The overview has its two lines at least, and all that it needs before the legend has more than one.
    let needed = 1
        + picture.consumers.len()
        + match picture.sets.len() {
            0 => 0,
            sets => 2 + sets,
        };
    let over = rows - 1 - lines_of_map.len();
    below.truncate(over.saturating_sub(needed).max(1));
    let for_overview = over - below.len();
    let mut lines = overview(picture, chosen, for_overview.min(needed), view.has_colours);
    if for_overview > lines.len() {
        lines.push(Line::default());
    }
    let heading = format!("slots of {} by {}", consumer.name, view.by.name());
    lines.push(Line::of(heading, Style::bold()));
    let mut legend = legend.into_iter().filter(|_| is_wide(columns));
    for line in lines_of_map {
        lines.push(match legend.next() {
            Some(beside) => {
                let mut line = line.padded(COLUMNS + 2);
                line.append(beside);
                line
            }
            None => line,
        });
    }
    lines.append(&mut below);
    lines
}

/// The entries of a legend in lines, as many in each as find room.
fn side_by_side(entries: &[Line], columns: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for entry in entries {
        match lines.last_mut() {
            Some(line) if line.width() + 3 + entry.width() <= columns => {
                line.push("   ", Style::default());
                line.append(entry.clone());
            }
            _ => lines.push(entry.clone()),
        }
    }
    lines
}

fn help() -> Vec<Line> {
    let mut lines = vec![Line::default()];
    for (key, meaning) in HELP {
        lines.push(Line::of(format!("  {key:<17}"), Style::bold()).with(meaning, Style::default()));
    }
    lines.push(Line::default());
    for said in [
        "The map has 84 slots a row, two rows a line: slot s is in column s % 84 of row s / 84.",
        "EVENTS/S is what a consumer has passed since the last look.",
        "`anabranch status NAME` says in full why one does not go on.",
    ] {
        lines.push(Line::plain(format!("  {said}")));
    }
    lines
}

#[cfg(test)]
mod tests;
