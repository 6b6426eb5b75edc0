//! `upesi cluster trim`: frees space on the brokers.
//!
//! # Deleted messages
//! A message is deleted if its records are in compressed segments of a backup, and if every live
//! node has applied it. Segments were read back and compared when they were compressed, and are
//! never written again. The command first checks that the backup still has all of them and every
//! other file that a restore needs. The backup must belong to this log: its chain head is compared
//! with a node's directory.
//!
//! A node that was down for longer than the retained part of the topic cannot continue from its own
//! directory. It starts from the backup (`serve --from`), as a new node does.

use std::path::PathBuf;

#[cfg(not(feature = "kafka"))]
use crate::CliError;
use crate::cli::admin_address::AdminAddress;

const EXAMPLES: &str = "\
Examples:
  upesi cluster trim --data /var/lib/upesi-a --log kafka://b1:9092,b2:9092,b3:9092/upesi \\
      --copy s3://backups/hub-1 --dry-run
  upesi backup --data /var/lib/upesi-a --to s3://backups/hub-1     first, if there is no backup
Afterwards new nodes, and nodes that were down for long, start from the backup:
  upesi serve --data NEW --log kafka://... --node NAME --from s3://backups/hub-1";

/// Arguments of `cluster trim`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TrimArguments {
    /// Data directory of a node; the node may be running.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Topic of the log: kafka://HOST:PORT,HOST:PORT/TOPIC, as for `serve`.
    #[arg(long, value_name = "URL")]
    log: String,
    /// The backup: a destination of `backup --to`.
    #[arg(long, value_name = "URL|DIR")]
    copy: String,
    /// Number of backed-up records to keep in the topic.
    ///
    /// A node that is down for a while continues from them.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    keep: u64,
    #[command(flatten)]
    switch: AdminAddress,
    /// Configuration file (TOML) of the node, for its [kafka] settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only show how much would be deleted.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[cfg(feature = "kafka")]
pub(super) use work::run;

/// Fails: this build has no Kafka.
#[cfg(not(feature = "kafka"))]
pub(super) fn run(arguments: &TrimArguments) -> Result<(), CliError> {
    let TrimArguments { log, .. } = arguments;
    Err(CliError::new(format!(
        "--log {log}: this binary was built without Kafka; build it with \
         `cargo build --profile dist`, without --no-default-features"
    )))
}

#[cfg(feature = "kafka")]
mod work {
    use journal::{OfflineReader, RealDisk, TieredDisk, open_blob_store, survey};
    use ledger::LogIndex;
    use operations::Cluster;
    use ports::StopReading;
    use record::frame::{FrameHeader, Tail};
    use serde::Serialize;

    use super::super::status::cluster_of;
    use super::TrimArguments;
    use crate::CliError;
    use crate::cli::stdout::print_json;
    use crate::cli::units::counted;
    use crate::config::Config;
    use crate::data::encryption::{Access, unlocked};
    use crate::data::layout::MARKER;
    use crate::data::migrate::{address_of, options};

    /// The deleted and the kept messages.
    #[derive(Serialize)]
    struct Report {
        topic: String,
        /// The first record of the topic's first message; `None` if nothing can be deleted.
        first_record: Option<u64>,
        deleted_messages: u64,
        kept_messages: u64,
        dry_run: bool,
    }

    pub(crate) fn run(arguments: &TrimArguments) -> Result<(), CliError> {
        let address = address_of(&arguments.log)?;
        let config = Config::read(arguments.config.as_deref())?;
        let records = open_copy(arguments, &address.topic)?;
        let copied = backup_end(arguments, &records)?;
        let (_, cluster) = cluster_of(&arguments.switch)?;
        let until = last_deletable(copied.end, arguments.keep, &cluster)?;
        let options = options("cluster-trim", config.kafka.access().security()?);
        let found = match frame_after(&records, until)? {
            Some(frame) if 0 < until.0 => {
                let trimming = kafka::trim(&address, &options, &frame, arguments.dry_run);
                let trimming = trimming.map_err(|error| CliError::new(error.to_string()))?;
                trimming.first.map(|_| (trimming, frame.first))
            }
            _ => None,
        };
        let (deleted, kept) = found.as_ref().map_or((0, 0), |(trimming, _)| {
            (trimming.deleted(), (trimming.offsets.end - trimming.offsets.start) as u64)
        });
        print_report(
            arguments,
            &Report {
                topic: address.topic,
                first_record: found.map(|(_, first)| first.0),
                deleted_messages: deleted,
                kept_messages: kept - deleted,
                dry_run: arguments.dry_run,
            },
        )
    }

