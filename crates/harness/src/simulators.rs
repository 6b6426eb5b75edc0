//! Threads of simulated FSPs, each with its driver, and the handle that the main thread uses.
//!
//! Groups of FSPs (see [`crate::pairs`]) are distributed over the threads. The main thread changes
//! phase and target through atomics and reads progress the same way. There is no lock per unit.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dfsp::connections::{ConnectionCounts, FirstErrors};
use dfsp::observations::Exchange;
use dfsp::{
    ACKNOWLEDGED_MAX, Acknowledged, Behaviour, Bodies, Contradictions, Counts, End, Payment,
    PaymentFlow, Simulator, SimulatorOptions, Subscribers,
};
use ledger::{Amount, FspName, TransferId};
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::error::HarnessError;
use crate::eta::Progress;
use crate::histograms::{Bounds, Latencies, Second, Steady, add_seconds};
use crate::interrupt::Interrupt;
use crate::load::{Control, Driver, DriverPlan, Load, Phase};
use crate::options::FspOptions;
use crate::pairs::{Pairs, RouteGroup, groups};
use crate::proc_stats::thread_cpu;
use crate::scenario::Scenario;

const REGISTRATIONS_AT_ONCE: usize = 32;
/// Interval at which a wait for registrations checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Limits of senders to several nodes: the timeout of a response, the timeout of a look-up's or
/// quote's callback, and the number of resends.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const ASK_AGAIN: Duration = Duration::from_secs(3);
const RESENDS_MAX: u8 = 100;
/// Amount of transfers that are sent by [`Simulators::pay`].
const AMOUNT: Amount = Amount::from_units(123_400);
const SUBSCRIBER_NUMBERS: u64 = 25_500_000_000;
const SUBSCRIBERS_PER_FSP: u64 = 100_000;

/// An FSP that is listening.
#[derive(Clone, Debug)]
pub struct BoundFsp {
    pub name: String,
    pub address: SocketAddr,
    pub subscribers: std::ops::Range<u64>,
    pub endpoints: Vec<(String, String)>,
}

/// Progress of all simulators together.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunCounters {
    /// Units that succeeded.
    pub good: u64,
    pub failed: u64,
    /// The failed units whose callback did not arrive.
    pub hung: u64,
    /// Units of the measured part that were not started, because too many were in flight.
    pub dropped: u64,
    /// The dropped units that found no transfer in stock.
    pub unstocked: u64,
    pub in_flight: usize,
    /// Maximum number of units in flight so far.
    pub backlog_max: usize,
    /// Transfers that payees hold.
    pub stock: usize,
    /// Transfers whose payers have received no final notice.
    pub open: u64,
    /// Requests that the FSPs received.
    pub requests: u64,
    /// Ended units among those that started in the measured part.
    pub measured: u64,
    pub p50: Duration,
    pub p99: Duration,
}

/// The observations of one FSP.
#[derive(Clone, Debug)]
pub struct FspResult {
    pub name: String,
    pub position: Amount,
    pub counts: Counts,
    pub wrong: Contradictions,
    pub connections: ConnectionCounts,
    pub first_errors: FirstErrors,
    pub bodies: Bodies,
    pub exchanges: Vec<(FspName, Exchange)>,
}

/// The results of all simulators.
pub struct SimulatorResult {
    pub fsps: Vec<FspResult>,
    pub latencies: Latencies,
    pub steady: Steady,
    pub seconds: Vec<Second>,
    /// Units by payer and payee, warm-up included.
    pub routes: Vec<(String, String, u64)>,
    /// Number of failures by leg and cause, with the id of one of them.
    pub failures: BTreeMap<String, (u64, String)>,
    /// CPU time of the simulators' threads.
    pub cpu: Duration,
    /// End times of successful units of the measured part, with their group; if kept.
    pub ends: Vec<(Instant, u16)>,
    /// Messages that the hub answered 2xx; if kept.
    pub acknowledged: Vec<Acknowledged>,
    /// Whether a simulated FSP had more of them than it keeps.
    pub is_record_full: bool,
}

/// All simulators of a run.
pub struct Simulators {
    threads: Vec<SimulatorThread>,
}

struct SimulatorThread {
    bound: Vec<BoundFsp>,
    control: Arc<Control>,
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    /// Gives up when no registration is confirmed for so long.
    Register(Duration, SyncSender<Result<(), HarnessError>>),
    Behave(SyncSender<()>),
    Pay(usize, SyncSender<Result<Vec<TransferId>, HarnessError>>),
    Collect(SyncSender<SimulatorResult>),
}

