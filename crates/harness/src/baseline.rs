//! What simulators and sockets cost by themselves: the same FSPs through a hub that only forwards.

use std::net::SocketAddr;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use dfsp::forwarder::Forwarder;
use serde::Serialize;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::mpsc;

use crate::driver::{Load, Phase};
use crate::error::HarnessError;
use crate::fleet::{Bound, FleetPlan, Fleets, plan};
use crate::interrupt::Interrupt;
use crate::lanes::Pairs;
use crate::live::{Doing, Live};
use crate::machine::{Machine, machine, thread_cpu};
use crate::options::{BaselineOptions, check_seconds};
use crate::report::Latency;
use crate::scenario::Scenario;

const WARM_UP: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);

/// Results of a run without a real hub.
#[derive(Clone, Debug, Serialize)]
pub struct BaselineReport {
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

enum Order {
    Register(Vec<Bound>),
    Cpu(SyncSender<Duration>),
}

/// Runs whole transactions through a forwarder on a thread of its own.
///
/// # Errors
/// The run could not be carried out.
pub fn baseline(options: &BaselineOptions) -> Result<BaselineReport, HarnessError> {
    options.fsps.check()?;
    check_seconds(options.seconds)?;
    let interrupt = Interrupt::listen();
    let mut live = Live::new();
    let (orders, received) = mpsc::channel(4);
    let (tell, told) = sync_channel(1);
    let thread = std::thread::spawn(move || forward(received, &tell));
    let hub = told.recv().map_err(|_| HarnessError::Fleet)?;
    let (scenario, pairs, threads) = (Scenario::Whole, Pairs::Uniform, options.fsps.threads);
    let fleet_plan = FleetPlan { scenario, pairs, load: Load::Closed, threads, keeps_ends: false };
    let fleets = Fleets::start(&plan(&options.fsps, &[hub]), fleet_plan)?;
    let gone = |_| HarnessError::Fleet;
    orders.blocking_send(Order::Register(fleets.bound())).map_err(gone)?;
    let forwarder_cpu = || {
        let (tell, told) = sync_channel(1);
        orders.blocking_send(Order::Cpu(tell)).map_err(gone)?;
        told.recv().map_err(|_| HarnessError::Fleet)
    };
    fleets.set_target(options.concurrency);
    fleets.set_phase(Phase::Warm);
    interrupt.pause(WARM_UP)?;
    fleets.set_phase(Phase::Measure);
    let (start, committed) = (Instant::now(), fleets.glance().good);
    let (own, forwarders) = (fleets.collect()?.cpu, forwarder_cpu()?);
    while start.elapsed().as_secs_f64() < options.seconds {
        interrupt.pause(POLL)?;
        live.show(Doing::Part("baseline"), &fleets.glance());
    }
    let (seconds, glance) = (start.elapsed().as_secs_f64(), fleets.glance());
    let result = fleets.collect()?;
    let forwarders = forwarder_cpu()? - forwarders;
    fleets.set_phase(Phase::Stop);
    live.close();
    drop(fleets);
    drop(orders);
    thread.join().map_err(|_| HarnessError::Fleet)?;
    let done = glance.good - committed;
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e3 / done.max(1) as f64;
    let report = BaselineReport {
        rate_per_s: done as f64 / seconds,
        failed: glance.failed,
        latency_ms: Latency::of(&result.latencies.whole),
        simulators_cpu_ms_per_tx: each(result.cpu - own),
        forwarder_cpu_ms_per_tx: each(forwarders),
        seconds,
        concurrency: options.concurrency,
        fsps: options.fsps.fsps,
        machine: machine(),
    };
    Ok(report)
}

/// The body of the forwarder's thread.
fn forward(mut orders: mpsc::Receiver<Order>, tell: &SyncSender<SocketAddr>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime: std::io::Result<LocalRuntime> =
        builder.enable_all().build_local(LocalOptions::default());
    // Without a runtime or an address the sender is dropped, which the main thread reports.
    let Ok(runtime) = runtime else { return };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::FspOptions;

    #[test]
    fn fleets_run_through_the_forwarder_on_several_threads() {
        for threads in [1, 2] {
            let fsps = FspOptions { threads, fsps: 4, ..FspOptions::standard() };
            let options = BaselineOptions { seconds: 0.2, concurrency: 8, fsps };
            let report = baseline(&options).expect("it runs");
            assert_eq!(report.failed, 0);
            assert!(report.rate_per_s > 10.0, "{report:?}");
        }
    }
}
