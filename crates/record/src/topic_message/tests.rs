use super::*;
use crate::frame::{BatchHeader, FrameBuilder, NewRecord, Tail};

const IDENTITY: LogIdentity = LogIdentity([7; 16]);

/// The first frame of a log, with a payload.
fn frame() -> Vec<u8> {
    let mut builder = FrameBuilder::new();
    let payload = b"body".as_slice();
    let payload = Some((payload, crate::frame::payload_digest(payload)));
    let record = NewRecord { kind: 1, version: 1, fields: b"fields", payload };
    builder.push(&record.encode().expect("it fits")).expect("it fits");
    let batch = BatchHeader { stamp: ledger::Stamp(5), rules_version: 1, ..BatchHeader::default() };
    builder.seal(&Tail::genesis(IDENTITY), &batch).bytes.to_vec()
}

fn end() -> LogEnd {
    LogEnd { identity: IDENTITY, log_index: LogIndex(41), chain: Digest([3; 32]) }
}

fn attestation() -> StateAttestation {
    let (log_index, hash) = (LogIndex(41), Digest([4; 32]));
    StateAttestation { identity: IDENTITY, node: 5, epoch: 6, log_index, hash }
}

fn samples() -> [Vec<u8>; 4] {
    let mut out = [const { Vec::new() }; 4];
    write_frame(&Frame::parse(&frame()).expect("it is a frame"), &mut out[0]);
    write_end_of_moved_log(&end(), &mut out[1]);
    write_log_moved(IDENTITY, &mut out[2]);
    write_state(&attestation(), &mut out[3]);
    out
}

#[test]
fn messages_round_trip() {
    let [one, whole, left, state] = samples();
    let Ok(TopicMessage::Frame(found)) = TopicMessage::parse(&one) else {
        panic!("no frame: {one:?}")
    };
    assert_eq!(found.as_bytes(), frame());
    assert!(
        matches!(TopicMessage::parse(&whole), Ok(TopicMessage::EndOfMovedLog(found)) if found == end())
    );
    assert!(matches!(TopicMessage::parse(&left), Ok(TopicMessage::LogMoved(IDENTITY))));
    assert!(
        matches!(TopicMessage::parse(&state), Ok(TopicMessage::State(found)) if found == attestation())
    );
    for bytes in [&one, &whole, &left, &state] {
        assert_eq!(TopicMessage::parse(bytes).map(|message| message.identity()), Ok(IDENTITY));
    }
}

#[test]
fn the_longest_frame_can_be_moved() {
    let [moved, ..] = samples();
    assert_eq!(moved.len() - frame().len(), MOVED_FRAME_BYTES_MAX - FRAME_BYTES_MAX);
}

/// The message with these bytes in it, and a matching checksum.
fn changed(message: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut changed = message.to_vec();
    changed[at..at + bytes.len()].copy_from_slice(bytes);
    let sum = checksum(&changed).to_le_bytes();
    changed[AT_CRC..AFTER_CRC].copy_from_slice(&sum);
    changed
}

