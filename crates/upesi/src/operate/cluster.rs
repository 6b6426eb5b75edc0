//! `upesi cluster`: status of the nodes that share a log, and trimming of their topic.

mod status;
mod trim;

use crate::CliError;

/// Arguments of `cluster`.
#[derive(clap::Args)]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(clap::Subcommand)]
enum ClusterCommand {
    /// Show the nodes, their last applied records, lanes, lag and last takeover.
    ///
    /// A lane is the queue of callbacks to one participant. Each lane is served by one node.
    Status(status::StatusArguments),
    /// Delete topic messages that a backup holds and every node has applied.
    Trim(trim::TrimArguments),
}

pub(crate) fn run(arguments: &ClusterArguments) -> Result<(), CliError> {
    match &arguments.command {
        ClusterCommand::Status(arguments) => status::run(arguments),
        ClusterCommand::Trim(arguments) => trim::run(arguments),
    }
}
