//! A record of a log that was opened quickly is found with few reads of its segment. A walk that
//! begins in the middle reads little before it.

use journal::contract::{IDENTITY, frame_after, frames_of};
use journal::{
    Destination, FileLog, LogOptions, MemoryDisk, OfflineReader, Retention, TieredDisk, Verify,
};
use ledger::{Digest, LogIndex, Stamp};
use ports::{Disk, Log, LogError, OwnedPayload, RecordReader, StopReading};
use record::frame::{Frame, Tail};

/// Frames of one to many records, short and long, over three segments.
fn write(disk: &MemoryDisk, options: LogOptions) -> u64 {
    let mut log = FileLog::create(disk.clone(), IDENTITY, options).expect("creates");
    fill(&mut log, 2 * options.segment_bytes + (1 << 20));
    log.end().0
}

/// Appends such frames up to this number of bytes.
fn fill<D: Disk>(log: &mut FileLog<D>, enough: u64) {
    let mut bytes = 0;
    for number in 0_usize.. {
        let record = 300 + (number * 7_919) % 1_500;
        let many = if number.is_multiple_of(97) { 80 } else { 1 + number % 4 };
        let frame = frame_after(&log.tail(), &vec![record; many]);
        log.append(&frame).expect("there is room");
        bytes += frame.len() as u64;
        if enough < bytes {
            break;
        }
    }
    log.sync().expect("memory does not fail");
}

#[test]
fn a_record_is_found_by_bisection() {
    let segment_bytes = 8 << 20;
    let options =
        LogOptions { segment_bytes, verify: Verify::LastSegment, ..LogOptions::default() };
    let disk = MemoryDisk::new(1);
    let end = write(&disk, options);
    let (log, _) = FileLog::open(disk.clone(), options).expect("opens");
    assert_eq!(log.end(), LogIndex(end));
    let reader = log.reader();
    let mut log_indexes: Vec<u64> = (1..=end).step_by(23).collect();
    // The first ones are far apart, so that no search profits from another one.
    log_indexes.sort_by_key(|log_index| (log_index * 2_654_435_761) % 4_294_967_291);
    let mut first = 0;
    for (at, log_index) in log_indexes.iter().enumerate() {
        let before = disk.bytes_read();
        let record = reader.read(LogIndex(*log_index)).expect("it is whole").expect("it is there");
        assert_eq!(record.log_index, LogIndex(*log_index));
        assert_eq!(record.fields, log_index.to_le_bytes());
        assert!(matches!(record.payload, OwnedPayload::Stored(_)));
        let taken = disk.bytes_read() - before;
        // Seven halvings with a window each, and the reads up to the frame.
        assert!(taken < 1 << 20, "record {log_index}, number {at}: {taken} bytes");
        if at == 0 {
            first = taken;
        }
    }
    let before = disk.bytes_read();
    reader.read(LogIndex(log_indexes[0])).expect("it is whole").expect("it is there");
    let again = disk.bytes_read() - before;
    assert!(again <= first.max(400_000), "{again} bytes after {first}");
}

#[test]
fn a_long_frame_is_not_divided() {
    let segment_bytes = 32 << 20;
    let options =
        LogOptions { segment_bytes, verify: Verify::LastSegment, ..LogOptions::default() };
    let disk = MemoryDisk::new(1);
    let mut log = FileLog::create(disk.clone(), IDENTITY, options).expect("creates");
    let mut longest = 0;
    while log.end() < LogIndex(24_000) {
        let record = 1_000 + (log.end().0 as usize * 7_919) % 2_011;
        let frame = frame_after(&log.tail(), &vec![record; 1_000]);
        log.append(&frame).expect("there is room");
        longest = longest.max(frame.len() as u64);
    }
    log.sync().expect("memory does not fail");
    let mut taken = 0;
    for log_index in (500..16_000).step_by(1_000) {
        let opened = FileLog::open(disk.clone(), options).expect("opens");
        let before = disk.bytes_read();
        let record = opened.0.reader().read(LogIndex(log_index)).expect("it is whole");
        assert_eq!(record.expect("it is there").log_index, LogIndex(log_index));
        taken += disk.bytes_read() - before;
    }
    // A frame is read once, with about one more on the way to it. Dividing it would add half of
    // one.
    assert!(taken < 16 * longest * 24 / 10, "{taken} bytes, {longest} the longest frame");
}

