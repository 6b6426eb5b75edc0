use expect_test::expect;
use proptest::prelude::*;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;

const IDENTITY: LogIdentity = LogIdentity(*b"identity of test");

/// A record in short form: fields and, if any, a payload.
type Sample<'a> = (u16, &'a [u8], Option<&'a [u8]>);

const SAMPLES: &[Sample<'_>] = &[
    (1, b"prepare", Some(b"{\"amount\":\"100\"}")),
    (2, b"", None),
    (7, b"tick", None),
    (9, b"", Some(b"")),
];

fn encoded(&(kind, fields, payload): &Sample<'_>) -> EncodedRecord {
    let payload = payload.map(|bytes| (bytes, payload_digest(bytes)));
    NewRecord { kind, version: 3, fields, payload }.encode().expect("samples are short")
}

#[test]
fn records_written_in_place_equal_encoded_ones() {
    for sample @ &(kind, fields, payload) in SAMPLES {
        let Some(payload) = payload else { continue };
        for bytes in [0, fields.len() + payload.len()] {
            let written = EncodedRecord::write(
                (kind, 3),
                bytes,
                |out| out.extend_from_slice(fields),
                |out| out.extend_from_slice(payload),
            );
            assert_eq!(written, Ok(encoded(sample)));
        }
    }
    let write = |length: usize| {
        EncodedRecord::write((1, 3), 0, |_| (), |out| out.resize(out.len() + length, 0))
    };
    assert!(write(RECORD_BYTES_MAX - RECORD_OVERHEAD_BYTES).is_ok());
    assert_eq!(write(RECORD_BYTES_MAX - RECORD_OVERHEAD_BYTES + 1), Err(RecordTooLarge));
}

fn batch(stamp: u64) -> BatchHeader {
    BatchHeader {
        stamp: Stamp(stamp),
        wall: Stamp(stamp + 5),
        node: STANDALONE_NODE,
        epoch: 4,
        sequence: 77,
        rules_version: 1,
        applied: LogIndex(0),
        outcome_digest: Digest([8; 32]),
    }
}

