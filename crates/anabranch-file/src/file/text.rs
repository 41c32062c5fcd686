//! A text of a file: what it says, and where each of its characters stands.

use std::ops::Range;

/// A text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// What it says.
    pub text: String,
    /// Where it stands, with its quotes.
    pub span: Range<usize>,
}

impl Text {
    /// Where a byte of what it says stands in the file.
    ///
    /// ```
    /// use anabranch_file::file::Text;
    /// let source = r#"sql = "a\tbc""#;
    /// let text = Text { text: "a\tbc".to_owned(), span: 6..13 };
    /// assert_eq!(&source[text.place(source, 2)..], r#"bc""#);
    /// ```
    #[must_use]
    pub fn place(&self, source: &str, offset: usize) -> usize {
        let Some(raw) = source.get(self.span.clone()) else { return self.span.start };
        let at = match raw.as_bytes() {
            [b'\'', b'\'', b'\'', ..] => opened(raw, 3) + offset,
            [b'\'', ..] => 1 + offset,
            [b'"', b'"', b'"', ..] => escaped(raw, opened(raw, 3), offset),
            [b'"', ..] => escaped(raw, 1, offset),
            // A value that was taken from the environment, or a bare key.
            _ => offset.min(raw.len()),
        };
        (self.span.start + at).min(self.span.end)
    }

    /// Where a part of what it says stands in the file.
    #[must_use]
    pub fn part(&self, source: &str, part: Range<usize>) -> Range<usize> {
        let start = self.place(source, part.start);
        start..self.place(source, part.end).max(start)
    }
}

/// The newline that follows three quotes is not of the text.
fn opened(raw: &str, quotes: usize) -> usize {
    let inside = &raw[quotes..];
    let newline =
        if inside.starts_with("\r\n") { 2 } else { usize::from(inside.starts_with('\n')) };
    quotes + newline
}

/// The place of a byte of a text with escapes, which begins at `start`.
fn escaped(raw: &str, start: usize, offset: usize) -> usize {
    let (mut at, mut said) = (start, 0);
    while said < offset && at < raw.len() {
        let rest = &raw[at..];
        let mut chars = rest.chars();
        let Some(first) = chars.next() else { break };
        let (length, says) = match (first, chars.next()) {
            ('\\', Some('x')) => (4, hexadecimal(&rest[2..], 2)),
            ('\\', Some('u')) => (6, hexadecimal(&rest[2..], 4)),
            ('\\', Some('U')) => (10, hexadecimal(&rest[2..], 8)),
            // A line that goes on: what follows begins with the next character that is no space.
            ('\\', Some(c)) if c.is_whitespace() => {
                let spaces = rest[1..].len() - rest[1..].trim_start().len();
                (1 + spaces, 0)
            }
            ('\\', Some(c)) => (1 + c.len_utf8(), 1),
            (c, _) => (c.len_utf8(), c.len_utf8()),
        };
        if says > offset - said {
            break;
        }
        (at, said) = (at + length, said + says);
    }
    at.min(raw.len())
}

/// How many bytes a character has that is written so.
fn hexadecimal(digits: &str, count: usize) -> usize {
    let number = digits.get(..count).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    number.and_then(char::from_u32).map_or(1, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each character of a text is found where it stands.
    #[test]
    fn every_character_is_found_again() {
        let texts = [
            r#"x = "SELECT 1""#,
            r"x = 'SELECT \n 1'",
            "x = '''\nSELECT 1\n  FROM tä'''",
            "x = '''SELECT 1'''",
            "x = \"\"\"\nSELECT \\\n    1\"\"\"",
            "x = \"\"\"\r\nS\\u00e4 \\t\\\"T\"\"\"",
        ];
        for source in texts {
            let table = toml::de::DeTable::parse(source).unwrap();
            let (_, value) = table.get_ref().iter().next().unwrap();
            let said = value.get_ref().as_str().unwrap().to_owned();
            let text = Text { text: said.clone(), span: value.span() };
            for (at, c) in said.char_indices() {
                let found = text.place(source, at);
                let there = source[found..].chars().next().unwrap();
                assert!(there == c || there == '\\', "{source:?}: {c:?} at {at} is {there:?}");
            }
        }
        let source = "x = \"\"\"\r\nS\\u00e4 \\t\\\"T\"\"\"";
        let text = Text { text: "Sä \t\"T".to_owned(), span: 4..source.len() };
        assert_eq!(&source[text.place(source, 6)..text.place(source, 7)], "T");
    }
}
