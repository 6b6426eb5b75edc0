//! Files that other users must not read.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::CliError;

/// Longest line, in bytes.
const LINE_MAX: u64 = 1_024;

/// Opens the file of a setting and checks its permissions.
pub(super) fn check(name: &str, path: &Path) -> Result<File, CliError> {
    let failed = |what: String| CliError::new(format!("{name}: {}: {what}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let found = file.metadata().map_err(|error| failed(error.to_string()))?;
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        return Err(failed(format!(
            "readable by all users (mode {mode:03o}); chmod 600 it, and replace the secret if \
             others could have read it"
        )));
    }
    Ok(file)
}

/// Reads a password or another secret, the only line of its file.
pub(super) fn one_line(name: &str, path: &Path) -> Result<String, CliError> {
    let failed = |what: &str| CliError::new(format!("{name}: {}: {what}", path.display()));
    let mut text = String::new();
    let read = check(name, path)?.take(LINE_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| failed(&error.to_string()))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let is_one = !line.is_empty() && !line.contains(['\n', '\0']);
    match is_one && text.len() as u64 <= LINE_MAX {
        true => Ok(line.to_owned()),
        false => Err(failed("expected one line, a secret of 1 to 1,023 bytes")),
    }
}
