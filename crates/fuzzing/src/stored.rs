//! Stored forms: commands, frames of the log, headers and bodies of messages.
//!
//! Reading random bytes gives an error, never a panic. An accepted value has one stored form, the
//! one it was read from.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use ledger::{Digest, LogIndex, Stamp};
use record::checksum::crc32c;
use record::command::{FIELDS_VERSION, read_fields, write_fields};
use record::frame::{
    BatchHeader, FRAME_HEADER_BYTES, Frame, FrameBuilder, FrameHeader, LogIdentity, NewRecord,
    Payload, SEAL_BYTES, Tail, erase_payloads, frame_length, open_payloads, payload_digest,
    sealed_payloads,
};
use record::party_names::PartyNames;

/// Records that one input makes, at most.
const RECORDS_MAX: usize = 32;

/// The fields of a command: two bytes of kind, then the fields.
pub fn command(data: &[u8]) {
    let Some((kind, fields)) = data.split_first_chunk::<2>() else { return };
    let kind = u16::from_le_bytes(*kind);
    for version in [FIELDS_VERSION - 1, FIELDS_VERSION + 1] {
        assert!(read_fields(kind, version, fields).is_err(), "version {version} does not exist");
    }
    let Ok(command) = read_fields(kind, FIELDS_VERSION, fields) else { return };
    assert_eq!(command.number(), kind);
    let mut written = Vec::new();
    write_fields(&command, &mut written);
    assert_eq!(written, fields, "a command has one stored form: {command:?}");
    let again = read_fields(kind, FIELDS_VERSION, &written);
    assert_eq!(again.as_ref(), Ok(&command), "a written value reads back");
    let cut = fields.len().saturating_sub(1);
    assert!(
        fields.is_empty() || read_fields(kind, FIELDS_VERSION, &fields[..cut]).is_err(),
        "a truncated command is refused"
    );
}

