//! The pieces of a text of SQL: words, quoted text, comments, marks.
//!
//! It never looks at what they mean together, and every byte of the text is in exactly one piece.

use crate::database::Lexical;
use std::ops::Range;

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it is, in bytes.
    pub span: Range<usize>,
    /// What it is.
    pub kind: Kind,
}

/// What a piece of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// White space or a comment.
    Space,
    /// A keyword or a name.
    Word,
    /// A number.
    Number,
    /// Text or a name in quotes of any kind.
    Quoted,
    /// A value in the notation of the database: `$1`, and what else [`Lexical::marked_values`] says.
    Value,
    /// `::`, a cast, or `:=`.
    Colons,
    /// Any other character.
    Mark(char),
}

/// Something that is opened and not closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclosed {
    /// Where it begins, in bytes.
    pub at: usize,
    /// What it is.
    pub what: &'static str,
}

/// Reads a text piece by piece. After an error there is nothing more.
///
/// ```
/// use anabranch_store::database::Lexical;
/// use anabranch_store::sql_lexer::{Kind, Pieces};
/// let pieces = Pieces::of("SELECT 'a;b'", Lexical::ANY);
/// let kinds: Vec<Kind> = pieces.map(|piece| piece.unwrap().kind).collect();
/// assert_eq!(kinds, [Kind::Word, Kind::Space, Kind::Quoted]);
/// ```
#[derive(Clone, Debug)]
pub struct Pieces<'s> {
    text: &'s str,
    at: usize,
    rules: Lexical,
}

impl<'s> Pieces<'s> {
    /// Of a text, by the rules of a database.
    #[must_use]
    pub fn of(text: &'s str, rules: Lexical) -> Self {
        Self { text, at: 0, rules }
    }

    /// What has not been read yet.
    #[must_use]
    pub fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    /// How far it has read, in bytes.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Goes on after so many bytes more, which end at a character.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// The length and the kind of the next piece.
    fn next_kind(&self) -> Result<(usize, Kind), Unclosed> {
        let (rest, rules) = (self.rest(), self.rules);
        let mut chars = rest.chars();
        let (first, second) = (chars.next().unwrap_or_default(), chars.next());
        let unclosed = |what| Unclosed { at: self.at, what };
        let quoted = |end: char, what| {
            let length = quoted(rest, first.len_utf8(), end, false).ok_or(unclosed(what))?;
            Ok((length, Kind::Quoted))
        };
        let is_quoted = |length: Option<usize>, what| {
            length.map(|length| (length, Kind::Quoted)).ok_or(unclosed(what))
        };
        match (first, second) {
            (c, _) if c.is_whitespace() => {
                Ok((length_while(rest, char::is_whitespace), Kind::Space))
            }
            ('-', Some('-')) => {
                let ends = |c| c == '\n' || (c == '\r' && rules.return_ends_comment);
                Ok((rest.find(ends).unwrap_or(rest.len()), Kind::Space))
            }
            ('/', Some('*')) => match comment(rest, rules.nested_comments) {
                Some(length) => Ok((length, Kind::Space)),
                None => Err(unclosed("a comment is not closed: */ is missing")),
            },
            ('\'', _) => quoted('\'', "a quote is not closed: ' is missing"),
            ('"', _) => quoted('"', "a name in quotes is not closed: \" is missing"),
            ('`', _) if rules.back_quotes => {
                quoted('`', "a name in quotes is not closed: ` is missing")
            }
            ('[', _) if rules.bracket_names => is_quoted(
                rest.find(']').map(|end| end + 1),
                "a name in brackets is not closed: ] is missing",
            ),
            ('e' | 'E', Some('\'')) if rules.escape_strings => {
                is_quoted(escape_string(rest), "a quote is not closed: ' is missing")
            }
            ('$', Some('0'..='9')) => Ok((1 + length_while(&rest[1..], is_part), Kind::Value)),
            ('$', _) if rules.dollar_quotes && dollar_tag(rest).is_some() => is_quoted(
                dollar_quoted(rest),
                "a dollar quote is not closed: its tag is missing at the end",
            ),
            ('$' | '@', Some(c)) if rules.marked_values && is_part(c) => {
                Ok((1 + length_while(&rest[1..], is_part), Kind::Value))
            }
            ('?', _) | (':', Some('0'..='9')) if rules.marked_values => {
                Ok((1 + length_while(&rest[1..], |c| c.is_ascii_digit()), Kind::Value))
            }
            (':', Some(':' | '=')) => Ok((2, Kind::Colons)),
            (c, _) if c.is_ascii_digit() => {
                Ok((length_while(rest, |c| c == '.' || is_part(c)), Kind::Number))
            }
            (c, _) if c != '$' && is_part(c) => Ok((length_while(rest, is_part), Kind::Word)),
            (c, _) => Ok((c.len_utf8(), Kind::Mark(c))),
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece, Unclosed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest().is_empty() {
            return None;
        }
        let start = self.at;
        match self.next_kind() {
            Ok((length, kind)) => {
                self.at += length;
                Some(Ok(Piece { span: start..self.at, kind }))
            }
            Err(unclosed) => {
                self.at = self.text.len();
                Some(Err(unclosed))
            }
        }
    }
}

/// Whether a character may stand in a word.
pub(crate) fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || (!c.is_ascii() && !c.is_whitespace())
}

fn length_while(text: &str, is_so: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_so(c)).unwrap_or(text.len())
}

/// The length of a quoted text whose inside begins `from` here. A doubled quote is text.
fn quoted(text: &str, from: usize, end: char, escapes: bool) -> Option<usize> {
    let mut chars = text[from..].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && escapes {
            chars.next();
        } else if c == end && chars.next_if(|(_, next)| *next == end).is_none() {
            return Some(from + at + end.len_utf8());
        }
    }
    None
}

/// The length of `E'…'`, with the parts that continue it on further lines.
fn escape_string(text: &str) -> Option<usize> {
    let mut length = quoted(text, 2, '\'', true)?;
    loop {
        let between = gap(&text[length..]);
        let has_line = text[length..length + between].contains(['\n', '\r']);
        if !has_line || !text[length + between..].starts_with('\'') {
            return Some(length);
        }
        length = quoted(text, length + between + 1, '\'', true)?;
    }
}

/// The length of white space and `--` comments.
fn gap(text: &str) -> usize {
    let mut length = 0;
    loop {
        length += length_while(&text[length..], char::is_whitespace);
        if !text[length..].starts_with("--") {
            return length;
        }
        length += length_while(&text[length..], |c| c != '\n' && c != '\r');
    }
}

/// The `$tag$` or `$$` that a text begins with.
fn dollar_tag(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('$')?;
    let end = length_while(inside, |c| c != '$' && is_part(c));
    let is_tag =
        inside[end..].starts_with('$') && !inside.starts_with(|c: char| c.is_ascii_digit());
    is_tag.then(|| &text[..end + 2])
}

fn dollar_quoted(text: &str) -> Option<usize> {
    let tag = dollar_tag(text)?;
    let inside = text[tag.len()..].find(tag)?;
    Some(inside + 2 * tag.len())
}

/// The length of a comment.
fn comment(text: &str, nests: bool) -> Option<usize> {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 {
        let next = |mark: &str| text[at..].find(mark);
        let closes = next("*/")?;
        match next("/*").filter(|opens| nests && *opens < closes) {
            Some(opens) => (at, depth) = (at + opens + 2, depth + 1),
            None => (at, depth) = (at + closes + 2, depth - 1),
        }
    }
    Some(at)
}
