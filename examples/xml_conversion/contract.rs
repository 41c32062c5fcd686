//! The contract: which parts of a document become which columns, read from TOML and checked.

use crate::kind::Kind;
use crate::path::{Name, Namespaces, Path};
use anabranch::Value;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use toml::Spanned;

/// What a document may be at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub bytes: usize,
    pub depth: usize,
    /// Elements and attributes.
    pub elements: usize,
    /// Characters of one element or attribute.
    pub text: usize,
}

/// A contract that can be kept.
#[derive(Clone, Debug)]
pub struct Contract {
    /// The column with the key of the document.
    pub key: String,
    /// The column that counts the rows of a document.
    pub number: String,
    pub namespaces: Namespaces,
    /// Whether what it does not name is ignored; else the document fails.
    pub ignores_unknown: bool,
    pub ignore: Vec<Path>,
    pub limits: Limits,
    pub tables: Vec<Table>,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    /// The element of which each is a row.
    pub rows: Path,
    /// Rows of one document.
    pub min: usize,
    pub max: usize,
    /// The column with the number of the row around it, and the table of that.
    pub parent: Option<(String, usize)>,
    pub columns: Vec<Column>,
}

impl Table {
    /// Whether it has something of what a path leads to.
    fn uses(&self, path: &Path) -> bool {
        let below = |columns: &Column| {
            let elements = [&self.rows.elements[..], &columns.path.elements].concat();
            let same = elements == path.elements && columns.path.attribute == path.attribute;
            same || (path.attribute.is_none() && elements.starts_with(&path.elements))
        };
        let has_rows = path.attribute.is_none() && self.rows.elements.starts_with(&path.elements);
        has_rows || self.columns.iter().any(below)
    }
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub path: Path,
    pub kind: Kind,
    pub required: bool,
    pub default: Option<Value>,
}

/// Why a contract cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContractError {
    pub line: usize,
    pub problem: String,
}

impl fmt::Display for ContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for ContractError {}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    key: Spanned<String>,
    number: Spanned<String>,
    namespace: Option<String>,
    unknown: Spanned<String>,
    #[serde(default)]
    ignore: Vec<Spanned<String>>,
    #[serde(default)]
    namespaces: BTreeMap<String, String>,
    limits: Spanned<Limits>,
    tables: Spanned<Vec<WrittenTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTable {
    name: Spanned<String>,
    rows: Spanned<String>,
    #[serde(default)]
    min: usize,
    max: Option<Spanned<usize>>,
    parent: Option<Spanned<String>>,
    columns: Vec<WrittenColumn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenColumn {
    name: Spanned<String>,
    path: Spanned<String>,
    r#type: Spanned<String>,
    #[serde(default)]
    required: bool,
    default: Option<Spanned<String>>,
    max: Option<Spanned<usize>>,
    scale: Option<Spanned<usize>>,
    space: Option<Spanned<String>>,
}

type Checked<T> = Result<T, ContractError>;

impl Contract {
    /// Reads a contract; says the line of what is wrong with it.
    pub fn parse(text: &str) -> Checked<Self> {
        let check = Check { text };
        let written: Written = toml::from_str(text).map_err(|error| ContractError {
            line: error.span().map_or(1, |span| check.line(span.start)),
            problem: error.message().to_owned(),
        })?;
        check.contract(written)
    }
}

/// Checks what is written, with the text for its lines.
struct Check<'a> {
    text: &'a str,
}

