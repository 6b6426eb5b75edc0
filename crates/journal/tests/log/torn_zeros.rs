//! Damage and loss are distinguished in a last frame that contains zeros of its own.
//!
//! No later frame proves its durability, so only its own bytes can show the difference. Any flipped
//! bit of a stored frame is refused, and any sector that a crash kept from being stored is
//! repaired.

use journal::contract::{IDENTITY, frame_after};
use journal::{DamageReason, FileLog, LogOptions, MemoryDisk, OpenError, Recovery};
use ledger::LogIndex;
use ports::{Disk, Log};
use record::frame::{
    BatchHeader, FRAME_HEADER_BYTES, FrameBuilder, NewRecord, STANDALONE_NODE, Tail, payload_digest,
};

use crate::common::STRICT;

const OPTIONS: LogOptions = LogOptions { segment_bytes: 60_000, ..STRICT };
const SECTOR: usize = 512;

/// A log of two synced frames. The second one is shifted by `before` bytes and ends in a payload.
struct Sample {
    disk: MemoryDisk,
    name: String,
    bytes: Vec<u8>,
    start: usize,
}

impl Sample {
    fn new(node: u32, before: usize, payload: &[u8]) -> Self {
        let disk = MemoryDisk::new(3);
        let mut log = FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates");
        log.append(&frame_after(&log.tail(), &[1 + before])).expect("appends");
        log.sync().expect("syncs");
        let name = disk.list().expect("lists")[0].clone();
        let start = disk.content(&name).expect("exists").len();
        log.append(&last_frame(node, &log.tail(), payload)).expect("appends");
        log.sync().expect("syncs");
        drop(log);
        let disk = disk.kill();
        let bytes = disk.content(&name).expect("exists");
        Self { disk, name, bytes, start }
    }

    /// Two frames that were written without a sync in between, and the offset of the second.
    fn of_two() -> (Self, usize) {
        let disk = MemoryDisk::new(3);
        let mut log = FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates");
        log.append(&frame_after(&log.tail(), &[1])).expect("appends");
        log.sync().expect("syncs");
        let name = disk.list().expect("lists")[0].clone();
        let length = || disk.content(&name).expect("exists").len();
        let start = length();
        log.append(&frame_after(&log.tail(), &[1_500])).expect("appends");
        let second = length();
        log.append(&frame_after(&log.tail(), &[1_500])).expect("appends");
        drop(log);
        let bytes = disk.content(&name).expect("exists");
        (Self { disk, name, bytes, start }, second)
    }

    /// Like [`Sample::new`], with a frame that starts this many bytes after a sector boundary.
    fn at(within: usize, payload: &[u8]) -> Self {
        let start = Self::new(STANDALONE_NODE, 0, payload).start;
        let sample =
            Self::new(STANDALONE_NODE, (within + SECTOR - start % SECTOR) % SECTOR, payload);
        assert_eq!(sample.start % SECTOR, within);
        sample
    }

    #[track_caller]
    fn refuses(&self, content: &[u8]) {
        let opened = self.open(content);
        let Err(OpenError::Damaged(damage)) = opened else { panic!("{opened:?}") };
        assert!(matches!(damage.reason, DamageReason::Stored(_)), "{damage}");
    }

    fn open(&self, content: &[u8]) -> Result<Recovery, OpenError> {
        self.disk.put(&self.name, content);
        FileLog::open(self.disk.clone(), OPTIONS).map(|(_, report)| report)
    }

    /// The parts of the last frame that are stored or lost as a unit.
    fn pieces(&self) -> Vec<std::ops::Range<usize>> {
        let end = self.bytes.len();
        let borders = (self.start / SECTOR + 1..).map(|sector| sector * SECTOR);
        let mut starts: Vec<usize> = vec![self.start];
        starts.extend(borders.take_while(|border| *border < end));
        let ends = starts.iter().skip(1).chain([&end]);
        starts.iter().zip(ends).map(|(from, to)| *from..*to).collect()
    }
}

fn last_frame(node: u32, tail: &Tail, payload: &[u8]) -> Vec<u8> {
    let mut builder = FrameBuilder::new();
    let payload = Some((payload, payload_digest(payload)));
    let record = NewRecord { kind: 1, version: 1, fields: b"fields", payload };
    builder.push(&record.encode().expect("it is short")).expect("it fits");
    let batch = BatchHeader { stamp: tail.stamp, node, ..BatchHeader::default() };
    builder.seal(tail, &batch).bytes.to_vec()
}

/// Payloads in which a whole sector may be zeros.
fn payloads() -> Vec<Vec<u8>> {
    let text = vec![b'x'; 400];
    let zeros = |length| vec![0; length];
    vec![
        [text.clone(), zeros(10)].concat(),
        [text.clone(), zeros(511)].concat(),
        [text.clone(), zeros(1_300)].concat(),
        [text.clone(), zeros(1_100), text.clone()].concat(),
        [zeros(600), text.clone(), zeros(700), text, zeros(300)].concat(),
        zeros(1_024),
    ]
}