/// Redelivery reads records one after the other, not the whole log.
#[test]
fn a_record_after_the_last_one_read_is_found_from_there() {
    let options =
        LogOptions { segment_bytes: 1 << 20, verify: Verify::LastSegment, ..LogOptions::default() };
    let disk = MemoryDisk::new(3);
    let end = write(&disk, options);
    let (log, _) = FileLog::open(disk.clone(), options).expect("opens");
    let reader = log.reader();
    let taken = |log_index: u64| {
        let before = disk.bytes_read();
        let record = reader.read(LogIndex(log_index)).expect("it is whole").expect("it is there");
        assert_eq!(record.log_index, LogIndex(log_index));
        assert_eq!(record.fields, log_index.to_le_bytes());
        disk.bytes_read() - before
    };
    let mut some = 0;
    for log_index in (1..=end).step_by(7) {
        some += taken(log_index);
    }
    let readings = end / 7;
    // A frame of many records is long itself.
    assert!(some / readings < 40_000, "{some} bytes for {readings} records");
    // In descending order, each record is searched for again.
    assert!((1..=end).rev().step_by(7).map(taken).sum::<u64>() / readings < 140_000);
}

/// Redelivery to several recipients alternates. Each continues from its last record.
#[test]
fn alternating_readers_do_not_disturb_each_other() {
    let options =
        LogOptions { segment_bytes: 1 << 20, verify: Verify::LastSegment, ..LogOptions::default() };
    let disk = MemoryDisk::new(4);
    let end = write(&disk, options);
    let before = disk.bytes_read();
    let (log, _) = FileLog::open(disk.clone(), options).expect("opens");
    let reader = log.reader();
    let (turns, part) = (end / 28, end / 4);
    for turn in 0..turns {
        for recipient in 0..4 {
            let log_index = LogIndex(1 + recipient * part + turn * 7);
            let record = reader.read(log_index).expect("it is whole").expect("it is there");
            assert_eq!(record.log_index, log_index);
        }
    }
    let each = (disk.bytes_read() - before) / (4 * turns);
    // One window and the frame, which may be long.
    assert!(each < 70_000, "{each} bytes for a record");
}

/// A walk of a log that this process wrote begins near any frame, including one that the index
/// names.
#[test]
fn a_walk_begins_near_its_first_frame() {
    let disk = MemoryDisk::new(5);
    let mut log = FileLog::create(disk.clone(), IDENTITY, LogOptions::default()).expect("creates");
    for _ in 0..1_500 {
        log.append(&frame_after(&log.tail(), &[1_000])).expect("there is room");
    }
    log.sync().expect("memory does not fail");
    let frames = log.frames();
    for log_index in 1..=1_500 {
        let before = disk.bytes_read();
        let mut first = None;
        let walked = frames.replay(LogIndex(log_index), &mut |frame| {
            first = Some(frame.header().first);
            Err(StopReading)
        });
        assert_eq!((walked, first), (Ok(()), Some(LogIndex(log_index))));
        let taken = disk.bytes_read() - before;
        // Two steps of the index, and some reads of doubling length.
        assert!(taken < 500_000, "from {log_index}: {taken} bytes");
    }
}

/// With any number of segments, only few are open at a time.
#[test]
fn few_segments_are_open_at_a_time() {
    const OPEN_MAX: u64 = 32;
    let options =
        LogOptions { segment_bytes: 2_000, verify: Verify::LastSegment, ..LogOptions::default() };
    let disk = MemoryDisk::new(6);
    let count = || disk.open_files();
    let mut log = FileLog::create(disk.clone(), IDENTITY, options).expect("creates");
    let mut most = 0;
    for _ in 0..80 {
        log.append(&frame_after(&log.tail(), &[1_500])).expect("there is room");
        log.sync().expect("memory does not fail");
        most = most.max(count());
    }
    // One more may be open, and the one that is being written.
    assert_eq!(most, OPEN_MAX, "while it is written");
    let reader = log.reader();
    for log_index in (1..=80).rev() {
        assert!(matches!(reader.read(LogIndex(log_index)), Ok(Some(_))), "{log_index}");
        assert!(count() <= OPEN_MAX + 1, "{} are open", count());
    }
}

