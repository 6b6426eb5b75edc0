//! Starts the transactions of one thread and records how they end.
//!
//! Closed loop: the end of a unit starts the next one in the same group. Open loop: a kernel timer
//! starts units independent of responses; if the backlog is full, a unit is dropped and counted,
//! never delayed. The main thread changes phase and target through the atomics of [`Control`] and
//! reads progress the same way. There is no lock per unit. A tick every 5 ms starts missing units.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dfsp::{Cause, End, Leg, Outcome, Payment, Simulator};
use ledger::{Amount, FspName, TransferId};
use tokio::task::spawn_local;

use crate::histograms::{Bounds, Fate, Histograms, record};
use crate::pairs::{Route, RouteGroup};
use crate::precise_timer::PreciseTimer;
use crate::scenario::Scenario;

const TICK: Duration = Duration::from_millis(5);
const TICKS_PER_PUBLISH: u32 = 50;
const TICKS_PER_COUNT: u32 = 4;
/// Number of different amounts. It is small, so that terms are reused.
const AMOUNTS: u64 = 61;
/// Additional amount, in units, of payments in the reverse direction of a pair. It is a prime that
/// divides [`AMOUNT_STEP`] and not [`AMOUNT_FIRST`], so the net amount of a pair is never zero, and
/// a hub that posts nothing is detected.
const BACK_MORE: i128 = 97;
const AMOUNT_FIRST: i128 = 10_000;
const AMOUNT_STEP: i128 = 169 * BACK_MORE;
/// Maximum number of transfers that are being reserved for the stock at once.
const STOCKING: usize = 64;
/// Held transfers that a payee answers at once at the end of a run.
const RELEASED_AT_ONCE: usize = 32;

/// The rule by which units start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Nothing: the FSPs only answer.
    None,
    /// A fixed number in flight, set by [`crate::simulators::Simulators::set_target`].
    Closed,
    /// A fixed rate per second.
    Open {
        /// Units per second.
        rate: f64,
        /// Units in flight above which new ones are dropped.
        backlog: usize,
    },
}

/// The current phase of the drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Start nothing yet.
    Idle = 0,
    /// Reserve transfers for the stock.
    Stock = 1,
    /// Run, without recording latencies.
    Warm = 2,
    /// Run and record.
    Measure = 3,
    /// Start no more units, and answer the transfers that payees still hold.
    Stop = 4,
}

/// State that the main thread and a driver share.
#[derive(Default)]
pub struct Control {
    phase: AtomicU8,
    /// Set when the driver has started its last unit and has published all of them.
    stopped: AtomicBool,
    pub target: AtomicUsize,
    pub stock_target: AtomicUsize,
    pub budget: AtomicU64,
    /// Bounds of the steady part: microseconds, or unit numbers when there is a budget.
    pub steady: [AtomicU64; 2],
    pub good: AtomicU64,
    pub failed: AtomicU64,
    pub hung: AtomicU64,
    pub dropped: AtomicU64,
    /// The dropped units that found no transfer in stock.
    pub unstocked: AtomicU64,
    /// Length of the measured part in microseconds; 0 when it has a budget.
    pub length: AtomicU64,
    pub measured: AtomicU64,
    pub in_flight: AtomicUsize,
    pub backlog_max: AtomicUsize,
    pub stock: AtomicUsize,
    pub open: AtomicU64,
    pub registered: AtomicU64,
    pub requests: AtomicU64,
    pub p50_micros: AtomicU64,
    pub p99_micros: AtomicU64,
}

/// The work of a driver and its FSPs.
pub struct DriverPlan {
    pub scenario: Scenario,
    pub load: Load,
    pub groups: Vec<RouteGroup>,
    /// Whether the time of each end is kept.
    pub keeps_ends: bool,
}

/// Drives the FSPs of one thread.
pub struct Driver {
    scenario: Scenario,
    load: Load,
    control: Arc<Control>,
    fsps: Vec<Fsp>,
    places: HashMap<FspName, usize>,
    groups: Vec<GroupLoad>,
    next_group: Cell<usize>,
    in_flight: Cell<usize>,
    backlog_max: Cell<usize>,
    budget: Cell<u64>,
    measured_from: Cell<Option<Instant>>,
    pub records: RefCell<Histograms>,
}

struct Fsp {
    simulator: Simulator,
    name: FspName,
    group: usize,
}

