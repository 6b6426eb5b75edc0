//! Threads of simulated FSPs, each with its driver, and the handle that the main thread holds.
//!
//! FSPs come in pairs that pay each other in turn, so that positions stay near zero. Closed loop:
//! the end of a transaction starts the next. Open loop: a kernel timer starts them whatever the
//! answers. The main thread changes phase and target through atomics and reads progress the same
//! way; nothing is locked per transaction.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dfsp::links::LinkCounts;
use dfsp::tally::Exchange;
use dfsp::{Behaviour, Cause, Counts, End, Leg, Outcome, Payment, Simulator, SimulatorOptions};
use hdrhistogram::Histogram;
use ledger::{Amount, FspName};
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::error::HarnessError;
use crate::machine::thread_cpu;
use crate::options::FspOptions;
use crate::pace::Pace;

const TICK: Duration = Duration::from_millis(5);
const TICKS_PER_GLANCE: u32 = 50;
const REGISTRATIONS_AT_ONCE: usize = 32;
const REGISTRATION_PATIENCE: Duration = Duration::from_secs(60);
const LATENCY_MICROS_MAX: u64 = 3_600_000_000;
const SUBSCRIBER_NUMBERS: u64 = 25_500_000_000;
const SUBSCRIBERS_PER_FSP: u64 = 100_000;

/// What makes transactions start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Load {
    /// Nothing: the FSPs only answer.
    None,
    /// So many in flight, as set by [`Fleets::set_target`].
    Closed,
    /// So many a second.
    Open(f64),
}

/// What the drivers do at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Start nothing yet.
    Idle = 0,
    /// Run, without recording latencies.
    Warm = 1,
    /// Run and record.
    Measure = 2,
    /// Start nothing more.
    Stop = 3,
}

/// An FSP that listens.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) subscribers: std::ops::Range<u64>,
    pub(crate) endpoints: Vec<(String, String)>,
}

/// Progress of all fleets together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Glance {
    pub(crate) committed: u64,
    pub(crate) failed: u64,
    pub(crate) in_flight: usize,
    /// Ended among those that were started while measuring.
    pub(crate) measured: u64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// What one FSP saw.
#[derive(Clone, Debug)]
pub(crate) struct FspResult {
    pub(crate) name: String,
    pub(crate) position: Amount,
    pub(crate) counts: Counts,
    pub(crate) links: LinkCounts,
    pub(crate) exchanges: Vec<(FspName, Exchange)>,
}

/// Latencies in microseconds.
#[derive(Clone)]
pub(crate) struct Latencies {
    pub(crate) whole: Histogram<u64>,
    pub(crate) lookup: Histogram<u64>,
    pub(crate) quote: Histogram<u64>,
    pub(crate) transfer: Histogram<u64>,
}

/// What a run gave.
pub(crate) struct FleetResult {
    pub(crate) fsps: Vec<FspResult>,
    pub(crate) latencies: Latencies,
    /// Number of failures by leg and cause, with the id of one of them.
    pub(crate) failures: BTreeMap<String, (u64, String)>,
    /// CPU time of the simulators' threads.
    pub(crate) cpu: Duration,
}

/// All fleets of a run.
pub(crate) struct Fleets {
    fleets: Vec<Fleet>,
}

struct Fleet {
    bound: Vec<Bound>,
    control: Arc<Control>,
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

struct Control {
    phase: AtomicU8,
    target: AtomicUsize,
    budget: AtomicU64,
    committed: AtomicU64,
    failed: AtomicU64,
    measured: AtomicU64,
    in_flight: AtomicUsize,
    p50_micros: AtomicU64,
    p99_micros: AtomicU64,
}

enum Order {
    Register(SyncSender<Result<(), HarnessError>>),
    Behave(SyncSender<()>),
    Collect(SyncSender<FleetResult>),
}

/// The options of every simulated FSP, in order.
pub(crate) fn plan(options: &FspOptions, hub: SocketAddr) -> Vec<SimulatorOptions> {
    let one = |index: usize| {
        let name = options.name(index);
        let start = SUBSCRIBER_NUMBERS + (options.first + index as u64) * SUBSCRIBERS_PER_FSP;
        let mut simulator = SimulatorOptions::new(&name, options.currency, hub);
        simulator.version = options.fspiop_version;
        simulator.style = options.style;
        simulator.subscribers = start..start + options.subscribers;
        simulator.patience = options.patience();
        // What the payer has given up, the hub ends soon after.
        simulator.expiration_ahead = options.patience();
        simulator.links.connections_max = options.connections;
        let changed = options.behaviour.iter().rfind(|(changed, _)| *changed == name);
        simulator.behaviour = changed.map_or(simulator.behaviour, |&(_, behaviour)| behaviour);
        simulator
    };
    (0..options.fsps).map(one).collect()
}

impl Fleets {
    /// Binds all FSPs, pairs dealt out over `threads`.
    pub(crate) fn start(
        plan: &[SimulatorOptions],
        threads: usize,
        load: Load,
    ) -> Result<Self, HarnessError> {
        let mut shares = vec![Vec::new(); threads];
        for (index, pair) in plan.chunks_exact(2).enumerate() {
            shares[index % threads].extend_from_slice(pair);
        }
        let load = match load {
            Load::Open(rate) => Load::Open(rate / threads as f64),
            other => other,
        };
        let fleets = shares.into_iter().map(|share| Fleet::start(share, load));
        Ok(Self { fleets: fleets.collect::<Result<_, _>>()? })
    }

