//! `upesi export-log` and `upesi import-log`: a scheme moves between a log in files and one on
//! Kafka, with its history.
//!
//! Where the log goes on is told by one file beside the copy, the name of its topic: with it the
//! directory is a node's, without it a switch has it alone. It is written when all of the log is in
//! the topic and before anybody can go on there, and removed when all of the log is here and nobody
//! can add to the topic any more.

#[cfg(feature = "kafka")]
mod work;

use std::path::PathBuf;

#[cfg(not(feature = "kafka"))]
use crate::Failure;

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

/// Arguments of `export-log`.
#[derive(clap::Args)]
pub(crate) struct ExportArguments {
    /// Directory of the log. The switch must not be running on it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where to: kafka://HOST:PORT,HOST:PORT/TOPIC, as for `serve`.
    #[arg(long, value_name = "URL")]
    log: String,
    /// Configuration file (TOML) of the switch, for how brokers are known.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `import-log`.
#[derive(clap::Args)]
pub(crate) struct ImportArguments {
    /// The directory to make: empty, or the copy of a node that has ended.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where from: kafka://HOST:PORT,HOST:PORT/TOPIC, as for `serve`.
    #[arg(long, value_name = "URL")]
    log: String,
    /// Configuration file (TOML) of the switch, for the lengths of segments, the store and how
    /// brokers are known.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Take the log though it has left the topic before, for another directory: that one is lost,
    /// or was never served. A scheme that goes on in two places has two truths.
    #[arg(long)]
    again: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[cfg(feature = "kafka")]
pub(crate) use work::{address_of, export, import, options};

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
        "--log {log}: this binary was built without Kafka; build it with `cargo build --release`, \
         without --no-default-features"
    ))
}
