//! Demonstration, load, measurement and proof, with simulated DFSPs against a switch.
//!
//! [`demo`] starts a switch as a child process, onboards eight FSPs, runs whole transactions
//! (look-up, quote, transfer) as fast as it sustains or at a given rate, and then proves the
//! ledger: every account, every transfer, every notice, and the log itself. [`run`] measures one
//! [`Scenario`] against such a switch or any other hub, as often as it is called; [`bench()`]
//! prints that, and makes a page of it where one is asked for. [`simulate`] runs the
//! same FSPs against any hub. [`sweep()`] makes the runs of a published table and sets ours beside
//! it. [`bench_harness`] measures bare exchanges and runs them through a hub that only
//! forwards: what the simulators and the sockets cost by themselves.
//!
//! Phases of a run (the engine, which [`demo`] and [`run`] share): bind the FSPs, onboard, register
//! subscribers, climb to the best concurrency (or warm up), measure, let everything end, prove,
//! report. The FSPs and the driver share one thread (`--threads` for more); the calling thread only
//! sleeps, reads counters and prints.
//!
//! A run is void when a check fails: books that do not agree, a notice that did not come, units
//! that hung. It is then reported as such, never as a figure.
//!
//! Latency is counted from the intended start of a transaction (open loop) or from the real one
//! (closed loop), in microseconds with three digits.

mod admin;
mod bench;
mod bench_report;
mod demo;
mod error;
mod eta;
mod faults;
mod footprint;
mod histograms;
mod hub;
mod interrupt;
mod load;
mod netns;
mod nodes;
mod onboarding;
mod options;
mod outage;
mod output;
mod overhead;
mod pages;
mod pairs;
mod precise_timer;
mod prepared_data;
mod proc_stats;
mod reconcile;
mod replica_check;
mod report;
mod run;
mod scenario;
mod simulate;
mod simulators;
mod status_line;
mod sweep;
mod sweep_after;
mod sweep_aliases;
mod sweep_changes;
mod sweep_expiry;
mod sweep_growth;
mod sweep_plans;
mod sweep_report;
mod sweep_tables;
mod switch_process;
mod waterfalls;

pub use crate::admin::{Admin, AdminResponse};
pub use crate::bench::{bench, run};
pub use crate::bench_report::{
    BenchReport, Bucket, Ceiling, Durability, Embedded, Expiring, OverOneSecond, Payload, Security,
    Share, Spread, Stored, SystemCalls, Window,
};
pub use crate::demo::demo;
pub use crate::error::HarnessError;
pub use crate::eta::Progress;
pub use crate::faults::Fault;
pub use crate::footprint::Footprint;
pub use crate::histograms::Second;
pub use crate::interrupt::{Interrupt, end_when_interrupted};
pub use crate::options::{
    BenchOptions, DemoOptions, FspOptions, NodesOptions, OverheadOptions, SimulateOptions, count,
};
pub use crate::outage::{Event, NodesReport, Outage};
pub use crate::output::{check_json, tell};
pub use crate::overhead::{
    BaselineReport, HarnessConfiguration, HarnessReport, OverheadReport, bench_harness,
};
pub use crate::pairs::Pairs;
pub use crate::prepared_data::{correspondents, onboard_directory};
pub use crate::proc_stats::{Environment, Origin, PROFILE, VERSION, free_bytes};
pub use crate::reconcile::Check;
pub use crate::report::{DemoReport, Latency, Legs, Machine, Percentiles};
pub use crate::scenario::Scenario;
pub use crate::simulate::simulate;
pub use crate::sweep::{GrowthOptions, Sweep, SweepOutput, sweep};
pub use crate::sweep_report::{Published, Source, Step, SweepReport};
pub use crate::sweep_tables::{Goal, Row, Table};
pub use crate::switch_process::{Confirm, SwitchCommand};
pub use crate::waterfalls::{WaterfallOptions, waterfall};
pub use ::waterfall::text;
