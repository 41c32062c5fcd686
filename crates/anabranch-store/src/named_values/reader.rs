//! Finds the names in a text, and where its statements end.

use super::bodies::Bodies;
use super::{Named, NamedError, NamedStatement, NamedValue, Segment};
use crate::database::Lexical;
use crate::sql_lexer::{Kind, Piece, Pieces, is_part};

/// Words after which something must come, so that a colon is the beginning of a name. Others end an operand.
const EXPECTING: [&str; 22] = [
    "ALL",
    "AND",
    "ANY",
    "BETWEEN",
    "CASE",
    "DISTINCT",
    "ELSE",
    "ESCAPE",
    "FROM",
    "ILIKE",
    "IN",
    "IS",
    "LIKE",
    "NOT",
    "OR",
    "SIMILAR",
    "SOME",
    "SYMMETRIC",
    "THEN",
    "TO",
    "WHEN",
    "ZONE",
];

pub(super) struct Reader<'s> {
    text: &'s str,
    rules: Lexical,
    pieces: Pieces<'s>,
    named: Named,
    statement: Statement<'s>,
}

/// The statement that is being read.
#[derive(Default)]
struct Statement<'s> {
    start: usize,
    /// Whether there is something else than white space and comments.
    has_code: bool,
    values: Vec<NamedValue>,
    /// What is open: `(` and `[`.
    open: Vec<char>,
    /// Whether what was read last can be sliced or is the bound of a slice.
    after_operand: bool,
    bodies: Bodies<'s>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(text: &'s str, rules: Lexical) -> Self {
        let pieces = Pieces::of(text, rules);
        Self { text, rules, pieces, named: Named::default(), statement: Statement::default() }
    }

    pub(super) fn read(mut self) -> Result<Named, NamedError> {
        while let Some(piece) = self.pieces.next() {
            let piece = piece.map_err(|unclosed| NamedError {
                at: unclosed.at,
                said: unclosed.what.to_owned(),
            })?;
            self.take(&piece)?;
        }
        self.end_statement(self.text.len());
        Ok(self.named)
    }

    fn take(&mut self, piece: &Piece) -> Result<(), NamedError> {
        let (text, at) = (&self.text[piece.span.clone()], piece.span.start);
        if piece.kind == Kind::Space {
            return Ok(());
        }
        let is_name = piece.kind == Kind::Mark(':') && self.is_name();
        let statement = &mut self.statement;
        match piece.kind {
            Kind::Mark(';') if statement.open.is_empty() && !statement.bodies.is_inside() => {
                self.end_statement(at);
                self.statement.start = piece.span.end;
                return Ok(());
            }
            Kind::Value => {
                let said = format!("`{text}` is no name of a value; write :field");
                return Err(NamedError { at, said });
            }
            Kind::Mark(':') if is_name => {
                let value = self.name(at)?;
                self.statement.values.push(value);
                self.statement.after_operand = true;
                self.statement.bodies.other();
            }
            Kind::Word => {
                statement.after_operand =
                    !EXPECTING.iter().any(|word| word.eq_ignore_ascii_case(text));
                statement.bodies.word(text, self.rules);
            }
            Kind::Mark(mark) => {
                statement.nest(mark);
                statement.after_operand = matches!(mark, ')' | ']');
                statement.bodies.mark(mark);
            }
            Kind::Colons if text == "::" && !self.rules.colon_casts => {
                let said = "`::` is not a cast in this database; write CAST(… AS TYPE), which every database reads";
                return Err(NamedError { at, said: said.to_owned() });
            }
            Kind::Colons => {
                statement.after_operand = false;
                statement.bodies.other();
            }
            Kind::Number | Kind::Quoted | Kind::Space => {
                statement.after_operand = true;
                statement.bodies.other();
            }
        }
        self.statement.has_code = true;
        Ok(())
    }

    /// Whether a name follows the colon that has been read.
    fn is_name(&self) -> bool {
        let is_slice = self.statement.open.last() == Some(&'[') && self.statement.after_operand;
        name_length(self.pieces.rest()) > 0 && !is_slice
    }

    /// The name after a colon.
    fn name(&mut self, colon: usize) -> Result<NamedValue, NamedError> {
        let mut path = vec![self.key()];
        let mut optional = false;
        loop {
            let (at, rest) = (self.pieces.at(), self.pieces.rest());
            let fail = |said: &str| Err(NamedError { at, said: said.to_owned() });
            if let Some(after) = rest.strip_prefix('.') {
                self.pieces.pass(1);
                match (name_length(after), quoted_name(after)) {
                    (0, Ok(None)) => {
                        return fail(
                            "the name of a field must follow the dot: .field or .\"field\"",
                        );
                    }
                    (0, Ok(Some((name, length)))) => {
                        self.pieces.pass(length);
                        path.push(Segment::Key(name));
                    }
                    (0, Err(())) => return fail("a name in quotes is not closed: \" is missing"),
                    _ => path.push(self.key()),
                }
            } else if let Some(after) = rest.strip_prefix('[') {
                let digits = after.bytes().take_while(u8::is_ascii_digit).count();
                match (after[..digits].parse(), after[digits..].starts_with(']')) {
                    (Ok(number), true) => path.push(Segment::Item(number)),
                    _ => {
                        return fail(
                            "an item of a field is written [0], [1], …; for a subscript of the database \
                             put the name in parentheses, (:field)[…]",
                        );
                    }
                }
                self.pieces.pass(digits + 2);
            } else {
                if rest.starts_with('?') {
                    optional = true;
                    self.pieces.pass(1);
                }
                return Ok(NamedValue { span: colon..self.pieces.at(), path, optional });
            }
        }
    }

    /// The plain name that comes next.
    fn key(&mut self) -> Segment {
        let rest = self.pieces.rest();
        let name = &rest[..name_length(rest)];
        self.pieces.pass(name.len());
        Segment::Key(name.to_owned())
    }

    /// The statement that ends here. What holds only comments is none.
    fn end_statement(&mut self, end: usize) {
        let Statement { start, has_code, values, .. } = std::mem::take(&mut self.statement);
        if !has_code {
            return;
        }
        let inside = &self.text[start..end];
        let start = end - inside.trim_start().len();
        let span = start..start + inside.trim().len();
        self.named.statements.push(written(self.text, span, values));
    }
}

