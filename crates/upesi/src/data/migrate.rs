//! `upesi export-log` and `upesi import-log`: a scheme moves between a log in files and one on
//! Kafka, with its history.
//!
//! Where the log goes on is told by one file beside the copy, the name of its topic: with it the
//! directory is a node's, without it a switch has it alone. It is written when all of the log is in
//! the topic and before anybody can go on there, and removed when all of the log is here and nobody
//! can add to the topic any more.

mod arguments;
#[cfg(feature = "kafka")]
mod run;

#[cfg(not(feature = "kafka"))]
use crate::CliError;

pub(crate) const EXPORT_EXAMPLES: &str = "\
Examples:
  upesi export-log --data /var/lib/upesi --log kafka://b1:9092,b2:9092,b3:9092/upesi
  upesi serve --data /var/lib/upesi --log kafka://b1:9092,b2:9092,b3:9092/upesi --node a
  upesi serve --data empty          --log kafka://b1:9092,b2:9092,b3:9092/upesi --node b
Interrupted, the same command goes on; until it says that the log has left, the switch can go on
without Kafka. `upesi import-log` moves it back.";

pub(crate) const IMPORT_EXAMPLES: &str = "\
Examples:
  upesi import-log --data /var/lib/upesi-a --log kafka://b1:9092,b2:9092,b3:9092/upesi
  upesi serve --data /var/lib/upesi-a                 the same scheme, without Kafka
If the brokers are lost for good, there is no topic to be told: `upesi restore --from` the copy of
the node that was furthest, after all nodes have ended.";

pub(crate) use arguments::{ExportArguments, ImportArguments};
#[cfg(feature = "kafka")]
pub(crate) use run::{address_of, export, import, options};

/// Without Kafka there is no topic.
#[cfg(not(feature = "kafka"))]
pub(crate) fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    let ExportArguments { data: _, log, config: _, json: _ } = arguments;
    Err(without(log))
}

/// Without Kafka there is no topic.
#[cfg(not(feature = "kafka"))]
pub(crate) fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    let ImportArguments { data: _, log, config: _, again: _, json: _ } = arguments;
    Err(without(log))
}

#[cfg(not(feature = "kafka"))]
fn without(log: &str) -> Failure {
    Failure::new(format!(
        "--log {log}: this binary was built without Kafka; build it with \
         `cargo build --profile dist`, without --no-default-features"
    ))
}
