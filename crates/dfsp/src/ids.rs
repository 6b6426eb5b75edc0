//! Identifiers of transactions: ascending, unique per simulator, and mapped to a table row.
//!
//! An id has the form of a UUID of version 4, so that hubs of every version accept it: 48 bits of
//! creation time, 33 random bits per simulator, one bit that distinguishes quote and transfer, and
//! a 40-bit sequence number. The W3C trace id is a one-to-one function of the transfer's id. Its
//! low 64 bits are mixed, because hubs and collectors sample traces by them.

use ledger::TransferId;

const SEQUENCE_BITS: u32 = 40;
const SEQUENCE_MASK: u128 = (1 << SEQUENCE_BITS) - 1;
const QUOTE_BIT: u128 = 1 << SEQUENCE_BITS;
const NONCE_MASK: u128 = 0xfff << 64 | 0x1f_ffff << (SEQUENCE_BITS + 1);
const VERSION_4: u128 = 4 << 76;
const VARIANT: u128 = 0b10 << 62;
/// The steps of the mixing function of SplitMix64: shift, factor, inverse factor modulo 2^64.
const MIXING: [(u32, u64, u64); 3] = [
    (30, 0xbf58_476d_1ce4_e5b9, 0x96de_1b17_3f11_9089),
    (27, 0x94d0_49bb_1331_11eb, 0x3196_42b2_d24d_8ec3),
    (31, 1, 1),
];
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

    /// Issues the ids of the items of the bulk whose id was issued last. They follow its own.
    pub(crate) fn issue_items(&mut self, items: u16) {
        self.next += u64::from(items);
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

    /// The id of an item of the bulk with this id, numbered from 1.
    pub(crate) fn item(self, number: u16) -> TransferId {
        to_transfer_id(self.0 + u128::from(number))
    }

    /// The quote's id as a [`TransferId`].
    pub(crate) fn quote(self) -> TransferId {
        to_transfer_id(self.0 | QUOTE_BIT)
    }

    /// The trace id that all legs carry: 32 hexadecimal digits.
    pub(crate) fn trace(self) -> [u8; 32] {
        let mixed = self.0 >> 64 << 64 | u128::from(mix(self.0 as u64));
        let mut text = [0; 32];
        hexadecimal(&mixed.to_be_bytes(), &mut text);
        text
    }
}

/// Spreads similar numbers over all numbers, one to one.
fn mix(number: u64) -> u64 {
    MIXING
        .iter()
        .fold(number, |bits, (shift, factor, _)| (bits ^ bits >> shift).wrapping_mul(*factor))
}

/// The number that [`mix`] made this one of.
fn unmix(mixed: u64) -> u64 {
    MIXING.iter().rev().fold(mixed, |bits, (shift, _, inverse)| {
        let bits = bits.wrapping_mul(*inverse);
        bits ^ bits >> shift ^ bits >> (2 * shift)
    })
}

/// The sequence number in an id of a simulator's form. Any other id also gives a number, so the row
/// must be compared with the whole id.
pub(crate) fn sequence_of(id: TransferId) -> u64 {
    let bytes = id.to_bytes();
    bytes[12..].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// The transfer id in a `traceparent` header of a simulator.
pub(crate) fn traced_id(traceparent: &str) -> Option<TransferId> {
    let mixed = u128::from_str_radix(trace_of(traceparent)?, 16).ok()?;
    Some(to_transfer_id(mixed >> 64 << 64 | u128::from(unmix(mixed as u64))))
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
        }
    }

    /// Samplers select traces by the low 56 bits of their ids.
    #[test]
    fn trace_ids_of_each_simulator_are_spread() {
        const IDS: usize = 20_000;
        for seed in [0, 1, 0xfeed_beef_cafe, u64::MAX] {
            let mut ids = Ids::new(seed);
            let mut random = |number: usize| {
                let trace = ids.next(1_900_000_000_000 + number as u64 / 10).trace();
                let text = str::from_utf8(&trace[18..]).expect("ASCII");
                u64::from_str_radix(text, 16).expect("hexadecimal")
            };
            let parts: Vec<_> =
                (0..IDS).map(|at| random(at) as f64 / (1_u64 << 56) as f64).collect();
            for (ratio, expected) in [(0.01, 130..280), (0.5, 9_700..10_300)] {
                let selected = parts.iter().filter(|part| 1.0 - ratio <= **part).count();
                assert!(expected.contains(&selected), "{seed} {ratio}: {selected} of {IDS}");
            }
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
