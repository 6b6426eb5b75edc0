//! The stored form of the cold store's content: rows of final transfers, entries of the party
//! directory, windows and settlements.
//!
//! # Rows of transfers
//! The key is the transfer's id (17 bytes). The value has one byte for its own version, then all
//! versions of the row, oldest first, each in its stored form ([`ledger::FinalTransfer`]) without
//! the id. Most rows have one version. A response after the deadline adds a second.
//!
//! # Entries of the party directory
//! The key is the identifier's type after its length, the hash of the identifier and that of the
//! sub-identifier, if any ([`crate::party_names::PartyKey::row_key`]). The value is a byte for its
//! version, the number of the record that changed it last, in groups of seven bits, and the
//! entries: each the currency (three letters, or one zero byte) and the FSP after its length. A
//! value without entries is that of a released identifier. Version 1 has one entry and no number.
//!
//! # Windows and settlements
//! The key is one byte for the kind ([`ledger::ArchiveKind`]) and the number, big endian, so that
//! keys are in the order of the numbers. The value is a byte for its version and the stored form of
//! [`ledger::WindowWithSums`] or [`ledger::SettlementWithAccounts`].
//!
//! Costs: some tens of nanoseconds per row; one allocation per version that is read.

use alloc::vec::Vec;

use ledger::{
    ArchiveKind, ArchivedSettlement, Currency, FinalTransfer, FspName, LogIndex, Outcome,
    TransferId,
};

use ledger::field::{Field, FieldError, LONG, Reader, SHORT, write_text};

/// Version of all kinds of values, except those of parties.
const VALUE_VERSION: u8 = 1;

/// Version of the values of parties.
const PARTY_VERSION: u8 = 2;

/// Length of the id, with which a row's stored form begins.
const ID_BYTES: usize = 17;

/// Adds a version of a row to the value stored under its id, which is empty for a new row. The
/// version is appended, or replaces the one written by the same record.
///
/// # Errors
/// [`FieldError`] if `stored` was not written by this version.
pub fn add_version(
    stored: &[u8],
    row: &FinalTransfer,
    out: &mut Vec<u8>,
) -> Result<(), FieldError> {
    out.clear();
    out.push(VALUE_VERSION);
    let mut newer = Vec::new();
    for version in versions(&row.id, stored)? {
        let version = version?;
        if version.changed < row.changed {
            write_version(&version, out);
        } else if row.changed < version.changed {
            newer.push(version);
        }
    }
    write_version(row, out);
    newer.iter().for_each(|version| write_version(version, out));
    Ok(())
}

/// Whether the row cannot have an older version. Only the rows of expired transfers change a second
/// time, through a late response.
#[must_use]
pub fn is_first(row: &FinalTransfer) -> bool {
    row.outcome != Outcome::Expired || row.response.is_none()
}

/// The newest version of a row that the record at `at` or an earlier one wrote.
///
/// # Errors
/// [`FieldError`] if `stored` was not written by this version.
pub fn version_at(
    id: &TransferId,
    stored: &[u8],
    at: LogIndex,
) -> Result<Option<FinalTransfer>, FieldError> {
    let mut newest = None;
    for version in versions(id, stored)? {
        let version = version?;
        if at < version.changed {
            break;
        }
        newest = Some(version);
    }
    Ok(newest)
}

/// The first version of a row.
///
/// # Errors
/// [`FieldError`] if `stored` was not written by this version.
pub fn first_version(id: &TransferId, stored: &[u8]) -> Result<Option<FinalTransfer>, FieldError> {
    versions(id, stored)?.next().transpose()
}

/// The records named by all versions of a row: its creation, its last change, and the response.
///
/// # Errors
/// [`FieldError`] if `stored` was not written by this version.
pub fn records_of(id: &TransferId, stored: &[u8]) -> Result<Vec<LogIndex>, FieldError> {
    let mut records = Vec::new();
    for version in versions(id, stored)? {
        let version = version?;
        records.extend([version.prepare, version.changed]);
        records.extend(version.response.map(|response| response.log_index));
    }
    Ok(records)
}

/// A name of a party that no other party has: the identifier's type, the identifier and the
/// sub-identifier, if any, each after its length. An MSISDN with and without a leading `+` is one
/// identifier.
#[must_use]
pub fn party_key(id_type: &str, id: &str, sub_id: Option<&str>) -> Vec<u8> {
    let id = match id_type {
        "MSISDN" => id.strip_prefix('+').unwrap_or(id),
        _ => id,
    };
    let length = 5 + id_type.len() + id.len() + sub_id.map_or(0, str::len);
    let mut key = Vec::with_capacity(length);
    write_text(id_type, SHORT, &mut key);
    write_text(id, LONG, &mut key);
    if let Some(sub_id) = sub_id {
        write_text(sub_id, LONG, &mut key);
    }
    key
}

