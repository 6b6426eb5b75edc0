//! Frames with payloads that are sealed for their participants.
//!
//! A payload that a participant sent can be sealed with a key of this participant before the whole
//! frame is encrypted. Without that key the payload cannot be read, and everything else can: the
//! frame is then the one that [`Frame::erase`](super::Frame::erase) makes.
//!
//! Such a frame has the format version 4 instead of 2, or 5 instead of 1, and differs in its
//! length, its checksums and these records: the state of the payload is 3, and instead of the
//! payload follows its sealed form, [`SEAL_BYTES`] longer. The identity of the log, the log index,
//! the digest and the length of the payload are authenticated with it. All other bytes are those of
//! the frame that the sequencer sealed, and [`open_payloads`] gives it back byte for byte.
//!
//! It is only stored inside of an envelope or of an encrypted block, so that its zeros are not
//! counted.

use alloc::vec::Vec;

use ledger::LogIndex;

use super::{
    AT_BODY_CRC, AT_VERSION, DIGEST_BYTES, FRAME_HEADER_BYTES, FRAME_VERSION, FRAME_VERSION_SEALED,
    FRAME_VERSION_SHARED, FRAME_VERSION_SHARED_SEALED, FrameError, FrameHeader, Payload,
    RECORD_AT_FIELDS, RECORD_AT_PAYLOAD_LENGTH, RawRecord, Record, SEAL_BYTES, STATE_SEALED,
    STATE_STORED, crc32c, finish_rewritten, put, u32_at,
};

/// First bytes of the authenticated context of a payload.
const CONTEXT: [u8; 13] = *b"upesi payload";
const CONTEXT_BYTES: usize = CONTEXT.len() + 16 + 8 + DIGEST_BYTES + 4;

