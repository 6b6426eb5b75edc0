//! Measures the cost of the load generator itself, against a forwarding hub on a separate thread.
//!
//! Exchanges: a `POST /transfers` of the usual size to an unknown FSP, written and read over
//! HTTP/1.1 keep-alive by the code of the simulated FSPs. The hub reads the whole request and
//! answers 202. Whole transactions: the simulated FSPs and their driver, through the same hub. CPU
//! time is the time of each side's thread, kernel included; the two sides share the cost of the
//! loopback.
//!
//! Phases of both: bind, a second of warm-up, the measured part. Bounds: as many connections as
//! exchanges in flight.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dfsp::connections::{ConnectionOptions, HubConnections, SendResult, TICK};
use dfsp::forwarder::Forwarder;
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::sync::mpsc;
use waterfall::text;

use crate::options::OverheadOptions;
use harness::error::HarnessError;
use harness::eta::Progress;
use harness::histograms::{histogram, record};
use harness::interrupt::{Interrupt, end_when_interrupted};
use harness::load::{Load, Phase};
use harness::options::FspOptions;
use harness::output::{check_json, tell};
use harness::pairs::Pairs;
use harness::proc_stats::{Machine, Origin, machine, thread_cpu};
use harness::report::Latency;
use harness::scenario::Scenario;
use harness::simulators::{Bound, SimulatorPlan, Simulators, plan, runtime};
use harness::status_line::{RunPhase, StatusLine};

const WARM_UP: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);
/// As long as the body of a transfer with its packet.
const BODY_BYTES: usize = 1_070;

/// What the instrument itself costs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HarnessReport {
    /// Exchanges with a server that only says 202.
    pub exchanges: OverheadReport,
    /// Whole transactions through a hub that only forwards.
    pub forwarded: BaselineReport,
    /// Where it was measured, and by what.
    #[serde(flatten)]
    pub origin: Origin,
    /// What was set.
    pub configuration: HarnessConfiguration,
}

/// Everything that was set, for both parts.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HarnessConfiguration {
    /// Length of each measured part, as wanted.
    pub seconds: f64,
    /// Exchanges, or transactions, in flight.
    pub concurrency: usize,
    /// FSPs of the second part.
    pub fsps: usize,
}

impl fmt::Display for HarnessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::fields(self, &[]))
    }
}

/// What exchanges cost by themselves.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OverheadReport {
    /// Exchanges a second.
    pub exchanges_per_s: f64,
    /// CPU time of the side that asks, per exchange, in microseconds.
    pub client_cpu_us: f64,
    /// CPU time of the side that answers, per exchange, in microseconds.
    pub server_cpu_us: f64,
    /// From the write of a request to the end of its answer.
    pub latency_ms: Latency,
    /// Answers other than 202, and none at all.
    pub failed: u64,
    /// Exchanges in flight, and connections.
    pub concurrency: usize,
    /// Length of the measured part.
    pub seconds: f64,
    /// Length of each body.
    pub body_bytes: usize,
    /// Where the run took place.
    pub machine: Machine,
}

/// Results of a run without a real hub.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BaselineReport {
    /// Committed whole transactions a second.
    pub rate_per_s: f64,
    /// Transactions that did not commit.
    pub failed: u64,
    /// From start to end of a transaction.
    pub latency_ms: Latency,
    /// CPU time of simulators and driver per transaction, in milliseconds.
    pub simulators_cpu_ms_per_tx: f64,
    /// CPU time of the forwarder per transaction, in milliseconds.
    pub forwarder_cpu_ms_per_tx: f64,
    /// Length of the measured part.
    pub seconds: f64,
    /// Transactions in flight.
    pub concurrency: usize,
    /// Number of FSPs.
    pub fsps: usize,
    /// Where the run took place.
    pub machine: Machine,
}

/// Measures the load generator itself and prints its cost: exchanges with a hub that only answers
/// 202, then whole transactions through a hub that only forwards.
///
/// # Errors
/// The options make no sense, sockets cannot be had, or the file cannot be written.
pub(crate) fn bench_harness(options: &OverheadOptions) -> Result<(), HarnessError> {
    options.check()?;
    check_json(options.json.as_ref())?;
    let origin = Origin::here(None);
    let mut live = StatusLine::on_stderr();
    live.step("measuring exchanges with a server that only says 202");
    let exchanges = hello(options)?;
    live.step("measuring whole transactions through a hub that only forwards");
    let fsps = FspOptions::standard();
    let (seconds, concurrency) = (options.seconds, options.concurrency);
    let configuration = HarnessConfiguration { seconds, concurrency, fsps: fsps.fsps };
    let forwarded = baseline(options, &fsps)?;
    tell(&HarnessReport { exchanges, forwarded, origin, configuration }, options.json.as_ref())
}

