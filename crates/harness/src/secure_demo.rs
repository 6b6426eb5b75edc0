//! The demonstration of a secure scheme, and its cost: plain and secure runs in turns.
//!
//! `upesi init` sets up the secure scheme. Its FSPs use TLS with certificates on both sides, sign
//! their messages and verify those that they receive. The plain scheme is that of the usual
//! demonstration. Each of the three turns runs both at the highest rate, one after the other. Then
//! each of them runs both at half of their highest rate, for the latencies.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dfsp::SimulatorOptions;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::demo::{DemoRun, carry_out_demo};
use crate::error::HarnessError;
use crate::hub::{DataDirectory, HubChoice};
use crate::options::DemoOptions;
use crate::output::{check_json, print_results};
use crate::proc_stats::{Machine, machine};
use crate::reconcile::differences;
use crate::report::Latency;
use crate::run::{Drive, Length, Measured};
use crate::secure_scheme::{SecureScheme, SignatureKeys};
use crate::switch_process::SwitchCommand;

/// Number of turns of each kind of run.
const TURNS: u32 = 3;

/// Costs of a secure scheme. Times are in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct SecureReport {
    /// Whether all checks of all runs passed, and no transaction failed.
    pub verified: bool,
    /// Transactions that failed, in all runs.
    pub failed: u64,
    /// Failed checks and transactions, each with its run.
    pub problems: Vec<String>,
    /// The plain scheme.
    pub plain: SchemeFigures,
    /// The secure scheme.
    pub secure: SchemeFigures,
    /// Secure figures divided by plain ones.
    pub ratios: Ratios,
    /// Kind of the keys that signed messages.
    pub keys: SignatureKeys,
    /// Number of turns of each kind.
    pub turns: u32,
    /// The machine of the run. Switch and simulated FSPs share it.
    pub machine: Machine,
}

/// Figures of one kind of scheme.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SchemeFigures {
    /// The highest rate.
    pub top: PhaseFigures,
    /// Half of the highest rate.
    pub half: PhaseFigures,
}

/// Figures of all turns at one rate.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PhaseFigures {
    /// Committed whole transactions per second.
    pub rate_per_s: f64,
    /// Transactions committed in the measured parts.
    pub committed: u64,
    /// Length of the measured parts, in seconds.
    pub seconds: f64,
    /// Transactions in flight, if the rate was not fixed.
    pub concurrency: Option<usize>,
    /// Latency of committed transactions.
    pub latency_ms: Latency,
    /// CPU time of the switch per committed transaction.
    pub switch_cpu_ms_per_tx: f64,
    /// CPU time of simulators and load driver per committed transaction.
    pub simulators_cpu_ms_per_tx: f64,
}

/// Secure figures divided by plain ones.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratios {
    /// Highest rates.
    pub rate: f64,
    /// CPU time of the switch per transaction, at the highest rate.
    pub switch_cpu: f64,
    /// CPU time of the simulators per transaction, at the highest rate.
    pub simulators_cpu: f64,
    /// The median at half of the highest rate of each.
    pub p50_at_half_rate: f64,
    /// The 99th percentile at half of the highest rate of each.
    pub p99_at_half_rate: f64,
}

/// Runs the demonstration of a secure scheme and prints its results.
///
/// # Errors
///
/// A run could not be carried out. The switch has been stopped.
pub fn secure_demo(
    options: &DemoOptions,
    command: &SwitchCommand,
) -> Result<SecureReport, HarnessError> {
    options.check()?;
    check_json(options.json.as_ref())?;
    let directory = DataDirectory::new(options.data.clone());
    let directory = &*directory.path;
    let names: Vec<_> = (0..options.fsps.fsps).map(|index| options.fsps.name(index)).collect();
    let keys = options.secure.unwrap_or(SignatureKeys::Rsa);
    let scheme = SecureScheme::create(&command.program, &directory.join("secure"), &names, keys)?;
    let secure_command = scheme.command(command);
    let protect = |_: usize, simulator: &mut SimulatorOptions| scheme.protect(simulator);
    let mut kinds = [
        Kind::new("plain", command, directory.join("plain").as_path(), &|_, _| {}),
        Kind::new("secure", &secure_command, &scheme.data(), &protect),
    ];
    for turn in 1..=TURNS {
        for kind in &mut kinds {
            kind.run_top(options, turn)?;
        }
    }
    if options.rate.is_none() {
        for turn in 1..=TURNS {
            for kind in &mut kinds {
                kind.run_half(options, turn)?;
            }
        }
    }
    let report = SecureReport { keys, ..SecureReport::of(kinds) };
    print_results(&report, options.json.as_ref())?;
    Ok(report)
}

