//! What a program has said last on standard error: of a trace, the error and its place.

use std::collections::VecDeque;

/// How many lines are kept. A trace of Node has its error before ten frames, and more after them.
const MOST_LINES: usize = 24;
/// How many characters of a line are kept.
const MOST_CHARS: usize = 500;

/// How many lines before the error Node says its place, at the most.
const NEAR: usize = 3;

/// The last lines.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    lines: VecDeque<String>,
}

impl LastWords {
    pub(super) fn hear(&mut self, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        if self.lines.len() == MOST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.chars().take(MOST_CHARS).collect());
    }

    /// What is told of them: the error, and where it is in the program if a line says so.
    pub(super) fn told(&self) -> Option<String> {
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        let lines = match lines.split_last() {
            Some((version, rest)) if version.starts_with("Node.js v") && !rest.is_empty() => rest,
            _ => &lines,
        };
        let error = error_of_frames(lines).unwrap_or(lines.len().checked_sub(1)?);
        let said = lines[error].trim();
        Some(match place(lines, error).filter(|place| !said.contains(place)) {
            Some(place) => format!("{said} ({place})"),
            None => said.to_owned(),
        })
    }
}

fn is_frame(line: &str) -> bool {
    line.starts_with(' ') && line.trim_start().starts_with("at ")
}

/// Node says its frames, and then what the error holds, after the error.
fn error_of_frames(lines: &[&str]) -> Option<usize> {
    let last = lines.iter().rposition(|line| is_frame(line))?;
    if lines[last + 1..].iter().any(|line| !line.starts_with(' ') && *line != "}") {
        return None;
    }
    lines[..last].iter().rposition(|line| !is_frame(line))
}

/// Where the error is in the program, if the lines around it say so. Those of an older trace do not.
fn place<'a>(lines: &[&'a str], error: usize) -> Option<&'a str> {
    let (before, after) = (&lines[..error], &lines[error + 1..]);
    // Python says its frames before the error, the innermost last, and the code of each after it.
    let indented = before.iter().rev().take_while(|line| line.starts_with(' '));
    let of_python = |line: &str| line.starts_with("File \"") && !line.starts_with("File \"<");
    if let Some(place) = indented.map(|line| line.trim_start()).find(|line| of_python(line)) {
        return Some(place);
    }
    // Node says the place and the code before the error, with a mark below it.
    let near = &before[before.len().saturating_sub(NEAR)..];
    let is_place = |line: &&&str| {
        let (file, number) = line.rsplit_once(':').unwrap_or_default();
        (file.starts_with("file:///") || file.starts_with('/')) && number.parse::<u32>().is_ok()
    };
    if let Some(place) = near.iter().rfind(is_place) {
        return Some(place);
    }
    let frames = after.iter().take_while(|line| is_frame(line));
    let frame = frames.into_iter().find(|line| !line.contains("node:"))?;
    Some(frame.trim_start().trim_start_matches("at "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(said: &str) -> Option<String> {
        let mut words = LastWords::default();
        said.lines().for_each(|line| words.hear(line));
        words.told()
    }

    fn is(said: &str, expected: &str) {
        assert_eq!(told(said).as_deref(), Some(expected), "of: {said}");
    }

    #[test]
    fn without_a_trace_it_is_the_last_line() {
        assert_eq!(told(" \n\n"), None);
        is("began\nthe disk is full\n\n", "the disk is full");
        is("Node.js v20.11.0", "Node.js v20.11.0");
        // A trace of something that was caught is not the place of what comes after it.
        is(
            "  File \"/srv/risk.py\", line 3\nValueError: no\ngoing on\nout of memory",
            "out of memory",
        );
        is("Error: no\n    at handle (/srv/risk.js:3:7)\nout of memory", "out of memory");
        let long = "x".repeat(10_000);
        assert_eq!(told(&long).map(|said| said.len()), Some(MOST_CHARS));
        is(&format!("{}last", "line\n".repeat(1_000)), "last");
    }

    #[test]
    fn of_python_it_is_the_error_and_its_line() {
        is(
            "  File \"/srv/risk.py\", line 3\n    def handle(event tx):\n                     ^^\n\
             SyntaxError: invalid syntax\n",
            "SyntaxError: invalid syntax (File \"/srv/risk.py\", line 3)",
        );
        is(
            "Traceback (most recent call last):\n  File \"/srv/risk.py\", line 1, in <module>\n    import rates\n  \
             File \"<frozen importlib._bootstrap>\", line 1007, in _find_and_load\n\
             ModuleNotFoundError: No module named 'rates'",
            "ModuleNotFoundError: No module named 'rates' (File \"/srv/risk.py\", line 1, in <module>)",
        );
    }

    #[test]
    fn of_node_it_is_the_error_and_its_line() {
        let frames =
            "    at ModuleJob.run (node:internal/modules/esm/module_job:234:25)\n".repeat(8);
        is(
            &format!(
                "file:///srv/risk.mjs:3\nthrow new Error(\"boom\");\n      ^\n\nError: boom\n    at \
                 file:///srv/risk.mjs:3:7\n{frames}\nNode.js v20.11.0\n"
            ),
            "Error: boom (file:///srv/risk.mjs:3)",
        );
        is(
            &format!(
                "node:internal/modules/esm/resolve:854\n  throw new ERR_MODULE_NOT_FOUND(name);\n        ^\n\n\
                 Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'rates'\n{frames}    at async x \
                 (node:internal/y:3:1) {{\n  code: 'ERR_MODULE_NOT_FOUND'\n}}\n\nNode.js v20.11.0\n"
            ),
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'rates'",
        );
        is(
            "Error: boom\n    at handle (/srv/risk.js:3:7)\n    at node:internal/x:1:1\n",
            "Error: boom (handle (/srv/risk.js:3:7))",
        );
        is(
            "file:///srv/risk.mjs:3\n  const a b;\n          ^\n\nSyntaxError: Missing initializer\n\
             Node.js v20.11.0",
            "SyntaxError: Missing initializer (file:///srv/risk.mjs:3)",
        );
    }
}
