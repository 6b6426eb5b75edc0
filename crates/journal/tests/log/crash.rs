//! A scripted run, crashed at each of its disk operations in turn, torn in different ways.
//!
//! After each crash, the log opens, and every frame whose sync returned `Ok` exists byte for byte.
//! Later frames are a prefix of the appended ones. The log continues and survives the next crash
//! too.

use journal::contract::{IDENTITY, frame_after, frames_of};
use journal::{FileLog, LogOptions, MemoryDisk, OpenError};
use ledger::LogIndex;
use ports::{Disk, Log, LogError};

use crate::common::STRICT;

const OPTIONS: LogOptions = LogOptions { segment_bytes: 12_000, room_bytes: 700, ..STRICT };

/// Expected content of the log of a run.
#[derive(Debug, Default)]
struct Run {
    created: bool,
    appended: Vec<Vec<u8>>,
    synced: usize,
}

impl Run {
    /// 60 batches; some are appended together before one sync, some never synced by themselves.
    fn script(&mut self, disk: &MemoryDisk) -> Result<(), LogError> {
        let Ok(mut log) = FileLog::create(disk.clone(), IDENTITY, OPTIONS) else {
            return Err(LogError::Poisoned);
        };
        self.created = true;
        for batch in 0..60 {
            self.step(&mut log, batch)?;
        }
        Ok(())
    }

    fn step(&mut self, log: &mut FileLog<MemoryDisk>, batch: usize) -> Result<(), LogError> {
        let sizes: &[usize] = match batch % 6 {
            0 => &[40],
            1 => &[0],
            2 => &[300, 90, 0],
            3 => &[2_000],
            4 => &[513],
            _ => &[60, 60, 60, 60],
        };
        let frame = frame_after(&log.tail(), sizes);
        // A frame whose append failed may exist or not.
        self.appended.push(frame.clone());
        log.append(&frame)?;
        if batch % 5 != 1 && batch % 7 != 2 {
            log.sync()?;
            self.synced = self.appended.len();
        }
        Ok(())
    }

    fn check(&self, log: &mut FileLog<MemoryDisk>) -> usize {
        let kept = frames_of(log, LogIndex(1));
        assert!(self.synced <= kept.len(), "{} of {} synced frames", kept.len(), self.synced);
        assert!(kept.len() <= self.appended.len(), "no unknown frame appears");
        assert_eq!(kept[..], self.appended[..kept.len()], "the remaining frames are a prefix");
        assert_eq!(log.durable_end(), log.end(), "all frames are durable after opening");
        kept.len()
    }
}

fn reopen(disk: &MemoryDisk, run: &Run) -> Option<FileLog<MemoryDisk>> {
    match FileLog::open(disk.clone(), OPTIONS) {
        Ok((log, _)) => Some(log),
        Err(OpenError::NoLog) if !run.created => None,
        Err(error) => panic!("recovery failed: {error}"),
    }
}

/// Continues a recovered log, crashes it once more, and checks again.
fn continue_log(disk: &MemoryDisk, mut log: FileLog<MemoryDisk>, mut run: Run) {
    let kept = run.check(&mut log);
    run.appended.truncate(kept);
    run.synced = kept;
    for batch in 0..4 {
        run.step(&mut log, batch).expect("a recovered log continues");
    }
    drop(log);
    let disk = disk.crash();
    let mut log = reopen(&disk, &run).expect("the log exists");
    run.check(&mut log);
}

#[test]
fn a_crash_at_any_operation_loses_nothing_synced() {
    let whole = MemoryDisk::new(0);
    Run::default().script(&whole).expect("runs to its end");
    let operations = whole.operations();
    assert!(whole.content("00000000000000000001.segment").is_some());
    assert!(operations > 120, "the script writes, syncs and rotates: {operations}");

    for operation in 1..=operations {
        for seed in 0..12 {
            let disk = MemoryDisk::new(seed * 10_007 + operation);
            disk.crash_at(operation);
            let mut run = Run::default();
            assert!(run.script(&disk).is_err(), "the crash is noticed");
            assert!(disk.is_down());
            let disk = disk.crash();
            match reopen(&disk, &run) {
                Some(log) => continue_log(&disk, log, run),
                None => assert!(FileLog::create(disk, IDENTITY, OPTIONS).is_ok()),
            }
        }
    }
}

/// Recovery changes the disk as well: a crash within it must leave something to recover.
#[test]
fn a_crash_during_recovery_loses_nothing_either() {
    let whole = MemoryDisk::new(0);
    Run::default().script(&whole).expect("runs to its end");
    for seed in 0..400 {
        let disk = MemoryDisk::new(seed);
        disk.crash_at(4 + seed % (whole.operations() - 4));
        let mut run = Run::default();
        assert!(run.script(&disk).is_err(), "the crash is noticed");
        let mut disk = disk.crash();
        for operation in 1..8 {
            disk.crash_at(disk.operations() + operation);
            if let Ok((log, _)) = FileLog::open(disk.clone(), OPTIONS) {
                drop(log);
            }
            disk = disk.crash();
        }
        let log = reopen(&disk, &run).expect("the log exists");
        continue_log(&disk, log, run);
    }
}

/// After a failed sync the system shows bytes that it never stored. Recovery in a new process must
/// not treat them as durable.
#[test]
fn unsynced_frames_are_not_treated_as_durable() {
    let whole = MemoryDisk::new(0);
    Run::default().script(&whole).expect("runs to its end");
    for operation in 1..=whole.operations() {
        for seed in 0..8 {
            let disk = MemoryDisk::new(seed * 7 + operation);
            disk.fail_sync_at(operation);
            let mut run = Run::default();
            if run.script(&disk).is_ok() {
                continue; // No sync followed that operation.
            }
            let disk = disk.kill();
            let Some(mut log) = reopen(&disk, &run) else { continue };
            let kept = run.check(&mut log);
            run.synced = kept;
            drop(log);
            let disk = disk.crash();
            let mut log = reopen(&disk, &run).expect("the log exists");
            assert_eq!(run.check(&mut log), kept, "frames visible after recovery are durable");
        }
    }
}

