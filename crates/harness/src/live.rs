//! What a user sees while a run goes on: one line that changes on a terminal, else a line now and
//! then. It goes to the error stream, so that results can be piped.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::error::HarnessError;
use crate::fleet::Glance;

const ON_TERMINAL: Duration = Duration::from_secs(1);
const ELSEWHERE: Duration = Duration::from_secs(3);

/// The line and when it was last written.
pub(crate) struct Live {
    terminal: bool,
    written: Instant,
    /// What had ended well by then.
    committed: u64,
    /// What had ended well at the last look, which need not have been shown.
    seen: u64,
    open: bool,
    /// What had ended when something last did, and when that was, or when the step began.
    progress: (u64, Instant),
}

impl Live {
    pub(crate) fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        let now = Instant::now();
        Self { terminal, written: now, committed: 0, seen: 0, open: false, progress: (0, now) }
    }

    /// Says what begins now.
    pub(crate) fn step(&mut self, text: &str) {
        self.close();
        // Whoever closed the error output does not want to know.
        let _ = writeln!(std::io::stderr(), "{text}");
        self.begin();
        self.expect_progress();
    }

    /// From here on units are to end. What came before, such as making subscribers known, brings
    /// none to its end.
    pub(crate) fn expect_progress(&mut self) {
        self.progress.1 = Instant::now();
    }

    /// The next rate shown is that from here on.
    fn begin(&mut self) {
        (self.written, self.committed) = (Instant::now(), self.seen);
    }

    /// Shows where the run stands, unless that was just done.
    pub(crate) fn show(&mut self, what: &str, glance: &Glance) {
        let elapsed = self.written.elapsed();
        self.seen = glance.good;
        if elapsed < if self.terminal { ON_TERMINAL } else { ELSEWHERE } {
            return;
        }
        // Fewer, when what was stocked is now being used up.
        let new = glance.good.saturating_sub(self.committed);
        let line = format!(
            "{what:<9} {rate:>8.0}/s  p50 {p50:>8.2} ms  p99 {p99:>8.2} ms  in flight {flight:>5}  \
             committed {committed:>9}  failed {failed}",
            rate = new as f64 / elapsed.as_secs_f64(),
            p50 = glance.p50.as_secs_f64() * 1e3,
            p99 = glance.p99.as_secs_f64() * 1e3,
            flight = glance.in_flight,
            committed = glance.good,
            failed = glance.failed,
        );
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
            self.open = true;
        } else {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        self.begin();
    }

    /// Fails when units are in flight and none has ended well for `patience`.
    pub(crate) fn check_progress(
        &mut self,
        glance: &Glance,
        patience: Duration,
    ) -> Result<(), HarnessError> {
        if glance.good != self.progress.0 || glance.in_flight == 0 {
            self.progress = (glance.good, Instant::now());
        }
        if self.progress.1.elapsed() < patience {
            return Ok(());
        }
        let (flight, failed) = (glance.in_flight, glance.failed);
        Err(HarnessError::Hub(format!(
            "has not brought one unit to its end for {patience:?}: {flight} in flight, {failed} \
             failed"
        )))
    }

    /// Ends a line that is being changed.
    pub(crate) fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            let _ = writeln!(std::io::stderr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_begins_with_the_step() {
        let (mut live, patience) = (Live::new(), Duration::from_secs(60));
        let glance = Glance { in_flight: 16, ..Glance::default() };
        let long_ago = Instant::now().checked_sub(2 * patience).expect("the machine is up");
        live.progress = (0, long_ago);
        live.step("measuring");
        assert!(live.check_progress(&glance, patience).is_ok());
        live.progress = (0, long_ago);
        let error = live.check_progress(&glance, patience).expect_err("it is over").to_string();
        assert!(error.contains("for 60s: 16 in flight, 0 failed"), "{error}");
        assert!(live.check_progress(&Glance { good: 1, ..glance }, patience).is_ok());
    }
}
