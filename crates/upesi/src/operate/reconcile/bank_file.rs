//! Reads the files of the settlement bank.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::CliError;
use crate::cli::stdout::print_error_line;
use crate::operate::reconcile::bank::{BankStatement, NOT_COMPARED};
use crate::operate::reconcile::{camt053, csv_file};

/// Largest file, in bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Maximum number of faults that are listed.
const FAULTS_MAX: usize = 1_000;

/// Reads all files, also after an unreadable one, so that every unreadable line is logged.
pub(super) fn read_all(paths: &[PathBuf]) -> Result<BankStatement, CliError> {
    let (mut all, mut unreadable) = (BankStatement::default(), Vec::new());
    for (number, path) in paths.iter().enumerate() {
        match read(path, number) {
            Ok(statement) => all.append(statement),
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    match unreadable.is_empty() {
        true => Ok(all),
        false => Err(CliError::new(unreadable.join("; ")).with_code(NOT_COMPARED)),
    }
}

/// Reads a file: camt.053 if it begins as XML does, else CSV. Every unreadable line is logged.
fn read(path: &Path, number: usize) -> Result<BankStatement, CliError> {
    let place = path.display();
    let failed = |what: String| CliError::new(format!("{place}: {what}"));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut limited = file.take(FILE_BYTES_MAX + 1);
    limited.read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if FILE_BYTES_MAX < bytes.len() as u64 {
        return Err(failed(format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| failed("not UTF-8".into()))?;
    let text = text.trim_start_matches('\u{feff}');
    let parsed = match text.trim_start().starts_with('<') {
        true => camt053::parse(text, number),
        false => csv_file::parse(text, number),
    };
    parsed.map_err(|faults| {
        for fault in faults.iter().take(FAULTS_MAX) {
            print_error_line(format_args!("{place}: line {}: {}", fault.line, fault.what));
        }
        failed(format!("lines that cannot be read: {}; nothing was compared", faults.len()))
    })
}
