//! A program that ends with its parent: what the launcher does, in the process that becomes the program.

use std::io;
use std::process::Command;

/// Becomes this program; returns only if that fails. On Linux it gets a SIGKILL when its parent is gone, whether it
/// reads its standard input or not. A process whose parent is not this one any more does not start it.
pub fn launch(parent: u32, argv: &[String]) -> io::Error {
    let Some((program, arguments)) = argv.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "there is no program");
    };
    #[cfg(target_os = "linux")]
    {
        let signal = rustix::process::Signal::KILL;
        if let Err(error) = rustix::process::set_parent_process_death_signal(Some(signal)) {
            return error.into();
        }
    }
    // If it has gone before the signal was asked for, none will come.
    #[cfg(unix)]
    if std::os::unix::process::parent_id() != parent {
        return io::Error::other(format!("process {parent}, which has started it, is gone"));
    }
    become_program(Command::new(program).args(arguments), program)
}

#[cfg(unix)]
fn become_program(command: &mut Command, program: &str) -> io::Error {
    let error = std::os::unix::process::CommandExt::exec(command);
    io::Error::new(error.kind(), format!("cannot start `{program}`: {error}"))
}

#[cfg(not(unix))]
fn become_program(command: &mut Command, program: &str) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => io::Error::new(error.kind(), format!("cannot start `{program}`: {error}")),
    }
}
