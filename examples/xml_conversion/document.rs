//! A document, read element by element within limits. Nothing is fetched, no entity of its own is expanded,
//! and whatever is wrong is said with the path where it is.

use crate::contract::Limits;
use crate::kind::{is_space, shown};
use crate::path::{Name, Namespaces};
use quick_xml::errors::Error;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesDecl, BytesRef, BytesStart, Event};
use quick_xml::name::ResolveResult;
use quick_xml::{NsReader, XmlVersion};
use std::collections::HashMap;
use std::fmt;

/// How much of a path is shown.
const SHOWN_PATH: usize = 300;

/// Why a document is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub path: String,
    pub problem: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: String = self.path.chars().take(SHOWN_PATH).collect();
        let rest = if short.len() < self.path.len() { "…" } else { "" };
        write!(f, "{short}{rest}: {}", self.problem)
    }
}

impl std::error::Error for Refused {}

/// What comes next in a document.
#[derive(Debug)]
pub enum Piece {
    Start(Name, Vec<(Name, String)>),
    Text(String),
    End,
    /// The document is over, and all was closed.
    Over,
}

/// An element that is open.
struct Level {
    /// As it is shown, with its place among its like if it is not the first.
    step: String,
    /// How many there are of each name in it.
    children: HashMap<String, usize>,
    characters: usize,
}

/// A document on its way.
pub struct Document<'d> {
    text: &'d str,
    reader: NsReader<&'d [u8]>,
    namespaces: &'d Namespaces,
    limits: Limits,
    open: Vec<Level>,
    elements: usize,
    /// Whether something has come yet, and whether the root was there.
    began: bool,
    had_root: bool,
}

impl<'d> Document<'d> {
    /// A document, which may not be larger than the limit.
    pub fn new(text: &'d str, namespaces: &'d Namespaces, limits: Limits) -> Result<Self, Refused> {
        if text.len() > limits.bytes {
            return Err(too_large(text.len(), limits));
        }
        let mut reader = NsReader::from_str(text);
        let config = reader.config_mut();
        config.enable_all_checks(true);
        config.expand_empty_elements = true;
        let (open, elements) = (Vec::new(), 0);
        let (began, had_root) = (false, false);
        Ok(Self { text, reader, namespaces, limits, open, elements, began, had_root })
    }

    /// Where it is.
    pub fn path(&self) -> String {
        match self.open.is_empty() {
            true => "/".to_owned(),
            false => self.open.iter().fold(String::new(), |path, level| path + "/" + &level.step),
        }
    }

    /// Refuses the document for what is here.
    pub fn refuse<T>(&self, problem: impl Into<String>) -> Result<T, Refused> {
        Err(Refused { path: self.path(), problem: problem.into() })
    }

    /// Refuses it for an attribute of what is here.
    pub fn refuse_attribute<T>(
        &self,
        name: &Name,
        problem: impl Into<String>,
    ) -> Result<T, Refused> {
        let path = format!("{}/@{}", self.path(), self.namespaces.show(name, true));
        Err(Refused { path, problem: problem.into() })
    }

