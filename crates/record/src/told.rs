//! The stored form of what is told of decisions ([`ledger::Decided`]): for whoever asks later why
//! something was decided, so that nothing needs to be decided again.
//!
//! One decision after the other, each: the transfer (17 bytes); the record and the outcome; a byte
//! of flags (1 numbers, 2 and 4 the sides, 8 and 16 the hub's accounts that were moved); the
//! numbers; how many notices became owed, and each of them. Whole numbers take seven bits a byte,
//! the lowest first, signed ones folded (0, -1, 1, -2 ...); of a balance stand the value before
//! and the change.
//!
//! Where deliveries ended stands apart, in groups of 256 numbers of notices: for each, the lowest
//! byte of its number and its record, counted from the one that the group's key names.
//!
//! Values begin with a byte for their version. Costs: about 120 bytes and 0.2 microseconds for a
//! decision with all numbers, 3 bytes for a delivery.

use alloc::vec::Vec;

use ledger::{
    AccountId, AccountKind, Amount, Currency, Decided, FspName, Held, Listener, NoticeId, Numbers,
    Outcome, Owed, Position, Side, TransferId,
};

use ledger::field::{FieldError, Reader};

/// Version of both kinds of values.
const VALUE_VERSION: u8 = 1;

const HAS_NUMBERS: u8 = 1;
const SIDES: [u8; 2] = [2, 4];
const HUB: [u8; 2] = [8, 16];

const ACTIVE: u8 = 1;
const ACCOUNT_ACTIVE: u8 = 2;
const HAS_CAP: u8 = 4;

/// The most bytes that are gathered: the fields of a decision up to what became owed take 450 at
/// most, those of a notice 50.
const GATHERED: usize = 512;

/// A recipient that is none of the sides: its name follows.
const OTHER: u8 = 2;

/// A decision read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The decision.
    pub decided: Decided,
    /// What it made the hub owe.
    pub owed: Vec<Owed>,
}

/// What was told, in its stored form, in the order of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    bytes: Vec<u8>,
    decisions: Vec<Entry>,
    /// Notices whose delivery ended, and the record that says so.
    pub ends: Vec<(NoticeId, Position)>,
    /// Empty between two decisions.
    fields: Gathered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    transfer: TransferId,
    position: Position,
    /// Where its bytes end.
    end: usize,
}

impl Telling {
    /// How many decisions are told.
    #[must_use]
    pub fn len(&self) -> usize {
        self.decisions.len()
    }

    /// Whether nothing is told at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty() && self.ends.is_empty()
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.decisions.clear();
        self.ends.clear();
    }

    /// Takes over what follows; nothing is left of it there.
    pub fn append(&mut self, next: &mut Self) {
        let before = self.bytes.len();
        self.bytes.append(&mut next.bytes);
        let moved =
            next.decisions.drain(..).map(|entry| Entry { end: before + entry.end, ..entry });
        self.decisions.extend(moved);
        self.ends.append(&mut next.ends);
    }

    /// Each decision: the transfer, the record, and its stored form.
    pub fn decisions(&self) -> impl Iterator<Item = (TransferId, Position, &[u8])> {
        let mut start = 0;
        self.decisions.iter().map(move |entry| {
            let bytes = &self.bytes[start..entry.end];
            start = entry.end;
            (entry.transfer, entry.position, bytes)
        })
    }
}

impl Listener for Telling {
    fn decided(&mut self, decided: &Decided, owed: impl Iterator<Item = Owed>) {
        self.fields.decision(decided, owed, &mut self.bytes);
        let Decided { transfer, position, .. } = *decided;
        self.decisions.push(Entry { transfer, position, end: self.bytes.len() });
    }

    fn delivered(&mut self, notice: NoticeId, position: Position) {
        self.ends.push((notice, position));
    }
}

/// Begins a value that holds decisions.
pub fn begin(out: &mut Vec<u8>) {
    out.clear();
    out.push(VALUE_VERSION);
}

