//! Output of results: standard output, or files that are checked before a run and written after it.

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

/// Rejects a JSON file that cannot be written, before anything is measured.
///
/// # Errors
///
/// The file cannot be opened for writing.
pub fn check_json(json: Option<&Option<PathBuf>>) -> Result<(), HarnessError> {
    json.and_then(Option::as_ref).map_or(Ok(()), |path| check_writable(path))
}

/// Prints results, and writes them as JSON if requested: to a file, or to standard output. In the
/// latter case the text goes to standard error.
///
/// # Errors
///
/// The file or the output cannot be written.
pub fn print_results<R: Serialize + std::fmt::Display>(
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

/// Writes to standard output without buffering or seeking, since it may be a shared file, a pipe or
/// a socket.
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
    fn check_writable_changes_nothing() {
        let place = std::env::temp_dir().join(format!("upesi-results-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a directory");
        let (old, new) = (place.join("old.json"), place.join("new.json"));
        fs::write(&old, "earlier results").expect("written");
        check_writable(&old).expect("writable");
        check_writable(&new).expect("writable");
        assert_eq!(fs::read_to_string(&old).expect("exists"), "earlier results");
        assert!(!new.exists(), "the check removes its file");
        let nowhere = place.join("no/where.json");
        let error = check_writable(&nowhere).expect_err("missing directory").to_string();
        assert!(error.contains("no/where.json"), "{error}");
        fs::remove_dir_all(&place).expect("removed");
    }
}
