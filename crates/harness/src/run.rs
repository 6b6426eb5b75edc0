//! One run from start to verification, as shared by `demo` and `upesi-bench`.
//!
//! Phases: start the hub, bind the FSPs, onboard, register subscribers, reserve a stock of
//! transfers (fulfil only), warm up or find the best concurrency, measure, wait until all transfers
//! are final, reconcile, stop and verify. Every wait has a deadline: if the hub stalls, exits or
//! loses callbacks, the run is cut short or fails its checks. It never hangs.
//!
//! The calling thread only sleeps, reads counters and prints, at most ten times per second.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use dfsp::{ACKNOWLEDGED_MAX, Acknowledged, SimulatorOptions};
use ledger::Amount;

use crate::admin::{Admin, Metrics};
use crate::error::HarnessError;
use crate::histograms::Bounds;
use crate::hold::HeldScheme;
use crate::hub::{ActiveHub, HubChoice};
use crate::interrupt::Interrupt;
use crate::load::{Load, Phase};
use crate::nodes::ExecutedFault;
use crate::onboarding::onboard;
use crate::options::FspOptions;
use crate::pairs::Pairs;
use crate::proc_stats::{Environment, ProcessFigures, ProcessorTicks, environment, own_cpu};
use crate::reconcile::{
    Balances, Check, IN_FLIGHT, NOTICES_OWED, RunTotals, check_expiries, same_everywhere,
};
use crate::replica_check::{self, ReplicaAgreement};
use crate::scenario::Scenario;
use crate::simulators::{FspResult, RunCounters, SimulatorPlan, SimulatorResult, Simulators, plan};
use crate::status_line::{RunPhase, StatusLine};
use crate::switch_process::read_token;

const POLL: Duration = Duration::from_millis(10);
const CLIMB_SETTLE: Duration = Duration::from_millis(200);
const CLIMB_SAMPLE: Duration = Duration::from_millis(700);
const CLIMB_STEPS: [usize; 6] = [16, 32, 64, 128, 256, 512];
/// Minimum gain in rate for which a higher concurrency is worth its latency.
const CLIMB_GAIN: f64 = 1.03;
const QUIET_WITHIN: Duration = Duration::from_secs(40);
/// Time that an interrupted run waits for units in flight.
const CUT_QUIET_WITHIN: Duration = Duration::from_secs(2);
/// Polls without a new request after which a hub without metrics counts as idle.
const IDLE_POLLS: u32 = 6;
/// Polls between two reads of a failed hub's health, about five seconds.
const HEALTH_POLLS: u32 = 100;
/// Minimum load before the measured part of a run with expiring transfers.
const LOAD_BEFORE: Duration = Duration::from_secs(1);
/// Longest wait for the error notices of expired transfers.
const NOTIFIED_WITHIN: Duration = Duration::from_secs(120);
const STOCK_WITHIN: Duration = Duration::from_secs(600);
/// Shares of a short run that are excluded from its steady part.
const SHORT_TRIM: (f64, f64) = (0.10, 0.04);
const LONG_TRIM: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(120));
/// Minimum length of a run from which the fixed times are excluded.
const LONG_RUN: Duration = Duration::from_secs(840);

/// The check that fails when the hub itself reports a problem.
pub const HEALTHY: &str = "the hub reports that it is healthy";

/// The check that fails when a run was cut short.
pub const COMPLETED: &str = "the run was completed";

/// The check that fails when a stock is used up before the end of the run.
const STOCK_LASTED: &str = "the stock lasted to the end";

/// The check that fails when transfers, notices or units remain open.
pub const IDLE: &str = "no transfer, notice or unit is open";

/// The plan of a run.
pub struct Setup<'a> {
    pub scenario: Scenario,
    pub fsps: &'a FspOptions,
    pub pairs: Pairs,
    pub drive: Drive,
    pub length: Length,
    pub warm_up: Duration,
    /// Transfers to reserve before the measured part; for [`Scenario::Fulfil`].
    pub stock: usize,
    /// Minimum length of a valid measured part if the stock runs out early; `None` requires all of
    /// it, because the size of the stock was given.
    pub lasts: Option<Duration>,
    pub hub: HubChoice<'a>,
    /// Adjusts the options of each FSP, such as its address and matching.
    pub adjust: &'a dyn Fn(usize, &mut SimulatorOptions),
    /// Whether FSPs and subscribers are onboarded first.
    pub onboard: bool,
    /// Whether subscribers are registered during onboarding.
    pub register: bool,
    /// Whether payees that fulfil with COMMITTED must receive a confirmation.
    pub confirm_to_payee: bool,
    /// Additional FSPs, with transfers that expire during the measured part.
    pub holders: Option<Holders<'a>>,
    /// Whether the scheme keeps running after the checks, until an interrupt.
    pub hold: bool,
    /// Work of an operator on the admin API, on its own thread from the start of the measured part.
    pub operator: Option<Operator<'a>>,
}

