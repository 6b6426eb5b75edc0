//! Manages broker processes by process id, because the brokers of a detached cluster are not our
//! child processes.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Lines of a program's output in an error.
const LINES_SHOWN: usize = 12;
/// Polling interval for operations that take seconds.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// The last lines of an output.
pub(crate) fn last_lines(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

/// The last lines of a file; empty if the file does not exist.
pub(crate) fn last_lines_of(path: &Path) -> String {
    last_lines(&fs::read(path).unwrap_or_default())
}

/// Whether the process is a broker of this directory: process ids are reused.
pub(crate) fn is_broker(process: i32, directory: &Path) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let needle = directory.as_os_str().as_encoded_bytes();
    !needle.is_empty() && line.windows(needle.len()).any(|window| window == needle)
}

/// Sends a signal. An ended process is ignored.
pub(crate) fn signal(process: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(process) {
        let _gone = kill_process(pid, signal);
    }
}

/// Waits until the condition holds. Returns whether it does.
pub(crate) fn wait_until(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if holds() {
            return true;
        }
        if deadline <= Instant::now() {
            return false;
        }
        sleep(LOOK);
    }
}