/// The plan for all simulators.
#[derive(Clone, Copy, Debug)]
pub struct SimulatorPlan {
    pub scenario: Scenario,
    pub pairs: Pairs,
    pub load: Load,
    pub threads: usize,
    /// Whether end times are kept.
    pub keeps_ends: bool,
}

/// The part of one thread.
struct Share {
    simulators: Vec<SimulatorOptions>,
    driver: DriverPlan,
}

/// The options of every simulated FSP, in order.
///
/// The FSPs of a hub with several nodes are distributed over them. They switch to another node
/// soon, and retry for longer, as senders to such a hub should.
pub fn plan(options: &FspOptions, hub: &[SocketAddr]) -> Vec<SimulatorOptions> {
    let numbers = |index: usize| {
        let start = SUBSCRIBER_NUMBERS + (options.first + index as u64) * SUBSCRIBERS_PER_FSP;
        start..start + options.subscribers
    };
    let name = |index| FspName::new(&options.name(index)).expect("ours are legal");
    let known = |index| Subscribers { numbers: numbers(index), fsp: name(index) };
    let known: Arc<[_]> = (0..options.fsps).map(known).collect();
    let one = |index: usize| {
        let name = options.name(index);
        let mut addresses = hub.to_vec();
        addresses.rotate_left(index % hub.len());
        let others = addresses.split_off(1);
        let mut simulator = SimulatorOptions::new(&name, options.currency, addresses[0]);
        if !others.is_empty() {
            simulator.other_nodes = others;
            simulator.keeps_acknowledged = true;
            simulator.ask_again = Some(ASK_AGAIN);
            simulator.connections.answer_timeout = ANSWER_WITHIN;
            simulator.connections.resends_max = RESENDS_MAX;
        }
        simulator.version = options.fspiop_version;
        simulator.style = options.style;
        simulator.subscribers = numbers(index);
        simulator.known = Arc::clone(&known);
        simulator.patience = options.patience();
        // The hub expires a transfer soon after its payer has given it up.
        simulator.expiration_ahead = options.patience();
        simulator.connections.connections_max = options.connections;
        let changed = options.behaviour.iter().rfind(|(changed, _)| *changed == name);
        simulator.behaviour = changed.map_or(simulator.behaviour, |&(_, behaviour)| behaviour);
        simulator
    };
    (0..options.fsps).map(one).collect()
}

/// The address of the FSP at `index`: `port` and the following ones, or a free port if it is 0.
pub fn place(address: IpAddr, port: u16, index: usize) -> SocketAddr {
    let index = u16::try_from(index).unwrap_or(u16::MAX);
    SocketAddr::new(address, if port == 0 { 0 } else { port.saturating_add(index) })
}

impl Simulators {
    /// Binds all FSPs, with the groups distributed over the threads.
    pub fn start(
        simulators: &[SimulatorOptions],
        plan: SimulatorPlan,
    ) -> Result<Self, HarnessError> {
        let threads = deal(simulators, plan).into_iter().map(SimulatorThread::start);
        Ok(Self { threads: threads.collect::<Result<_, _>>()? })
    }

    /// All FSPs and their addresses.
    pub fn bound(&self) -> Vec<BoundFsp> {
        self.threads.iter().flat_map(|thread| thread.bound.clone()).collect()
    }

    /// Registers all subscribers at the hub. Fails if it confirms none within `patience`.
    pub fn register(&self, patience: Duration, interrupt: &Interrupt) -> Result<(), HarnessError> {
        let order =
            |thread: &SimulatorThread| thread.order(|sender| Order::Register(patience, sender));
        let answers: Vec<_> = self.threads.iter().map(order).collect();
        let all = self.threads.iter().flat_map(|thread| &thread.bound);
        let all = all.map(|fsp| fsp.subscribers.end - fsp.subscribers.start).sum();
        let mut progress = Progress::new("subscribers registered", Some(all));
        let result = answers.into_iter().try_for_each(|answer| {
            answered(&answer?, interrupt, || progress.show(self.registered()))
        });
        progress.end();
        result
    }

    /// Sends `count` transfers at once from the first FSP to the second, and waits for the commits.
    pub fn pay(
        &self,
        count: usize,
        interrupt: &Interrupt,
    ) -> Result<Vec<TransferId>, HarnessError> {
        let thread = self.threads.first().ok_or(HarnessError::SimulatorsEnded)?;
        answered(&thread.order(|sender| Order::Pay(count, sender))?, interrupt, || ())
    }

