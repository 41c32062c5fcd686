//! All slots of a consumer in 84 × 30 letters: two slots a letter, one above the other.

use super::line::{Line, Style};
use super::picture::ConsumerLine;
use super::why::{GREY, PARKED, RED, RETRYING, Why};
use anabranch::partitioning::SLOTS;
use std::collections::BTreeMap;

/// How many slots are side by side: slot s is in column s % 84 of row s / 84.
pub(super) const COLUMNS: usize = 84;
/// How many lines they fill.
pub(super) const ROWS: usize = SLOTS as usize / COLUMNS / 2;

/// What the colours mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ColourBy {
    #[default]
    Owner,
    Lag,
    Reason,
}

impl ColourBy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Lag => "lag",
            Self::Reason => "reason",
        }
    }
}

/// Colours of owners that are far from each other, from grey, and from red.
const OF_OWNERS: [u8; 12] = [74, 179, 72, 139, 187, 80, 175, 107, 68, 137, 66, 146];
const HEALTHY: u8 = 35;
/// From nothing to many; the bounds are in `LAGS`.
const OF_LAGS: [u8; 6] = [22, 29, 71, 178, 208, 196];
const LAGS: [&str; 6] =
    ["no lag", "1 to 9", "10 to 99", "100 to 999", "1000 to 9999", "10000 and more"];

/// What a slot shows. The order is that of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Owner(usize),
    Lag(usize),
    Healthy,
    Why(Why),
    /// In a map of owners or lags: why does not matter.
    Trouble,
    Unknown,
    Nobody,
}

impl Shown {
    fn colour(self) -> u8 {
        match self {
            Self::Owner(number) => OF_OWNERS[number % OF_OWNERS.len()],
            Self::Lag(size) => OF_LAGS[size.min(OF_LAGS.len() - 1)],
            Self::Healthy => HEALTHY,
            Self::Why(why) => why.colour,
            Self::Trouble => RED,
            Self::Unknown | Self::Nobody => GREY,
        }
    }

    /// Where there are no colours.
    fn letter(self) -> char {
        match self {
            Self::Owner(number) => letter(number),
            Self::Lag(size) => char::from(b'0' + size as u8),
            Self::Healthy => '-',
            Self::Why(why) => why.letter,
            Self::Trouble => '!',
            Self::Unknown => '?',
            Self::Nobody => '.',
        }
    }
}

/// The letter of an owner; after those of the alphabet they begin again, as the colours do.
pub(super) fn letter(number: usize) -> char {
    let letters = ('A'..='Z').chain('a'..='z');
    letters.cycle().nth(number % 52).unwrap_or('A')
}

/// The colour of an owner.
pub(super) fn colour(number: usize) -> u8 {
    Shown::Owner(number).colour()
}

/// The slots of a consumer, and what they show.
pub(super) struct Map {
    slots: Vec<Shown>,
    has_colours: bool,
}

impl Map {
    pub(super) fn of(consumer: &ConsumerLine, by: ColourBy, has_colours: bool) -> Self {
        let mut slots = vec![Shown::Nobody; usize::from(SLOTS)];
        for part in &consumer.parts {
            let trouble = part.why.filter(|why| why.is_trouble());
            let shown = match (by, &part.owner) {
                (ColourBy::Owner, None) => Shown::Nobody,
                (ColourBy::Owner, Some(_)) if trouble.is_some() => Shown::Trouble,
                (ColourBy::Owner, Some(owner)) => Shown::Owner(owner.number),
                (ColourBy::Lag, _) => part.lag.map_or(Shown::Unknown, |lag| Shown::Lag(size(lag))),
                (ColourBy::Reason, _) => part.why.map_or(Shown::Healthy, Shown::Why),
            };
            part.slots.iter().for_each(|slot| slots[usize::from(slot.get())] = shown);
        }
        for (slot, why) in &consumer.marks {
            if let Some(shown) = slots.get_mut(usize::from(*slot)) {
                match by {
                    ColourBy::Owner => *shown = Shown::Trouble,
                    ColourBy::Reason => *shown = Shown::Why(*why),
                    ColourBy::Lag => {}
                }
            }
        }
        Self { slots, has_colours }
    }

    /// The map itself, in `ROWS` lines. Where there are no colours, and room for twice as many, a slot is a letter.
    pub(super) fn lines(&self, room: usize) -> Vec<Line> {
        if self.is_tall(room) {
            let rows = self.slots.chunks_exact(COLUMNS);
            let text = |row: &[Shown]| row.iter().map(|shown| shown.letter()).collect::<String>();
            return rows.map(|row| Line::plain(text(row))).collect();
        }
        let lines = self.slots.chunks_exact(2 * COLUMNS).map(|two| {
            let (above, below) = two.split_at(COLUMNS);
            let mut line = Line::default();
            for (above, below) in above.iter().zip(below) {
                line.append(self.cell(*above, *below));
            }
            line
        });
        lines.collect()
    }

