//! Entries of the party directory, as commands name them. The directory itself is a read model
//! outside the kernel.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::field::{LONG, List, Optional, SHORT, Text, numbered, stored};
use crate::ids::FspName;
use crate::money::Currency;

/// Maximum number of entries in one record (finished deliveries, changed parties).
pub const ENTRIES_MAX: usize = 10_000;
/// The first character of a hash in the place of an identifier. Identifiers have no control
/// characters.
const HASH_MARK: char = '\u{1}';
/// Hexadecimal digits of a hash.
const HASH_DIGITS: usize = 32;
/// Digits of a hash that are shown.
const SHOWN_DIGITS: usize = 8;

stored! {
    /// One entry of the party directory.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PartyBinding {
        /// Identifier type, for example `MSISDN`.
        pub id_type: String as Text<SHORT>,
        /// The identifier, or its hash.
        pub id: String as Text<LONG>,
        /// Sub-identifier, when there is one, or its hash.
        pub sub_id: Option<String> as Optional<Text<LONG>>,
        /// Currency of the binding, if it has one. In a release: the only currency in which the
        /// entry is released. A binding without a currency is released with any currency.
        pub currency: Option<Currency>,
        /// The FSP that serves the party.
        pub fsp: FspName,
    }
}

numbered! {
    /// The kind of request that a change of the directory answers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PartyChangeForm: u8 {
        /// `POST` or `PUT /participants/{Type}/{ID}[/{SubId}]`.
        Single = 1,
        /// `POST /participants`.
        Batch = 2,
        /// `DELETE /participants/{Type}/{ID}[/{SubId}]`.
        Delete = 3,
    }
}

numbered! {
    /// The FSPs that may change an entry of the directory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PartyOwnership: u8 {
        /// Only the FSP of the entry. Other FSPs may have entries in other currencies.
        OwnerPerCurrency = 1,
        /// Every FSP: the latest registration counts.
        LatestWins = 2,
        /// Only the FSP that has the identifier, in whatever currencies.
        OwnerOnly = 3,
    }
}

stored! {
    /// How the directory applies a change. Without it, a registration replaces all entries of its
    /// identifier.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PartyRule {
        /// The rule of the scheme at the time of the change.
        pub ownership: PartyOwnership,
        /// The FSPs that lose an entry by the change.
        pub former: Vec<FormerOwner> as List<ENTRIES_MAX>,
    }
}

stored! {
    /// An FSP that loses an entry of the party directory to another one, or to an operator.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FormerOwner {
        /// Position of the entry's identifier in the change.
        pub party: u16,
        /// The FSP.
        pub fsp: FspName,
    }
}

/// The distinct FSPs that lose an entry, in the order of their names.
pub(crate) fn distinct_fsps(former: &[FormerOwner]) -> BTreeSet<FspName> {
    former.iter().map(|owner| owner.fsp).collect()
}

/// A change of the party directory, as its read model applies it.
#[derive(Clone, Copy, Debug)]
pub struct PartyChangeView<'a> {
    /// The kind of request.
    pub form: PartyChangeForm,
    /// The entries.
    pub parties: &'a [PartyBinding],
    /// The sender; `None` for a change by an operator.
    pub source: Option<&'a FspName>,
    /// The rule; `None` in records that have none.
    pub ownership: Option<PartyOwnership>,
    /// The FSPs that lose an entry.
    pub former: &'a [FormerOwner],
}

/// The text of a hash in the place of an identifier.
#[must_use]
pub fn hashed_identifier(hash: &[u8; HASH_DIGITS / 2]) -> String {
    let mut text = String::with_capacity(1 + HASH_DIGITS);
    text.push(HASH_MARK);
    for byte in hash {
        write!(text, "{byte:02x}").expect("a text accepts all");
    }
    text
}

/// Whether a text in the place of an identifier is a hash.
#[must_use]
pub fn is_hashed_identifier(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = text.strip_prefix(HASH_MARK);
    digits.is_some_and(|it| it.len() == HASH_DIGITS && it.bytes().all(is_digit))
}

/// An identifier for a reader. A hash is shown as that of an erased identifier.
#[must_use]
pub fn shown_identifier(text: &str) -> Cow<'_, str> {
    match is_hashed_identifier(text) {
        true => format!("(erased, hash {})", &text[1..=SHOWN_DIGITS]).into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_differ_from_identifiers() {
        let hash = hashed_identifier(&core::array::from_fn(|at| at as u8 * 17));
        assert_eq!(hash, "\u{1}00112233445566778899aabbccddeeff");
        assert!(is_hashed_identifier(&hash));
        assert_eq!(shown_identifier(&hash), "(erased, hash 00112233)");
        let (upper, short) = (hash.to_uppercase(), &hash[..32]);
        for text in ["", "254700000001", &hash[1..], &upper, short, &format!("{hash}0")] {
            assert!(!is_hashed_identifier(text), "{text:?}");
            assert_eq!(shown_identifier(text), text);
        }
    }
}
