//! The stored form of the index of final transfers.
//!
//! # Blocks
//! A block has some hundred entries in order of time ([`TransferPlace`]). Its key is the time and
//! the record of its first entry, big endian, so that keys are in order of time. The value is a
//! byte for its version and the entries, with time and record as differences from the entry before.
//!
//! # Postings
//! For each participant and each kind of end, a posting names the blocks that have such transfers.
//! The key is the participant, the end and the key of the block. [`EVERYONE`] names all blocks. The
//! value has the lowest and the highest amount per currency, so that a query for an amount skips
//! the other blocks.
//!
//! Costs: 27 to 34 bytes per entry; a posting takes 21 bytes and some 7 for its value.

use alloc::vec::Vec;

use ledger::field::{Field, FieldError, Form, Reader, VarInt};
use ledger::{
    Amount, Currency, FinalTransfer, LogIndex, Outcome, ParticipantIndex, ResponseEnd, Stamp,
    TransferId,
};

/// Version of a block.
const BLOCK_VERSION: u8 = 1;
/// The participant of postings that name all blocks.
pub const EVERYONE: ParticipantIndex = ParticipantIndex(u32::MAX);
/// Key of a block.
pub type BlockKey = [u8; 16];
/// Key of a posting.
pub type PostingKey = [u8; 21];

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransferEnd {
    /// Committed.
    Committed = 1,
    /// The prepare was refused.
    Refused = 2,
    /// Aborted by the payee, or for its response.
    Aborted = 3,
    /// The deadline passed.
    Expired = 4,
}

impl TransferEnd {
    /// All ends.
    pub const ALL: [Self; 4] = [Self::Committed, Self::Refused, Self::Aborted, Self::Expired];

    /// The end of an outcome.
    #[must_use]
    pub fn of(outcome: Outcome) -> Self {
        if [Outcome::Committed, Outcome::Accepted].contains(&outcome) {
            Self::Committed
        } else if outcome == Outcome::Expired {
            Self::Expired
        } else if ResponseEnd::of(outcome).is_some() {
            Self::Aborted
        } else {
            Self::Refused
        }
    }
}

/// The place of a transfer in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransferPlace {
    /// When it last changed its state.
    pub at: Stamp,
    /// The record of that change.
    pub record: LogIndex,
    /// The transfer.
    pub id: TransferId,
}

/// A transfer in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferEntry {
    /// Its place.
    pub place: TransferPlace,
    /// The payer; `None` if it is not registered.
    pub payer: Option<ParticipantIndex>,
    /// The payee; `None` if it is not registered.
    pub payee: Option<ParticipantIndex>,
    /// The amount.
    pub amount: Amount,
    /// The currency.
    pub currency: Currency,
    /// The outcome that ended it.
    pub outcome: Outcome,
}

impl TransferEntry {
    /// The entry of the first version of a row. Movements of funds and bulk transfers have none.
    #[must_use]
    pub fn of(row: &FinalTransfer) -> Option<Self> {
        if row.id.is_bulk() || row.payee == Some(ParticipantIndex::HUB) {
            return None;
        }
        let FinalTransfer { id, payer, payee, amount, currency, outcome, .. } = *row;
        let place = TransferPlace { at: row.completed, record: row.changed, id };
        Some(Self { place, payer, payee, amount, currency, outcome })
    }

    /// How it ended.
    #[must_use]
    pub fn end(&self) -> TransferEnd {
        TransferEnd::of(self.outcome)
    }

    /// Key of the block that begins with this entry.
    #[must_use]
    pub fn block_key(&self) -> BlockKey {
        block_key(self.place.at, self.place.record)
    }
}

/// Key of the block that begins at a time and a record.
#[must_use]
pub fn block_key(at: Stamp, record: LogIndex) -> BlockKey {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&at.0.to_be_bytes());
    key[8..].copy_from_slice(&record.0.to_be_bytes());
    key
}

/// Time and record of a block's first entry.
#[must_use]
pub fn block_begin(key: &BlockKey) -> (Stamp, LogIndex) {
    let number = u128::from_be_bytes(*key);
    (Stamp((number >> 64) as u64), LogIndex(number as u64))
}