    fn is_tall(&self, room: usize) -> bool {
        !self.has_colours && room >= 2 * ROWS
    }

    /// Two slots: an upper half block has the colour of the upper one, on that of the lower one.
    fn cell(&self, above: Shown, below: Shown) -> Line {
        if self.has_colours {
            let (colour, background) = (Some(above.colour()), Some(below.colour()));
            return Line::of("▀", Style { colour, background, ..Style::default() });
        }
        Line::plain(folded(above, below).to_string())
    }

    /// Whether two slots that differ share a letter.
    fn has_folds(&self, room: usize) -> bool {
        let rows: Vec<&[Shown]> = self.slots.chunks_exact(COLUMNS).collect();
        let mut pairs =
            rows.chunks_exact(2).flat_map(|two| two[0].iter().zip(two[1]).map(|(a, b)| (*a, *b)));
        let is_folded = |(above, below)| folded(above, below) == FOLDED;
        !self.has_colours && !self.is_tall(room) && pairs.any(is_folded)
    }

    /// What the colours mean, and how many slots have each.
    pub(super) fn legend(&self, consumer: &ConsumerLine, room: usize) -> Vec<Line> {
        let mut counts: BTreeMap<Shown, usize> = BTreeMap::new();
        for shown in &self.slots {
            *counts.entry(*shown).or_default() += 1;
        }
        let entry = |(shown, count): (Shown, usize)| {
            let line = match self.has_colours {
                true => Line::of("██", Style::coloured(shown.colour())),
                false => Line::of(shown.letter().to_string(), Style::bold()),
            };
            let text = format!(" {count:>4} {}", self.label(shown, consumer));
            line.with(text, Style::default())
        };
        let mut entries: Vec<Line> = counts.into_iter().map(entry).collect();
        if self.has_folds(room) {
            let letter = Line::of(FOLDED.to_string(), Style::bold());
            entries.push(letter.with(" two slots that differ", Style::default()));
        }
        entries
    }

    fn label(&self, shown: Shown, consumer: &ConsumerLine) -> String {
        match shown {
            Shown::Owner(number) => {
                let owners = consumer.parts.iter().filter_map(|part| part.owner.as_ref());
                let owner = owners.into_iter().find(|owner| owner.number == number);
                owner.map(|owner| owner.place.clone()).unwrap_or_default()
            }
            Shown::Lag(size) => LAGS[size.min(LAGS.len() - 1)].to_owned(),
            Shown::Healthy => "as it should be".to_owned(),
            Shown::Why(why) => why.label.to_owned(),
            Shown::Trouble => troubles(consumer),
            Shown::Unknown => "lag not known".to_owned(),
            Shown::Nobody => "nobody has it".to_owned(),
        }
    }
}

/// Two slots that differ, in one letter.
const FOLDED: char = '+';

/// One letter for two slots: what is wrong is never hidden by what is not.
fn folded(above: Shown, below: Shown) -> char {
    match (above, below) {
        (one, other) if one == other => one.letter(),
        (one @ (Shown::Trouble | Shown::Why(_)), _) => one.letter(),
        (_, other @ (Shown::Trouble | Shown::Why(_))) => other.letter(),
        (Shown::Lag(one), Shown::Lag(other)) => Shown::Lag(one.max(other)).letter(),
        _ => FOLDED,
    }
}

/// Why slots of a consumer do not go on.
fn troubles(consumer: &ConsumerLine) -> String {
    let of_parts = consumer.parts.iter().filter(|part| part.owner.is_some());
    let of_parts = of_parts.filter_map(|part| part.why).filter(|why| why.is_trouble());
    let mut labels: Vec<&str> = of_parts.map(|why| why.label).collect();
    let has = |why: Why| consumer.marks.iter().any(|(_, mark)| *mark == why);
    labels.extend([PARKED, RETRYING].into_iter().filter(|why| has(*why)).map(|why| why.label));
    let mut seen = Vec::new();
    labels.retain(|label| {
        !seen.contains(label) && {
            seen.push(*label);
            true
        }
    });
    labels.join(", ")
}

/// The power of ten that a lag has reached.
fn size(lag: u64) -> usize {
    match lag {
        0 => 0,
        lag => (lag.ilog10() as usize + 1).min(OF_LAGS.len() - 1),
    }
}