/// A recovery truncates a torn frame, its sync fails, and the process starts again. The system
/// shows the log without that frame, which is still stored. After another crash it must not
/// reappear after the next frames.
#[test]
fn an_unsynced_truncation_is_repeated() {
    for seed in 0..400 {
        let disk = MemoryDisk::new(seed);
        let mut log = FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates");
        log.append(&frame_after(&log.tail(), &[300])).expect("appends");
        log.sync().expect("syncs");
        let synced = log.end();
        disk.crash_at(disk.operations() + 1);
        assert!(log.append(&frame_after(&log.tail(), &[3_000])).is_err(), "the power is off");

        let disk = disk.crash();
        disk.fail_sync_at(0);
        let cut = FileLog::open(disk.clone(), OPTIONS);
        assert!(matches!(cut, Err(OpenError::Disk(_))), "seed {seed}: {cut:?}");
        let disk = disk.kill();
        let (mut log, _) = FileLog::open(disk.clone(), OPTIONS).expect("opens");
        disk.crash_at(disk.operations() + 1);
        assert!(log.append(&frame_after(&log.tail(), &[20])).is_err(), "the power is off");

        let opened = FileLog::open(disk.crash(), OPTIONS);
        let (log, _) = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(synced <= log.end(), "seed {seed}");
    }
}

/// A failing seed can be repeated.
#[test]
fn the_same_seed_loses_the_same() {
    let run = |seed| {
        let disk = MemoryDisk::new(seed);
        disk.crash_at(100);
        assert!(Run::default().script(&disk).is_err(), "the crash is noticed");
        let disk = disk.crash();
        let names = disk.list().expect("lists");
        names.iter().map(|name| disk.content(name)).collect::<Vec<_>>()
    };
    let all: Vec<_> = (0..20).map(run).collect();
    assert_eq!(all, (0..20).map(run).collect::<Vec<_>>());
    assert!(all.iter().any(|one| *one != all[0]), "seeds differ");
}

#[test]
fn a_failed_sync_stops_the_log() {
    let disk = MemoryDisk::new(1);
    let mut log = FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates");
    log.append(&frame_after(&log.tail(), &[1])).expect("appends");
    log.sync().expect("syncs");
    let frame = frame_after(&log.tail(), &[1]);
    log.append(&frame).expect("appends");
    disk.fail_sync_at(0);
    assert!(matches!(log.sync(), Err(LogError::Storage(_))));
    assert_eq!(log.sync(), Err(LogError::Poisoned));
    assert_eq!(log.append(&frame_after(&log.tail(), &[1])), Err(LogError::Poisoned));
    assert_eq!(log.replay(LogIndex(1), &mut |_| Ok(())), Err(LogError::Poisoned));
    assert_eq!(log.durable_end(), LogIndex(1), "what was durable still is");
    assert!(matches!(log.reader().read(LogIndex(1)), Ok(Some(_))));
    assert_eq!(log.reader().read(LogIndex(2)), Ok(None));
}

#[test]
fn a_full_disk_refuses_frames_until_there_is_space() {
    for seed in 0..200 {
        let disk = MemoryDisk::new(seed);
        let mut log = FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates");
        disk.set_capacity(4_000);
        let mut run = Run { created: true, ..Run::default() };
        let add = |log: &mut FileLog<MemoryDisk>, run: &mut Run, size| {
            let frame = frame_after(&log.tail(), &[size]);
            let result = log.append(&frame);
            run.appended.extend(result.is_ok().then_some(frame));
            result
        };
        assert_eq!(add(&mut log, &mut run, 2_000), Ok(()));
        let before = (log.end(), log.chain());
        assert_eq!(add(&mut log, &mut run, 2_000), Err(LogError::Full));
        assert_eq!((log.end(), log.chain()), before, "nothing was appended");
        assert_eq!(log.durable_end(), log.end(), "what was taken back was so durably");
        run.synced = run.appended.len();
        assert_eq!(add(&mut log, &mut run, 100), Ok(()));
        if seed % 2 == 0 {
            log.sync().expect("syncs");
            run.synced = run.appended.len();
        }
        disk.set_capacity(u64::MAX);
        assert_eq!(add(&mut log, &mut run, 2_000), Ok(()));
        drop(log);
        let disk = disk.crash();
        let log = reopen(&disk, &run).expect("the log exists");
        continue_log(&disk, log, run);
    }
}

/// The next segment does not fit: no part of it remains, and the log continues once there is space.
#[test]
fn a_disk_too_full_for_the_next_segment_refuses() {
    let disk = MemoryDisk::new(3);
    let mut log = FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates");
    log.append(&frame_after(&log.tail(), &[10_000])).expect("appends");
    disk.set_capacity(11_000);
    let frame = frame_after(&log.tail(), &[5_000]);
    for _ in 0..3 {
        assert_eq!(log.append(&frame), Err(LogError::Full));
    }
    disk.set_capacity(u64::MAX);
    assert_eq!(log.append(&frame), Ok(()));
    log.sync().expect("syncs");
    drop(log);
    let (mut log, report) = FileLog::open(disk.crash(), OPTIONS).expect("recovers");
    assert_eq!((report.segments, report.frames, report.end), (2, 2, LogIndex(2)));
    assert_eq!(frames_of(&mut log, LogIndex(2)), [frame]);
}
