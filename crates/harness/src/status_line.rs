//! The progress of a run: one line that is rewritten on a terminal, otherwise a new line at
//! intervals. It is written to standard error, so that results can be piped.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::error::HarnessError;
use crate::simulators::RunCounters;

const ON_TERMINAL: Duration = Duration::from_secs(1);
const ELSEWHERE: Duration = Duration::from_secs(3);

/// The current phase of a run.
#[derive(Clone, Copy, Debug)]
pub enum RunPhase<'a> {
    /// Reserves the transfers that will be fulfilled.
    Stock,
    /// The named part, whose units end.
    Part(&'a str),
    Measure,
    /// Waits for the end of the started units; the text lists the hub's open work.
    Drain(&'a str),
}

impl RunPhase<'_> {
    /// Its units that have succeeded so far.
    fn done(self, counters: &RunCounters) -> u64 {
        match self {
            Self::Stock => counters.stock as u64,
            _ => counters.good,
        }
    }

    fn line(self, counters: &RunCounters, rate_per_s: f64) -> String {
        let RunCounters { in_flight, open, stock, .. } = counters;
        match self {
            Self::Stock => format!(
                "reserve   {rate_per_s:>8.0}/s  in flight {in_flight:>5}  reserved {stock:>9}"
            ),
            Self::Part(what) => rates(what, counters, rate_per_s),
            Self::Measure => rates("measure", counters, rate_per_s),
            Self::Drain(open_work) => format!(
                "drain     {in_flight} in flight, {open} payers without a final notice, \
                 {stock} held by payees{open_work}"
            ),
        }
    }
}

fn rates(what: &str, counters: &RunCounters, rate_per_s: f64) -> String {
    format!(
        "{what:<9} {rate_per_s:>8.0}/s  p50 {p50:>8.2} ms  p99 {p99:>8.2} ms  \
         in flight {in_flight:>5}  committed {good:>9}  failed {failed}",
        p50 = counters.p50.as_secs_f64() * 1e3,
        p99 = counters.p99.as_secs_f64() * 1e3,
        in_flight = counters.in_flight,
        good = counters.good,
        failed = counters.failed,
    )
}

/// The line and the time of its last update.
pub struct StatusLine {
    terminal: bool,
    written: Instant,
    /// The number of finished units at that time; `None` if the step has just begun.
    done: Option<u64>,
    open: bool,
    /// The number of ended units, and the time of the last change or of the start of the step.
    progress: (u64, Instant),
}

impl StatusLine {
    pub fn on_stderr() -> Self {
        let terminal = std::io::stderr().is_terminal();
        let now = Instant::now();
        Self { terminal, written: now, done: None, open: false, progress: (0, now) }
    }

    /// Announces a step.
    pub fn step(&mut self, text: &str) {
        self.close();
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "{text}");
        (self.written, self.done) = (Instant::now(), None);
        self.expect_progress();
    }

    /// Starts a step in which units end. Earlier steps, such as registering subscribers, end no
    /// units.
    pub fn expect_progress(&mut self) {
        self.progress.1 = Instant::now();
    }

    /// Shows the progress, unless it was shown recently.
    pub fn show(&mut self, doing: RunPhase, counters: &RunCounters) {
        let elapsed = self.written.elapsed();
        let done = doing.done(counters);
        let before = *self.done.get_or_insert(done);
        if elapsed < if self.terminal { ON_TERMINAL } else { ELSEWHERE } {
            return;
        }
        let line = doing.line(counters, done.saturating_sub(before) as f64 / elapsed.as_secs_f64());
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
            self.open = true;
        } else {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        (self.written, self.done) = (Instant::now(), Some(done));
    }

    /// Fails if units are in flight and none has succeeded for `patience`.
    pub fn check_progress(
        &mut self,
        doing: RunPhase,
        counters: &RunCounters,
        patience: Duration,
    ) -> Result<(), HarnessError> {
        let done = doing.done(counters);
        if done != self.progress.0 || counters.in_flight == 0 {
            self.progress = (done, Instant::now());
        }
        if self.progress.1.elapsed() < patience {
            return Ok(());
        }
        let (flight, failed) = (counters.in_flight, counters.failed);
        Err(HarnessError::Hub(format!(
            "has finished no unit for {patience:?}: {flight} in flight, {failed} \
             failed"
        )))
    }

    /// Ends the line on a terminal.
    pub fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            let _ = writeln!(std::io::stderr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_line() {
        let counters =
            RunCounters { good: 7, in_flight: 2, open: 3, stock: 5, ..RunCounters::default() };
        for (doing, done, expected) in [
            (RunPhase::Stock, 5, "reserve         10/s  in flight     2  reserved         5"),
            (RunPhase::Part("climb"), 7, "climb           10/s  p50     0.00 ms"),
            (RunPhase::Measure, 7, "in flight     2  committed         7  failed 0"),
            (
                RunPhase::Drain("; the hub owes 4 notices"),
                7,
                "drain     2 in flight, 3 payers without a final notice, 5 held by payees; \
                 the hub owes 4 notices",
            ),
        ] {
            let line = doing.line(&counters, 10.0);
            assert!(line.contains(expected), "{line}");
            assert_eq!(doing.done(&counters), done, "{line}");
        }
    }

    /// The first rate of a part counts from the start of that part.
    #[test]
    fn rate_counts_from_the_start_of_its_part() {
        let mut live = StatusLine::on_stderr();
        live.step("reserving");
        live.show(RunPhase::Stock, &RunCounters { stock: 1_000, ..RunCounters::default() });
        assert_eq!(live.done, Some(1_000));
        live.step("measuring");
        live.show(RunPhase::Measure, &RunCounters { good: 30, ..RunCounters::default() });
        assert_eq!(live.done, Some(30));
    }

    #[test]
    fn timeout_counts_from_the_start_of_the_step() {
        let (mut live, patience) = (StatusLine::on_stderr(), Duration::from_secs(60));
        let counters = RunCounters { in_flight: 16, ..RunCounters::default() };
        let long_ago = Instant::now().checked_sub(2 * patience).expect("the machine is up");
        live.progress = (0, long_ago);
        live.step("measuring");
        assert!(live.check_progress(RunPhase::Measure, &counters, patience).is_ok());
        live.progress = (0, long_ago);
        let error = live
            .check_progress(RunPhase::Measure, &counters, patience)
            .expect_err("timed out")
            .to_string();
        assert!(error.contains("for 60s: 16 in flight, 0 failed"), "{error}");
        assert!(
            live.check_progress(RunPhase::Measure, &RunCounters { good: 1, ..counters }, patience)
                .is_ok()
        );
    }
}
