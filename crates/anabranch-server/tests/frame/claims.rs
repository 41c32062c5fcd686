//! The tests that `docs/security.md` names are there: a claim without its test would be one.

use std::path::Path;

fn texts(directory: &Path, all: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => texts(&path, all),
            Some(end) if end == "rs" => *all += &std::fs::read_to_string(&path).unwrap(),
            _ => {}
        }
    }
}

#[test]
fn each_claim_of_the_page_names_tests_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/security.md")).unwrap();
    let mut all = String::new();
    for directory in ["anabranch-server/src", "anabranch-server/tests", "anabranch-cli/tests"] {
        texts(&root.join("crates").join(directory), &mut all);
    }
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| claim")) {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let words = tests.split('`').skip(1).step_by(2);
        let (files, names): (Vec<_>, Vec<_>) = words.partition(|word| word.contains(".rs"));
        assert!(!files.is_empty(), "a claim without a test: {row}");
        for name in names {
            assert!(all.contains(&format!("fn {name}(")), "there is no test {name}");
            named += 1;
        }
        for file in files {
            let places = [
                root.join(file),
                root.join("crates/anabranch-server/tests/frame").join(file),
                root.join("crates/anabranch-server").join(file),
            ];
            assert!(places.iter().any(|place| place.is_file()), "there is no {file}");
        }
    }
    assert!(named > 25, "only {named} tests are named");
}
