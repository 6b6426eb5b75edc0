//! `upesi-bench bulk`: bulk transfers, compared with single transfers and with the kernel alone.
//!
//! Three runs, each with a switch of its own: single transfers, one bulk after the other in each
//! pair of FSPs, and one bulk at a time. Then the kernel alone decides bulks of the same size.

use std::fmt;

use clap::Args;
use harness::error::HarnessError;
use harness::options::require;
use harness::output::{check_json, print_results};
use harness::report::Latency;
use harness::scenario::Scenario;
use harness::switch_process::SwitchCommand;
use serde::Serialize;
use waterfall::text;

use crate::bench::{measure, report};
use crate::bench_report::BenchReport;
use crate::options::BenchOptions;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi-bench bulk                             bulks of 1,000 items, three runs of 15 s
  upesi-bench bulk --items 10000 --seconds 60 --json bulk.json";

/// The largest bulk that a switch can be configured to accept.
const ITEMS_MAX: u16 = 10_000;
/// Longest median time from a payer's bulk to its payee's call, for up to 1,000 items.
const CALLED_GOAL_MS: f64 = 50.0;
const CALLED_GOAL_ITEMS: u16 = 1_000;
/// Least ratio of the rate of items to that of single transfers.
const RATIO_GOAL: f64 = 2.0;

/// Members that are in the table, in the last lines, or in the JSON only.
const NOT_AS_FIELDS: [&str; 9] = [
    "payee_called_ms",
    "result_ms",
    "payee_called_loaded_ms",
    "goals",
    "valid",
    "invalid_because",
    "loaded",
    "alone",
    "singles",
];

/// Options of `bulk`.
#[derive(Args, Clone, Debug)]
pub(crate) struct BulkOptions {
    /// Number of items in each bulk, up to 10000.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) items: u16,
    /// Bulks in flight in the second run.
    #[arg(long, default_value_t = 4)]
    pub(crate) bulks: usize,
    #[command(flatten)]
    pub(crate) run: BenchOptions,
}

/// The results of the three runs.
#[derive(Serialize)]
pub(crate) struct BulkReport {
    /// Items in each bulk.
    items: u16,
    /// Committed items per second, with bulks in flight in all pairs.
    items_per_s: f64,
    /// Committed single transfers per second.
    singles_per_s: f64,
    /// The first divided by the second.
    ratio: f64,
    /// From a payer's POST to the payee's call, with one bulk in flight.
    payee_called_ms: Latency,
    /// From a payer's POST to the result of all items, with one bulk in flight.
    result_ms: Latency,
    /// From a payer's POST to the payee's call, with bulks in flight in all pairs.
    payee_called_loaded_ms: Latency,
    /// CPU time and log of the switch for an item, and for a single transfer.
    cost: Costs,
    /// The kernel alone.
    ceiling: Ceiling,
    /// Each goal, and whether it was reached.
    goals: Vec<Goal>,
    /// Whether all runs count.
    pub(crate) valid: bool,
    /// The failed checks of all runs.
    pub(crate) invalid_because: Vec<String>,
    /// The run with bulks in all pairs. One unit is a bulk.
    loaded: BenchReport,
    /// The run with one bulk at a time.
    alone: BenchReport,
    /// The run with single transfers.
    singles: BenchReport,
}

/// Costs of the switch for one transfer.
#[derive(Clone, Copy, Debug, Serialize)]
struct Costs {
    cpu_us_per_item: f64,
    cpu_us_per_single: f64,
    log_bytes_per_item: Option<f64>,
    log_bytes_per_single: Option<f64>,
}