/// Reads double in length up to 256 KiB, and read each byte about once.
#[test]
fn a_whole_log_is_read_in_few_pieces() {
    let options = LogOptions { segment_bytes: 8 << 20, ..LogOptions::default() };
    let disk = MemoryDisk::new(7);
    write(&disk, options);
    let before = (disk.reads(), disk.bytes_read());
    let walked = journal::walk(&disk, &mut |_| Ok(())).expect("it is whole");
    let (bytes, pieces) = (walked.bytes, disk.reads() - before.0);
    let read = disk.bytes_read() - before.1;
    assert!(bytes <= read && read < bytes + bytes / 10, "{read} bytes read for {bytes}");
    let whole = bytes / (256 << 10);
    assert!((whole..whole + 60).contains(&pieces), "{pieces} readings of {bytes} bytes");
}

/// A sequential reader gets eight blocks at once.
#[test]
fn compressed_blocks_are_read_ahead() {
    let disk = MemoryDisk::new(8);
    write(&disk, LogOptions { segment_bytes: 8 << 20, ..LogOptions::default() });
    let log = TieredDisk::open(disk.clone()).expect("opens");
    let all = Retention { keep_segments: 0, closed_by: Stamp(u64::MAX) };
    let due = journal::due(&log, &all, Destination::InPlace).expect("lists");
    for due in &due {
        journal::archive_segment(&log, due, Destination::InPlace, &mut |_| Ok(()))
            .expect("compresses");
    }
    let log = TieredDisk::open(disk.clone()).expect("opens");
    let before = disk.reads();
    let walked = journal::walk(&log, &mut |_| Ok(())).expect("it is whole");
    let (blocks, pieces) = (walked.bytes / (256 << 10), disk.reads() - before);
    assert!(4 * pieces < 3 * blocks, "{pieces} readings of {blocks} blocks");
}

#[test]
fn single_records_of_an_idle_log_are_found() {
    let disk = MemoryDisk::new(6);
    let end = write(&disk, LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() });
    let records = OfflineReader::open(disk).expect("opens");
    assert_eq!(records.identity(), IDENTITY);
    for log_index in (1..=end).step_by(301).chain([end]).map(LogIndex) {
        let record = records.read(log_index).expect("it is whole").expect("it is there");
        assert_eq!(
            (record.log_index, &record.fields[..]),
            (log_index, &log_index.0.to_le_bytes()[..])
        );
    }
    assert!(matches!(records.read(LogIndex(end + 1)), Err(LogError::Damaged { .. })));
}

/// A search at the end reads little before it, and reports damage.
#[test]
fn the_end_of_an_idle_log_is_searched() {
    let disk = MemoryDisk::new(8);
    let options = LogOptions { segment_bytes: 1 << 30, ..LogOptions::default() };
    let mut log = FileLog::create(disk.clone(), IDENTITY, options).expect("creates");
    fill(&mut log, 8 << 20);
    let end = log.end().0;
    log.close().expect("memory does not fail");
    let name = disk.list().expect("lists").pop().expect("there is one");
    let length = disk.content(&name).expect("exists").len();
    let records = OfflineReader::open(disk.clone()).expect("opens");
    for from in [end, end - 1, end - 40] {
        let (before, mut seen) = (disk.bytes_read(), Vec::new());
        let visited = records.visit(LogIndex(from), &mut |frame| {
            seen.extend(frame.records().map(|record| record.log_index.0));
            Ok(())
        });
        assert_eq!(visited, Ok(()));
        assert!(seen.contains(&from), "from the frame that holds it");
        assert_eq!((seen.last(), seen.len() as u64), (Some(&end), 1 + end - seen[0]));
        let taken = disk.bytes_read() - before;
        // Halvings with a window each, out of eight megabytes.
        assert!(taken < 2 << 20, "from {from} of {end}: {taken} bytes");
    }
    disk.damage(&name, length - 200, 1);
    let visited = records.visit(LogIndex(end - 1), &mut |_| Ok(()));
    assert!(matches!(visited, Err(LogError::Damaged { .. })), "{visited:?}");
}