/// Reads a value that holds decisions.
///
/// # Errors
/// [`FieldError`] when it is not what this version writes.
pub fn read_all(stored: &[u8]) -> Result<Vec<Told>, FieldError> {
    let mut reader = Reader(stored);
    check_version(&mut reader)?;
    let mut all = Vec::new();
    while !reader.0.is_empty() {
        all.push(read(&mut reader)?);
    }
    Ok(all)
}

/// Reads a decision that stands alone, as [`Telling::decisions`] gives it.
///
/// # Errors
/// [`FieldError`] when it is not what this version writes.
pub fn read_one(stored: &[u8]) -> Result<Told, FieldError> {
    let mut reader = Reader(stored);
    let told = read(&mut reader)?;
    reader.end()?;
    Ok(told)
}

/// The group of a notice: what is stored of deliveries stands under it.
#[must_use]
pub const fn group_of(notice: NoticeId) -> u64 {
    notice.0 >> 8
}

/// Writes where deliveries of one group ended, from the record `base` on.
pub fn write_ends(base: Position, ends: &[(NoticeId, Position)], out: &mut Vec<u8>) {
    begin(out);
    let mut fields = Gathered::default();
    for (notice, position) in ends {
        fields.byte(notice.0 as u8);
        fields.number(position.0 - base.0);
        fields.move_to(out);
    }
}

/// Where the deliveries of a notice ended, as one value has it.
///
/// # Errors
/// [`FieldError`] when `stored` is not what this version writes.
pub fn ends_of(
    notice: NoticeId,
    base: Position,
    stored: &[u8],
) -> Result<Vec<Position>, FieldError> {
    let mut reader = Reader(stored);
    check_version(&mut reader)?;
    let mut ends = Vec::new();
    while !reader.0.is_empty() {
        let low = reader.value::<u8>()?;
        let end = base.0.checked_add(small(&mut reader)?).ok_or(FieldError::Value)?;
        if low == notice.0 as u8 {
            ends.push(Position(end));
        }
    }
    Ok(ends)
}

/// Appends a decision.
pub fn write(decided: &Decided, owed: impl Iterator<Item = Owed>, out: &mut Vec<u8>) {
    Gathered::default().decision(decided, owed, out);
}

fn write_numbers(numbers: &Numbers, out: &mut Gathered) {
    let Numbers { currency, sides, hub, hub_name, lane_capacity } = numbers;
    let moved = |at: usize| hub[at].filter(|(_, held)| held.before != held.after);
    let moved = [moved(0), moved(1)];
    let has = [
        (true, HAS_NUMBERS),
        (sides[0].is_some(), SIDES[0]),
        (sides[1].is_some(), SIDES[1]),
        (moved[0].is_some(), HUB[0]),
        (moved[1].is_some(), HUB[1]),
    ];
    out.flags(&has);
    out.bytes(&currency.to_bytes());
    out.number(*lane_capacity);
    out.name(hub_name);
    sides.iter().flatten().for_each(|side| write_side(side, out));
    for (kind, held) in moved.iter().flatten() {
        out.byte(kind.number());
        write_held(held, out);
    }
}

fn write_side(side: &Side, out: &mut Gathered) {
    out.name(&side.name);
    out.flags(&[
        (side.active, ACTIVE),
        (side.account_active, ACCOUNT_ACTIVE),
        (side.cap.is_some(), HAS_CAP),
    ]);
    write_held(&side.position, out);
    write_held(&side.settlement, out);
    side.cap.into_iter().for_each(|cap| out.signed(cap.units()));
    out.number(side.owed);
}

fn write_held(held: &Held, out: &mut Gathered) {
    out.number(held.account.0);
    out.signed(held.before.units());
    out.signed(held.after.units() - held.before.units());
}

