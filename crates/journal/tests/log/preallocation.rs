//! Preallocated zeros after the frames are not part of the log.

use journal::contract::{IDENTITY, frame_after};
use journal::{DamageReason, FileLog, LogOptions, MemoryDisk, OfflineReader, OpenError};
use ledger::LogIndex;
use ports::{Disk, DiskFile, Log};

use crate::common::STRICT;

const ROOM: u64 = 5_000;
const OPTIONS: LogOptions = LogOptions { segment_bytes: 20_000, room_bytes: ROOM, ..STRICT };

fn create(disk: &MemoryDisk) -> FileLog<MemoryDisk> {
    FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates")
}

fn grow(log: &mut FileLog<MemoryDisk>, frames: usize) {
    for _ in 0..frames {
        log.append(&frame_after(&log.tail(), &[300])).expect("appends");
        log.sync().expect("syncs");
    }
}

fn last_segment(disk: &MemoryDisk) -> Vec<u8> {
    let name = disk.list().expect("lists").pop().expect("there is one");
    disk.content(&name).expect("exists")
}

/// End of the frames of the last segment.
fn end_of_frames(disk: &MemoryDisk) -> usize {
    let (mut end, mut segment) = (0, String::new());
    journal::walk(disk, &mut |placed| {
        end = placed.offset as usize + placed.frame.as_bytes().len();
        segment = placed.segment.to_owned();
        Ok(())
    })
    .expect("it is sound");
    assert_eq!(disk.list().expect("lists").pop(), Some(segment));
    end
}

#[test]
fn preallocated_space_is_not_a_loss() {
    for end in [MemoryDisk::kill, MemoryDisk::crash] {
        let disk = MemoryDisk::new(1);
        grow(&mut create(&disk), 3);
        let disk = end(&disk);
        let walked = journal::walk(&disk, &mut |_| Ok(())).expect("it is sound");
        assert_eq!((walked.tail.end, walked.torn), (LogIndex(3), None));
        let mut read = 0;
        let records = OfflineReader::open(disk.clone()).expect("opens");
        let read_all = records.visit(LogIndex(1), &mut |_| {
            read += 1;
            Ok(())
        });
        read_all.expect("zeros are its end");
        assert_eq!(read, 3);

        let (end, content) = (end_of_frames(&disk), last_segment(&disk));
        assert!(content.len() - end <= ROOM as usize && content[end..].iter().all(|b| *b == 0));
        let (mut log, report) = FileLog::open(disk.clone(), OPTIONS).expect("opens");
        assert_eq!((report.dropped, report.end), (None, LogIndex(3)));
        grow(&mut log, 1);
        assert_eq!(log.durable_end(), LogIndex(4));
    }
}

/// A process can end in the middle of a write, at any point. Nothing is refused.
#[test]
fn an_incomplete_write_is_torn() {
    let disk = MemoryDisk::new(1);
    let mut log = create(&disk);
    grow(&mut log, 3);
    let frame = frame_after(&log.tail(), &[300]);
    drop(log);
    let (end, content) = (end_of_frames(&disk), last_segment(&disk));
    let name = disk.list().expect("lists").remove(0);
    for written in 0..frame.len() - 8 {
        let mut torn = content.clone();
        torn[end..end + written].copy_from_slice(&frame[..written]);
        disk.put(&name, &torn);
        let (log, report) = FileLog::open(disk.clone(), OPTIONS)
            .unwrap_or_else(|error| panic!("{written} of {}: {error}", frame.len()));
        assert_eq!((log.end(), report.dropped.is_some()), (LogIndex(3), 0 < written));
    }
}

#[test]
fn space_is_preallocated_rarely_and_released_with_the_segment() {
    let disk = MemoryDisk::new(1);
    let mut log = create(&disk);
    let mut lengths = std::collections::BTreeSet::new();
    while disk.list().expect("lists").len() < 3 {
        grow(&mut log, 1);
        lengths.insert(last_segment(&disk).len());
    }
    let frames = log.end().0 as usize;
    assert!(lengths.len() * 4 < frames, "{} lengths for {frames} frames", lengths.len());
    for name in &disk.list().expect("lists")[..2] {
        let content = disk.content(name).expect("exists");
        assert!(content.len() <= OPTIONS.segment_bytes as usize);
        assert!(content[content.len() - 300..].iter().any(|byte| *byte != 0), "it ends in zeros");
    }
    drop(log);
    journal::walk(&disk.crash(), &mut |_| Ok(())).expect("all of it is sound");
}

#[test]
fn without_space_to_preallocate_the_log_continues() {
    let disk = MemoryDisk::new(1);
    let mut log = create(&disk);
    disk.set_capacity(512 + 3_000);
    grow(&mut log, 3);
    let used = last_segment(&disk).len();
    assert_eq!(used, end_of_frames(&disk), "zeros are given back");
    while log.append(&frame_after(&log.tail(), &[300])).is_ok() {}
    assert!(!log.is_poisoned());
    disk.set_capacity(1 << 20);
    grow(&mut log, 1);
    assert_eq!(log.durable_end(), log.end());
}

