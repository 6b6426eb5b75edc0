//! A measurement: one scenario against one hub, and the checks that decide whether it is valid.

use std::time::Duration;

use dfsp::SimulatorOptions;

use crate::bench_report::{
    BenchReport, Bucket, Ceiling, Durability, Embedded, OverOneSecond, Payload, Security, Share,
    Spread, StoredTransfers, SystemCalls, Window, configuration,
};
use crate::html_report;
use crate::options::BenchOptions;
use harness::admin::Metrics;
use harness::demo::summary;
use harness::error::HarnessError;
use harness::faults::{spread, upgrade};
use harness::hub::{HubChoice, RemoteHub};
use harness::load::TIMED_OUT;
use harness::nodes::NodesPlan;
use harness::options::NodesOptions;
use harness::output::{check_writable, print_results};
use harness::proc_stats::COMMIT;
use harness::reconcile::{ACCEPTED, ARRIVED, Check, MATCHING, REACHED, differences, not_taken};
use harness::report::{DemoReport, Latency};
use harness::run::{COMPLETED, Drive, HEALTHY, IDLE, Length, Measured, Operator, Setup, carry_out};
use harness::scenario::Scenario;
use harness::simulators::{SimulatorResult, place};
use harness::switch_process::{Confirm, SwitchCommand};

/// Maximum share of failed units in a valid run.
const FAILED_SHARE_MAX: f64 = 0.01;
/// Maximum share of dropped units in a valid run, of those due in the measured part.
const DROPPED_SHARE_MAX: f64 = 0.01;
/// The check that fails when callbacks do not arrive.
const IN_TIME: &str = "each unit received its callback in time";
/// A stock of default size may run out before the end of the run, but not earlier than this.
const STOCK_LASTS: Duration = Duration::from_secs(1);
/// Points of a distribution per halving of the rest (see `hdrhistogram`).
const POINTS_PER_HALF: u32 = 4;

/// Measures, prints the results, and writes the requested files.
///
/// The run counts only if [`BenchReport::valid`] is set.
///
/// # Errors
///
/// The run could not be set up, or a file cannot be written.
pub(crate) fn bench(
    scenario: Scenario,
    options: &BenchOptions,
    command: &SwitchCommand,
) -> Result<BenchReport, HarnessError> {
    options.check(scenario)?;
    for path in options.json.iter().flatten().chain(&options.report) {
        check_writable(path)?;
    }
    let report = run(scenario, options, command)?;
    print_results(&report, options.json.as_ref())?;
    if let Some(path) = &options.report {
        std::fs::write(path, html_report::run_page(&report)).map_err(HarnessError::file(path))?;
    }
    Ok(report)
}

/// Measures, and prints only progress.
///
/// # Errors
///
/// The options are invalid, or the run could not be set up. A run that is void or was cut short is
/// not an error: see [`BenchReport::valid`].
pub(crate) fn run(
    scenario: Scenario,
    options: &BenchOptions,
    command: &SwitchCommand,
) -> Result<BenchReport, HarnessError> {
    options.check(scenario)?;
    let compared = match options.nodes.nodes {
        // With injected faults, or at the same given rate for both, a ratio is meaningless.
        Some(_) => !options.has_faults() && options.rate.is_none(),
        None => options.ceiling,
    };
    if !compared {
        let (own, measured) = measure(scenario, options, command, None)?;
        return Ok(report(scenario, options, &own, measured));
    }
    // Before and after, to show whether the speed of the machine changed in between.
    let before = reference(scenario, options, command)?;
    let (own, measured) = measure(scenario, options, command, None)?;
    let cut = measured.cut.is_some();
    let mut report = report(scenario, options, &own, measured);
    if cut {
        return Ok(report);
    }
    let after = reference(scenario, options, command)?;
    let (before_per_s, after_per_s) = (before.rate_per_s, after.rate_per_s);
    let rate_per_s = (before_per_s + after_per_s) / 2.0;
    let ratio = Some(report.achieved_per_s / rate_per_s);
    if options.ceiling {
        let problems = [before.not_idle, after.not_idle].into_iter().flatten().collect();
        report.add(Check::of("the forward-only switch was idle, before and after", problems));
        report.ratio_to_ceiling = ratio;
        report.ceiling = Some(Ceiling { rate_per_s, before_per_s, after_per_s });
    } else {
        let p50_ms = (before.p50_ms + after.p50_ms) / 2.0;
        report.ratio_to_embedded = ratio;
        report.embedded = Some(Embedded { rate_per_s, p50_ms, before_per_s, after_per_s });
    }
    Ok(report)
}