    fn registered(&self) -> u64 {
        let of = |thread: &SimulatorThread| thread.control.registered.load(Ordering::Relaxed);
        self.threads.iter().map(of).sum()
    }

    /// Activates the planned behaviour of every FSP. Until then all are normal, for onboarding.
    pub fn behave(&self) -> Result<(), HarnessError> {
        let answers: Vec<_> =
            self.threads.iter().map(|thread| thread.order(Order::Behave)).collect();
        answers
            .into_iter()
            .try_for_each(|answer| answer?.recv().map_err(|_| HarnessError::SimulatorsEnded))
    }

    /// Changes the phase of all drivers, which notice it within 5 ms.
    pub fn set_phase(&self, phase: Phase) {
        for thread in &self.threads {
            thread.control.set_phase(phase);
        }
    }

    /// Sets the total number of transactions in flight.
    pub fn set_target(&self, total: usize) {
        let set = |control: &Control, share| control.target.store(share, Ordering::Relaxed);
        self.set_shares(total, set);
    }

    /// Sets the total number of transfers that payees hold before the measured part.
    pub fn set_stock(&self, total: usize) {
        let set = |control: &Control, share| control.stock_target.store(share, Ordering::Relaxed);
        self.set_shares(total, set);
    }

    /// Sets the number of units of the measured part, before the phase is entered.
    pub fn set_budget(&self, total: u64) {
        let set = |control: &Control, share| control.budget.store(share as u64, Ordering::Relaxed);
        self.set_shares(usize::try_from(total).unwrap_or(usize::MAX), set);
    }

    /// Gives each thread its share. The first ones get the remainder.
    fn set_shares(&self, total: usize, set: impl Fn(&Control, usize)) {
        let count = self.threads.len();
        for (index, thread) in self.threads.iter().enumerate() {
            set(&thread.control, (total + count - 1 - index) / count);
        }
    }

    /// Sets the bounds of the steady part, before the phase is entered.
    pub fn set_steady(&self, bounds: Bounds) {
        let count = self.threads.len() as u64;
        let micros = |time: Duration| time.as_micros() as u64;
        let [first, last] = match bounds {
            Bounds::None => [0, 0],
            Bounds::Time(first, last) => [micros(first), micros(last)],
            Bounds::Count(first, last) => [first / count, last / count],
        };
        for thread in &self.threads {
            thread.control.steady[0].store(first, Ordering::Relaxed);
            thread.control.steady[1].store(last, Ordering::Relaxed);
        }
    }

    /// Sets the length of the measured part, before the phase is entered.
    pub fn set_length(&self, length: Duration) {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        for thread in &self.threads {
            thread.control.length.store(micros, Ordering::Relaxed);
        }
    }

    /// Whether no more units start, according to the values of the next [`Simulators::counters`].
    pub fn have_stopped(&self) -> bool {
        self.threads.iter().all(|thread| thread.control.has_stopped())
    }

    /// The progress of the run.
    pub fn counters(&self) -> RunCounters {
        let mut all = RunCounters::default();
        for control in self.threads.iter().map(|thread| &thread.control) {
            all.good += control.good.load(Ordering::Relaxed);
            all.dropped += control.dropped.load(Ordering::Relaxed);
            all.unstocked += control.unstocked.load(Ordering::Relaxed);
            all.backlog_max += control.backlog_max.load(Ordering::Relaxed);
            all.stock += control.stock.load(Ordering::Relaxed);
            all.open += control.open.load(Ordering::Relaxed);
            all.requests += control.requests.load(Ordering::Relaxed);
            all.failed += control.failed.load(Ordering::Relaxed);
            all.hung += control.hung.load(Ordering::Relaxed);
            all.in_flight += control.in_flight.load(Ordering::Relaxed);
            all.measured += control.measured.load(Ordering::Relaxed);
            let micros = |value: &AtomicU64| Duration::from_micros(value.load(Ordering::Relaxed));
            all.p50 = all.p50.max(micros(&control.p50_micros));
            all.p99 = all.p99.max(micros(&control.p99_micros));
        }
        all
    }