struct GroupLoad {
    routes: Vec<Route>,
    taken: RefCell<Vec<u64>>,
    number: Cell<u64>,
    in_flight: Cell<usize>,
    stock: RefCell<VecDeque<(Route, TransferId)>>,
}

impl Control {
    pub fn new() -> Self {
        Self { budget: AtomicU64::new(u64::MAX), ..Self::default() }
    }

    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Whether no more units start, and all started ones are in the published counters.
    pub fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Idle,
            1 => Phase::Stock,
            2 => Phase::Warm,
            3 => Phase::Measure,
            _ => Phase::Stop,
        }
    }

    /// The bounds of the steady part; both zero if there is no steady part.
    fn bounds(&self) -> Bounds {
        let [first, last] = [0, 1].map(|index| self.steady[index].load(Ordering::Relaxed));
        match (last, self.budget.load(Ordering::Relaxed)) {
            (0, _) => Bounds::None,
            (_, u64::MAX) => {
                Bounds::Time(Duration::from_micros(first), Duration::from_micros(last))
            }
            _ => Bounds::Count(first, last),
        }
    }
}

impl Driver {
    /// Starts to drive `simulators`, whose indexes are used in the plan.
    pub fn start(simulators: &[Simulator], plan: DriverPlan, control: Arc<Control>) -> Rc<Self> {
        let fsps: Vec<Fsp> = simulators
            .iter()
            .enumerate()
            .map(|(place, simulator)| Fsp {
                simulator: simulator.clone(),
                name: FspName::new(simulator.name()).expect("simulators have legal names"),
                group: plan
                    .groups
                    .iter()
                    .position(|group| group.members.contains(&place))
                    .unwrap_or(0),
            })
            .collect();
        let driver = Rc::new(Self {
            scenario: plan.scenario,
            load: plan.load,
            control,
            places: fsps.iter().enumerate().map(|(place, fsp)| (fsp.name, place)).collect(),
            fsps,
            groups: plan.groups.into_iter().map(GroupLoad::new).collect(),
            next_group: Cell::new(0),
            in_flight: Cell::new(0),
            backlog_max: Cell::new(0),
            budget: Cell::new(u64::MAX),
            measured_from: Cell::new(None),
            records: RefCell::new(Histograms::new(plan.keeps_ends)),
        });
        driver.listen();
        spawn_local(tick(Rc::clone(&driver)));
        if let Load::Open { rate, .. } = driver.load {
            spawn_local(open_loop(Rc::clone(&driver), Duration::from_secs_f64(1.0 / rate)));
        }
        driver
    }

    /// Number of units by route: payer, payee, units.
    pub fn routes_taken(&self) -> Vec<(String, String, u64)> {
        let mut taken: HashMap<Route, u64> = HashMap::new();
        for group in &self.groups {
            for (route, count) in group.routes.iter().zip(group.taken.borrow().iter()) {
                *taken.entry(*route).or_default() += count;
            }
        }
        let name = |place: usize| self.fsps[place].simulator.name().to_owned();
        taken.into_iter().map(|((from, to), count)| (name(from), name(to), count)).collect()
    }

    fn listen(self: &Rc<Self>) {
        for (place, fsp) in self.fsps.iter().enumerate() {
            let (driver, group) = (Rc::downgrade(self), fsp.group);
            fsp.simulator.observe(move |outcome| {
                if let Some(driver) = driver.upgrade() {
                    driver.ended(group, &outcome);
                }
            });
            let driver = Rc::downgrade(self);
            fsp.simulator.observe_receipts(move |transfer, payer, at| {
                if let Some(driver) = driver.upgrade() {
                    driver.received((transfer, at), payer, place);
                }
            });
        }
    }

    /// Whether another unit may start now.
    fn may_start(&self) -> bool {
        let phase = self.control.phase();
        if phase == Phase::Measure && self.measured_from.get().is_none() {
            let now = Instant::now();
            self.measured_from.set(Some(now));
            self.backlog_max.set(self.in_flight.get());
            self.budget.set(self.control.budget.load(Ordering::Relaxed));
            self.records.borrow_mut().begin(now, self.control.bounds());
        }
        matches!(phase, Phase::Warm | Phase::Measure) && self.budget.get() > 0
    }