/// A new record is not searched for from the start of the open segment.
#[test]
fn a_record_of_the_open_segment_is_found_nearby() {
    let disk = MemoryDisk::new(5);
    let mut log = FileLog::create(disk.clone(), IDENTITY, LogOptions::default()).expect("creates");
    fill(&mut log, 4 << 20);
    let (reader, end) = (log.reader(), log.end().0);
    // In descending order, no record is found from the previous one.
    for log_index in (1..=end).rev().step_by(101).map(LogIndex) {
        let before = disk.bytes_read();
        reader.read(log_index).expect("it is whole").expect("it is there");
        let taken = disk.bytes_read() - before;
        assert!(taken < 500_000, "{log_index:?}: {taken} bytes");
    }
}

#[test]
fn a_walk_from_the_middle_reads_little_before_it() {
    let options =
        LogOptions { segment_bytes: 4 << 20, verify: Verify::LastSegment, ..LogOptions::default() };
    let disk = MemoryDisk::new(2);
    let end = write(&disk, options);
    let (mut log, _) = FileLog::open(disk.clone(), options).expect("opens");
    let follower = log.frames();
    for log_index in (1..=end).step_by(311).chain([2, end]).map(LogIndex) {
        let mut found = None;
        let mut note = |frame: &Frame<'_>| {
            found = Some((frame.header().first, frame.header().last(), frame.chain()));
            Err(StopReading)
        };
        let before = disk.bytes_read();
        log.replay(log_index, &mut note).expect("it is whole");
        let taken = disk.bytes_read() - before;
        // Halvings with a window each, and the window of the frame.
        assert!(taken < 2 << 20, "from {log_index:?}: {taken} bytes");
        let (first, last, chain) = found.expect("a frame has it");
        assert!((first..=last).contains(&log_index), "{log_index:?} in {first:?} to {last:?}");
        let tail = follower.tail_at(last).expect("it is whole").expect("a frame ends there");
        assert_eq!((tail.end, tail.chain), (last, chain));
    }
}

/// The first visited frame is checked against the previous one, wherever the walk begins.
#[test]
fn a_frame_of_another_chain_is_not_visited() {
    let disk = MemoryDisk::new(3);
    let options = LogOptions { verify: Verify::LastSegment, ..LogOptions::default() };
    let mut log = FileLog::create(disk.clone(), IDENTITY, options).expect("creates");
    let mut tails = vec![log.tail()];
    for _ in 0..600 {
        log.append(&frame_after(&log.tail(), &[700])).expect("there is room");
        tails.push(log.tail());
    }
    log.sync().expect("memory does not fail");
    let name = disk.list().expect("lists")[0].clone();
    let good = disk.content(&name).expect("it is there");
    let whole = frames_of(&mut log, LogIndex(1));
    for forged in [1_usize, 2, 90, 91, 92, 93, 300, 599] {
        // Valid in itself, at its place, and of the same length.
        let base = Tail { chain: Digest([7; 32]), ..tails[forged - 1] };
        let frame = frame_after(&Tail { durable: LogIndex(0), ..base }, &[700]);
        let at = 512 + (forged - 1) * whole[0].len();
        assert_eq!(frame.len(), whole[forged - 1].len());
        let mut bytes = good.clone();
        bytes[at..at + frame.len()].copy_from_slice(&frame);
        disk.put(&name, &bytes);
        let from = LogIndex(forged as u64);
        for from in [from, LogIndex(from.0.saturating_sub(5).max(1))] {
            let visit = |visited: &mut Vec<u64>, frame: &Frame<'_>| {
                visited.push(frame.header().first.0);
                Ok(())
            };
            let (mut live, mut followed) = (Vec::new(), Vec::new());
            let replayed = log.replay(from, &mut |frame| visit(&mut live, frame));
            let broken = matches!(&replayed, Err(LogError::Damaged { reason, .. })
                if reason.contains("chain"));
            assert!(broken, "{forged} from {from:?}: {replayed:?}");
            let replayed = log.frames().replay(from, &mut |frame| visit(&mut followed, frame));
            assert!(matches!(replayed, Err(LogError::Damaged { .. })), "{forged} from {from:?}");
            assert_eq!(live, (from.0..forged as u64).collect::<Vec<_>>());
            assert_eq!(followed, live);
        }
    }
}
