//! Readers of a log that is being written: an incomplete frame at the end is not reported as
//! damage, and damage is not mistaken for an incomplete frame.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use journal::contract::{IDENTITY, frame_after};
use journal::{DamageReason, FileLog, LogOptions, OpenError, RealDisk, walk_live};
use ledger::LogIndex;
use ports::{Disk, DiskError, Log};
use tempfile::TempDir;

use crate::common::STRICT;

const SEGMENT: &str = "00000000000000000001.segment";
/// Number of reads during the writes.
const WALKS: usize = 150;

/// With segments that fill up meanwhile, with preallocated space, and without.
const LOGS: [LogOptions; 3] = [
    LogOptions { segment_bytes: 400_000, room_bytes: 64 << 10, ..STRICT },
    LogOptions { segment_bytes: 1 << 30, room_bytes: 1 << 20, ..STRICT },
    LogOptions { segment_bytes: 1 << 30, ..STRICT },
];

#[test]
fn a_log_is_read_while_it_is_being_written() {
    for options in LOGS {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = RealDisk::open(directory.path()).expect("opens");
        let mut log = FileLog::create(disk, IDENTITY, options).expect("creates");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) && log.end() < LogIndex(200_000) {
                    for size in [40, 3_000, 90_000] {
                        log.append(&frame_after(&log.tail(), &[size, 20])).expect("appends");
                    }
                    log.sync().expect("syncs");
                }
            });
            let mut before = LogIndex(0);
            for _ in 0..WALKS {
                let disk = RealDisk::open_live(directory.path()).expect("opens");
                let walked = walk_live(&disk, &mut |_| Ok(()));
                let walked = walked.unwrap_or_else(|error| panic!("{options:?}: {error}"));
                assert!(before <= walked.tail.end && walked.torn.is_none(), "{walked:?}");
                before = walked.tail.end;
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}

/// A disk that lists a segment which could not be created and is gone.
struct Ghost {
    disk: RealDisk,
    listed: AtomicU32,
}

impl Disk for Ghost {
    type File = <RealDisk as Disk>::File;

    fn list(&self) -> Result<Vec<String>, DiskError> {
        let mut names = self.disk.list()?;
        if self.listed.fetch_add(1, Ordering::Relaxed) < 2 {
            names.push("00000000000000000999.segment".into());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> Result<Self::File, DiskError> {
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> Result<Self::File, DiskError> {
        self.disk.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        self.disk.sync_directory()
    }
}

#[test]
fn a_segment_that_disappears_is_listed_again() {
    let directory = quiet();
    let whole = walk(&directory).expect("sound");
    let disk = RealDisk::open_live(directory.path()).expect("opens");
    let ghost = Ghost { disk, listed: AtomicU32::new(0) };
    assert_eq!(walk_live(&ghost, &mut |_| Ok(())), Ok(whole));
    // Without a writer it counts as missing.
    ghost.listed.store(0, Ordering::Relaxed);
    assert!(journal::walk(&ghost, &mut |_| Ok(())).is_err());
}

/// A log of some frames without a writer.
fn quiet() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = RealDisk::open(directory.path()).expect("opens");
    let mut log = FileLog::create(disk, IDENTITY, LogOptions { segment_bytes: 1 << 20, ..STRICT })
        .expect("creates");
    for _ in 0..20 {
        log.append(&frame_after(&log.tail(), &[900, 20])).expect("appends");
        log.sync().expect("syncs");
    }
    directory
}

fn walk(directory: &TempDir) -> Result<journal::LogWalk, OpenError> {
    let disk = RealDisk::open_live(directory.path()).expect("opens");
    walk_live(&disk, &mut |_| Ok(()))
}

#[test]
fn unchanging_damage_is_reported() {
    let directory = quiet();
    let path = directory.path().join(SEGMENT);
    let mut bytes = fs::read(&path).expect("reads");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).expect("writes");
    let error = walk(&directory).expect_err("it is seen");
    let OpenError::Damaged(damage) = &error else { panic!("{error}") };
    assert!(matches!(damage.reason, DamageReason::Durable { .. }), "{error}");
}

#[test]
fn a_torn_tail_is_reported() {
    let directory = quiet();
    let path = directory.path().join(SEGMENT);
    let whole = walk(&directory).expect("sound");
    assert_eq!((whole.frames, &whole.torn), (20, &None));
    let length = fs::metadata(&path).expect("is there").len();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("opens")
        .set_len(length - 9)
        .expect("cuts");
    let torn = walk(&directory).expect("a crash does that");
    assert_eq!(torn.frames, 19);
    assert!(torn.torn.is_some(), "{torn:?}");
}
