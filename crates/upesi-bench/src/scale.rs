//! `upesi-bench scale`: the same load on one, two and more cores, and the thread that limits next.
//!
//! Each run has a new switch. The switch and the simulated FSPs are pinned to the same cores. From
//! the CPU time of the switch's threads per transfer follows which rate more cores would allow if
//! the FSPs ran elsewhere.

use std::collections::BTreeMap;
use std::fmt;

use clap::Args;
use harness::affinity::PinnedCores;
use harness::error::HarnessError;
use harness::options::require;
use harness::output::{check_json, print_results};
use harness::scenario::Scenario;
use harness::switch_process::SwitchCommand;
use serde::Serialize;
use waterfall::text;

use crate::bench::{measure, report};
use crate::bench_report::BenchReport;
use crate::options::BenchOptions;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi-bench scale                            on 1, 2, 4, ... cores of this machine
  upesi-bench scale --cores 2 --seconds 60 --json scale.json";

/// The thread that decides all transfers in one order. More cores do not divide its work.
const ORDERED_THREAD: &str = "sequencer";
/// Numbers of cores for which a rate is computed.
const COMPUTED_CORES: [usize; 5] = [4, 8, 16, 32, 64];
/// Idle share of the cores below which they are the limit.
const FULL: f64 = 0.1;

/// Options of `scale`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScaleOptions {
    /// Numbers of cores, such as 1,2 [default: 1, 2, 4, ... of this machine].
    #[arg(long, value_name = "COUNT,COUNT", value_delimiter = ',')]
    pub(crate) cores: Vec<usize>,
    #[command(flatten)]
    pub(crate) run: BenchOptions,
}

/// The results of all runs.
#[derive(Serialize)]
pub(crate) struct ScaleReport {
    /// One run for each number of cores.
    runs: Vec<ScaleRun>,
    /// The limit of the last run.
    next_limit: String,
    /// Transfers per second that the ordered thread could decide, by the last run.
    ordered_limit_per_s: f64,
    /// Computed rates on more cores, with the FSPs elsewhere.
    computed: Vec<ComputedRate>,
    /// Whether all runs count.
    pub(crate) valid: bool,
    /// The failed checks of all runs.
    pub(crate) invalid_because: Vec<String>,
}

/// One run.
#[derive(Serialize)]
struct ScaleRun {
    cores: usize,
    rate_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Transfers per second and core.
    per_core_second: f64,
    /// CPU time of the switch for a transfer.
    switch_cpu_us: f64,
    /// CPU time of the simulated FSPs for a transfer.
    simulators_cpu_us: f64,
    /// Share of the cores that neither used. Other programs are counted as idle.
    idle: f64,
    /// CPU time of each thread of the switch for a transfer, in microseconds; threads that differ
    /// in their number are counted together.
    threads_cpu_us: BTreeMap<String, f64>,
    run: BenchReport,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct ComputedRate {
    cores: usize,
    rate_per_s: f64,
}

/// Measures, prints the results, and writes the requested file.
///
/// # Errors
///
/// The options are invalid, a run could not be set up, or a file cannot be written.
pub(crate) fn bench(
    options: &ScaleOptions,
    command: &SwitchCommand,
) -> Result<ScaleReport, HarnessError> {
    options.check()?;
    check_json(options.run.json.as_ref())?;
    let runs: Vec<ScaleRun> = options
        .core_counts()
        .into_iter()
        .map(|cores| run_on(cores, &options.run, command))
        .collect::<Result<_, _>>()?;
    let last = runs.last().expect("there is a number of cores");
    let report = ScaleReport {
        next_limit: next_limit(last),
        ordered_limit_per_s: last.ordered_limit_per_s(),
        computed: COMPUTED_CORES.map(|cores| last.computed_rate(cores)).to_vec(),
        valid: runs.iter().all(|run| run.run.valid),
        invalid_because: runs.iter().flat_map(|run| run.run.invalid_because.clone()).collect(),
        runs,
    };
    print_results(&report, options.run.json.as_ref())?;
    Ok(report)
}

fn run_on(
    cores: usize,
    options: &BenchOptions,
    command: &SwitchCommand,
) -> Result<ScaleRun, HarnessError> {
    let failed = |error: std::io::Error| HarnessError::Options(format!("--cores: {error}"));
    eprintln!("transfers on {}", counted(cores));
    let _pinned = PinnedCores::first(cores).map_err(failed)?;
    let scenario = Scenario::Transfer;
    let (own, measured) = measure(scenario, options, command, None)?;
    let (seconds, good) = (measured.seconds, measured.good.max(1) as f64);
    let per_transfer = |cpu: std::time::Duration| cpu.as_secs_f64() * 1e6 / good;
    let hub_cpu = measured.hub.map(|hub| hub.cpu).unwrap_or_default();
    let used = (hub_cpu + measured.own_cpu).as_secs_f64();
    let threads = measured.hub_threads.iter();
    let threads_cpu_us = threads.map(|(name, cpu)| (name.clone(), per_transfer(*cpu))).collect();
    let (switch_cpu_us, simulators_cpu_us) =
        (per_transfer(hub_cpu), per_transfer(measured.own_cpu));
    let run = report(scenario, options, &own, measured);
    Ok(ScaleRun {
        cores,
        rate_per_s: run.achieved_per_s,
        p50_ms: run.whole_run.latency_ms.p50,
        p99_ms: run.whole_run.latency_ms.p99,
        per_core_second: run.achieved_per_s / cores as f64,
        switch_cpu_us,
        simulators_cpu_us,
        idle: (1.0 - used / (seconds * cores as f64)).max(0.0),
        threads_cpu_us,
        run,
    })
}

impl ScaleOptions {
    fn check(&self) -> Result<(), HarnessError> {
        let run = &self.run;
        let is_own = run.hub.is_none() && run.nodes.nodes.is_none() && !run.ceiling;
        require(is_own, "scale: not with --hub, --nodes or --ceiling")?;
        require(run.rate.is_none(), "scale: not with --rate")?;
        require(run.report.is_none(), "scale: not with --report; use --json")?;
        require(run.data.is_none(), "scale: not with --data, because it makes several runs")?;
        require(!self.cores.contains(&0), "--cores: expected numbers from 1 on")?;
        run.check(Scenario::Transfer)
    }