    /// The records of a node's directory.
    fn open_copy(
        arguments: &TrimArguments,
        topic: &str,
    ) -> Result<OfflineReader<TieredDisk<RealDisk>>, CliError> {
        let data = &*arguments.data;
        let failed = |what: String| CliError::new(format!("{}: {what}", data.display()));
        let marked = std::fs::read_to_string(data.join(MARKER)).unwrap_or_default();
        if marked != topic {
            return Err(failed(format!("not a copy of topic {topic}")));
        }
        let disk = RealDisk::open_live(data).and_then(TieredDisk::open_live);
        let disk = disk.map_err(|error| failed(error.to_string()))?;
        let disk = unlocked(disk, Access::Read)?;
        OfflineReader::open(disk).map_err(|error| failed(error.to_string()))
    }

    /// The end of the compressed segments of the backup, which must belong to this log.
    fn backup_end(
        arguments: &TrimArguments,
        records: &OfflineReader<TieredDisk<RealDisk>>,
    ) -> Result<Tail, CliError> {
        let failed = |error: String| CliError::new(format!("--copy: {error}"));
        let place = open_blob_store(&arguments.copy).map_err(|error| failed(error.to_string()))?;
        let copied = survey(&*place).map_err(|error| failed(error.to_string()))?;
        let mut is_of_log = copied.end.0 == 0;
        let visited = records.visit(copied.end, &mut |frame| {
            is_of_log |= frame.header().last() == copied.end && frame.chain() == copied.chain;
            Err(StopReading)
        });
        visited.map_err(|error| failed(error.to_string()))?;
        match is_of_log && copied.identity == records.identity() {
            true => Ok(copied),
            false => Err(failed(format!(
                "{} has another log than {}, or a later part of it",
                place.url(),
                arguments.data.display()
            ))),
        }
    }

    /// The last record whose message can be deleted.
    fn last_deletable(
        copied: LogIndex,
        keep: u64,
        cluster: &Cluster,
    ) -> Result<LogIndex, CliError> {
        if cluster.node.is_empty() {
            return Err(CliError::new("--admin: that switch does not use Kafka"));
        }
        let applied = cluster.nodes.iter().map(|node| node.log_index).min().unwrap_or(0);
        Ok(LogIndex(copied.0.min(applied).saturating_sub(keep)))
    }

    /// The header of the first frame after a record.
    fn frame_after(
        records: &OfflineReader<TieredDisk<RealDisk>>,
        until: LogIndex,
    ) -> Result<Option<FrameHeader>, CliError> {
        let mut found = None;
        let visited = records.visit(LogIndex(until.0 + 1), &mut |frame| {
            // The frame with the record may begin before it.
            if frame.header().first <= until {
                return Ok(());
            }
            found = Some(*frame.header());
            Err(StopReading)
        });
        visited.map_err(|error| CliError::new(error.to_string()))?;
        Ok(found)
    }

    fn print_report(arguments: &TrimArguments, report: &Report) -> Result<(), CliError> {
        if arguments.json {
            return print_json(report);
        }
        let Report { topic, first_record, deleted_messages: deleted, kept_messages: kept, .. } =
            report;
        match (first_record, arguments.dry_run) {
            (Some(_), _) if *deleted == 0 => println!("topic {topic}: already trimmed"),
            (Some(first), true) => println!(
                "topic {topic}: would delete {} and keep {kept}; the first kept record would be \
                 {first}",
                counted(*deleted, "message")
            ),
            (Some(first), false) => println!(
                "topic {topic}: deleted {}; it begins with record {first}. Nodes without the \
                 earlier records start with --from {}",
                counted(*deleted, "message"),
                arguments.copy
            ),
            (None, _) => println!(
                "topic {topic}: nothing to delete; the topic has no backed-up records except the \
                 last {} (--keep)",
                arguments.keep
            ),
        }
        Ok(())
    }
}