/// Value of a party identifier: its entries, and the record that changed them last.
pub fn write_party<'a>(
    at: LogIndex,
    entries: impl Iterator<Item = (Option<Currency>, &'a FspName)>,
    out: &mut Vec<u8>,
) {
    PARTY_VERSION.write(out);
    let mut rest = at.0;
    while 0x80 <= rest {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    for (currency, fsp) in entries {
        match currency {
            None => out.push(0),
            Some(currency) => currency.write(out),
        }
        fsp.write(out);
    }
}

/// The record that changed an identifier last, and its entries.
pub type StoredParty = (LogIndex, Vec<(Option<Currency>, FspName)>);

/// Reads a value of a party identifier. In version 1, the record is unknown, which is 0.
///
/// # Errors
/// [`FieldError`] if `stored` was not written by this version or by version 1.
pub fn read_party(stored: &[u8]) -> Result<StoredParty, FieldError> {
    let mut reader = Reader(stored);
    let mut entries = Vec::new();
    let at = match reader.value::<u8>()? {
        VALUE_VERSION => {
            entries.push(read_party_entry(&mut reader)?);
            0
        }
        PARTY_VERSION => {
            let at = read_number(&mut reader)?;
            while !reader.0.is_empty() {
                entries.push(read_party_entry(&mut reader)?);
            }
            at
        }
        _ => return Err(FieldError::Value),
    };
    reader.end()?;
    Ok((LogIndex(at), entries))
}

fn read_party_entry(reader: &mut Reader<'_>) -> Result<(Option<Currency>, FspName), FieldError> {
    let currency = match reader.0.first() {
        Some(0) => {
            reader.value::<u8>()?;
            None
        }
        _ => Some(reader.value()?),
    };
    Ok((currency, reader.value()?))
}

/// Reads a number in groups of seven bits, the lowest first.
fn read_number(reader: &mut Reader<'_>) -> Result<u64, FieldError> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = reader.value::<u8>()?;
        let part = u64::from(byte & 0x7f);
        number |= part << shift;
        if byte < 0x80 {
            let is_shortest = (0 < byte || shift == 0) && (number >> shift) == part;
            return if is_shortest { Ok(number) } else { Err(FieldError::Value) };
        }
    }
    Err(FieldError::Value)
}

/// Key of a window or settlement.
#[must_use]
pub fn archive_key(kind: ArchiveKind, number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_be_bytes();
    [kind.number(), a, b, c, d]
}

/// Value of a window or settlement.
pub fn write_archived(row: &ArchivedSettlement, out: &mut Vec<u8>) {
    VALUE_VERSION.write(out);
    match row {
        ArchivedSettlement::Window(entry) => entry.write(out),
        ArchivedSettlement::Settlement(entry) => entry.write(out),
    }
}

/// Reads a value of a window or settlement.
///
/// # Errors
/// [`FieldError`] if `stored` was not written by this version.
pub fn read_archived(kind: ArchiveKind, stored: &[u8]) -> Result<ArchivedSettlement, FieldError> {
    let mut reader = Reader(stored);
    check_version(&mut reader)?;
    let row = match kind {
        ArchiveKind::Window => ArchivedSettlement::Window(reader.value()?),
        ArchiveKind::Settlement => ArchivedSettlement::Settlement(reader.value()?),
    };
    reader.end()?;
    Ok(row)
}

fn versions<'a>(
    id: &'a TransferId,
    stored: &'a [u8],
) -> Result<impl Iterator<Item = Result<FinalTransfer, FieldError>> + 'a, FieldError> {
    let mut reader = Reader(stored);
    if !stored.is_empty() {
        check_version(&mut reader)?;
    }
    let next = move || (!reader.0.is_empty()).then(|| read_version(id, &mut reader));
    Ok(core::iter::from_fn(next))
}

fn check_version(reader: &mut Reader<'_>) -> Result<(), FieldError> {
    match reader.value::<u8>()? {
        VALUE_VERSION => Ok(()),
        _ => Err(FieldError::Value),
    }
}

fn write_version(row: &FinalTransfer, out: &mut Vec<u8>) {
    let start = out.len();
    row.write(out);
    out.drain(start..start + ID_BYTES);
}

fn read_version(id: &TransferId, reader: &mut Reader<'_>) -> Result<FinalTransfer, FieldError> {
    let whole = [&id.to_bytes(), reader.0].concat();
    let mut rest = Reader(&whole);
    let row = rest.value()?;
    reader.take(whole.len() - ID_BYTES - rest.0.len())?;
    Ok(row)
}

#[cfg(test)]
mod tests;