/// Work of an operator. Returns the amounts by which it has moved accounts, by account number. It
/// must end soon after [`Interrupt::seen_by_any_listener`].
pub type Operator<'a> = &'a (dyn Fn(Admin) -> BTreeMap<u64, Amount> + Sync);

/// FSPs whose payees hold transfers until they expire, in the middle of the measured part.
///
/// The measured part begins a whole number of seconds before the first expiration, so that its
/// seconds coincide with those of the expirations. It ends the same time after the last expiration,
/// but not before both sides of each transfer have received their error notice.
pub struct Holders<'a> {
    /// Builds their options, for these addresses of the hub and the time of the first expiration.
    pub plan: &'a dyn Fn(&[SocketAddr], SystemTime) -> Vec<SimulatorOptions>,
    /// Transfers that they hold.
    pub count: usize,
    /// Time to reserve them.
    pub reserve: Duration,
    /// Time from the first expiration to the last.
    pub within: Duration,
    /// Measured seconds before the first and after the last.
    pub around: u32,
}

/// The simulators of the holders.
struct HolderSimulators {
    simulators: Simulators,
    moment: SystemTime,
    /// Time from the first expiration until both sides of each transfer had their error notice.
    notified_after: Option<Duration>,
}

impl Holders<'_> {
    fn start(&self, hub: &[SocketAddr]) -> Result<HolderSimulators, HarnessError> {
        let moment = SystemTime::now() + self.reserve + LOAD_BEFORE + self.around();
        let (scenario, pairs, load) = (Scenario::Fulfil, Pairs::Uniform, Load::Closed);
        let plan = SimulatorPlan { scenario, pairs, load, threads: 1, keeps_ends: false };
        let simulators = Simulators::start(&(self.plan)(hub, moment), plan)?;
        Ok(HolderSimulators { simulators, moment, notified_after: None })
    }

    fn around(&self) -> Duration {
        Duration::from_secs(self.around.into())
    }

    /// First second of the measured part in which transfers expire, and the first one after them.
    pub fn expiring(&self) -> [u64; 2] {
        let from = u64::from(self.around);
        [from, from + (self.within.as_secs_f64().ceil() as u64).max(1)]
    }
}

/// How units are started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drive {
    /// As many in flight as give the highest rate.
    Climb,
    /// A fixed number in flight.
    Closed(usize),
    /// A fixed rate per second; units are dropped while `backlog` are in flight.
    Open {
        /// Units per second.
        rate: f64,
        /// Maximum units in flight.
        backlog: usize,
    },
}

/// When the measured part ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    Time(Duration),
    Count(u64),
}

/// The results of a run.
pub struct Measured {
    /// Start of the measured part, if it was reached.
    pub began: Option<Instant>,
    pub seconds: f64,
    /// Units that succeeded in the measured part.
    pub good: u64,
    /// Units that succeeded in the whole run.
    pub good_in_all: u64,
    /// Units that failed in the whole run.
    pub failed: u64,
    pub dropped: u64,
    /// The dropped units that found no transfer in stock.
    pub unstocked: u64,
    pub backlog_max: usize,
    pub concurrency: Option<usize>,
    /// Resources used by the hub's process in the measured part, if known.
    pub hub: Option<ProcessFigures>,
    /// CPU time of its threads in the measured part, by name.
    pub hub_threads: BTreeMap<String, Duration>,
    pub resident_bytes_max: Option<u64>,
    pub own_cpu: Duration,
    /// The share of the measured part in which the processors of the machine had no work.
    pub idle_share: Option<f64>,
    pub metrics_at_start: Metrics,
    pub metrics_at_end: Metrics,
    /// Hub metrics after the last notice.
    pub metrics_after: Metrics,
    pub result: SimulatorResult,
    pub trim: Trim,
    pub environment: Environment,
    pub checks: Vec<Check>,
    /// Whether accounts and counters of the hub were compared with those of the FSPs.
    pub books_compared: bool,
    /// Results of a hub with several nodes.
    pub nodes: Option<NodesResult>,
    /// Time from the first expiration until both sides of each transfer had their error notice.
    pub notified_after: Option<Duration>,
    /// The reason why the run ended early.
    pub cut: Option<HarnessError>,
}

impl Measured {
    /// Builds the results from two readings and the drivers, without checks.
    fn between(
        start: Reading,
        end: Reading,
        counters: &RunCounters,
        (result, trim, environment): (SimulatorResult, Trim, Environment),
    ) -> Self {
        Self {
            began: Some(start.moment),
            seconds: (end.moment - start.moment).as_secs_f64(),
            good: end.good.saturating_sub(start.good),
            good_in_all: counters.good,
            failed: counters.failed,
            dropped: counters.dropped,
            unstocked: counters.unstocked,
            backlog_max: counters.backlog_max,
            concurrency: None,
            hub: end.figures.zip(start.figures).map(|(end, start)| end.since(&start)),
            hub_threads: rises(&start.threads, end.threads),
            resident_bytes_max: None,
            own_cpu: end.own_cpu.saturating_sub(start.own_cpu),
            idle_share: end.processors.idle_share_since(start.processors),
            metrics_at_start: start.metrics,
            metrics_at_end: end.metrics,
            metrics_after: Metrics::default(),
            result,
            trim,
            environment,
            checks: Vec::new(),
            books_compared: false,
            nodes: None,
            notified_after: None,
            cut: None,
        }
    }

