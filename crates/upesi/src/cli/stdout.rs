//! Commands that print and end, and what becomes of them where nothing can be printed: a reader
//! that has seen enough, as `head` has, ends them without a word.

use std::any::Any;
use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::CliError;

/// What the standard library panics with begins so, where it cannot print.
const UNPRINTABLE: &str = "failed printing to stdout: ";
const NO_READER: &str = "Broken pipe";
/// What a shell says of programs that end with their reader: 128 and the number of the signal.
const ENDED_WITH_READER: u8 = 141;

/// Whether standard output is for a script alone.
static FOR_A_SCRIPT: AtomicBool = AtomicBool::new(false);

/// From here on standard output is for a script alone: what is said of a start goes beside it.
pub(crate) fn keep_output_for_a_script() {
    FOR_A_SCRIPT.store(true, Ordering::Relaxed);
}

/// Says what a start found, or did.
pub(crate) fn say(line: impl Display) {
    match FOR_A_SCRIPT.load(Ordering::Relaxed) {
        true => ports::log_line(line),
        false => ports::print_line(line),
    }
}

/// Carries out a command. What it started and made beside the output is tidied up in any case.
pub fn end_with_reader(command: impl FnOnce() -> Result<(), CliError>) -> ExitCode {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if unprintable(panic.payload()).is_none() {
            usual(panic);
        }
    }));
    let panicked = match panic::catch_unwind(AssertUnwindSafe(command)) {
        Ok(result) => return code(result),
        Err(panicked) => panicked,
    };
    match unprintable(&*panicked) {
        Some(why) if why.starts_with(NO_READER) => ExitCode::from(ENDED_WITH_READER),
        Some(why) => code(Err(CliError::new(format!("cannot print: {why}")))),
        None => panic::resume_unwind(panicked),
    }
}

/// How the program ends, and for a failure its line.
pub fn code(result: Result<(), CliError>) -> ExitCode {
    let Err(failure) = result else { return ExitCode::SUCCESS };
    ports::log_line(failure);
    ExitCode::FAILURE
}

/// Why nothing could be printed, if a panic says so.
fn unprintable(panicked: &(dyn Any + Send)) -> Option<&str> {
    panicked.downcast_ref::<String>()?.strip_prefix(UNPRINTABLE)
}

/// Prints JSON for a script.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), CliError> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| CliError::new(error.to_string()))?;
    println!("{text}");
    Ok(())
}

/// A moment of the log in microseconds, as people write it, in UTC.
pub(crate) fn moment(stamp: ledger::Stamp) -> String {
    let seconds = fspiop::time::date_time_whole_seconds(stamp.millis());
    let whole = String::from_utf8_lossy(&seconds[..19]).into_owned();
    format!("{whole}.{:06}Z", stamp.0 % 1_000_000)
}
