//! Whether a program can be started, before a row is claimed for it.

use crate::refusal::{refuse, refuse_unless};
use std::env;
use std::path::Path;

/// Refuses what the system would not start: it would fail every row.
pub(super) fn check(program: &str) -> anyhow::Result<()> {
    // With a slash it is a path; without one it is looked for in PATH.
    if program.contains('/') {
        return check_file(program, Path::new(program));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|directory| directory.join(program));
    let found: Vec<_> = found.filter(|file| file.is_file()).collect();
    if found.iter().any(|file| is_executable(file)) {
        return Ok(());
    }
    match found.first() {
        Some(file) => check_file(&file.display().to_string(), file),
        None => refuse!(
            InvalidArguments,
            "there is no program `{program}` in PATH; install it, or name it with its path, such as \
             ./{program}"
        ),
    }
}

fn check_file(program: &str, file: &Path) -> anyhow::Result<()> {
    let here = env::current_dir().unwrap_or_default();
    refuse_unless!(
        file.exists(),
        InvalidArguments,
        "there is no program `{program}` (from {}); correct the path",
        here.display()
    );
    refuse_unless!(
        file.is_file(),
        InvalidArguments,
        "`{program}` is a directory; name a program in it"
    );
    refuse_unless!(
        is_executable(file),
        InvalidArguments,
        "`{program}` must not be executed; allow it: chmod +x {program}"
    );
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
