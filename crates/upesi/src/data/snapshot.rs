//! `upesi snapshot`: stores the state beside a log that no switch is running on, and says what is
//! there; and what `verify` and `restore` ask of snapshots.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use harness::Progress;
use journal::{FileLog, Options, RealDisk, TailPolicy, TieredDisk, Verify};
use ledger::snapshot::StateHeader;
use ledger::{Digest, EvictedRows, LogIndex, State};
use ports::{Disk, DiskError, Log};
use record::frame::Tail;
use serde::Serialize;
use snapshots::{InvalidFile, ReplayStore, SnapshotFile, Source, list, load, take, unpaced};

use crate::CliError;
use crate::cli::stdout::print_json;
use crate::cli::units::{Bytes, Count};
use crate::config::Config;
use crate::data::layout::refuse_without_log;
use crate::operate::quarantine;
use crate::serve::open_store;
use crate::serve::truncation;

/// What there is.
#[derive(Debug, Serialize)]
struct Shown {
    /// Last record of the newest snapshot.
    log_index: u64,
    file: String,
    /// Length of the one just taken, in bytes; none when there was one already.
    bytes: Option<u64>,
    /// Records decided again for it.
    records: u64,
    /// Files that could not be used, each with the reason; they were removed.
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
            "a switch is running there; have it take one: curl -X POST -H \"Authorization: Bearer \
             $(cat {data}/admin-token)\" http://127.0.0.1:3001/snapshots (its admin address)"
        )),
        error => failed(error.to_string()),
    })?;
    let quarantined = quarantine::load(&disk).map_err(failed)?;
    let options = Options { verify: Verify::LastSegment, ..Options::default() };
    let (mut log, _recovery) =
        FileLog::open(disk.clone(), options).map_err(|error| failed(error.to_string()))?;
    let without = quarantine::of(&quarantined);
    let mut progress = Progress::new("frames read and blocks stored", None);
    let mut pieces = 0;
    let mut pace = || {
        pieces += 1;
        progress.show(pieces);
        Ok(())
    };
    let source = Source { frames: &log.frames(), quarantine: &without };
    let place = open_store::Place::new(&Config::default(), &arguments.data, log.tail().identity);
    let store = place.open(&mut log, Some(TailPolicy::Refuse))?;
    let beside = ReplayStore { side: place.side(&store)?, store };
    let taken = take(&disk, (source, Some(beside)), &mut pace);
    progress.end();
    let taken = taken.map_err(|error| failed(error.to_string()))?;
    let newest = list(&disk).map_err(|error| failed(error.to_string()))?.into_iter().next();
    let newest = newest.ok_or_else(|| failed("the log has no record yet".into()))?;
    let shown = Shown {
        log_index: newest.log_index.0,
        file: newest.name,
        bytes: taken.as_ref().map(|taken| taken.bytes),
        records: taken.as_ref().map_or(0, |taken| taken.records),
        removed: taken.map(|taken| taken.passed_over).unwrap_or_default(),
        seconds: started.elapsed().as_secs_f64(),
    };
    print(&shown, arguments.json)
}

fn print(shown: &Shown, json: bool) -> Result<(), CliError> {
    if json {
        return print_json(shown);
    }
    for why in &shown.removed {
        println!("removed an unusable snapshot: {why}");
    }
    match shown.bytes {
        Some(bytes) => println!(
            "{}: state after record {}, {}; {} records replayed in {:.1} s",
            shown.file,
            shown.log_index,
            Bytes(bytes),
            Count(shown.records),
            shown.seconds
        ),
        None => println!(
            "{}: already has the state after the last record, {}",
            shown.file, shown.log_index
        ),
    }
    Ok(())
}

/// What snapshots say, to be held against a log that is decided again from its first record. What
/// is wrong with one is kept until the log itself was read: the log is what counts.
#[derive(Default)]
pub(crate) struct Claims {
    by_log_index: BTreeMap<LogIndex, Claim>,
    good: u64,
    untrue: Vec<FalseClaim>,
}

/// What one snapshot says.
struct Claim {
    file: SnapshotFile,
    tail: Tail,
    head: StateHeader,
    hash: Digest,
}

/// A snapshot that is not what the log says, and why.
#[derive(Clone, Debug)]
pub(crate) struct FalseClaim {
    /// Its file, and where in it, if it is known.
    pub(crate) file: String,
    pub(crate) offset: Option<u64>,
    pub(crate) log_index: LogIndex,
    pub(crate) line: String,
}

impl Claims {
    /// Reads and checks every snapshot, one at a time.
    pub(crate) fn read(disk: &impl Disk) -> Result<Self, DiskError> {
        let mut claims = Self::default();
        for file in list(disk)? {
            let log_index = file.log_index;
            match Claim::read(disk, file) {
                Ok(claim) => drop(claims.by_log_index.insert(log_index, claim)),
                Err(fault) => {
                    let line = format!("{fault}. {ADVICE}");
                    let InvalidFile { name: file, offset, .. } = fault;
                    claims.untrue.push(FalseClaim { file, offset, log_index, line });
                }
            }
        }
        Ok(claims)
    }

    /// Holds what one says against what the log came to there, if one speaks of that record.
    pub(crate) fn check(&mut self, tail: &Tail, state: &State) {
        let Some(claim) = self.by_log_index.remove(&tail.end) else { return };
        let here = Tail { durable: claim.tail.durable, ..*tail };
        let differs = [
            (claim.tail != here, "the chain head"),
            (claim.head != head_of(state), "what there is one of"),
            (claim.hash != state.hash(), "the state hash"),
        ];
        match differs.into_iter().find(|(differs, _)| *differs) {
            Some((_, what)) => {
                self.untrue.push(claim.untrue(&format!("{what} is not that of the log")));
            }
            None => self.good += 1,
        }
    }

    /// How many are good, once the log was read to its end.
    ///
    /// # Errors
    /// The first that is not.
    pub(crate) fn close(mut self, end: &Tail) -> Result<u64, FalseClaim> {
        for claim in self.by_log_index.into_values() {
            let Claim { file, tail, .. } = &claim;
            let ahead = tail.identity == end.identity && end.end < tail.end;
            self.untrue.push(match ahead {
                true => FalseClaim {
                    file: file.name.clone(),
                    offset: None,
                    log_index: tail.end,
                    line: truncation::missing(&format!("{} was", file.name), tail.end, end.end),
                },
                false => claim.untrue("no batch of the log ends with that record"),
            });
        }
        match self.untrue.into_iter().next() {
            Some(untrue) => Err(untrue),
            None => Ok(self.good),
        }
    }
}

/// What to do about a snapshot that is not good.
const ADVICE: &str = "The log is not touched by that: remove the file, and a start goes on from an \
                      older one or from the log alone";

impl Claim {
    fn read(disk: &impl Disk, file: SnapshotFile) -> Result<Self, InvalidFile> {
        let snapshot = load(disk, &file, &mut unpaced)?;
        Ok(Self {
            file,
            tail: snapshot.tail,
            head: head_of(&snapshot.state),
            hash: snapshot.state.hash(),
        })
    }

    fn untrue(&self, what: &str) -> FalseClaim {
        let file = self.file.name.clone();
        let line = format!("{file}: {what}. {ADVICE}");
        FalseClaim { file, offset: None, log_index: self.tail.end, line }
    }
}

/// What there is one of, but for where rows live, which is no part of what a log says.
fn head_of(state: &State) -> StateHeader {
    StateHeader { evicted: EvictedRows::default(), ..state.parts().head() }
}