/// One kind of scheme and the results of its runs.
struct Kind<'a> {
    name: &'static str,
    command: &'a SwitchCommand,
    data: PathBuf,
    adjust: &'a dyn Fn(usize, &mut SimulatorOptions),
    top: Phase,
    half: Phase,
    failed: u64,
    problems: Vec<String>,
}

/// The sums of all turns at one rate.
#[derive(Default)]
struct Phase {
    committed: u64,
    time: Duration,
    concurrency: Option<usize>,
    switch_cpu: Duration,
    simulators_cpu: Duration,
    micros: Option<Histogram<u64>>,
}

impl<'a> Kind<'a> {
    fn new(
        name: &'static str,
        command: &'a SwitchCommand,
        data: &Path,
        adjust: &'a dyn Fn(usize, &mut SimulatorOptions),
    ) -> Self {
        let (top, half) = (Phase::default(), Phase::default());
        let data = data.to_owned();
        Self { name, command, data, adjust, top, half, failed: 0, problems: Vec::new() }
    }

    /// One turn at the highest rate, or at the requested one.
    fn run_top(&mut self, options: &DemoOptions, turn: u32) -> Result<(), HarnessError> {
        let drive = match (options.rate, options.concurrency.or(self.top.concurrency)) {
            (Some(rate), _) => Drive::Open { rate, backlog: usize::MAX },
            (None, Some(concurrency)) => Drive::Closed(concurrency),
            (None, None) => Drive::Climb,
        };
        let measured = self.run(options, drive, &format!("turn {turn} at the highest rate"))?;
        self.top.add(&measured);
        Ok(())
    }

    /// One turn at half of the highest rate.
    fn run_half(&mut self, options: &DemoOptions, turn: u32) -> Result<(), HarnessError> {
        let rate = (self.top.figures().rate_per_s / 2.0).max(1.0);
        let drive = Drive::Open { rate, backlog: usize::MAX };
        let measured = self.run(options, drive, &format!("turn {turn} at half of it"))?;
        self.half.add(&measured);
        Ok(())
    }

    fn run(
        &mut self,
        options: &DemoOptions,
        drive: Drive,
        what: &str,
    ) -> Result<Measured, HarnessError> {
        eprintln!("{}: {what}", self.name);
        let measured = carry_out_demo(DemoRun {
            options,
            confirm_to_payee: self.command.confirm_to_payee,
            hub: HubChoice::Spawn { command: self.command, data: Some(self.data.clone()) },
            drive,
            length: Length::Time(options.length() / TURNS),
            adjust: self.adjust,
        })?;
        self.failed += measured.failed;
        let failures = measured.result.failures.iter();
        let failures = failures
            .map(|(failure, (count, example))| format!("{count} x {failure}, such as {example}"));
        let problems = failures.chain(differences(&measured.checks));
        self.problems.extend(problems.map(|problem| format!("{}, {what}: {problem}", self.name)));
        Ok(measured)
    }
}

impl Phase {
    fn add(&mut self, measured: &Measured) {
        self.committed += measured.good;
        self.time += Duration::from_secs_f64(measured.seconds);
        self.concurrency = measured.concurrency;
        self.switch_cpu += measured.hub.map_or(Duration::ZERO, |figures| figures.cpu);
        self.simulators_cpu += measured.own_cpu;
        let micros = &measured.result.latencies.whole;
        match &mut self.micros {
            Some(all) => all.add(micros).expect("histograms of one kind"),
            None => self.micros = Some(micros.clone()),
        }
    }