/// A stored message, once read from random bytes and once written from a message.
pub fn payload(data: &[u8]) {
    if let Ok(found) = fspiop::stored_message::decode(&Bytes::copy_from_slice(data)) {
        stored_again(&found.headers, &found.body);
    }
    if let Ok(parties) = fspiop::stored_message::parties(data)
        && let Ok(names) = PartyNames::read(parties)
    {
        assert_eq!(names.to_bytes(), parties, "names have one stored form");
    }
    let (head, body) = crate::request::split(data);
    let mut headers = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..at]);
        let value = HeaderValue::from_bytes(line[at + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    stored_again(&headers, body);
}

pub(crate) fn stored_again(headers: &HeaderMap, body: &[u8]) {
    let mut stored = Vec::new();
    fspiop::stored_message::encode(headers, body, &mut stored);
    let found = fspiop::stored_message::decode(&Bytes::from(stored)).expect("it was written");
    assert_eq!(&found.headers, headers);
    assert_eq!(&found.body[..], body);
}

/// A frame: as it is, with its checksums put right, and one built of pieces of the input.
pub fn frame(data: &[u8]) {
    read(data);
    if FRAME_HEADER_BYTES <= data.len() {
        let mut sound = data.to_vec();
        let length = sound.len() as u32;
        sound[..4].copy_from_slice(&record::frame::FRAME_MAGIC);
        sound[8..12].copy_from_slice(&length.to_le_bytes());
        let body = crc32c(&sound[FRAME_HEADER_BYTES..]);
        sound[160..164].copy_from_slice(&body.to_le_bytes());
        let header = crc32c(&sound[..164]);
        sound[164..168].copy_from_slice(&header.to_le_bytes());
        read(&sound);
    }
    build(data);
}

/// Reads bytes as a frame; whatever is found is walked over.
fn read(bytes: &[u8]) {
    let length = frame_length(bytes);
    let _header = FrameHeader::parse(bytes);
    open_sealed(bytes);
    let Ok(frame) = Frame::parse(bytes) else { return };
    assert_eq!(length, Ok(Some(frame.as_bytes().len())));
    let count = frame.records().count();
    assert_eq!(count as u64, 1 + frame.header().last().0 - frame.header().first.0);
    for record in frame.records() {
        assert_eq!(frame.record(record.log_index), Some(record));
        let _sound = record.verify_payload();
        let _command = read_fields(record.kind, record.version, record.fields);
    }
    let _follows = frame.follows(&Tail::genesis(LogIdentity::default()));
    let mut erased = Vec::new();
    frame.erase(&mut erased, |record| record.log_index.0 % 2 == 0);
    let erased = Frame::parse(&erased).expect("a frame stays one without its payloads");
    assert_eq!(erased.records().count(), count);
}

/// Opens sealed payloads, and erases some without opening them.
fn open_sealed(bytes: &[u8]) {
    let mut opened = Vec::new();
    let found = open_payloads(bytes, &mut opened, |_, sealed, out| {
        out.extend_from_slice(&sealed[SEAL_BYTES..]);
        Ok::<_, Infallible>(true)
    });
    let Ok(Ok(())) = found else { return };
    let length = frame_length(bytes).ok().flatten().expect("it was read");
    let mut erased = Vec::new();
    erase_payloads(&bytes[..length], &mut erased, |record| record.0 % 2 == 0);
    let sealed = sealed_payloads(&erased).count();
    assert!(sealed <= sealed_payloads(&bytes[..length]).count());
    if let (Ok(frame), Ok(header)) = (Frame::parse(&opened), FrameHeader::parse(&erased)) {
        assert_eq!((frame.header().first, frame.header().count), (header.first, header.count));
    }
}

/// Seals records cut from the input, reads them back, and damages the frame.
fn build(data: &[u8]) {
    let mut builder = FrameBuilder::new();
    let mut records = Vec::new();
    for piece in data.split(|byte| *byte == 0).filter(|piece| !piece.is_empty()).take(RECORDS_MAX) {
        let (fields, payload) = piece.split_at(piece.len() * usize::from(piece[0]) / 256);
        let payload = piece[0].is_multiple_of(2).then_some(payload);
        let new = NewRecord {
            kind: u16::from(piece[0]),
            version: FIELDS_VERSION,
            fields,
            payload: payload.map(|bytes| (bytes, payload_digest(bytes))),
        };
        builder.push(&new.encode().expect("it is short")).expect("it fits");
        records.push((new.kind, fields, payload));
    }
    if records.is_empty() {
        return;
    }
    let tail = Tail::genesis(LogIdentity([data[0]; 16]));
    let batch = BatchHeader { stamp: Stamp(u64::from(data[0])), ..batch() };
    let sealed = builder.seal(&tail, &batch);
    let bytes = sealed.bytes.to_vec();
    let after = sealed.tail;
    let frame = Frame::parse(&bytes).expect("it was sealed");
    assert_eq!(frame.follows(&tail), Ok(after));
    assert_eq!(frame.header().first, LogIndex(1));
    for (record, (kind, fields, payload)) in frame.records().zip(&records) {
        assert_eq!((record.kind, record.fields), (*kind, *fields));
        assert_eq!(record.payload, payload.map_or(Payload::None, Payload::Stored));
        assert!(record.verify_payload());
    }
    let mut damaged = bytes.clone();
    let at = data.len().wrapping_mul(31) % damaged.len();
    damaged[at] ^= 1 << (data[0] % 8);
    assert!(Frame::parse(&damaged).is_err(), "one bit at {at} is noticed");
    assert!(Frame::parse(&bytes[..bytes.len() - 1]).is_err(), "a truncated frame is refused");
    let other = Tail { chain: Digest([1; 32]), ..tail };
    assert!(frame.follows(&other).is_err(), "a frame has one place");
}

fn batch() -> BatchHeader {
    BatchHeader::default()
}
