//! One run from start to proof: what `demo` and `bench` share.
//!
//! Phases: start the hub, bind the FSPs, onboard, register subscribers, lay in a stock (fulfil
//! only), warm up or climb to the best concurrency, measure, let everything end, compare all books,
//! stop and verify. Every wait has an end: a hub that goes silent, ends or loses callbacks makes a
//! run that is cut short or fails its checks, never one that hangs.
//!
//! The calling thread only sleeps, reads counters and prints, ten times a second at most.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use dfsp::{ACKNOWLEDGED_MAX, Acknowledged, SimulatorOptions};

use crate::admin::{Admin, Metrics};
use crate::error::HarnessError;
use crate::histograms::Bounds;
use crate::hub::{Hub, HubChoice};
use crate::interrupt::Interrupt;
use crate::load::{Load, Phase};
use crate::nodes::ExecutedFault;
use crate::onboarding::onboard;
use crate::options::FspOptions;
use crate::pairs::Pairs;
use crate::proc_stats::{Environment, ProcessFigures, environment, own_cpu};
use crate::reconcile::{
    Balances, Check, IN_FLIGHT, NOTICES_OWED, RunTotals, check_expiries, same_everywhere,
};
use crate::replica_check::{self, ReplicaAgreement};
use crate::scenario::Scenario;
use crate::simulators::{FspResult, SimulatorPlan, SimulatorResult, Simulators, Snapshot, plan};
use crate::status_line::{RunPhase, StatusLine};

const POLL: Duration = Duration::from_millis(10);
const CLIMB_SETTLE: Duration = Duration::from_millis(200);
const CLIMB_SAMPLE: Duration = Duration::from_millis(700);
const CLIMB_STEPS: [usize; 6] = [16, 32, 64, 128, 256, 512];
/// A step up must bring this much to be worth its latency.
const CLIMB_GAIN: f64 = 1.03;
const QUIET_WITHIN: Duration = Duration::from_secs(40);
/// How long an interrupted run waits for what is in flight.
const CUT_QUIET_WITHIN: Duration = Duration::from_secs(2);
/// Polls without a new request after which a hub without metrics counts as quiet.
const STILL_POLLS: u32 = 6;
/// Polls between two reads of a failed hub's health, about five seconds.
const HINDERED_POLLS: u32 = 100;
/// Load before the measured part at least, where transfers expire in it.
const LOAD_BEFORE: Duration = Duration::from_secs(1);
/// Longest wait for the errors about transfers that expired.
const NOTIFIED_WITHIN: Duration = Duration::from_secs(120);
const STOCK_WITHIN: Duration = Duration::from_secs(600);
/// Parts of a run that are left out of its steady part, when it is too short for the usual ones.
const SHORT_TRIM: (f64, f64) = (0.10, 0.04);
const LONG_TRIM: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(120));
/// A run of this length is long enough to leave out the usual parts.
const LONG_RUN: Duration = Duration::from_secs(840);

/// The check that fails when the hub itself reports a problem.
pub const WELL: &str = "the hub reports that it is healthy";

/// The check that fails when a run was cut short.
pub const TO_ITS_END: &str = "the run went to its end";

/// The check that fails when a stock is used up before the run is over.
const STOCK_LASTED: &str = "the stock lasted to the end";

/// The check that fails when something does not come to its end.
pub const AT_REST: &str = "everything came to rest";

/// The plan of a run.
pub struct Setup<'a> {
    pub scenario: Scenario,
    pub fsps: &'a FspOptions,
    pub pairs: Pairs,
    pub drive: Drive,
    pub length: Length,
    pub warm_up: Duration,
    /// Transfers to hold before the measured part; for [`Scenario::Fulfil`].
    pub stock: usize,
    /// Shortest measured part that counts though the stock was used up before its end; `None` for
    /// all of it, where somebody said how large the stock is to be.
    pub lasts: Option<Duration>,
    pub hub: HubChoice<'a>,
    /// Adjusts the options of each FSP, such as its address and matching.
    pub adjust: &'a dyn Fn(usize, &mut SimulatorOptions),
    /// Whether FSPs and subscribers are made known to the hub first.
    pub onboard: bool,
    /// Whether subscribers are registered then.
    pub register: bool,
    /// Whether payees that fulfil with COMMITTED are owed a confirmation.
    pub confirm_to_payee: bool,
    /// More FSPs, with transfers that expire during the measured part.
    pub holders: Option<Holders<'a>>,
}