/// The rates of the kernel alone, without log, sockets and messages.
#[derive(Clone, Copy, Debug, Serialize)]
struct Ceiling {
    items_per_s: f64,
    singles_per_s: f64,
    /// Measured rate of items divided by that of the kernel.
    ratio_to_ceiling: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Goal {
    goal: &'static str,
    measured: f64,
    reached: bool,
}

/// Measures, prints the results, and writes the requested file.
///
/// # Errors
///
/// The options are invalid, a run could not be set up, or a file cannot be written.
pub(crate) fn bench(
    options: &BulkOptions,
    command: &SwitchCommand,
) -> Result<BulkReport, HarnessError> {
    options.check()?;
    check_json(options.run.json.as_ref())?;
    let run = |name: &str, scenario, concurrency| {
        eprintln!("{name}");
        let run = BenchOptions { concurrency, ..options.run.clone() };
        let (own, measured) = measure(scenario, &run, command, None)?;
        let called = Latency::of(&measured.result.latencies.payee_called);
        Ok::<_, HarnessError>((report(scenario, &run, &own, measured), called))
    };
    let (singles, _) = run("single transfers", Scenario::Transfer, options.run.concurrency)?;
    let bulk = Scenario::Bulk(options.items);
    let (loaded, payee_called_loaded_ms) = run("bulks in all pairs", bulk, options.bulks)?;
    let (alone, payee_called_ms) = run("one bulk at a time", bulk, 1)?;
    eprintln!("the kernel alone");
    let kernel = microbench::decide_bulks(options.items);
    let items = f64::from(options.items);
    let items_per_s = loaded.achieved_per_s * items;
    let singles_per_s = singles.achieved_per_s;
    let runs = [&singles, &loaded, &alone];
    let report = BulkReport {
        items: options.items,
        items_per_s,
        singles_per_s,
        ratio: items_per_s / singles_per_s,
        payee_called_ms,
        result_ms: alone.whole_run.latency_ms,
        payee_called_loaded_ms,
        cost: Costs {
            cpu_us_per_item: loaded.summary.switch_cpu_ms_per_tx * 1e3 / items,
            cpu_us_per_single: singles.summary.switch_cpu_ms_per_tx * 1e3,
            log_bytes_per_item: loaded.summary.log_bytes_per_tx.map(|bytes| bytes / items),
            log_bytes_per_single: singles.summary.log_bytes_per_tx,
        },
        ceiling: Ceiling {
            items_per_s: kernel.items_per_s,
            singles_per_s: kernel.singles_per_s,
            ratio_to_ceiling: items_per_s / kernel.items_per_s,
        },
        goals: goals(options.items, payee_called_ms.p50, items_per_s / singles_per_s),
        valid: runs.iter().all(|run| run.valid),
        invalid_because: runs.iter().flat_map(|run| run.invalid_because.clone()).collect(),
        loaded,
        alone,
        singles,
    };
    print_results(&report, options.run.json.as_ref())?;
    Ok(report)
}

impl BulkOptions {
    fn check(&self) -> Result<(), HarnessError> {
        let run = &self.run;
        let is_own = run.hub.is_none() && run.nodes.nodes.is_none() && !run.ceiling;
        require(is_own, "bulk: not with --hub, --nodes or --ceiling")?;
        require(run.rate.is_none() && run.count.is_none(), "bulk: not with --rate or --count")?;
        require(run.report.is_none(), "bulk: not with --report; use --json")?;
        require(run.data.is_none(), "bulk: not with --data, because it makes three runs")?;
        require((1..=ITEMS_MAX).contains(&self.items), "--items: expected 1 to 10000")?;
        require((1..=100).contains(&self.bulks), "--bulks: expected 1 to 100")?;
        run.check(Scenario::Bulk(self.items))
    }
}

fn goals(items: u16, called_ms: f64, ratio: f64) -> Vec<Goal> {
    let called = Goal {
        goal: "median from POST to the payee's call below 50 ms",
        measured: called_ms,
        reached: called_ms < CALLED_GOAL_MS,
    };
    let rate = Goal {
        goal: "items at 2 times the rate of single transfers",
        measured: ratio,
        reached: RATIO_GOAL <= ratio,
    };
    let applies = items <= CALLED_GOAL_ITEMS;
    applies.then_some(called).into_iter().chain([rate]).collect()
}

impl fmt::Display for BulkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |name: &str, of: &Latency| {
            let Latency { avg, p50, p90, p99, max, .. } = *of;
            let figures = [avg, p50, p90, p99, max].map(|it| text::cell(Some(it)));
            [name.to_owned()].into_iter().chain(figures).collect::<Vec<_>>()
        };
        let rows = [
            row("payee called, one bulk", &self.payee_called_ms),
            row("result, one bulk", &self.result_ms),
            row("payee called, all pairs", &self.payee_called_loaded_ms),
            row("result, all pairs", &self.loaded.whole_run.latency_ms),
        ];
        write!(f, "{}", text::table(&["ms", "avg", "p50", "p90", "p99", "max"], &rows))?;
        f.write_str(&text::fields(self, &NOT_AS_FIELDS))?;
        for Goal { goal, measured, reached } in &self.goals {
            let word = if *reached { "reached" } else { "MISSED " };
            writeln!(f, "goal            {word} {goal}: {}", text::cell(Some(*measured)))?;
        }
        for problem in &self.invalid_because {
            writeln!(f, "FAILED          {problem}")?;
        }
        match self.valid {
            true => writeln!(f, "valid           yes"),
            false => writeln!(f, "VOID            a run is not a valid result; see --json"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_do_not_fit_are_refused() {
        let of = |items, bulks| {
            let run = BenchOptions::standard();
            BulkOptions { items, bulks, run }.check().is_ok()
        };
        assert!(of(1, 1) && of(10_000, 100));
        assert!(!of(0, 1) && !of(10_001, 1) && !of(1_000, 0) && !of(1_000, 101));
    }

    #[test]
    fn goal_of_the_call_is_only_that_of_smaller_bulks() {
        let reached = |items, called, ratio| -> Vec<bool> {
            goals(items, called, ratio).iter().map(|goal| goal.reached).collect()
        };
        assert_eq!(reached(1_000, 49.9, 2.0), [true, true]);
        assert_eq!(reached(1_000, 50.0, 1.99), [false, false]);
        assert_eq!(reached(1_001, 200.0, 3.0), [true]);
    }
}
