//! Where results go: the output, or files that are looked at before a run and written after it.

use std::fs::{OpenOptions, remove_file, write};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::HarnessError;

/// Rejects a path that cannot be written, before a run. An existing file keeps its content until
/// results replace it.
pub fn check_writable(path: &Path) -> Result<(), HarnessError> {
    let is_there = path.symlink_metadata().is_ok();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(HarnessError::file(path))?;
    match is_there {
        true => Ok(()),
        false => remove_file(path).map_err(HarnessError::file(path)),
    }
}

/// Refuses a file for results that cannot be written, before anything is measured.
///
/// # Errors
/// The file cannot be opened for writing.
pub fn check_json(json: Option<&Option<PathBuf>>) -> Result<(), HarnessError> {
    json.and_then(Option::as_ref).map_or(Ok(()), |path| check_writable(path))
}

/// Prints results and writes them as JSON, if that is asked for: to a file, or without a name to
/// the output, which is for a program then.
///
/// # Errors
/// The file or the output cannot be written.
pub fn tell<R: Serialize + std::fmt::Display>(
    report: &R,
    json: Option<&Option<PathBuf>>,
) -> Result<(), HarnessError> {
    match json {
        None => println!("{report}"),
        Some(Some(path)) => {
            println!("{report}");
            write_json(path, report)?;
        }
        Some(None) => {
            eprintln!("{report}");
            print_json(report)?;
        }
    }
    Ok(())
}

/// Writes results to a file.
pub fn write_json(path: &Path, report: &impl Serialize) -> Result<(), HarnessError> {
    write(path, text(report)).map_err(HarnessError::file(path))
}

/// The output is written to as it is, be it a file that others append to, a pipe or a socket.
fn print_json(report: &impl Serialize) -> Result<(), HarnessError> {
    let mut output = io::stdout().lock();
    let written = output.write_all(text(report).as_bytes()).and_then(|()| output.flush());
    written.map_err(HarnessError::file("the output"))
}

fn text(report: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(report).expect("a report has only plain members");
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn looking_whether_a_file_can_be_written_changes_nothing() {
        let place = std::env::temp_dir().join(format!("upesi-results-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a directory");
        let (old, new) = (place.join("old.json"), place.join("new.json"));
        fs::write(&old, "earlier results").expect("it is written");
        check_writable(&old).expect("it can be written");
        check_writable(&new).expect("it can be made");
        assert_eq!(fs::read_to_string(&old).expect("it is there"), "earlier results");
        assert!(!new.exists(), "nothing is left of the look");
        let nowhere = place.join("no/where.json");
        let error = check_writable(&nowhere).expect_err("there is no such directory").to_string();
        assert!(error.contains("no/where.json"), "{error}");
        fs::remove_dir_all(&place).expect("it is ours");
    }
}