    /// Increase of one of the hub's metrics in the measured part.
    pub fn risen(&self, name: &str) -> Option<f64> {
        Some(self.metrics_at_end.get(name)? - self.metrics_at_start.get(name)?)
    }
}

/// The additional results of several nodes.
#[derive(Debug, Default)]
pub struct NodesResult {
    /// The injected faults.
    pub done: Vec<ExecutedFault>,
    /// Distinct messages that were answered 2xx.
    pub acknowledged: usize,
    /// The state that the copies agree on.
    pub agreed: ReplicaAgreement,
    /// CPU time of the brokers in the measured part.
    pub brokers_cpu: Duration,
}

/// The ends of a run outside the steady part, in seconds, or in units if the run has a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trim {
    pub first: f64,
    pub last: f64,
    pub unit: &'static str,
}

/// Carries out a run.
///
/// # Errors
///
/// The run could not be set up. Later failures are in [`Measured::cut`] and the checks.
pub fn carry_out(setup: &Setup<'_>) -> Result<Measured, HarnessError> {
    let interrupt = Interrupt::listen();
    let mut live = StatusLine::on_stderr();
    let mut hub = setup.hub.start(&mut |what| live.step(what))?;
    interrupt.check()?;
    let environment = environment(hub.data());
    let mut fsps = plan(setup.fsps, &hub.fspiop());
    let listen = hub.nodes().and_then(|nodes| nodes.participants());
    for (index, simulator) in fsps.iter_mut().enumerate() {
        simulator.holds = setup.scenario.holds();
        // The stock is larger than the number of units in flight.
        simulator.in_flight_max = simulator.in_flight_max.max(setup.stock * 2);
        if setup.scenario.holds() {
            simulator.expiration_ahead = HELD_FOR;
        }
        (setup.adjust)(index, simulator);
        listen.into_iter().for_each(|address| simulator.listen.set_ip(address));
    }
    let load = match setup.drive {
        Drive::Climb | Drive::Closed(_) => Load::Closed,
        Drive::Open { rate, backlog } => Load::Open { rate, backlog },
    };
    let (scenario, pairs, threads) = (setup.scenario, setup.pairs, setup.fsps.threads);
    let keeps_ends = setup.hub.nodes().is_some();
    let plan = SimulatorPlan { scenario, pairs, load, threads, keeps_ends };
    let simulators = Simulators::start(&fsps, plan)?;
    let admin = hub.admin()?;
    let held = setup.holders.as_ref().map(|it| it.start(&hub.fspiop())).transpose()?;
    let (began, stock_problem) = (None, None);
    let moved = BTreeMap::new();
    let mut run =
        Run { setup, interrupt, live, hub, simulators, held, admin, began, stock_problem, moved };
    run.prepare()?;
    run.finish(environment)
}

/// Units without a callback after which a run with a count ends.
const HUNG_MAX: u64 = 100;
/// Lifetime of a transfer that its payee holds.
const HELD_FOR: Duration = Duration::from_secs(3_600);

/// A run in progress.
struct Run<'a> {
    setup: &'a Setup<'a>,
    interrupt: Interrupt,
    live: StatusLine,
    hub: ActiveHub,
    simulators: Simulators,
    held: Option<HolderSimulators>,
    admin: Option<Admin>,
    /// Start of the measured part, while it is in progress.
    began: Option<Instant>,
    /// The problem of a stock that was used up early.
    stock_problem: Option<String>,
    /// Amounts by which the operator has moved accounts.
    moved: BTreeMap<u64, Amount>,
}

/// Counters at one point in time.
#[derive(Clone)]
struct Reading {
    moment: Instant,
    good: u64,
    figures: Option<ProcessFigures>,
    threads: BTreeMap<String, Duration>,
    own_cpu: Duration,
    processors: ProcessorTicks,
    brokers_cpu: Duration,
    metrics: Metrics,
}

impl Reading {
    fn take(admin: Option<&mut Admin>, hub: &mut ActiveHub, simulators: &Simulators) -> Self {
        // Missing metrics fail the checks, so the run continues here.
        let metrics = admin.and_then(|admin| admin.metrics().ok());
        Self {
            metrics: metrics.unwrap_or_default(),
            moment: Instant::now(),
            good: simulators.counters().good,
            figures: hub.figures(),
            threads: hub.thread_times(),
            own_cpu: own_cpu(),
            processors: ProcessorTicks::now(),
            brokers_cpu: hub.nodes().map_or(Duration::ZERO, |nodes| nodes.brokers_cpu()),
        }
    }
}