    /// Closed loop: starts the missing units of a group. Each group has its own share of the
    /// target, so that a stalled FSP affects only its own group.
    fn fill(&self, index: usize) {
        let share = self.share(self.control.target.load(Ordering::Relaxed), index);
        while self.groups[index].in_flight.get() < share && self.may_start() {
            if !self.start_one(index, Instant::now()) {
                break;
            }
        }
    }

    /// Reserves transfers until the group's share of the stock is reserved or in flight.
    fn reserve_stock(&self, index: usize) {
        let stock = self.share(self.control.stock_target.load(Ordering::Relaxed), index);
        let at_once = self.share(STOCKING, index).max(1);
        let group = &self.groups[index];
        let wanted = |group: &GroupLoad| group.in_flight.get() + group.stock.borrow().len() < stock;
        while group.in_flight.get() < at_once && wanted(group) {
            if !self.pay(index, Instant::now()) {
                break;
            }
        }
    }

    fn share(&self, total: usize, index: usize) -> usize {
        let groups = self.groups.len();
        (total + groups - 1 - index) / groups
    }

    /// Starts the next unit of a group, which should have started at `intended`.
    fn start_one(&self, index: usize, intended: Instant) -> bool {
        // In an open loop, the first unit may have been due before the measured part began.
        let measured = self.is_measured(intended);
        let is_open = matches!(self.load, Load::Open { .. });
        if is_open && !measured && self.scenario == Scenario::Fulfil {
            // The transfer belongs to a unit that counts.
            return false;
        }
        if let Load::Open { backlog, .. } = self.load
            && backlog <= self.in_flight.get()
        {
            self.drop_one(measured);
            return false;
        }
        let started = match self.scenario {
            Scenario::Fulfil => self.release(index, intended),
            _ => self.pay(index, intended),
        };
        if !started && is_open && self.scenario == Scenario::Fulfil {
            let due = measured && self.is_before_the_end(intended);
            self.control.unstocked.fetch_add(u64::from(due), Ordering::Relaxed);
            self.drop_one(due);
        } else if measured && (started || self.scenario != Scenario::Fulfil) {
            self.budget.set(self.budget.get().saturating_sub(1));
        }
        started
    }

    /// Whether `intended` lies before the end of the measured part, which is noticed with a short
    /// delay.
    fn is_before_the_end(&self, intended: Instant) -> bool {
        let length = Duration::from_micros(self.control.length.load(Ordering::Relaxed));
        let end = self.measured_from.get().map(|from| from + length);
        length.is_zero() || end.is_none_or(|end| intended < end)
    }

    fn drop_one(&self, measured: bool) {
        if measured {
            self.control.dropped.fetch_add(1, Ordering::Relaxed);
            self.control.measured.fetch_add(1, Ordering::Relaxed);
            self.budget.set(self.budget.get().saturating_sub(1));
            self.records.borrow_mut().bad(Fate::Dropped, Instant::now());
        }
    }

    /// Starts the next payment of a group.
    fn pay(&self, index: usize, intended: Instant) -> bool {
        let (route, turn) = self.groups[index].next_route();
        let (payer, payee) = (&self.fsps[route.0], &self.fsps[route.1]);
        let payment = Payment {
            flow: self.scenario.flow(payee.name),
            payer_msisdn: subscriber(&payer.simulator, turn),
            payee_msisdn: subscriber(&payee.simulator, turn.wrapping_mul(7)),
            amount: amount(route, turn),
            intended,
        };
        let started = payer.simulator.start(payment);
        match started {
            Ok(()) => self.count(index, 1),
            Err(error) => self.failed(format!("start: {error}"), String::new(), intended),
        }
        started.is_ok()
    }

    /// Has the payee answer the oldest transfer in the group's stock.
    fn release(&self, index: usize, intended: Instant) -> bool {
        let oldest = self.groups[index].stock.borrow_mut().pop_front();
        let Some((route, transfer)) = oldest else { return false };
        if self.fsps[route.0].simulator.resume(transfer, intended) {
            self.count(index, 1);
        }
        self.fsps[route.1].simulator.fulfil(transfer)
    }

    /// A payee has received a bulk, or a transfer, which it holds.
    fn received(&self, (transfer, at): (TransferId, Instant), payer: FspName, payee: usize) {
        let Some(&payer) = self.places.get(&payer) else { return };
        if let Scenario::Bulk(_) = self.scenario {
            return self.fsps[payer].simulator.received_by_payee(transfer, at);
        }
        let index = self.fsps[payer].group;
        self.groups[index].stock.borrow_mut().push_back(((payer, payee), transfer));
        if self.scenario == Scenario::Fulfil {
            self.count(index, -1);
        }
        self.fsps[payer].simulator.received_by_payee(transfer, at);
        if self.scenario == Scenario::Fulfil && self.control.phase() == Phase::Stock {
            self.reserve_stock(index);
        }
    }