fn write_owed(owed: &Owed, numbers: Option<&Numbers>, out: &mut Gathered) {
    out.number(owed.notice.0);
    out.byte(owed.kind as u8);
    out.number(owed.outcome.number());
    let named = |side: &Option<Side>| side.is_some_and(|side| side.name == owed.recipient);
    match numbers.and_then(|numbers| numbers.sides.iter().position(named)) {
        Some(at) => out.byte(at as u8),
        None => {
            out.byte(OTHER);
            out.name(&owed.recipient);
        }
    }
}

/// Fields of a decision on their way to a buffer. There are dozens of them, of a few bytes each:
/// one by one they would all ask the buffer for room.
#[derive(Clone, Debug)]
struct Gathered {
    bytes: [u8; GATHERED],
    length: usize,
}

impl Default for Gathered {
    fn default() -> Self {
        Self { bytes: [0; GATHERED], length: 0 }
    }
}

/// What is gathered counts, and not what stood there before.
impl PartialEq for Gathered {
    fn eq(&self, other: &Self) -> bool {
        self.bytes[..self.length] == other.bytes[..other.length]
    }
}

impl Eq for Gathered {}

impl Gathered {
    /// Moves a whole decision to `out`.
    fn decision(&mut self, decided: &Decided, owed: impl Iterator<Item = Owed>, out: &mut Vec<u8>) {
        self.bytes(&decided.transfer.to_bytes());
        self.number(decided.position.0);
        self.number(decided.outcome.number());
        match &decided.numbers {
            None => self.byte(0),
            Some(numbers) => write_numbers(numbers, self),
        }
        let count_at = out.len() + self.length;
        self.byte(0);
        self.move_to(out);
        for owed in owed {
            out[count_at] =
                out[count_at].checked_add(1).expect("one decision makes a handful of notices owed");
            write_owed(&owed, decided.numbers.as_ref(), self);
            self.move_to(out);
        }
    }

    fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn flags(&mut self, flags: &[(bool, u8)]) {
        self.byte(flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum());
    }

    fn name(&mut self, name: &FspName) {
        let bytes = name.as_bytes();
        self.byte(bytes.len() as u8);
        self.bytes(bytes);
    }

    fn number(&mut self, value: impl Into<u64>) {
        // Each byte would wait for the length that the one before has written.
        let (mut rest, mut at) = (value.into(), self.length);
        while 0x80 <= rest {
            self.bytes[at] = rest as u8 | 0x80;
            at += 1;
            rest >>= 7;
        }
        self.bytes[at] = rest as u8;
        self.length = at + 1;
    }

    fn signed(&mut self, value: i128) {
        let mut high = ((value << 1) ^ (value >> 127)).cast_unsigned();
        while u128::from(u64::MAX) < high {
            self.byte(high as u8 | 0x80);
            high >>= 7;
        }
        self.number(high as u64);
    }

    fn move_to(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.length]);
        self.length = 0;
    }
}

fn read(reader: &mut Reader<'_>) -> Result<Told, FieldError> {
    let transfer = reader.value::<TransferId>()?;
    let position = Position(small(reader)?);
    let outcome = read_outcome(reader)?;
    let flags = reader.value::<u8>()?;
    let numbers = match flags {
        0 => None,
        _ => Some(read_numbers(flags, reader)?),
    };
    let count = reader.value::<u8>()?;
    let owed: Result<Vec<_>, _> = (0..count).map(|_| read_owed(numbers.as_ref(), reader)).collect();
    Ok(Told { decided: Decided { transfer, position, outcome, numbers }, owed: owed? })
}