/// CPU time of each thread since `start`.
fn rises(
    start: &BTreeMap<String, Duration>,
    end: BTreeMap<String, Duration>,
) -> BTreeMap<String, Duration> {
    let since = |name: &str, cpu: Duration| match start.get(name) {
        Some(before) => cpu.saturating_sub(*before),
        None => cpu,
    };
    end.into_iter().map(|(name, cpu)| (name.clone(), since(&name, cpu))).collect()
}

/// The measured part.
struct Part {
    start: Reading,
    end: Reading,
    concurrency: Option<usize>,
}

impl Run<'_> {
    /// Onboards the FSPs and registers their subscribers.
    fn prepare(&mut self) -> Result<(), HarnessError> {
        let mut bound = self.simulators.bound();
        bound.extend(self.held.iter().flat_map(|held| held.simulators.bound()));
        if self.setup.onboard {
            let needed = || HarnessError::Options("--admin: required for onboarding".to_owned());
            let admin = self.admin.as_mut().ok_or_else(needed)?;
            self.live.step(&format!("onboarding {} FSPs", bound.len()));
            onboard(admin, self.setup.fsps.currency, &bound, &self.interrupt)?;
            if self.setup.scenario.looks_up() && self.setup.register {
                let subscribers = self.setup.fsps.subscribers;
                self.live.step(&format!("registering {subscribers} subscribers of each"));
                self.simulators.register(self.setup.fsps.patience(), &self.interrupt)?;
            }
        }
        self.simulators.behave()
    }

    fn finish(mut self, environment: Environment) -> Result<Measured, HarnessError> {
        let before = self.balances()?;
        let start = self.reading();
        let mut part = Part { end: start.clone(), start, concurrency: None };
        let mut cut = self.measure(&mut part).err();
        let open = self.wait_for_open_units(&mut cut);
        let mut result = self.simulators.collect()?;
        let held = self.held.as_ref().map(|held| held.simulators.collect()).transpose()?;
        let counters = self.simulators.counters();
        let after = if cut.is_none() { self.balances() } else { Ok(None) };
        let after = after.unwrap_or_else(|error| {
            cut.get_or_insert(error);
            None
        });
        let books_compared = before.is_some() && after.is_some();
        let (mut checks, metrics_after) = match &cut {
            None => {
                let mut fsps = result.fsps.clone();
                fsps.extend(held.iter().flat_map(|held| held.fsps.clone()));
                let mut checks = self.checks(&before, &after, &fsps, &counters);
                if let (Some(held), Some(holders)) = (&held, &self.setup.holders) {
                    let balances = [&before, &after].map(Option::as_ref);
                    checks.push(check_expiries(holders.count as u64, balances, held));
                }
                checks.extend(self.compare_nodes(&after));
                (checks, after.map(|balances| balances.metrics).unwrap_or_default())
            }
            Some(error) => {
                let why = error.to_string();
                (vec![Check::failed(COMPLETED, why)], Metrics::default())
            }
        };
        checks
            .extend(self.stock_problem.take().map(|problem| Check::failed(STOCK_LASTED, problem)));
        checks.extend(open.map(|open| Check::failed(IDLE, open)));
        checks.extend(self.health_problems(&checks));
        let resident = self.hub.figures().map(|figures| figures.resident_bytes_max);
        checks.extend(result.is_record_full.then(record_is_full));
        let acknowledged = std::mem::take(&mut result.acknowledged).into_iter().collect();
        let mut nodes = self.hub.nodes().map(|nodes| NodesResult {
            done: nodes.done().to_vec(),
            brokers_cpu: part.end.brokers_cpu.saturating_sub(part.start.brokers_cpu),
            ..NodesResult::default()
        });
        if self.setup.hold && cut.is_none() {
            self.hold()?;
        }
        checks.extend(match &mut nodes {
            None => self.stop(cut.is_some()),
            Some(nodes) => self.stop_nodes(nodes, &acknowledged, cut.is_some()),
        });
        let good = match self.setup.length {
            Length::Time(_) => part.end.good - part.start.good,
            // Exactly the requested number: the last units of the warm-up are not included.
            Length::Count(_) => result.latencies.whole.len(),
        };
        let trim = self.trim(part.end.moment - part.start.moment).0;
        Ok(Measured {
            nodes,
            notified_after: self.held.as_ref().and_then(|held| held.notified_after),
            good,
            concurrency: part.concurrency,
            resident_bytes_max: resident,
            metrics_after,
            checks,
            books_compared,
            cut,
            ..Measured::between(part.start, part.end, &counters, (result, trim, environment))
        })
    }

    /// Keeps the scheme running until an interrupt.
    fn hold(&mut self) -> Result<(), HarnessError> {
        let Some((console, token_file)) = self.hub.console() else { return Ok(()) };
        let token = read_token(&token_file)?;
        let Some(hub) = self.hub.fspiop().first().copied() else { return Ok(()) };
        let currency = self.setup.fsps.currency;
        let fsps = &self.simulators.bound();
        let scheme = HeldScheme { hub, console, token, token_file, currency, fsps };
        match &mut self.admin {
            Some(admin) => scheme.run(admin, &self.interrupt),
            None => Ok(()),
        }
    }

    /// Reads the hub's own problems after a failed check.
    fn health_problems(&mut self, checks: &[Check]) -> Option<Check> {
        let void = checks.iter().any(|check| check.passed == Some(false));
        let admin = self.admin.as_mut().filter(|_| void)?;
        admin.health_problems().map(|what| Check::failed(HEALTHY, what))
    }

    /// Waits until all started units have ended. Returns the problem if some have not.
    fn wait_for_open_units(&mut self, cut: &mut Option<HarnessError>) -> Option<String> {
        self.began = None;
        self.simulators.set_phase(Phase::Stop);
        let mut open = None;
        if cut.is_none() {
            *cut = self.hub.nodes().and_then(|nodes| nodes.repair().err());
        }
        if cut.is_none() {
            self.live.step("waiting for the last transactions and notices");
            match self.wait_for_quiet() {
                Ok(still) => open = still,
                Err(error) => *cut = Some(error),
            }
        }
        if cut.is_some() {
            self.wait_until_quiet();
        }
        open
    }

    /// Reserves the stock, warms up and measures. Fills `part` as far as the run gets.
    fn measure(&mut self, part: &mut Part) -> Result<(), HarnessError> {
        self.live.expect_progress();
        self.reserve_stock()?;
        self.reserve()?;
        part.concurrency = self.warm_up()?;
        self.simulators.set_steady(self.trim(Duration::ZERO).1);
        part.start = self.reading();
        part.end = part.start.clone();
        self.live.step("measuring");
        self.began = Some(part.start.moment);
        let admin = self.hub.admin()?;
        let operator = self.setup.operator.zip(admin);
        let (ran, moved) = thread::scope(|scope| {
            let operator = operator.map(|(operate, admin)| scope.spawn(move || operate(admin)));
            let ran = self.run_measured_part();
            let joined = operator.map(|thread| thread.join().expect("the operator panicked"));
            (ran, joined.unwrap_or_default())
        });
        self.moved = moved;
        part.end = self.reading();
        self.stock_problem = ran.is_ok().then(|| self.stock_problem(part)).flatten();
        ran
    }

    fn run_measured_part(&mut self) -> Result<(), HarnessError> {
        match self.setup.length {
            Length::Count(count) => {
                self.simulators.set_budget(count);
                self.simulators.set_phase(Phase::Measure);
                self.watch_until(count)
            }
            Length::Time(time) => {
                self.simulators.set_length(time);
                self.simulators.set_phase(Phase::Measure);
                match &self.setup.holders {
                    None => self.watch(RunPhase::Measure, time),
                    Some(holders) => self.watch_expiry(holders),
                }
            }
        }
    }

    /// Returns the problem if the stock was used up before the end of the measured part.
    fn stock_problem(&self, part: &Part) -> Option<String> {
        if self.setup.scenario != Scenario::Fulfil || 0 < self.simulators.counters().stock {
            return None;
        }
        let (stock, after) = (self.setup.stock, part.end.moment - part.start.moment);
        let missing = match self.setup.length {
            Length::Count(count) => {
                let measured = self.simulators.counters().measured;
                (measured < count).then(|| format!("{measured} of {count} units"))?
            }
            Length::Time(time) => (after < self.setup.lasts.map_or(time, |lasts| lasts.min(time)))
                .then(|| format!("{:.1} of {:.1} s", after.as_secs_f64(), time.as_secs_f64()))?,
        };
        Some(format!("the stock of {stock} transfers was used up after {missing}: raise --stock"))
    }

    /// Whether the run should end early: a closed loop has no transfer left to fulfil, or hung
    /// units of a run with a count would only delay its failure. An open loop continues to its end
    /// and counts the units for which there is no transfer.
    fn should_end(&self, counters: &RunCounters) -> bool {
        let open = matches!(self.setup.drive, Drive::Open { .. });
        let counted = matches!(self.setup.length, Length::Count(_));
        // A hung unit makes the run void, and blocks a closed loop until its timeout.
        if counted && HUNG_MAX <= counters.hung && self.setup.hub.nodes().is_none() {
            return true;
        }
        let ends = self.setup.scenario == Scenario::Fulfil && (counted || !open);
        ends && counters.stock == 0 && counters.in_flight == 0
    }

    /// Reserves the transfers whose fulfilment is measured.
    fn reserve_stock(&mut self) -> Result<(), HarnessError> {
        if self.setup.scenario != Scenario::Fulfil {
            return Ok(());
        }
        self.live.step(&format!("reserving {} transfers", self.setup.stock));
        self.simulators.set_stock(self.setup.stock);
        self.simulators.set_phase(Phase::Stock);
        let deadline = Instant::now() + STOCK_WITHIN;
        while self.simulators.counters().stock < self.setup.stock {
            if Instant::now() > deadline {
                let problem = format!("has not accepted the stock within {STOCK_WITHIN:?}");
                return Err(HarnessError::Hub(problem));
            }
            self.watch(RunPhase::Stock, POLL * 5)?;
        }
        self.simulators.set_phase(Phase::Idle);
        Ok(())
    }

    /// Lets the holders reserve the transfers that will expire.
    fn reserve(&mut self) -> Result<(), HarnessError> {
        let (Some(holders), Some(held)) = (&self.setup.holders, &self.held) else { return Ok(()) };
        let count = holders.count;
        self.live.step(&format!("reserving {count} transfers"));
        held.simulators.set_stock(count);
        held.simulators.set_phase(Phase::Stock);
        let deadline = held.moment - holders.around() - LOAD_BEFORE;
        loop {
            let counters = held.simulators.counters();
            if count <= counters.stock {
                break;
            }
            if SystemTime::now() > deadline {
                return Err(HarnessError::Hub(format!(
                    "has reserved {} of {count} transfers at the planned start of the load; raise \
                     --reserve",
                    counters.stock
                )));
            }
            self.interrupt.pause(POLL)?;
            self.hub.check_alive()?;
            self.live.show(RunPhase::Stock, &counters);
        }
        held.simulators.set_phase(Phase::Idle);
        Ok(())
    }

    /// Measures until all held transfers have expired, both sides have their error notices, and the
    /// time after the expirations is over.
    fn watch_expiry(&mut self, holders: &Holders<'_>) -> Result<(), HarnessError> {
        let Some(held) = &self.held else { return Ok(()) };
        let (requests, moment) = (held.simulators.counters().requests, held.moment);
        let least = moment + holders.within + holders.around();
        let last = least + NOTIFIED_WITHIN;
        loop {
            let now = SystemTime::now();
            if let Some(held) = self.held.as_mut().filter(|held| held.notified_after.is_none())
                && held.simulators.counters().requests >= requests + 2 * holders.count as u64
            {
                held.notified_after = now.duration_since(moment).ok();
            }
            let notified = self.held.as_ref().is_some_and(|held| held.notified_after.is_some());
            if least <= now && (notified || last <= now) {
                return Ok(());
            }
            self.watch(RunPhase::Measure, POLL)?;
        }
    }

    /// Returns the excluded seconds and the bounds of the steady part. In a run with expiring
    /// transfers, the steady part is the time of the expirations.
    fn trim(&self, length: Duration) -> (Trim, Bounds) {
        let Some(holders) = &self.setup.holders else { return trim(self.setup.length) };
        let [from, to] = holders.expiring();
        let last = (length.as_secs_f64() - to as f64).max(0.0);
        let bounds = [from, to].map(Duration::from_secs);
        (Trim { first: from as f64, last, unit: "s" }, Bounds::Time(bounds[0], bounds[1]))
    }

    /// Warms up, and finds the concurrency if none is given.
    fn warm_up(&mut self) -> Result<Option<usize>, HarnessError> {
        let concurrency = match self.setup.drive {
            Drive::Climb => {
                self.live.step("finding the concurrency with the highest rate");
                Some(self.climb()?)
            }
            Drive::Closed(target) => Some(target),
            Drive::Open { .. } => None,
        };
        self.simulators.set_target(concurrency.unwrap_or(0));
        // A warm-up would use up the stock. Reserving it has warmed up the hub.
        let warm = self.setup.drive != Drive::Climb && self.setup.scenario != Scenario::Fulfil;
        let time = match (&self.setup.holders, &self.held) {
            (Some(holders), Some(held)) => {
                let begin = held.moment - holders.around();
                begin.duration_since(SystemTime::now()).unwrap_or_default()
            }
            _ => self.setup.warm_up,
        };
        if warm && !time.is_zero() {
            self.simulators.set_phase(Phase::Warm);
            self.watch(RunPhase::Part("warm up"), time)?;
        }
        Ok(concurrency)
    }

    /// Raises the concurrency until the rate does not increase any more. Returns the smallest
    /// concurrency with about the same rate.
    fn climb(&mut self) -> Result<usize, HarnessError> {
        let mut rates: Vec<(usize, f64)> = Vec::new();
        let mut best = 0.0_f64;
        let mut without_gain = 0;
        self.simulators.set_phase(Phase::Warm);
        for step in CLIMB_STEPS {
            self.simulators.set_target(step);
            self.watch(RunPhase::Part("climb"), CLIMB_SETTLE)?;
            let (start, before) = (Instant::now(), self.simulators.counters().good);
            self.watch(RunPhase::Part("climb"), CLIMB_SAMPLE)?;
            let good = self.simulators.counters().good - before;
            let rate = good as f64 / start.elapsed().as_secs_f64();
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

    /// Waits until `count` units have ended, or no more units can start.
    fn watch_until(&mut self, count: u64) -> Result<(), HarnessError> {
        let mut is_over = false;
        loop {
            let counters = self.simulators.counters();
            if count <= counters.measured || is_over {
                return Ok(());
            }
            // The counters are not read atomically, so the condition is checked twice.
            is_over = self.should_end(&counters);
            self.watch(RunPhase::Measure, POLL)?;
        }
    }

    fn reading(&mut self) -> Reading {
        Reading::take(self.admin.as_mut(), &mut self.hub, &self.simulators)
    }

    fn balances(&mut self) -> Result<Option<Balances>, HarnessError> {
        self.admin.as_mut().map(Balances::read).transpose()
    }

    /// Runs for `time` and shows the progress. Ends early when the stock is used up.
    fn watch(&mut self, doing: RunPhase, time: Duration) -> Result<(), HarnessError> {
        let end = Instant::now() + time;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(());
            }
            self.interrupt.pause(rest.min(POLL * 10))?;
            self.hub.check_alive()?;
            self.inject_due_faults()?;
            let counters = self.simulators.counters();
            self.live.show(doing, &counters);
            self.live.check_progress(
                doing,
                &counters,
                self.setup.fsps.patience() + PROGRESS_WITHIN,
            )?;
            if matches!(doing, RunPhase::Measure) && self.should_end(&counters) {
                return Ok(());
            }
        }
    }

    /// Injects the faults that are due.
    fn inject_due_faults(&mut self) -> Result<(), HarnessError> {
        let (Some(began), Some(nodes)) = (self.began, self.hub.nodes()) else { return Ok(()) };
        for what in nodes.inject_due_faults(began.elapsed())? {
            self.live.step(&format!("{:>8.1} s  {what}", began.elapsed().as_secs_f64()));
        }
        Ok(())
    }

    /// Waits until no transfer is in flight and no notice is owed. After a timeout it returns a
    /// description of the open ones. The checks report missing metrics.
    fn wait_for_quiet(&mut self) -> Result<Option<String>, HarnessError> {
        let patience = self.setup.fsps.patience() + QUIET_WITHIN;
        let deadline = Instant::now() + patience;
        let (mut requests, mut still) = (0, 0);
        loop {
            let stopped = self.simulators.have_stopped();
            let counters = self.simulators.counters();
            let metrics = self.admin.as_mut().map(Admin::metrics).transpose()?.unwrap_or_default();
            let owed = |name| metrics.get(name).is_some_and(|value| value > 0.0);
            still = if counters.requests == requests { still + 1 } else { 0 };
            requests = counters.requests;
            let known = metrics.get(NOTICES_OWED).is_some();
            let at_rest =
                stopped && counters.in_flight == 0 && counters.open == 0 && counters.stock == 0;
            if at_rest && !owed(IN_FLIGHT) && !owed(NOTICES_OWED) && (known || still > IDLE_POLLS) {
                return Ok(None);
            }
            // Transfers are open but no notice is owed: notices were lost.
            let lost = counters.in_flight == 0 && known && !owed(IN_FLIGHT) && !owed(NOTICES_OWED);
            if lost && still > IDLE_POLLS * 4 || self.is_unhealthy(still, &counters) {
                return Ok(Some(open_units(&counters)));
            }
            if Instant::now() > deadline {
                return Ok(Some(format!("{} after {patience:?}", open_units(&counters))));
            }
            self.simulators.set_phase(Phase::Stop);
            self.watch(RunPhase::Drain(&open_work(&metrics)), POLL * 5)?;
        }
    }

    /// Whether the hub reports a full disk or a failed component after a long time without
    /// progress. Its open work will not end soon.
    fn is_unhealthy(&mut self, still: u32, counters: &RunCounters) -> bool {
        let is_due = 0 < still && still.is_multiple_of(HEALTH_POLLS) && 0 < counters.failed;
        let admin = self.admin.as_mut().filter(|_| is_due);
        admin.is_some_and(|admin| admin.health_problems().is_some())
    }

    /// Waits briefly for units in flight after a run was cut short.
    fn wait_until_quiet(&self) {
        let deadline = Instant::now() + CUT_QUIET_WITHIN;
        while self.simulators.counters().in_flight > 0 && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }

    fn checks(
        &self,
        before: &Option<Balances>,
        after: &Option<Balances>,
        fsps: &[FspResult],
        counters: &RunCounters,
    ) -> Vec<Check> {
        let totals = RunTotals {
            before: before.as_ref(),
            after: after.as_ref(),
            fsps,
            currency: self.setup.fsps.currency,
            good: counters.good,
            failed: counters.failed,
            scenario: self.setup.scenario,
            metrics_needed: self.setup.hub.is_spawned(),
            style: self.setup.fsps.style,
            confirm_to_payee: self.setup.confirm_to_payee,
            moved: &self.moved,
        };
        totals.checks()
    }

    /// Reads the balances of every node after the run.
    fn compare_nodes(&mut self, here: &Option<Balances>) -> Vec<Check> {
        let (Some(nodes), Some(here)) = (self.hub.nodes(), here) else { return Vec::new() };
        let read = nodes.admins().and_then(|admins| {
            let read = |(name, mut admin): (String, Admin)| Ok((name, Balances::read(&mut admin)?));
            admins.into_iter().map(read).collect::<Result<Vec<_>, HarnessError>>()
        });
        match read {
            Ok(balances) => vec![same_everywhere(here, &balances)],
            Err(error) => vec![Check::failed("every node answers", error.to_string())],
        }
    }

    /// Stops all nodes and verifies their copies.
    fn stop_nodes(
        &mut self,
        of_nodes: &mut NodesResult,
        acknowledged: &BTreeSet<Acknowledged>,
        cut: bool,
    ) -> Vec<Check> {
        let HubChoice::Nodes { command, .. } = &self.setup.hub else { return Vec::new() };
        self.live.step("stopping the nodes, verifying and comparing their logs");
        let Some(nodes) = self.hub.nodes() else { return Vec::new() };
        of_nodes.acknowledged = acknowledged.len();
        let problems = nodes.stop();
        if cut {
            return Vec::new();
        }
        let mut checks = vec![Check::of("every node stopped cleanly", problems)];
        let verify = nodes.verify_command(command);
        let (verified, agreed) = replica_check::verify(&verify, &nodes.copies(), acknowledged);
        checks.extend(verified);
        of_nodes.agreed = agreed;
        checks
    }

    /// Stops a switch that this run started and verifies its log.
    fn stop(&mut self, cut: bool) -> Vec<Check> {
        let HubChoice::Spawn { command, .. } = &self.setup.hub else { return Vec::new() };
        self.live.step("stopping the switch and verifying its log");
        let check = self.hub.stop_and_verify(command);
        if cut { Vec::new() } else { vec![check] }
    }
}