    /// The next piece.
    pub fn next(&mut self) -> Result<Piece, Refused> {
        loop {
            let event = match self.reader.read_event() {
                Ok(event) => event,
                Err(error) => return self.ill_formed(&error),
            };
            let is_first = !std::mem::replace(&mut self.began, true);
            match event {
                Event::Start(start) | Event::Empty(start) => return self.start(&start),
                Event::End(_) => {
                    // The names were checked, so there is one.
                    self.open.pop();
                    return Ok(Piece::End);
                }
                Event::Text(text) => {
                    let text = text.xml10_content();
                    if let Some(piece) = self.text(text.into_owned(), false)? {
                        return Ok(piece);
                    }
                }
                Event::CData(text) => {
                    let text = text.xml10_content();
                    if let Some(piece) = self.text(text.into_owned(), true)? {
                        return Ok(piece);
                    }
                }
                Event::GeneralRef(reference) => {
                    let text = self.reference(&reference)?;
                    if let Some(piece) = self.text(text, true)? {
                        return Ok(piece);
                    }
                }
                Event::Decl(declaration) if is_first => self.declaration(&declaration)?,
                Event::Decl(_) => return self.refuse("an XML declaration stands at the beginning"),
                Event::DocType(_) => {
                    return self.refuse("a document type definition (DTD) is refused");
                }
                Event::Comment(_) | Event::PI(_) => {}
                Event::Eof if !self.open.is_empty() => {
                    return self.refuse("not well-formed: the document ends before this element");
                }
                Event::Eof if !self.had_root => return self.refuse("there is no element"),
                Event::Eof => return Ok(Piece::Over),
            }
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<Piece, Refused> {
        if self.open.is_empty() && std::mem::replace(&mut self.had_root, true) {
            return self.refuse("not well-formed: there is a second root element");
        }
        let (namespace, local) = self.reader.resolver().resolve_element(start.name());
        let name = self.name(&namespace, local.into_inner())?;
        let mut step = self.namespaces.show(&name, false);
        if let Some(parent) = self.open.last_mut() {
            let place = parent.children.entry(step.clone()).or_default();
            *place += 1;
            if *place > 1 {
                step += &format!("[{place}]");
            }
        }
        self.open.push(Level { step, children: HashMap::new(), characters: 0 });
        if self.open.len() > self.limits.depth {
            return self.refuse(format!("nested deeper than {} elements", self.limits.depth));
        }
        self.count()?;
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            let attribute = match attribute {
                Ok(attribute) => attribute,
                Err(error) => return self.ill_formed(&Error::InvalidAttr(error)),
            };
            if attribute.key.as_namespace_binding().is_none() {
                self.count()?;
                attributes.push(self.attribute(&attribute)?);
            }
        }
        Ok(Piece::Start(name, attributes))
    }

    fn name(&self, namespace: &ResolveResult<'_>, local: &str) -> Result<Name, Refused> {
        let namespace = match namespace {
            ResolveResult::Unbound => None,
            ResolveResult::Bound(namespace) => Some(namespace.into_inner().to_owned()),
            ResolveResult::Unknown(prefix) => {
                let problem =
                    format!("not well-formed: the prefix {} is not declared", shown(prefix));
                return self.refuse(problem);
            }
        };
        Ok(Name { namespace, local: local.to_owned() })
    }

    fn attribute(&self, attribute: &Attribute<'_>) -> Result<(Name, String), Refused> {
        let (namespace, local) = self.reader.resolver().resolve_attribute(attribute.key);
        let name = self.name(&namespace, local.into_inner())?;
        if attribute.value.contains('<') {
            return self.refuse_attribute(&name, "not well-formed: there is a `<` in it");
        }
        let value = match attribute.normalized_value(XmlVersion::Explicit1_0) {
            Ok(value) => value.into_owned(),
            Err(error) => return self.refuse_attribute(&name, format!("not well-formed: {error}")),
        };
        if value.chars().count() > self.limits.text {
            return self.refuse_attribute(&name, self.too_long());
        }
        match value.chars().find(|c| !is_legal(*c)) {
            Some(c) => self.refuse_attribute(&name, illegal(c)),
            None => Ok((name, value)),
        }
    }

    /// Text of the element that is open. Outside of the root there may be whitespace, and nothing else.
    fn text(&mut self, text: String, is_said: bool) -> Result<Option<Piece>, Refused> {
        if let Some(c) = text.chars().find(|c| !is_legal(*c)) {
            return self.refuse(illegal(c));
        }
        let limit = self.limits.text;
        let Some(level) = self.open.last_mut() else {
            return match is_said || !text.chars().all(is_space) {
                true => self.refuse("not well-formed: there is text outside of the root element"),
                false => Ok(None),
            };
        };
        level.characters += text.chars().count();
        match level.characters > limit {
            true => self.refuse(self.too_long()),
            false => Ok(Some(Piece::Text(text))),
        }
    }

    /// One of the five that XML has, or a character by its number.
    fn reference(&self, reference: &BytesRef<'_>) -> Result<String, Refused> {
        match reference.resolve_char_ref() {
            Ok(Some(c)) => Ok(c.to_string()),
            Ok(None) => match resolve_xml_entity(reference) {
                Some(text) => Ok(text.to_owned()),
                None => self.refuse(format!("the entity {} is not known", shown(reference))),
            },
            Err(error) => self.refuse(format!("not well-formed: {error}")),
        }
    }

    /// The text comes from a database, which has decoded it.
    fn declaration(&self, declaration: &BytesDecl<'_>) -> Result<(), Refused> {
        match declaration.version() {
            Ok(version) if version == "1.0" => {}
            Ok(version) => return self.refuse(format!("XML {} is not 1.0", shown(&version))),
            Err(error) => return self.ill_formed(&error),
        }
        match declaration.encoding() {
            None => Ok(()),
            Some(Ok(name)) if name.eq_ignore_ascii_case("utf-8") => Ok(()),
            Some(Ok(name)) if name.eq_ignore_ascii_case("us-ascii") && self.text.is_ascii() => {
                Ok(())
            }
            Some(Ok(name)) => self
                .refuse(format!("the encoding is declared as {}, and it is UTF-8", shown(&name))),
            Some(Err(error)) => self.ill_formed(&Error::InvalidAttr(error)),
        }
    }

    fn count(&mut self) -> Result<(), Refused> {
        self.elements += 1;
        match self.elements > self.limits.elements {
            true => self.refuse(format!(
                "there are more than {} elements and attributes",
                self.limits.elements
            )),
            false => Ok(()),
        }
    }

    fn too_long(&self) -> String {
        format!("has more than {} characters", self.limits.text)
    }

    fn ill_formed<T>(&self, error: &Error) -> Result<T, Refused> {
        let at = usize::try_from(self.reader.error_position()).unwrap_or(usize::MAX);
        let line = self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        let what = match error {
            Error::IllFormed(error) => error.to_string(),
            Error::Syntax(error) => error.to_string(),
            error => error.to_string(),
        };
        self.refuse(format!("not well-formed in line {line}: {what}"))
    }
}

/// Why a document of so many bytes is not even looked at.
pub fn too_large(bytes: usize, limits: Limits) -> Refused {
    let problem = format!("has {bytes} bytes, more than {}", limits.bytes);
    Refused { path: "/".to_owned(), problem }
}

/// Whether XML 1.0 has this character.
fn is_legal(c: char) -> bool {
    is_space(c) || (c >= ' ' && c != '\u{fffe}' && c != '\u{ffff}')
}

fn illegal(c: char) -> String {
    format!("not well-formed: the character U+{:04X} is in it", u32::from(c))
}
