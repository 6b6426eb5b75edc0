//! `upesi restore`: a new data directory from a copy in another place, or from a plain copy of a
//! data directory, proved before it has its name.
//!
//! # Phases
//! What a place holds is brought under another name first, and there read and decided from its
//! first record on; whatever was interrupted goes on. A plain copy is read and decided where it is,
//! then copied, read back and compared. Both ways the snapshots are held against the decisions, and
//! only then does everything move to its place ([`staging`]). So a directory holds the whole log or
//! none, and nothing is ever overwritten.
//!
//! What ends goes to a cold store while the log is decided, and the state at the end is stored as a
//! snapshot: the first start goes on from there, and decides nothing a second time. Both stand
//! beside the log as those of a switch do, and are held against its chain as ever.

mod staging;

#[cfg(feature = "kafka")]
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use harness::Progress;
use journal::{ArchiveError, LocatedFrame, Location, LogWalk, RealDisk, TieredDisk};
use ledger::LogIndex;
use ports::{ColdStore, Disk, DiskError, DiskFile};
use record::frame::Tail;
use sequencer::Replay;
use serde::Serialize;

use crate::CliError;
use crate::cli::stdout::{moment, print_json};
use crate::config::Config;
#[cfg(feature = "kafka")]
use crate::data::layout;
use crate::data::layout::has_segments;
use crate::data::snapshot::Claims;
use crate::inspect::offline::{Continue, OfflineLog};
use crate::serve::open_store;

use staging::StagingDirectory;

/// Files are copied in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  upesi restore --from file:///mnt/backup --data /var/lib/upesi
  upesi restore --from file:///mnt/backup --data /var/lib/upesi --state-hash 9f86d0...
  upesi restore --from s3://backups/hub-1 --data /var/lib/upesi
  upesi restore --from /mnt/copy-of-upesi --data /var/lib/upesi --json
A plain copy of a data directory needs all segments; snapshots are optional. If the copy is damaged,
the command names the damage and restores nothing. `upesi verify` and GET /state print the state
hash when the copy is made.
Never run the restored switch and the old one at the same time: both would accept transfers for the
same accounts. An interrupted restore continues where it stopped.";

/// Arguments of `restore`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RestoreArguments {
    /// Place of the copy: any place that `backup --to` accepts.
    ///
    /// A data directory on which no switch runs is accepted too. It is only read.
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Directory to create; must be empty or not exist.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Expected state hash, in hexadecimal; the restore fails on another.
    #[arg(long, value_name = "HASH", value_parser = hash)]
    state_hash: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

fn hash(text: &str) -> Result<String, &'static str> {
    match text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        true => Ok(text.to_owned()),
        false => Err("expected 64 hexadecimal digits, as printed by `upesi verify`"),
    }
}

/// What was made and proved.
#[derive(Debug, Serialize)]
struct Proof {
    ok: bool,
    segments: usize,
    /// Names of the other files.
    files: Vec<String>,
    bytes: u64,
    records: u64,
    batches: u64,
    last_record: u64,
    last_stamp: String,
    snapshots: u64,
    quarantined: usize,
    /// Bytes at the end that are a part of a write which a crash cut short.
    torn_bytes: u64,
    chain_head: String,
    state_hash: String,
    seconds: f64,
}

/// Makes a directory that is not there or empty from a copy, for a node that goes on from it.
#[cfg(feature = "kafka")]
pub(crate) fn begin(from: &str, data: &Path) -> Result<(), CliError> {
    if let Copy::Directory(path) = Copy::of(from)?
        && has_state(&path)
    {
        return adopt(&path, data);
    }
    let arguments = RestoreArguments {
        from: from.to_owned(),
        data: data.to_owned(),
        state_hash: None,
        json: false,
    };
    let proof = make(&arguments, StagingDirectory::of_node(data)?)?;
    println!(
        "upesi: began with the copy in {from}: {} records decided again, up to record {}, in \
         {:.1} s",
        proof.records, proof.last_record, proof.seconds
    );
    Ok(())
}

/// Whether a directory has a store and a snapshot: what a start needs beside the log.
#[cfg(feature = "kafka")]
fn has_state(path: &Path) -> bool {
    let snapshots = RealDisk::open_to_read(path).map(|disk| snapshots::list(&disk));
    path.join(layout::STORE).is_dir() && matches!(snapshots, Ok(Ok(files)) if !files.is_empty())
}

