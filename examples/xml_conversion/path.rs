//! Names and paths: which element or attribute of a document.

use std::collections::BTreeMap;

/// The name of an element or an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub namespace: Option<String>,
    pub local: String,
}

/// How the contract writes namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// Of elements without a prefix.
    pub default: Option<String>,
    pub prefixes: BTreeMap<String, String>,
}

impl Namespaces {
    /// The name that a step of a path stands for. An attribute without a prefix has no namespace, as
    /// everywhere in XML.
    fn name(&self, step: &str, is_attribute: bool) -> Result<Name, String> {
        let (namespace, local) = match step.split_once(':') {
            Some((prefix, local)) => match self.prefixes.get(prefix) {
                Some(namespace) => (Some(namespace.clone()), local),
                None => return Err(format!("there is no namespace of the prefix `{prefix}`")),
            },
            None if is_attribute => (None, step),
            None => (self.default.clone(), step),
        };
        if !is_name(local) {
            return Err(format!("`{step}` is no name of an element or an attribute"));
        }
        Ok(Name { namespace, local: local.to_owned() })
    }

    /// A name as the contract would write it; `{namespace}name` if it does not know the namespace.
    pub fn show(&self, name: &Name, is_attribute: bool) -> String {
        let Name { namespace, local } = name;
        let default = if is_attribute { &None } else { &self.default };
        if namespace == default {
            return local.clone();
        }
        let Some(namespace) = namespace else { return format!("{{}}{local}") };
        match self.prefixes.iter().find(|(_, known)| *known == namespace) {
            Some((prefix, _)) => format!("{prefix}:{local}"),
            None => format!("{{{namespace}}}{local}"),
        }
    }
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || "_-.".contains(c))
}

/// Steps down to an element, or to an attribute of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub elements: Vec<Name>,
    pub attribute: Option<Name>,
}

impl Path {
    /// From the top: `/application/applicant`, `/application/@reference`.
    pub fn absolute(text: &str, namespaces: &Namespaces) -> Result<Self, String> {
        match text.strip_prefix('/') {
            Some("") => Err("`/` names no element".to_owned()),
            Some(steps) => Self::steps(steps, namespaces),
            None => Err(format!("`{text}` does not begin at the top: write `/{text}`")),
        }
    }

    /// From the element of a row: `p:name/p:first`, `@kind`, `amount/@currency`, or `.` for its text.
    pub fn relative(text: &str, namespaces: &Namespaces) -> Result<Self, String> {
        match text {
            "." => Ok(Self { elements: Vec::new(), attribute: None }),
            _ if text.starts_with('/') => {
                Err(format!("`{text}` begins at the top; begin at the element of the row"))
            }
            _ => Self::steps(text, namespaces),
        }
    }

    fn steps(text: &str, namespaces: &Namespaces) -> Result<Self, String> {
        let steps: Vec<&str> = text.split('/').collect();
        let (last, before) = steps.split_last().map_or(("", &[][..]), |(last, rest)| (*last, rest));
        if before.iter().any(|step| step.starts_with('@')) {
            return Err(format!("`{text}` goes on after an attribute"));
        }
        let element = |step: &&str| namespaces.name(step, false);
        let mut elements = before.iter().map(element).collect::<Result<Vec<_>, _>>()?;
        let attribute = match last.strip_prefix('@') {
            Some(name) => Some(namespaces.name(name, true)?),
            None => {
                elements.push(element(&last)?);
                None
            }
        };
        Ok(Self { elements, attribute })
    }

    /// As the contract writes it, each step after a `/`.
    pub fn show(&self, namespaces: &Namespaces) -> String {
        let mut text = String::new();
        for name in &self.elements {
            text = text + "/" + &namespaces.show(name, false);
        }
        if let Some(name) = &self.attribute {
            text = text + "/@" + &namespaces.show(name, true);
        }
        text
    }
}
