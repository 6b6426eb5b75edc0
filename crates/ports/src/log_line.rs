//! What operators are told while a switch runs.

use std::fmt::Display;
use std::io;

/// Writes a line to standard error, behind the program's name. Where it cannot be written, as on a
/// full disk or to a reader that has gone, it is lost: nothing ends by that.
pub fn log_line(line: impl Display) {
    write_to(io::stderr().lock(), line);
}

/// The same to standard output.
pub fn print_line(line: impl Display) {
    write_to(io::stdout().lock(), line);
}

/// In one piece, so that lines of two threads do not mix.
fn write_to(mut place: impl io::Write, line: impl Display) {
    let _lost = place.write_all(format!("upesi: {line}\n").as_bytes());
    let _later = place.flush();
}