/// Maximum time without an ended unit, in addition to the timeout of an FSP, before a run is given
/// up.
const PROGRESS_WITHIN: Duration = Duration::from_secs(15);

fn record_is_full() -> Check {
    let why = format!(
        "the record of an FSP is limited to {ACKNOWLEDGED_MAX} messages; use a shorter run"
    );
    Check::failed("every 2xx response was recorded", why)
}

/// Describes the open work in the hub's metrics, if it has such metrics.
fn open_work(metrics: &Metrics) -> String {
    match (metrics.get(IN_FLIGHT), metrics.get(NOTICES_OWED)) {
        (Some(reserved), Some(owed)) => {
            format!("; the hub: {reserved} reserved, {owed} notices owed")
        }
        _ => String::new(),
    }
}

fn open_units(counters: &RunCounters) -> String {
    format!(
        "{} units in flight, {} transfers without a final notice, {} held by payees",
        counters.in_flight, counters.open, counters.stock
    )
}

/// Returns the excluded ends of a run, and the bounds of its steady part for the drivers.
fn trim(length: Length) -> (Trim, Bounds) {
    match length {
        Length::Time(time) => {
            let whole = time.as_secs_f64();
            let (first, last) = if LONG_RUN <= time {
                (LONG_TRIM.0.as_secs_f64(), LONG_TRIM.1.as_secs_f64())
            } else {
                (whole * SHORT_TRIM.0, whole * SHORT_TRIM.1)
            };
            let bounds = [first, whole - last].map(Duration::from_secs_f64);
            (Trim { first, last, unit: "s" }, Bounds::Time(bounds[0], bounds[1]))
        }
        Length::Count(count) => {
            let part = |share: f64| (count as f64 * share).floor();
            let (first, last) = (part(SHORT_TRIM.0), part(SHORT_TRIM.1));
            let trim = Trim { first, last, unit: "units" };
            (trim, Bounds::Count(first as u64 + 1, count - last as u64 + 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trim_is_fixed_for_long_runs_and_proportional_for_short_ones() {
        for (seconds, first, last) in [(3_600, 300.0, 120.0), (840, 300.0, 120.0), (100, 10.0, 4.0)]
        {
            let (trim, bounds) = trim(Length::Time(Duration::from_secs(seconds)));
            assert_eq!((trim.first, trim.last), (first, last), "{seconds}");
            let to = Duration::from_secs_f64(seconds as f64 - last);
            assert_eq!(bounds, Bounds::Time(Duration::from_secs_f64(first), to));
        }
        let (trim, bounds) = trim(Length::Count(1_000));
        assert_eq!((trim.first, trim.last), (100.0, 40.0));
        assert_eq!(bounds, Bounds::Count(101, 961));
    }
}
