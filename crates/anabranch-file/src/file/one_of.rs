//! Lists whose tables are of several shapes, such as events and tasks: which of them each is meant to be.

use super::problem::Problem;
use super::shape::Table;
use super::validate;
use std::ops::Range;
use toml::de::DeTable;

/// Everything that is wrong with a table that is one of these.
pub(super) fn table(
    of: &DeTable<'_>,
    span: &Range<usize>,
    shapes: &'static [&'static Table],
    problems: &mut Vec<Problem>,
) {
    let Some(shape) = meant(of, shapes) else {
        let names: Vec<&str> = shapes.iter().map(|shape| shape.name).collect();
        let said = match names.as_slice() {
            [others @ .., last] => format!("this is neither {} nor {last}", others.join(", ")),
            [] => "this is nothing".to_owned(),
        };
        let has = |shape: &&Table| {
            let keys: Vec<String> = required(shape).map(|key| format!("`{key}`")).collect();
            format!("{} has {}", shape.name, keys.join(" and "))
        };
        let help: Vec<String> = shapes.iter().map(has).collect();
        problems.push(Problem::new(span.clone(), said).help(help.join(", ")));
        return;
    };
    let known = problems.len();
    validate::table(of, span, shape, problems);
    // What is of another one of them is better said than what is known instead.
    for problem in &mut problems[known..] {
        let key = of.keys().find(|key| key.span() == problem.span);
        let other = key.and_then(|key| {
            let has = |shape: &&&Table| shape.keys.iter().any(|of| of.name == key.get_ref());
            shapes.iter().filter(|other| other.name != shape.name).find(has)
        });
        if let (Some(key), Some(other)) = (key, other) {
            problem.help = Some(format!("`{}` is for {}", key.get_ref(), other.name));
        }
    }
}

/// The one of the shapes whose required keys are there, or some of them, if that is one only.
pub(super) fn meant(
    table: &DeTable<'_>,
    shapes: &'static [&'static Table],
) -> Option<&'static Table> {
    let mut meant =
        shapes.iter().filter(|shape| required(shape).any(|key| table.contains_key(key)));
    match (meant.next(), meant.next()) {
        (Some(shape), None) => Some(shape),
        _ => None,
    }
}

fn required(shape: &Table) -> impl Iterator<Item = &'static str> + use<> {
    shape.keys.iter().filter(|key| key.is_required).map(|key| key.name)
}
