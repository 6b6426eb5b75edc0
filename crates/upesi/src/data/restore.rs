//! `upesi restore`: creates a data directory from a backup or from a plain copy of a data
//! directory, and verifies it before it gets its final name.
//!
//! # Phases
//! A backup is fetched into a staging directory and replayed there from its first record. An
//! interrupted fetch is resumed. A plain copy is replayed in place, then copied, read back and
//! compared. In both cases the snapshots are compared with the replayed state before the files move
//! to their final place ([`staging`]). The target directory therefore holds the whole log or
//! nothing, and no file is overwritten.
//!
//! The replay writes final rows to a cold store and the last state to a snapshot, so the first
//! start needs no replay. Both are bound to the hash chain of the log, as those of a switch are.

mod staging;

#[cfg(feature = "kafka")]
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use encryption::KEY_FILE;
use harness::Progress;
use journal::{ArchiveError, LocatedFrame, Location, LogWalk, RealDisk, TieredDisk};
use ledger::{LogIndex, Stamp};
use ports::{ColdStore, Disk, DiskError, DiskFile, OptionalCipher};
use record::frame::Tail;
use sequencer::Replay;
use serde::Serialize;

use crate::CliError;
use crate::cli::stdout::{moment, print_json};
use crate::cli::units::{Bytes, counted};
use crate::config::Config;
use crate::data::encryption::{Access, master_keys, unlocked};
#[cfg(feature = "kafka")]
use crate::data::layout;
use crate::data::layout::has_segments;
use crate::data::snapshot::SnapshotChecks;
use crate::inspect::offline::{Continue, OfflineLog};
use crate::serve::open_store::StorePaths;

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
    /// Backup to restore: any destination of `backup --to`.
    ///
    /// A data directory on which no switch runs is accepted too. It is only read.
    #[arg(long, value_name = "URL|DIR")]
    from: String,
    /// Directory to create; must be empty or not exist.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Expected state hash, in hexadecimal; fails if it differs.
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

/// The restored and verified log.
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
    /// The same.
    #[serde(skip)]
    stamp: Stamp,
    snapshots: u64,
    quarantined: usize,
    /// Bytes at the end that belong to a write interrupted by a crash.
    torn_bytes: u64,
    chain_head: String,
    state_hash: String,
    seconds: f64,
}

/// Creates a node's directory from a copy. The directory must be empty or not exist.
#[cfg(feature = "kafka")]
pub(crate) fn begin(from: &str, data: &Path) -> Result<(), CliError> {
    if let RestoreSource::Directory(path) = RestoreSource::parse(from)?
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
        "upesi: started from the copy in {from}: replayed {}, up to record {}, in {:.1} s",
        counted(proof.records, "record"),
        proof.last_record,
        proof.seconds
    );
    Ok(())
}

/// Whether a directory has a store and a snapshot, so that a start needs no replay.
#[cfg(feature = "kafka")]
fn has_state(path: &Path) -> bool {
    let snapshots = RealDisk::open_to_read(path).map(|disk| snapshots::list(&disk));
    path.join(layout::STORE).is_dir() && matches!(snapshots, Ok(Ok(files)) if !files.is_empty())
}

