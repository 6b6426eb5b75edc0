//! ILP packets: the fields that the hub shows to operators equal those of a second reader of the
//! octet encoding rules. Invalid bytes are refused without panic.

use operations::transaction_object;

use crate::json::{Document, JsonError, Value};

/// Longest packet that is tried, in bytes: that of a message's longest text.
const PACKET_BYTES_MAX: usize = 24_576;

/// A packet: as it is, within a packet whose lengths are right, and as the data of one.
pub fn ilp(data: &[u8]) {
    if PACKET_BYTES_MAX < data.len() {
        return;
    }
    judge(data);
    for (kind, fixed) in [(1, 8), (12, 57)] {
        judge(&packet(kind, fixed, data));
        let coded = coded(data);
        judge(&packet(kind, fixed, coded.as_bytes()));
        judge(&packet(kind, fixed, coded.trim_end_matches('=').as_bytes()));
    }
}

/// Compares the hub's result with the second reader's, with and without padding.
fn judge(packet: &[u8]) {
    let text = text_within(packet);
    let document = text.as_deref().map(Document::read);
    if matches!(document, Some(Err(JsonError::Deep))) {
        return;
    }
    let is_object = |document: &Document| matches!(document.root.value, Value::Object(_));
    let expected = match document {
        Some(Ok(document)) if is_object(&document) => text.as_deref().map(<[u8]>::trim_ascii),
        _ => None,
    };
    for coded in [coded(packet), coded(packet).trim_end_matches('=').to_owned()] {
        let body = format!("{{\"amount\":{{}},\"ilpPacket\":\"{coded}\"}}");
        let found = transaction_object(body.as_bytes());
        let found = found.as_ref().map(|raw| raw.get().as_bytes());
        assert_eq!(found, expected, "{packet:?}");
    }
}

/// The data of a packet of either version, decoded if it is base64url.
fn text_within(packet: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader(packet);
    let kind = reader.take(1)?[0];
    let mut contents = Reader(reader.counted()?);
    match kind {
        1 => contents.take(8)?,
        12 => contents.take(8 + 17 + 32)?,
        _ => return None,
    };
    let _account = contents.counted()?;
    let data = contents.counted()?;
    Some(decoded(data).unwrap_or_else(|| data.to_vec()))
}

/// Reads by the octet encoding rules.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.0.get(..count)?;
        self.0 = &self.0[count..];
        Some(taken)
    }

    /// Bytes after their length.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let first = usize::from(self.take(1)?[0]);
        let length = match first {
            0..128 => first,
            // A length of more than four digits is longer than any message.
            128 | 133.. => return None,
            _ => {
                let digits = self.take(first - 128)?;
                digits.iter().fold(0, |length, digit| length * 256 + usize::from(*digit))
            }
        };
        self.take(length)
    }
}

/// A packet whose lengths are right.
fn packet(kind: u8, fixed: usize, data: &[u8]) -> Vec<u8> {
    let mut contents = vec![0; fixed];
    push_counted(&mut contents, b"g.fsp.msisdn.1");
    push_counted(&mut contents, data);
    let mut packet = vec![kind];
    push_counted(&mut packet, &contents);
    packet
}

fn push_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        length @ 0..128 => out.push(length as u8),
        length => out.extend([0x83, (length >> 16) as u8, (length >> 8) as u8, length as u8]),
    }
    out.extend(bytes);
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64url with its padding.
fn coded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut bits = [0; 4];
        bits[1..][..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(bits);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize % 64];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Bytes of base64url, with its whole padding or none; what is left over of bits is zero.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
    let (text, padding) = text.split_at(end);
    let is_whole = text.len() + padding.len() == text.len().next_multiple_of(4);
    if !padding.iter().all(|byte| *byte == b'=') || !(padding.is_empty() || is_whole) {
        return None;
    }
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for byte in text {
        let digit = DIGITS.iter().position(|digit| digit == byte)?;
        bits = bits << 6 | digit as u32;
        count += 6;
        if 8 <= count {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits %= 1 << count;
        }
    }
    (count < 6 && bits == 0).then_some(bytes)
}
