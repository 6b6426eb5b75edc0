//! Measures the cost of the load generator itself, against a forwarding hub on a separate thread.
//!
//! Exchanges: a `POST /transfers` of the usual size to an unknown FSP, written and read over
//! HTTP/1.1 keep-alive by the code of the simulated FSPs. The hub reads the whole request and
//! answers 202. Whole transactions: the simulated FSPs and the load generator, through the same
//! hub. CPU time is that of each side's thread, kernel included. The two sides share the cost of
//! the loopback.
//!
//! Phases of both: bind, one second of warm-up, the measured part. The number of connections is at
//! most the number of exchanges in flight.

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
use harness::output::{check_json, print_results};
use harness::pairs::Pairs;
use harness::proc_stats::{Machine, Origin, machine, thread_cpu};
use harness::report::Latency;
use harness::scenario::Scenario;
use harness::simulators::{BoundFsp, SimulatorPlan, Simulators, plan, runtime};
use harness::status_line::{RunPhase, StatusLine};

const WARM_UP: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);
/// The length of a transfer's body with its ILP packet.
const BODY_BYTES: usize = 1_070;

/// Cost of the load generator.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HarnessReport {
    /// Exchanges with a server that only answers 202.
    pub exchanges: OverheadReport,
    /// Whole transactions through a forwarding hub.
    pub forwarded: BaselineReport,
    /// The environment and the program of the measurement.
    #[serde(flatten)]
    pub origin: Origin,
    /// The options.
    pub configuration: HarnessConfiguration,
}

/// The options of both parts.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HarnessConfiguration {
    /// Requested length of each measured part.
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

/// Cost of exchanges alone.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OverheadReport {
    /// Exchanges per second.
    pub exchanges_per_s: f64,
    /// CPU time of the client per exchange, in microseconds.
    pub client_cpu_us: f64,
    /// CPU time of the server per exchange, in microseconds.
    pub server_cpu_us: f64,
    /// From the write of a request to the end of its response.
    pub latency_ms: Latency,
    /// Responses other than 202, and missing ones.
    pub failed: u64,
    /// Exchanges in flight, which is also the number of connections.
    pub concurrency: usize,
    /// Length of the measured part.
    pub seconds: f64,
    /// Length of each body.
    pub body_bytes: usize,
    /// The machine of the run.
    pub machine: Machine,
}

/// Results of a run without a real hub.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BaselineReport {
    /// Committed whole transactions per second.
    pub rate_per_s: f64,
    /// Transactions that did not commit.
    pub failed: u64,
    /// Duration of a transaction.
    pub latency_ms: Latency,
    /// CPU time of simulators and load generator per transaction, in milliseconds.
    pub simulators_cpu_ms_per_tx: f64,
    /// CPU time of the forwarder per transaction, in milliseconds.
    pub forwarder_cpu_ms_per_tx: f64,
    /// Length of the measured part.
    pub seconds: f64,
    /// Transactions in flight.
    pub concurrency: usize,
    /// Number of FSPs.
    pub fsps: usize,
    /// The machine of the run.
    pub machine: Machine,
}

/// Measures the load generator itself and prints its cost: exchanges with a hub that only answers
/// 202, then whole transactions through a hub that only forwards.
///
/// # Errors
///
/// The options are invalid, sockets cannot be opened, or the file cannot be written.
pub(crate) fn bench_harness(options: &OverheadOptions) -> Result<(), HarnessError> {
    options.check()?;
    check_json(options.json.as_ref())?;
    let origin = Origin::here(None);
    let mut live = StatusLine::on_stderr();
    live.step("measuring exchanges with a server that only answers 202");
    let exchanges = measure_exchanges(options)?;
    live.step("measuring whole transactions through a hub that only forwards");
    let fsps = FspOptions::standard();
    let (seconds, concurrency) = (options.seconds, options.concurrency);
    let configuration = HarnessConfiguration { seconds, concurrency, fsps: fsps.fsps };
    let forwarded = measure_forwarding(options, &fsps)?;
    print_results(
        &HarnessReport { exchanges, forwarded, origin, configuration },
        options.json.as_ref(),
    )
}