/// Appends the frame in `bytes` with sealed payloads to `out`, and returns whether there are any;
/// `out` is unchanged if not. `seal` gets a record, the bytes to be authenticated and `out`, and
/// appends the sealed payload, or returns false if the payload stays as it is.
///
/// # Panics
/// If `bytes` is not one frame that was sealed, or one with payloads that are sealed already.
///
/// # Errors
/// The error of `seal`.
pub fn seal_payloads<E>(
    bytes: &[u8],
    out: &mut Vec<u8>,
    mut seal: impl FnMut(&Record<'_>, &[u8], &mut Vec<u8>) -> Result<bool, E>,
) -> Result<bool, E> {
    let header = FrameHeader::parse(bytes).expect("a sealed frame has a header");
    assert!(!header.is_encrypted && !header.has_sealed, "a frame as the sequencer sealed it");
    let start = out.len();
    out.extend_from_slice(&bytes[..FRAME_HEADER_BYTES]);
    let (mut rest, mut sealed) = (&bytes[FRAME_HEADER_BYTES..], 0);
    for log_index in (header.first.0..).take(header.count as usize).map(LogIndex) {
        let (raw, after) = RawRecord::split(rest).expect("a sealed frame has sound records");
        rest = after;
        let record = raw.view(log_index);
        let at = out.len();
        if let Payload::Stored(payload) = record.payload {
            raw.write_start(STATE_SEALED, payload.len() + SEAL_BYTES, out);
            if seal(&record, &context(&header, log_index, &raw), out)? {
                let length = out.len() - at;
                assert_eq!(length, raw.bytes.len() + SEAL_BYTES, "a seal has a fixed length");
                sealed += 1;
                continue;
            }
            out.truncate(at);
        }
        out.extend_from_slice(raw.bytes);
    }
    if sealed == 0 {
        out.truncate(start);
        return Ok(false);
    }
    let frame = &mut out[start..];
    let version = match header.zeros {
        Some(_) => FRAME_VERSION_SEALED,
        None => FRAME_VERSION_SHARED_SEALED,
    };
    put(frame, AT_VERSION, version.to_le_bytes());
    finish_rewritten(frame);
    Ok(true)
}

/// Replaces `out` by the frame whose payloads [`seal_payloads`] sealed. `open` gets the
/// authenticated bytes, the sealed payload and `out`, and appends the payload, or returns false if
/// its key was destroyed: the payload is erased then.
///
/// # Errors
/// [`FrameError`] in the first result for bytes that [`seal_payloads`] did not write; the error of
/// `open` in the second.
pub fn open_payloads<E>(
    bytes: &[u8],
    out: &mut Vec<u8>,
    mut open: impl FnMut(&[u8], &[u8], &mut Vec<u8>) -> Result<bool, E>,
) -> Result<Result<(), FrameError>, E> {
    let (header, mut rest) = match split_sealed_frame(bytes) {
        Ok(parts) => parts,
        Err(error) => return Ok(Err(error)),
    };
    out.clear();
    out.extend_from_slice(&bytes[..FRAME_HEADER_BYTES]);
    for log_index in (header.first.0..).take(header.count as usize).map(LogIndex) {
        let (raw, after) = match RawRecord::split_sealed(rest) {
            Ok(parts) => parts,
            Err(error) => return Ok(Err(error)),
        };
        rest = after;
        let at = out.len();
        if !raw.is_sealed() {
            out.extend_from_slice(raw.bytes);
            continue;
        }
        raw.write_start(STATE_STORED, raw.payload_length(), out);
        if !open(&context(&header, log_index, &raw), raw.payload(), out)? {
            out.truncate(at);
            raw.write_erased(out);
        } else if out.len() - at + SEAL_BYTES != raw.bytes.len() {
            return Ok(Err(FrameError::Malformed("an opened payload has another length")));
        }
    }
    if !rest.is_empty() {
        return Ok(Err(FrameError::Malformed("bytes are left after the last record")));
    }
    let version = if header.zeros.is_some() { FRAME_VERSION } else { FRAME_VERSION_SHARED };
    put(out, AT_VERSION, version.to_le_bytes());
    finish_rewritten(out);
    Ok(Ok(()))
}

/// Appends the frame in `bytes`, with sealed payloads or not, to `out` without the payloads of some
/// records. Sealed payloads stay sealed.
///
/// # Panics
/// If `bytes` is not one frame that was read before.
pub fn erase_payloads(
    bytes: &[u8],
    out: &mut Vec<u8>,
    mut is_erased: impl FnMut(LogIndex) -> bool,
) {
    let header = FrameHeader::parse(bytes).expect("a frame that was read has a header");
    let start = out.len();
    out.extend_from_slice(&bytes[..FRAME_HEADER_BYTES]);
    let mut rest = &bytes[FRAME_HEADER_BYTES..];
    for log_index in (header.first.0..).take(header.count as usize).map(LogIndex) {
        let (raw, after) = RawRecord::split_sealed(rest).expect("a frame that was read is sound");
        rest = after;
        if is_erased(log_index) {
            raw.write_erased(out);
        } else {
            out.extend_from_slice(raw.bytes);
        }
    }
    finish_rewritten(&mut out[start..]);
}

/// The sealed payloads of a frame that was read.
pub fn sealed_payloads(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let has_sealed = FrameHeader::parse(bytes).is_ok_and(|header| header.has_sealed);
    let mut rest = if has_sealed { &bytes[FRAME_HEADER_BYTES..] } else { &[] };
    core::iter::from_fn(move || {
        loop {
            let (raw, after) = RawRecord::split_sealed(rest).ok()?;
            rest = after;
            if raw.is_sealed() {
                return Some(raw.payload());
            }
        }
    })
}

/// The header and the records of one frame with sealed payloads.
fn split_sealed_frame(bytes: &[u8]) -> Result<(FrameHeader, &[u8]), FrameError> {
    let header = FrameHeader::parse(bytes)?;
    let bytes = bytes.get(..header.length as usize).ok_or(FrameError::Short)?;
    if crc32c(&bytes[FRAME_HEADER_BYTES..]) != u32_at(bytes, AT_BODY_CRC) {
        return Err(FrameError::BodyChecksum);
    }
    Ok((header, &bytes[FRAME_HEADER_BYTES..]))
}

/// The authenticated bytes of a payload.
fn context(header: &FrameHeader, log_index: LogIndex, raw: &RawRecord<'_>) -> [u8; CONTEXT_BYTES] {
    let digest_at = RECORD_AT_FIELDS + raw.fields_length;
    let parts: [&[u8]; 5] = [
        &CONTEXT,
        &header.identity.0,
        &log_index.0.to_le_bytes(),
        &raw.bytes[digest_at..digest_at + DIGEST_BYTES],
        &raw.bytes[RECORD_AT_PAYLOAD_LENGTH..RECORD_AT_FIELDS],
    ];
    let (mut context, mut at) = ([0; CONTEXT_BYTES], 0);
    for part in parts {
        context[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    context
}
