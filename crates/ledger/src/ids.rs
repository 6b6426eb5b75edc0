//! The identifiers of the scheme: one type per kind, parsed once at the edge.

use core::hash::{Hash, Hasher};
use core::{array, fmt};

/// Number of a record in the log: 1 for the first record, then without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogIndex(pub u64);

/// A time in microseconds since 1970-01-01T00:00:00Z, stamped on a batch by the sequencer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The time in whole milliseconds, rounded down.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0 / 1_000
    }

    /// The time `millis` milliseconds after the epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }
}

/// Number of a notice owed to a participant: unique in the log, rising.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoticeId(pub u64);

/// Number of an oracle: never reused, rising from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OracleId(pub u32);

/// Number of an alert: rising, never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlertId(pub u64);

/// Number of a settlement window: rising from 1 without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowId(pub u32);

/// Number of a part of a closed window, [`crate::WindowContent`]: rising from 1 without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(pub u32);

/// Number of a settlement: rising from 1 without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SettlementId(pub u32);

/// Number of a fee rule: rising from 1 without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeeRuleId(pub u32);

/// Id of a token of an operator, chosen at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorTokenId(pub u64);

/// Number of a proposal: rising from 1, never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProposalId(pub u32);

/// Index of a participant in the registry. The hub is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParticipantIndex(pub u32);

impl ParticipantIndex {
    /// The hub itself, present from the first record.
    pub const HUB: Self = Self(0);

    /// The index as an array subscript.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// Maximum number of accounts.
pub const ACCOUNTS_MAX: usize = 200_000;

/// Maximum number of items of a bulk transfer. The edge may have a lower limit.
pub const BULK_ITEMS_MAX: usize = 10_000;

/// Number of an account as the admin API shows it. The first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub u32);

/// A 32-byte digest: BLAKE3 or SHA-256, depending on the field.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Longest name of a participant, in bytes (FSPIOP `FspId`).
pub const FSP_NAME_BYTES_MAX: usize = 32;

/// A participant's name as written on the wire: 1 to 32 bytes of UTF-8, kept inline.
///
/// Comparison is exact. Use [`FspName::matches`] to ignore case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FspName {
    len: u8,
    bytes: Block,
}

/// A block with the length of the longest name.
type Block = [u8; FSP_NAME_BYTES_MAX];

impl FspName {
    /// Creates a name of 1 to 32 bytes; `None` for any other length.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > FSP_NAME_BYTES_MAX {
            return None;
        }
        let mut bytes = [0; FSP_NAME_BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Some(Self { len: text.len() as u8, bytes })
    }

    /// Reads a name of `length` bytes from the start of a block if it is ASCII, without a call to
    /// check or copy it.
    #[inline]
    pub(crate) fn from_ascii_block(block: &Block, length: usize) -> Option<Self> {
        /// All bytes of a block, then zeros: a mask for every length.
        const KEPT: [[u8; FSP_NAME_BYTES_MAX]; 2] =
            [[u8::MAX; FSP_NAME_BYTES_MAX], [0; FSP_NAME_BYTES_MAX]];
        let skipped = FSP_NAME_BYTES_MAX.checked_sub(length)?;
        let kept: &Block = KEPT.as_flattened()[skipped..].first_chunk()?;
        let bytes: Block = array::from_fn(|at| block[at] & kept[at]);
        let is_ascii = bytes.iter().fold(0, |all, byte| all | byte).is_ascii();
        (0 < length && is_ascii).then_some(Self { len: length as u8, bytes })
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)])
            .expect("an FspName is made from valid UTF-8 only")
    }

    /// The bytes of the text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether both names are equal except for ASCII case.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        // Most names are written as they were registered.
        self == other || self.folded() == other.folded()
    }

    /// The name with ASCII letters in lower case: equal for names that match.
    #[must_use]
    pub fn folded(mut self) -> Self {
        self.bytes.make_ascii_lowercase();
        self
    }
}

/// Hashes words of eight bytes, which keyed hashers take several times faster than single bytes.
/// Equal names have equal bytes. Names that differ only in length may hash alike.
impl Hash for FspName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.bytes.as_chunks::<8>().0 {
            state.write_u64(u64::from_le_bytes(*word));
        }
    }
}

impl fmt::Display for FspName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for FspName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A transfer's id: a lower-case UUID, or the 26 characters of a ULID or upper-case hexadecimal.
///
/// Stored in 17 bytes: one for the form and the two topmost bits of a ULID, then 128 bits. The
/// parsed text is always reproduced exactly.
///
/// The id of a bulk transfer has forms of its own, because a transfer may have the same text
/// ([`TransferId::as_bulk`]), and so have references to a payment ([`TransferId::as_payment`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId([u8; 17]);