#[test]
fn a_flipped_bit_is_never_treated_as_a_loss() {
    for (before, payload) in cases() {
        let sample = Sample::new(STANDALONE_NODE, before, &payload);
        for at in (sample.start..sample.bytes.len()).step_by(5) {
            let mut content = sample.bytes.clone();
            content[at] ^= 1 << (at % 8);
            sample.refuses(&content);
        }
    }
}

#[test]
fn every_missing_sector_is_detected() {
    for node in [STANDALONE_NODE, 2] {
        for (before, payload) in cases() {
            let sample = Sample::new(node, before, &payload);
            for piece in sample.pieces() {
                let mut content = sample.bytes.clone();
                content[piece.clone()].fill(0);
                let report = sample.open(&content).expect("a crash leaves it so");
                let whole = content == sample.bytes;
                // A frame that is lost completely leaves nothing to truncate.
                let nothing = content[sample.start..].iter().all(|&byte| byte == 0);
                let kept = report.dropped.is_none();
                assert_eq!(kept, whole || nothing, "{piece:?} of {}", content.len());
                assert_eq!(report.end, LogIndex(if whole { 2 } else { 1 }));
            }
        }
    }
}

/// The last sector of a frame is the first of the next one.
#[test]
fn a_shared_sector_is_lost_for_both_frames_or_for_neither() {
    let (sample, second) = Sample::of_two();
    let border = second / SECTOR * SECTOR;
    assert!(sample.start < border && border < second, "it starts within a sector");
    let mut content = sample.bytes.clone();
    content[border..border + SECTOR].fill(0);
    assert_eq!(sample.open(&content).expect("a crash leaves it so").end, LogIndex(1));
    // Later bytes of a sector are not stored without the earlier ones.
    let mut content = sample.bytes.clone();
    content[border..second].fill(0);
    sample.refuses(&content);
}

/// At any distance from it, and for any window of the search.
#[test]
fn a_later_frame_proves_durability_of_one_with_a_missing_sector() {
    let overhead = frame_after(&Tail::genesis(IDENTITY), &[1]).len() - 1;
    let reading = 1 + (8 << 10);
    let borders = (reading - 5..=reading + 2).chain([3 * reading, 6 * reading]);
    for length in borders {
        let disk = MemoryDisk::new(3);
        let mut log = FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates");
        for size in [1, length - overhead, 1] {
            log.append(&frame_after(&log.tail(), &[size])).expect("appends");
            log.sync().expect("syncs");
        }
        drop(log);
        let name = disk.list().expect("lists")[0].clone();
        let start = SECTOR + overhead + 1;
        let lost = (start / SECTOR + 2) * SECTOR;
        let mut content = disk.content(&name).expect("exists");
        content[lost..lost + SECTOR].fill(0);
        disk.put(&name, &content);
        let opened = FileLog::open(disk, OPTIONS).map(|(_, report)| report);
        let Err(OpenError::Damaged(damage)) = opened else { panic!("{length}: {opened:?}") };
        assert_eq!(damage.offset, start as u64);
        let durable = LogIndex(2);
        assert!(
            matches!(damage.reason, DamageReason::Durable { durable: it, .. } if it == durable)
        );
    }
}

#[test]
fn a_frame_may_end_with_zeros_up_to_its_last_sector() {
    let payload = [vec![b'x'; 400], vec![0; 10]].concat();
    let length = Sample::new(STANDALONE_NODE, 0, &payload);
    let length = length.bytes.len() - length.start;
    let sample = Sample::at((10 + 2 * SECTOR - length % SECTOR) % SECTOR, &payload);
    assert_eq!(sample.bytes.len() % SECTOR, 10);
    let mut content = sample.bytes.clone();
    content[sample.start + 200] ^= 1;
    sample.refuses(&content);
}

/// A wrong header that fills its sector to the last byte was stored, whatever follows it.
#[test]
fn a_damaged_header_is_not_treated_as_missing() {
    let sample = Sample::at(SECTOR - FRAME_HEADER_BYTES, &[b'x'; 1_500]);
    let records_at = sample.start + FRAME_HEADER_BYTES;
    let mut content = sample.bytes.clone();
    content[sample.start + 50] ^= 1;
    content[records_at..records_at + SECTOR].fill(0);
    sample.refuses(&content);
    // With anything far after it, it is not the start of preallocated space either.
    content.truncate(records_at);
    content.extend([0; 100_000]);
    content.push(7);
    sample.refuses(&content);
    content.pop();
    assert_eq!(sample.open(&content).expect("nothing else was stored").end, LogIndex(1));
}

/// A node of a shared log has a copy, whose frames do not record their zeros.
#[test]
fn in_a_replica_log_zeros_at_the_end_are_treated_as_a_loss() {
    let payload = [vec![b'x'; 400], vec![0; 511]].concat();
    let sample = Sample::new(2, 0, &payload);
    let mut content = sample.bytes.clone();
    content[sample.start + 300] ^= 1;
    let report = sample.open(&content).expect("it is taken for a torn end");
    assert_eq!(report.end, LogIndex(1));
}

/// All positions of the frame's start and end within a sector.
fn cases() -> Vec<(usize, Vec<u8>)> {
    let payloads = payloads();
    let each = |before| payloads.iter().map(move |payload| (before, payload.clone()));
    (0..SECTOR).step_by(73).flat_map(each).collect()
}
