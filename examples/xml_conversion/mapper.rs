//! Makes rows of a document, as the contract says.

use crate::contract::{Column, Contract};
use crate::document::{Document, Piece, Refused};
use crate::kind::is_space;
use crate::path::Name;
use anabranch::Value;

/// A row for a table of the contract: its number in the document, that of the row around it if the table
/// wants it, and its columns.
#[derive(Clone, Debug, PartialEq)]
pub struct MappedRow {
    pub table: usize,
    pub values: Vec<Value>,
}

/// A contract, ready to be applied to documents.
#[derive(Clone, Debug)]
pub struct Mapper {
    contract: Contract,
    /// What the paths of the contract lead to; the first is above the root.
    nodes: Vec<Node>,
}

/// What the contract has to say of an element, wherever it is at its path.
#[derive(Clone, Debug, Default)]
struct Node {
    children: Vec<(Name, usize)>,
    attributes: Vec<(Name, Vec<Place>)>,
    text: Vec<Place>,
    /// The table of which it is a row.
    row_of: Option<usize>,
    is_ignored: bool,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
struct Place {
    table: usize,
    column: usize,
}

impl Mapper {
    pub fn new(contract: Contract) -> Self {
        let mut mapper = Self { nodes: vec![Node::default()], contract: contract.clone() };
        for (table, rows) in contract.tables.iter().enumerate() {
            let row = mapper.node(0, &rows.rows.elements);
            mapper.nodes[row].row_of = Some(table);
            for (column, Column { path, .. }) in rows.columns.iter().enumerate() {
                let node = mapper.node(row, &path.elements);
                let place = Place { table, column };
                match &path.attribute {
                    Some(name) => mapper.attribute(node, name).push(place),
                    None => mapper.nodes[node].text.push(place),
                }
            }
        }
        for path in &contract.ignore {
            let node = mapper.node(0, &path.elements);
            match &path.attribute {
                Some(name) => drop(mapper.attribute(node, name)),
                None => mapper.nodes[node].is_ignored = true,
            }
        }
        mapper
    }

    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    fn node(&mut self, from: usize, path: &[Name]) -> usize {
        path.iter().fold(from, |node, name| {
            child(&self.nodes[node].children, name).copied().unwrap_or_else(|| {
                self.nodes.push(Node::default());
                let new = self.nodes.len() - 1;
                self.nodes[node].children.push((name.clone(), new));
                new
            })
        })
    }

    fn attribute(&mut self, node: usize, name: &Name) -> &mut Vec<Place> {
        let attributes = &mut self.nodes[node].attributes;
        let known = attributes.iter().position(|(known, _)| known == name);
        let index = known.unwrap_or_else(|| {
            attributes.push((name.clone(), Vec::new()));
            attributes.len() - 1
        });
        &mut attributes[index].1
    }

    /// The rows of a document, those of the first table first. All of them, or none.
    pub fn map(&self, xml: &str) -> Result<Vec<MappedRow>, Refused> {
        let Contract { namespaces, limits, tables, .. } = &self.contract;
        let mut document = Document::new(xml, namespaces, *limits)?;
        let mut mapping = Mapping {
            mapper: self,
            open: Vec::new(),
            rows: tables.iter().map(|_| None).collect(),
            counts: vec![0; tables.len()],
            done: Vec::new(),
        };
        loop {
            match document.next()? {
                Piece::Start(name, attributes) => {
                    mapping.start(&document, &name, &attributes)?;
                }
                Piece::Text(text) => mapping.text(&document, &text)?,
                Piece::End => mapping.end()?,
                Piece::Over => return mapping.finish(),
            }
        }
    }
}

fn child<'a, T>(among: &'a [(Name, T)], name: &Name) -> Option<&'a T> {
    among.iter().find(|(known, _)| known == name).map(|(_, found)| found)
}

/// A document on its way to rows.
struct Mapping<'m> {
    mapper: &'m Mapper,
    /// The elements that are open.
    open: Vec<Element>,
    /// The row of each table that is open.
    rows: Vec<Option<OpenRow>>,
    /// How many rows there are of each table.
    counts: Vec<usize>,
    done: Vec<MappedRow>,
}

struct Element {
    /// What the contract says of it; nothing if it is ignored.
    node: Option<usize>,
    path: String,
    text: String,
}

struct OpenRow {
    number: usize,
    cells: Vec<Cell>,
}

#[derive(Clone, PartialEq)]
enum Cell {
    Missing,
    /// It was there, with nothing in it.
    Empty,
    Is(Value),
}