    /// The observations and measurements so far.
    pub fn collect(&self) -> Result<SimulatorResult, HarnessError> {
        let mut all: Option<SimulatorResult> = None;
        for thread in &self.threads {
            let one =
                thread.order(Order::Collect)?.recv().map_err(|_| HarnessError::SimulatorsEnded)?;
            all = Some(match all {
                Some(all) => all.with(one),
                None => one,
            });
        }
        let mut all = all.ok_or(HarnessError::SimulatorsEnded)?;
        all.fsps.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}

/// Waits for the response to an order, unless there is an interrupt.
fn answered<T>(
    answer: &Receiver<Result<T, HarnessError>>,
    interrupt: &Interrupt,
    mut meanwhile: impl FnMut(),
) -> Result<T, HarnessError> {
    loop {
        match answer.recv_timeout(POLL_INTERVAL) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(HarnessError::SimulatorsEnded),
            Err(RecvTimeoutError::Timeout) => interrupt.check()?,
        }
        meanwhile();
    }
}

impl SimulatorThread {
    fn start(share: Share) -> Result<Self, HarnessError> {
        let control = Arc::new(Control::new());
        let (orders, received) = mpsc::channel(4);
        let (sender, receiver) = sync_channel(1);
        let shared = Arc::clone(&control);
        let thread = std::thread::Builder::new()
            .name("fsps".to_owned())
            .spawn(move || run(share, shared, received, sender))
            .map_err(|error| HarnessError::Options(format!("thread not started: {error}")))?;
        let bound = receiver.recv().map_err(|_| HarnessError::SimulatorsEnded)??;
        Ok(Self { bound, control, orders: Some(orders), thread: Some(thread) })
    }

    fn order<T>(
        &self,
        order: impl FnOnce(SyncSender<T>) -> Order,
    ) -> Result<Receiver<T>, HarnessError> {
        let (sender, receiver) = sync_channel(1);
        let orders = self.orders.as_ref().ok_or(HarnessError::SimulatorsEnded)?;
        orders.blocking_send(order(sender)).map_err(|_| HarnessError::SimulatorsEnded)?;
        Ok(receiver)
    }
}

impl Drop for SimulatorThread {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has already been printed and shows as missing responses.
            let _ = thread.join();
        }
    }
}

impl SimulatorResult {
    fn with(mut self, other: Self) -> Self {
        self.fsps.extend(other.fsps);
        self.latencies.add(other.latencies);
        self.steady.add(&other.steady);
        add_seconds(&mut self.seconds, &other.seconds);
        self.routes.extend(other.routes);
        for (failure, (count, example)) in other.failures {
            self.failures.entry(failure).or_insert((0, example)).0 += count;
        }
        self.cpu += other.cpu;
        let groups = self.ends.iter().map(|end| end.1 + 1).max().unwrap_or(0);
        self.ends.extend(other.ends.into_iter().map(|(at, group)| (at, groups + group)));
        self.acknowledged.extend(other.acknowledged);
        self.is_record_full |= other.is_record_full;
        self
    }
}

/// A runtime for tasks of one thread.
pub fn runtime() -> Result<LocalRuntime, HarnessError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let built = builder.enable_all().build_local(LocalOptions::default());
    built.map_err(HarnessError::file("the runtime"))
}

/// The body of a simulator thread.
fn run(
    share: Share,
    control: Arc<Control>,
    orders: mpsc::Receiver<Order>,
    sender: SyncSender<Result<Vec<BoundFsp>, HarnessError>>,
) {
    let broken = |fsp: &str, error: &dyn std::fmt::Display| HarnessError::Simulator {
        fsp: fsp.to_owned(),
        problem: error.to_string(),
    };
    // The receiver waits for exactly this message. If it is gone, the result is not needed.
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return drop(sender.send(Err(error))),
    };
    runtime.block_on(async move {
        let (mut simulators, mut behaviours) = (Vec::new(), Vec::new());
        for mut options in share.simulators {
            let name = options.name.clone();
            behaviours.push(std::mem::take(&mut options.behaviour));
            match Simulator::bind(options) {
                Ok(simulator) => simulators.push(simulator),
                Err(error) => return drop(sender.send(Err(broken(&name, &error)))),
            }
        }
        let _ = sender.send(Ok(simulators.iter().map(bound).collect()));
        let driver = Driver::start(&simulators, share.driver, control);
        obey(orders, &driver, &simulators, &behaviours).await;
        simulators.iter().for_each(Simulator::stop);
    });
}

fn bound(simulator: &Simulator) -> BoundFsp {
    BoundFsp {
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
        // The requester may have given up. The response is then discarded.
        match order {
            Order::Register(patience, sender) => {
                let done = tokio::select! {
                    done = register(simulators, patience) => done,
                    // No other order is given meanwhile, so the channel was closed.
                    _ = orders.recv() => return,
                };
                let _ = sender.send(done);
            }
            Order::Behave(sender) => {
                for (simulator, behaviour) in simulators.iter().zip(behaviours) {
                    simulator.set_behaviour(*behaviour);
                }
                let _ = sender.send(());
            }
            Order::Pay(count, sender) => drop(sender.send(pay(simulators, count).await)),
            Order::Collect(sender) => drop(sender.send(collect(driver, simulators))),
        }
    }
}

