//! The deterministic simulator: one seed, one run of the hub among faults, in virtual time.
//!
//! The production kernel, sequencer, delivery policy and file log run over a disk that crashes,
//! tears, fills up and fails, over a network that loses, repeats and delays, and beside a store
//! that is written late, loses its newest part and sometimes all of it. FSPs, the
//! operator and the clocks are simulated; there are no threads, sockets or real clocks in here,
//! and all chance comes from the seed. So the same seed gives the same run, event for event.
//!
//! # What is watched, after every batch
//! - every currency sums to zero, and every visible balance is the one that an independent
//!   account (the module `shadow`) arrives at, which also predicts each outcome from the rules;
//! - oracles, types of accounts and public keys are those that were accepted, no more and no less;
//! - batches, records and notices are numbered without gaps; stamps never go back;
//! - a notice leaves the hub only when the record that made it is durable, within the window of
//!   its lane, and not before an earlier one about its transfer has ended.
//!
//! # What is watched after every recovery
//! - no acknowledged record is missing, and each record and outcome is what it was;
//! - what was owed is owed; at most a window of notices per lane is sent once more.
//!
//! # What is watched at the end
//! - within a bounded time after the faults stop every transfer has ended, every notice has been
//!   delivered or is a dead letter, and nobody waits;
//! - no FSP was ever told two ends of a transfer, and what it was told is what the kernel holds;
//! - the log alone, read once more, gives the same state, with a store beside the kernel and
//!   without one.
//!
//! # What is not simulated
//! HTTP and its parsing, connections, the party directory, and the threads: what hands work from
//! the sequencer to the lanes (modules `hub` and `edge`) follows `node` and `switch` step by step
//! but is not their code. Damage to what was stored is left to the tests of the log.
//!
//! # Costs and bounds
//! About 60 microseconds per transfer in a release build, half of it for recoveries, which read
//! the whole log. A run keeps everything in memory, a few KB per transfer. Each kind of fault has
//! a budget per run (see `faults`), and the time to come to rest has a bound (see `world`).
#![warn(missing_docs)]

mod catalogue;
mod clerk;
mod desk;
mod edge;
mod event;
mod faults;
mod hub;
mod operator;
mod party;
mod plan;
mod random;
mod report;
mod script;
mod shadow;
mod shelf;
mod witness;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use ledger::Counters;

pub use report::{Report, Tally};

use world::World;

/// How a run is made, beside its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Transfers that payers make.
    pub transfers: u32,
    /// Whether every event is printed.
    pub verbose: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { transfers: 300, verbose: false }
    }
}

/// Makes the run of a seed and reports on it. What goes wrong is in [`Report::failure`]; the
/// place of a broken assertion is only in what the panic hook prints.
#[must_use]
pub fn run(seed: u64, options: &Options) -> Report {
    let mut world = World::new(seed, options);
    let failure = catch_unwind(AssertUnwindSafe(|| world.run())).err();
    let failure = failure.map(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        said.unwrap_or("something panicked without words").to_owned()
    });
    let outcomes = ledger::ALL_OUTCOMES.iter().map(|outcome| {
        let count = world.desk.outcomes[usize::from(outcome.number())];
        (*outcome, count)
    });
    Report {
        seed,
        outcomes: outcomes.collect(),
        counters: world.state().map_or_else(Counters::default, |state| *state.counters()),
        virtual_us: world.desk.now,
        trace: world.desk.trace,
        state: world.final_hash,
        failure,
        tally: world.desk.tally,
    }
}
