//! Progress of long work: items done, total, rate, and remaining time.
//!
//! On a terminal, one line on standard error is rewritten every second. Otherwise a plain line is
//! added every 10 s. Work that takes less than 2 s shows nothing.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const FIRST_AFTER: Duration = Duration::from_secs(2);
const TERMINAL_INTERVAL: Duration = Duration::from_secs(1);
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// The progress of one piece of work.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    all: Option<u64>,
    started: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    /// Work on `all` items, if their number is known; `what` is their name in the plural.
    #[must_use]
    pub fn new(what: &'static str, all: Option<u64>) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { what, all, started: Instant::now(), shown: None, is_terminal }
    }

    /// Updates the estimated total.
    pub fn expect(&mut self, all: u64) {
        self.all = Some(all);
    }

    /// Sets the number of finished items, and shows the line if it is due.
    pub fn show(&mut self, done: u64) {
        if let Some(text) = self.due_text(done, Instant::now()) {
            // Standard error may be closed.
            let _ = write!(std::io::stderr(), "{text}");
        }
    }

    /// The text to write, if it is due.
    fn due_text(&mut self, done: u64, now: Instant) -> Option<String> {
        let interval = if self.is_terminal { TERMINAL_INTERVAL } else { PLAIN_INTERVAL };
        let due = self.shown.map_or(self.started + FIRST_AFTER, |shown| shown + interval);
        if now < due {
            return None;
        }
        self.shown = Some(now);
        let line = self.line(done, now - self.started);
        Some(if self.is_terminal { format!("\r\x1b[K{line}") } else { format!("{line}\n") })
    }

    /// Ends the line.
    pub fn end(&mut self) {
        if self.shown.take().is_some() && self.is_terminal {
            let _ = writeln!(std::io::stderr());
        }
    }

    /// Time since the start.
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
    fn line_has_rate_and_remaining_time() {
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

    #[test]
    fn lines_are_plain_without_a_terminal() {
        for (is_terminal, expected) in [
            (false, vec![(2, "50 rows, 25/s\n"), (12, "50 rows, 4/s\n")]),
            (
                true,
                vec![
                    (2, "\r\x1b[K50 rows, 25/s"),
                    (3, "\r\x1b[K50 rows, 17/s"),
                    (12, "\r\x1b[K50 rows, 4/s"),
                ],
            ),
        ] {
            let mut progress = Progress { is_terminal, ..Progress::new("rows", None) };
            let times = [1, 2, 3, 12].map(|at| (at, progress.started + Duration::from_secs(at)));
            let texts = times.map(|(at, now)| Some((at, progress.due_text(50, now)?)));
            let texts: Vec<_> = texts.iter().flatten().map(|(at, it)| (*at, &**it)).collect();
            assert_eq!(texts, expected);
        }
    }
}
