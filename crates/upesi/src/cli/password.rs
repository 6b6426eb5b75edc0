//! Passwords that a person types, or that a file or standard input has.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::CliError;

/// Longest password that is read, in bytes.
const BYTES_MAX: usize = 4_096;

/// Reads a password: the first line of a file, or of standard input. A terminal does not show it.
pub(crate) fn read(prompt: &str, file: Option<&Path>) -> Result<String, CliError> {
    let failed = |error: io::Error| CliError::new(format!("the password: {error}"));
    if let Some(path) = file {
        let text = fs::read_to_string(path)
            .map_err(|error| CliError::new(format!("{}: {error}", path.display())))?;
        return first_line(&text);
    }
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let mut text = String::new();
        stdin.lock().read_line(&mut text).map_err(failed)?;
        return first_line(&text);
    }
    eprint!("{prompt}: ");
    io::stderr().flush().map_err(failed)?;
    let shown = tcgetattr(&stdin).map_err(io::Error::from).map_err(failed)?;
    let mut hidden = shown.clone();
    hidden.local_modes &= !LocalModes::ECHO;
    tcsetattr(&stdin, OptionalActions::Flush, &hidden).map_err(io::Error::from).map_err(failed)?;
    let mut text = String::new();
    let read = stdin.lock().read_line(&mut text);
    tcsetattr(&stdin, OptionalActions::Flush, &shown).map_err(io::Error::from).map_err(failed)?;
    eprintln!();
    read.map_err(failed)?;
    first_line(&text)
}

/// Reads a new password. On a terminal it is typed twice.
pub(crate) fn read_new(file: Option<&Path>) -> Result<String, CliError> {
    let password = read("new password", file)?;
    if file.is_none() && io::stdin().is_terminal() && read("again", None)? != password {
        return Err(CliError::new("the two passwords differ"));
    }
    Ok(password)
}

fn first_line(text: &str) -> Result<String, CliError> {
    match text.lines().next().filter(|line| !line.is_empty() && line.len() <= BYTES_MAX) {
        Some(line) => Ok(line.to_owned()),
        None => Err(CliError::new("the password: the first line is empty or too long")),
    }
}