#[test]
fn other_bytes_in_preallocated_space_are_refused() {
    let disk = MemoryDisk::new(1);
    grow(&mut create(&disk), 3);
    let (end, content) = (end_of_frames(&disk), last_segment(&disk));
    let name = disk.list().expect("lists").remove(0);
    for at in (end..content.len()).step_by(97) {
        let mut damaged = content.clone();
        damaged[at] ^= 4;
        disk.put(&name, &damaged);
        match FileLog::open(disk.clone(), OPTIONS) {
            // The error of a frame with a missing sector.
            Ok((log, report)) => {
                assert_eq!((log.end(), report.dropped.is_some()), (LogIndex(3), true));
            }
            Err(OpenError::Damaged(damage)) => {
                assert_eq!((damage.offset, damage.log_index), (end as u64, LogIndex(4)));
                assert!(matches!(damage.reason, DamageReason::Stored(_)), "{damage}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_closed_log_ends_with_its_last_frame() {
    let disk = MemoryDisk::new(1);
    let mut log = create(&disk);
    grow(&mut log, 2);
    log.append(&frame_after(&log.tail(), &[300])).expect("appends");
    log.close().expect("closes");
    assert_eq!((log.durable_end(), last_segment(&disk).len()), (LogIndex(3), end_of_frames(&disk)));
    grow(&mut log, 1);
    assert!(end_of_frames(&disk) < last_segment(&disk).len(), "and goes on if need be");
    drop(log);
    let (log, _) = FileLog::open(disk.crash(), OPTIONS).expect("opens");
    assert_eq!(log.end(), LogIndex(4));
}

/// Preallocated space is zeros in the file, up to the requested length.
#[test]
fn preallocated_space_has_the_requested_length() {
    let disk = MemoryDisk::new(1);
    let wide = LogOptions { segment_bytes: 1 << 20, room_bytes: 150_000, ..OPTIONS };
    let mut log = FileLog::create(disk.clone(), IDENTITY, wide).expect("creates");
    grow(&mut log, 1);
    let first = end_of_frames(&disk);
    assert_eq!(last_segment(&disk).len(), first + 150_000);
    // A frame that fits to the byte needs no more space.
    let overhead = frame_after(&log.tail(), &[300]).len() - 300;
    log.append(&frame_after(&log.tail(), &[150_000 - overhead])).expect("appends");
    assert_eq!(last_segment(&disk).len(), first + 150_000);
    grow(&mut log, 1);
    assert_eq!(last_segment(&disk).len(), end_of_frames(&disk) + 150_000);

    let disk = MemoryDisk::new(1);
    let usual = LogOptions::default();
    grow(&mut FileLog::create(disk.clone(), IDENTITY, usual).expect("creates"), 1);
    assert_eq!(last_segment(&disk).len(), end_of_frames(&disk) + (256 << 10));
}

/// A segment accepts a frame that fits to the byte.
#[test]
fn a_segment_is_filled_to_its_end() {
    for (over, segments) in [(0, 1), (1, 2)] {
        let disk = MemoryDisk::new(1);
        let mut log = create(&disk);
        grow(&mut log, 1);
        let overhead = frame_after(&log.tail(), &[300]).len() - 300;
        let left = OPTIONS.segment_bytes as usize - end_of_frames(&disk);
        log.append(&frame_after(&log.tail(), &[left - overhead + over])).expect("appends");
        assert_eq!(disk.list().expect("lists").len(), segments, "{over} bytes over");
    }
}

#[test]
fn bytes_that_became_durable_are_counted() {
    let disk = MemoryDisk::new(1);
    let mut log = create(&disk);
    let frames = log.frames();
    let header = last_segment(&disk).len();
    assert_eq!(frames.bytes(), 0);
    log.append(&frame_after(&log.tail(), &[300])).expect("appends");
    assert_eq!(frames.bytes(), 0, "nothing is synced");
    grow(&mut log, 2);
    assert_eq!(frames.bytes() as usize, end_of_frames(&disk) - header);
}

#[test]
fn a_failed_sync_is_reported() {
    let disk = MemoryDisk::new(1);
    let mut log = create(&disk);
    grow(&mut log, 1);
    assert!(!log.is_poisoned());
    log.append(&frame_after(&log.tail(), &[300])).expect("appends");
    disk.fail_sync_at(disk.operations());
    assert!(log.sync().is_err() && log.is_poisoned());
}

#[test]
fn a_replica_log_preallocates_nothing() {
    let disk = MemoryDisk::new(1);
    let mut log = create(&disk).into_copy();
    (0..3).for_each(|_| log.append(&frame_after(&log.tail(), &[300])).expect("appends"));
    let file = disk.open(&disk.list().expect("lists")[0]).expect("opens");
    assert_eq!(file.length(), Ok(end_of_frames(&disk) as u64));
}
