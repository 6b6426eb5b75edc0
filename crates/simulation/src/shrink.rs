//! Makes a failing run small: drops kinds of faults, transfers, single faults and acts, as long
//! as what is left still fails in the same way.
//!
//! First what came after the failure goes, then whole kinds, then halves, quarters and so on of
//! what can be counted. Each step is one run, and their number is bounded: the same run is made
//! small in the same way on every machine.

use std::collections::BTreeSet;

use crate::reduction::{Reduction, Removal};
use crate::{Report, RunOptions, run};

/// A failing run made small.
#[derive(Clone, Debug)]
pub struct ReducedRun {
    /// How it is made.
    pub options: RunOptions,
    /// The report of the smallest failing run.
    pub report: Report,
    /// Runs that it took.
    pub runs: u32,
}

/// Looks for the smallest run of this seed that is still `wanted`, as `report` of `options` is,
/// in at most `runs_max` runs.
#[must_use]
pub fn shrink(
    options: &RunOptions,
    report: Report,
    runs_max: u32,
    wanted: &dyn Fn(&Report) -> bool,
) -> ReducedRun {
    let shrunk = ReducedRun { options: options.clone(), report, runs: 0 };
    let mut search = Search { shrunk, wanted, runs_max };
    let made = search.shrunk.report.counts.transfers as u32;
    search.drop_numbers(made..options.transfers, |without| &mut without.transfers);
    loop {
        let before = search.shrunk.options.clone();
        for kind in Removal::ALL {
            search.attempt(|without| _ = without.kinds.insert(kind));
        }
        search.halve(|report| report.counts.transfers as u32, |without| &mut without.transfers);
        search.halve(|report| report.counts.faults, |without| &mut without.faults);
        search.halve(|report| report.counts.acts, |without| &mut without.acts);
        if search.shrunk.options == before || search.is_over() {
            return search.shrunk;
        }
    }
}

type Numbers = fn(&mut Reduction) -> &mut BTreeSet<u32>;

struct Search<'a> {
    shrunk: ReducedRun,
    wanted: &'a dyn Fn(&Report) -> bool,
    runs_max: u32,
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        self.runs_max <= self.shrunk.runs
    }

    /// Tries to do without ever smaller parts of what is counted.
    fn halve(&mut self, count: fn(&Report) -> u32, numbers: Numbers) {
        let mut size = count(&self.shrunk.report).div_ceil(2);
        while 0 < size {
            let count = count(&self.shrunk.report);
            let mut first = 0;
            while first < count && !self.is_over() {
                self.drop_numbers(first..(first + size).min(count), numbers);
                first += size;
            }
            size /= 2;
        }
    }

    fn drop_numbers(&mut self, range: std::ops::Range<u32>, numbers: Numbers) {
        self.attempt(|without| numbers(without).extend(range));
    }

    /// Keeps a change that leaves the run as wanted.
    fn attempt(&mut self, change: impl FnOnce(&mut Reduction)) {
        let mut options = self.shrunk.options.clone();
        change(&mut options.without);
        if options == self.shrunk.options || self.is_over() {
            return;
        }
        self.shrunk.runs += 1;
        let report = run(self.shrunk.report.seed, &options);
        if (self.wanted)(&report) {
            self.shrunk.options = options;
            self.shrunk.report = report;
        }
    }
}