/// FSPs whose payees hold transfers until they expire, in the middle of the measured part.
///
/// The measured part begins a whole number of seconds before the first expiration, so that its
/// seconds and those of the expiry coincide. It ends the same time after the last expiration, but
/// not before both sides of each transfer have their error.
pub struct Holders<'a> {
    /// Their options, for these addresses of the hub and the moment of the first expiration.
    pub plan: &'a dyn Fn(&[SocketAddr], SystemTime) -> Vec<SimulatorOptions>,
    /// Transfers that they hold.
    pub count: usize,
    /// Time to reserve them.
    pub reserve: Duration,
    /// From the first expiration to the last.
    pub within: Duration,
    /// Measured seconds before the first and after the last.
    pub around: u32,
}

/// The simulators of the holders.
struct HolderFleets {
    fleets: Simulators,
    moment: SystemTime,
    /// From the moment until both sides of each transfer had their error.
    notified_after: Option<Duration>,
}

impl Holders<'_> {
    fn start(&self, hub: &[SocketAddr]) -> Result<HolderFleets, HarnessError> {
        let moment = SystemTime::now() + self.reserve + LOAD_BEFORE + self.around();
        let (scenario, pairs, load) = (Scenario::Fulfil, Pairs::Uniform, Load::Closed);
        let plan = SimulatorPlan { scenario, pairs, load, threads: 1, keeps_ends: false };
        let fleets = Simulators::start(&(self.plan)(hub, moment), plan)?;
        Ok(HolderFleets { fleets, moment, notified_after: None })
    }

    fn around(&self) -> Duration {
        Duration::from_secs(self.around.into())
    }

    /// First second of the measured part in which transfers expire, and the first after them.
    pub fn expiring(&self) -> [u64; 2] {
        let from = u64::from(self.around);
        [from, from + (self.within.as_secs_f64().ceil() as u64).max(1)]
    }
}

/// How units are started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drive {
    /// As many in flight as bring the highest rate.
    Climb,
    /// A fixed number in flight.
    Closed(usize),
    /// A fixed rate per second; units are dropped while `backlog` are in flight.
    Open {
        /// Units a second.
        rate: f64,
        /// Units in flight at most.
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
    /// Units that ended well in the measured part.
    pub good: u64,
    /// Units that ended well in the whole run.
    pub good_in_all: u64,
    /// Units that failed in the whole run.
    pub failed: u64,
    pub dropped: u64,
    /// Of these, the ones that found no transfer in stock.
    pub unstocked: u64,
    pub backlog_max: usize,
    pub concurrency: Option<usize>,
    /// Resources used by the hub's process in the measured part, if known.
    pub hub: Option<ProcessFigures>,
    pub resident_bytes_max: Option<u64>,
    pub own_cpu: Duration,
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
    /// Of a hub of several nodes.
    pub nodes: Option<NodesResult>,
    /// From the first expiration until both sides of each transfer of the holders had their error.
    pub notified_after: Option<Duration>,
    /// Why the run ended before its time.
    pub cut: Option<HarnessError>,
}