    /// All FSPs and where they listen.
    pub(crate) fn bound(&self) -> Vec<Bound> {
        self.fleets.iter().flat_map(|fleet| fleet.bound.clone()).collect()
    }

    /// Registers all subscribers at the hub.
    pub(crate) fn register(&self) -> Result<(), HarnessError> {
        let answers: Vec<_> =
            self.fleets.iter().map(|fleet| fleet.order(Order::Register)).collect();
        answers
            .into_iter()
            .try_for_each(|answer| answer?.recv().map_err(|_| HarnessError::Fleet)?)
    }

    /// Lets every FSP behave as planned; until then all are normal, so that they can be set up.
    pub(crate) fn behave(&self) -> Result<(), HarnessError> {
        let answers: Vec<_> = self.fleets.iter().map(|fleet| fleet.order(Order::Behave)).collect();
        answers.into_iter().try_for_each(|answer| answer?.recv().map_err(|_| HarnessError::Fleet))
    }

    /// Changes the phase of all drivers; they see it within 5 ms.
    pub(crate) fn set_phase(&self, phase: Phase) {
        for fleet in &self.fleets {
            fleet.control.phase.store(phase as u8, Ordering::Release);
        }
    }

    /// Sets how many transactions shall be in flight altogether.
    pub(crate) fn set_target(&self, total: usize) {
        let threads = self.fleets.len();
        for (index, fleet) in self.fleets.iter().enumerate() {
            let share = (total + threads - 1 - index) / threads;
            fleet.control.target.store(share, Ordering::Relaxed);
        }
    }

    /// Sets how many transactions are started while measuring, before the phase is entered.
    pub(crate) fn set_budget(&self, total: u64) {
        let threads = self.fleets.len() as u64;
        for (index, fleet) in self.fleets.iter().enumerate() {
            let share = (total + threads - 1 - index as u64) / threads;
            fleet.control.budget.store(share, Ordering::Relaxed);
        }
    }

    /// Where the run stands.
    pub(crate) fn glance(&self) -> Glance {
        let mut all = Glance::default();
        for control in self.fleets.iter().map(|fleet| &fleet.control) {
            all.committed += control.committed.load(Ordering::Relaxed);
            all.failed += control.failed.load(Ordering::Relaxed);
            all.in_flight += control.in_flight.load(Ordering::Relaxed);
            all.measured += control.measured.load(Ordering::Relaxed);
            let micros = |value: &AtomicU64| Duration::from_micros(value.load(Ordering::Relaxed));
            all.p50 = all.p50.max(micros(&control.p50_micros));
            all.p99 = all.p99.max(micros(&control.p99_micros));
        }
        all
    }

    /// What was seen and measured so far.
    pub(crate) fn collect(&self) -> Result<FleetResult, HarnessError> {
        let mut all: Option<FleetResult> = None;
        for fleet in &self.fleets {
            let one = fleet.order(Order::Collect)?.recv().map_err(|_| HarnessError::Fleet)?;
            all = Some(match all {
                Some(all) => all.with(one),
                None => one,
            });
        }
        let mut all = all.ok_or(HarnessError::Fleet)?;
        all.fsps.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}

impl Fleet {
    fn start(plan: Vec<SimulatorOptions>, load: Load) -> Result<Self, HarnessError> {
        let control = Arc::new(Control::new());
        let (orders, received) = mpsc::channel(4);
        let (tell, told) = sync_channel(1);
        let shared = Arc::clone(&control);
        let thread = std::thread::Builder::new()
            .name("fsps".to_owned())
            .spawn(move || run(plan, load, shared, received, tell))
            .map_err(|error| HarnessError::Options(format!("no thread: {error}")))?;
        let bound = told.recv().map_err(|_| HarnessError::Fleet)??;
        Ok(Self { bound, control, orders: Some(orders), thread: Some(thread) })
    }