    /// 1, 2, 4 and so on, and all cores, unless others are named.
    fn core_counts(&self) -> Vec<usize> {
        if !self.cores.is_empty() {
            return self.cores.clone();
        }
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        let doubled = std::iter::successors(Some(1), |cores| Some(2 * cores));
        doubled.take_while(|&cores| cores < all).chain([all]).collect()
    }
}

impl ScaleRun {
    /// CPU time of the ordered thread for a transfer.
    fn ordered_cpu_us(&self) -> f64 {
        self.threads_cpu_us.get(ORDERED_THREAD).copied().unwrap_or_default()
    }

    fn ordered_limit_per_s(&self) -> f64 {
        1e6 / self.ordered_cpu_us().max(f64::MIN_POSITIVE)
    }

    /// The rate on this number of cores, if the FSPs run elsewhere.
    fn computed_rate(&self, cores: usize) -> ComputedRate {
        let all_full = cores as f64 * 1e6 / self.switch_cpu_us.max(f64::MIN_POSITIVE);
        ComputedRate { cores, rate_per_s: all_full.min(self.ordered_limit_per_s()) }
    }
}

/// The limit of a run: the cores, or the thread with the most work.
fn next_limit(run: &ScaleRun) -> String {
    let cores = counted(run.cores);
    if run.idle < FULL {
        return format!("{cores}: {:.0} % idle", run.idle * 100.0);
    }
    let busiest = run.threads_cpu_us.iter().max_by(|one, other| one.1.total_cmp(other.1));
    let Some((name, cpu_us)) = busiest else { return "unknown".to_owned() };
    let share = cpu_us * run.rate_per_s / 1e4;
    format!("threads {name}: {share:.0} % of a core; {cores} {:.0} % idle", run.idle * 100.0)
}

fn counted(cores: usize) -> String {
    if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") }
}

impl fmt::Display for ScaleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = [
            "cores",
            "per s",
            "per s and core",
            "p50 ms",
            "p99 ms",
            "switch us",
            "FSPs us",
            "idle",
        ];
        let row = |run: &ScaleRun| {
            let ScaleRun { rate_per_s, per_core_second, p50_ms, p99_ms, .. } = run;
            let figures = [*rate_per_s, *per_core_second, *p50_ms, *p99_ms];
            let costs = [run.switch_cpu_us, run.simulators_cpu_us];
            let cells = figures.into_iter().chain(costs).map(|figure| text::cell(Some(figure)));
            let idle = format!("{:.0} %", run.idle * 100.0);
            [run.cores.to_string()].into_iter().chain(cells).chain([idle]).collect()
        };
        let rows: Vec<Vec<String>> = self.runs.iter().map(row).collect();
        write!(f, "{}", text::table(&columns, &rows))?;
        self.write_threads(f)?;
        writeln!(f, "\nlimit           {}", self.next_limit)?;
        writeln!(f, "ordered thread  {:.0} transfers/s", self.ordered_limit_per_s)?;
        let rates = self.computed.iter();
        let rates: Vec<_> =
            rates.map(|it| format!("{} cores {:.0}/s", it.cores, it.rate_per_s)).collect();
        writeln!(f, "computed        {}", rates.join(", "))?;
        for problem in &self.invalid_because {
            writeln!(f, "FAILED          {problem}")?;
        }
        match self.valid {
            true => writeln!(f, "valid           yes"),
            false => writeln!(f, "VOID            a run is not a valid result; see --json"),
        }
    }
}

impl ScaleReport {
    /// CPU time of each thread of the switch for a transfer, the largest first.
    fn write_threads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(last) = self.runs.last() else { return Ok(()) };
        let mut threads: Vec<(&String, &f64)> = last.threads_cpu_us.iter().collect();
        threads.sort_by(|one, other| other.1.total_cmp(one.1));
        let share = |cpu_us: f64| format!("{:.0} %", cpu_us * last.rate_per_s / 1e4);
        let rows: Vec<Vec<String>> = threads
            .iter()
            .filter(|(_, cpu_us)| 0.0 < **cpu_us)
            .map(|(name, cpu_us)| {
                vec![(*name).clone(), text::cell(Some(**cpu_us)), share(**cpu_us)]
            })
            .collect();
        write!(f, "\n{}", text::table(&["threads", "us per transfer", "of a core"], &rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_counts_double_up_to_all() {
        let of = |cores: &[usize]| {
            let (cores, run) = (cores.to_vec(), BenchOptions::standard());
            ScaleOptions { cores, run }
        };
        assert_eq!(of(&[2, 1]).core_counts(), [2, 1]);
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        let counts = of(&[]).core_counts();
        assert_eq!((counts.first(), counts.last()), (Some(&1), Some(&all)));
        assert!(of(&[1]).check().is_ok() && of(&[0]).check().is_err());
    }
}