/// Copies log, snapshots and store of a stopped node without a replay. The hash chain of the log is
/// verified. The start continues from the newest snapshot, and the state is compared with that of
/// the other nodes from then on, as for every node.
#[cfg(feature = "kafka")]
fn adopt(from: &Path, data: &Path) -> Result<(), CliError> {
    let started = Instant::now();
    let target = StagingDirectory::of_node(data)?;
    target.begin_anew()?;
    let source = OfflineLog::open(from)?;
    let failed = |error: std::io::Error| target.failure(&error.to_string());
    let mut progress = Progress::new("MiB copied", None);
    let staged = target.begin_copy(&source)?;
    let (_, bytes) = target.fill(&source, &staged)?;
    drop(staged);
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
        "upesi: started from the directory of a node, {}: log up to record {}, snapshots and \
         store, {}, in {:.1} s",
        from.display(),
        walked.tail.end.0,
        Bytes(bytes + stored),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Copies a directory tree durably, reports the progress, and returns the number of bytes.
#[cfg(feature = "kafka")]
fn copy_tree(from: &Path, to: &Path, report: &mut dyn FnMut(u64)) -> std::io::Result<u64> {
    fs::create_dir_all(to)?;
    let mut bytes = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        bytes += match entry.file_type()?.is_dir() {
            true => copy_tree(&path, &copy, &mut |more| report(bytes + more))?,
            false => {
                let copied = fs::copy(&path, &copy)?;
                File::open(&copy)?.sync_all()?;
                copied
            }
        };
        report(bytes);
    }
    File::open(to)?.sync_all()?;
    Ok(bytes)
}

pub(crate) fn restore(arguments: &RestoreArguments) -> Result<(), CliError> {
    let proof = make(arguments, StagingDirectory::of(&arguments.data)?)?;
    print(&proof, arguments)
}

/// The restored log of a drill.
pub(crate) struct RestoredLog {
    pub(crate) last_record: u64,
    pub(crate) last_stamp: Stamp,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) state_hash: String,
}

/// Restores a copy into a new directory and verifies it, as [`restore`] does.
pub(crate) fn restore_for_drill(from: &str, data: &Path) -> Result<RestoredLog, CliError> {
    let arguments = RestoreArguments {
        from: from.to_owned(),
        data: data.to_owned(),
        state_hash: None,
        json: false,
    };
    let proof = make(&arguments, StagingDirectory::of(data)?)?;
    let Proof { last_record, stamp, records, bytes, state_hash, .. } = proof;
    Ok(RestoredLog { last_record, last_stamp: stamp, records, bytes, state_hash })
}