/// Measures exchanges with a hub that answers and forwards nothing.
fn measure_exchanges(options: &OverheadOptions) -> Result<OverheadReport, HarnessError> {
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
    let requests = RequestLoop::new(hub.address, options.concurrency);
    (0..options.concurrency).for_each(|_| requests.send());
    requests.keep(WARM_UP).await;
    let before = requests.counts.borrow().ended;
    requests.counts.borrow_mut().measured = true;
    let (start, own, served) = (Instant::now(), thread_cpu(), hub.cpu()?);
    requests.keep(Duration::from_secs_f64(options.seconds)).await;
    let seconds = start.elapsed().as_secs_f64();
    let (own, served) = (thread_cpu() - own, hub.cpu()? - served);
    requests.connections.close();
    let counts = requests.counts.borrow();
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
fn measure_forwarding(
    options: &OverheadOptions,
    fsps: &FspOptions,
) -> Result<BaselineReport, HarnessError> {
    let interrupt = Interrupt::listen();
    let mut live = StatusLine::on_stderr();
    let hub = ForwarderThread::start()?;
    let (scenario, pairs, threads) = (Scenario::Whole, Pairs::Uniform, fsps.threads);
    let simulator_plan =
        SimulatorPlan { scenario, pairs, load: Load::Closed, threads, keeps_ends: false };
    let simulators = Simulators::start(&plan(fsps, &[hub.address]), simulator_plan)?;
    hub.order(Order::Register(simulators.bound()))?;
    simulators.set_target(options.concurrency);
    simulators.set_phase(Phase::Warm);
    interrupt.pause(WARM_UP)?;
    simulators.set_phase(Phase::Measure);
    let (start, committed) = (Instant::now(), simulators.counters().good);
    let (own, forwarder) = (simulators.collect()?.cpu, hub.cpu()?);
    while start.elapsed().as_secs_f64() < options.seconds {
        interrupt.pause(POLL)?;
        live.show(RunPhase::Part("baseline"), &simulators.counters());
    }
    let (seconds, counters) = (start.elapsed().as_secs_f64(), simulators.counters());
    let result = simulators.collect()?;
    let forwarder = hub.cpu()? - forwarder;
    simulators.set_phase(Phase::Stop);
    live.close();
    drop(simulators);
    hub.end()?;
    let done = counters.good - committed;
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e3 / done.max(1) as f64;
    Ok(BaselineReport {
        rate_per_s: done as f64 / seconds,
        failed: counters.failed,
        latency_ms: Latency::of(&result.latencies.whole),
        simulators_cpu_ms_per_tx: each(result.cpu - own),
        forwarder_cpu_ms_per_tx: each(forwarder),
        seconds,
        concurrency: options.concurrency,
        fsps: fsps.fsps,
        machine: machine(),
    })
}

/// A forwarder on a separate thread.
struct ForwarderThread {
    address: SocketAddr,
    orders: mpsc::Sender<Order>,
    thread: JoinHandle<()>,
}

enum Order {
    Register(Vec<BoundFsp>),
    Cpu(SyncSender<Duration>),
}

impl ForwarderThread {
    fn start() -> Result<Self, HarnessError> {
        let (orders, received) = mpsc::channel(4);
        let (sender, receiver) = sync_channel(1);
        let thread = std::thread::spawn(move || forward(received, &sender));
        let address = receiver.recv().map_err(|_| HarnessError::SimulatorsEnded)?;
        Ok(Self { address, orders, thread })
    }

    fn order(&self, order: Order) -> Result<(), HarnessError> {
        self.orders.try_send(order).map_err(|_| HarnessError::SimulatorsEnded)
    }

    /// CPU time of its thread so far.
    fn cpu(&self) -> Result<Duration, HarnessError> {
        let (sender, receiver) = sync_channel(1);
        self.order(Order::Cpu(sender))?;
        receiver.recv().map_err(|_| HarnessError::SimulatorsEnded)
    }

    fn end(self) -> Result<(), HarnessError> {
        drop(self.orders);
        self.thread.join().map_err(|_| HarnessError::SimulatorsEnded)
    }
}

/// The body of the forwarder's thread.
fn forward(mut orders: mpsc::Receiver<Order>, sender: &SyncSender<SocketAddr>) {
    // Without a runtime or an address the sender is dropped. The receiver reports the error.
    let Ok(runtime) = runtime() else { return };
    runtime.block_on(async move {
        let Ok(forwarder) = Forwarder::bind(SocketAddr::from(([127, 0, 0, 1], 0))) else { return };
        let _ = sender.send(forwarder.address());
        while let Some(order) = orders.recv().await {
            match order {
                Order::Register(fsps) => {
                    for fsp in fsps {
                        forwarder.register(&fsp.name, fsp.address, fsp.subscribers);
                    }
                }
                Order::Cpu(sender) => drop(sender.send(thread_cpu())),
            }
        }
        forwarder.stop();
    });
}

/// The client side of the exchanges.
struct RequestLoop {
    connections: HubConnections<Instant>,
    request: Vec<u8>,
    counts: RefCell<Counts>,
}

struct Counts {
    ended: u64,
    failed: u64,
    measured: bool,
    latency: Histogram<u64>,
}

impl RequestLoop {
    fn new(server: SocketAddr, concurrency: usize) -> Rc<Self> {
        Rc::new_cyclic(|weak: &Weak<Self>| {
            let owner = weak.clone();
            let options =
                ConnectionOptions { connections_max: concurrency, ..ConnectionOptions::default() };
            let answered = move |sent, answer| {
                owner.upgrade().into_iter().for_each(|requests| requests.answered(sent, answer));
            };
            let counts = Counts { ended: 0, failed: 0, measured: false, latency: histogram() };
            Self {
                connections: HubConnections::new(&[server], options, answered),
                request: request(server),
                counts: RefCell::new(counts),
            }
        })
    }

    fn send(&self) {
        let mut message = self.connections.buffer();
        message.extend_from_slice(&self.request);
        if self.connections.send(message, Instant::now()).is_err() {
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

    /// Maintains the connections for this long and shows progress.
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
            self.connections.maintain();
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
    fn exchanges_are_counted_and_use_cpu_time_on_both_sides() {
        let report = measure_exchanges(&SHORT).expect("sockets can be opened");
        assert_eq!(report.failed, 0);
        assert!(report.exchanges_per_s > 100.0, "{report:?}");
        for cpu in [report.client_cpu_us, report.server_cpu_us] {
            assert!(cpu > 0.1 && cpu < 100_000.0, "{report:?}");
        }
        assert!(report.latency_ms.p50 > 0.0);
    }

    #[test]
    fn simulators_run_through_the_forwarder_on_several_threads() {
        for threads in [1, 2] {
            let fsps = FspOptions { threads, fsps: 4, ..FspOptions::standard() };
            let report = measure_forwarding(&SHORT, &fsps).expect("it runs");
            assert_eq!(report.failed, 0);
            assert!(report.rate_per_s > 10.0, "{report:?}");
        }
    }
}