impl Mapping<'_> {
    fn start(
        &mut self,
        document: &Document<'_>,
        name: &Name,
        attributes: &[(Name, String)],
    ) -> Result<(), Refused> {
        let nodes = &self.mapper.nodes;
        let ignores_unknown = self.mapper.contract.ignores_unknown;
        let parent = self.open.last().map_or(Some(0), |element| element.node);
        let node = parent.and_then(|parent| child(&nodes[parent].children, name).copied());
        // A root that is unknown is another kind of document, whatever else is ignored.
        if parent.is_some() && node.is_none() && (!ignores_unknown || self.open.is_empty()) {
            return document.refuse("is not in the contract");
        }
        let node = node.filter(|node| !nodes[*node].is_ignored);
        self.open.push(Element { node, path: document.path(), text: String::new() });
        let Some(node) = node else { return Ok(()) };
        if let Some(table) = nodes[node].row_of {
            let written = &self.mapper.contract.tables[table];
            self.counts[table] += 1;
            let number = self.counts[table];
            if number > written.max {
                return document.refuse(format!("is more than the {} allowed", written.max));
            }
            let cells = vec![Cell::Missing; written.columns.len()];
            self.rows[table] = Some(OpenRow { number, cells });
        }
        for (name, value) in attributes {
            match child(&nodes[node].attributes, name) {
                Some(places) => {
                    let stored = places.iter().try_for_each(|place| self.store(*place, value));
                    stored.or_else(|problem| document.refuse_attribute(name, problem))?;
                }
                None if ignores_unknown || is_of_xml(name) => {}
                None => return document.refuse_attribute(name, "is not in the contract"),
            }
        }
        Ok(())
    }

    fn text(&mut self, document: &Document<'_>, text: &str) -> Result<(), Refused> {
        let Some(element) = self.open.last_mut() else { return Ok(()) };
        let Some(node) = element.node else { return Ok(()) };
        if !self.mapper.nodes[node].text.is_empty() {
            element.text += text;
        } else if !self.mapper.contract.ignores_unknown && !text.chars().all(is_space) {
            return document.refuse("has text, which is not in the contract");
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Refused> {
        let Some(element) = self.open.pop() else { return Ok(()) };
        let Some(node) = element.node else { return Ok(()) };
        let node = &self.mapper.nodes[node];
        let stored = node.text.iter().try_for_each(|place| self.store(*place, &element.text));
        stored.map_err(|problem| Refused { path: element.path.clone(), problem })?;
        match node.row_of {
            Some(table) => self.end_row(table, &element.path),
            None => Ok(()),
        }
    }

    /// Puts a value into the open row of a table; says what is wrong with it.
    fn store(&mut self, place: Place, text: &str) -> Result<(), String> {
        let kind = &self.mapper.contract.tables[place.table].columns[place.column].kind;
        // The path of a column begins at its row, so that is open.
        let Some(row) = &mut self.rows[place.table] else { return Ok(()) };
        let cell = &mut row.cells[place.column];
        if *cell != Cell::Missing {
            return Err("is there more than once".to_owned());
        }
        *cell = kind.read(text)?.map_or(Cell::Empty, Cell::Is);
        Ok(())
    }

    fn end_row(&mut self, table: usize, path: &str) -> Result<(), Refused> {
        let contract = &self.mapper.contract;
        let written = &contract.tables[table];
        let Some(row) = self.rows[table].take() else { return Ok(()) };
        let mut values = vec![Value::from(row.number)];
        if let Some((_, parent)) = &written.parent {
            values.push(Value::from(self.rows[*parent].as_ref().map(|row| row.number)));
        }
        for (column, cell) in written.columns.iter().zip(row.cells) {
            let problem = match cell {
                Cell::Is(value) => {
                    values.push(value);
                    continue;
                }
                Cell::Missing => "is missing",
                Cell::Empty => "is empty",
            };
            if column.required {
                let path = format!("{path}{}", column.path.show(&contract.namespaces));
                return Err(Refused { path, problem: problem.to_owned() });
            }
            values.push(column.default.clone().unwrap_or(Value::Null));
        }
        self.done.push(MappedRow { table, values });
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<MappedRow>, Refused> {
        let contract = &self.mapper.contract;
        for (table, count) in contract.tables.iter().zip(&self.counts) {
            if *count < table.min {
                let path = table.rows.show(&contract.namespaces);
                let problem = format!("is there {count} times, and at least {}", table.min);
                return Err(Refused { path, problem: problem + " is required" });
            }
        }
        // Rows end after those inside of them; their order in one table stays.
        self.done.sort_by_key(|row| row.table);
        Ok(self.done)
    }
}

/// `xml:lang` and the like may be everywhere.
fn is_of_xml(name: &Name) -> bool {
    name.namespace.as_deref() == Some("http://www.w3.org/XML/1998/namespace")
}
