//! The runs of each sweep: a table in `sweeps.json`, with the published figures for the same
//! question, and the options of the command line.
//!
//! The figures are those that their publications print; where one computes instead of measuring,
//! its name says so.

use std::collections::HashMap;

use serde::Deserialize;

use crate::options::{BenchOptions, FspOptions};
use crate::scenario::Scenario;
use crate::sweep::{DiskOptions, HourOptions, MillionOptions, ShortOptions, StandardOptions};
use crate::sweep_report::{Published, Source};

const TABLES: &str = include_str!("sweeps.json");
const QUICK_SECONDS: f64 = 1.0;

/// One run to be made.
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) at: f64,
    pub(crate) scenario: Scenario,
    pub(crate) options: BenchOptions,
    /// Text for the configuration file of the switch.
    pub(crate) configuration: String,
    /// Further arguments of the switch, and what they make of its durability.
    pub(crate) injected: Option<(String, String)>,
    pub(crate) published: Vec<Published>,
}

/// A sweep's runs and what they are compared with.
pub(crate) struct Plans {
    pub(crate) question: String,
    pub(crate) sources: Vec<Source>,
    pub(crate) plans: Vec<Plan>,
}

#[derive(Deserialize)]
struct Table {
    question: String,
    sources: Vec<Source>,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    /// Options of the command line are in braces.
    name: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    at: f64,
    concurrency: Option<usize>,
    /// Most records in a batch of the log.
    batch: Option<u32>,
    /// By how much each sync takes longer.
    sync_delay_us: Option<u32>,
    /// Whether syncs are as few as the command line says.
    #[serde(default)]
    is_at_syncs_per_second: bool,
    #[serde(default)]
    published: Vec<Published>,
}

/// Records per batch with 100 in flight, then a few in flight.
pub(crate) fn coil(options: &ShortOptions) -> Plans {
    let count = if options.output.quick { 200 } else { options.count };
    let each = BenchOptions {
        count: options.seconds.is_none().then_some(count),
        seconds: options.seconds.unwrap_or(1.0),
        ..base(options.output.quick)
    };
    plans("coil", Scenario::Transfer, &each)
}

/// S1 to S10: with and without batches, 30 to 100 in flight.
pub(crate) fn batching(options: &StandardOptions) -> Plans {
    let quick = options.output.quick;
    let seconds = if quick { QUICK_SECONDS } else { options.seconds };
    plans("batching", Scenario::Transfer, &BenchOptions { seconds, ..base(quick) })
}

/// Whole transactions, by their number.
pub(crate) fn million(options: &MillionOptions) -> Plans {
    let count = if options.output.quick { 2_000 } else { options.count };
    let run = BenchOptions {
        count: Some(count),
        concurrency: options.concurrency,
        rate: options.rate,
        ..base(options.output.quick)
    };
    plans("million", Scenario::Whole, &run).naming(&[("{count}", &count.to_string())])
}

/// Slower disks.
pub(crate) fn disk(options: &DiskOptions) -> Plans {
    let quick = options.output.quick;
    let run = BenchOptions {
        concurrency: options.concurrency,
        seconds: if quick { QUICK_SECONDS } else { options.seconds },
        ..base(quick)
    };
    let most = options.syncs_per_second;
    let mut disk = plans("disk", Scenario::Transfer, &run);
    for (plan, run) in disk.plans.iter_mut().zip(table("disk").runs) {
        if let Some(micros) = run.sync_delay_us {
            let millis = f64::from(micros) / 1e3;
            let meaning = format!("fsync before 202, each {millis} ms longer (injected)");
            plan.injected = Some((format!("--inject-sync-delay-us={micros}"), meaning));
        }
        if run.is_at_syncs_per_second {
            let meaning = format!("fsync before 202, at most {most} a second (injected)");
            plan.at = f64::from(most);
            plan.injected = Some((format!("--inject-sync-per-second={most}"), meaning));
        }
    }
    disk.naming(&[("{syncs}", &most.to_string())])
}

/// A long run at a constant rate.
pub(crate) fn hour(options: &HourOptions) -> Plans {
    let quick = options.output.quick;
    let seconds = if quick { 5.0 } else { options.seconds };
    let rate = if quick { options.rate.min(100.0) } else { options.rate };
    let run = BenchOptions { rate: Some(rate), seconds, ..base(quick) };
    let (rate, seconds) = (rate.to_string(), seconds.to_string());
    let named = [("{rate}", rate.as_str()), ("{seconds}", &seconds)];
    plans("hour", Scenario::Whole, &run).naming(&named)
}

/// The options that every run of a sweep starts from.
pub(crate) fn base(quick: bool) -> BenchOptions {
    let standard = FspOptions::standard();
    let fsps = if quick { FspOptions { subscribers: 20, ..standard } } else { standard };
    BenchOptions { fsps, warmup: if quick { 0.1 } else { 1.0 }, ..BenchOptions::standard() }
}

fn table(name: &str) -> Table {
    let tables = serde_json::from_str::<HashMap<String, Table>>(TABLES);
    tables.expect("the tables are good").remove(name).expect("each sweep has a table")
}

/// The runs of a table with these options, where it does not say otherwise.
fn plans(name: &str, scenario: Scenario, options: &BenchOptions) -> Plans {
    let Table { question, sources, runs } = table(name);
    let plan = |run: Run| Plan {
        name: run.name,
        group: run.group,
        at: run.at,
        scenario,
        options: BenchOptions {
            concurrency: run.concurrency.unwrap_or(options.concurrency),
            ..options.clone()
        },
        configuration: run.batch.map_or(String::new(), batch_limit),
        injected: None,
        published: run.published,
    };
    Plans { question, sources, plans: runs.into_iter().map(plan).collect() }
}

impl Plans {
    /// With these options of the command line in the names of the runs.
    fn naming(mut self, options: &[(&str, &str)]) -> Self {
        for plan in &mut self.plans {
            for (from, to) in options {
                plan.name = plan.name.replace(from, to);
            }
        }
        self
    }
}

fn batch_limit(records: u32) -> String {
    format!("[log]\nbatch_records_max = {records}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sweep_has_a_table() {
        for (name, runs) in [("coil", 9), ("batching", 8), ("million", 1), ("disk", 6), ("hour", 1)]
        {
            assert_eq!(table(name).runs.len(), runs, "{name}");
        }
    }
}
