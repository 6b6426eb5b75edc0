//! `upesi snapshot`: stores a snapshot next to the log of a stopped switch. [`SnapshotChecks`]
//! compares snapshots with a replay, for `verify` and `restore`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use harness::Progress;
use journal::{FileLog, LogOptions, RealDisk, TailPolicy, TieredDisk, Verify};
use ledger::snapshot::StateHeader;
use ledger::{Digest, EvictedRows, LogIndex, State};
use ports::{Disk, DiskError, Log};
use record::frame::Tail;
use serde::Serialize;
use snapshots::{
    InvalidFile, OfflineSource, ReplayStore, SnapshotFile, list, load, take_offline, unpaced,
};

use crate::CliError;
use crate::cli::stdout::print_json;
use crate::cli::units::{Bytes, counted};
use crate::config::Config;
use crate::data::encryption::{Access, unlocked};
use crate::data::layout::refuse_without_log;
use crate::operate::quarantine;
use crate::serve::open_store::StorePaths;
use crate::serve::truncation;

/// The newest snapshot.
#[derive(Debug, Serialize)]
struct Report {
    /// Its last record.
    log_index: u64,
    file: String,
    /// Length in bytes; `None` if the snapshot existed before.
    bytes: Option<u64>,
    /// Records replayed for it.
    records: u64,
    /// Unusable snapshots that were removed, each with the reason.
    removed: Vec<String>,
    seconds: f64,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi snapshot --data /var/lib/upesi          before an upgrade, or after a long import
  upesi snapshot --data /var/lib/upesi --json
A running switch locks its directory. It takes snapshots itself ([snapshot] in its configuration)
and on demand:
  curl -X POST -H \"Authorization: Bearer $(cat /var/lib/upesi/admin-token)\" \\
       http://127.0.0.1:3001/snapshots";

/// Arguments of `snapshot`.
#[derive(clap::Args)]
pub(crate) struct SnapshotArguments {
    /// Directory of the log. The switch must not be running on it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn snapshot(arguments: &SnapshotArguments) -> Result<(), CliError> {
    let started = Instant::now();
    let data = arguments.data.display();
    let failed = |what: String| CliError::new(format!("{data}: {what}"));
    refuse_without_log(&arguments.data)?;
    let opened = RealDisk::open(&arguments.data).and_then(TieredDisk::open);
    let disk = opened.map_err(|error| match error {
        DiskError::InUse(_) => failed(format!(
            "a switch is running on this directory; request a snapshot from it: curl -X POST -H \
             \"Authorization: Bearer $(cat {data}/admin-token)\" http://127.0.0.1:3001/snapshots"
        )),
        error => failed(error.to_string()),
    })?;
    let disk = unlocked(disk, Access::Write)?;
    let quarantined = quarantine::load(&disk).map_err(failed)?;
    let options = LogOptions { verify: Verify::LastSegment, ..LogOptions::default() };
    let (mut log, _recovery) =
        FileLog::open(disk.clone(), options).map_err(|error| failed(error.to_string()))?;
    let quarantine = quarantine::for_replay(&quarantined);
    let mut progress = Progress::new("frames read and blocks stored", None);
    let mut steps = 0;
    let mut pace = || {
        steps += 1;
        progress.show(steps);
        Ok(())
    };
    let source = OfflineSource { frames: &log.frames(), quarantine: &quarantine };
    let paths = StorePaths::new(&Config::default(), &arguments.data, log.tail().identity);
    let paths = paths.with_cipher(disk.cipher());
    let store = paths.open(&mut log, Some(TailPolicy::Refuse))?;
    let replay_store = ReplayStore { cold_tier: paths.cold_tier(&store)?, store };
    let taken = take_offline(&disk, (source, Some(replay_store)), &mut pace);
    progress.end();
    let taken = taken.map_err(|error| failed(error.to_string()))?;
    let newest = list(&disk).map_err(|error| failed(error.to_string()))?.into_iter().next();
    let newest = newest.ok_or_else(|| failed("the log has no record yet".into()))?;
    let report = Report {
        log_index: newest.log_index.0,
        file: newest.name,
        bytes: taken.as_ref().map(|taken| taken.bytes),
        records: taken.as_ref().map_or(0, |taken| taken.records),
        removed: taken.map(|taken| taken.skipped).unwrap_or_default(),
        seconds: started.elapsed().as_secs_f64(),
    };
    print(&report, arguments.json)
}

fn print(report: &Report, json: bool) -> Result<(), CliError> {
    if json {
        return print_json(report);
    }
    for why in &report.removed {
        println!("removed an unusable snapshot: {why}");
    }
    match report.bytes {
        Some(bytes) => println!(
            "{}: state after record {}, {}; replayed {} in {:.1} s",
            report.file,
            report.log_index,
            Bytes(bytes),
            counted(report.records, "record"),
            report.seconds
        ),
        None => println!(
            "{}: already has the state after the last record, {}",
            report.file, report.log_index
        ),
    }
    Ok(())
}

/// Compares snapshots with a replay from the first record. Their faults are kept until the whole
/// log was read, because a fault of the log comes first.
#[derive(Default)]
pub(crate) struct SnapshotChecks {
    unchecked: BTreeMap<LogIndex, SnapshotSummary>,
    valid: u64,
    faults: Vec<SnapshotFault>,
}

/// The content of a snapshot, as far as it is compared.
struct SnapshotSummary {
    file: SnapshotFile,
    tail: Tail,
    head: StateHeader,
    hash: Digest,
}

/// A snapshot that is damaged or differs from the log.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotFault {
    pub(crate) file: String,
    /// Byte of the damage in the file, if known.
    pub(crate) offset: Option<u64>,
    pub(crate) log_index: LogIndex,
    pub(crate) line: String,
}