/// Measures exchanges with a hub that answers and forwards nothing.
fn hello(options: &OverheadOptions) -> Result<OverheadReport, HarnessError> {
    end_when_interrupted(|| ());
    let hub = ForwarderThread::start()?;
    let report = runtime()?.block_on(exchange(&hub, options))?;
    hub.end()?;
    Ok(report)
}

async fn exchange(
    hub: &ForwarderThread,
    options: &OverheadOptions,
) -> Result<OverheadReport, HarnessError> {
    let asking = Asking::new(hub.address, options.concurrency);
    (0..options.concurrency).for_each(|_| asking.send());
    asking.keep(WARM_UP).await;
    let before = asking.counts.borrow().ended;
    asking.counts.borrow_mut().measured = true;
    let (start, own, served) = (Instant::now(), thread_cpu(), hub.cpu()?);
    asking.keep(Duration::from_secs_f64(options.seconds)).await;
    let seconds = start.elapsed().as_secs_f64();
    let (own, served) = (thread_cpu() - own, hub.cpu()? - served);
    asking.links.close();
    let counts = asking.counts.borrow();
    let exchanges = counts.ended - before;
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / exchanges.max(1) as f64;
    Ok(OverheadReport {
        exchanges_per_s: exchanges as f64 / seconds,
        client_cpu_us: each(own),
        server_cpu_us: each(served),
        latency_ms: Latency::of(&counts.latency),
        failed: counts.failed,
        concurrency: options.concurrency,
        seconds,
        body_bytes: BODY_BYTES,
        machine: machine(),
    })
}

/// Runs whole transactions through a hub that only forwards.
fn baseline(options: &OverheadOptions, fsps: &FspOptions) -> Result<BaselineReport, HarnessError> {
    let interrupt = Interrupt::listen();
    let mut live = StatusLine::on_stderr();
    let hub = ForwarderThread::start()?;
    let (scenario, pairs, threads) = (Scenario::Whole, Pairs::Uniform, fsps.threads);
    let fleet_plan =
        SimulatorPlan { scenario, pairs, load: Load::Closed, threads, keeps_ends: false };
    let fleets = Simulators::start(&plan(fsps, &[hub.address]), fleet_plan)?;
    hub.order(Order::Register(fleets.bound()))?;
    fleets.set_target(options.concurrency);
    fleets.set_phase(Phase::Warm);
    interrupt.pause(WARM_UP)?;
    fleets.set_phase(Phase::Measure);
    let (start, committed) = (Instant::now(), fleets.glance().good);
    let (own, forwarder) = (fleets.collect()?.cpu, hub.cpu()?);
    while start.elapsed().as_secs_f64() < options.seconds {
        interrupt.pause(POLL)?;
        live.show(RunPhase::Part("baseline"), &fleets.glance());
    }
    let (seconds, glance) = (start.elapsed().as_secs_f64(), fleets.glance());
    let result = fleets.collect()?;
    let forwarder = hub.cpu()? - forwarder;
    fleets.set_phase(Phase::Stop);
    live.close();
    drop(fleets);
    hub.end()?;
    let done = glance.good - committed;
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e3 / done.max(1) as f64;
    Ok(BaselineReport {
        rate_per_s: done as f64 / seconds,
        failed: glance.failed,
        latency_ms: Latency::of(&result.latencies.whole),
        simulators_cpu_ms_per_tx: each(result.cpu - own),
        forwarder_cpu_ms_per_tx: each(forwarder),
        seconds,
        concurrency: options.concurrency,
        fsps: fsps.fsps,
        machine: machine(),
    })
}

/// A forwarder on a thread of its own.
struct ForwarderThread {
    address: SocketAddr,
    orders: mpsc::Sender<Order>,
    thread: JoinHandle<()>,
}

enum Order {
    Register(Vec<Bound>),
    Cpu(SyncSender<Duration>),
}

impl ForwarderThread {
    fn start() -> Result<Self, HarnessError> {
        let (orders, received) = mpsc::channel(4);
        let (tell, told) = sync_channel(1);
        let thread = std::thread::spawn(move || forward(received, &tell));
        let address = told.recv().map_err(|_| HarnessError::Fleet)?;
        Ok(Self { address, orders, thread })
    }

    fn order(&self, order: Order) -> Result<(), HarnessError> {
        self.orders.try_send(order).map_err(|_| HarnessError::Fleet)
    }

    /// CPU time of its thread so far.
    fn cpu(&self) -> Result<Duration, HarnessError> {
        let (tell, told) = sync_channel(1);
        self.order(Order::Cpu(tell))?;
        told.recv().map_err(|_| HarnessError::Fleet)
    }