async fn register(simulators: &[Simulator], patience: Duration) -> Result<(), HarnessError> {
    for simulator in simulators {
        simulator.register_subscribers(REGISTRATIONS_AT_ONCE, patience).await.map_err(|error| {
            HarnessError::Simulator { fsp: simulator.name().to_owned(), problem: error.to_string() }
        })?;
    }
    Ok(())
}

/// The ids of `count` transfers from the first simulator to the second, when all are committed.
async fn pay(simulators: &[Simulator], count: usize) -> Result<Vec<TransferId>, HarnessError> {
    let [payer, payee, ..] = simulators else { return Err(HarnessError::SimulatorsEnded) };
    let to = FspName::new(payee.name()).expect("simulators have legal names");
    let start = |_| {
        let payment = Payment {
            flow: PaymentFlow::Transfer(to),
            payer_msisdn: payer.subscribers().start,
            payee_msisdn: payee.subscribers().start,
            amount: AMOUNT,
            intended: Instant::now(),
        };
        let payer = payer.clone();
        spawn_local(async move { payer.run_transaction(payment).await })
    };
    let tasks: Vec<_> = (0..count).map(start).collect();
    let mut committed = Vec::with_capacity(count);
    for task in tasks {
        let unstarted = |error| HarnessError::Hub(format!("did not accept a transfer: {error}"));
        let outcome = task.await.map_err(|_| HarnessError::SimulatorsEnded)?.map_err(unstarted)?;
        match outcome.end {
            End::Committed => committed.push(outcome.transfer),
            other => {
                let problem = format!("transfer {}: {other:?}", outcome.transfer);
                return Err(HarnessError::Hub(problem));
            }
        }
    }
    Ok(committed)
}

fn collect(driver: &Driver, simulators: &[Simulator]) -> SimulatorResult {
    let fsps = simulators.iter().map(|simulator| FspResult {
        name: simulator.name().to_owned(),
        position: simulator.position(),
        counts: simulator.counts(),
        wrong: simulator.observations().wrong().clone(),
        connections: simulator.connection_counts(),
        first_errors: simulator.first_errors(),
        bodies: simulator.bodies(),
        exchanges: simulator.observations().exchanges().to_vec(),
    });
    let records = driver.records.borrow();
    let acknowledged: Vec<_> = simulators.iter().map(Simulator::take_acknowledged).collect();
    SimulatorResult {
        fsps: fsps.collect(),
        latencies: records.latencies.clone(),
        steady: records.steady.clone(),
        seconds: records.seconds(),
        routes: driver.routes_taken(),
        failures: records.failures.clone(),
        cpu: thread_cpu(),
        ends: records.ends.clone().unwrap_or_default(),
        is_record_full: acknowledged.iter().any(|of_fsp| ACKNOWLEDGED_MAX <= of_fsp.len()),
        acknowledged: acknowledged.into_iter().flatten().collect(),
    }
}

/// Distributes the groups over the threads. Within a share, indexes refer to its own FSPs.
fn deal(simulators: &[SimulatorOptions], plan: SimulatorPlan) -> Vec<Share> {
    let load = match plan.load {
        Load::Open { rate, backlog } => {
            Load::Open { rate: rate / plan.threads as f64, backlog: backlog.div_ceil(plan.threads) }
        }
        other => other,
    };
    let empty = |_| Share {
        simulators: Vec::new(),
        driver: DriverPlan {
            scenario: plan.scenario,
            load,
            groups: Vec::new(),
            keeps_ends: plan.keeps_ends,
        },
    };
    let mut shares: Vec<Share> = (0..plan.threads).map(empty).collect();
    for (index, group) in groups(plan.pairs, simulators.len()).into_iter().enumerate() {
        let share = &mut shares[index % plan.threads];
        let first = share.simulators.len();
        let place = |old: usize| {
            let within = group.members.iter().position(|&member| member == old);
            first + within.expect("routes are among members")
        };
        let routes = group.routes.iter().map(|&(payer, payee)| (place(payer), place(payee)));
        let routes = routes.collect();
        let members = (first..first + group.members.len()).collect();
        share.simulators.extend(group.members.iter().map(|&member| simulators[member].clone()));
        share.driver.groups.push(RouteGroup { members, routes });
    }
    shares
}