    fn order<T>(&self, order: fn(SyncSender<T>) -> Order) -> Result<Receiver<T>, HarnessError> {
        let (tell, told) = sync_channel(1);
        let orders = self.orders.as_ref().ok_or(HarnessError::Fleet)?;
        orders.blocking_send(order(tell)).map_err(|_| HarnessError::Fleet)?;
        Ok(told)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed already and shows as missing answers.
            let _ = thread.join();
        }
    }
}

impl Control {
    fn new() -> Self {
        Self {
            phase: AtomicU8::new(Phase::Idle as u8),
            target: AtomicUsize::new(0),
            budget: AtomicU64::new(u64::MAX),
            committed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            p50_micros: AtomicU64::new(0),
            p99_micros: AtomicU64::new(0),
        }
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Idle,
            1 => Phase::Warm,
            2 => Phase::Measure,
            _ => Phase::Stop,
        }
    }
}

impl FleetResult {
    fn with(mut self, other: Self) -> Self {
        self.fsps.extend(other.fsps);
        self.latencies.add(&other.latencies);
        for (failure, (count, example)) in other.failures {
            self.failures.entry(failure).or_insert((0, example)).0 += count;
        }
        self.cpu += other.cpu;
        self
    }
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self { whole: histogram(), lookup: histogram(), quote: histogram(), transfer: histogram() }
    }

    fn record(&mut self, outcome: &Outcome) {
        record(&mut self.whole, outcome.whole);
        for (leg, time) in [
            (&mut self.lookup, outcome.lookup),
            (&mut self.quote, outcome.quote),
            (&mut self.transfer, outcome.transfer_time),
        ] {
            if let Some(time) = time {
                record(leg, time);
            }
        }
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.whole, &other.whole),
            (&mut self.lookup, &other.lookup),
            (&mut self.quote, &other.quote),
            (&mut self.transfer, &other.transfer),
        ] {
            mine.add(theirs).expect("all histograms have the same bounds");
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MICROS_MAX, 3).expect("the bounds are in order")
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(time.as_micros() as u64);
}

/// The body of a fleet's thread.
fn run(
    plan: Vec<SimulatorOptions>,
    load: Load,
    control: Arc<Control>,
    orders: mpsc::Receiver<Order>,
    tell: SyncSender<Result<Vec<Bound>, HarnessError>>,
) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime: std::io::Result<LocalRuntime> =
        builder.enable_all().build_local(LocalOptions::default());
    let broken = |fsp: &str, error: &dyn std::fmt::Display| HarnessError::Simulator {
        fsp: fsp.to_owned(),
        problem: error.to_string(),
    };
    // The receiver waits for exactly this message; when it is gone there is nobody to tell.
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return drop(tell.send(Err(broken("runtime", &error)))),
    };
    runtime.block_on(async move {
        let (mut simulators, mut behaviours) = (Vec::new(), Vec::new());
        for mut options in plan {
            let name = options.name.clone();
            behaviours.push(std::mem::take(&mut options.behaviour));
            match Simulator::bind(options) {
                Ok(simulator) => simulators.push(simulator),
                Err(error) => return drop(tell.send(Err(broken(&name, &error)))),
            }
        }
        let _ = tell.send(Ok(simulators.iter().map(bound).collect()));
        let driver = Driver::start(&simulators, load, control);
        obey(orders, &driver, &simulators, &behaviours).await;
        simulators.iter().for_each(Simulator::stop);
    });
}

fn bound(simulator: &Simulator) -> Bound {
    Bound {
        name: simulator.name().to_owned(),
        address: simulator.address(),
        subscribers: simulator.subscribers(),
        endpoints: simulator.endpoints(),
    }
}

async fn obey(
    mut orders: mpsc::Receiver<Order>,
    driver: &Rc<Driver>,
    simulators: &[Simulator],
    behaviours: &[Behaviour],
) {
    while let Some(order) = orders.recv().await {
        // Whoever asked may have given up; the answer is then of no use.
        match order {
            Order::Register(tell) => drop(tell.send(register(simulators).await)),
            Order::Behave(tell) => {
                for (simulator, behaviour) in simulators.iter().zip(behaviours) {
                    simulator.set_behaviour(*behaviour);
                }
                let _ = tell.send(());
            }
            Order::Collect(tell) => drop(tell.send(driver.collect(simulators))),
        }
    }
}

