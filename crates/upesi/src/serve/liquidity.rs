//! Watches positions and sends alerts, on a separate thread.
//!
//! About once a second the thread looks for positions that have crossed their alarm threshold and
//! records a check of each; the kernel decides. It sends the alerts that the state owes and records
//! them as finished. An alert without a receiver is finished at once.
//!
//! On a shared log, the node that sends the callbacks of a participant also checks its position and
//! sends its alerts. Two nodes that do the same, as after a change of nodes, send an alert twice;
//! their checks have one effect.
//!
//! Costs: queries on the sequencer's thread visit [`watcher::PARTICIPANTS_READ_MAX`] participants
//! at a time. Owed alerts are copied only after they have changed.

mod enrolled;
mod leaders;
mod node_access;
mod participant_values;
mod sender;
mod settlement_values;
mod status;
mod trend;
mod watcher;

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ports::Clock;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

pub(crate) use self::participant_values::ParticipantSamples;
use self::sender::Sender;
pub(crate) use self::settlement_values::SettlementValues;
pub(crate) use self::status::{AlertCounts, LiquidityStatus};
use self::watcher::Watcher;
use crate::CliError;
use crate::config::AlertReceivers;
use crate::serve::admin_backend::NodeBackend;
use crate::serve::shutdown::until_stopped;

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// The thread. It stops with the switch; alerts that are owed then are sent after the next start.
pub(crate) struct LiquidityThread(JoinHandle<()>);

impl LiquidityThread {
    /// Starts the thread.
    pub(crate) fn start(
        backend: Arc<NodeBackend>,
        receivers: AlertReceivers,
        stopping: watch::Receiver<bool>,
    ) -> Result<Self, CliError> {
        let failed = |error: std::io::Error| {
            CliError::new(format!("cannot start the thread liquidity: {error}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = run(backend, receivers) => {}
                    () = until_stopped(stopping) => {}
                }
            });
            // A look-up of a host name may still run.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("liquidity".into()).spawn(work).map(Self).map_err(failed)
    }

    /// Whether the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits until the thread has ended after a stop.
    pub(crate) fn join(self) {
        // A panic was reported by its thread.
        let _ended = self.0.join();
    }
}

async fn run(backend: Arc<NodeBackend>, receivers: AlertReceivers) {
    let watcher = Watcher::new(Arc::clone(&backend));
    let sampled = Arc::clone(&backend);
    let mut sender = Sender::new(backend, receivers);
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let now_us = sampled.clock.now().monotonic_us;
                sampled.liquidity.recent.sample(&sampled.handle, now_us);
                watcher.check().await;
                sender.read().await;
            }
            () = sender.next_end() => {}
        }
        sender.work().await;
    }
}