impl Statement<'_> {
    fn nest(&mut self, mark: char) {
        let opens = match mark {
            '(' | '[' => return self.open.push(mark),
            ')' => '(',
            ']' => '[',
            _ => return,
        };
        if self.open.last() == Some(&opens) {
            self.open.pop();
        }
    }
}

/// A statement with numbers for its names. They keep their distance to words beside them: `AND:id` would become the
/// name `AND$1`.
fn written(text: &str, span: std::ops::Range<usize>, values: Vec<NamedValue>) -> NamedStatement {
    let (mut sql, mut places) =
        (String::with_capacity(span.len()), Vec::with_capacity(values.len()));
    let mut done = span.start;
    for (number, value) in values.iter().enumerate() {
        sql += &text[done..value.span.start];
        let start = sql.len();
        if sql.ends_with(|c| is_part(c) || c == '.') {
            sql.push(' ');
        }
        sql += &format!("${}", number + 1);
        done = value.span.end;
        if text[done..span.end].starts_with(is_part) {
            sql.push(' ');
        }
        places.push(start..sql.len());
    }
    sql += &text[done..span.end];
    NamedStatement { span, sql, values, written: places }
}

/// The length of the name that a text begins with.
pub(super) fn name_length(text: &str) -> usize {
    let is_start = |c: char| c.is_alphabetic() || c == '_';
    if !text.starts_with(is_start) {
        return 0;
    }
    text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())
}

/// The name in quotes that a text begins with, and how long it is there; an error if it does not end.
fn quoted_name(text: &str) -> Result<Option<(String, usize)>, ()> {
    let Some(inside) = text.strip_prefix('"') else { return Ok(None) };
    let (mut name, mut chars) = (String::new(), inside.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        if c == '"' && chars.next_if(|(_, next)| *next == '"').is_none() {
            return Ok(Some((name, at + 2)));
        }
        name.push(c);
    }
    Err(())
}
