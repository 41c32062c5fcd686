//! The list of the console's files. A new file needs a line here; a test compares the list with the folder.

/// Files by their names below `console/`, which the program holds.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../console/", $name)) as &[u8])),*]
    };
}

/// Each file: its name below `console/`, and what is in it.
pub(super) const FILES: &[(&str, &[u8])] = files![
    "api.js",
    "app.css",
    "app.js",
    "attention.js",
    "colours.js",
    "commands.js",
    "consumer_operations.js",
    "digits.js",
    "dom.js",
    "event_table.js",
    "filters.js",
    "format.js",
    "grouping.js",
    "icon.svg",
    "index.html",
    "json.js",
    "json_view.js",
    "keys.js",
    "lasting.js",
    "legend.js",
    "lists.css",
    "lists.js",
    "live.js",
    "map.css",
    "map.js",
    "operations.js",
    "pages/all.js",
    "pages/batches.js",
    "pages/consumer.js",
    "pages/deliveries.js",
    "pages/event.js",
    "pages/events.js",
    "pages/failed.js",
    "pages/instance.js",
    "pages/journal.js",
    "pages/login.js",
    "pages/overview.js",
    "pages/parked_key.js",
    "pages/stream.js",
    "pages/task.js",
    "pages/tasks.js",
    "pages/worker.js",
    "pages/workflows.js",
    "places.js",
    "rates.js",
    "reasons.js",
    "rebuild.js",
    "runs_table.js",
    "search.js",
    "slot_detail.js",
    "slots.js",
    "tail.js",
    "theme.js",
    "time_search.js",
    "timeline.js",
    "ui.js",
    "workers.js",
    "workflow_item.js",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn names(folder: &Path, below: &Path, all: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                names(&path, below, all);
            } else {
                all.insert(path.strip_prefix(below).unwrap().to_string_lossy().replace('\\', "/"));
            }
        }
    }

    #[test]
    fn the_list_has_every_file_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
        let mut there = BTreeSet::new();
        names(&folder, &folder, &mut there);
        let listed: Vec<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert!(listed.is_sorted(), "the list is not sorted");
        let listed: BTreeSet<String> = listed.into_iter().collect();
        let missing: Vec<_> = there.difference(&listed).collect();
        assert!(missing.is_empty(), "src/console/files.rs does not name {missing:?}");
        assert_eq!(listed.len(), FILES.len(), "a file stands twice in the list");
    }
}