fn make(arguments: &RestoreArguments, target: StagingDirectory) -> Result<Proof, CliError> {
    let started = Instant::now();
    let staged = match RestoreSource::parse(&arguments.from)? {
        RestoreSource::Backup(location) => target.fetch(&location, arguments)?,
        RestoreSource::Directory(path) => target.copy(&path, arguments)?,
    };
    let StagedLog { files, bytes, replayed, disk } = staged;
    let ReplayedLog { state, walked, snapshots, quarantined } = replayed;
    let CreatedFiles { records, state_hash } = target.put_next_to_log(state, &walked.tail, disk)?;
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
        stamp: walked.tail.stamp,
        snapshots,
        quarantined,
        torn_bytes: walked.torn.map_or(0, |torn| torn.bytes),
        chain_head: walked.tail.chain.to_string(),
        state_hash,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// The tail of the log after a frame.
pub(crate) fn tail_after(placed: &LocatedFrame<'_>) -> Tail {
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
enum RestoreSource {
    /// A copy that `upesi backup` keeps.
    Backup(Location),
    /// A data directory, or a plain copy of one.
    Directory(PathBuf),
}

impl RestoreSource {
    /// Reads the destinations of `backup --to`. A directory with segments and without the marker
    /// of a blob store is a plain copy.
    fn parse(from: &str) -> Result<Self, CliError> {
        let location = Location::parse(from).map_err(|error| CliError::new(error.to_string()))?;
        Ok(match location.directory() {
            Some(path) if has_segments(path) && !path.join(journal::MARKER).exists() => {
                Self::Directory(path.to_owned())
            }
            _ => Self::Backup(location),
        })
    }
}

/// The content of the staging directory.
struct StagedLog {
    /// Names of the files other than segments.
    files: Vec<String>,
    bytes: u64,
    replayed: ReplayedLog,
    /// The staging directory.
    disk: TieredDisk<RealDisk>,
}

/// A replayed log.
struct ReplayedLog {
    state: ReplayedState,
    walked: LogWalk,
    snapshots: u64,
    quarantined: usize,
}

/// The state at the end of the log, and the store with the evicted rows.
struct ReplayedState {
    replay: Replay,
    store: Arc<store::Disk>,
}

/// The files created next to the log.
struct CreatedFiles {
    records: u64,
    state_hash: String,
}

/// Replays the whole log and compares it with the snapshots and the expected hash. Final rows go to
/// a new store in the directory `target`.
fn prove(
    log: &OfflineLog,
    (target, cipher): (&Path, OptionalCipher),
    wanted: Option<&str>,
) -> Result<ReplayedLog, CliError> {
    let mut checks = SnapshotChecks::read(log.disk()).map_err(|error| log.failure(error))?;
    let segments = log.disk().segments().map_err(|error| log.failure(error))?;
    let first = segments.first().ok_or_else(|| log.failure("no log found"))?;
    let paths = StorePaths::new(&Config::default(), target, first.base.identity);
    let paths = paths.with_cipher(cipher);
    let store = paths.create()?;
    let cold_tier = Some(paths.cold_tier(&store)?);
    let (replay, walked) = log.replay_with_store(cold_tier, &mut |replay, placed| {
        replay.apply(placed.frame, &mut |_, _, _| {})?;
        checks.check(&tail_after(placed), replay.state());
        Ok(Continue::On)
    })?;
    let snapshots = checks.close(&walked.tail).map_err(|fault| log.failure(fault.line))?;
    let state_hash = replay.state().hash().to_string();
    if wanted.is_some_and(|wanted| !wanted.eq_ignore_ascii_case(&state_hash)) {
        return Err(log.failure(format!(
            "its state hash is {state_hash}, not the expected one; nothing was restored"
        )));
    }
    let quarantined = log.quarantined.len();
    Ok(ReplayedLog { state: ReplayedState { replay, store }, walked, snapshots, quarantined })
}

impl StagingDirectory {
    /// Fetches a backup, or the rest of it, and replays it.
    fn fetch(&self, from: &Location, arguments: &RestoreArguments) -> Result<StagedLog, CliError> {
        let place = from.open().map_err(|error| CliError::new(error.to_string()))?;
        let failed = |error: DiskError| self.failure(&error.to_string());
        if journal::backup_has_file(&*place, KEY_FILE)
            .map_err(|it| CliError::new(it.to_string()))?
        {
            need_master_key(place.url())?;
        }
        let disk = RealDisk::open(self.unfinished()).map_err(failed)?;
        let mut progress = Progress::new("MiB fetched", None);
        let mut read = 0_u64;
        let fetched = journal::fetch(&*place, &disk, &mut |more| {
            read += more;
            progress.show(read >> 20);
            Ok(())
        });
        progress.end();
        let unfinished = self.unfinished().display();
        let incomplete = |error: ArchiveError| match self.discard_if_empty() {
            true => CliError::new(error.to_string()),
            false => CliError::new(format!("{error}; the fetched part is kept in {unfinished}")),
        };
        let fetched = fetched.map_err(incomplete)?;
        let mut files = fetched.files.clone();
        for name in remove_later(&disk, fetched.end).map_err(failed)? {
            files.retain(|file| *file != name);
        }
        let disk = unlocked(TieredDisk::open(disk).map_err(failed)?, Access::Write)?;
        let log = OfflineLog::of(disk.clone(), self.unfinished())?;
        let place = (self.unfinished(), disk.cipher());
        let replayed = prove(&log, place, arguments.state_hash.as_deref())?;
        fetched.check(&replayed.walked).map_err(incomplete)?;
        Ok(StagedLog { files, bytes: replayed.walked.bytes, replayed, disk })
    }

    /// Replays a directory, copies the files of its log, and compares them.
    fn copy(&self, from: &Path, arguments: &RestoreArguments) -> Result<StagedLog, CliError> {
        if from.join(KEY_FILE).exists() {
            need_master_key(&from.display().to_string())?;
        }
        self.begin_anew()?;
        let source = OfflineLog::open(from)?;
        let disk = self.begin_copy(&source)?;
        let place = (self.unfinished(), disk.cipher());
        let replayed = prove(&source, place, arguments.state_hash.as_deref());
        if replayed.is_err() {
            // It has only the store. The next attempt removes the remaining files.
            let _removed = self.begin_anew();
        }
        let replayed = replayed?;
        let (files, bytes) = self.fill(&source, &disk)?;
        self.check(&disk, &replayed.walked.tail)?;
        Ok(StagedLog { files, bytes, replayed, disk })
    }

    /// Opens the staging directory of a copy, with the data keys of the source.
    fn begin_copy(&self, source: &OfflineLog) -> Result<TieredDisk<RealDisk>, CliError> {
        let failed = |error: DiskError| self.failure(&error.to_string());
        let disk = RealDisk::open(self.unfinished()).map_err(failed)?;
        match copy(source.disk(), &disk, KEY_FILE) {
            Ok(_) | Err(DiskError::NotFound(_)) => {}
            Err(error) => return Err(failed(error)),
        }
        disk.sync_directory().map_err(failed)?;
        unlocked(TieredDisk::open(disk).map_err(failed)?, Access::Write)
    }

    /// Copies the segments and the other files of the log. Returns the names of the other files and
    /// the number of all bytes.
    fn fill(
        &self,
        source: &OfflineLog,
        disk: &TieredDisk<RealDisk>,
    ) -> Result<(Vec<String>, u64), CliError> {
        let failed = |error: DiskError| self.failure(&error.to_string());
        let (mut files, mut bytes) = (Vec::new(), 0);
        let mut progress = Progress::new("MiB copied", None);
        for name in source.disk().list().map_err(failed)? {
            let is_segment = name.ends_with(".segment");
            let is_other = name.ends_with(".snapshot") || name == "quarantine.json";
            if is_segment || is_other {
                bytes += self.copy_file(source, disk, &name)?;
                progress.show(bytes >> 20);
            }
            if is_other {
                files.push(name);
            }
        }
        progress.end();
        disk.sync_directory().map_err(failed)?;
        Ok((files, bytes))
    }

    /// Copies a file. A segment that is compressed or archived becomes a plain one, unless it is
    /// encrypted. Returns its length.
    fn copy_file(
        &self,
        source: &OfflineLog,
        disk: &TieredDisk<RealDisk>,
        name: &str,
    ) -> Result<u64, CliError> {
        let encrypted = journal::copy_encrypted(source.disk(), name, disk.below(), &mut |_| Ok(()));
        match encrypted.map_err(|error| self.failure(&error.to_string()))? {
            Some(bytes) => Ok(bytes),
            None => copy(source.disk(), disk.below(), name)
                .map_err(|error| self.failure(&error.to_string())),
        }
    }

    /// Reads the copied log and compares its end and its chain head.
    fn check(&self, disk: &TieredDisk<RealDisk>, expected: &Tail) -> Result<(), CliError> {
        let copied = OfflineLog::of(disk.clone(), self.unfinished())?;
        let walked = copied.walk(&mut |_| Ok(())).map_err(|error| copied.failure(error))?;
        match walked.tail == *expected {
            true => Ok(()),
            false => Err(copied.failure("the copied log differs from the source")),
        }
    }

    /// Completes the store and takes a snapshot, so that a start needs no replay.
    fn put_next_to_log(
        &self,
        deciding: ReplayedState,
        tail: &Tail,
        disk: TieredDisk<RealDisk>,
    ) -> Result<CreatedFiles, CliError> {
        let ReplayedState { mut replay, store } = deciding;
        let (records, state_hash) = (replay.records(), replay.state().hash().to_string());
        replay.close().map_err(|error| self.failure(&error.to_string()))?;
        replay.evict_all();
        store.sync().map_err(|error| self.failure(&error.to_string()))?;
        let tail = Tail { durable: tail.end, ..*tail };
        snapshots::store_state(&disk, (&tail, replay.state().tables()), &mut snapshots::unpaced)
            .map_err(|error| self.failure(&error.to_string()))?;
        Ok(CreatedFiles { records, state_hash })
    }
}

/// Refuses to restore an encrypted log without its master key, before anything is written.
fn need_master_key(from: &str) -> Result<(), CliError> {
    match master_keys(None)? {
        Some(_) => Ok(()),
        None => Err(CliError::new(format!(
            "{from}: the log is encrypted, and copies do not contain the master key; name it with \
             --encryption-key or with UPESI_ENCRYPTION_KEY. Nothing was restored"
        ))),
    }
}

/// Removes snapshots of records that the copy does not have, and returns their names. Files are
/// copied after the log, and a snapshot may have been taken meanwhile.
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
    println!("restored {data} from {} and verified it in {:.1} s", arguments.from, proof.seconds);
    println!(
        "  decisions     {} in {} replayed with the recorded outcomes, up to record {}, \
         stamped {}",
        counted(proof.records, "record"),
        counted(proof.batches, "batch"),
        proof.last_record,
        proof.last_stamp
    );
    println!(
        "  chain         {}, {}, head {}",
        counted(proof.segments as u64, "segment"),
        Bytes(proof.bytes),
        proof.chain_head
    );
    println!("  snapshots     {} equal the replayed states", proof.snapshots);
    if 0 < proof.quarantined {
        println!("  quarantine    skipped {}", counted(proof.quarantined as u64, "record"));
    }
    if 0 < proof.torn_bytes {
        println!(
            "  end           the last {} bytes are an incomplete write, which the first start \
             removes",
            proof.torn_bytes
        );
    }
    println!("  state hash    {}", proof.state_hash);
    for file in &proof.files {
        println!("  file          {file}");
    }
    println!("The first start needs no replay: the cold store and a snapshot were created too.");
    println!("The admin token is not restored: the first start creates a new one.");
    println!(
        "Erasures that were ordered after {} are not in the copy: order them again with `upesi \
         erase --again LIST`.",
        proof.last_stamp
    );
    println!("Run `upesi verify` for the full check. Never start the old switch again.");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// `restore --from` and `backup --to` accept the same destinations, with the same errors.
    #[test]
    fn restore_reads_the_places_of_backup() {
        let above = tempfile::tempdir().expect("a directory");
        let [plain, marked, empty] =
            ["plain", "marked", "empty"].map(|name| above.path().join(name));
        for directory in [&plain, &marked, &empty] {
            fs::create_dir(directory).expect("makes it");
        }
        for directory in [&plain, &marked] {
            fs::write(directory.join("00000000000000000001.packed"), "").expect("writes");
        }
        fs::write(marked.join(journal::MARKER), "").expect("writes");
        for (path, is_plain) in [(&plain, true), (&marked, false), (&empty, false)] {
            let path = path.display().to_string();
            let url = format!("file://{path}");
            for text in [&path, &url] {
                match RestoreSource::parse(text).expect("a copy") {
                    RestoreSource::Directory(found) => {
                        assert!(is_plain && *found == *path, "{text}")
                    }
                    RestoreSource::Backup(place) => {
                        assert!(!is_plain, "{text}");
                        assert_eq!(place.open().expect("opens").url(), url);
                    }
                }
                let backup = journal::open_blob_store(text).expect("a place");
                assert_eq!(backup.url(), url);
            }
        }
        for wrong in ["", "ftp://host/x", "file://relative", "s3://key:secret@bucket/x"] {
            let restore = RestoreSource::parse(wrong).err().expect("refused").to_string();
            let backup = journal::open_blob_store(wrong).err().expect("refused").to_string();
            assert_eq!(restore, backup);
        }
    }
}
