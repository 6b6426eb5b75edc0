//! Readers of a log that is being written: an incomplete frame at the end is not reported as
//! damage, and damage is not mistaken for an incomplete frame.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use journal::contract::{IDENTITY, frame_after};
use journal::{DamageReason, FileLog, OpenError, Options, RealDisk, walk_beside};
use ledger::LogIndex;
use ports::{Disk, DiskError, Log};
use tempfile::TempDir;

use crate::common::STRICT;

const SEGMENT: &str = "00000000000000000001.segment";
/// Readings beside the writer.
const WALKS: usize = 150;

/// With segments that fill up meanwhile, room behind the frames, and none.
const LOGS: [Options; 3] = [
    Options { segment_bytes: 400_000, room_bytes: 64 << 10, ..STRICT },
    Options { segment_bytes: 1 << 30, room_bytes: 1 << 20, ..STRICT },
    Options { segment_bytes: 1 << 30, ..STRICT },
];

#[test]
fn a_log_that_is_written_meanwhile_is_read_as_far_as_it_goes() {
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
                let beside = RealDisk::open_beside(directory.path()).expect("opens");
                let walked = walk_beside(&beside, &mut |_| Ok(()));
                let walked = walked.unwrap_or_else(|error| panic!("{options:?}: {error}"));
                assert!(before <= walked.tail.end && walked.torn.is_none(), "{walked:?}");
                before = walked.tail.end;
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}

/// A disk on which a segment is listed that could not be begun, and is gone.
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
fn a_segment_that_is_gone_again_is_looked_for_again() {
    let directory = quiet();
    let whole = walk(&directory).expect("sound");
    let disk = RealDisk::open_beside(directory.path()).expect("opens");
    let ghost = Ghost { disk, listed: AtomicU32::new(0) };
    assert_eq!(walk_beside(&ghost, &mut |_| Ok(())), Ok(whole));
    // Where nobody writes, it is missing.
    ghost.listed.store(0, Ordering::Relaxed);
    assert!(journal::walk(&ghost, &mut |_| Ok(())).is_err());
}

/// A log of some frames that nobody writes any more.
fn quiet() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = RealDisk::open(directory.path()).expect("opens");
    let mut log = FileLog::create(disk, IDENTITY, Options { segment_bytes: 1 << 20, ..STRICT })
        .expect("creates");
    for _ in 0..20 {
        log.append(&frame_after(&log.tail(), &[900, 20])).expect("appends");
        log.sync().expect("syncs");
    }
    directory
}

fn walk(directory: &TempDir) -> Result<journal::LogWalk, OpenError> {
    let beside = RealDisk::open_beside(directory.path()).expect("opens");
    walk_beside(&beside, &mut |_| Ok(()))
}

#[test]
fn what_stays_as_it_is_is_damage() {
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
fn what_a_crash_cut_short_is_told() {
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
