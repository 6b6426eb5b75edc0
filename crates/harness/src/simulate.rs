//! Simulated FSPs against any hub, until an interrupt or for a given time.

use std::time::{Duration, Instant};

use dfsp::observations::{Exchange, Flow};
use waterfall::text;

use crate::admin::{Admin, resolve};
use crate::error::HarnessError;
use crate::interrupt::Interrupt;
use crate::load::{Load, Phase};
use crate::onboarding::onboard;
use crate::options::SimulateOptions;
use crate::pairs::Pairs;
use crate::scenario::Scenario;
use crate::secure_scheme::SecureScheme;
use crate::simulators::{FspResult, SimulatorPlan, SimulatorResult, Simulators, place, plan};
use crate::status_line::{RunPhase, StatusLine};
use crate::switch_process::read_token;

const POLL: Duration = Duration::from_millis(100);

/// Runs simulated FSPs against a hub and prints the observations of each of them at the end.
///
/// # Errors
///
/// The FSPs or their onboarding could not be set up, or a transaction of a given number of them
/// failed. Without such a number, failed transactions are not an error.
pub fn simulate(options: &SimulateOptions) -> Result<(), HarnessError> {
    options.check()?;
    let interrupt = Interrupt::listen();
    let mut live = StatusLine::on_stderr();
    let hub = resolve(&options.hub)?;
    let load = match (options.rate, options.concurrency) {
        (Some(rate), _) => Load::Open { rate, backlog: usize::MAX },
        (None, Some(_)) => Load::Closed,
        (None, None) => Load::None,
    };
    let scheme = scheme(options)?;
    let mut placed = plan(&options.fsps, &[hub]);
    for (index, simulator) in placed.iter_mut().enumerate() {
        simulator.listen = place(options.listen, options.port, index);
        if let Some(scheme) = &scheme {
            scheme.protect_for(simulator, host(&options.hub));
        }
    }
    let (scenario, pairs, threads) = (Scenario::Whole, Pairs::Uniform, options.fsps.threads);
    let simulator_plan = SimulatorPlan { scenario, pairs, load, threads, keeps_ends: false };
    let simulators = Simulators::start(&placed, simulator_plan)?;
    for fsp in simulators.bound() {
        let protocol = if scheme.is_some() { "https" } else { "http" };
        live.step(&format!("{} at {protocol}://{}", fsp.name, fsp.address));
    }
    if !options.no_onboard {
        set_up((options, scheme.as_ref()), &simulators, &interrupt)?;
        live.step("onboarded");
    }
    simulators.behave()?;
    simulators.set_target(options.concurrency.unwrap_or(0));
    match options.transactions {
        Some(count) => {
            simulators.set_budget(count);
            simulators.set_phase(Phase::Measure);
        }
        None => simulators.set_phase(Phase::Warm),
    }
    let end = options.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let ends = |measured: u64| options.transactions.is_some_and(|count| count <= measured);
    let runs = || !interrupt.seen() && end.is_none_or(|end| Instant::now() < end);
    while runs() && !ends(simulators.counters().measured) {
        std::thread::sleep(POLL);
        if !matches!(load, Load::None) {
            live.show(RunPhase::Part("simulate"), &simulators.counters());
        }
    }
    live.close();
    simulators.set_phase(Phase::Stop);
    let patience = Instant::now() + options.fsps.patience();
    while simulators.counters().in_flight > 0 && Instant::now() < patience && !interrupt.seen() {
        std::thread::sleep(POLL);
    }
    let good = simulators.counters().good;
    print(&simulators.collect()?);
    match options.transactions {
        Some(count) if good < count => Err(HarnessError::Hub(format!(
            "committed {good} of {count} transactions; see the failures above"
        ))),
        _ => Ok(()),
    }
}

/// The certificates and keys of the FSPs, if the hub needs them.
fn scheme(options: &SimulateOptions) -> Result<Option<SecureScheme>, HarnessError> {
    let Some(directory) = &options.secure else { return Ok(None) };
    let urls = [("--hub", Some(&options.hub)), ("--admin", options.admin.as_ref())];
    for (option, url) in urls {
        if url.is_some_and(|url| !url.starts_with("https://")) {
            let problem = format!("{option}: must begin with https:// with --secure");
            return Err(HarnessError::Options(problem));
        }
    }
    let names: Vec<_> = (0..options.fsps.fsps).map(|index| options.fsps.name(index)).collect();
    SecureScheme::open(directory, &names).map(Some)
}

/// The host of a URL.
fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, authority)| authority);
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

fn set_up(
    (options, scheme): (&SimulateOptions, Option<&SecureScheme>),
    simulators: &Simulators,
    interrupt: &Interrupt,
) -> Result<(), HarnessError> {
    let needed = || HarnessError::Options("--admin: required for onboarding".to_owned());
    let url = options.admin.as_deref().ok_or_else(needed)?;
    let stored = scheme.map(SecureScheme::token_file);
    let token = options.token.as_deref().or(stored.as_deref());
    let token = token.map(read_token).transpose()?;
    let mut admin = match (scheme, token) {
        (None, token) => Admin::new(resolve(url)?, token),
        (Some(scheme), token) => {
            Admin::with_token(url, token.unwrap_or_default())?.over_tls(scheme.admin())
        }
    };
    onboard(&mut admin, options.fsps.currency, &simulators.bound(), interrupt)?;
    simulators.register(options.fsps.patience(), interrupt)
}

fn print(result: &SimulatorResult) {
    let row = |fsp: &FspResult| {
        let counts = &fsp.counts;
        let flows = |of: fn(&Exchange) -> &Flow| {
            fsp.exchanges.iter().map(|(_, it)| of(it).committed.count).sum::<u64>()
        };
        let answered = counts.lookups + counts.quotes + counts.prepares;
        let (paid, got_paid) = (flows(|it| &it.sent), flows(|it| &it.received));
        let counted = [paid, got_paid, answered, counts.repeated, counts.unknown];
        let counted = counted.map(|count| count.to_string());
        [&[fsp.name.clone(), fsp.position.to_string()], &counted[..]].concat()
    };
    let rows: Vec<_> = result.fsps.iter().map(row).collect();
    let columns = ["fsp", "position", "paid", "got paid", "answered", "repeated", "unknown"];
    print!("{}", text::table(&columns, &rows));
    for (failure, (count, example)) in &result.failures {
        println!("FAILED    {count} x {failure}, such as {example}");
    }
}
