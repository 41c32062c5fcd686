//! A line of the picture: texts with their styles, cut to a width, and painted.

use std::fmt::Write;

/// How a text looks. Colours are those of the 256 that terminals have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) colour: Option<u8>,
    pub(super) background: Option<u8>,
    pub(super) is_bold: bool,
    pub(super) is_reversed: bool,
}

impl Style {
    pub(super) fn bold() -> Self {
        Self { is_bold: true, ..Self::default() }
    }

    pub(super) fn coloured(colour: u8) -> Self {
        Self { colour: Some(colour), ..Self::default() }
    }

    /// The codes of it; of colours none where there should be none.
    fn codes(self, has_colours: bool) -> String {
        let mut codes = Vec::new();
        codes.extend(self.is_bold.then(|| "1".to_owned()));
        codes.extend(self.is_reversed.then(|| "7".to_owned()));
        if has_colours {
            codes.extend(self.colour.map(|colour| format!("38;5;{colour}")));
            codes.extend(self.background.map(|colour| format!("48;5;{colour}")));
        }
        codes.join(";")
    }
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(String, Style)>);

impl Line {
    /// In one style.
    pub(super) fn of(text: impl AsRef<str>, style: Style) -> Self {
        Self::default().with(text, style)
    }

    pub(super) fn plain(text: impl AsRef<str>) -> Self {
        Self::of(text, Style::default())
    }

    /// With a text more. Text of others, such as an error of a handler, stays on its line and moves no terminal.
    pub(super) fn with(mut self, text: impl AsRef<str>, style: Style) -> Self {
        self.push(text.as_ref(), style);
        self
    }

    pub(super) fn push(&mut self, text: &str, style: Style) {
        let text = text.replace(char::is_control, " ");
        match self.0.last_mut() {
            Some((before, of)) if *of == style => before.push_str(&text),
            _ => self.0.push((text, style)),
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        other.0.iter().for_each(|(text, style)| self.push(text, *style));
    }

    /// How many columns it fills.
    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.chars().count()).sum()
    }

    /// Filled up to a width.
    pub(super) fn padded(mut self, width: usize) -> Self {
        let missing = width.saturating_sub(self.width());
        self.push(&" ".repeat(missing), Style::default());
        self
    }

    /// No wider than this.
    pub(super) fn cut(self, width: usize) -> Self {
        if self.width() <= width {
            return self;
        }
        let (mut left, mut cut) = (width.saturating_sub(1), Self::default());
        for (text, style) in self.0 {
            let text: String = text.chars().take(left).collect();
            left -= text.chars().count();
            cut.push(&text, style);
        }
        if width > 0 {
            cut.push("…", Style::default());
        }
        cut
    }

    /// As a terminal takes it.
    pub(super) fn painted(&self, has_colours: bool) -> String {
        let mut painted = String::new();
        for (text, style) in &self.0 {
            let codes = style.codes(has_colours);
            let _ = match codes.is_empty() {
                true => write!(painted, "{text}"),
                false => write!(painted, "\x1b[{codes}m{text}\x1b[0m"),
            };
        }
        painted
    }

    /// Its text alone.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        let text: String = self.0.iter().map(|(text, _)| text.as_str()).collect();
        text.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_the_terminal_ends() {
        let line = || Line::plain("lag ").with("1204", Style::bold());
        assert_eq!(line().cut(8), line());
        let cut = |width| line().cut(width).text();
        assert_eq!([cut(7), cut(4), cut(1), cut(0)], ["lag 12…", "lag…", "…", ""]);
        assert!((0..9).all(|width| line().cut(width).width() <= width));
    }

    #[test]
    fn colours_are_left_out_where_nobody_wants_them() {
        let line = Line::of("a", Style::coloured(39)).with("b", Style::bold());
        assert_eq!(line.painted(true), "\x1b[38;5;39ma\x1b[0m\x1b[1mb\x1b[0m");
        assert_eq!(line.painted(false), "a\x1b[1mb\x1b[0m");
    }

    #[test]
    fn text_of_others_moves_no_terminal() {
        assert_eq!(Line::plain("no\x1b[2J\nway").painted(true), "no [2J way");
    }
}
