//! Writes operator-visible log lines to standard error or standard output.

use std::fmt::Display;
use std::io;

/// Writes a line to standard error, prefixed with the program's name. A line that cannot be
/// written, as on a full disk or a closed pipe, is dropped.
pub fn log_line(line: impl Display) {
    write_to(io::stderr().lock(), line);
}

/// Writes a line to standard output, prefixed with the program's name.
pub fn print_line(line: impl Display) {
    write_to(io::stdout().lock(), line);
}

/// One write call per line, so that lines of different threads do not mix.
fn write_to(mut place: impl io::Write, line: impl Display) {
    let _lost = place.write_all(format!("upesi: {line}\n").as_bytes());
    let _later = place.flush();
}
