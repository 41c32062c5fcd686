//! What is wrong with a file: where, what, and what to do.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The text of a file, and where it is.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it is, as it was named.
    pub path: PathBuf,
    /// Its text.
    pub text: Arc<str>,
}

/// A mistake in a file, or what looks like one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Where it is, in bytes of the text.
    pub span: Range<usize>,
    /// What is wrong.
    pub said: String,
    /// What to do.
    pub help: Option<String>,
    /// Whether what stands there is not to be shown.
    pub(crate) is_secret: bool,
    /// Whether it is another one, or none, in another environment.
    pub(crate) is_about_environment: bool,
}

/// All mistakes of a file, or all warnings, in the order in which they stand there.
#[derive(Clone, Debug)]
pub struct Problems {
    source: Source,
    all: Vec<Problem>,
    are_warnings: bool,
}

/// Lines and columns are counted from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Source {
    /// Reads a file.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        Ok(Self::new(path, std::fs::read_to_string(path)?))
    }

    /// A text that is said to be at a path.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<Arc<str>>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// The directory that it is in.
    #[must_use]
    pub fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// The line and column of a byte.
    #[must_use]
    pub fn place(&self, at: usize) -> Place {
        let before = self.text.get(..at.min(self.text.len())).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl Problem {
    pub(crate) fn new(span: Range<usize>, said: impl Into<String>) -> Self {
        Self { span, said: said.into(), help: None, is_secret: false, is_about_environment: false }
    }

    /// It is another one, or none, in another environment.
    pub(crate) fn about_environment(mut self) -> Self {
        self.is_about_environment = true;
        self
    }

    /// What stands there is not shown.
    pub(crate) fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl Problems {
    /// The mistakes of a file, if there are any.
    pub(crate) fn none_in(source: &Source, mut all: Vec<Problem>) -> Result<(), Self> {
        if all.is_empty() {
            return Ok(());
        }
        sort(&mut all);
        Err(Self { source: source.clone(), all, are_warnings: false })
    }

    /// What may be meant as it is, or may pass.
    #[must_use]
    pub fn warnings(source: &Source, mut all: Vec<Problem>) -> Self {
        sort(&mut all);
        Self { source: source.clone(), all, are_warnings: true }
    }

    /// One mistake of a file.
    #[must_use]
    pub fn one(source: &Source, problem: Problem) -> Self {
        Self { source: source.clone(), all: vec![problem], are_warnings: false }
    }

    /// The mistakes.
    #[must_use]
    pub fn all(&self) -> &[Problem] {
        &self.all
    }

    /// The file.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Each with its line, underlined; in colours for a terminal.
    #[must_use]
    pub fn render(&self, in_colours: bool) -> String {
        let renderer = if in_colours { Renderer::styled() } else { Renderer::plain() };
        let level = if self.are_warnings { Level::WARNING } else { Level::ERROR };
        let shown: Vec<String> = self
            .all
            .iter()
            .map(|problem| {
                let Range { start, end } = problem.span;
                let end = end.clamp(start, self.source.text.len());
                // What goes over several lines is marked where it begins.
                let line_end = self.source.text[start..end].find('\n').map_or(end, |at| start + at);
                let text = match problem.is_secret {
                    true => hidden(&self.source.text, start..end),
                    false => Cow::Borrowed(&*self.source.text),
                };
                let snippet = Snippet::source(text)
                    .path(self.source.path.to_string_lossy().into_owned())
                    .annotation(AnnotationKind::Primary.span(start..line_end));
                let mut group = level.clone().primary_title(problem.said.as_str()).element(snippet);
                if let Some(help) = &problem.help {
                    group = group.element(Level::HELP.message(help.as_str()));
                }
                renderer.render(&[group])
            })
            .collect();
        shown.join("\n\n")
    }
}

/// A text in which a part cannot be read, and stands where it stood.
fn hidden(text: &str, part: Range<usize>) -> Cow<'_, str> {
    let stars: String =
        text[part.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { '*' }).collect();
    let mut text = text.to_owned();
    text.replace_range(part, &stars);
    Cow::Owned(text)
}

fn sort(all: &mut Vec<Problem>) {
    all.sort_by_key(|problem| (problem.span.start, problem.span.end));
    all.dedup();
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_shown_with_its_line_and_what_to_do() {
        let source = Source::new("a/b.toml", "x = 1\nläne = 2\n");
        assert_eq!(source.directory(), Path::new("a"));
        assert_eq!(Source::new("b.toml", "").directory(), Path::new("."));
        assert_eq!(source.place(9), Place { line: 2, column: 3 });
        let problem = Problem::new(6..11, "unknown key `läne`").help("did you mean `lanes`?");
        let problems = Problems::none_in(&source, vec![problem]).unwrap_err();
        let shown = problems.to_string();
        for part in ["error: unknown key `läne`", "a/b.toml:2:1", "2 | läne = 2", "^^^^", "lanes`?"]
        {
            assert!(shown.contains(part), "{shown}");
        }
        assert!(!shown.contains('\u{1b}'));
        assert!(problems.render(true).contains('\u{1b}'));
    }
}