fn read_numbers(flags: u8, reader: &mut Reader<'_>) -> Result<Numbers, FieldError> {
    let has = |flag| flags & flag != 0;
    if !has(HAS_NUMBERS) || HAS_NUMBERS + SIDES[0] + SIDES[1] + HUB[0] + HUB[1] < flags {
        return Err(FieldError::Value);
    }
    let letters = reader.value::<[u8; 3]>()?;
    let currency = core::str::from_utf8(&letters).ok().and_then(Currency::parse);
    let currency = currency.ok_or(FieldError::Value)?;
    let lane_capacity = u32::try_from(small(reader)?).map_err(|_| FieldError::Value)?;
    let hub_name = reader.value::<FspName>()?;
    let (mut sides, mut hub) = ([None; 2], [None; 2]);
    for (side, flag) in sides.iter_mut().zip(SIDES) {
        if has(flag) {
            *side = Some(read_side(reader)?);
        }
    }
    for (account, flag) in hub.iter_mut().zip(HUB) {
        if has(flag) {
            let kind = reader.value::<AccountKind>()?;
            *account = Some((kind, read_held(reader)?));
        }
    }
    Ok(Numbers { currency, sides, hub, hub_name, lane_capacity })
}

fn read_side(reader: &mut Reader<'_>) -> Result<Side, FieldError> {
    let name = reader.value::<FspName>()?;
    let flags = reader.value::<u8>()?;
    if ACTIVE + ACCOUNT_ACTIVE + HAS_CAP < flags {
        return Err(FieldError::Value);
    }
    let has = |flag| flags & flag != 0;
    let (position, settlement) = (read_held(reader)?, read_held(reader)?);
    let cap = match has(HAS_CAP) {
        true => Some(Amount::from_units(read_signed(reader)?)),
        false => None,
    };
    let owed = u32::try_from(small(reader)?).map_err(|_| FieldError::Value)?;
    let (active, account_active) = (has(ACTIVE), has(ACCOUNT_ACTIVE));
    Ok(Side { name, active, account_active, position, settlement, cap, owed })
}

fn read_held(reader: &mut Reader<'_>) -> Result<Held, FieldError> {
    let account = AccountId(u32::try_from(small(reader)?).map_err(|_| FieldError::Value)?);
    let (before, change) = (read_signed(reader)?, read_signed(reader)?);
    let after = before.checked_add(change).ok_or(FieldError::Value)?;
    Ok(Held { account, before: Amount::from_units(before), after: Amount::from_units(after) })
}

fn read_owed(numbers: Option<&Numbers>, reader: &mut Reader<'_>) -> Result<Owed, FieldError> {
    let notice = NoticeId(small(reader)?);
    let kind = reader.value()?;
    let outcome = read_outcome(reader)?;
    let recipient = match reader.value::<u8>()? {
        OTHER => Some(reader.value()?),
        at => {
            let side = numbers.and_then(|numbers| *numbers.sides.get(usize::from(at))?);
            side.map(|side| side.name)
        }
    };
    Ok(Owed { notice, recipient: recipient.ok_or(FieldError::Value)?, kind, outcome })
}

fn read_outcome(reader: &mut Reader<'_>) -> Result<Outcome, FieldError> {
    let number = u16::try_from(small(reader)?).map_err(|_| FieldError::Value)?;
    Outcome::from_number(number).ok_or(FieldError::Value)
}

fn check_version(reader: &mut Reader<'_>) -> Result<(), FieldError> {
    match reader.value::<u8>()? {
        VALUE_VERSION => Ok(()),
        _ => Err(FieldError::Value),
    }
}

fn read_number(reader: &mut Reader<'_>) -> Result<u128, FieldError> {
    let mut value = 0;
    for shift in (0..126).step_by(7) {
        let byte = reader.value::<u8>()?;
        value |= u128::from(byte & 0x7f) << shift;
        match byte {
            0 if 0 < shift => return Err(FieldError::Value),
            0..0x80 => return Ok(value),
            _ => {}
        }
    }
    // Amounts are far smaller.
    Err(FieldError::Value)
}

fn small(reader: &mut Reader<'_>) -> Result<u64, FieldError> {
    u64::try_from(read_number(reader)?).map_err(|_| FieldError::Value)
}

fn read_signed(reader: &mut Reader<'_>) -> Result<i128, FieldError> {
    let folded = read_number(reader)?;
    Ok((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
}

#[cfg(test)]
mod tests;