async fn register(simulators: &[Simulator]) -> Result<(), HarnessError> {
    for simulator in simulators {
        simulator
            .register_subscribers(REGISTRATIONS_AT_ONCE, REGISTRATION_PATIENCE)
            .await
            .map_err(|error| HarnessError::Simulator {
                fsp: simulator.name().to_owned(),
                problem: error.to_string(),
            })?;
    }
    Ok(())
}

struct Driver {
    load: Load,
    control: Arc<Control>,
    pairs: Vec<Pair>,
    next_pair: Cell<usize>,
    in_flight: Cell<usize>,
    budget: Cell<u64>,
    measured_from: Cell<Option<Instant>>,
    record: RefCell<Records>,
}

struct Pair {
    sides: [Simulator; 2],
    number: Cell<u64>,
    in_flight: Cell<usize>,
}

struct Records {
    latencies: Latencies,
    recent: Histogram<u64>,
    failures: BTreeMap<String, (u64, String)>,
}

impl Driver {
    fn start(simulators: &[Simulator], load: Load, control: Arc<Control>) -> Rc<Self> {
        let pairs = simulators.chunks_exact(2).map(|pair| Pair {
            sides: [pair[0].clone(), pair[1].clone()],
            number: Cell::new(0),
            in_flight: Cell::new(0),
        });
        let driver = Rc::new(Self {
            load,
            control,
            pairs: pairs.collect(),
            next_pair: Cell::new(0),
            in_flight: Cell::new(0),
            budget: Cell::new(u64::MAX),
            measured_from: Cell::new(None),
            record: RefCell::new(Records {
                latencies: Latencies::new(),
                recent: histogram(),
                failures: BTreeMap::new(),
            }),
        });
        for (index, simulator) in simulators.iter().enumerate() {
            let driver = Rc::downgrade(&driver);
            simulator.observe(move |outcome| {
                if let Some(driver) = driver.upgrade() {
                    driver.ended(index / 2, &outcome);
                }
            });
        }
        spawn_local(tick(Rc::clone(&driver)));
        if let Load::Open(rate) = load {
            spawn_local(open_loop(Rc::clone(&driver), Duration::from_secs_f64(1.0 / rate)));
        }
        driver
    }

    /// Whether another transaction may start now.
    fn may_start(&self) -> bool {
        let phase = self.control.phase();
        if phase == Phase::Measure && self.measured_from.get().is_none() {
            self.measured_from.set(Some(Instant::now()));
            self.budget.set(self.control.budget.load(Ordering::Relaxed));
        }
        matches!(phase, Phase::Warm | Phase::Measure) && self.budget.get() > 0
    }

    /// Closed loop: starts as many in a pair as are missing there. Each pair has its own share of
    /// the target, so that an FSP that hangs holds up its own pair only.
    fn fill(&self, index: usize) {
        let (target, pairs) = (self.control.target.load(Ordering::Relaxed), self.pairs.len());
        let share = (target + pairs - 1 - index) / pairs;
        while self.pairs[index].in_flight.get() < share && self.may_start() {
            if !self.start_one(index, Instant::now()) {
                break;
            }
        }
    }

    /// Starts the next transaction of a pair; its two sides take turns.
    fn start_one(&self, index: usize, intended: Instant) -> bool {
        let pair = &self.pairs[index];
        let number = pair.number.get();
        pair.number.set(number + 1);
        let (turn, side) = (number / 2, (number % 2) as usize);
        let (payer, payee) = (&pair.sides[side], &pair.sides[1 - side]);
        let payment = Payment {
            payer_msisdn: subscriber(payer, turn),
            payee_msisdn: subscriber(payee, turn.wrapping_mul(7)),
            amount: Amount::from_units(10_000 + i128::from(turn % 997) * 1_001),
            intended,
        };
        // In open loop the first one may have been due before the measured part began.
        if self.is_measured(intended) {
            self.budget.set(self.budget.get() - 1);
        }
        let started = payer.start(payment);
        match started {
            Ok(()) => {
                pair.in_flight.set(pair.in_flight.get() + 1);
                self.in_flight.set(self.in_flight.get() + 1);
            }
            Err(error) => self.failed(format!("start: {error}"), String::new(), intended),
        }
        self.control.in_flight.store(self.in_flight.get(), Ordering::Relaxed);
        started.is_ok()
    }