fn refusal(message: &[u8]) -> &'static str {
    match TopicMessage::parse(message) {
        Err(BundleError::Foreign(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_length_that_is_not_the_messages_is_refused() {
    let [one, whole, ..] = samples();
    let wrong = "its length does not match the message";
    for length in [0, whole.len() as u32 - 1, whole.len() as u32 + 1, u32::MAX] {
        assert_eq!(refusal(&changed(&whole, 8, &length.to_le_bytes())), wrong, "{length}");
    }
    let long = |length: usize| {
        let mut long = one.clone();
        long.resize(length, 0);
        refusal(&changed(&long, 8, &(length as u32).to_le_bytes()))
    };
    assert_eq!(long(MOVED_FRAME_BYTES_MAX + 1), wrong);
    assert_eq!(long(MOVED_FRAME_BYTES_MAX + 2), wrong);
    assert_eq!(long(MOVED_FRAME_BYTES_MAX), "its frame does not match its header");
}

#[test]
fn moved_away_message_has_no_log_end() {
    let [.., left, _] = samples();
    let wrong = "a field of its header is out of range";
    assert_eq!(refusal(&changed(&left, 32, &[1])), wrong, "a position");
    assert_eq!(refusal(&changed(&left, 40, &[1])), wrong, "a chain");
}

#[test]
fn the_bytes_stay_as_they_are() {
    let [_, whole, left, state] = samples();
    let hex = |bytes: &[u8]| -> alloc::string::String {
        bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect()
    };
    expect_test::expect!["55704275020002009000000093a20e0707070707070707070707070707070707290000000000000003030303030303030303030303030303030303030303030303030303030303035570427502000300"]
    .assert_eq(&(hex(&whole[..72]) + &hex(&left[..8])));
    expect_test::expect!["55704275020004009000000048910b080707070707070707070707070707070729000000000000000404040404040404040404040404040404040404040404040404040404040404050000000600000000000000"].assert_eq(&hex(&state[..84]));
}

#[test]
fn a_changed_byte_is_noticed_wherever_it_is() {
    for bytes in samples().into_iter().chain([crate::bundle::tests::sample()]) {
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(TopicMessage::parse(&changed).is_err(), "byte {at}, bit {bit}");
            }
            assert!(TopicMessage::parse(&bytes[..at]).is_err(), "cut off at {at}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert!(TopicMessage::parse(&longer).is_err());
    }
}

#[test]
fn a_frame_that_is_announced_as_another_is_refused() {
    let mut bytes = Vec::new();
    for end in [
        LogEnd { identity: LogIdentity([8; 16]), ..end() },
        LogEnd { log_index: LogIndex(1), ..end() },
        end(),
    ] {
        bytes.clear();
        let frame = frame();
        bytes.extend_from_slice(&BUNDLE_MAGIC);
        bytes.extend_from_slice(&[2, 0, 1, 0]);
        bytes.extend_from_slice(&((HEAD + frame.len()) as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&end.identity.0);
        bytes.extend_from_slice(&end.log_index.0.to_le_bytes());
        bytes.extend_from_slice(&end.chain.0);
        bytes.extend_from_slice(&[0; HEAD - AT_NODE]);
        bytes.extend_from_slice(&frame);
        let crc = checksum(&bytes);
        bytes[AT_CRC..AFTER_CRC].copy_from_slice(&crc.to_le_bytes());
        let refused = TopicMessage::parse(&bytes).err();
        let expected = "its frame does not match its header";
        assert_eq!(refused, Some(BundleError::Foreign(expected)), "{end:?}");
    }
}

/// The node fields are set in a state hash message, and in no other.
#[test]
fn state_hash_messages_name_a_node() {
    let [_, whole, _, state] = samples();
    for (mut bytes, at, byte) in
        [(whole.clone(), AT_NODE, 1), (whole, AT_EPOCH, 1), (state, AT_NODE, 0)]
    {
        bytes[at] = byte;
        let crc = checksum(&bytes);
        bytes[AT_CRC..AFTER_CRC].copy_from_slice(&crc.to_le_bytes());
        let expected = "a field of its header is out of range";
        assert_eq!(TopicMessage::parse(&bytes).err(), Some(BundleError::Foreign(expected)));
    }
}

#[test]
fn a_program_that_knows_bundles_alone_takes_it_for_a_newer_one() {
    for bytes in samples() {
        let refused = Bundle::parse(&bytes).err();
        assert_eq!(refused, Some(BundleError::Version(TOPIC_MESSAGE_VERSION)));
    }
    let mut newer = samples()[1].clone();
    newer[4] = 4;
    assert_eq!(TopicMessage::parse(&newer).err(), Some(BundleError::Version(4)));
    // A message that no version writes does not stop a program.
    let (mut cut, mut longer) = (newer.clone(), newer);
    cut.truncate(cut.len() - 1);
    longer.push(0);
    for foreign in [&b"hello"[..], b"UpBu\x04\0", &cut, &longer] {
        assert!(matches!(TopicMessage::parse(foreign).err(), Some(BundleError::Foreign(_))));
    }
}
