//! Reads the file of the settlement bank.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::CliError;
use crate::cli::stdout::print_error_line;
use crate::operate::reconcile::bank::BankStatement;
use crate::operate::reconcile::{camt053, csv_file};

/// Largest file, in bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Maximum number of faults that are listed.
const FAULTS_MAX: usize = 1_000;
/// Exit code for an unreadable file.
const UNREADABLE: u8 = 2;

/// Reads a file: camt.053 if it begins as XML does, else CSV. Every unreadable line is logged.
pub(super) fn read(path: &Path) -> Result<BankStatement, CliError> {
    let place = path.display();
    let failed = |what: String| CliError::new(format!("{place}: {what}")).with_code(UNREADABLE);
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
        true => camt053::parse(text),
        false => csv_file::parse(text),
    };
    parsed.map_err(|faults| {
        for fault in faults.iter().take(FAULTS_MAX) {
            print_error_line(format_args!("{place}: line {}: {}", fault.line, fault.what));
        }
        failed(format!("{} lines cannot be read; nothing was compared", faults.len()))
    })
}
