//! Identifiers of parties as keyed hashes, and the contents that have them in clear.
//!
//! Fields of records are covered by the chain and never erased, contents are. So the fields of a
//! change of the party directory have hashes, and its contents the identifiers
//! ([`PartyNames`]). Kernel, state, snapshots and the directory see hashes only. Records of earlier
//! rules have identifiers in their fields; the directory hashes them when it applies them.
//!
//! # Hashes
//! The key is derived from the seed of the genesis record, which every node and every copy of the
//! log has. The identifier and the sub-identifier have a hash each of 128 bits, so that an
//! identifier is found with any sub-identifier. The hash of a sub-identifier covers the identifier
//! too: the same one of two parties has two hashes. In fields, a hash is the text of
//! [`ledger::hashed_identifier`].
//!
//! # Contents
//! For each entry of the change, in order, the identifier and the sub-identifier: one more than the
//! length in bytes plus 1, in groups of seven bits, the lowest first, and the text. An absent text
//! is the length 1. So no byte of a length is zero.
//!
//! Costs: two or four compressions of BLAKE3 per entry.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use ledger::field::{FieldError, SHORT, write_text};
use ledger::{PartyBinding, State, hashed_identifier, is_hashed_identifier};

use crate::cold_rows::party_key;

/// The purpose of the derived key.
const CONTEXT: &str = "upesi 2026 identifiers of parties";
/// Bytes of a hash.
const HASH_BYTES: usize = 16;

/// The key of the hashes of a log.
#[derive(Clone, PartialEq, Eq)]
pub struct PartyKey([u8; 32]);

impl core::fmt::Debug for PartyKey {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("PartyKey")
    }
}

impl PartyKey {
    /// The key of the log with this seed in its genesis record.
    #[must_use]
    pub fn of_seed(seed: &[u8; 16]) -> Self {
        Self(blake3::derive_key(CONTEXT, seed))
    }

    /// The key of the log that made a state.
    #[must_use]
    pub fn of_state(state: &State) -> Self {
        Self::of_seed(&state.seed())
    }

    /// The identifier as a hash. One that is a hash stays.
    #[must_use]
    pub fn hashed_id(&self, id_type: &str, id: &str) -> String {
        match is_hashed_identifier(id) {
            true => id.to_owned(),
            false => self.hash(&party_key(id_type, id, None)),
        }
    }

    /// The sub-identifier of an identifier in clear, as a hash. One that is a hash stays.
    #[must_use]
    pub fn hashed_sub_id(&self, id_type: &str, id: &str, sub_id: &str) -> String {
        match is_hashed_identifier(sub_id) {
            true => sub_id.to_owned(),
            false => self.hash(&party_key(id_type, id, Some(sub_id))),
        }
    }

    /// The key of an identifier in the store. The same for an identifier in clear and as a hash.
    #[must_use]
    pub fn row_key(&self, id_type: &str, id: &str, sub_id: Option<&str>) -> Vec<u8> {
        let mut key = Vec::with_capacity(2 + id_type.len() + 2 * HASH_BYTES);
        write_text(id_type, SHORT, &mut key);
        key.extend(hash_bytes(&self.hashed_id(id_type, id)));
        if let Some(sub_id) = sub_id {
            key.extend(hash_bytes(&self.hashed_sub_id(id_type, id, sub_id)));
        }
        key
    }

    /// [`Self::row_key`] of a binding.
    #[must_use]
    pub fn row_key_of(&self, binding: &PartyBinding) -> Vec<u8> {
        self.row_key(&binding.id_type, &binding.id, binding.sub_id.as_deref())
    }

    /// Replaces the identifiers in the entries of a change by hashes. Returns them; `None` if no
    /// entry has one in clear.
    #[must_use]
    pub fn conceal(&self, parties: &mut [PartyBinding]) -> Option<PartyNames> {
        let is_clear = |party: &PartyBinding| {
            !is_hashed_identifier(&party.id)
                || party.sub_id.as_deref().is_some_and(|sub_id| !is_hashed_identifier(sub_id))
        };
        if !parties.iter().any(is_clear) {
            return None;
        }
        Some(PartyNames(parties.iter_mut().map(|party| self.conceal_one(party)).collect()))
    }