impl Measured {
    /// The results from two readings and the drivers, without checks.
    fn between(
        start: Reading,
        end: Reading,
        glance: &Snapshot,
        (result, trim, environment): (SimulatorResult, Trim, Environment),
    ) -> Self {
        Self {
            began: Some(start.moment),
            seconds: (end.moment - start.moment).as_secs_f64(),
            good: end.good.saturating_sub(start.good),
            good_in_all: glance.good,
            failed: glance.failed,
            dropped: glance.dropped,
            unstocked: glance.unstocked,
            backlog_max: glance.backlog_max,
            concurrency: None,
            hub: end.figures.zip(start.figures).map(|(end, start)| end.since(&start)),
            resident_bytes_max: None,
            own_cpu: end.own_cpu.saturating_sub(start.own_cpu),
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

    /// By how much one of the hub's metrics rose in the measured part.
    pub fn risen(&self, name: &str) -> Option<f64> {
        Some(self.metrics_at_end.get(name)? - self.metrics_at_start.get(name)?)
    }
}

/// The additional results of several nodes.
#[derive(Debug, Default)]
pub struct NodesResult {
    /// The injected faults.
    pub done: Vec<ExecutedFault>,
    /// Messages that were answered 2xx, each once.
    pub acknowledged: usize,
    /// The state that their copies agree on.
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

/// Carries a run out.
///
/// # Errors
/// The run could not be set up. Later failures are in [`Measured::cut`] and the checks.
pub fn carry_out(setup: &Setup<'_>) -> Result<Measured, HarnessError> {
    let interrupt = Interrupt::listen();
    let mut live = StatusLine::on_stderr();
    let mut hub = setup.hub.start(&mut |what| live.step(what))?;
    interrupt.check()?;
    let environment = environment(hub.data());
    let mut simulators = plan(setup.fsps, &hub.fspiop());
    let listen = hub.nodes().and_then(|nodes| nodes.participants());
    for (index, simulator) in simulators.iter_mut().enumerate() {
        simulator.holds = setup.scenario.holds();
        // A stock is larger than what is ever in flight.
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
    let fleets = Simulators::start(&simulators, plan)?;
    let admin = hub.admin()?;
    let held = setup.holders.as_ref().map(|it| it.start(&hub.fspiop())).transpose()?;
    let (began, spent) = (None, None);
    let mut run = Run { setup, interrupt, live, hub, fleets, held, admin, began, spent };
    run.prepare()?;
    run.go_on(environment)
}

/// Units without a callback after which a run by number ends.
const HUNG_MAX: u64 = 100;
/// Life of a transfer that its payee holds.
const HELD_FOR: Duration = Duration::from_secs(3_600);

/// A run in progress.
struct Run<'a> {
    setup: &'a Setup<'a>,
    interrupt: Interrupt,
    live: StatusLine,
    hub: Hub,
    fleets: Simulators,
    held: Option<HolderFleets>,
    admin: Option<Admin>,
    /// Start of the measured part, while it lasts.
    began: Option<Instant>,
    /// The problem of a stock that was used up before the end.
    spent: Option<String>,
}

/// Counters at one moment.
#[derive(Clone)]
struct Reading {
    moment: Instant,
    good: u64,
    figures: Option<ProcessFigures>,
    own_cpu: Duration,
    brokers_cpu: Duration,
    metrics: Metrics,
}

impl Reading {
    fn take(admin: Option<&mut Admin>, hub: &mut Hub, fleets: &Simulators) -> Self {
        // Missing metrics show in the checks; a reading is not the place to end a run.
        let metrics = admin.and_then(|admin| admin.metrics().ok());
        Self {
            metrics: metrics.unwrap_or_default(),
            moment: Instant::now(),
            good: fleets.glance().good,
            figures: hub.figures(),
            own_cpu: own_cpu(),
            brokers_cpu: hub.nodes().map_or(Duration::ZERO, |nodes| nodes.brokers_cpu()),
        }
    }
}

/// The measured part.
struct Part {
    start: Reading,
    end: Reading,
    concurrency: Option<usize>,
}

impl Run<'_> {
    /// Makes the FSPs and their subscribers known.
    fn prepare(&mut self) -> Result<(), HarnessError> {
        let mut bound = self.fleets.bound();
        bound.extend(self.held.iter().flat_map(|held| held.fleets.bound()));
        if self.setup.onboard {
            let needed = || HarnessError::Options("--admin is needed for onboarding".to_owned());
            let admin = self.admin.as_mut().ok_or_else(needed)?;
            self.live.step(&format!("onboarding {} FSPs", bound.len()));
            onboard(admin, self.setup.fsps.currency, &bound, &self.interrupt)?;
            if self.setup.scenario.looks_up() && self.setup.register {
                let subscribers = self.setup.fsps.subscribers;
                self.live.step(&format!("registering {subscribers} subscribers of each"));
                self.fleets.register(self.setup.fsps.patience(), &self.interrupt)?;
            }
        }
        self.fleets.behave()
    }

    fn go_on(mut self, environment: Environment) -> Result<Measured, HarnessError> {
        let before = self.books()?;
        let start = self.reading();
        let mut part = Part { end: start.clone(), start, concurrency: None };
        let mut cut = self.measure(&mut part).err();
        let open = self.come_to_rest(&mut cut);
        let mut result = self.fleets.collect()?;
        let held = self.held.as_ref().map(|held| held.fleets.collect()).transpose()?;
        let glance = self.fleets.glance();
        let after = if cut.is_none() { self.books() } else { Ok(None) };
        let after = after.unwrap_or_else(|error| {
            cut.get_or_insert(error);
            None
        });
        let books_compared = before.is_some() && after.is_some();
        let (mut checks, metrics_after) = match &cut {
            None => {
                let mut fsps = result.fsps.clone();
                fsps.extend(held.iter().flat_map(|held| held.fsps.clone()));
                let mut checks = self.checks(&before, &after, &fsps, &glance);
                if let (Some(held), Some(holders)) = (&held, &self.setup.holders) {
                    let books = [&before, &after].map(Option::as_ref);
                    checks.push(check_expiries(holders.count as u64, books, held));
                }
                checks.extend(self.compare_nodes(&after));
                (checks, after.map(|books| books.metrics).unwrap_or_default())
            }
            Some(error) => {
                let why = error.to_string();
                (vec![Check::failed(TO_ITS_END, why)], Metrics::default())
            }
        };
        checks.extend(self.spent.take().map(|spent| Check::failed(STOCK_LASTED, spent)));
        checks.extend(open.map(|open| Check::failed(AT_REST, open)));
        checks.extend(self.complaint(&checks));
        let resident = self.hub.figures().map(|figures| figures.resident_bytes_max);
        checks.extend(result.is_record_full.then(record_is_full));
        let acknowledged = std::mem::take(&mut result.acknowledged).into_iter().collect();
        let mut nodes = self.hub.nodes().map(|nodes| NodesResult {
            done: nodes.done().to_vec(),
            brokers_cpu: part.end.brokers_cpu.saturating_sub(part.start.brokers_cpu),
            ..NodesResult::default()
        });
        checks.extend(match &mut nodes {
            None => self.stop(cut.is_some()),
            Some(nodes) => self.stop_nodes(nodes, &acknowledged, cut.is_some()),
        });
        let good = match self.setup.length {
            Length::Time(_) => part.end.good - part.start.good,
            // Exactly those: the warm-up's last ones are not among them.
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
            ..Measured::between(part.start, part.end, &glance, (result, trim, environment))
        })
    }

    /// The hub's own problems, read when a check has failed.
    fn complaint(&mut self, checks: &[Check]) -> Option<Check> {
        let void = checks.iter().any(|check| check.passed == Some(false));
        let admin = self.admin.as_mut().filter(|_| void)?;
        admin.complaint().map(|what| Check::failed(WELL, what))
    }

    /// Waits until all started units have ended; returns the problem if some have not.
    fn come_to_rest(&mut self, cut: &mut Option<HarnessError>) -> Option<String> {
        self.began = None;
        self.fleets.set_phase(Phase::Stop);
        let mut open = None;
        if cut.is_none() {
            *cut = self.hub.nodes().and_then(|nodes| nodes.mend().err());
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

    /// Lays in, warms up, measures; `part` is filled as far as it gets.
    fn measure(&mut self, part: &mut Part) -> Result<(), HarnessError> {
        self.live.expect_progress();
        self.lay_in()?;
        self.reserve()?;
        part.concurrency = self.warm_up()?;
        self.fleets.set_steady(self.trim(Duration::ZERO).1);
        part.start = self.reading();
        part.end = part.start.clone();
        self.live.step("measuring");
        self.began = Some(part.start.moment);
        let ran = match self.setup.length {
            Length::Count(count) => {
                self.fleets.set_budget(count);
                self.fleets.set_phase(Phase::Measure);
                self.watch_until(count)
            }
            Length::Time(time) => {
                self.fleets.set_length(time);
                self.fleets.set_phase(Phase::Measure);
                match &self.setup.holders {
                    None => self.watch(RunPhase::Measure, time),
                    Some(holders) => self.watch_expiry(holders),
                }
            }
        };
        part.end = self.reading();
        self.spent = ran.is_ok().then(|| self.spent_early(part)).flatten();
        ran
    }

    /// The problem if the stock was used up before the end of the measured part.
    fn spent_early(&self, part: &Part) -> Option<String> {
        if self.setup.scenario != Scenario::Fulfil || 0 < self.fleets.glance().stock {
            return None;
        }
        let (stock, after) = (self.setup.stock, part.end.moment - part.start.moment);
        let missing = match self.setup.length {
            Length::Count(count) => {
                let measured = self.fleets.glance().measured;
                (measured < count).then(|| format!("{measured} of {count} units"))?
            }
            Length::Time(time) => (after < self.setup.lasts.map_or(time, |lasts| lasts.min(time)))
                .then(|| format!("{:.1} of {:.1} s", after.as_secs_f64(), time.as_secs_f64()))?,
        };
        Some(format!("the stock of {stock} transfers was used up after {missing}: raise --stock"))
    }

    /// Whether a closed loop has no transfer left to fulfil, or the hung units of a counted run
    /// would only delay its failure. An open loop continues to its end and counts the units for
    /// which it finds no transfer.
    fn is_spent(&self, glance: &Snapshot) -> bool {
        let open = matches!(self.setup.drive, Drive::Open { .. });
        let counted = matches!(self.setup.length, Length::Count(_));
        // One that hung makes the run void; each holds up a closed loop for the whole of its time.
        if counted && HUNG_MAX <= glance.hung && self.setup.hub.nodes().is_none() {
            return true;
        }
        let ends = self.setup.scenario == Scenario::Fulfil && (counted || !open);
        ends && glance.stock == 0 && glance.in_flight == 0
    }

    /// Reserves the transfers whose fulfilment is measured.
    fn lay_in(&mut self) -> Result<(), HarnessError> {
        if self.setup.scenario != Scenario::Fulfil {
            return Ok(());
        }
        self.live.step(&format!("reserving {} transfers", self.setup.stock));
        self.fleets.set_stock(self.setup.stock);
        self.fleets.set_phase(Phase::Stock);
        let deadline = Instant::now() + STOCK_WITHIN;
        while self.fleets.glance().stock < self.setup.stock {
            if Instant::now() > deadline {
                let problem = format!("has not taken the stock within {STOCK_WITHIN:?}");
                return Err(HarnessError::Hub(problem));
            }
            self.watch(RunPhase::Stock, POLL * 5)?;
        }
        self.fleets.set_phase(Phase::Idle);
        Ok(())
    }

    /// Lets the holders reserve the transfers that will expire.
    fn reserve(&mut self) -> Result<(), HarnessError> {
        let (Some(holders), Some(held)) = (&self.setup.holders, &self.held) else { return Ok(()) };
        let count = holders.count;
        self.live.step(&format!("reserving {count} transfers"));
        held.fleets.set_stock(count);
        held.fleets.set_phase(Phase::Stock);
        let deadline = held.moment - holders.around() - LOAD_BEFORE;
        loop {
            let glance = held.fleets.glance();
            if count <= glance.stock {
                break;
            }
            if SystemTime::now() > deadline {
                return Err(HarnessError::Hub(format!(
                    "has reserved {} of {count} transfers when load should begin: raise --reserve",
                    glance.stock
                )));
            }
            self.interrupt.pause(POLL)?;
            self.hub.check_alive()?;
            self.live.show(RunPhase::Stock, &glance);
        }
        held.fleets.set_phase(Phase::Idle);
        Ok(())
    }

    /// Measures until all held transfers have expired, both sides have their errors, and the time
    /// after that is over.
    fn watch_expiry(&mut self, holders: &Holders<'_>) -> Result<(), HarnessError> {
        let Some(held) = &self.held else { return Ok(()) };
        let (requests, moment) = (held.fleets.glance().requests, held.moment);
        let least = moment + holders.within + holders.around();
        let last = least + NOTIFIED_WITHIN;
        loop {
            let now = SystemTime::now();
            if let Some(held) = self.held.as_mut().filter(|held| held.notified_after.is_none())
                && held.fleets.glance().requests >= requests + 2 * holders.count as u64
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

    /// The seconds excluded from the steady part, and its bounds. In a run with expiring transfers,
    /// only the seconds of the expirations count.
    fn trim(&self, length: Duration) -> (Trim, Bounds) {
        let Some(holders) = &self.setup.holders else { return trim(self.setup.length) };
        let [from, to] = holders.expiring();
        let last = (length.as_secs_f64() - to as f64).max(0.0);
        let bounds = [from, to].map(Duration::from_secs);
        (Trim { first: from as f64, last, unit: "s" }, Bounds::Time(bounds[0], bounds[1]))
    }

    /// Warms up, and finds the concurrency when none is given.
    fn warm_up(&mut self) -> Result<Option<usize>, HarnessError> {
        let concurrency = match self.setup.drive {
            Drive::Climb => {
                self.live.step("finding the concurrency with the highest rate");
                Some(self.climb()?)
            }
            Drive::Closed(target) => Some(target),
            Drive::Open { .. } => None,
        };
        self.fleets.set_target(concurrency.unwrap_or(0));
        // A warm-up would use the stock up, and laying it in was one.
        let warm = self.setup.drive != Drive::Climb && self.setup.scenario != Scenario::Fulfil;
        let time = match (&self.setup.holders, &self.held) {
            (Some(holders), Some(held)) => {
                let begin = held.moment - holders.around();
                begin.duration_since(SystemTime::now()).unwrap_or_default()
            }
            _ => self.setup.warm_up,
        };
        if warm && !time.is_zero() {
            self.fleets.set_phase(Phase::Warm);
            self.watch(RunPhase::Part("warm up"), time)?;
        }
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
            self.watch(RunPhase::Part("climb"), CLIMB_SETTLE)?;
            let (start, before) = (Instant::now(), self.fleets.glance().good);
            self.watch(RunPhase::Part("climb"), CLIMB_SAMPLE)?;
            let good = self.fleets.glance().good - before;
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

    /// Waits until `count` units have ended, or none is left that could.
    fn watch_until(&mut self, count: u64) -> Result<(), HarnessError> {
        let mut spent = false;
        loop {
            let glance = self.fleets.glance();
            if count <= glance.measured || spent {
                return Ok(());
            }
            // The counters are read one by one, so it is looked at twice.
            spent = self.is_spent(&glance);
            self.watch(RunPhase::Measure, POLL)?;
        }
    }

    fn reading(&mut self) -> Reading {
        Reading::take(self.admin.as_mut(), &mut self.hub, &self.fleets)
    }

    fn books(&mut self) -> Result<Option<Balances>, HarnessError> {
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
            self.disturb()?;
            let glance = self.fleets.glance();
            self.live.show(doing, &glance);
            self.live.check_progress(
                doing,
                &glance,
                self.setup.fsps.patience() + PROGRESS_WITHIN,
            )?;
            if matches!(doing, RunPhase::Measure) && self.is_spent(&glance) {
                return Ok(());
            }
        }
    }

    /// Injects the faults that are due.
    fn disturb(&mut self) -> Result<(), HarnessError> {
        let (Some(began), Some(nodes)) = (self.began, self.hub.nodes()) else { return Ok(()) };
        for what in nodes.disturb(began.elapsed())? {
            self.live.step(&format!("{:>8.1} s  {what}", began.elapsed().as_secs_f64()));
        }
        Ok(())
    }

    /// Waits until no transfer is in flight and no notice is owed. After a time-out it returns a
    /// description of the open ones. The checks report missing metrics.
    fn wait_for_quiet(&mut self) -> Result<Option<String>, HarnessError> {
        let patience = self.setup.fsps.patience() + QUIET_WITHIN;
        let deadline = Instant::now() + patience;
        let (mut requests, mut still) = (0, 0);
        loop {
            let stopped = self.fleets.have_stopped();
            let glance = self.fleets.glance();
            let metrics = self.admin.as_mut().map(Admin::metrics).transpose()?.unwrap_or_default();
            let owed = |name| metrics.get(name).is_some_and(|value| value > 0.0);
            still = if glance.requests == requests { still + 1 } else { 0 };
            requests = glance.requests;
            let known = metrics.get(NOTICES_OWED).is_some();
            let at_rest = stopped && glance.in_flight == 0 && glance.open == 0 && glance.stock == 0;
            if at_rest && !owed(IN_FLIGHT) && !owed(NOTICES_OWED) && (known || still > STILL_POLLS)
            {
                return Ok(None);
            }
            // Nothing comes any more although transfers are open: notices were lost.
            let lost = glance.in_flight == 0 && known && !owed(IN_FLIGHT) && !owed(NOTICES_OWED);
            if lost && still > STILL_POLLS * 4 || self.is_hindered(still, &glance) {
                return Ok(Some(at_rest_not(&glance)));
            }
            if Instant::now() > deadline {
                return Ok(Some(format!("{} after {patience:?}", at_rest_not(&glance))));
            }
            self.fleets.set_phase(Phase::Stop);
            self.watch(RunPhase::Drain(&owing(&metrics)), POLL * 5)?;
        }
    }

    /// Whether the hub, after a long time without progress, reports a full disk or a part that is
    /// down: its open work will not end soon.
    fn is_hindered(&mut self, still: u32, glance: &Snapshot) -> bool {
        let is_due = 0 < still && still.is_multiple_of(HINDERED_POLLS) && 0 < glance.failed;
        let admin = self.admin.as_mut().filter(|_| is_due);
        admin.is_some_and(|admin| admin.complaint().is_some())
    }

    /// A run that was cut short waits a little for what is in flight.
    fn wait_until_quiet(&self) {
        let deadline = Instant::now() + CUT_QUIET_WITHIN;
        while self.fleets.glance().in_flight > 0 && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }

    fn checks(
        &self,
        before: &Option<Balances>,
        after: &Option<Balances>,
        fsps: &[FspResult],
        glance: &Snapshot,
    ) -> Vec<Check> {
        let evidence = RunTotals {
            before: before.as_ref(),
            after: after.as_ref(),
            fsps,
            currency: self.setup.fsps.currency,
            good: glance.good,
            failed: glance.failed,
            scenario: self.setup.scenario,
            metrics_needed: self.setup.hub.is_spawned(),
            style: self.setup.fsps.style,
            confirm_to_payee: self.setup.confirm_to_payee,
        };
        evidence.checks()
    }

    /// Asks every node for its books when everything has come to rest.
    fn compare_nodes(&mut self, here: &Option<Balances>) -> Vec<Check> {
        let (Some(nodes), Some(here)) = (self.hub.nodes(), here) else { return Vec::new() };
        let read = nodes.admins().and_then(|admins| {
            let read = |(name, mut admin): (String, Admin)| Ok((name, Balances::read(&mut admin)?));
            admins.into_iter().map(read).collect::<Result<Vec<_>, HarnessError>>()
        });
        match read {
            Ok(books) => vec![same_everywhere(here, &books)],
            Err(error) => vec![Check::failed("every node answers", error.to_string())],
        }
    }

    /// Stops all nodes and proves their copies.
    fn stop_nodes(
        &mut self,
        of_nodes: &mut NodesResult,
        acknowledged: &BTreeSet<Acknowledged>,
        cut: bool,
    ) -> Vec<Check> {
        let HubChoice::Nodes { command, .. } = &self.setup.hub else { return Vec::new() };
        self.live.step("stopping the nodes, verifying the log of each, and comparing them");
        let Some(nodes) = self.hub.nodes() else { return Vec::new() };
        of_nodes.acknowledged = acknowledged.len();
        let problems = nodes.stop();
        if cut {
            return Vec::new();
        }
        let mut checks = vec![Check::of("every node stopped in order", problems)];
        let proving = nodes.proving(command);
        let (proved, agreed) = replica_check::prove(&proving, &nodes.copies(), acknowledged);
        checks.extend(proved);
        of_nodes.agreed = agreed;
        checks
    }

    /// Stops a switch of ours and proves its log.
    fn stop(&mut self, cut: bool) -> Vec<Check> {
        let HubChoice::Spawn { command, .. } = &self.setup.hub else { return Vec::new() };
        self.live.step("stopping the switch and verifying its log");
        let check = self.hub.stop_and_verify(command);
        if cut { Vec::new() } else { vec![check] }
    }
}

/// How long, beyond the patience of an FSP, nothing may end before a run is given up.
const PROGRESS_WITHIN: Duration = Duration::from_secs(15);

fn record_is_full() -> Check {
    let why = format!("an FSP keeps {ACKNOWLEDGED_MAX} of them; measure for less long");
    Check::failed("every 2xx is on record", why)
}

/// The open work that the hub's metrics list, if it has such metrics.
fn owing(metrics: &Metrics) -> String {
    match (metrics.get(IN_FLIGHT), metrics.get(NOTICES_OWED)) {
        (Some(reserved), Some(owed)) => {
            format!("; the hub: {reserved} reserved, {owed} notices owed")
        }
        _ => String::new(),
    }
}

fn at_rest_not(glance: &Snapshot) -> String {
    format!(
        "{} units in flight, {} transfers without a notice of their end, {} held by payees",
        glance.in_flight, glance.open, glance.stock
    )
}

/// The ends outside the steady part, and its bounds for the drivers.
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
    fn long_runs_lose_five_minutes_and_two_short_ones_their_share() {
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
