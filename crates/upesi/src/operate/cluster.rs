//! `upesi cluster`: the nodes that share a log, as one of them sees them, and their topic.

mod status;
mod trim;

use crate::CliError;

/// Arguments of `cluster`.
#[derive(clap::Args)]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Tell who is there, up to where each node has applied the log, which node sends to which
    /// participant, how far the node that is asked is behind the topic, and when nodes were last
    /// found to be gone.
    Status(status::StatusArguments),
    /// Delete the oldest messages of the topic, once a copy of the log holds what they said and
    /// every node that is there has applied it.
    Trim(trim::TrimArguments),
}

pub(crate) fn run(arguments: &ClusterArguments) -> Result<(), CliError> {
    match &arguments.what {
        What::Status(arguments) => status::run(arguments),
        What::Trim(arguments) => trim::run(arguments),
    }
}
