//! The demonstration: a switch, eight FSPs, load, proof.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::admin::Admin;
use crate::child::{Switch, SwitchCommand};
use crate::error::HarnessError;
use crate::fleet::{FleetResult, Fleets, Load, Phase, plan};
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::machine::{ProcessFigures, machine, own_cpu};
use crate::onboarding::onboard;
use crate::options::DemoOptions;
use crate::proof::{Books, Evidence, IN_FLIGHT, NOTICES_OWED};
use crate::report::{DemoReport, Latency, Legs};

const POLL: Duration = Duration::from_millis(10);
const WARM_UP: Duration = Duration::from_secs(1);
const CLIMB_SETTLE: Duration = Duration::from_millis(200);
const CLIMB_SAMPLE: Duration = Duration::from_millis(700);
const CLIMB_STEPS: [usize; 6] = [16, 32, 64, 128, 256, 512];
/// A step up must bring this much to be worth its latency.
const CLIMB_GAIN: f64 = 1.03;
const QUIET_WITHIN: Duration = Duration::from_secs(40);

/// Runs a demonstration and prints its results.
///
/// Whether it went well is told by [`DemoReport::passed`].
///
/// # Errors
/// The run could not be carried out; the switch has been ended.
pub fn demo(options: &DemoOptions, command: &SwitchCommand) -> Result<DemoReport, HarnessError> {
    options.check()?;
    if let Some(path) = &options.json {
        // A path that cannot be written is better known now than at the end.
        std::fs::File::create(path).map_err(HarnessError::file(path))?;
    }
    let interrupt = Interrupt::listen();
    let data = Data::new(options.data.clone());
    let mut live = Live::new();
    live.step("starting the switch");
    let switch = Switch::start(command, &data.path)?;
    let load = options.rate.map_or(Load::Closed, Load::Open);
    let plan = plan(&options.fsps, switch.fspiop);
    let fleets = Fleets::start(&plan, options.fsps.threads, load)?;
    let bound = fleets.bound();
    let mut admin = switch.admin()?;
    live.step(&format!("onboarding {} FSPs", bound.len()));
    onboard(&mut admin, options.fsps.currency, &bound, &interrupt)?;
    live.step(&format!("registering {} subscribers of each", options.fsps.subscribers));
    fleets.register()?;
    fleets.behave()?;
    let run = Run { options, command, interrupt, live, switch, fleets, admin };
    let report = run.carry_out(&data.path)?;
    println!("{report}");
    if let Some(path) = &options.json {
        write_json(path, &report)?;
    }
    Ok(report)
}

/// A demonstration in progress.
struct Run<'a> {
    options: &'a DemoOptions,
    command: &'a SwitchCommand,
    interrupt: Interrupt,
    live: Live,
    switch: Switch,
    fleets: Fleets,
    admin: Admin,
}

/// What the measured part gave.
struct Measured {
    seconds: f64,
    committed: u64,
    switch_cpu: Duration,
    own_cpu: Duration,
    concurrency: Option<usize>,
}

/// Counters at one moment.
struct Reading {
    moment: Instant,
    committed: u64,
    figures: ProcessFigures,
    own_cpu: Duration,
}