    fn figures(&self) -> PhaseFigures {
        let committed = self.committed.max(1) as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e3 / committed;
        let rate = self.committed as f64 / self.time.as_secs_f64();
        PhaseFigures {
            rate_per_s: if rate.is_finite() { rate } else { 0.0 },
            committed: self.committed,
            seconds: self.time.as_secs_f64(),
            concurrency: self.concurrency,
            latency_ms: self.micros.as_ref().map(Latency::of).unwrap_or_default(),
            switch_cpu_ms_per_tx: each(self.switch_cpu),
            simulators_cpu_ms_per_tx: each(self.simulators_cpu),
        }
    }
}

impl SecureReport {
    fn of([plain, secure]: [Kind<'_>; 2]) -> Self {
        let failed = plain.failed + secure.failed;
        let figures =
            |kind: &Kind<'_>| SchemeFigures { top: kind.top.figures(), half: kind.half.figures() };
        let figures = [figures(&plain), figures(&secure)];
        let problems = [plain.problems, secure.problems].concat();
        let [plain, secure] = figures;
        Self {
            verified: failed == 0 && problems.is_empty(),
            failed,
            problems,
            ratios: Ratios::of(&plain, &secure),
            plain,
            secure,
            keys: SignatureKeys::Rsa,
            turns: TURNS,
            machine: machine(),
        }
    }
}

impl Ratios {
    fn of(plain: &SchemeFigures, secure: &SchemeFigures) -> Self {
        let ratio = |figure: fn(&SchemeFigures) -> f64| match figure(plain) {
            0.0 => 0.0,
            plain => figure(secure) / plain,
        };
        Self {
            rate: ratio(|it| it.top.rate_per_s),
            switch_cpu: ratio(|it| it.top.switch_cpu_ms_per_tx),
            simulators_cpu: ratio(|it| it.top.simulators_cpu_ms_per_tx),
            p50_at_half_rate: ratio(|it| it.half.latency_ms.p50),
            p99_at_half_rate: ratio(|it| it.half.latency_ms.p99),
        }
    }
}

impl fmt::Display for SecureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plain, secure, ratios, .. } = self;
        writeln!(f, "{:<34} {:>10} {:>10} {:>8}", "", "plain", "secure", "ratio")?;
        let mut row = |name: &str, figure: fn(&SchemeFigures) -> f64, ratio: f64| {
            let (plain, secure) = (figure(plain), figure(secure));
            writeln!(f, "{name:<34} {plain:>10.3} {secure:>10.3} {ratio:>8.2}")
        };
        row("whole transactions/s", |it| it.top.rate_per_s, ratios.rate)?;
        row("switch, CPU ms each", |it| it.top.switch_cpu_ms_per_tx, ratios.switch_cpu)?;
        let simulators = |it: &SchemeFigures| it.top.simulators_cpu_ms_per_tx;
        row("simulated FSPs, CPU ms each", simulators, ratios.simulators_cpu)?;
        row("p50 ms at half of the rate", |it| it.half.latency_ms.p50, ratios.p50_at_half_rate)?;
        row("p99 ms at half of the rate", |it| it.half.latency_ms.p99, ratios.p99_at_half_rate)?;
        writeln!(
            f,
            "\nsecure          TLS 1.3 with certificates on both sides, signatures demanded \
             and made\n                ({} keys), callers compared with certificates, roles, \
             signed chain heads:\n                the files of `upesi init`",
            self.keys.as_str()
        )?;
        writeln!(f, "turns           {} of each kind at each rate", self.turns)?;
        let Machine { cores, processor, kernel, profile } = &self.machine;
        writeln!(f, "machine         {cores} cores ({processor}), Linux {kernel}; shared")?;
        writeln!(f, "build           profile {profile}")?;
        for problem in &self.problems {
            writeln!(f, "PROBLEM         {problem}")?;
        }
        writeln!(f, "failed          {}", self.failed)?;
        writeln!(f, "verified        {}", if self.verified { "yes" } else { "NO" })
    }
}