impl SnapshotChecks {
    /// Reads and checks every snapshot, one at a time.
    pub(crate) fn read(disk: &impl Disk) -> Result<Self, DiskError> {
        let mut checks = Self::default();
        for file in list(disk)? {
            let log_index = file.log_index;
            match SnapshotSummary::read(disk, file) {
                Ok(summary) => drop(checks.unchecked.insert(log_index, summary)),
                Err(invalid) => {
                    let line = format!("{invalid}. {ADVICE}");
                    let InvalidFile { name: file, offset, .. } = invalid;
                    checks.faults.push(SnapshotFault { file, offset, log_index, line });
                }
            }
        }
        Ok(checks)
    }

    /// Compares the snapshot of this record, if there is one, with the replayed state.
    pub(crate) fn check(&mut self, tail: &Tail, state: &State) {
        let Some(summary) = self.unchecked.remove(&tail.end) else { return };
        let replayed = Tail { durable: summary.tail.durable, ..*tail };
        let differs = [
            (summary.tail != replayed, "the chain head"),
            (summary.head != header_of(state), "the header of the state"),
            (summary.hash != state.hash(), "the state hash"),
        ];
        match differs.into_iter().find(|(differs, _)| *differs) {
            Some((_, what)) => {
                self.faults.push(summary.fault(&format!("{what} differs from that of the log")));
            }
            None => self.valid += 1,
        }
    }

    /// The number of valid snapshots, at the end of the log.
    ///
    /// # Errors
    /// The first faulty snapshot.
    pub(crate) fn close(mut self, end: &Tail) -> Result<u64, SnapshotFault> {
        for summary in self.unchecked.into_values() {
            let SnapshotSummary { file, tail, .. } = &summary;
            let is_ahead = tail.identity == end.identity && end.end < tail.end;
            self.faults.push(match is_ahead {
                true => SnapshotFault {
                    file: file.name.clone(),
                    offset: None,
                    log_index: tail.end,
                    line: truncation::missing_end(&file.name, tail.end, end.end),
                },
                false => summary.fault("no batch of the log ends with its record"),
            });
        }
        match self.faults.into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(self.valid),
        }
    }
}

/// Advice for an invalid snapshot.
const ADVICE: &str = "The log is not affected; remove the file, and the next start uses an older \
                      snapshot or replays the log";

impl SnapshotSummary {
    fn read(disk: &impl Disk, file: SnapshotFile) -> Result<Self, InvalidFile> {
        let snapshot = load(disk, &file, &mut unpaced)?;
        Ok(Self {
            file,
            tail: snapshot.tail,
            head: header_of(&snapshot.state),
            hash: snapshot.state.hash(),
        })
    }

    fn fault(&self, what: &str) -> SnapshotFault {
        let file = self.file.name.clone();
        let line = format!("{file}: {what}. {ADVICE}");
        SnapshotFault { file, offset: None, log_index: self.tail.end, line }
    }
}

/// The header of a state, without the evicted rows, which are no part of the log's content.
fn header_of(state: &State) -> StateHeader {
    StateHeader { evicted: EvictedRows::default(), ..state.tables().header() }
}
