//! The tests that every [`Log`] must pass, and helpers that write frames for them.
//!
//! A log joins with a [`Subject`], which creates one, and crashes and reopens it.

use std::sync::Arc;

use ledger::{LogIndex, Stamp};
use ports::{Log, LogError, OwnedPayload, RecordReader, Rejection, StopReading};
use record::frame::{
    BatchHeader, Frame, FrameBuilder, FrameError, LogIdentity, NewRecord, SequenceGap, Tail,
    payload_digest,
};

/// The identity of test logs.
pub const IDENTITY: LogIdentity = LogIdentity(*b"contract tests 1");

/// A log under test.
pub trait Subject {
    /// The log.
    type Log: Log;

    /// An empty log of identity [`IDENTITY`].
    fn make(&mut self) -> Self::Log;

    /// The log after a crash and recovery.
    fn crash(&mut self, log: Self::Log) -> Self::Log;
}

/// Runs the whole contract.
///
/// # Panics
/// If the log breaks it.
pub fn check(subject: &mut impl Subject) {
    check_empty(subject);
    check_order(subject);
    check_durability(subject);
    check_replay(subject);
    check_reader(subject);
    check_many(subject);
}

/// A sealed frame after `tail`: one record per entry of `sizes`, with a payload of that size in
/// bytes. Payloads are derived from the log index, so every frame differs. A size of 0 is a record
/// without payload.
#[must_use]
pub fn frame_after(tail: &Tail, sizes: &[usize]) -> Vec<u8> {
    frame_stamped(tail, sizes, Stamp(tail.stamp.0 + 10))
}

/// Like [`frame_after`], with this stamp.
#[must_use]
pub fn frame_stamped(tail: &Tail, sizes: &[usize], stamp: Stamp) -> Vec<u8> {
    frame_of(tail, sizes, stamp, sample_payload)
}

/// Like [`frame_after`], with payloads that are half noise and half zeros, so that they compress to
/// half their length.
#[must_use]
pub fn noisy_frame_after(tail: &Tail, sizes: &[usize]) -> Vec<u8> {
    frame_of(tail, sizes, Stamp(tail.stamp.0 + 10), noisy_payload)
}

fn frame_of(
    tail: &Tail,
    sizes: &[usize],
    stamp: Stamp,
    payload_at: fn(LogIndex, usize) -> Vec<u8>,
) -> Vec<u8> {
    let mut builder = FrameBuilder::new();
    for (at, &size) in sizes.iter().enumerate() {
        let log_index = tail.next().0 + at as u64;
        let payload = payload_at(LogIndex(log_index), size);
        let payload = (size > 0).then(|| (&payload[..], payload_digest(&payload)));
        let fields = log_index.to_le_bytes();
        let record = NewRecord { kind: 1, version: 1, fields: &fields, payload };
        let encoded = record.encode().expect("records of tests are short");
        builder.push(&encoded).expect("frames of tests are short");
    }
    let batch = BatchHeader { stamp, wall: stamp, ..BatchHeader::default() };
    builder.seal(tail, &batch).bytes.to_vec()
}

fn noisy_payload(log_index: LogIndex, size: usize) -> Vec<u8> {
    let mut payload = vec![0; size];
    payload[..size / 2].copy_from_slice(&blobs::contract::sample(size / 2, log_index.0));
    payload
}

/// The payload that [`frame_after`] gives the record at `log_index`. It has no zero byte.
#[must_use]
pub fn sample_payload(log_index: LogIndex, size: usize) -> Vec<u8> {
    (0..size as u64).map(|at| 1 + ((at * 7 + log_index.0 * 13) % 255) as u8).collect()
}

/// The frames of a log, byte for byte.
///
/// # Panics
/// If the log cannot be read.
pub fn frames_of(log: &mut impl Log, from: LogIndex) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    log.replay(from, &mut |frame: &Frame<'_>| {
        frames.push(frame.as_bytes().to_vec());
        Ok(())
    })
    .expect("a sound log can be replayed");
    frames
}

fn append(log: &mut impl Log, sizes: &[usize]) -> Vec<u8> {
    let before = log.tail();
    let bytes = frame_after(&before, sizes);
    log.append(&bytes).expect("the next frame is taken");
    let frame = Frame::parse(&bytes).expect("a sealed frame is sound");
    let after = frame.follows(&before).expect("a frame follows the tail it was sealed for");
    let tail = log.tail();
    assert_eq!(Tail { durable: tail.durable, ..after }, tail, "the tail moves with the frame");
    assert!(before.durable <= tail.durable && tail.durable <= tail.end);
    bytes
}

fn check_empty(subject: &mut impl Subject) {
    let log = subject.make();
    assert_eq!(log.tail(), Tail::genesis(IDENTITY));
    assert_eq!(log.reader().read(LogIndex(1)), Ok(None));
    let mut log = subject.crash(log);
    assert_eq!(log.tail(), Tail::genesis(IDENTITY));
    assert!(frames_of(&mut log, LogIndex(1)).is_empty());
    assert_eq!(log.sync(), Ok(()));
}

