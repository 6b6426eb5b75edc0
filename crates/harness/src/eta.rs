//! How far something long is: done of all, the rate, and when it will be over.
//!
//! One line on the error output, written again once a second on a terminal, else a new line every
//! ten. Nothing is written in the first two seconds, nor by what is over by then.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const QUIET: Duration = Duration::from_secs(2);
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(10);

/// The progress of one piece of work.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    all: Option<u64>,
    started: Instant,
    shown: Option<Instant>,
    again: Duration,
}

impl Progress {
    /// Work on `all` of what `what` names in the plural, if their number is known.
    #[must_use]
    pub fn new(what: &'static str, all: Option<u64>) -> Self {
        let again = if std::io::stderr().is_terminal() { OFTEN } else { SELDOM };
        Self { what, all, started: Instant::now(), shown: None, again }
    }

    /// Updates the estimated total.
    pub fn expect(&mut self, all: u64) {
        self.all = Some(all);
    }

    /// Sets the number of finished items, and shows the line if it is due.
    pub fn show(&mut self, done: u64) {
        let now = Instant::now();
        let due = self.shown.map_or(self.started + QUIET, |shown| shown + self.again);
        if now < due {
            return;
        }
        self.shown = Some(now);
        let line = self.line(done, now - self.started);
        let (begin, end) = if self.again == OFTEN { ("\r\x1b[K", "") } else { ("", "\n") };
        // The error output may be closed.
        let _ = write!(std::io::stderr(), "{begin}{line}{end}");
    }

    /// It is over: ends the line.
    pub fn end(&mut self) {
        if self.shown.take().is_some() && self.again == OFTEN {
            let _ = writeln!(std::io::stderr());
        }
    }

    /// Time since the begin.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn line(&self, done: u64, elapsed: Duration) -> String {
        let rate = done as f64 / elapsed.as_secs_f64().max(1e-9);
        let what = self.what;
        // An estimate that was too low shows no percentage.
        let Some(all) = self.all.filter(|all| done <= *all) else {
            return format!("{done} {what}, {rate:.0}/s");
        };
        let percent = done as f64 * 100.0 / all.max(1) as f64;
        let left = all.saturating_sub(done) as f64 / rate.max(1e-9);
        format!("{done} of {all} {what} ({percent:.1}%), {rate:.0}/s, {} left", time(left))
    }
}

fn time(seconds: f64) -> String {
    match seconds.round().min(3.6e6) as u64 {
        whole if whole < 120 => format!("{whole} s"),
        whole if whole < 7_200 => format!("{} min", whole / 60),
        whole => format!("{} h {} min", whole / 3_600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_and_how_long_it_will_take() {
        let second = Duration::from_secs(1);
        for (all, done, elapsed, expected) in [
            (Some(100), 50, second * 5, "50 of 100 rows (50.0%), 10/s, 5 s left"),
            (Some(0), 0, second, "0 of 0 rows (0.0%), 0/s, 0 s left"),
            (Some(1_000_000), 100, second, "100 of 1000000 rows (0.0%), 100/s, 2 h 46 min left"),
            (None, 7, second * 2, "7 rows, 4/s"),
            (Some(5), 7, second * 2, "7 rows, 4/s"),
        ] {
            assert_eq!(Progress::new("rows", all).line(done, elapsed), expected);
        }
    }
}
