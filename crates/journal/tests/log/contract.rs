//! The contract of the three logs.

use journal::contract::{IDENTITY, Subject, check, frame_after};
use journal::{FileLog, LogOptions, MemoryDisk, MemoryLog, RealDisk};
use ledger::LogIndex;
use ports::Log;
use tempfile::TempDir;

use crate::common::STRICT;

/// Small segments, so that the contract is also checked across them.
const OPTIONS: LogOptions = LogOptions { segment_bytes: 20_000, room_bytes: 700, ..STRICT };

struct InMemory;

impl Subject for InMemory {
    type Log = MemoryLog;

    fn make(&mut self) -> MemoryLog {
        MemoryLog::new(IDENTITY, 1 << 20)
    }

    fn crash(&mut self, log: MemoryLog) -> MemoryLog {
        log.crashed()
    }
}

struct OnMemoryDisk {
    seed: u64,
    disk: MemoryDisk,
}

impl Subject for OnMemoryDisk {
    type Log = FileLog<MemoryDisk>;

    fn make(&mut self) -> Self::Log {
        self.seed += 1;
        self.disk = MemoryDisk::new(self.seed);
        FileLog::create(self.disk.clone(), IDENTITY, OPTIONS).expect("creates")
    }

    fn crash(&mut self, log: Self::Log) -> Self::Log {
        drop(log);
        self.disk = self.disk.crash();
        FileLog::open(self.disk.clone(), OPTIONS).expect("recovers").0
    }
}

struct OnRealDisk(TempDir);

impl Subject for OnRealDisk {
    type Log = FileLog<RealDisk>;

    fn make(&mut self) -> Self::Log {
        self.0 = TempDir::new().expect("a temporary directory");
        let disk = RealDisk::open(self.0.path()).expect("opens");
        FileLog::create(disk, IDENTITY, OPTIONS).expect("creates")
    }

    fn crash(&mut self, log: Self::Log) -> Self::Log {
        drop(log);
        let disk = RealDisk::open(self.0.path()).expect("the lock is free again");
        FileLog::open(disk, OPTIONS).expect("recovers").0
    }
}

#[test]
fn the_log_in_memory() {
    check(&mut InMemory);
}

#[test]
fn the_log_on_a_disk_that_crashes() {
    for seed in 0..12 {
        check(&mut OnMemoryDisk { seed: seed * 1_000, disk: MemoryDisk::new(0) });
    }
}

#[test]
fn the_log_on_the_real_disk() {
    check(&mut OnRealDisk(TempDir::new().expect("a temporary directory")));
}

/// Records that are durable elsewhere count as durable here, also across segments.
#[test]
fn a_replica_log_needs_no_sync() {
    let copy = FileLog::create(MemoryDisk::new(1), IDENTITY, OPTIONS).expect("creates");
    let mut copy = copy.into_copy();
    let reader = copy.reader();
    for round in 1..=50 {
        let frame = frame_after(&copy.tail(), &[1_000]);
        copy.append(&frame).expect("the next frame is taken");
        assert_eq!(copy.durable_end(), LogIndex(round));
        assert!(reader.read(LogIndex(round)).expect("reads").is_some());
        assert!(copy.append(&frame).is_err(), "a frame counts once");
    }
}
