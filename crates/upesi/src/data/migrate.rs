//! `upesi export-log` and `upesi import-log`: move a log with its history between files and a Kafka
//! topic.
//!
//! A marker file next to the log names its topic. With it, the directory belongs to a node; without
//! it, to a single switch. The export writes it once the whole log is in the topic and before any
//! node can append there. The import removes it once the whole log is in the directory and no node
//! can append to the topic any more.

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
If interrupted, run the same command again. Until the export is complete, the switch can continue
without Kafka. `upesi import-log` moves the log back.";

pub(crate) const IMPORT_EXAMPLES: &str = "\
Examples:
  upesi import-log --data /var/lib/upesi-a --log kafka://b1:9092,b2:9092,b3:9092/upesi
  upesi serve --data /var/lib/upesi-a                 the same scheme, without Kafka
If the brokers are lost for good, stop all nodes and `upesi restore --from` the copy of the node
with the highest log index.";

pub(crate) use arguments::{ExportArguments, ImportArguments};
#[cfg(feature = "kafka")]
pub(crate) use run::{address_of, export, import, options};

/// Fails: this build has no Kafka.
#[cfg(not(feature = "kafka"))]
pub(crate) fn export(arguments: &ExportArguments) -> Result<(), CliError> {
    let ExportArguments { data: _, log, config: _, json: _ } = arguments;
    Err(without_kafka(log))
}

/// Fails: this build has no Kafka.
#[cfg(not(feature = "kafka"))]
pub(crate) fn import(arguments: &ImportArguments) -> Result<(), CliError> {
    let ImportArguments { data: _, log, config: _, again: _, json: _ } = arguments;
    Err(without_kafka(log))
}

#[cfg(not(feature = "kafka"))]
fn without_kafka(log: &str) -> CliError {
    CliError::new(format!(
        "--log {log}: this binary was built without Kafka; build it with \
         `cargo build --profile dist`, without --no-default-features"
    ))
}
