//! Statements that hold statements: the bodies of triggers and of functions. A `;` inside ends no statement.

use crate::database::Lexical;

/// How many words decide what a statement makes: `CREATE OR REPLACE FUNCTION`.
const DECIDING: usize = 4;

/// The words of a statement as far as they say whether it has a body, and where that ends.
#[derive(Debug, Default)]
pub(super) struct Bodies<'s> {
    first: Vec<&'s str>,
    last: Last<'s>,
    inside: Option<Inside>,
}

#[derive(Debug)]
enum Inside {
    /// It ends with an END that begins a statement: there, END may be a name elsewhere.
    Trigger,
    /// It ends with the END that is of no CASE: so many are open.
    Atomic { open: usize },
}

/// What was read last.
#[derive(Debug, Default)]
enum Last<'s> {
    Word(&'s str),
    Mark(char),
    #[default]
    Other,
}

impl<'s> Bodies<'s> {
    /// Whether a `;` is one of a body.
    pub(super) fn is_inside(&self) -> bool {
        self.inside.is_some()
    }

    pub(super) fn mark(&mut self, mark: char) {
        self.last = Last::Mark(mark);
    }

    /// Neither a word nor a mark.
    pub(super) fn other(&mut self) {
        self.last = Last::Other;
    }

    pub(super) fn word(&mut self, word: &'s str, rules: Lexical) {
        if self.first.len() < DECIDING {
            self.first.push(word);
        }
        let is = |wanted: &str| word.eq_ignore_ascii_case(wanted);
        let begins = self.follows("BEGIN") || matches!(self.last, Last::Mark(';'));
        // `t.end` and `AS end` are names.
        let is_name = self.follows("AS") || matches!(self.last, Last::Mark('.'));
        match &mut self.inside {
            None => self.inside = self.opened(word, rules),
            Some(Inside::Trigger) if is("END") && begins => self.inside = None,
            Some(Inside::Atomic { open }) if is("CASE") && !is_name => *open += 1,
            Some(Inside::Atomic { open: 1 }) if is("END") && !is_name => self.inside = None,
            Some(Inside::Atomic { open }) if is("END") && !is_name => *open -= 1,
            _ => {}
        }
        self.last = Last::Word(word);
    }

    /// The body that a word begins.
    fn opened(&self, word: &str, rules: Lexical) -> Option<Inside> {
        let is = |wanted: &str| word.eq_ignore_ascii_case(wanted);
        if rules.trigger_bodies && is("BEGIN") && self.makes(&["TRIGGER"]) {
            return Some(Inside::Trigger);
        }
        let is_atomic = rules.atomic_bodies && is("ATOMIC") && self.follows("BEGIN");
        let is_body = is_atomic && self.makes(&["FUNCTION", "PROCEDURE"]);
        is_body.then_some(Inside::Atomic { open: 1 })
    }

    fn follows(&self, wanted: &str) -> bool {
        matches!(self.last, Last::Word(word) if word.eq_ignore_ascii_case(wanted))
    }

    /// Whether the statement is `CREATE …` of one of these.
    fn makes(&self, things: &[&str]) -> bool {
        let mut words = self.first.iter();
        let is = |word: Option<&&str>, wanted: &[&str]| {
            word.is_some_and(|word| wanted.iter().any(|wanted| word.eq_ignore_ascii_case(wanted)))
        };
        if !is(words.next(), &["CREATE"]) {
            return false;
        }
        let between = ["OR", "REPLACE", "TEMP", "TEMPORARY"];
        let made = words.find(|word| !is(Some(word), &between));
        is(made, things)
    }
}