    /// Open loop: selects the groups in turn, and skips groups with an empty stock.
    fn next_group(&self) -> usize {
        let (first, groups) = (self.next_group.get(), self.groups.len());
        let has_one = |index: &usize| {
            self.scenario != Scenario::Fulfil || !self.groups[*index].stock.borrow().is_empty()
        };
        let index = (first..first + groups).map(|at| at % groups).find(has_one).unwrap_or(first);
        self.next_group.set((index + 1) % groups);
        index
    }

    fn ended(&self, index: usize, outcome: &Outcome) {
        self.count(index, -1);
        let intended = outcome.payment.intended;
        match outcome.end {
            End::Committed | End::Reached => {
                self.control.good.fetch_add(1, Ordering::Relaxed);
                let mut records = self.records.borrow_mut();
                record(&mut records.recent, outcome.whole);
                if self.is_measured(intended) {
                    records.good(outcome, index, Instant::now());
                    self.control.measured.fetch_add(1, Ordering::Relaxed);
                }
            }
            End::Failed(leg, cause) => {
                let hung = u64::from(cause == Cause::TimedOut);
                self.control.hung.fetch_add(hung, Ordering::Relaxed);
                self.failed(describe(leg, cause), outcome.transfer.to_string(), intended);
            }
        }
        match (self.load, self.control.phase()) {
            (_, Phase::Stock) => self.reserve_stock(index),
            (Load::Closed, _) => self.fill(index),
            _ => {}
        }
    }

    fn failed(&self, failure: String, example: String, intended: Instant) {
        self.control.failed.fetch_add(1, Ordering::Relaxed);
        let mut records = self.records.borrow_mut();
        if self.is_measured(intended) {
            self.control.measured.fetch_add(1, Ordering::Relaxed);
            records.bad(Fate::Failed, Instant::now());
        }
        records.failures.entry(failure).or_insert((0, example)).0 += 1;
    }

    fn is_measured(&self, intended: Instant) -> bool {
        self.measured_from.get().is_some_and(|from| intended >= from)
    }

    /// Changes the number of units in flight of a group.
    fn count(&self, index: usize, change: isize) {
        let group = &self.groups[index].in_flight;
        group.set(group.get().saturating_add_signed(change));
        let all = self.in_flight.get().saturating_add_signed(change);
        self.in_flight.set(all);
        self.control.in_flight.store(all, Ordering::Relaxed);
        if self.backlog_max.get() < all && self.control.phase() == Phase::Measure {
            self.backlog_max.set(all);
        }
    }

    /// Does the work of the phase that does not depend on responses.
    fn tend(&self) {
        let phase = self.control.phase();
        for index in 0..self.groups.len() {
            match (phase, self.load) {
                (Phase::Stock, _) => self.reserve_stock(index),
                (Phase::Stop, _) => self.empty(index),
                (_, Load::Closed) => self.fill(index),
                _ => {}
            }
        }
    }

    /// Answers some of the transfers that payees still hold.
    fn empty(&self, index: usize) {
        let oldest = |group: &GroupLoad| group.stock.borrow().front().map(|&((_, payee), _)| payee);
        while let Some(payee) = oldest(&self.groups[index])
            && self.fsps[payee].simulator.unanswered() < RELEASED_AT_ONCE
        {
            // The intended start lies before the measured part, so that the unit is not counted.
            let now = Instant::now();
            let before = self.measured_from.get().and_then(|at| at.checked_sub(TICK));
            if !self.release(index, before.unwrap_or(now)) {
                return;
            }
        }
    }

    /// Publishes the recent latencies.
    fn publish(&self) {
        let recent = &mut self.records.borrow_mut().recent;
        if recent.is_empty() {
            return;
        }
        let micros = |quantile| recent.value_at_quantile(quantile);
        self.control.p50_micros.store(micros(0.5), Ordering::Relaxed);
        self.control.p99_micros.store(micros(0.99), Ordering::Relaxed);
        recent.reset();
    }