impl Run<'_> {
    fn carry_out(mut self, data: &Path) -> Result<DemoReport, HarnessError> {
        let before = Books::read(&mut self.admin)?;
        let concurrency = self.warm_up()?;
        let at_start = self.admin.metrics()?;
        let measured = self.measure(concurrency)?;
        let at_end = self.admin.metrics()?;
        self.live.step("waiting for the last transactions and notices");
        let open = self.wait_for_quiet()?;
        let after = Books::read(&mut self.admin)?;
        let result = self.fleets.collect()?;
        let glance = self.fleets.glance();
        let figures = self.switch.figures();
        self.live.step("stopping the switch and verifying its log");
        let Self { options, command, switch, fleets, .. } = self;
        drop(fleets);
        let evidence = Evidence {
            before: &before,
            after: &after,
            fsps: &result.fsps,
            committed: glance.committed,
            failed: glance.failed,
            style: options.fsps.style,
            confirm_to_payee: command.confirm_to_payee,
        };
        let mut differences = evidence.differences();
        differences.extend(open);
        differences.extend(switch.stop().err().map(|error| error.to_string()));
        differences.extend(command.verify(data).err());
        let per_transaction = |name| {
            let risen = at_end.get(name)? - at_start.get(name)?;
            Some(risen / measured.committed.max(1) as f64)
        };
        let report = DemoReport {
            syncs_per_tx: per_transaction("upesi_log_syncs_total"),
            log_bytes_per_tx: per_transaction("upesi_log_bytes_total"),
            switch_rss_mb: figures.resident_bytes_max as f64 / 1e6,
            failed: glance.failed,
            committed_in_all: glance.committed,
            verified: differences.is_empty(),
            differences,
            ..report(options, command, &measured, &result)
        };
        Ok(report)
    }

    /// Warms up, and finds the concurrency when none is given.
    fn warm_up(&mut self) -> Result<Option<usize>, HarnessError> {
        let concurrency = match (self.options.rate, self.options.concurrency) {
            (None, None) => {
                self.live.step("finding the concurrency with the highest rate");
                Some(self.climb()?)
            }
            (_, given) => {
                self.fleets.set_target(given.unwrap_or(0));
                self.fleets.set_phase(Phase::Warm);
                self.watch("warm up", WARM_UP)?;
                given
            }
        };
        self.fleets.set_target(concurrency.unwrap_or(0));
        Ok(concurrency)
    }

    /// Raises the concurrency until the rate grows no more; gives the smallest that is as good.
    fn climb(&mut self) -> Result<usize, HarnessError> {
        let mut rates: Vec<(usize, f64)> = Vec::new();
        let mut best = 0.0_f64;
        let mut without_gain = 0;
        self.fleets.set_phase(Phase::Warm);
        for step in CLIMB_STEPS {
            self.fleets.set_target(step);
            self.watch("climb", CLIMB_SETTLE)?;
            let (start, before) = (Instant::now(), self.fleets.glance().committed);
            self.watch("climb", CLIMB_SAMPLE)?;
            let committed = self.fleets.glance().committed - before;
            let rate = committed as f64 / start.elapsed().as_secs_f64();
            rates.push((step, rate));
            without_gain = if rate > best * CLIMB_GAIN { 0 } else { without_gain + 1 };
            best = best.max(rate);
            if without_gain == 2 {
                break;
            }
        }
        let good = rates.iter().find(|(_, rate)| rate * CLIMB_GAIN >= best);
        Ok(good.map_or(CLIMB_STEPS[0], |&(step, _)| step))
    }

    fn measure(&mut self, concurrency: Option<usize>) -> Result<Measured, HarnessError> {
        let start = self.reading();
        let end = match self.options.transactions {
            Some(transactions) => {
                self.fleets.set_budget(transactions);
                self.fleets.set_phase(Phase::Measure);
                self.watch_until(transactions)?;
                self.reading()
            }
            None => {
                self.fleets.set_phase(Phase::Measure);
                self.watch("measure", Duration::from_secs_f64(self.options.seconds))?;
                self.reading()
            }
        };
        self.fleets.set_phase(Phase::Stop);
        Ok(Measured {
            seconds: (end.moment - start.moment).as_secs_f64(),
            committed: end.committed - start.committed,
            switch_cpu: end.figures.cpu.saturating_sub(start.figures.cpu),
            own_cpu: end.own_cpu.saturating_sub(start.own_cpu),
            concurrency,
        })
    }

    /// Waits until so many transactions have ended, or none has for longer than one may take.
    fn watch_until(&mut self, transactions: u64) -> Result<(), HarnessError> {
        let patience = self.options.fsps.patience() + QUIET_WITHIN;
        let mut last = (0, Instant::now());
        loop {
            let measured = self.fleets.glance().measured;
            if transactions <= measured || patience < last.1.elapsed() {
                return Ok(());
            }
            if measured != last.0 {
                last = (measured, Instant::now());
            }
            self.watch("measure", POLL)?;
        }
    }

    fn reading(&self) -> Reading {
        Reading {
            moment: Instant::now(),
            committed: self.fleets.glance().committed,
            figures: self.switch.figures(),
            own_cpu: own_cpu(),
        }
    }

    /// Lets the run go on for a while and shows where it stands.
    fn watch(&mut self, what: &str, time: Duration) -> Result<(), HarnessError> {
        let end = Instant::now() + time;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(());
            }
            self.interrupt.pause(rest.min(POLL * 10))?;
            self.switch.check_alive()?;
            self.live.show(what, &self.fleets.glance());
        }
    }

    /// Waits until nothing is in flight and nothing is owed; says what still is when that takes
    /// too long. What is missing among the metrics is found by the proof.
    fn wait_for_quiet(&mut self) -> Result<Option<String>, HarnessError> {
        let patience = self.options.fsps.patience() + QUIET_WITHIN;
        let deadline = Instant::now() + patience;
        loop {
            let flight = self.fleets.glance().in_flight;
            let metrics = self.admin.metrics()?;
            let open = |name| metrics.get(name).is_some_and(|value| value > 0.0);
            if flight == 0 && !open(IN_FLIGHT) && !open(NOTICES_OWED) {
                return Ok(None);
            }
            if Instant::now() > deadline {
                return Ok(Some(format!("not quiet after {patience:?}: {flight} in flight")));
            }
            self.watch("drain", POLL * 5)?;
        }
    }
}