impl Check<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    fn refuse<T, U>(&self, at: &Spanned<U>, problem: impl Into<String>) -> Checked<T> {
        Err(ContractError { line: self.line(at.span().start), problem: problem.into() })
    }

    fn or_refuse<T, U>(&self, at: &Spanned<U>, checked: Result<T, String>) -> Checked<T> {
        checked.or_else(|problem| self.refuse(at, problem))
    }

    /// A name that every database takes without being asked twice.
    fn sql_name(&self, name: &Spanned<String>) -> Checked<String> {
        let text = name.get_ref();
        let is_start = |c: char| c.is_ascii_lowercase() || c == '_';
        let is_sql = text.starts_with(is_start)
            && text.chars().all(|c| is_start(c) || c.is_ascii_digit())
            && text.len() <= 63;
        match is_sql {
            true => Ok(text.clone()),
            false => self.refuse(name, format!("`{text}` is no name of a table or a column")),
        }
    }

    fn contract(&self, written: Written) -> Checked<Contract> {
        let Limits { bytes, depth, elements, text } = *written.limits.get_ref();
        if [bytes, depth, elements, text].contains(&0) || depth > 1_000 {
            let problem = "limits are at least 1, and a depth at most 1000";
            return self.refuse(&written.limits, problem);
        }
        let ignores_unknown = match written.unknown.get_ref().as_str() {
            "ignore" => true,
            "fail" => false,
            other => {
                let problem = format!("`{other}` is not \"fail\" or \"ignore\"");
                return self.refuse(&written.unknown, problem);
            }
        };
        let namespaces = Namespaces { default: written.namespace, prefixes: written.namespaces };
        let absolute = |path: &Spanned<String>| {
            self.or_refuse(path, Path::absolute(path.get_ref(), &namespaces))
        };
        let ignore = written.ignore.iter().map(absolute).collect::<Checked<Vec<_>>>()?;
        let own = [self.sql_name(&written.key)?, self.sql_name(&written.number)?];
        if own[0] == own[1] {
            return self.refuse(&written.number, format!("`{}` is the key already", own[1]));
        }
        if written.tables.get_ref().is_empty() {
            return self.refuse(&written.tables, "there is no table");
        }
        let mut tables: Vec<Table> = Vec::new();
        for table in written.tables.get_ref() {
            let rows = absolute(&table.rows)?;
            if rows.attribute.is_some() {
                return self.refuse(&table.rows, "an attribute is no row; name an element");
            }
            if rows.elements.len() > depth {
                return self.refuse(&table.rows, format!("it is below the depth of {depth}"));
            }
            if tables.iter().any(|other| other.name == *table.name.get_ref()) {
                let problem = format!("the table `{}` is there already", table.name.get_ref());
                return self.refuse(&table.name, problem);
            }
            if tables.iter().any(|other| other.rows == rows) {
                return self.refuse(&table.rows, "another table has these rows already");
            }
            let table = self.table(table, rows, &own, &tables, &namespaces)?;
            tables.push(table);
        }
        for (at, path) in written.ignore.iter().zip(&ignore) {
            if tables.iter().any(|table| table.uses(path)) {
                return self.refuse(at, "it is ignored and a table has something of it");
            }
        }
        let [key, number] = own;
        let limits = *written.limits.get_ref();
        Ok(Contract { key, number, namespaces, ignores_unknown, ignore, limits, tables })
    }

    fn table(
        &self,
        written: &WrittenTable,
        rows: Path,
        own: &[String; 2],
        before: &[Table],
        namespaces: &Namespaces,
    ) -> Checked<Table> {
        let mut names: BTreeSet<String> = own.iter().cloned().collect();
        let mut unique = |name: &Spanned<String>| -> Checked<String> {
            let text = self.sql_name(name)?;
            match names.insert(text.clone()) {
                true => Ok(text),
                false => self.refuse(name, format!("the column `{text}` is there already")),
            }
        };
        let parent = match &written.parent {
            None => None,
            Some(column) => match around(&rows.elements, before) {
                Some(table) => Some((unique(column)?, table)),
                None => {
                    let problem =
                        "no table above has rows around these; move it up, or leave `parent` out";
                    return self.refuse(column, problem);
                }
            },
        };
        if let Some(max) = &written.max
            && *max.get_ref() < written.min.max(1)
        {
            return self.refuse(max, format!("max is {}, below min or 1", max.get_ref()));
        }
        let mut columns = Vec::new();
        for column in &written.columns {
            let name = unique(&column.name)?;
            let path = Path::relative(column.path.get_ref(), namespaces);
            columns.push(self.column(column, name, self.or_refuse(&column.path, path)?)?);
        }
        Ok(Table {
            name: self.sql_name(&written.name)?,
            rows,
            min: written.min,
            max: written.max.as_ref().map_or(usize::MAX, |max| *max.get_ref()),
            parent,
            columns,
        })
    }

    fn column(&self, written: &WrittenColumn, name: String, path: Path) -> Checked<Column> {
        let kind = match written.r#type.get_ref().as_str() {
            "text" => Kind::Text {
                max: written.max.as_ref().map(|max| *max.get_ref()),
                keep: match &written.space {
                    None => false,
                    Some(space) if space.get_ref() == "collapse" => false,
                    Some(space) if space.get_ref() == "keep" => true,
                    Some(space) => return self.refuse(space, "space is \"collapse\" or \"keep\""),
                },
            },
            "integer" => Kind::Integer,
            "decimal" => {
                Kind::Decimal { scale: written.scale.as_ref().map(|scale| *scale.get_ref()) }
            }
            "date" => Kind::Date,
            "boolean" => Kind::Boolean,
            other => {
                let types = "text, integer, decimal, date and boolean";
                let problem = format!("there is no type `{other}`; there are {types}");
                return self.refuse(&written.r#type, problem);
            }
        };
        match (&kind, &written.max, &written.space, &written.scale) {
            (Kind::Text { .. }, _, _, Some(at)) => return self.refuse(at, "text has no scale"),
            (Kind::Text { .. }, ..) => {}
            (_, Some(at), ..) => return self.refuse(at, "only text has a max"),
            (_, _, Some(at), _) => return self.refuse(at, "only text has a space"),
            (Kind::Decimal { .. }, ..) | (_, _, _, None) => {}
            (_, _, _, Some(at)) => return self.refuse(at, "only decimals have a scale"),
        }
        let default = match &written.default {
            None => None,
            Some(default) if written.required => {
                return self.refuse(default, "what is required needs no default");
            }
            Some(default) => match self.or_refuse(default, kind.read(default.get_ref()))? {
                Some(value) => Some(value),
                None => return self.refuse(default, "the default is empty; leave it out"),
            },
        };
        Ok(Column { name, path, kind, required: written.required, default })
    }
}

/// The table whose rows are around those of a path, the nearest.
fn around(rows: &[Name], tables: &[Table]) -> Option<usize> {
    let around = tables.iter().enumerate().filter(|(_, table)| {
        let outer = &table.rows.elements;
        outer.len() < rows.len() && rows.starts_with(outer)
    });
    around.max_by_key(|(_, table)| table.rows.elements.len()).map(|(index, _)| index)
}
