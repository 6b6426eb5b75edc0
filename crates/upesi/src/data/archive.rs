//! `upesi archive`: moves closed segments to an archive, or compresses them in place. A running
//! switch does the same in the background (`serve/background.rs`).

use std::path::PathBuf;
use std::time::Duration;

use harness::Progress;
use journal::{
    ArchivedSegment, BlobStore, Destination, PendingSegment, RealDisk, Retention, Tier, TieredDisk,
};
use ledger::Stamp;
use serde::Serialize;

use crate::CliError;
use crate::cli::stdout::print_json;
use crate::cli::table::{Align, Table};
use crate::cli::units::{Bytes, Count, counted};
use crate::data::encryption::{Access, unlocked};
use crate::data::layout::refuse_without_log;

const EXAMPLES: &str = "\
Examples:
  upesi archive --data /var/lib/upesi --to file:///mnt/archive
  upesi archive --data /var/lib/upesi                            compress in place
  upesi archive --data /var/lib/upesi --to file:///mnt/archive --keep 8 --dry-run
A running switch archives in the background; see [archive] in its configuration.";

/// Arguments of `archive`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ArchiveArguments {
    /// Directory of the log. The switch must not be running on it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Destination: a directory, s3://BUCKET/PREFIX, gs:// or az://.
    ///
    /// The directory must exist (also as file:///DIRECTORY). Buckets need the feature object-stores
    /// and credentials in the environment. The destination must be empty or hold segments of this
    /// log. [default: compress in place]
    #[arg(long, value_name = "URL|DIR")]
    to: Option<String>,
    /// Number of newest closed segments to leave alone.
    #[arg(long, value_name = "SEGMENTS", default_value_t = 0)]
    keep: usize,
    /// Minimum age of a closed segment, in hours.
    #[arg(long, value_name = "HOURS", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    after_hours: u32,
    /// Only list the segments that would be archived.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The segments that were or would be archived.
#[derive(Serialize)]
struct Report {
    to: Option<String>,
    dry_run: bool,
    segments: Vec<Line>,
    plain_bytes: u64,
    packed_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Line {
    first: u64,
    last: u64,
    plain_bytes: u64,
    /// `None` until the segment is compressed.
    packed_bytes: Option<u64>,
}

pub(crate) fn archive(arguments: &ArchiveArguments) -> Result<(), CliError> {
    let place = arguments.data.display().to_string();
    let failed = |what: String| CliError::new(format!("{place}: {what}"));
    refuse_without_log(&arguments.data)?;
    let disk = match arguments.dry_run {
        true => RealDisk::open_to_read(&arguments.data),
        false => RealDisk::open(&arguments.data),
    };
    let log = disk.and_then(TieredDisk::open).map_err(|error| failed(error.to_string()))?;
    let log = unlocked(log, Access::Write)?;
    let to = arguments.to.as_deref().map(journal::open_blob_store).transpose();
    let to = to.map_err(|error| CliError::new(error.to_string()))?;
    let destination = to.as_deref().map_or(Destination::InPlace, Destination::BlobStore);
    let age = Duration::from_secs(u64::from(arguments.after_hours) * 3_600);
    let retention = Retention { keep_segments: arguments.keep, closed_by: before_now(age) };
    let due =
        journal::due(&log, &retention, destination).map_err(|error| failed(error.to_string()))?;
    let lines = match arguments.dry_run {
        true => due.iter().map(Line::planned).collect(),
        false => archive_segments(&log, &due, to.as_deref(), destination)?,
    };
    let report = Report {
        to: arguments.to.clone(),
        dry_run: arguments.dry_run,
        plain_bytes: lines.iter().map(|line| line.plain_bytes).sum(),
        packed_bytes: lines.iter().map(|line| line.packed_bytes).sum(),
        segments: lines,
    };
    match arguments.json {
        true => print_json(&report),
        false => {
            print(&report);
            Ok(())
        }
    }
}

/// Archives one segment after the other. An error reports how many were archived before it.
fn archive_segments(
    log: &TieredDisk<RealDisk>,
    due: &[PendingSegment],
    place: Option<&dyn BlobStore>,
    destination: Destination<'_>,
) -> Result<Vec<Line>, CliError> {
    if let Some(place) = place {
        journal::claim_for(log, place).map_err(|error| CliError::new(error.to_string()))?;
    }
    let total: u64 = due.iter().map(|due| due.segment.plain_bytes).sum();
    let mut progress = Progress::new("MiB", Some(total >> 20));
    let mut lines: Vec<Line> = Vec::new();
    let mut before = 0;
    for due in due {
        let archived = journal::archive_segment(log, due, destination, &mut |_| {
            progress.show(before >> 20);
            Ok(())
        });
        progress.end();
        let archived = archived.map_err(|error| {
            let done = counted(lines.len() as u64, "segment");
            CliError::new(format!("{error}: archived {done} before; run the command again"))
        })?;
        before += archived.plain_bytes;
        lines.push(Line::done(&archived));
    }
    Ok(lines)
}

impl Line {
    fn planned(due: &PendingSegment) -> Self {
        let packed_bytes = match due.segment.tier {
            Tier::Plain => None,
            Tier::Compressed | Tier::Archived(_) => Some(due.segment.stored_bytes),
        };
        Self {
            first: due.segment.first.0,
            last: due.after.end.0,
            plain_bytes: due.segment.plain_bytes,
            packed_bytes,
        }
    }

    fn done(archived: &ArchivedSegment) -> Self {
        Self {
            first: archived.first.0,
            last: archived.last.0,
            plain_bytes: archived.plain_bytes,
            packed_bytes: Some(archived.compressed_bytes),
        }
    }
}

/// The time `age` ago.
pub(crate) fn before_now(age: Duration) -> Stamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Stamp(now.unwrap_or_default().saturating_sub(age).as_micros() as u64)
}

fn print(report: &Report) {
    let mut table = Table::new([
        ("first record", Align::Right),
        ("last record", Align::Right),
        ("size", Align::Right),
        ("compressed", Align::Right),
    ]);
    for Line { first, last, plain_bytes, packed_bytes } in &report.segments {
        let packed = packed_bytes.map_or("-".to_owned(), |bytes| Bytes(bytes).to_string());
        let plain = Bytes(*plain_bytes).to_string();
        table.add([Count(*first).to_string(), Count(*last).to_string(), plain, packed]);
    }
    if !report.segments.is_empty() {
        println!("{table}");
    }
    let (segments, are) = match report.segments.len() {
        0 => return println!("no closed segment is due"),
        1 => ("1 segment".to_owned(), "is"),
        count => (counted(count as u64, "segment"), "are"),
    };
    match (report.dry_run, &report.to) {
        (true, _) => println!("{segments} {are} due; nothing was done"),
        (false, Some(place)) => println!("{segments} moved to {place}, read back and compared"),
        (false, None) => {
            println!("{segments} compressed in the directory, read back and compared");
        }
    }
}