    /// Open loop: the pairs take turns.
    fn next_pair(&self) -> usize {
        let index = self.next_pair.get();
        self.next_pair.set((index + 1) % self.pairs.len());
        index
    }

    fn ended(&self, index: usize, outcome: &Outcome) {
        let pair_in_flight = &self.pairs[index].in_flight;
        pair_in_flight.set(pair_in_flight.get() - 1);
        self.in_flight.set(self.in_flight.get() - 1);
        self.control.in_flight.store(self.in_flight.get(), Ordering::Relaxed);
        let intended = outcome.payment.intended;
        match outcome.end {
            End::Committed => {
                self.control.committed.fetch_add(1, Ordering::Relaxed);
                let mut records = self.record.borrow_mut();
                record(&mut records.recent, outcome.whole);
                if self.is_measured(intended) {
                    records.latencies.record(outcome);
                    self.control.measured.fetch_add(1, Ordering::Relaxed);
                }
            }
            End::Failed(leg, cause) => {
                self.failed(describe(leg, cause), outcome.transfer.to_string(), intended);
            }
        }
        if self.load == Load::Closed {
            self.fill(index);
        }
    }

    fn failed(&self, failure: String, example: String, intended: Instant) {
        self.control.failed.fetch_add(1, Ordering::Relaxed);
        if self.is_measured(intended) {
            self.control.measured.fetch_add(1, Ordering::Relaxed);
        }
        self.record.borrow_mut().failures.entry(failure).or_insert((0, example)).0 += 1;
    }

    fn is_measured(&self, intended: Instant) -> bool {
        self.measured_from.get().is_some_and(|from| intended >= from)
    }

    /// Publishes the latencies of the last moments.
    fn publish(&self) {
        let recent = &mut self.record.borrow_mut().recent;
        if recent.is_empty() {
            return;
        }
        let micros = |quantile| recent.value_at_quantile(quantile);
        self.control.p50_micros.store(micros(0.5), Ordering::Relaxed);
        self.control.p99_micros.store(micros(0.99), Ordering::Relaxed);
        recent.reset();
    }

    fn collect(&self, simulators: &[Simulator]) -> FleetResult {
        let fsps = simulators.iter().map(|simulator| FspResult {
            name: simulator.name().to_owned(),
            position: simulator.position(),
            counts: simulator.counts(),
            links: simulator.link_counts(),
            exchanges: simulator.tally().exchanges().to_vec(),
        });
        let records = self.record.borrow();
        FleetResult {
            fsps: fsps.collect(),
            latencies: records.latencies.clone(),
            failures: records.failures.clone(),
            cpu: thread_cpu(),
        }
    }
}

fn subscriber(simulator: &Simulator, number: u64) -> u64 {
    let subscribers = simulator.subscribers();
    subscribers.start + number % (subscribers.end - subscribers.start)
}

fn describe(leg: Leg, cause: Cause) -> String {
    match cause {
        Cause::Refused(status) => format!("{leg}: refused with HTTP {status}"),
        Cause::Unsent => format!("{leg}: the hub does not answer"),
        Cause::Error(code) => format!("{leg}: error callback {code}"),
        Cause::Aborted => format!("{leg}: aborted"),
        Cause::TimedOut => format!("{leg}: hung until its time was over"),
        Cause::Malformed => format!("{leg}: a callback cannot be read"),
        Cause::WrongFulfilment => format!("{leg}: committed with a wrong fulfilment"),
    }
}

async fn tick(driver: Rc<Driver>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut count = 0_u32;
    loop {
        ticks.tick().await;
        if driver.load == Load::Closed {
            (0..driver.pairs.len()).for_each(|index| driver.fill(index));
        }
        count = count.wrapping_add(1);
        if count.is_multiple_of(TICKS_PER_GLANCE) {
            driver.publish();
        }
    }
}

async fn open_loop(driver: Rc<Driver>, interval: Duration) {
    let Ok(pace) = Pace::new() else {
        return driver.failed("start: no timer".to_owned(), String::new(), Instant::now());
    };
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        if !driver.may_start() {
            tokio::time::sleep(TICK).await;
            due = Instant::now();
            continue;
        }
        while due <= now && driver.may_start() {
            driver.start_one(driver.next_pair(), due);
            due += interval;
        }
        if pace.wait(due.saturating_duration_since(now)).await.is_err() {
            return driver.failed("start: the timer broke".to_owned(), String::new(), now);
        }
    }
}
