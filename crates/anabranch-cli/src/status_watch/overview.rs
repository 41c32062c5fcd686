//! The consumers and the replica sets, a line each.

use super::line::{Line, Style};
use super::map::{colour, letter};
use super::picture::{ConsumerLine, Picture, SetLine};
use super::why::RED;

/// The longest name that is written out.
const LONGEST_NAME: usize = 40;

/// The consumers above, the sets below, in so many lines. The chosen consumer is always among them.
pub(super) fn overview(
    picture: &Picture,
    chosen: usize,
    rows: usize,
    has_colours: bool,
) -> Vec<Line> {
    let sets = sets(&picture.sets, has_colours);
    let consumers = 1 + picture.consumers.len();
    // Where not all find room, a third is for the sets.
    let for_sets = match rows >= consumers + 1 + sets.len() {
        true => sets.len(),
        false => sets.len().min((rows / 3).max(rows.saturating_sub(consumers + 1))),
    };
    let for_sets = if for_sets < 2 { 0 } else { for_sets };
    let for_consumers = rows.saturating_sub(if for_sets > 0 { for_sets + 1 } else { 0 });
    let mut lines = window(table(&picture.consumers, chosen), chosen, for_consumers);
    if for_sets > 0 {
        lines.push(Line::default());
        lines.extend(window(sets, 0, for_sets));
    }
    lines
}

/// The heading, and as many lines as there is room for, around the one that is chosen.
fn window(lines: Vec<Line>, chosen: usize, rows: usize) -> Vec<Line> {
    if lines.len() <= rows {
        return lines;
    }
    let mut lines = lines.into_iter();
    let heading = lines.next();
    // The last one says how many are left out, if there is more than one line.
    let shown = rows.saturating_sub(1);
    let entries = if shown > 1 { shown - 1 } else { shown };
    let count = lines.len();
    let first = (chosen + 1).saturating_sub(entries);
    let mut window: Vec<Line> = heading.into_iter().take(rows).collect();
    window.extend(lines.skip(first).take(entries));
    if shown > 1 {
        window.push(Line::plain(format!("  … {} more", count - entries)));
    }
    window
}

fn table(consumers: &[ConsumerLine], chosen: usize) -> Vec<Line> {
    let cells = |line: &ConsumerLine| {
        let rate = line.rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string());
        let name = line.name.chars().take(LONGEST_NAME).collect();
        [name, line.lag.clone(), rate, line.parked.clone(), line.retrying.to_string()]
    };
    let heading = ["CONSUMER", "LAG", "EVENTS/S", "PARKED", "RETRYING"].map(str::to_owned);
    let rows: Vec<[String; 5]> =
        std::iter::once(heading).chain(consumers.iter().map(cells)).collect();
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let text = |row: &[String; 5]| {
        let mut text = format!("{:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        text
    };
    let mut lines = vec![Line::of(format!("  {}  STATE", text(&rows[0])), Style::bold())];
    for (number, (row, consumer)) in rows[1..].iter().zip(consumers).enumerate() {
        let is_chosen = number == chosen;
        let style = Style { is_bold: is_chosen, ..Style::default() };
        let of_state = Style { colour: consumer.is_wrong.then_some(RED), ..style };
        let line = Line::of(if is_chosen { "▸ " } else { "  " }, style);
        lines.push(line.with(text(row), style).with(format!("  {}", consumer.state), of_state));
    }
    lines
}

fn sets(sets: &[SetLine], has_colours: bool) -> Vec<Line> {
    if sets.is_empty() {
        return Vec::new();
    }
    let widest = sets.iter().map(|set| set.name.chars().count()).max().unwrap_or_default();
    let width = widest.clamp("REPLICA SET".len(), LONGEST_NAME);
    let heading = format!("  {:<width$}  LANES  WORKERS", "REPLICA SET");
    let mut lines = vec![Line::of(heading, Style::bold())];
    for set in sets {
        let name: String = set.name.chars().take(LONGEST_NAME).collect();
        let text = format!("  {name:<width$}  {:>5}  {}", set.lanes, set.alive.len());
        let mut line = Line::plain(text);
        if set.dead > 0 {
            line.push(&format!(" and {} dead", set.dead), Style::coloured(RED));
        }
        for worker in &set.alive {
            line.push("  ", Style::default());
            match has_colours {
                true => line.push("██", Style::coloured(colour(worker.number))),
                false => line.push(&letter(worker.number).to_string(), Style::bold()),
            }
            line.push(&format!(" {}", worker.place), Style::default());
        }
        lines.push(line);
    }
    lines
}
