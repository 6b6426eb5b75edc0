//! Standard output of commands. A command whose reader closes the pipe, as `head` does, ends
//! without an error message.

use std::any::Any;
use std::fmt::Display;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::CliError;
use crate::cli::printable::printable;

/// Prefix of the panic message with which the standard library reports a failed print.
const UNPRINTABLE: &str = "failed printing to stdout: ";
const NO_READER: &str = "Broken pipe";
/// Exit code that shells report for a program killed by SIGPIPE: 128 plus the signal number.
const BROKEN_PIPE_CODE: u8 = 141;

/// Whether standard output carries machine-readable output only.
static IS_RESERVED: AtomicBool = AtomicBool::new(false);

/// Reserves standard output for machine-readable output; messages go to standard error.
pub(crate) fn reserve_output_for_script() {
    IS_RESERVED.store(true, Ordering::Relaxed);
}

/// Prints a message about a start, to standard error if standard output is reserved.
pub(crate) fn print_message(line: impl Display) {
    match IS_RESERVED.load(Ordering::Relaxed) {
        true => print_error_line(line),
        false => print_line(line),
    }
}

/// Writes a line to standard error, prefixed with the program's name. A line that cannot be
/// written, as on a full disk or a closed pipe, is dropped.
pub(crate) fn print_error_line(line: impl Display) {
    write_to(io::stderr().lock(), line);
}

/// Writes a line to standard output, prefixed with the program's name.
fn print_line(line: impl Display) {
    write_to(io::stdout().lock(), line);
}

/// One write call per line, so that lines of different threads do not mix.
fn write_to(mut place: impl io::Write, line: impl Display) {
    let line = line.to_string();
    let _lost = place.write_all(format!("upesi: {}\n", printable(&line)).as_bytes());
    let _later = place.flush();
}

/// Carries out a command. Its destructors run even if standard output is closed.
pub fn end_with_reader(command: impl FnOnce() -> Result<(), CliError>) -> ExitCode {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if unprintable(panic.payload()).is_none() {
            usual(panic);
        }
    }));
    let panicked = match panic::catch_unwind(AssertUnwindSafe(command)) {
        Ok(result) => return exit_code(result),
        Err(panicked) => panicked,
    };
    match unprintable(&*panicked) {
        Some(why) if why.starts_with(NO_READER) => ExitCode::from(BROKEN_PIPE_CODE),
        Some(why) => {
            exit_code(Err(CliError::new(format!("standard output: cannot be written: {why}"))))
        }
        None => panic::resume_unwind(panicked),
    }
}

/// Returns the exit code, and logs the error of a failure.
pub fn exit_code(result: Result<(), CliError>) -> ExitCode {
    let Err(failure) = result else { return ExitCode::SUCCESS };
    let code = failure.code();
    if !failure.is_logged() {
        print_error_line(failure);
    }
    ExitCode::from(code)
}

/// The reason of a failed print, if that was the cause of the panic.
fn unprintable(panicked: &(dyn Any + Send)) -> Option<&str> {
    panicked.downcast_ref::<String>()?.strip_prefix(UNPRINTABLE)
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), CliError> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| CliError::new(error.to_string()))?;
    println!("{text}");
    Ok(())
}

/// Formats a stamp of the log as a UTC date and time with microseconds.
pub(crate) fn moment(stamp: ledger::Stamp) -> String {
    let seconds = fspiop::time::date_time_whole_seconds(stamp.millis());
    let whole = String::from_utf8_lossy(&seconds[..19]).into_owned();
    format!("{whole}.{:06}Z", stamp.0 % 1_000_000)
}