const FORM_UUID: u8 = 0;
const FORM_ULID: u8 = 4;
/// Added to the form of an id of a bulk transfer.
const FORM_BULK: u8 = 8;
/// Added to the form of a reference to a payment.
const FORM_PAYMENT: u8 = 16;
/// Number of forms of a transfer, of a bulk and of a payment together.
const FORMS_END: u8 = FORM_PAYMENT + FORM_BULK;
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const HEX: &[u8; 16] = b"0123456789abcdef";
/// The value of each digit of [`HEX`]; 255 for any other byte.
static DIGITS: [u8; 256] = {
    let mut digits = [u8::MAX; 256];
    let mut value = 0;
    while value < 16 {
        digits[HEX[value] as usize] = value as u8;
        value += 1;
    }
    digits
};
/// Offsets of the two digits of each byte in the text of a UUID.
const UUID_BYTES_AT: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

impl TransferId {
    /// Parses `CorrelationId` of the hub: a UUID of version 1 to 7 in lower case, or a ULID.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.len() {
            36 => Self::parse_uuid(text.as_bytes()),
            26 => Self::parse_ulid(text.as_bytes()),
            _ => None,
        }
    }

    /// The stored form.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 17] {
        self.0
    }

    /// Reads the stored form; `None` if its first byte is not a form that this version writes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 17]) -> Option<Self> {
        let form = if bytes[0] < FORMS_END { bytes[0] % FORM_BULK } else { bytes[0] };
        let known = form == FORM_UUID || (FORM_ULID..FORM_ULID + 4).contains(&form);
        known.then_some(Self(bytes))
    }

    /// The id of the bulk transfer with this text, which no transfer has.
    #[must_use]
    pub const fn as_bulk(mut self) -> Self {
        self.0[0] |= FORM_BULK;
        self
    }

    /// Whether it is the id of a bulk transfer.
    #[must_use]
    pub const fn is_bulk(&self) -> bool {
        self.0[0] & FORM_BULK != 0
    }

    /// The form under which decisions about messages that name this id are found: quotes of a
    /// transaction, quotes of a transaction request, and answers that name a transaction.
    #[must_use]
    pub const fn as_payment(mut self) -> Self {
        self.0[0] = self.0[0] % FORM_BULK + FORM_PAYMENT;
        self
    }

    /// Whether it is a reference to a payment.
    #[must_use]
    pub const fn is_payment(&self) -> bool {
        self.0[0] & FORM_PAYMENT != 0
    }

    /// The id of the transfer with this text.
    #[must_use]
    pub const fn as_transfer(mut self) -> Self {
        self.0[0] %= FORM_BULK;
        self
    }

    fn parse_uuid(text: &[u8]) -> Option<Self> {
        let text: &[u8; 36] = text.try_into().ok()?;
        if [8, 13, 18, 23].iter().any(|at| text[*at] != b'-') {
            return None;
        }
        let (mut out, mut all) = ([0; 17], 0);
        for (slot, at) in out[1..].iter_mut().zip(UUID_BYTES_AT) {
            let [high, low] = [text[at], text[at + 1]].map(|byte| DIGITS[usize::from(byte)]);
            *slot = high << 4 | low;
            all |= high | low;
        }
        let (version, variant) = (out[7] >> 4, out[9] >> 6);
        let is_uuid = all < 16 && (1..=7).contains(&version) && variant == 0b10;
        is_uuid.then_some(Self(out))
    }

    fn parse_ulid(text: &[u8]) -> Option<Self> {
        let mut top = 0u8;
        let mut low = 0u128;
        for (at, &byte) in text.iter().enumerate() {
            let value = CROCKFORD.iter().position(|&c| c == byte)? as u8;
            if at == 0 {
                top = value >> 3;
            }
            low = (low << 5) | u128::from(value);
        }
        let mut out = [0; 17];
        out[0] = FORM_ULID + top;
        out[1..].copy_from_slice(&low.to_be_bytes());
        Some(Self(out))
    }
}

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; 36];
        let form = self.0[0] % FORM_BULK;
        let len = if form == FORM_UUID {
            let mut at = 0;
            for (index, byte) in self.0[1..].iter().enumerate() {
                if matches!(index, 4 | 6 | 8 | 10) {
                    text[at] = b'-';
                    at += 1;
                }
                text[at] = HEX[usize::from(byte >> 4)];
                text[at + 1] = HEX[usize::from(byte & 15)];
                at += 2;
            }
            36
        } else {
            let mut low = [0; 16];
            low.copy_from_slice(&self.0[1..]);
            let low = u128::from_be_bytes(low);
            for (at, slot) in text[..26].iter_mut().enumerate() {
                let shift = 125 - 5 * at;
                let mut value = (low >> shift) as u8 & 31;
                if at == 0 {
                    value |= (form - FORM_ULID) << 3;
                }
                *slot = CROCKFORD[usize::from(value)];
            }
            26
        };
        f.write_str(core::str::from_utf8(&text[..len]).expect("an id is ASCII"))
    }
}

