//! What a user sees while a run goes on: one line that changes on a terminal, else a line now and
//! then. It goes to the error stream, so that results can be piped.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::fleet::Glance;

const ON_TERMINAL: Duration = Duration::from_millis(200);
const ELSEWHERE: Duration = Duration::from_secs(3);

/// The line and when it was last written.
pub(crate) struct Live {
    terminal: bool,
    written: Instant,
    committed: u64,
    open: bool,
}

impl Live {
    pub(crate) fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { terminal, written: Instant::now(), committed: 0, open: false }
    }

    /// Says what begins now.
    pub(crate) fn step(&mut self, text: &str) {
        self.close();
        eprintln!("{text}");
        self.written = Instant::now();
    }

    /// Shows where the run stands, unless that was just done.
    pub(crate) fn show(&mut self, what: &str, glance: &Glance) {
        let elapsed = self.written.elapsed();
        if elapsed < if self.terminal { ON_TERMINAL } else { ELSEWHERE } {
            return;
        }
        let new = glance.committed.saturating_sub(self.committed);
        let line = format!(
            "{what:<9} {rate:>8.0}/s  p50 {p50:>8.2} ms  p99 {p99:>8.2} ms  in flight {flight:>5}  \
             committed {committed:>9}  failed {failed}",
            rate = new as f64 / elapsed.as_secs_f64(),
            p50 = glance.p50.as_secs_f64() * 1e3,
            p99 = glance.p99.as_secs_f64() * 1e3,
            flight = glance.in_flight,
            committed = glance.committed,
            failed = glance.failed,
        );
        if self.terminal {
            eprint!("\r{line}\x1b[K");
            // A terminal that cannot be written to is no reason to end the run.
            let _ = std::io::stderr().flush();
            self.open = true;
        } else {
            eprintln!("{line}");
        }
        self.written = Instant::now();
        self.committed = glance.committed;
    }

    /// Ends a line that is being changed.
    pub(crate) fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            eprintln!();
        }
    }
}
