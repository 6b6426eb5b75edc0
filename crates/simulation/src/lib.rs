//! The deterministic simulator: one seed, one run of the hub among faults, in virtual time.
//!
//! The production kernel, sequencer, node, outbox and file log run over a disk that crashes, tears
//! writes, fills up and fails, over a network that loses, repeats and delays messages, and with a
//! cold store that is written asynchronously, loses its newest part and sometimes everything. FSPs,
//! operators and clocks are simulated. There are no threads, sockets or real clocks, and all random
//! numbers come from the seed. So the same seed gives the same run, event for event.
//!
//! # What is watched, after every batch
//! - an independent model (the module `model`) predicts every outcome, every balance, every notice
//!   with its content, and every withdrawn prepare, from the rules alone;
//! - each currency sums to zero, and the hub's account of net settlement has the movements of
//!   settlements under way, and nothing of those that are settled or aborted;
//! - batches, records and notices are numbered without gaps; stamps never go back;
//! - a notice leaves the hub only when the record that made it is durable, within the window of
//!   its lane, and not before an earlier one about its transfer has ended.
//!
//! # What is watched after every recovery
//! - no acknowledged record is missing, and each record and outcome is what it was;
//! - the whole state is the model's: participants, accounts, transfers, notices, dead letters; and
//!   so is the party directory;
//! - what was owed is owed; at most a window of notices per lane is sent once more.
//!
//! # What is watched at the end
//! - within a bounded time after the faults stop, every transfer has ended, every notice has been
//!   delivered or is a dead letter, and no party waits;
//! - no FSP was ever notified of two ends of a transfer, and its notices agree with the kernel;
//! - a replay of the log alone gives the same state, with a cold store and without one, and the
//!   model follows it.
//!
//! # Rotation and erasure
//! [`crash_rotation_and_erasure`] plays one node that changes its master key and erases contents,
//! with a power cut in every operation of the disk.
//!
//! # When something is wrong
//! The run is shrunk ([`shrink`]): transfers, faults and acts are dropped while it fails in the
//! same way. The result is a [`Regression`], a few lines of text to be committed.
//!
//! # What is not simulated
//! HTTP and its parsing, connections, and the threads. The sequencer's node
//! ([`node::Standalone`]) and the outboxes of the I/O threads ([`node::outbox`]) are the ones that
//! ship, driven turn by turn. The modules `hub` and `edge` simulate the wake-ups between them.
//!
//! # Costs and bounds
//! About 50 microseconds per transfer in a release build, half of it for recoveries, each of which
//! reads the log twice: its last segment when it is opened, and all of it to decide it again. A run
//! keeps everything in memory, a few KB per transfer. Each kind of fault has a budget per run (see
//! `faults`), and the time to come to rest has a bound (see the module `simulation`).
#![warn(missing_docs)]

mod aim;
mod archive;
mod balance;
mod clock;
mod clock_check;
mod cluster;
mod corruption;
mod duplicate_batch;
mod env;
mod event;
mod events_check;
mod external_view;
mod faults;
mod faulty_store;
mod hub;
mod io_thread;
mod outbox_driver;
mod parameters;
mod random;
mod reduction;
mod regression;
mod report;
mod rewriting;
mod shrink;
mod simulation;
mod transfers;
mod workload;

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use ledger::{Counters, Outcome};

pub use aim::reachable;
pub use cluster::{ClusterCounts, ClusterReport, run_cluster};
pub use reduction::{Reduction, Removal};
pub use regression::Regression;
pub use report::{Report, RunCounts};
pub use rewriting::{RewritingCounts, crash_rotation_and_erasure};
pub use shrink::{ReducedRun, shrink};
pub use workload::settlement::SettlementCounts;

use simulation::SimulationRun;

/// Options of a run, apart from its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Transfers that payers make.
    pub transfers: u32,
    /// Whether every event is printed.
    pub verbose: bool,
    /// The parts left out of the run.
    pub without: Reduction,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { transfers: 300, verbose: false, without: Reduction::default() }
    }
}

/// Runs a seed and reports on it. A failure is in [`Report::failure`], with the location of the
/// failed assertion in [`Report::place`]; nothing is printed about it.
#[must_use]
pub fn run(seed: u64, options: &RunOptions) -> Report {
    watch_panics();
    let mut simulation = SimulationRun::new(seed, options);
    FAILED_AT.set(Some(String::new()));
    let failure = catch_unwind(AssertUnwindSafe(|| simulation.run())).err();
    let place = FAILED_AT.take().unwrap_or_default();
    let failure = failure.map(|panic| panic_message(&*panic));
    let counters = simulation.state().map_or_else(Counters::default, |state| *state.counters());
    let outcomes = Outcome::ALL.iter().map(|outcome| {
        // No command has these: a deadline does, an outflow that was given back, and a replay.
        let others = [
            (Outcome::Expired, counters.expired),
            (Outcome::FundsOutAborted, simulation.external.model.returned_outflows),
            (Outcome::Repeated, simulation.external.duplicates()),
        ];
        let other = others.iter().find(|(known, _)| known == outcome);
        let decided = simulation.env.outcomes[usize::from(outcome.number())];
        (*outcome, other.map_or(decided, |(_, count)| *count))
    });
    Report {
        seed,
        outcomes: outcomes.collect(),
        changed: simulation.env.changed,
        counters,
        virtual_us: simulation.env.now,
        trace: simulation.env.trace,
        state: simulation.final_hash,
        failure,
        place,
        counts: simulation.env.counts,
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
    message.unwrap_or("a panic without a message").to_owned()
}

thread_local! {
    /// Within a run: where an assertion broke last.
    static FAILED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on a panic within a run is recorded; any other is reported as before.
fn watch_panics() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |broken| {
            let within_run = FAILED_AT.with_borrow_mut(|place| {
                let is_in = place.is_some();
                *place = place
                    .is_some()
                    .then(|| broken.location().map(ToString::to_string).unwrap_or_default());
                is_in
            });
            if !within_run {
                before(broken);
            }
        }));
    });
}