/// The run that another one is compared with.
struct Reference {
    rate_per_s: f64,
    p50_ms: f64,
    /// The work that was still open at its end.
    not_idle: Option<String>,
}

/// Measures the same load for half the time: on a forward-only switch, or, for several nodes, on
/// one switch with its log in files.
fn reference(
    scenario: Scenario,
    options: &BenchOptions,
    command: &SwitchCommand,
) -> Result<Reference, HarnessError> {
    let half = BenchOptions {
        seconds: options.seconds / 2.0,
        count: options.count.map(|count| count.div_ceil(2)),
        data: None,
        nodes: NodesOptions::none(),
        ..options.clone()
    };
    let (what, command, name) = match options.ceiling {
        true => {
            let what = "ceiling: a forward-only switch";
            (what, command.forward_only(), "forward-only switch")
        }
        false => ("reference: one switch with its log in files", command.clone(), "one switch"),
    };
    eprintln!("{what}");
    let (_, measured) = measure(scenario, &half, &command, None)?;
    // The accounts of a forward-only switch never change. Of its checks, only those of the units
    // and that it was idle are meaningful.
    let problems = match options.ceiling {
        true => differences(&unit_checks(&measured)),
        false => differences(&measured.checks),
    };
    let described = |problem: &String| format!("{name}: {problem}");
    if let Some(cut) = measured.cut {
        return Err(cut);
    }
    if let Some(problem) = problems.first() {
        return Err(HarnessError::Hub(described(problem)));
    }
    let not_idle = measured.checks.iter().find(|check| check.name == IDLE);
    Ok(Reference {
        rate_per_s: measured.good as f64 / measured.seconds,
        p50_ms: Latency::of(&measured.result.latencies.whole).p50,
        not_idle: not_idle.and_then(|check| check.problems.first()).map(described),
    })
}

/// The nodes of a run, and the actions on them.
fn plan_of(options: &BenchOptions) -> Option<NodesPlan> {
    let length = Duration::from_secs_f64(options.seconds);
    let fault_steps = match (&options.upgrade, options.nodes.nodes) {
        (Some(_), Some(nodes)) => upgrade(nodes, length),
        _ => spread(&options.kill, length),
    };
    let plan = options.nodes.plan(fault_steps)?;
    // A file name without a directory would be looked up in PATH.
    let next = options.upgrade.clone().map(|path| std::path::absolute(&path).unwrap_or(path));
    Some(NodesPlan { next, ..plan })
}

pub(crate) fn measure(
    scenario: Scenario,
    options: &BenchOptions,
    command: &SwitchCommand,
    operator: Option<Operator<'_>>,
) -> Result<(SwitchCommand, Measured), HarnessError> {
    let confirm = if options.confirm_to_payee { Confirm::On } else { Confirm::Off };
    let mut command = command.clone().confirming(confirm);
    if let Scenario::Bulk(items) = scenario {
        command = command.with_bulk_items(items);
    }
    command.program = options.program.clone().unwrap_or(command.program);
    let hub = match &options.hub {
        Some(url) => {
            let admin = options.admin.as_deref();
            let mut remote = RemoteHub::new(url, admin, options.token.as_deref())?;
            remote.process = options.pid;
            HubChoice::Remote(remote)
        }
        None => match plan_of(options) {
            Some(plan) => HubChoice::Nodes { command: &command, data: options.data.clone(), plan },
            None => HubChoice::Spawn { command: &command, data: options.data.clone() },
        },
    };
    let setup = Setup {
        scenario,
        fsps: &options.fsps,
        pairs: options.pairs,
        drive: match options.rate {
            Some(rate) => Drive::Open { rate, backlog: options.backlog },
            None => Drive::Closed(options.concurrency),
        },
        length: match options.count {
            Some(count) => Length::Count(count),
            None => Length::Time(Duration::from_secs_f64(options.seconds)),
        },
        warm_up: Duration::from_secs_f64(options.warmup),
        stock: options.stock_for(scenario),
        lasts: options.stock.is_none().then_some(STOCK_LASTS),
        hub,
        adjust: &|index, simulator: &mut SimulatorOptions| {
            simulator.listen = place(options.listen, options.port, index);
            simulator.match_by_number = false;
        },
        onboard: !options.existing,
        register: !options.registered,
        confirm_to_payee: options.confirm_to_payee,
        holders: None,
        hold: false,
        operator,
    };
    let mut measured = carry_out(&setup)?;
    measured.checks.extend(unit_checks(&measured));
    put_causes_first(&mut measured);
    drop(setup);
    Ok((command, measured))
}

