//! The deterministic simulator: one seed, one run of the hub among faults, in virtual time.
//!
//! The production kernel, sequencer, node, outbox and file log run over a disk that crashes,
//! tears, fills up and fails, over a network that loses, repeats and delays, and beside a store
//! that is written late, loses its newest part and sometimes all of it. FSPs, the
//! operator and the clocks are simulated; there are no threads, sockets or real clocks in here,
//! and all chance comes from the seed. So the same seed gives the same run, event for event.
//!
//! # What is watched, after every batch
//! - an independent model (the module `model`) predicts every outcome, every balance, every
//!   notice with what it says, and every withdrawn prepare, from the rules alone;
//! - batches, records and notices are numbered without gaps; stamps never go back;
//! - a notice leaves the hub only when the record that made it is durable, within the window of
//!   its lane, and not before an earlier one about its transfer has ended.
//!
//! # What is watched after every recovery
//! - no acknowledged record is missing, and each record and outcome is what it was;
//! - the whole state is the model's: participants, accounts, transfers, notices, dead letters;
//! - what was owed is owed; at most a window of notices per lane is sent once more.
//!
//! # What is watched at the end
//! - within a bounded time after the faults stop every transfer has ended, every notice has been
//!   delivered or is a dead letter, and nobody waits;
//! - no FSP was ever told two ends of a transfer, and what it was told is what the kernel holds;
//! - the log alone, read once more, gives the same state, with a store beside the kernel and
//!   without one, and the model reads it along.
//!
//! # When something is wrong
//! The run is made small ([`shrink`]): transfers, faults and acts are dropped while it fails in
//! the same way. What is left is a [`Regression`], a few lines of text to be committed.
//!
//! # What is not simulated
//! HTTP and its parsing, connections, the party directory, and the threads. The sequencer's node
//! ([`node::Standalone`]) and the outboxes of the I/O threads ([`node::outbox`]) are the ones that
//! ship, driven turn by turn. The modules `hub` and `edge` simulate the wake-ups between them.
//!
//! # Costs and bounds
//! About 50 microseconds per transfer in a release build, half of it for recoveries, each of which
//! reads the log twice: its last segment when it is opened, and all of it to decide it again. A run
//! keeps everything in memory, a few KB per transfer. Each kind of fault has a budget per run (see
//! `faults`), and the time to come to rest has a bound (see `world`).
#![warn(missing_docs)]

mod aim;
mod archive;
mod clock;
mod clock_check;
mod cluster;
mod corruption;
mod duplicate_batch;
mod edge;
mod env;
mod event;
mod external_view;
mod faults;
mod faulty_store;
mod hub;
mod io;
mod parameters;
mod random;
mod reduction;
mod regression;
mod report;
mod shrink;
mod simulation_run;
mod transfers;
mod workload_currencies;
mod workload_fsp;
mod workload_operator;
mod workload_outcomes;
mod workload_registry;

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use ledger::{Counters, Outcome};

pub use aim::reachable;
pub use cluster::{ClusterReport, ClusterTally, run_cluster};
pub use reduction::{Kind, Reduction};
pub use regression::Regression;
pub use report::{Report, Tally};
pub use shrink::{ReducedRun, shrink};

use simulation_run::SimulationRun;

/// How a run is made, beside its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Transfers that payers make.
    pub transfers: u32,
    /// Whether every event is printed.
    pub verbose: bool,
    /// What it is made without.
    pub without: Reduction,
}

impl Default for Options {
    fn default() -> Self {
        Self { transfers: 300, verbose: false, without: Reduction::default() }
    }
}

/// Makes the run of a seed and reports on it. What goes wrong is in [`Report::failure`], with the
/// place of the broken assertion; nothing is printed about it.
#[must_use]
pub fn run(seed: u64, options: &Options) -> Report {
    watch_panics();
    let mut world = SimulationRun::new(seed, options);
    BROKEN.set(Some(String::new()));
    let failure = catch_unwind(AssertUnwindSafe(|| world.run())).err();
    let place = BROKEN.take().unwrap_or_default();
    let failure = failure.map(|panic| words_of(&*panic));
    let counters = world.state().map_or_else(Counters::default, |state| *state.counters());
    let outcomes = Outcome::ALL.iter().map(|outcome| {
        // No command has these: a deadline does, an outflow that was given back, and a replay.
        let others = [
            (Outcome::Expired, counters.expired),
            (Outcome::FundsOutAborted, world.witness.model.given_back),
            (Outcome::Repeated, world.witness.echoes()),
        ];
        let other = others.iter().find(|(known, _)| known == outcome);
        let decided = world.desk.outcomes[usize::from(outcome.number())];
        (*outcome, other.map_or(decided, |(_, count)| *count))
    });
    Report {
        seed,
        outcomes: outcomes.collect(),
        changed: world.desk.changed,
        counters,
        virtual_us: world.desk.now,
        trace: world.desk.trace,
        state: world.final_hash,
        failure,
        place,
        tally: world.desk.tally,
    }
}

/// What a panic said.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
    said.unwrap_or("something panicked without words").to_owned()
}

thread_local! {
    /// Within a run: where an assertion broke last.
    static BROKEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on a panic within a run is noted; any other is told as before.
fn watch_panics() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |broken| {
            let within_run = BROKEN.with_borrow_mut(|place| {
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