/// The parts of the report that follow from the measured part and the FSPs.
fn report(
    options: &DemoOptions,
    command: &SwitchCommand,
    measured: &Measured,
    result: &FleetResult,
) -> DemoReport {
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e3 / measured.committed.max(1) as f64;
    let failures = result
        .failures
        .iter()
        .map(|(failure, (count, example))| format!("{count} x {failure}, such as {example}"));
    DemoReport {
        rate_per_s: measured.committed as f64 / measured.seconds,
        failed: 0,
        verified: false,
        latency_ms: Latency::of(&result.latencies.whole),
        legs_ms: Legs::of(&result.latencies),
        switch_cpu_ms_per_tx: each(measured.switch_cpu),
        switch_rss_mb: 0.0,
        syncs_per_tx: None,
        log_bytes_per_tx: None,
        machine: machine(),
        durability: command.durability.clone(),
        confirm_to_payee: command.confirm_to_payee,
        simulators_cpu_ms_per_tx: each(measured.own_cpu),
        seconds: measured.seconds,
        committed: measured.committed,
        committed_in_all: 0,
        concurrency: measured.concurrency,
        offered_rate_per_s: options.rate,
        fsps: options.fsps.fsps,
        style: options.fsps.style.state().to_owned(),
        fspiop_version: options.fsps.fspiop_version.as_str().to_owned(),
        resent: result.fsps.iter().map(|fsp| fsp.links.resent).sum(),
        repeated_notices: result.fsps.iter().map(|fsp| fsp.counts.repeated).sum(),
        failures: failures.collect(),
        differences: Vec::new(),
    }
}

fn write_json(path: &Path, report: &DemoReport) -> Result<(), HarnessError> {
    let text = serde_json::to_string_pretty(report).expect("a report has only plain members");
    std::fs::write(path, text + "\n").map_err(HarnessError::file(path))
}

/// The data directory; a temporary one is removed in the end, however the run ends.
struct Data {
    path: PathBuf,
    temporary: bool,
}

impl Data {
    fn new(given: Option<PathBuf>) -> Self {
        let temporary = given.is_none();
        let own = || std::env::temp_dir().join(format!("upesi-demo-{}", std::process::id()));
        Self { path: given.unwrap_or_else(own), temporary }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if self.temporary {
            // What cannot be removed from the temporary directory, the system will.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