/// Lists the causes of a void run before their consequences.
fn put_causes_first(measured: &mut Measured) {
    if differences(&measured.checks).is_empty() {
        return;
    }
    measured.checks.extend(not_taken(&measured.result.fsps));
    // A stopped switch or an interrupt explains all other failures. Unfinished units do not.
    let explains = matches!(
        measured.cut,
        Some(HarnessError::Switch(_) | HarnessError::Interrupted | HarnessError::SimulatorsEnded)
    );
    // If nodes are killed on purpose, refused connections are expected.
    let disturbed = measured.nodes.is_some();
    measured.checks.sort_by_key(|check| match check.name {
        COMPLETED if explains => 0,
        HEALTHY => 1,
        ACCEPTED if !disturbed => 2,
        MATCHING => 3,
        REACHED => 4,
        IN_TIME => 5,
        ARRIVED => 6,
        _ => 7,
    });
}

/// The checks of the units themselves.
pub(crate) fn unit_checks(measured: &Measured) -> [Check; 4] {
    let check = |name, problem: Option<String>| Check::of(name, problem.into_iter().collect());
    let ended = measured.good_in_all + measured.failed;
    let failures = measured.result.failures.iter();
    let hung: u64 =
        failures.filter(|(name, _)| name.ends_with(TIMED_OUT)).map(|(_, (count, _))| count).sum();
    let lost = (hung > 0).then(|| {
        format!("{hung} of {ended} units {TIMED_OUT}: 0 expected; their callbacks did not arrive")
    });
    let many = (measured.failed as f64 > ended as f64 * FAILED_SHARE_MAX)
        .then(|| format!("{} of {ended} units failed, at most 1% allowed", measured.failed));
    let idle = (measured.good == 0).then(|| "0 units succeeded, at least 1 expected".to_owned());
    [
        check(IN_TIME, lost),
        check("at most 1% of the units failed", many),
        check("at most 1% of the units were dropped", dropped(measured)),
        check("something was measured", idle),
    ]
}

/// Units that were due but not started. The load was lower than the report states.
fn dropped(measured: &Measured) -> Option<String> {
    let (good, dropped, unstocked) = (measured.good, measured.dropped, measured.unstocked);
    too_many_dropped(good, dropped, unstocked)
}

/// Describes too many dropped units. `unstocked` of them found no transfer in stock.
fn too_many_dropped(good: u64, dropped: u64, unstocked: u64) -> Option<String> {
    let due = dropped + good;
    (dropped as f64 > due as f64 * DROPPED_SHARE_MAX).then(|| match unstocked {
        0 => format!(
            "{dropped} of {due} units were dropped because too many were in flight, at most 1% \
             allowed; lower --rate to the achieved rate, or raise --backlog"
        ),
        _ => format!(
            "{dropped} of {due} units were dropped, {unstocked} of them because the stock was used \
             up, at most 1% allowed; raise --stock"
        ),
    })
}

/// Builds the results of a run.
pub(crate) fn report(
    scenario: Scenario,
    options: &BenchOptions,
    command: &SwitchCommand,
    measured: Measured,
) -> BenchReport {
    let plan = plan_of(options);
    let (durability, durability_of) = durability(options, plan.as_ref(), command);
    let summary = DemoReport {
        durability,
        confirm_to_payee: options.confirm_to_payee,
        offered_rate_per_s: options.rate,
        ..summary(&measured, &options.fsps, plan.as_ref())
    };
    let units = measured.good.max(1) as f64;
    let whole = Window {
        from_s: 0.0,
        to_s: measured.seconds,
        ended: measured.good,
        rate_per_s: summary.rate_per_s,
        latency_ms: summary.latency_ms,
    };
    let result = &measured.result;
    BenchReport {
        scenario: scenario.name(),
        unit: scenario.definition(),
        units: scenario.units(),
        valid: summary.differences.is_empty(),
        books_compared: measured.books_compared,
        invalid_because: summary.differences.clone(),
        checks: measured.checks.clone(),
        offered_per_s: options.rate,
        achieved_per_s: whole.rate_per_s,
        dropped: measured.dropped,
        in_flight_max: measured.backlog_max,
        steady: steady(&measured),
        trimmed: format!(
            "first {:.1} and last {:.1} {}",
            measured.trim.first, measured.trim.last, measured.trim.unit
        ),
        whole_run: whole,
        over_one_second: OverOneSecond::of(&result.latencies),
        accepted_ms: Latency::of(&result.latencies.accepted),
        distribution_ms: distribution(result),
        histogram_ms: Bucket::all(&result.latencies.whole),
        harness_cpu_ms_per_tx: summary.simulators_cpu_ms_per_tx,
        ceiling: None,
        ratio_to_ceiling: None,
        embedded: None,
        ratio_to_embedded: None,
        system_calls: SystemCalls::of(&measured, units),
        durability_of,
        security: Security::plain(),
        payload: payload(result),
        stored_transfers: StoredTransfers {
            at_start: stored(&measured.metrics_at_start),
            at_end: stored(&measured.metrics_after),
        },
        environment: measured.environment.clone(),
        commit: COMMIT,
        spread: spread_of(options, result),
        configuration: configuration(options, command),
        began: measured.began,
        seconds_one_by_one: result.seconds.clone(),
        summary,
    }
}

