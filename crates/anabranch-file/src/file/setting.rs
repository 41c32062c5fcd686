//! A text that may be taken from the environment, when it is needed.

use super::problem::Problem;
use super::text::Text;
use std::fmt;

/// A text of the file, or `${VARIABLE}`, which is looked up when it is used: a command that does not need it does
/// not fail without it.
#[derive(Clone, PartialEq, Eq)]
pub struct Setting(Text);

impl Setting {
    /// Reads a setting. A variable is the whole of it.
    pub(super) fn new(text: Text) -> Result<Self, Problem> {
        let setting = Self(text);
        if setting.variable().is_none() && setting.0.text.contains("${") {
            let said = "a variable must be the whole value, as in \"${NAME}\"";
            // What stands beside the variable may be a password.
            let problem = Problem::new(setting.0.span, said).secret();
            return Err(problem.help("put the whole value into one variable"));
        }
        Ok(setting)
    }

    /// The variable that it is taken from, if it is.
    fn variable(&self) -> Option<&str> {
        let name = self.0.text.strip_prefix("${")?.strip_suffix('}')?;
        let is_name = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        is_name.then_some(name)
    }

    /// Whether the file itself says it.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.variable().is_none()
    }

    /// Where it stands.
    #[must_use]
    pub fn span(&self) -> std::ops::Range<usize> {
        self.0.span.clone()
    }

    /// What it says, from the environment if the file says so.
    pub fn resolve(&self) -> Result<String, Problem> {
        let Some(name) = self.variable() else { return Ok(self.0.text.clone()) };
        std::env::var(name).map_err(|_| {
            let said = format!("the variable {name} is not set");
            let help = format!("set it, for example: export {name}=…");
            Problem::new(self.0.span.clone(), said).help(help).about_environment()
        })
    }
}

/// Not what it says: that may be a secret.
impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.variable() {
            Some(name) => write!(f, "${{{name}}}"),
            None => f.write_str("Setting(…)"),
        }
    }
}