fn check_order(subject: &mut impl Subject) {
    let mut log = subject.make();
    append(&mut log, &[30, 0]);
    log.sync().expect("syncs");
    let tail = log.tail();
    assert_eq!(tail.end, LogIndex(2));
    let good = frame_after(&tail, &[5]);
    let other = LogIdentity([0; 16]);
    let late = Stamp(tail.stamp.0 - 1);
    let early = Tail { stamp: Stamp(0), ..tail };
    let order = |error| Rejection::Order(error);
    let mut flipped = good.clone();
    flipped[20] ^= 1;
    for (bytes, expected) in [
        (Vec::new(), Rejection::Frame(FrameError::Short)),
        (good[1..].to_vec(), Rejection::Frame(FrameError::Magic)),
        (flipped, Rejection::Frame(FrameError::HeaderChecksum)),
        (
            frame_after(&Tail { identity: other, ..tail }, &[5]),
            order(SequenceGap::Identity { expected: IDENTITY, found: other }),
        ),
        (
            frame_after(&Tail::genesis(IDENTITY), &[5]),
            order(SequenceGap::LogIndex { expected: LogIndex(3), found: LogIndex(1) }),
        ),
        (
            frame_stamped(&early, &[5], late),
            order(SequenceGap::Stamp { before: tail.stamp, found: late }),
        ),
    ] {
        assert_eq!(log.append(&bytes), Err(LogError::Rejected(expected)));
        assert_eq!(log.tail(), tail, "a refused frame changes nothing");
    }
    let longer = [&good[..], b"x"].concat();
    assert!(matches!(log.append(&longer), Err(LogError::Rejected(Rejection::Frame(_)))));
    check_durable_claim(&mut log);
    assert_eq!(log.append(&frame_stamped(&log.tail(), &[5], log.tail().stamp)), Ok(()));
}

/// A frame may carry a lower durable log index than the log's, never a higher one.
fn check_durable_claim(log: &mut impl Log) {
    append(log, &[9]);
    let tail = log.tail();
    let (known, claimed) = (tail.durable, tail.end);
    assert!(known < claimed, "an append alone makes nothing durable");
    let bold = frame_after(&Tail { durable: claimed, ..tail }, &[5]);
    let refused = LogError::Rejected(Rejection::Durable { claimed, known });
    assert_eq!(log.append(&bold), Err(refused));
    assert_eq!(log.append(&frame_after(&Tail { durable: LogIndex(0), ..tail }, &[5])), Ok(()));
}

fn check_durability(subject: &mut impl Subject) {
    let mut log = subject.make();
    let mut frames = Vec::new();
    for round in 0..6 {
        frames.push(append(&mut log, &[100, 20]));
        frames.push(append(&mut log, &[3]));
        log.sync().expect("syncs");
        assert_eq!(log.durable_end(), log.end());
        let synced = frames.len();
        for extra in 0..round {
            frames.push(append(&mut log, &[700 * extra + 1]));
        }
        log = subject.crash(log);
        assert_eq!(log.durable_end(), log.end(), "all frames are durable after opening");
        let kept = frames_of(&mut log, LogIndex(1));
        assert!(synced <= kept.len(), "no synced frame is lost");
        assert_eq!(kept[..], frames[..kept.len()], "the remaining frames are a prefix");
        frames = kept;
        let last = Frame::parse(&frames[frames.len() - 1]).expect("sound");
        assert_eq!((log.chain(), log.end()), (last.chain(), last.header().last()));
    }
}

fn check_replay(subject: &mut impl Subject) {
    let mut log = subject.make();
    let frames: Vec<_> = (1..=5).map(|count| append(&mut log, &vec![10; count])).collect();
    assert_eq!(log.end(), LogIndex(15));
    for (from, first) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (10, 3), (15, 4), (16, 5)] {
        assert_eq!(frames_of(&mut log, LogIndex(from)), frames[first..], "from {from}");
    }
    let mut seen = 0;
    let stopped = log.replay(LogIndex(1), &mut |_| {
        seen += 1;
        if seen == 2 { Err(StopReading) } else { Ok(()) }
    });
    assert_eq!((stopped, seen), (Ok(()), 2));
}

fn check_reader(subject: &mut impl Subject) {
    let mut log = subject.make();
    let reader = log.reader();
    append(&mut log, &[0, 50]);
    assert_eq!(reader.read(LogIndex(1)), Ok(None), "not durable, not shown");
    log.sync().expect("syncs");
    append(&mut log, &[7]);
    check_read(&reader, LogIndex(1), 0);
    check_read(&reader, LogIndex(2), 50);
    assert_eq!(reader.read(LogIndex(3)), Ok(None), "not durable, not shown");
    log.sync().expect("syncs");
    check_read(&reader, LogIndex(3), 7);
    assert_eq!(reader.read(LogIndex(0)), Ok(None));
    assert_eq!(reader.read(LogIndex(4)), Ok(None));
    let across = std::thread::spawn(move || check_read(&reader, LogIndex(2), 50));
    across.join().expect("a reader works on any thread");
}

fn check_read(reader: &Arc<dyn RecordReader>, log_index: LogIndex, size: usize) {
    let record = reader.read(log_index).expect("reads").expect("the record is durable");
    assert_eq!((record.log_index, &record.fields[..]), (log_index, &log_index.0.to_le_bytes()[..]));
    let expected = match size {
        0 => OwnedPayload::None,
        _ => OwnedPayload::Stored(sample_payload(log_index, size)),
    };
    assert_eq!(record.payload, expected);
}

/// Enough frames to exceed every internal limit of a test log: segments, index steps.
fn check_many(subject: &mut impl Subject) {
    let mut log = subject.make();
    let size = |log_index: u64| (log_index * 37 % 400) as usize;
    for round in 0..400 {
        let next = log.tail().next().0;
        append(&mut log, &[size(next), size(next + 1), size(next + 2)]);
        if round % 7 == 0 {
            log.sync().expect("syncs");
        }
    }
    log.sync().expect("syncs");
    let mut log = subject.crash(log);
    assert_eq!(log.end(), LogIndex(1_200));
    assert_eq!(frames_of(&mut log, LogIndex(1)).len(), 400);
    assert_eq!(frames_of(&mut log, LogIndex(700)).len(), 400 - 233);
    let reader = log.reader();
    for log_index in (1..=1_200).rev() {
        check_read(&reader, LogIndex(log_index), size(log_index));
    }
}