/// Transfers that the hub stores.
fn stored(metrics: &Metrics) -> Option<u64> {
    let ended = metrics.get("upesi_transfers_ended")?;
    Some((ended + metrics.get("upesi_transfers_in_flight")?) as u64)
}

/// The durability of an acknowledgement, as text and as figures.
fn durability(
    options: &BenchOptions,
    plan: Option<&NodesPlan>,
    command: &SwitchCommand,
) -> (String, Durability) {
    match plan {
        Some(plan) => (plan.durability(), Durability::shared(plan.replicas())),
        None if options.hub.is_some() => ("not known".to_owned(), Durability::unknown()),
        None if command.is_on_topic => (command.durability.clone(), Durability::of_a_topic()),
        None => (command.durability.clone(), Durability::embedded()),
    }
}

fn steady(measured: &Measured) -> Window {
    let steady = &measured.result.steady;
    let (from, to) = steady.span.unwrap_or_default();
    let to_s = to.as_secs_f64().min(measured.seconds);
    let from_s = from.as_secs_f64().min(to_s);
    let rate = steady.ended as f64 / (to_s - from_s);
    Window {
        from_s,
        to_s,
        ended: steady.ended,
        rate_per_s: if rate.is_finite() { rate } else { 0.0 },
        latency_ms: Latency::of(&steady.whole),
    }
}

/// Pairs of quantile and milliseconds, denser towards the slowest.
fn distribution(result: &SimulatorResult) -> Vec<(f64, f64)> {
    let whole = &result.latencies.whole;
    let points = whole.iter_quantiles(POINTS_PER_HALF);
    points
        .map(|point| (point.quantile_iterated_to(), point.value_iterated_to() as f64 / 1e3))
        .collect()
}

fn payload(result: &SimulatorResult) -> Payload {
    let sum = |of: fn(&dfsp::Bodies) -> u64| -> u64 {
        result.fsps.iter().map(|fsp| of(&fsp.bodies)).sum()
    };
    let (requests, bytes) = (sum(|it| it.count), sum(|it| it.bytes));
    Payload { bodies: requests, mean_body_bytes: bytes as f64 / requests.max(1) as f64 }
}

/// The measured shares of payers, payees and pairs.
fn spread_of(options: &BenchOptions, result: &SimulatorResult) -> Spread {
    let all: u64 = result.routes.iter().map(|route| route.2).sum();
    let share = |count: u64| count as f64 / all.max(1) as f64;
    let largest = |of: fn(&(String, String, u64)) -> &String| {
        let mut sums = std::collections::BTreeMap::new();
        for route in &result.routes {
            *sums.entry(of(route)).or_insert(0) += route.2;
        }
        share(sums.into_values().max().unwrap_or(0))
    };
    let mut pairs: Vec<Share> = result
        .routes
        .iter()
        .map(|(payer, payee, count)| Share {
            payer: payer.clone(),
            payee: payee.clone(),
            share: share(*count),
        })
        .collect();
    pairs.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.payer.cmp(&b.payer)));
    Spread {
        kind: options.pairs.name(),
        largest_payer: largest(|route| &route.0),
        largest_payee: largest(|route| &route.1),
        largest_pair: pairs.first().map_or(0.0, |pair| pair.share),
        pairs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_one_percent_of_dropped_units_is_a_problem() {
        assert_eq!(too_many_dropped(0, 0, 0), None);
        assert_eq!(too_many_dropped(9_900, 100, 0), None);
        let problem = too_many_dropped(18_021, 61_840, 0).expect("most were dropped");
        assert!(problem.starts_with("61840 of 79861 units were dropped"), "{problem}");
        assert!(problem.contains("lower --rate"), "{problem}");
        let problem = too_many_dropped(10, 4_990, 4_990).expect("most were dropped");
        assert!(problem.contains("raise --stock"), "{problem}");
    }
}