/// Key of the posting of a block.
#[must_use]
pub fn posting_key(whose: ParticipantIndex, end: TransferEnd, block: &BlockKey) -> PostingKey {
    let mut key = [0; 21];
    key[..4].copy_from_slice(&whose.0.to_be_bytes());
    key[4] = end as u8;
    key[5..].copy_from_slice(block);
    key
}

/// The block that a posting names.
///
/// # Errors
/// [`FieldError`] for a key of another length.
pub fn block_of_posting(key: &[u8]) -> Result<BlockKey, FieldError> {
    let whole: &PostingKey = key.try_into().map_err(|_| FieldError::Value)?;
    let block = whole.last_chunk().expect("a posting's key ends with a block's key");
    Ok(*block)
}

/// Value of a block: entries in order.
pub fn write_block(entries: &[TransferEntry], out: &mut Vec<u8>) {
    out.clear();
    out.push(BLOCK_VERSION);
    let (mut at, mut record) = (0, 0);
    for entry in entries {
        let TransferEntry { place, payer, payee, amount, currency, outcome } = entry;
        write_number(place.at.0 - at, out);
        write_number(place.record.0 - record, out);
        (at, record) = (place.at.0, place.record.0);
        place.id.write(out);
        write_party(*payer, out);
        write_party(*payee, out);
        VarInt::write(amount, out);
        currency.write(out);
        outcome.write(out);
    }
}

/// Reads the entries of a block.
///
/// # Errors
/// [`FieldError`] if the value was not written by this version.
pub fn read_block(stored: &[u8]) -> Result<Vec<TransferEntry>, FieldError> {
    let mut reader = Reader(stored);
    if reader.value::<u8>()? != BLOCK_VERSION {
        return Err(FieldError::Value);
    }
    let mut entries = Vec::with_capacity(stored.len() / 27);
    let (mut at, mut record) = (0_u64, 0_u64);
    while !reader.0.is_empty() {
        at = at.checked_add(read_number(&mut reader)?).ok_or(FieldError::Value)?;
        record = record.checked_add(read_number(&mut reader)?).ok_or(FieldError::Value)?;
        let id = reader.value()?;
        entries.push(TransferEntry {
            place: TransferPlace { at: Stamp(at), record: LogIndex(record), id },
            payer: read_party(&mut reader)?,
            payee: read_party(&mut reader)?,
            amount: <VarInt as Form<Amount>>::read(&mut reader)?,
            currency: reader.value()?,
            outcome: reader.value()?,
        });
    }
    Ok(entries)
}

/// The lowest and the highest amount in a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmountRange {
    /// The currency.
    pub currency: Currency,
    /// The lowest amount.
    pub lowest: Amount,
    /// The highest amount.
    pub highest: Amount,
}

/// Adds a transfer to the ranges of a posting.
pub fn add_amount(ranges: &mut Vec<AmountRange>, entry: &TransferEntry) {
    let TransferEntry { amount, currency, .. } = *entry;
    match ranges.iter_mut().find(|range| range.currency == currency) {
        Some(range) => {
            range.lowest = range.lowest.min(amount);
            range.highest = range.highest.max(amount);
        }
        None => ranges.push(AmountRange { currency, lowest: amount, highest: amount }),
    }
}

/// Value of a posting.
pub fn write_posting(ranges: &[AmountRange], out: &mut Vec<u8>) {
    out.clear();
    for AmountRange { currency, lowest, highest } in ranges {
        currency.write(out);
        VarInt::write(lowest, out);
        VarInt::write(highest, out);
    }
}

/// Reads the value of a posting.
///
/// # Errors
/// [`FieldError`] if the value was not written by this version.
pub fn read_posting(stored: &[u8]) -> Result<Vec<AmountRange>, FieldError> {
    let mut reader = Reader(stored);
    let mut ranges = Vec::with_capacity(1);
    while !reader.0.is_empty() {
        ranges.push(AmountRange {
            currency: reader.value()?,
            lowest: <VarInt as Form<Amount>>::read(&mut reader)?,
            highest: <VarInt as Form<Amount>>::read(&mut reader)?,
        });
    }
    Ok(ranges)
}