    fn conceal_one(&self, party: &mut PartyBinding) -> PartyTexts {
        let PartyBinding { id_type, id, sub_id, .. } = party;
        let hashed_sub_id = sub_id.as_deref().map(|it| self.hashed_sub_id(id_type, id, it));
        let hashed_id = self.hashed_id(id_type, id);
        let clear_sub_id = core::mem::replace(sub_id, hashed_sub_id);
        let clear_id = Some(core::mem::replace(id, hashed_id));
        let [id, sub_id] =
            [clear_id, clear_sub_id].map(|text| text.filter(|it| !is_hashed_identifier(it)));
        PartyTexts { id, sub_id }
    }

    fn hash(&self, name: &[u8]) -> String {
        let hash = blake3::keyed_hash(&self.0, name);
        let first = hash.as_bytes().first_chunk::<HASH_BYTES>();
        hashed_identifier(first.expect("a hash of BLAKE3 has 32 bytes"))
    }
}

/// The bytes of a hash as a text.
fn hash_bytes(text: &str) -> impl Iterator<Item = u8> + '_ {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
    let digits = &text.as_bytes()[text.len() - 2 * HASH_BYTES..];
    digits.chunks_exact(2).map(move |pair| digit(pair[0]) << 4 | digit(pair[1]))
}

/// The identifiers of a change in clear, in the order of its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartyNames(pub Vec<PartyTexts>);

/// The identifiers of an entry in clear. Absent texts were hashes before the change was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartyTexts {
    /// The identifier.
    pub id: Option<String>,
    /// The sub-identifier, if the entry has one.
    pub sub_id: Option<String>,
}

impl PartyNames {
    /// Its stored form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for PartyTexts { id, sub_id } in &self.0 {
            write_optional(id.as_deref(), &mut bytes);
            write_optional(sub_id.as_deref(), &mut bytes);
        }
        bytes
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`FieldError`] if [`Self::to_bytes`] did not write it.
    pub fn read(mut bytes: &[u8]) -> Result<Self, FieldError> {
        let mut names = Vec::new();
        while !bytes.is_empty() {
            let (id, sub_id) = (read_optional(&mut bytes)?, read_optional(&mut bytes)?);
            names.push(PartyTexts { id, sub_id });
        }
        Ok(Self(names))
    }

    /// Replaces the hashes in the fields of the change that these contents belong to.
    pub fn reveal(self, parties: &mut [PartyBinding]) {
        if parties.len() != self.0.len() {
            return;
        }
        for (party, texts) in parties.iter_mut().zip(self.0) {
            party.id = texts.id.unwrap_or_else(|| core::mem::take(&mut party.id));
            party.sub_id = texts.sub_id.or_else(|| party.sub_id.take());
        }
    }
}

fn write_optional(text: Option<&str>, bytes: &mut Vec<u8>) {
    let mut rest = text.map_or(1, |text| text.len() + 2);
    while 0x80 <= rest {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes.extend_from_slice(text.unwrap_or_default().as_bytes());
}

fn read_optional(bytes: &mut &[u8]) -> Result<Option<String>, FieldError> {
    let mut length = 0;
    for shift in [0, 7, 14] {
        let (&byte, rest) = bytes.split_first().ok_or(FieldError::Short)?;
        *bytes = rest;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return match length {
                _ if byte == 0 => Err(FieldError::Value),
                1 => Ok(None),
                length => read_text(length - 2, bytes).map(Some),
            };
        }
    }
    Err(FieldError::Value)
}

fn read_text(length: usize, bytes: &mut &[u8]) -> Result<String, FieldError> {
    let (text, rest) = bytes.split_at_checked(length).ok_or(FieldError::Short)?;
    *bytes = rest;
    core::str::from_utf8(text).map(ToOwned::to_owned).map_err(|_| FieldError::Value)
}

#[cfg(test)]
mod tests;
