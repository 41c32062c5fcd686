//! The two versions of a projection, in words.

use crate::status::in_words;
use anabranch::operate::{
    ChangedColumn, ColumnDifference, SwitchPreview, TableColumn, TableDifference, VersionState,
};
use anabranch_terminal::output;
use anabranch_terminal::say;

/// How two tables differ, on standard output.
pub(super) fn difference(difference: &TableDifference) -> anyhow::Result<()> {
    let TableDifference { table, only_old, only_new, examples, columns, .. } = difference;
    let by = match columns.is_same() {
        true => String::new(),
        false => format!(" (compared by {})", columns.compared.join(", ")),
    };
    match &columns.incomparable {
        Some(reason) => output::line(format_args!("{table}: cannot be compared: {reason}"))?,
        None if difference.is_same() => output::line(format_args!("{table}: the same{by}"))?,
        None => output::line(format_args!(
            "{table}: {} only in the old version (-), {only_new} only in the new one (+){by}",
            output::count(*only_old, "row")
        ))?,
    }
    of_columns(columns).iter().try_for_each(|line| output::line(format_args!("  {line}")))?;
    examples.iter().try_for_each(|example| output::line(format_args!("  {example}")))
}

/// What a switch would do, for the person who is to confirm it.
pub(super) fn preview(preview: &SwitchPreview, comparison: &str) {
    let SwitchPreview { consumer, old, new, columns, .. } = preview;
    say!("`{consumer}` would go from version {} to version {}:", old.version, new.version);
    let versions = [
        ("old", old, "is refused for this consumer, and goes on with its others"),
        ("new", new, "serves it from then on"),
    ];
    for (which, VersionState { position, workers, .. }, then) in versions {
        say!("  the {which} version is at position {position}");
        if workers.is_empty() {
            say!("    no worker runs it");
        }
        for worker in workers {
            // Only a worker of the last version does not say which version it runs.
            let is_old = worker.consumers.iter().any(|runner| runner.version.is_none());
            let runs_both = which == "old" && new.workers.iter().any(|other| other.id == worker.id);
            let then = match (is_old, runs_both) {
                (true, _) => "ends, since it is of the last version of Anabranch",
                (_, true) => "serves the new one instead",
                _ => then,
            };
            say!("    worker {}: {then}", in_words(worker));
        }
    }
    for (table, columns) in columns {
        say!("  table {table}, with the old one kept as {table}_old");
        of_columns(columns).iter().for_each(|line| say!("    {line}"));
    }
    say!("  rows are not compared here; `{comparison}` does that");
}

/// The columns that only one version has, or that have another type.
fn of_columns(columns: &ColumnDifference) -> Vec<String> {
    let column = |column: &TableColumn| format!("{} {}", column.name, column.declared);
    let changed = |changed: &ChangedColumn| {
        let ChangedColumn { name, was, is, compared } = changed;
        let not = if *compared { "" } else { ", not compared" };
        format!("{name} (was {was}, is {is}{not})")
    };
    let lists = [
        ("new", columns.new.iter().map(column).collect::<Vec<_>>()),
        ("gone", columns.gone.iter().map(column).collect()),
        ("changed", columns.changed.iter().map(changed).collect()),
    ];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    lists.map(|(which, list)| format!("{which} columns: {}", list.join(", "))).collect()
}
