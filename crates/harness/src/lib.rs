//! Runs against a switch or any other hub with simulated DFSPs: load, measurement, reconciliation.
//!
//! [`demo()`] starts a switch as a child process, onboards eight FSPs and runs whole transactions
//! (look-up, quote, transfer), at the highest sustainable or at a given rate. Then it verifies the
//! ledger: every account, every transfer, every notice, and the log itself. [`simulate`] runs the
//! same FSPs against any hub. [`waterfall()`] shows the duration of each stage of a transfer. The
//! measurements of `upesi-bench` call [`run::carry_out`].
//!
//! Phases of a run: bind the FSPs, onboard, register subscribers, find the best concurrency (or
//! warm up), measure, drain, reconcile, report. The FSPs and the load driver share one thread
//! (`--threads` for more). The calling thread sleeps, reads counters and prints.
//!
//! A run is void when a check fails: balances that do not agree, a missing notice, a transaction
//! without an end. The report then lists the failed checks.
//!
//! Latency is counted from the intended start of a transaction (open loop) or from the actual one
//! (closed loop), in microseconds with three digits.

pub mod admin;
pub mod affinity;
pub mod demo;
pub mod error;
pub mod eta;
pub mod faults;
pub mod footprint;
pub mod histograms;
pub mod hold;
pub mod hub;
pub mod interrupt;
pub mod load;
mod netns;
pub mod nodes;
pub mod onboarding;
pub mod options;
mod outage;
pub mod output;
pub mod pairs;
pub mod precise_timer;
pub mod proc_stats;
pub mod reconcile;
pub mod replica_check;
pub mod report;
pub mod run;
pub mod scenario;
mod secure_demo;
pub mod secure_scheme;
mod simulate;
pub mod simulators;
pub mod status_line;
mod stored_session;
pub mod switch_process;
mod waterfalls;

pub use crate::admin::{Admin, AdminResponse};
pub use crate::demo::demo;
pub use crate::error::HarnessError;
pub use crate::eta::Progress;
pub use crate::interrupt::{Interrupt, end_when_interrupted};
pub use crate::options::{DemoOptions, FspOptions, NodesOptions, SimulateOptions, count};
pub use crate::outage::{Event, NodesReport, Outage};
pub use crate::output::{check_json, print_results};
pub use crate::proc_stats::{Environment, Origin, PROFILE, VERSION, free_bytes};
pub use crate::report::{DemoReport, Latency, Legs, Machine, Percentiles};
pub use crate::scenario::Scenario;
pub use crate::secure_demo::{SecureReport, secure_demo};
pub use crate::simulate::simulate;
pub use crate::stored_session::{session_file, token_of_environment};
pub use crate::switch_process::{Confirm, SwitchCommand};
pub use crate::waterfalls::{WaterfallOptions, waterfall};
pub use ::waterfall::text;