    /// Publishes the open transfers, from the observations of the FSPs.
    fn publish_open(&self) {
        let (mut open, mut requests, mut registered) = (0, 0, 0);
        for fsp in &self.fsps {
            registered += fsp.simulator.registered();
            let observations = fsp.simulator.observations();
            requests += observations.counts.requests;
            for (_, exchange) in observations.exchanges() {
                let sent = &exchange.sent;
                open += sent.begun.count - sent.committed.count - sent.aborted.count;
            }
        }
        let stock = self.groups.iter().map(|group| group.stock.borrow().len()).sum();
        self.control.open.store(open, Ordering::Relaxed);
        self.control.registered.store(registered, Ordering::Relaxed);
        self.control.requests.store(requests, Ordering::Relaxed);
        self.control.stock.store(stock, Ordering::Relaxed);
        self.control.backlog_max.store(self.backlog_max.get(), Ordering::Relaxed);
        // Units start on this thread, and each checks the phase first.
        self.control.stopped.store(self.control.phase() == Phase::Stop, Ordering::Release);
    }
}

impl GroupLoad {
    fn new(plan: RouteGroup) -> Self {
        Self {
            taken: RefCell::new(vec![0; plan.routes.len()]),
            routes: plan.routes,
            number: Cell::new(0),
            in_flight: Cell::new(0),
            stock: RefCell::default(),
        }
    }

    /// The next route, and the number of completed rounds through all routes.
    fn next_route(&self) -> (Route, u64) {
        let number = self.number.get();
        self.number.set(number + 1);
        let routes = self.routes.len() as u64;
        let slot = (number % routes) as usize;
        self.taken.borrow_mut()[slot] += 1;
        // A long table would use the same subscriber for a whole round, so the unit's number
        // selects it.
        let turn = if routes > 2 { number } else { number / routes };
        (self.routes[slot], turn)
    }
}

/// The amount of the payment with this turn on a route.
pub fn amount((payer, payee): Route, turn: u64) -> Amount {
    let back = if payer > payee { BACK_MORE } else { 0 };
    Amount::from_units(AMOUNT_FIRST + i128::from(turn % AMOUNTS) * AMOUNT_STEP + back)
}

fn subscriber(simulator: &Simulator, number: u64) -> u64 {
    let subscribers = simulator.subscribers();
    subscribers.start + number % (subscribers.end - subscribers.start)
}

fn describe(leg: Leg, cause: Cause) -> String {
    match cause {
        Cause::Refused(status) => format!("{leg}: refused with HTTP {status}"),
        Cause::Unsent => format!("{leg}: the hub does not answer"),
        Cause::Unreachable => format!("{leg}: the hub cannot be reached"),
        Cause::Error(code) => format!("{leg}: error callback {code}"),
        Cause::Aborted => format!("{leg}: aborted"),
        Cause::TimedOut => format!("{leg}: {}", TIMED_OUT),
        Cause::Malformed => format!("{leg}: invalid callback"),
        Cause::WrongAnswer => format!("{leg}: wrong response"),
        Cause::WrongFulfilment => format!("{leg}: committed with a wrong fulfilment"),
    }
}

/// Describes a unit whose callback did not arrive.
pub const TIMED_OUT: &str = "timed out without a callback";

async fn tick(driver: Rc<Driver>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut count = 0_u32;
    loop {
        ticks.tick().await;
        driver.tend();
        count = count.wrapping_add(1);
        if count.is_multiple_of(TICKS_PER_COUNT) {
            driver.publish_open();
        }
        if count.is_multiple_of(TICKS_PER_PUBLISH) {
            driver.publish();
        }
    }
}