/// Takes log, snapshots and store of a node that has ended as they are. Nothing is decided again:
/// the log's chain is proved, the start goes on from the newest snapshot, and from then on this
/// node's state is held against that of the others, as every node's is.
#[cfg(feature = "kafka")]
fn adopt(from: &Path, data: &Path) -> Result<(), CliError> {
    let started = Instant::now();
    let target = StagingDirectory::of_node(data)?;
    target.begin_anew()?;
    let source = OfflineLog::open(from)?;
    let failed = |error: std::io::Error| target.failure(&error.to_string());
    let mut progress = Progress::new("MiB copied", None);
    let (_, bytes) = target.fill(&source)?;
    let stored = copy_tree(
        &from.join(layout::STORE),
        &target.unfinished().join(layout::STORE),
        &mut |copied| progress.show((bytes + copied) >> 20),
    );
    progress.end();
    let stored = stored.map_err(failed)?;
    let copied = OfflineLog::open(target.unfinished())?;
    let walked = copied.walk(&mut |_| Ok(())).map_err(|error| copied.failure(error))?;
    drop(copied);
    target.finish()?;
    println!(
        "upesi: began with the directory of a node, {}: log up to record {}, snapshots and store, \
         {} MB, in {:.1} s",
        from.display(),
        walked.tail.end.0,
        (bytes + stored) / 1_000_000,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Copies a directory with all that is in it, durably; gives the bytes, and tells of them on the
/// way.
#[cfg(feature = "kafka")]
fn copy_tree(from: &Path, to: &Path, tell: &mut dyn FnMut(u64)) -> std::io::Result<u64> {
    fs::create_dir_all(to)?;
    let mut bytes = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        bytes += match entry.file_type()?.is_dir() {
            true => copy_tree(&path, &copy, &mut |more| tell(bytes + more))?,
            false => {
                let copied = fs::copy(&path, &copy)?;
                File::open(&copy)?.sync_all()?;
                copied
            }
        };
        tell(bytes);
    }
    File::open(to)?.sync_all()?;
    Ok(bytes)
}

pub(crate) fn restore(arguments: &RestoreArguments) -> Result<(), CliError> {
    let proof = make(arguments, StagingDirectory::of(&arguments.data)?)?;
    print(&proof, arguments)
}

fn make(arguments: &RestoreArguments, target: StagingDirectory) -> Result<Proof, CliError> {
    let started = Instant::now();
    let made = match Copy::of(&arguments.from)? {
        Copy::Place(location) => target.bring(&location, arguments)?,
        Copy::Directory(path) => target.copy(&path, arguments)?,
    };
    let Made { files, bytes, proved } = made;
    let Proved { beside, walked, snapshots, quarantined } = proved;
    let Beside { records, state_hash } = target.put_beside(beside, &walked.tail)?;
    target.finish()?;
    Ok(Proof {
        ok: true,
        segments: walked.segments,
        files,
        bytes,
        records,
        batches: walked.frames,
        last_record: walked.tail.end.0,
        last_stamp: moment(walked.tail.stamp),
        snapshots,
        quarantined,
        torn_bytes: walked.torn.map_or(0, |torn| torn.bytes),
        chain_head: walked.tail.chain.to_string(),
        state_hash,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Where the log stands behind a frame.
pub(crate) fn tail_behind(placed: &LocatedFrame<'_>) -> Tail {
    let header = placed.frame.header();
    Tail {
        identity: header.identity,
        end: header.last(),
        durable: header.last(),
        stamp: header.batch.stamp,
        chain: placed.frame.chain(),
    }
}

/// The source of a data directory.
enum Copy {
    /// A copy that `upesi backup` keeps.
    Place(Location),
    /// A data directory, or a plain copy of one.
    Directory(PathBuf),
}

impl Copy {
    /// Reads the places that `backup --to` accepts. A directory with segments and without the
    /// marker of a place is a plain copy.
    fn of(from: &str) -> Result<Self, CliError> {
        let location = Location::parse(from).map_err(|error| CliError::new(error.to_string()))?;
        Ok(match location.directory() {
            Some(path) if has_segments(path) && !path.join(journal::MARKER).exists() => {
                Self::Directory(path.to_owned())
            }
            _ => Self::Place(location),
        })
    }
}

/// What was put under the name of what is not finished.
struct Made {
    /// Names of the files beside the segments.
    files: Vec<String>,
    bytes: u64,
    proved: Proved,
}

/// A log that was decided again.
struct Proved {
    beside: Deciding,
    walked: LogWalk,
    snapshots: u64,
    quarantined: usize,
}

/// The state at the end of the log, and the store that rows have left it for.
struct Deciding {
    replay: Replay,
    store: Arc<store::Disk>,
}

/// What was put beside the log.
struct Beside {
    records: u64,
    state_hash: String,
}

/// Decides the whole log again, and holds the snapshots and the hash that is wanted against it.
/// What ends goes to a new store in the directory `target`.
fn prove(log: &OfflineLog, target: &Path, wanted: Option<&str>) -> Result<Proved, CliError> {
    let mut claims = Claims::read(log.disk()).map_err(|error| log.failure(error))?;
    let segments = log.disk().segments().map_err(|error| log.failure(error))?;
    let first = segments.first().ok_or_else(|| log.failure("there is no log here"))?;
    let place = open_store::Place::new(&Config::default(), target, first.base.identity);
    let store = place.begin()?;
    let side = Some(place.side(&store)?);
    let (replay, walked) = log.replay_beside(side, &mut |replay, placed| {
        replay.apply(placed.frame, &mut |_, _, _| {})?;
        claims.check(&tail_behind(placed), replay.state());
        Ok(Continue::On)
    })?;
    let snapshots = claims.close(&walked.tail).map_err(|untrue| log.failure(untrue.line))?;
    let state_hash = replay.state().hash().to_string();
    if wanted.is_some_and(|wanted| !wanted.eq_ignore_ascii_case(&state_hash)) {
        return Err(log.failure(format!(
            "its state hash is {state_hash}, not the one wanted; nothing was restored"
        )));
    }
    let quarantined = log.quarantined.len();
    Ok(Proved { beside: Deciding { replay, store }, walked, snapshots, quarantined })
}

impl StagingDirectory {
    /// Brings back what a place holds, or the rest of it, and proves it.
    fn bring(&self, from: &Location, arguments: &RestoreArguments) -> Result<Made, CliError> {
        let place = from.open().map_err(|error| CliError::new(error.to_string()))?;
        let failed = |error: DiskError| self.failure(&error.to_string());
        let disk = RealDisk::open(self.unfinished()).map_err(failed)?;
        let mut progress = Progress::new("MiB brought back", None);
        let mut read = 0_u64;
        let brought = journal::fetch(&*place, &disk, &mut |more| {
            read += more;
            progress.show(read >> 20);
            Ok(())
        });
        progress.end();
        let unfinished = self.unfinished().display();
        let not_whole = |error: ArchiveError| match self.discard_if_empty() {
            true => CliError::new(error.to_string()),
            false => CliError::new(format!("{error}. What was brought back is in {unfinished}")),
        };
        let brought = brought.map_err(not_whole)?;
        let mut files = brought.files.clone();
        for name in remove_later(&disk, brought.end).map_err(failed)? {
            files.retain(|file| *file != name);
        }
        drop(disk);
        let log = OfflineLog::open(self.unfinished())?;
        let proved = prove(&log, self.unfinished(), arguments.state_hash.as_deref())?;
        brought.check(&proved.walked).map_err(not_whole)?;
        Ok(Made { files, bytes: proved.walked.bytes, proved })
    }

    /// Proves a directory, copies what belongs to the log, and compares.
    fn copy(&self, from: &Path, arguments: &RestoreArguments) -> Result<Made, CliError> {
        self.begin_anew()?;
        let source = OfflineLog::open(from)?;
        let proved = prove(&source, self.unfinished(), arguments.state_hash.as_deref());
        if proved.is_err() {
            // There is nothing but the store in it; what stays, the next attempt removes.
            let _removed = self.begin_anew();
        }
        let proved = proved?;
        let (files, bytes) = self.fill(&source)?;
        self.check(&proved.walked.tail)?;
        Ok(Made { files, bytes, proved })
    }

    /// Copies the segments, wherever they are, and what stands beside them; gives the names of the
    /// latter, and the number of bytes of all.
    fn fill(&self, source: &OfflineLog) -> Result<(Vec<String>, u64), CliError> {
        let failed = |error: DiskError| self.failure(&error.to_string());
        let disk = RealDisk::open(self.unfinished()).map_err(failed)?;
        let (mut files, mut bytes) = (Vec::new(), 0);
        let mut progress = Progress::new("MiB copied", None);
        for name in source.disk().list().map_err(failed)? {
            let is_segment = name.ends_with(".segment");
            let is_beside = name.ends_with(".snapshot") || name == "quarantine.json";
            if is_segment || is_beside {
                bytes += copy(source.disk(), &disk, &name).map_err(failed)?;
                progress.show(bytes >> 20);
            }
            if is_beside {
                files.push(name);
            }
        }
        progress.end();
        disk.sync_directory().map_err(failed)?;
        Ok((files, bytes))
    }

    /// Reads what was copied: the same chain up to the same end.
    fn check(&self, expected: &Tail) -> Result<(), CliError> {
        let copied = OfflineLog::open(self.unfinished())?;
        let walked = copied.walk(&mut |_| Ok(())).map_err(|error| copied.failure(error))?;
        match walked.tail == *expected {
            true => Ok(()),
            false => Err(copied.failure("what was copied is not what was read")),
        }
    }

    /// Completes the store, and stores the state, so that a start goes on from here.
    fn put_beside(&self, deciding: Deciding, tail: &Tail) -> Result<Beside, CliError> {
        let Deciding { mut replay, store } = deciding;
        let (records, state_hash) = (replay.records(), replay.state().hash().to_string());
        replay.close().map_err(|error| self.failure(&error.to_string()))?;
        replay.evict_all();
        store.sync().map_err(|error| self.failure(&error.to_string()))?;
        let disk = RealDisk::open(self.unfinished()).map_err(|it| self.failure(&it.to_string()))?;
        let tail = Tail { durable: tail.end, ..*tail };
        snapshots::put(&disk, (&tail, replay.state().parts()), &mut snapshots::unpaced)
            .map_err(|error| self.failure(&error.to_string()))?;
        Ok(Beside { records, state_hash })
    }
}

/// Removes snapshots of records that the copy does not have: files are copied behind the log, and
/// one may have been taken meanwhile. Gives their names.
fn remove_later(disk: &RealDisk, end: LogIndex) -> Result<Vec<String>, DiskError> {
    let later = snapshots::list(disk)?.into_iter().filter(|file| end < file.log_index);
    let names: Vec<String> = later.map(|file| file.name).collect();
    for name in &names {
        disk.remove(name)?;
    }
    disk.sync_directory()?;
    Ok(names)
}

fn copy(from: &TieredDisk<RealDisk>, to: &RealDisk, name: &str) -> Result<u64, DiskError> {
    let (from, to) = (from.open(name)?, to.create(name)?);
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        let read = from.read_at(at, &mut piece)?;
        if read == 0 {
            to.sync()?;
            return Ok(at);
        }
        to.write_at(at, &piece[..read])?;
        at += read as u64;
    }
}

fn print(proof: &Proof, arguments: &RestoreArguments) -> Result<(), CliError> {
    if arguments.json {
        return print_json(proof);
    }
    let data = arguments.data.display();
    println!("restored {data} from {} in {:.1} s, and proved:", arguments.from, proof.seconds);
    println!(
        "  {} records in {} batches decided again, the outcomes as recorded, up to record {}, \
         stamped {}",
        proof.records, proof.batches, proof.last_record, proof.last_stamp
    );
    println!(
        "  every checksum, and the chain over {} segments, {} bytes, head {}",
        proof.segments, proof.bytes, proof.chain_head
    );
    println!("  {} snapshots are the states that the log came to", proof.snapshots);
    if 0 < proof.quarantined {
        println!("  {} records decide nothing, as quarantine.json says", proof.quarantined);
    }
    if 0 < proof.torn_bytes {
        println!(
            "  the last {} bytes are a part of a write that was cut short; the first start cuts \
             them off",
            proof.torn_bytes
        );
    }
    println!("  state hash {}", proof.state_hash);
    for file in &proof.files {
        println!("  with {file}");
    }
    println!("The first start goes on from here: its store and a snapshot were made with it.");
    println!("The admin token is not restored: the first start makes a new one.");
    println!("`upesi verify` proves the rest; the old switch must not run any more.");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// `restore --from` and `backup --to` read the same places with the same errors.
    #[test]
    fn a_copy_is_named_as_a_backup_is() {
        let above = tempfile::tempdir().expect("a directory");
        let [plain, kept, empty] = ["plain", "kept", "empty"].map(|name| above.path().join(name));
        for directory in [&plain, &kept, &empty] {
            fs::create_dir(directory).expect("makes it");
        }
        for directory in [&plain, &kept] {
            fs::write(directory.join("00000000000000000001.packed"), "").expect("writes");
        }
        fs::write(kept.join(journal::MARKER), "").expect("writes");
        for (path, is_plain) in [(&plain, true), (&kept, false), (&empty, false)] {
            let path = path.display().to_string();
            let url = format!("file://{path}");
            for text in [&path, &url] {
                match Copy::of(text).expect("a copy") {
                    Copy::Directory(found) => assert!(is_plain && *found == *path, "{text}"),
                    Copy::Place(place) => {
                        assert!(!is_plain, "{text}");
                        assert_eq!(place.open().expect("opens").url(), url);
                    }
                }
                let backup = journal::open_place(text).expect("a place");
                assert_eq!(backup.url(), url);
            }
        }
        for wrong in ["", "ftp://host/x", "file://relative", "s3://key:secret@bucket/x"] {
            let restore = Copy::of(wrong).err().expect("refused").to_string();
            let backup = journal::open_place(wrong).err().expect("refused").to_string();
            assert_eq!(restore, backup);
        }
    }
}
