//! `upesi restore`: makes a data directory from a copy of one, and proves what it made.
//!
//! The copy is read and decided from its first record on, its snapshots are held against that, the
//! files are copied under another name, read back and compared; only then does the directory get
//! its name. So a directory of that name is whole or not there, and nothing is ever overwritten.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use journal::{Placed, RealDisk, Walked};
use ports::{Disk, DiskError, DiskFile};
use record::frame::Tail;
use sequencer::Replay;
use serde::Serialize;

use crate::offline::{Go, OfflineLog, moment, print_json};
use crate::snapshot::Claims;
use crate::{Failure, RestoreArguments};

/// Files are copied in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// What was made and proved.
#[derive(Debug, Serialize)]
struct Proof {
    ok: bool,
    segments: usize,
    bytes: u64,
    records: u64,
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

pub(crate) fn restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    let started = Instant::now();
    let target = Target::of(&arguments.data)?;
    let source = OfflineLog::open(&arguments.from)?;
    let (replay, walked, snapshots) = prove(&source)?;
    let state_hash = replay.state().hash().to_string();
    if arguments.state_hash.as_ref().is_some_and(|wanted| !wanted.eq_ignore_ascii_case(&state_hash))
    {
        return Err(source.failure(format!(
            "its state hash is {state_hash}, not the one wanted; nothing was restored"
        )));
    }
    let bytes = target.fill(&source)?;
    target.check(&walked.tail)?;
    target.finish()?;
    let proof = Proof {
        ok: true,
        segments: walked.segments,
        bytes,
        records: replay.records(),
        last_record: walked.tail.end.0,
        last_stamp: moment(walked.tail.stamp),
        snapshots,
        quarantined: source.quarantined.len(),
        torn_bytes: walked.torn.map_or(0, |torn| torn.bytes),
        chain_head: walked.tail.chain.to_string(),
        state_hash,
        seconds: started.elapsed().as_secs_f64(),
    };
    print(&proof, arguments)
}

/// Decides the whole log again and holds the snapshots against it.
fn prove(source: &OfflineLog) -> Result<(Replay, Walked, u64), Failure> {
    let mut claims = Claims::read(source.disk()).map_err(|error| source.failure(error))?;
    let (replay, walked) = source.replay(&mut |replay, placed| {
        replay.apply(placed.frame, &mut |_, _, _| {})?;
        claims.check(&tail_behind(placed), replay.state());
        Ok(Go::On)
    })?;
    let snapshots = claims.close().map_err(|untrue| source.failure(untrue.line))?;
    Ok((replay, walked, snapshots))
}

/// Where the log stands behind a frame.
pub(crate) fn tail_behind(placed: &Placed<'_>) -> Tail {
    let header = placed.frame.header();
    Tail {
        identity: header.identity,
        end: header.last(),
        durable: header.last(),
        stamp: header.batch.stamp,
        chain: placed.frame.chain(),
    }
}

/// The directory being made.
struct Target {
    data: PathBuf,
    /// What it is called until it is whole.
    unfinished: PathBuf,
}

impl Target {
    /// Refuses a place where there is something.
    fn of(data: &Path) -> Result<Self, Failure> {
        let failed = |what: &str| Err(Failure::new(format!("{}: {what}", data.display())));
        let Some(name) = data.file_name() else {
            return failed("this can not be the name of a data directory");
        };
        let mut name = name.to_os_string();
        name.push(".restoring");
        let target = Self { data: data.to_path_buf(), unfinished: data.with_file_name(name) };
        match fs::read_dir(data).map(Iterator::count) {
            Ok(0) => {}
            Ok(_) => return failed("the directory is not empty; nothing is ever overwritten"),
            Err(_) if fs::symlink_metadata(data).is_ok() => {
                return failed("this is there and is no directory; nothing is ever overwritten");
            }
            Err(_) => {}
        }
        if target.unfinished.exists() {
            let left = target.unfinished.display();
            let what = format!("an earlier attempt left {left}: remove it and try again");
            return failed(&what);
        }
        Ok(target)
    }

    /// Copies what belongs to the log; gives the number of bytes.
    fn fill(&self, source: &OfflineLog) -> Result<u64, Failure> {
        let failed = |error: DiskError| self.failure(&error.to_string());
        let disk = RealDisk::open(&self.unfinished).map_err(failed)?;
        let names = source.disk().list().map_err(failed)?;
        let wanted = names.iter().filter(|name| {
            name.ends_with(".segment") || name.ends_with(".snapshot") || *name == "quarantine.json"
        });
        let mut bytes = 0;
        for name in wanted {
            bytes += copy(source.disk(), &disk, name).map_err(failed)?;
        }
        disk.sync_directory().map_err(failed)?;
        Ok(bytes)
    }

    /// Reads what was copied: the same chain up to the same end.
    fn check(&self, expected: &Tail) -> Result<(), Failure> {
        let copied = OfflineLog::open(&self.unfinished)?;
        let walked = copied.walk(&mut |_| Ok(())).map_err(|error| copied.failure(error))?;
        match walked.tail == *expected {
            true => Ok(()),
            false => Err(copied.failure("what was copied is not what was read")),
        }
    }

    /// Gives the directory its name, durably.
    fn finish(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| self.failure(&error.to_string());
        fs::rename(&self.unfinished, &self.data).map_err(failed)?;
        let above = self.data.parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new("."));
        File::open(above).and_then(|above| above.sync_all()).map_err(failed)
    }

    fn failure(&self, what: &str) -> Failure {
        Failure::new(format!("{}: {what}", self.unfinished.display()))
    }
}

fn copy(from: &RealDisk, to: &RealDisk, name: &str) -> Result<u64, DiskError> {
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

fn print(proof: &Proof, arguments: &RestoreArguments) -> Result<(), Failure> {
    if arguments.json {
        return print_json(proof);
    }
    let (from, data) = (arguments.from.display(), arguments.data.display());
    println!("restored {data} from {from} in {:.1} s, and proved:", proof.seconds);
    println!(
        "  {} records decided again up to record {}, stamped {}",
        proof.records, proof.last_record, proof.last_stamp
    );
    println!(
        "  chain unbroken over {} segments, {} bytes copied and read back, head {}",
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
    println!("The admin token is not restored: the first start makes a new one.");
    Ok(())
}