fn write_number(number: u64, out: &mut Vec<u8>) {
    <VarInt as Form<u64>>::write(&number, out);
}

fn read_number(reader: &mut Reader<'_>) -> Result<u64, FieldError> {
    <VarInt as Form<u64>>::read(reader)
}

/// A party as its number plus one; 0 without a party.
fn write_party(party: Option<ParticipantIndex>, out: &mut Vec<u8>) {
    write_number(party.map_or(0, |index| u64::from(index.0) + 1), out);
}

fn read_party(reader: &mut Reader<'_>) -> Result<Option<ParticipantIndex>, FieldError> {
    match read_number(reader)? {
        0 => Ok(None),
        number => match u32::try_from(number - 1) {
            Ok(index) => Ok(Some(ParticipantIndex(index))),
            Err(_) => Err(FieldError::Value),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u8, outcome: Outcome) -> TransferEntry {
        let mut id = [0; 17];
        id[16] = number;
        TransferEntry {
            place: TransferPlace {
                at: Stamp(1_777_000_000_000_000 + u64::from(number) * 700),
                record: LogIndex(90_000 + u64::from(number)),
                id: TransferId::from_bytes(id).expect("the form of a UUID"),
            },
            payer: Some(ParticipantIndex(u32::from(number))),
            payee: (number != 3).then_some(ParticipantIndex(u32::MAX)),
            amount: Amount::from_units(i128::from(number) * 12_345_678),
            currency: Currency::parse("KES").expect("a currency"),
            outcome,
        }
    }

    #[test]
    fn blocks_are_read_as_written() {
        let outcomes = [Outcome::Committed, Outcome::Expired, Outcome::PrepareCapExceeded];
        let entries: Vec<_> =
            (1..=200).map(|number| entry(number, outcomes[usize::from(number % 3)])).collect();
        let mut stored = Vec::new();
        write_block(&entries, &mut stored);
        assert_eq!(read_block(&stored), Ok(entries.clone()));
        assert!(stored.len() < 40 * entries.len(), "{} bytes", stored.len());
        for len in 0..stored.len() {
            let cut = read_block(&stored[..len]);
            assert!(cut.is_err() || cut.is_ok_and(|cut| entries.starts_with(&cut)), "{len}");
        }
        assert_eq!(read_block(&[9]), Err(FieldError::Value));
    }

    #[test]
    fn keys_are_in_order_of_time() {
        let keys = [(5, 9), (6, 1), (6, 300), (256, 2)]
            .map(|(at, record)| block_key(Stamp(at), LogIndex(record)));
        assert!(keys.is_sorted());
        assert_eq!(block_begin(&keys[2]), (Stamp(6), LogIndex(300)));
        let posting = posting_key(EVERYONE, TransferEnd::Refused, &keys[3]);
        assert_eq!(block_of_posting(&posting), Ok(keys[3]));
        assert_eq!(block_of_posting(&posting[1..]), Err(FieldError::Value));
    }

    #[test]
    fn postings_have_the_range_of_amounts() {
        let mut ranges = Vec::new();
        for number in [7, 2, 9] {
            add_amount(&mut ranges, &entry(number, Outcome::Committed));
        }
        let mut stored = Vec::new();
        write_posting(&ranges, &mut stored);
        assert_eq!(read_posting(&stored), Ok(ranges.clone()));
        let range = ranges[0];
        assert_eq!(
            (range.lowest, range.highest),
            (entry(2, Outcome::Committed).amount, entry(9, Outcome::Committed).amount)
        );
        assert!(read_posting(&stored[1..]).is_err());
    }

    #[test]
    fn ends_follow_from_outcomes() {
        for (outcome, expected) in [
            (Outcome::Committed, TransferEnd::Committed),
            (Outcome::Expired, TransferEnd::Expired),
            (Outcome::Aborted, TransferEnd::Aborted),
            (Outcome::FulfilmentInvalid, TransferEnd::Aborted),
            (Outcome::PrepareCapExceeded, TransferEnd::Refused),
        ] {
            assert_eq!(TransferEnd::of(outcome), expected, "{outcome:?}");
        }
    }
}
