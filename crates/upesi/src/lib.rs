//! The switch and its tools: reads the configuration, wires the parts together, and shuts them
//! down. `upesi` and `upesi-bench` are its programs.

mod cli;
mod config;
mod data;
mod inspect;
mod operate;
mod serve;

pub use crate::cli::commands::run;
pub use crate::cli::error::CliError;
pub use crate::cli::help::{HelpGroup, with_command_groups};
pub use crate::cli::shell_files::{
    CompletionsArguments, ManArguments, print_completions, write_man_pages,
};
pub use crate::cli::stdout::{end_with_reader, exit_code};
pub use crate::serve::bare_node::{BareNode, RunningBareNode};

const _: () = assert!(
    !ledger::planted_bugs::ENABLED,
    "the feature planted-bugs of the ledger is for the simulator alone"
);
