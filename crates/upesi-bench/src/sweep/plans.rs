//! The runs of each sweep: a table in `sweeps.json`, with the published figures for the same
//! question, combined with the options of the command line.
//!
//! The figures are those that the publications print. The name of a computed figure states that it
//! is computed.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::options::BenchOptions;
use crate::sweep::report::{PublishedRow, Source};
use crate::sweep::{TableLoad, TableOptions};
use harness::error::HarnessError;
use harness::options::{FspOptions, require};
use harness::scenario::Scenario;

const TABLES: &str = include_str!("sweeps.json");
/// Maximum of the switch's option for syncs per second.
const SYNCS_PER_SECOND_MAX: u32 = 1_000_000;

/// One run to be made.
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) at: f64,
    pub(crate) scenario: Scenario,
    pub(crate) options: BenchOptions,
    /// Text for the configuration file of the switch.
    pub(crate) configuration: String,
    /// An additional argument of the switch, and the resulting durability.
    pub(crate) injected: Option<(String, String)>,
    pub(crate) published: Vec<PublishedRow>,
}

/// A sweep's runs and the publications to compare with.
pub(crate) struct Plans {
    pub(crate) question: String,
    pub(crate) sources: Vec<Source>,
    pub(crate) plans: Vec<Plan>,
}

#[derive(Deserialize)]
struct Table {
    scenario: String,
    /// Options that the sweep accepts, with their defaults.
    takes: Map<String, Value>,
    /// Their values in a quick sweep.
    quick: Map<String, Value>,
    question: String,
    sources: Vec<Source>,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    /// May contain options in braces.
    name: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    at: f64,
    concurrency: Option<usize>,
    /// Maximum records in a batch of the log.
    batch: Option<u32>,
    /// Added duration of each sync.
    sync_delay_us: Option<u32>,
    /// Whether syncs per second are limited as given on the command line.
    #[serde(default)]
    is_at_syncs_per_second: bool,
    #[serde(default)]
    published: Vec<PublishedRow>,
}

/// Builds the runs of a table, with the options of the command line in their load and names.
pub(crate) fn plans(name: &str, options: &TableOptions) -> Result<Plans, HarnessError> {
    let quick = options.output.quick;
    let table = table(name);
    let set = table.options(name, &options.load, quick)?;
    let load: TableLoad = serde_json::from_value(set.clone().into()).expect("the tables are valid");
    let most = load.syncs_per_second.unwrap_or(SYNCS_PER_SECOND_MAX);
    let syncs = (1..=SYNCS_PER_SECOND_MAX).contains(&most);
    require(syncs, "--syncs-per-second: expected 1 to 1000000")?;
    let scenario = Scenario::ALL.into_iter().find(|it| it.name() == table.scenario);
    let scenario = scenario.expect("the tables are valid");
    let standard = base(quick);
    let plan = |run: Run| Plan {
        name: set.iter().fold(run.name, |name, (option, value)| {
            let value = value.as_f64().map_or(String::new(), |value| value.to_string());
            name.replace(&format!("{{{option}}}"), &value)
        }),
        group: run.group,
        at: if run.is_at_syncs_per_second { f64::from(most) } else { run.at },
        scenario,
        options: BenchOptions {
            count: load.count,
            seconds: load.seconds.unwrap_or(standard.seconds),
            concurrency: run.concurrency.or(load.concurrency).unwrap_or(standard.concurrency),
            rate: load.rate,
            ..standard.clone()
        },
        configuration: run.batch.map_or(String::new(), batch_limit),
        injected: match (run.sync_delay_us, run.is_at_syncs_per_second) {
            (Some(micros), _) => {
                let millis = f64::from(micros) / 1e3;
                let meaning = format!("fsync before 202, each {millis} ms longer (injected)");
                Some((format!("--inject-sync-delay-us={micros}"), meaning))
            }
            (None, true) => {
                let meaning = format!("fsync before 202, at most {most} a second (injected)");
                Some((format!("--inject-sync-per-second={most}"), meaning))
            }
            (None, false) => None,
        },
        published: run.published,
    };
    let plans = table.runs.into_iter().map(plan).collect();
    Ok(Plans { question: table.question, sources: table.sources, plans })
}

impl Table {
    /// Every option with a value: the default, the given one, or that of a quick sweep.
    fn options(
        &self,
        name: &str,
        given: &TableLoad,
        quick: bool,
    ) -> Result<Map<String, Value>, HarnessError> {
        let mut set = self.takes.clone();
        let Ok(Value::Object(given)) = serde_json::to_value(given) else {
            unreachable!("options are an object");
        };
        for (option, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
            let shown = option.replace('_', "-");
            require(
                set.contains_key(&option),
                &format!("--{shown}: not an option of sweep {name}"),
            )?;
            let is_set = quick && self.quick.contains_key(&option);
            require(!is_set, &format!("--quick sets --{shown}; omit one of them"))?;
            if option == "seconds" {
                set.remove("count");
            }
            set.insert(option, value);
        }
        if quick {
            set.extend(self.quick.clone());
        }
        set.retain(|_, value| !value.is_null());
        Ok(set)
    }
}

/// The options that every run of a sweep starts from.
pub(crate) fn base(quick: bool) -> BenchOptions {
    let standard = FspOptions::standard();
    let fsps = if quick { FspOptions { subscribers: 20, ..standard } } else { standard };
    BenchOptions { fsps, warmup: if quick { 0.1 } else { 1.0 }, ..BenchOptions::standard() }
}

fn table(name: &str) -> Table {
    let tables = serde_json::from_str::<HashMap<String, Table>>(TABLES);
    tables.expect("the tables are valid").remove(name).expect("each sweep has a table")
}

fn batch_limit(records: u32) -> String {
    format!("[log]\nbatch_records_max = {records}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::SweepOutput;

    fn options(quick: bool, load: TableLoad) -> TableOptions {
        let output = SweepOutput { quick, json: None, report: None, program: None };
        TableOptions { load, output }
    }

    #[test]
    fn each_sweep_has_a_table() {
        for (name, runs) in [("coil", 9), ("batching", 8), ("million", 1), ("disk", 6), ("hour", 1)]
        {
            for quick in [false, true] {
                let plans = plans(name, &options(quick, TableLoad::default())).expect("defaults");
                assert_eq!(plans.plans.len(), runs, "{name}");
                let check = |plan: &Plan| plan.options.check(plan.scenario).is_ok();
                assert!(plans.plans.iter().all(check), "{name}");
            }
        }
    }

    #[test]
    fn table_accepts_only_its_own_options() {
        let named = |name, quick, load| match plans(name, &options(quick, load)) {
            Ok(plans) => plans.plans.last().map(|plan| plan.name.clone()).unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        let seconds = || TableLoad { seconds: Some(60.0), ..TableLoad::default() };
        let rate = || TableLoad { rate: Some(500.0), ..TableLoad::default() };
        assert_eq!(named("hour", false, seconds()), "1000/s for 60 s");
        assert_eq!(named("hour", true, TableLoad::default()), "100/s for 5 s");
        assert_eq!(named("coil", false, rate()), "--rate: not an option of sweep coil");
        let refused = "--quick sets --seconds; omit one of them";
        assert_eq!(named("disk", true, seconds()), refused);
        let coil =
            plans("coil", &options(false, seconds())).expect("it accepts seconds, too").plans;
        assert_eq!((coil[0].options.count, coil[0].options.seconds), (None, 60.0));
    }
}