    fn end(self) -> Result<(), HarnessError> {
        drop(self.orders);
        self.thread.join().map_err(|_| HarnessError::Fleet)
    }
}

/// The body of the forwarder's thread.
fn forward(mut orders: mpsc::Receiver<Order>, tell: &SyncSender<SocketAddr>) {
    // Without a runtime or an address the sender is dropped, which the other side reports.
    let Ok(runtime) = runtime() else { return };
    runtime.block_on(async move {
        let Ok(forwarder) = Forwarder::bind(SocketAddr::from(([127, 0, 0, 1], 0))) else { return };
        let _ = tell.send(forwarder.address());
        while let Some(order) = orders.recv().await {
            match order {
                Order::Register(fsps) => {
                    for fsp in fsps {
                        forwarder.register(&fsp.name, fsp.address, fsp.subscribers);
                    }
                }
                Order::Cpu(tell) => drop(tell.send(thread_cpu())),
            }
        }
        forwarder.stop();
    });
}

/// The client side of the exchanges.
struct Asking {
    links: HubConnections<Instant>,
    request: Vec<u8>,
    counts: RefCell<Counts>,
}

struct Counts {
    ended: u64,
    failed: u64,
    measured: bool,
    latency: Histogram<u64>,
}

impl Asking {
    fn new(server: SocketAddr, concurrency: usize) -> Rc<Self> {
        Rc::new_cyclic(|weak: &Weak<Self>| {
            let owner = weak.clone();
            let options =
                ConnectionOptions { connections_max: concurrency, ..ConnectionOptions::default() };
            let answered = move |sent, answer| {
                owner.upgrade().into_iter().for_each(|asking| asking.answered(sent, answer));
            };
            let counts = Counts { ended: 0, failed: 0, measured: false, latency: histogram() };
            Self {
                links: HubConnections::new(&[server], options, answered),
                request: request(server),
                counts: RefCell::new(counts),
            }
        })
    }

    fn send(&self) {
        let mut message = self.links.buffer();
        message.extend_from_slice(&self.request);
        if self.links.send(message, Instant::now()).is_err() {
            self.counts.borrow_mut().failed += 1;
        }
    }

    fn answered(&self, sent: Instant, answer: SendResult) {
        let mut counts = self.counts.borrow_mut();
        counts.ended += 1;
        counts.failed += u64::from(answer != SendResult::Status(202));
        if counts.measured {
            record(&mut counts.latency, sent.elapsed());
        }
        drop(counts);
        self.send();
    }

    /// Maintains the links for this long and shows progress.
    async fn keep(&self, time: Duration) {
        let start = Instant::now();
        let before = self.counts.borrow().ended;
        let mut progress = Progress::new("exchanges", None);
        while start.elapsed() < time {
            tokio::time::sleep(TICK).await;
            let done = self.counts.borrow().ended - before;
            let share = start.elapsed().as_secs_f64() / time.as_secs_f64();
            progress.expect((done as f64 / share) as u64);
            progress.show(done);
            self.links.maintain();
        }
    }
}

fn request(server: SocketAddr) -> Vec<u8> {
    let media = "application/vnd.interoperability.transfers+json;version=1.1";
    let mut request = format!(
        "POST /transfers HTTP/1.1\r\nhost: {server}\r\ncontent-type: {media}\r\naccept: {media}\r\n\
         fspiop-source: fsp201\r\nfspiop-destination: fsp202\r\n\
         date: Thu, 01 Jan 2026 10:00:00 GMT\r\n\
         traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
         content-length: {BODY_BYTES}\r\n\r\n"
    )
    .into_bytes();
    request.resize(request.len() + BODY_BYTES, b'x');
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: OverheadOptions = OverheadOptions { seconds: 0.2, concurrency: 8, json: None };

    #[test]
    fn exchanges_are_counted_and_cost_something_on_both_sides() {
        let report = hello(&SHORT).expect("sockets can be had");
        assert_eq!(report.failed, 0);
        assert!(report.exchanges_per_s > 100.0, "{report:?}");
        for cpu in [report.client_cpu_us, report.server_cpu_us] {
            assert!(cpu > 0.1 && cpu < 100_000.0, "{report:?}");
        }
        assert!(report.latency_ms.p50 > 0.0);
    }

    #[test]
    fn fleets_run_through_the_forwarder_on_several_threads() {
        for threads in [1, 2] {
            let fsps = FspOptions { threads, fsps: 4, ..FspOptions::standard() };
            let report = baseline(&SHORT, &fsps).expect("it runs");
            assert_eq!(report.failed, 0);
            assert!(report.rate_per_s > 10.0, "{report:?}");
        }
    }
}