impl fmt::Debug for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{FieldError, Reader};
    use alloc::string::ToString;

    #[test]
    fn ids_print_their_original_text() {
        for text in [
            "b51ec534-ee48-4575-b6a9-ead2955b8069",
            "01HV0000000000000000000000",
            "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "FFFFFFFFFFFFFFFFFFFFFFFFFF",
            "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
        ] {
            let id = TransferId::parse(text).expect(text);
            assert_eq!(id.to_string(), text);
            assert_eq!(TransferId::from_bytes(id.to_bytes()), Some(id));
            let bulk = id.as_bulk();
            assert_eq!((bulk.to_string().as_str(), bulk.as_bulk()), (text, bulk));
            assert_eq!(TransferId::from_bytes(bulk.to_bytes()), Some(bulk));
            assert!(bulk.is_bulk() && !id.is_bulk() && bulk != id);
            let payment = id.as_payment();
            assert_eq!((payment.to_string().as_str(), payment.as_transfer()), (text, id));
            assert_eq!(TransferId::from_bytes(payment.to_bytes()), Some(payment));
            assert!(payment.is_payment() && !payment.is_bulk() && !id.is_payment());
        }
    }

    #[test]
    fn ids_outside_the_pattern_are_refused() {
        for text in [
            "",
            "B51EC534-EE48-4575-B6A9-EAD2955B8069",
            "b51ec534-ee48-0575-b6a9-ead2955b8069",
            "b51ec534-ee48-8575-b6a9-ead2955b8069",
            "b51ec534-ee48-4575-c6a9-ead2955b8069",
            "b51ec534ee484575b6a9ead2955b80690000",
            "01HV000000000000000000000I",
            "01hv0000000000000000000000",
        ] {
            assert_eq!(TransferId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn ids_with_an_unknown_form_are_refused() {
        let of_form = |form| TransferId::from_bytes([form; 17]);
        let known: alloc::vec::Vec<u8> =
            (0..=255).filter(|form| of_form(*form).is_some()).collect();
        assert_eq!(known, [0, 4, 5, 6, 7, 8, 12, 13, 14, 15, 16, 20, 21, 22, 23]);
        let id = TransferId::from_bytes([0; 17]).expect("the form of a UUID");
        assert_eq!(alloc::format!("{id:?}"), id.to_string());
    }

    #[test]
    fn names_match_regardless_of_case() {
        let name = |text: &str| FspName::new(text);
        let longest = "abcdefghijklmnopqrstuvwxyz012345";
        assert_eq!(longest.len(), FSP_NAME_BYTES_MAX);
        assert_eq!(name(longest).map(|name| name.to_string()).as_deref(), Some(longest));
        assert_eq!([name(""), name(&alloc::format!("{longest}6"))], [None, None]);
        let [one, same, other, longer] =
            ["Dfsp1", "dFSP1", "dfsp2", "dfsp11"].map(|text| name(text).expect("a name"));
        assert!(one.matches(&one) && one.matches(&same) && same.matches(&one));
        assert!(!one.matches(&other) && !one.matches(&longer) && !longer.matches(&one));
        assert_eq!((one.folded(), one == same), (same.folded(), false));
        assert_eq!(alloc::format!("{one} {one:?}"), "Dfsp1 \"Dfsp1\"");
    }

    #[test]
    fn name_is_read_regardless_of_the_bytes_after_it() {
        let letters = "abcdefghijklmnopqrstuvwxyz0123456";
        let accents = "\u{e9}".repeat(17);
        let texts =
            [letters, &accents].map(|text| (0..=text.len()).filter_map(|at| text.get(..at)));
        for text in texts.into_iter().flatten() {
            let expected = FspName::new(text).ok_or(FieldError::Value);
            for behind in [&[][..], &[0xff; 40]] {
                let bytes = [&[text.len() as u8], text.as_bytes(), behind].concat();
                let mut reader = Reader(&bytes);
                assert_eq!(reader.value::<FspName>(), expected, "{text}");
                assert!(expected.is_err() || reader.0 == behind, "{text}");
            }
        }
    }

    #[test]
    fn stamps_and_milliseconds() {
        assert_eq!((Stamp(1_999).millis(), Stamp::from_millis(2)), (1, Stamp(2_000)));
        assert_eq!(Stamp::from_millis(u64::MAX), Stamp(u64::MAX));
    }

    #[test]
    fn digest_prints_as_hexadecimal() {
        let digest = Digest(array::from_fn(|at| at as u8 * 8));
        let text = "0008101820283038404850586068707880889098a0a8b0b8c0c8d0d8e0e8f0f8";
        assert_eq!([digest.to_string(), alloc::format!("{digest:?}")], [text, text]);
    }
}
