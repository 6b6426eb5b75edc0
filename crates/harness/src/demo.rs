//! The demonstration: a switch, eight FSPs, whole transactions, verification.

use std::time::Duration;

use dfsp::SimulatorOptions;

use crate::error::HarnessError;
use crate::faults::demonstration;
use crate::hub::HubChoice;
use crate::nodes::NodesPlan;
use crate::options::{DemoOptions, FspOptions};
use crate::outage::NodesReport;
use crate::output::{check_json, print_results};
use crate::pairs::Pairs;
use crate::proc_stats::machine;
use crate::reconcile::differences;
use crate::report::{Cost, DemoReport, Latency, Legs};
use crate::run::{Drive, Length, Measured, Setup, carry_out};
use crate::scenario::Scenario;
use crate::switch_process::SwitchCommand;

const WARM_UP: Duration = Duration::from_secs(1);

/// Runs a demonstration and prints its results.
///
/// [`DemoReport::passed`] returns the verdict.
///
/// # Errors
///
/// The run could not be carried out. The switch has been stopped.
pub fn demo(options: &DemoOptions, command: &SwitchCommand) -> Result<DemoReport, HarnessError> {
    options.check()?;
    check_json(options.json.as_ref())?;
    let time = options.length();
    let plan = options.nodes.plan(demonstration(time));
    let data = options.data.clone();
    let drive = match (options.rate, options.concurrency) {
        (Some(rate), _) => Drive::Open { rate, backlog: usize::MAX },
        (None, Some(concurrency)) => Drive::Closed(concurrency),
        (None, None) => Drive::Climb,
    };
    let hub = match &plan {
        Some(plan) => HubChoice::Nodes { command, data, plan: plan.clone() },
        None => HubChoice::Spawn { command, data },
    };
    let measured = carry_out_demo(DemoRun {
        options,
        confirm_to_payee: command.confirm_to_payee,
        hub,
        drive,
        length: options.transactions.map_or(Length::Time(time), Length::Count),
        adjust: &|_, _| {},
    })?;
    let report = DemoReport {
        durability: plan.as_ref().map_or(command.durability.clone(), NodesPlan::durability),
        confirm_to_payee: command.confirm_to_payee,
        offered_rate_per_s: options.rate,
        ..summary(&measured, &options.fsps, plan.as_ref())
    };
    print_results(&report, options.json.as_ref())?;
    Ok(report)
}

/// One run of a demonstration.
pub(crate) struct DemoRun<'a> {
    pub(crate) options: &'a DemoOptions,
    pub(crate) confirm_to_payee: bool,
    pub(crate) hub: HubChoice<'a>,
    pub(crate) drive: Drive,
    pub(crate) length: Length,
    /// Adjusts the options of each FSP.
    pub(crate) adjust: &'a dyn Fn(usize, &mut SimulatorOptions),
}

/// Carries out one run of a demonstration, to its end.
pub(crate) fn carry_out_demo(run: DemoRun<'_>) -> Result<Measured, HarnessError> {
    let mut measured = carry_out(&Setup {
        scenario: Scenario::Whole,
        fsps: &run.options.fsps,
        pairs: Pairs::Uniform,
        drive: run.drive,
        length: run.length,
        warm_up: WARM_UP,
        stock: 0,
        lasts: None,
        hub: run.hub,
        adjust: run.adjust,
        onboard: true,
        register: true,
        confirm_to_payee: run.confirm_to_payee,
        holders: None,
        hold: run.options.hold,
        operator: None,
    })?;
    match measured.cut.take() {
        Some(error) => Err(error),
        None => Ok(measured),
    }
}

/// The members that all reports share; the caller adds the requested settings.
pub fn summary(measured: &Measured, fsps: &FspOptions, nodes: Option<&NodesPlan>) -> DemoReport {
    let result = &measured.result;
    let units = measured.good.max(1) as f64;
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e3 / units;
    let per_unit = |name| Some(measured.risen(name)? / units);
    let failures = result
        .failures
        .iter()
        .map(|(failure, (count, example))| format!("{count} x {failure}, such as {example}"));
    let differences = differences(&measured.checks);
    let rate = measured.good as f64 / measured.seconds;
    DemoReport {
        rate_per_s: if rate.is_finite() { rate } else { 0.0 },
        failed: measured.failed,
        verified: differences.is_empty(),
        latency_ms: Latency::of(&result.latencies.whole),
        legs_ms: Legs::of(&result.latencies),
        switch_cpu_ms_per_tx: measured.hub.map_or(0.0, |figures| each(figures.cpu)),
        switch_rss_mb: measured.resident_bytes_max.unwrap_or(0) as f64 / 1e6,
        syncs_per_tx: per_unit("upesi_log_syncs_total"),
        log_bytes_per_tx: per_unit("upesi_log_bytes_total"),
        cost_per_million: Cost::per_million(measured, units),
        machine: machine(),
        durability: String::new(),
        confirm_to_payee: false,
        simulators_cpu_ms_per_tx: each(measured.own_cpu),
        idle_share: measured.idle_share,
        seconds: measured.seconds,
        committed: measured.good,
        committed_in_all: measured.good_in_all,
        concurrency: measured.concurrency,
        offered_rate_per_s: None,
        fsps: fsps.fsps,
        style: fsps.style.state().to_owned(),
        fspiop_version: fsps.fspiop_version.as_str().to_owned(),
        resent: result.fsps.iter().map(|fsp| fsp.connections.resent).sum(),
        repeated_notices: result.fsps.iter().map(|fsp| fsp.counts.repeated).sum(),
        failures: failures.collect(),
        differences,
        nodes: nodes.map(|plan| NodesReport::of(plan, measured, each)),
    }
}