async fn open_loop(driver: Rc<Driver>, interval: Duration) {
    let Ok(pace) = PreciseTimer::new() else {
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
            driver.start_one(driver.next_group(), due);
            due += interval;
        }
        if pace.wait(due.saturating_duration_since(now)).await.is_err() {
            return driver.failed("start: timer failed".to_owned(), String::new(), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    use dfsp::Behaviour;
    use dfsp::forwarder::Forwarder;

    use crate::options::FspOptions;
    use crate::pairs::{Pairs, groups};
    use crate::simulators::{plan, runtime};

    /// Drives look-ups through a forwarding hub, and returns the control at the end.
    fn drive(load: Load, behaviour: Behaviour, act: impl AsyncFn(&Driver)) {
        drive_scenario(Scenario::Lookup, load, behaviour, act);
    }

    /// Drives units of a given scenario.
    fn drive_scenario(
        scenario: Scenario,
        load: Load,
        behaviour: Behaviour,
        act: impl AsyncFn(&Driver),
    ) {
        runtime().expect("a runtime").block_on(async {
            let hub = Forwarder::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
            let options = FspOptions { fsps: 2, subscribers: 10, ..FspOptions::standard() };
            let bind = |mut options: dfsp::SimulatorOptions| {
                options.behaviour = behaviour;
                let simulator = Simulator::bind(options).expect("a port");
                let (name, address) = (simulator.name().to_owned(), simulator.address());
                hub.register(&name, address, simulator.subscribers());
                simulator
            };
            let simulators: Vec<_> =
                plan(&options, &[hub.address()]).into_iter().map(bind).collect();
            let groups = groups(Pairs::Uniform, 2);
            let plan = DriverPlan { scenario, load, groups, keeps_ends: false };
            let driver = Driver::start(&simulators, plan, Arc::new(Control::new()));
            driver.control.set_phase(Phase::Measure);
            act(&driver).await;
            simulators.iter().for_each(Simulator::stop);
            hub.stop();
        });
    }

    #[test]
    fn net_amount_of_a_pair_is_never_zero() {
        let paid = |route, count| -> i128 { (0..count).map(|at| amount(route, at).units()).sum() };
        for units in 1..5_000_u64 {
            // The routes of a group take turns.
            let net = paid((0, 1), units.div_ceil(2)) - paid((1, 0), units / 2);
            assert_ne!(net, 0, "after {units} units");
        }
        let length = |payer, payee| -> usize {
            (0..AMOUNTS).map(|turn| amount((payer, payee), turn).to_string().len()).sum()
        };
        assert!(length(0, 1).abs_diff(length(1, 0)) < 10, "messages are alike both ways");
    }

    #[test]
    fn unit_without_stock_is_dropped_and_counted() {
        let load = Load::Open { rate: 1_000.0, backlog: 100 };
        drive_scenario(Scenario::Fulfil, load, Behaviour::Normal, async |driver| {
            let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
            until(|| count(&driver.control.unstocked) >= 20).await;
            assert_eq!(count(&driver.control.dropped), count(&driver.control.unstocked));
            driver.control.length.store(1, Ordering::Relaxed);
            let so_far = count(&driver.control.dropped);
            tokio::time::sleep(TICK * 4).await;
            assert_eq!(count(&driver.control.dropped), so_far, "the measured part is over");
        });
    }

    async fn until(what: impl Fn() -> bool) {
        let waited = async {
            while !what() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waited)
            .await
            .expect("the condition becomes true");
    }

    #[test]
    fn open_loop_latency_counts_from_the_intended_start_during_a_stall() {
        const STILL: Duration = Duration::from_millis(300);
        let load = Load::Open { rate: 1_000.0, backlog: 100_000 };
        drive(load, Behaviour::Normal, async |driver| {
            let good = || driver.control.good.load(Ordering::Relaxed);
            until(|| good() > 0).await;
            let (before, start) = (good(), Instant::now());
            // The hub and the FSPs run on this thread too, so nothing is sent or answered during
            // the pause.
            std::thread::sleep(STILL);
            until(|| good() >= before + STILL.as_millis() as u64).await;
            let late = start.elapsed();
            let records = driver.records.borrow();
            let whole = &records.latencies.whole;
            let longest = Duration::from_micros(whole.max());
            assert!(longest > STILL * 8 / 10, "{longest:?} in {late:?}");
            let above = Duration::from_millis(100).as_micros() as u64;
            let many = whole.count_between(above, u64::MAX);
            assert!(many >= 150, "only {many} units suffered from a pause of {STILL:?}");
        });
    }

    #[test]
    fn unit_above_the_backlog_is_dropped_and_counted() {
        let load = Load::Open { rate: 2_000.0, backlog: 7 };
        drive(load, Behaviour::Silent(Leg::Lookup), async |driver| {
            let dropped = || driver.control.dropped.load(Ordering::Relaxed);
            until(|| dropped() >= 50).await;
            assert_eq!(driver.in_flight.get(), 7);
            assert_eq!(driver.backlog_max.get(), 7);
            let seconds = driver.records.borrow().seconds();
            assert_eq!(seconds.iter().map(|it| it.dropped).sum::<u64>(), dropped());
        });
    }
}