/// The samples as a frame after `tail`, and the tail after it.
fn sealed(tail: &Tail, samples: &[Sample<'_>]) -> (Vec<u8>, Tail) {
    sealed_by(STANDALONE_NODE, tail, samples)
}

/// The same, sealed by one of several nodes or by the only one.
fn sealed_by(node: u32, tail: &Tail, samples: &[Sample<'_>]) -> (Vec<u8>, Tail) {
    let mut builder = FrameBuilder::new();
    for sample in samples {
        builder.push(&encoded(sample)).expect("samples fit");
    }
    let batch = BatchHeader { node, ..batch(tail.stamp.0 + 1) };
    let sealed = builder.seal(tail, &batch);
    (sealed.bytes.to_vec(), sealed.tail)
}

fn show(frame: &Frame<'_>) -> String {
    let mut out = String::new();
    for record in frame.records() {
        let (kind, version) = (record.kind, record.version);
        let fields = String::from_utf8_lossy(record.fields);
        let payload = match record.payload {
            Payload::None => "none".into(),
            Payload::Erased => format!("erased, {} bytes", record.payload_length),
            Payload::Stored(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        };
        let log_index = record.log_index.0;
        out += &format!("{log_index}: kind {kind} v{version} {fields:?} payload {payload}\n");
    }
    out
}

#[test]
fn frame_round_trips() {
    let start = Tail { end: LogIndex(40), durable: LogIndex(38), ..Tail::genesis(IDENTITY) };
    let (bytes, after) = sealed(&start, SAMPLES);
    let frame = Frame::parse(&bytes).expect("a sealed frame is readable");

    expect![[r#"
        41: kind 1 v3 "prepare" payload "{\"amount\":\"100\"}"
        42: kind 2 v3 "" payload none
        43: kind 7 v3 "tick" payload none
        44: kind 9 v3 "" payload ""
    "#]]
    .assert_eq(&show(&frame));
    assert_eq!(frame.header().batch, batch(1));
    assert_eq!(frame.header().durable, LogIndex(38));
    assert_eq!(frame.header().identity, IDENTITY);
    assert_eq!(frame.follows(&start), Ok(after));
    assert_eq!((after.end, after.durable, after.stamp), (LogIndex(44), LogIndex(38), Stamp(1)));
    assert_eq!(frame.record(LogIndex(43)).expect("held").fields, b"tick");
    assert_eq!(frame.record(LogIndex(40)), None);
    assert_eq!(frame.record(LogIndex(45)), None);
    assert!(frame.records().all(|record| record.verify_payload()));
}

/// Golden value: if it changes, old logs are no longer readable.
#[test]
fn version_1_is_frozen() {
    let (bytes, after) = sealed_by(2, &Tail::genesis(IDENTITY), SAMPLES);
    let header = *Frame::parse(&bytes).expect("a sealed frame is readable").header();
    assert_eq!(header.zeros, None, "it does not say");
    let digest = payload_digest(&bytes);
    expect!["403 bytes, blake3 98ac9838d4f7632c3c2be520d17e4ad147782f9bf3ecf502197d41470e6e351d"]
        .assert_eq(&format!("{} bytes, blake3 {digest}", bytes.len()));
    expect!["77041cddef91b79ec12dcc835095518ad24c98b9a16fd1a2cbe3aa501ecfeaae"]
        .assert_eq(&format!("{}", after.chain));
}

#[test]
fn version_2_is_frozen() {
    let zeros = [0; 700];
    let samples = [SAMPLES, &[(3, b"row", Some(&zeros)), (4, b"end", Some(&[1, 0, 0]))]].concat();
    let (bytes, after) = sealed(&Tail::genesis(IDENTITY), &samples);
    let digest = payload_digest(&bytes);
    expect!["1216 bytes, blake3 3c2bcccdaafd81600fd2844da1e4db1ca3a13d260b0008880e077b902e937383"]
        .assert_eq(&format!("{} bytes, blake3 {digest}", bytes.len()));
    expect!["4f922187f401bb5302a39522099afec1330ea8c6a2d570c5b39975942d579340"]
        .assert_eq(&format!("{}", after.chain));
    let header = *Frame::parse(&bytes).expect("a sealed frame is readable").header();
    assert_eq!(header.zeros, Some(TrailingZeros { ending: 2, inside: 700 }));
}

#[test]
fn a_frame_follows_one_tail_only() {
    let start = Tail::genesis(IDENTITY);
    let (_, second) = sealed(&start, SAMPLES);
    let (bytes, third) = sealed(&second, SAMPLES);
    let frame = Frame::parse(&bytes).expect("a sealed frame is readable");
    let late = second.stamp.0 + 2;
    let other = LogIdentity([1; 16]);
    for (tail, expected) in [
        (second, Ok(third)),
        (
            Tail { identity: other, ..second },
            Err(SequenceGap::Identity { expected: other, found: IDENTITY }),
        ),
        (start, Err(SequenceGap::LogIndex { expected: LogIndex(1), found: LogIndex(5) })),
        (
            Tail { stamp: Stamp(late), ..second },
            Err(SequenceGap::Stamp { before: Stamp(late), found: Stamp(late - 1) }),
        ),
        (Tail { stamp: Stamp(late - 1), ..second }, Ok(third)),
        (Tail { chain: start.chain, ..second }, Err(SequenceGap::Chain)),
    ] {
        assert_eq!(frame.follows(&tail), expected);
    }
}

/// Operators read these messages.
#[test]
fn errors_display_their_cause() {
    let (expected, found) = (IDENTITY, LogIdentity([0x1f; 16]));
    let texts = [
        IDENTITY.to_string(),
        FrameError::Short.to_string(),
        FrameError::Version(9).to_string(),
        FrameError::Malformed("so").to_string(),
        SequenceGap::Identity { expected, found }.to_string(),
        SequenceGap::LogIndex { expected: LogIndex(1), found: LogIndex(5) }.to_string(),
        SequenceGap::Stamp { before: Stamp(7), found: Stamp(6) }.to_string(),
        RecordTooLarge.to_string(),
        FrameFull.to_string(),
    ];
    expect![[r#"
        6964656e74697479206f662074657374
        the frame is truncated
        unsupported frame format version 9
        the frame is malformed: so
        the frame belongs to log 1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f, expected 6964656e74697479206f662074657374
        the frame starts at log index 5, expected 1
        the frame's stamp 6 is before the last stamp, 7
        a record is longer than 6291456 bytes
        the frame has no room for the record
    "#]]
    .assert_eq(&(texts.join("\n") + "\n"));
}

#[test]
fn builder_reports_its_content() {
    let mut builder = FrameBuilder::new();
    assert!(builder.is_empty());
    builder.push(&encoded(&SAMPLES[0])).expect("it fits");
    assert!(!builder.is_empty());
    builder.push(&encoded(&SAMPLES[1])).expect("it fits");
    let (records, count) = (builder.records().to_vec(), builder.count());
    let tail = Tail::genesis(IDENTITY);
    let sealed = builder.seal(&tail, &batch(1)).bytes.to_vec();
    assert_eq!(builder.length(), sealed.len());

    let mut other = FrameBuilder::new();
    other.push(&encoded(&SAMPLES[2])).expect("it fits");
    other.replace_records(&records, count);
    assert_eq!(other.seal(&tail, &batch(1)).bytes, sealed);
}

#[test]
fn the_first_bytes_of_a_frame_end_with_the_length_of_its_first_record() {
    let (bytes, _) = sealed(&Tail::genesis(IDENTITY), SAMPLES);
    let length = u32_at(&bytes, FRAME_START_BYTES - 4);
    let EncodedRecord(first) = encoded(&SAMPLES[0]);
    assert_eq!(length as usize, first.len());
}

#[test]
fn a_digest_is_that_of_one_record_and_stays_when_its_payload_goes() {
    let (bytes, _) = sealed(&Tail::genesis(IDENTITY), SAMPLES);
    let digests = |bytes: &[u8]| -> Vec<Digest> {
        let frame = Frame::parse(bytes).expect("a sealed frame is readable");
        frame.records().map(|record| record.digest()).collect()
    };
    let mut all = digests(&bytes);
    let frame = Frame::parse(&bytes).expect("a sealed frame is readable");
    let mut without = Vec::new();
    frame.erase(&mut without, |_| true);
    assert_eq!(digests(&without), all);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), SAMPLES.len());
}

#[test]
fn erased_payloads_leave_the_chain_as_it_was() {
    let start = Tail::genesis(IDENTITY);
    let (bytes, after) = sealed(&start, SAMPLES);
    let frame = Frame::parse(&bytes).expect("a sealed frame is readable");
    let mut erased = b"before".to_vec();
    frame.erase(&mut erased, |record| record.log_index == LogIndex(1));
    let erased = Frame::parse(&erased[6..]).expect("an erased frame is readable");

    expect![[r#"
        1: kind 1 v3 "prepare" payload erased, 16 bytes
        2: kind 2 v3 "" payload none
        3: kind 7 v3 "tick" payload none
        4: kind 9 v3 "" payload ""
    "#]]
    .assert_eq(&show(&erased));
    assert_eq!(erased.follows(&start), Ok(after));
    assert_eq!(erased.as_bytes().len() + 16, bytes.len());
}

/// A changed field, digest, kind or length is detected by the chain even with matching checksums; a
/// changed payload is detected by its digest.
#[test]
fn changes_with_the_checksums_made_to_fit_are_seen() {
    let start = Tail::genesis(IDENTITY);
    let (bytes, _) = sealed(&start, SAMPLES);
    let payload_at = FRAME_HEADER_BYTES + RECORD_OVERHEAD_BYTES + "prepare".len();
    for at in (0..AT_BODY_CRC).chain(FRAME_HEADER_BYTES..bytes.len()) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        write_checksums(&mut changed);
        let Ok(frame) = Frame::parse(&changed) else { continue };
        let intact = frame.follows(&start).is_ok() && frame.records().all(|r| r.verify_payload());
        assert!(!intact, "byte {at} changed without notice");
        let in_payload = (payload_at..payload_at + 16).contains(&at);
        assert_eq!(frame.verify_chain(&start.chain), in_payload, "byte {at}");
    }
}

#[test]
fn every_single_bit_flip_is_detected() {
    let (bytes, _) = sealed(&Tail::genesis(IDENTITY), SAMPLES);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Frame::parse(&flipped).is_err(), "bit {bit} flipped without notice");
    }
}

#[test]
fn every_prefix_is_short_and_bytes_behind_do_not_matter() {
    let (mut bytes, _) = sealed(&Tail::genesis(IDENTITY), SAMPLES);
    for length in 0..bytes.len() {
        let prefix = &bytes[..length];
        assert_eq!(Frame::parse(prefix).err(), Some(FrameError::Short), "{length} bytes");
        let known = (FRAME_HEADER_BYTES <= length).then_some(bytes.len());
        assert_eq!(frame_length(prefix), Ok(known), "{length} bytes");
    }
    let length = bytes.len();
    bytes.extend_from_slice(&[255; 64]);
    assert_eq!(Frame::parse(&bytes).expect("complete").as_bytes().len(), length);
}

#[test]
fn invalid_frames_are_named() {
    let (bytes, _) = sealed(&Tail::genesis(IDENTITY), SAMPLES);
    let check = |at: usize, value: u8, expected: FrameError| {
        let mut changed = bytes.clone();
        changed[at] = value;
        assert_eq!(Frame::parse(&changed).err(), Some(expected), "byte {at}");
        if at != AT_BODY_CRC && at < FRAME_HEADER_BYTES {
            assert_eq!(frame_length(&changed), Err(expected), "byte {at}");
        }
    };
    // The version comes first, because it determines the meaning of the rest.
    let mut newer = bytes[..AT_ENDING].to_vec();
    newer[AT_VERSION] = 9;
    assert_eq!(Frame::parse(&newer).err(), Some(FrameError::Version(9)));
    assert_eq!(Frame::parse(&newer[..AT_ENDING - 1]).err(), Some(FrameError::Short));
    check(0, b'x', FrameError::Magic);
    check(AT_VERSION, 9, FrameError::Version(9));
    check(AT_LENGTH, 9, FrameError::HeaderChecksum);
    check(bytes.len() - 1, 9, FrameError::BodyChecksum);
}

/// Headers that have a matching checksum but contradict themselves.
#[test]
fn contradictions_under_a_good_checksum_are_malformed() {
    check_contradictions(2, &[(AT_ENDING, 1), (AT_INSIDE, 1)]);
    // A sector of zeros at the end, a run shorter than a sector, a run as long as the frame.
    check_contradictions(
        STANDALONE_NODE,
        &[(AT_ENDING + 1, 2), (AT_INSIDE, 255), (AT_INSIDE + 1, 2)],
    );
}

fn check_contradictions(node: u32, of_version: &[(usize, u8)]) {
    let (bytes, _) = sealed_by(node, &Tail::genesis(IDENTITY), SAMPLES);
    let record = FRAME_HEADER_BYTES;
    let of_both = [
        (AT_LENGTH + 3, 255),
        (AT_LENGTH + 1, 0),
        (AT_COUNT, 0),
        (AT_COUNT, 3),
        (AT_COUNT, 5),
        (AT_COUNT + 2, 1),
        (AT_FIRST, 0),
        (AT_DURABLE, 1),
        (AT_APPLIED, 1),
        (record, 0),
        (record + 3, 1),
        (record + RECORD_AT_STATE, 0),
        (record + RECORD_AT_STATE, 2),
        (record + RECORD_AT_STATE, 3),
        (record + RECORD_AT_STATE + 1, 1),
        (record + RECORD_AT_FIELDS_LENGTH, 200),
        (record + RECORD_AT_PAYLOAD_LENGTH, 200),
        // The second record, which has no payload.
        (record + encoded(&SAMPLES[0]).0.len() + RECORD_AT_PAYLOAD_LENGTH, 200),
    ];
    for &(at, value) in of_version.iter().chain(&of_both) {
        let mut changed = bytes.clone();
        assert_ne!(changed[at], value);
        changed[at] = value;
        write_checksums(&mut changed);
        let error = Frame::parse(&changed).err();
        assert!(matches!(error, Some(FrameError::Malformed(_))), "byte {at} = {value}: {error:?}");
    }
}

#[test]
fn log_indexes_do_not_overflow() {
    let (mut bytes, _) = sealed(&Tail::genesis(IDENTITY), SAMPLES);
    bytes[AT_FIRST..AT_FIRST + 8].fill(255);
    write_checksums(&mut bytes);
    let error = Frame::parse(&bytes).err();
    assert_eq!(error, Some(FrameError::Malformed("the first log index is out of range")));
}

#[test]
fn longest_frame_is_accepted() {
    let mut builder = FrameBuilder::new();
    while builder.length() < FRAME_BYTES_MAX {
        let left = FRAME_BYTES_MAX - builder.length();
        let fields = std::vec![0; left.min(RECORD_BYTES_MAX) - RECORD_OVERHEAD_BYTES];
        let record = NewRecord { kind: 1, version: 1, fields: &fields, payload: None };
        builder.push(&record.encode().expect("it is short enough")).expect("it fits");
    }
    let tail = Tail::genesis(IDENTITY);
    let sealed = builder.seal(&tail, &batch(1));
    assert_eq!(sealed.bytes.len(), FRAME_BYTES_MAX);
    assert_eq!(Frame::parse(sealed.bytes).expect("it is readable").follows(&tail), Ok(sealed.tail));
}

#[test]
fn limits_are_refused_and_nothing_changes() {
    let room = RECORD_BYTES_MAX - RECORD_OVERHEAD_BYTES;
    let fields = std::vec![0; room + 1];
    let new = |fields| NewRecord { kind: 1, version: 1, fields, payload: None };
    assert_eq!(new(&fields[..]).encode(), Err(RecordTooLarge));
    let large = new(&fields[..room]).encode().expect("just fits");

    let mut builder = FrameBuilder::new();
    builder.push(&large).expect("an empty frame takes any record");
    builder.push(&large).expect("two fit");
    let length = builder.length();
    assert_eq!(builder.push(&large), Err(FrameFull));
    assert_eq!((builder.length(), builder.count()), (length, 2));

    builder.clear();
    let small = new(&fields[..0]).encode().expect("short");
    for _ in 0..FRAME_RECORDS_MAX {
        builder.push(&small).expect("below the limit");
    }
    assert_eq!(builder.push(&small), Err(FrameFull));
    let tail = Tail::genesis(IDENTITY);
    let sealed = builder.seal(&tail, &batch(1));
    let frame = Frame::parse(sealed.bytes).expect("a full frame is readable");
    assert_eq!(frame.records().count(), FRAME_RECORDS_MAX as usize);
    assert_eq!(frame.follows(&tail), Ok(sealed.tail));
}

#[test]
#[should_panic(expected = "a batch is sealed in order")]
fn a_frame_without_records_is_not_sealed() {
    FrameBuilder::new().seal(&Tail::genesis(IDENTITY), &batch(1));
}

#[test]
#[should_panic(expected = "a batch has a stamp at or after the last one")]
fn a_stamp_never_goes_back() {
    let tail = Tail { stamp: Stamp(10), ..Tail::genesis(IDENTITY) };
    let mut builder = FrameBuilder::new();
    builder.push(&encoded(&SAMPLES[0])).expect("fits");
    builder.seal(&tail, &batch(9));
}

/// The buffered hash equals the plain hash of the concatenated pieces, however they are split.
#[test]
fn gathering_does_not_change_the_hash() {
    let bytes: Vec<u8> = (0..5 * GATHER_BYTES).map(|n| (n % 251) as u8).collect();
    let expected = payload_digest(&bytes);
    for step in [1, 100, GATHER_BYTES - 1, GATHER_BYTES, GATHER_BYTES + 1, 3 * GATHER_BYTES + 7] {
        let mut gather = BufferedHasher::<GATHER_BYTES>::default();
        bytes.chunks(step).for_each(|piece| gather.add(piece));
        assert_eq!(gather.finish(), expected, "pieces of {step} bytes");
        let mut gather = BufferedHasher::<GATHER_SMALL_BYTES>::default();
        bytes.chunks(step).for_each(|piece| gather.add(piece));
        assert_eq!(gather.finish(), expected, "pieces of {step} bytes, small");
    }
}

proptest! {
    #[test]
    fn any_records_come_back(
        records in prop::collection::vec(
            (
                any::<u16>(),
                prop::collection::vec(any::<u8>(), 0..300),
                prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
            ),
            1..40,
        ),
    ) {
        let samples: Vec<Sample<'_>> = records
            .iter()
            .map(|(kind, fields, payload)| (*kind, &fields[..], payload.as_deref()))
            .collect();
        let start = Tail::genesis(IDENTITY);
        let (bytes, after) = sealed(&start, &samples);
        let frame = Frame::parse(&bytes).expect("a sealed frame is readable");
        prop_assert_eq!(frame.follows(&start), Ok(after));
        let back: Vec<Sample<'_>> = frame
            .records()
            .map(|record| {
                let payload = match record.payload {
                    Payload::Stored(bytes) => Some(bytes),
                    Payload::None | Payload::Erased => None,
                };
                (record.kind, record.fields, payload)
            })
            .collect();
        prop_assert_eq!(back, samples);
    }
}

/// Seals by changing each byte, between 16 bytes of a context and 16 of a tag.
fn seal_some(frame: &[u8], is_sealed: impl Fn(u16) -> bool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let sealed = seal_payloads(frame, &mut out, |record, context, out| {
        let Payload::Stored(payload) = record.payload else { unreachable!("only stored ones") };
        if !is_sealed(record.kind) {
            return Ok::<_, ()>(false);
        }
        out.extend_from_slice(&payload_digest(context).0[..16]);
        out.extend(payload.iter().map(|byte| !byte));
        out.extend_from_slice(&[7; 16]);
        Ok(true)
    });
    (sealed == Ok(true)).then_some(out)
}

fn open_all(frame: &[u8], is_destroyed: bool) -> Result<Vec<u8>, FrameError> {
    let mut out = Vec::new();
    let opened = open_payloads(frame, &mut out, |context, sealed, out| {
        if is_destroyed {
            return Ok(false);
        }
        if sealed[..16] != payload_digest(context).0[..16] {
            return Err("another context");
        }
        out.extend(sealed[16..sealed.len() - 16].iter().map(|byte| !byte));
        Ok(true)
    });
    opened.expect("the context is the same").map(|()| out)
}

#[test]
fn sealed_payloads_come_back_byte_for_byte_or_are_erased() {
    let tail = Tail::genesis(IDENTITY);
    for node in [STANDALONE_NODE, 3] {
        let (frame, _) = sealed_by(node, &tail, SAMPLES);
        let stored = seal_some(&frame, |kind| kind == 1).expect("one payload is sealed");
        assert_eq!(stored.len(), frame.len() + SEAL_BYTES);
        assert_eq!(Frame::parse(&stored).expect_err("it is sealed"), FrameError::Sealed);
        assert_eq!(open_all(&stored, false).as_ref(), Ok(&frame));
        let mut erased = Vec::new();
        let parsed = Frame::parse(&frame).expect("sound");
        parsed.erase(&mut erased, |record| record.kind == 1);
        assert_eq!(open_all(&stored, true).as_ref(), Ok(&erased));
        assert_eq!(sealed_payloads(&stored).count(), 1);
        assert_eq!(sealed_payloads(&frame).count(), 0);
        assert_eq!(seal_some(&frame, |_| false), None, "nothing to seal");
    }
}

/// An erasure of a frame with sealed payloads opens none of them.
#[test]
fn sealed_payloads_are_erased_unopened() {
    let tail = Tail::genesis(IDENTITY);
    let (frame, _) = sealed(&tail, SAMPLES);
    let stored = seal_some(&frame, |_| true).expect("two payloads are sealed");
    for (erased, left) in [(1, 1), (4, 1), (0, 2)] {
        let mut without = Vec::new();
        erase_payloads(&stored, &mut without, |record| record.0 == erased);
        assert_eq!(sealed_payloads(&without).count(), left);
        let opened = open_all(&without, false).expect("sound");
        let mut expected = Vec::new();
        let parsed = Frame::parse(&frame).expect("sound");
        parsed.erase(&mut expected, |record| record.log_index.0 == erased);
        assert_eq!(opened, expected);
        assert!(Frame::parse(&opened).expect("sound").verify_chain(&tail.chain));
    }
}

#[test]
fn changed_frames_with_sealed_payloads_are_refused() {
    let (frame, _) = sealed(&Tail::genesis(IDENTITY), SAMPLES);
    let stored = seal_some(&frame, |_| true).expect("two payloads are sealed");
    for at in 0..stored.len() * 8 {
        let mut changed = stored.clone();
        changed[at / 8] ^= 1 << (at % 8);
        assert!(open_all(&changed, false).is_err(), "bit {at}");
    }
    for length in 0..stored.len() {
        assert!(open_all(&stored[..length], false).is_err(), "{length} bytes");
    }
    // With the checksums made to fit, structure and limits are still checked.
    for at in FRAME_HEADER_BYTES..stored.len() {
        for value in [0, 1, 3, 0xff] {
            let mut changed = stored.clone();
            changed[at] = value;
            write_checksums(&mut changed);
            let mut out = Vec::new();
            let _any = open_payloads(&changed, &mut out, |_, sealed, out| {
                out.extend_from_slice(&sealed[..sealed.len().saturating_sub(SEAL_BYTES)]);
                Ok::<_, ()>(true)
            });
        }
    }
}
