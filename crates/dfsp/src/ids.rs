//! Identifiers of transactions: ascending, unique per simulator, and mapped to a table row.
//!
//! An id has the form of a UUID of version 4, so that hubs of every version accept it: 48 bits of
//! creation time, 33 random bits per simulator, one bit that distinguishes quote and transfer, and
//! a 40-bit sequence number. The transfer's 128 bits are also its W3C trace id.

use ledger::TransferId;

const SEQUENCE_BITS: u32 = 40;
const SEQUENCE_MASK: u128 = (1 << SEQUENCE_BITS) - 1;
const QUOTE_BIT: u128 = 1 << SEQUENCE_BITS;
const NONCE_MASK: u128 = 0xfff << 64 | 0x1f_ffff << (SEQUENCE_BITS + 1);
const VERSION_4: u128 = 4 << 76;
const VARIANT: u128 = 0b10 << 62;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Generates the ids of one simulator.
pub(crate) struct Ids {
    nonce: u128,
    next: u64,
}

/// The id of one transaction: that of its transfer, and, with one bit changed, of its quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionId(u128);

impl Ids {
    /// Ids that differ from those of a simulator with another `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let (high, low) = (u128::from(seed >> 21) & 0xfff, u128::from(seed) & 0x1f_ffff);
        Self { nonce: high << 64 | low << (SEQUENCE_BITS + 1), next: 1 }
    }

    /// The next id, for a transaction that starts at `millis` since the epoch.
    pub(crate) fn next(&mut self, millis: u64) -> TransactionId {
        let time = u128::from(millis) << 80;
        let sequence = u128::from(self.next) & SEQUENCE_MASK;
        self.next += 1;
        TransactionId(time | VERSION_4 | VARIANT | self.nonce | sequence)
    }
}

impl Ids {
    /// Whether this simulator issued the id.
    pub(crate) fn issued(&self, id: TransferId) -> bool {
        let bytes = id.to_bytes();
        let bits = bytes[1..].iter().fold(0, |sum: u128, &byte| sum << 8 | u128::from(byte));
        let sequence = (bits & SEQUENCE_MASK) as u64;
        bytes[0] == 0 && bits & NONCE_MASK == self.nonce && (1..self.next).contains(&sequence)
    }
}

impl TransactionId {
    /// The sequence number, which the transfer's id and the quote's id share.
    pub(crate) fn sequence(self) -> u64 {
        (self.0 & SEQUENCE_MASK) as u64
    }

    /// The transfer's id.
    pub(crate) fn transfer(self) -> TransferId {
        to_transfer_id(self.0)
    }

    /// The quote's id as a [`TransferId`].
    pub(crate) fn quote(self) -> TransferId {
        to_transfer_id(self.0 | QUOTE_BIT)
    }

    /// The trace id that all legs carry: 32 hexadecimal digits.
    pub(crate) fn trace(self) -> [u8; 32] {
        let mut text = [0; 32];
        hexadecimal(&self.0.to_be_bytes(), &mut text);
        text
    }
}

/// The sequence number in an id of a simulator's form. Any other id also gives a number, so the row
/// must be compared with the whole id.
pub(crate) fn sequence_of(id: TransferId) -> u64 {
    let bytes = id.to_bytes();
    bytes[12..].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// The transfer id in a `traceparent` header of a simulator.
pub(crate) fn traced_id(traceparent: &str) -> Option<TransferId> {
    let bits = u128::from_str_radix(trace_of(traceparent)?, 16).ok()?;
    Some(to_transfer_id(bits))
}

/// The trace id in a `traceparent` header: 32 hexadecimal digits.
pub(crate) fn trace_of(traceparent: &str) -> Option<&str> {
    let trace = traceparent.get(3..35)?;
    (traceparent.as_bytes().get(35) == Some(&b'-')
        && trace.bytes().all(|byte| byte.is_ascii_hexdigit()))
    .then_some(trace)
}

/// Appends the text of an id.
pub(crate) fn push_id(out: &mut Vec<u8>, id: TransferId) {
    use std::io::Write as _;
    let bytes = id.to_bytes();
    if bytes[0] != 0 {
        write!(out, "{id}").expect("writing to a Vec cannot fail");
        return;
    }
    let mut digits = [0; 32];
    hexadecimal(&bytes[1..], &mut digits);
    let mut at = 0;
    for length in [8, 4, 4, 4, 12] {
        if at > 0 {
            out.push(b'-');
        }
        out.extend_from_slice(&digits[at..at + length]);
        at += length;
    }
}

/// Writes two digits per byte; `text` is twice as long as `bytes`.
pub(crate) fn hexadecimal(bytes: &[u8], text: &mut [u8]) {
    for (&byte, digits) in bytes.iter().zip(text.chunks_exact_mut(2)) {
        digits[0] = HEX[usize::from(byte >> 4)];
        digits[1] = HEX[usize::from(byte & 15)];
    }
}

fn to_transfer_id(bits: u128) -> TransferId {
    let mut bytes = [0; 17];
    bytes[1..].copy_from_slice(&bits.to_be_bytes());
    TransferId::from_bytes(bytes).expect("form 0 is a UUID")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_valid_and_distinct_and_map_to_their_row() {
        let mut ids = Ids::new(0xfeed_beef_cafe);
        let mut seen = std::collections::HashSet::new();
        for sequence in 1..=1_000 {
            let id = ids.next(1_900_000_000_000);
            assert_eq!(id.sequence(), sequence);
            for part in [id.transfer(), id.quote()] {
                assert_eq!(TransferId::parse(&part.to_string()), Some(part));
                assert_eq!(sequence_of(part) & 0xff_ffff_ffff, sequence);
                assert!(seen.insert(part));
                assert!(ids.issued(part) && !Ids::new(1).issued(part));
                let mut text = Vec::new();
                push_id(&mut text, part);
                assert_eq!(text, part.to_string().as_bytes());
            }
            let trace = String::from_utf8(id.trace().to_vec()).expect("ASCII");
            assert_eq!(traced_id(&format!("00-{trace}-0-01")), Some(id.transfer()));
            assert_eq!(trace, id.transfer().to_string().replace('-', ""));
        }
    }

    #[test]
    fn trace_id_requires_a_complete_traceparent() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(trace_of(&format!("00-{trace}-b7ad6b7169203331-01")), Some(trace));
        for text in ["", "00-0af7", "00-zzz7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"] {
            assert_eq!(trace_of(text), None, "{text}");
        }
    }
}
