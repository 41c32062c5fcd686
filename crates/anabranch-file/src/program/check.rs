//! Whether a program can be started, before anything is claimed for it.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

/// Refuses what the system would not start from this directory, with this `PATH`: it would fail every event.
pub(super) fn check(argv: &[String], directory: &Path, path: &OsStr) -> Result<(), String> {
    let program = match argv.first().map(String::as_str) {
        Some("") | None => return Err("there is no program; name one".to_owned()),
        Some(program) => program,
    };
    // With a slash it is a path; without one it is looked for in PATH.
    if program.contains('/') {
        return check_file(program, &directory.join(program), directory);
    }
    let found = env::split_paths(path).map(|folder| directory.join(folder).join(program));
    let found: Vec<_> = found.filter(|file| file.is_file()).collect();
    if found.iter().any(|file| is_executable(file)) {
        return Ok(());
    }
    match found.first() {
        Some(file) => check_file(&file.display().to_string(), file, directory),
        None => Err(format!(
            "there is no program `{program}` in PATH; install it, or name it with its path, such as \
             ./{program}"
        )),
    }
}

fn check_file(program: &str, file: &Path, directory: &Path) -> Result<(), String> {
    if !file.exists() {
        let from = directory.display();
        return Err(format!("there is no program `{program}` (from {from}); correct the path"));
    }
    if !file.is_file() {
        return Err(format!("`{program}` is a directory; name a program in it"));
    }
    if !is_executable(file) {
        return Err(format!("`{program}` is not executable; run chmod +x {program}"));
    }
    Ok(())
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}
