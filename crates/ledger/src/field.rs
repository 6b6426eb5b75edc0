//! The stored form of values, derived from declarations.
//!
//! `stored!` declares a struct: its fields with their bounds, which give its stored form.
//! `numbered!` declares an enum of numbers. Records, snapshots and the state hash use the same
//! bytes. A renamed field changes none of them, a changed form changes all of them.
//!
//! Integers are little-endian. Bounds are asserted on writing, because an unreadable value must not
//! reach the log, and checked on reading.
//!
//! Costs: only the value itself is allocated. A reader never trusts a count for an allocation.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::description::Description;
use crate::ids::{
    ACCOUNTS_MAX, AccountId, AlertId, ContentId, Digest, FeeRuleId, FspName, LogIndex, NoticeId,
    OperatorTokenId, OracleId, ParticipantIndex, ProposalId, SettlementId, Stamp, TransferId,
    WindowId,
};
use crate::money::{Amount, Currency};

/// Bound of balances, in ten-thousandths on either side of zero: no sum of all balances leaves the
/// range of the ledger.
const BALANCE_END: i128 = 1 << 100;
/// Bound of amounts in commands, in ten-thousandths: 18 digits before the point and 4 after it
/// (hub-semantics 1.6). No sum of commands leaves the range of balances.
const AMOUNT_END: i128 = 10_i128.pow(22);

/// Longest short text, in bytes: names and types.
pub const SHORT: usize = 255;
/// Longest free text, in bytes.
pub const LONG: usize = 65_535;

/// The reasons why stored fields cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The fields end too early.
    #[error("the record's fields end too early")]
    Short,
    /// Bytes follow the last field.
    #[error("bytes follow the record's last field")]
    Long,
    /// A field holds a value that this version never writes.
    #[error("a field holds a value that this version never writes")]
    Value,
}

/// The parts of an invalid state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidState(pub &'static str);

/// Receives the bytes of stored values: a buffer or a hasher.
pub trait ByteSink {
    /// Appends bytes.
    fn bytes(&mut self, bytes: &[u8]);

    /// Appends one byte.
    fn byte(&mut self, byte: u8) {
        self.bytes(&[byte]);
    }
}

impl ByteSink for Vec<u8> {
    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }
}

impl ByteSink for blake3::Hasher {
    fn bytes(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

/// A buffer of fixed size, for rows that are digested.
pub(crate) struct FixedBuffer<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> FixedBuffer<N> {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const N: usize> ByteSink for FixedBuffer<N> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }
}

/// Reads stored values from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads the next `len` bytes.
    ///
    /// # Errors
    /// [`FieldError::Short`] if there are fewer.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], FieldError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(FieldError::Short)?;
        self.0 = rest;
        Ok(head)
    }

    /// Reads the next value.
    ///
    /// # Errors
    /// [`FieldError`] if the bytes are not a stored value of the type.
    pub fn value<T: Field>(&mut self) -> Result<T, FieldError> {
        T::read(self)
    }

    /// Reads the next `len` bytes as text.
    ///
    /// # Errors
    /// [`FieldError`] if there are fewer bytes, or they are not UTF-8.
    pub fn text(&mut self, len: usize) -> Result<&'a str, FieldError> {
        core::str::from_utf8(self.take(len)?).map_err(|_| FieldError::Value)
    }

    /// Checks that no bytes follow.
    ///
    /// # Errors
    /// [`FieldError::Long`] if bytes follow.
    pub fn end(self) -> Result<(), FieldError> {
        if self.0.is_empty() { Ok(()) } else { Err(FieldError::Long) }
    }
}

/// A source of choices for generated values: random numbers, or the bytes of a fuzzer.
pub trait Chooser {
    /// A number from 0 to `most`, both included.
    fn choose(&mut self, most: u64) -> u64;
}

/// A value with a stored form.
pub trait Field: Sized {
    /// Appends the stored form.
    ///
    /// # Panics
    /// If the value exceeds a bound of its declaration.
    fn write(&self, to: &mut impl ByteSink);

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`FieldError`] if the bytes were not written by [`Field::write`].
    fn read(from: &mut Reader<'_>) -> Result<Self, FieldError>;

    /// Generates a value within its bounds.
    fn generate(chooser: &mut impl Chooser) -> Self;

    /// Describes the value for readers.
    fn describe(&self) -> Description;
}

/// A row of a table: a value, or a key with its value.
pub trait Row {
    /// Appends the stored form.
    fn write_row(&self, to: &mut impl ByteSink);
}

impl<T: Field> Row for &T {
    fn write_row(&self, to: &mut impl ByteSink) {
        self.write(to);
    }
}

impl<T: Field, U: Field> Row for (&T, &U) {
    fn write_row(&self, to: &mut impl ByteSink) {
        self.0.write(to);
        self.1.write(to);
    }
}

/// A stored form of `T`, for types that do not imply a bound.
pub trait Form<T> {
    /// Like [`Field::write`].
    fn write(value: &T, to: &mut impl ByteSink);
    /// Like [`Field::read`].
    ///
    /// # Errors
    /// Like [`Field::read`].
    fn read(from: &mut Reader<'_>) -> Result<T, FieldError>;
    /// Like [`Field::generate`].
    fn generate(chooser: &mut impl Chooser) -> T;
    /// Like [`Field::describe`].
    fn describe(value: &T) -> Description;
}

/// The type's own form.
pub struct Plain;

impl<T: Field> Form<T> for Plain {
    fn write(value: &T, to: &mut impl ByteSink) {
        value.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<T, FieldError> {
        T::read(from)
    }

    fn generate(chooser: &mut impl Chooser) -> T {
        T::generate(chooser)
    }

    fn describe(value: &T) -> Description {
        value.describe()
    }
}

/// Text of at most `MAX` bytes, after its length in one byte, or in two if `MAX` needs them.
pub struct Text<const MAX: usize>;

impl<const MAX: usize> Form<String> for Text<MAX> {
    fn write(value: &String, to: &mut impl ByteSink) {
        write_text(value, MAX, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<String, FieldError> {
        let length = read_length(MAX, from)?;
        from.text(length).map(String::from)
    }

    fn generate(chooser: &mut impl Chooser) -> String {
        let length = chooser.choose(MAX.min(40) as u64);
        (0..length).map(|_| char::from(b' ' + chooser.choose(94) as u8)).collect()
    }

    fn describe(value: &String) -> Description {
        Description::Text(value.clone())
    }
}

/// At most `MAX` bytes, after their number in the form of [`Text`].
pub struct Bytes<const MAX: usize>;

impl<const MAX: usize> Form<Vec<u8>> for Bytes<MAX> {
    fn write(value: &Vec<u8>, to: &mut impl ByteSink) {
        write_length(value.len(), MAX, to);
        to.bytes(value);
    }

    fn read(from: &mut Reader<'_>) -> Result<Vec<u8>, FieldError> {
        let length = read_length(MAX, from)?;
        from.take(length).map(Vec::from)
    }

    fn generate(chooser: &mut impl Chooser) -> Vec<u8> {
        let length = chooser.choose(MAX.min(40) as u64);
        (0..length).map(|_| chooser.choose(255) as u8).collect()
    }

    fn describe(value: &Vec<u8>) -> Description {
        Description::bytes(value)
    }
}

/// At most `MAX` entries of form `F`, after their number in four bytes.
pub struct List<const MAX: usize, F = Plain>(F);

impl<const MAX: usize, T, F: Form<T>> Form<Vec<T>> for List<MAX, F> {
    fn write(value: &Vec<T>, to: &mut impl ByteSink) {
        assert!(value.len() <= MAX, "the list has at most {MAX} entries");
        (value.len() as u32).write(to);
        value.iter().for_each(|entry| F::write(entry, to));
    }

    fn read(from: &mut Reader<'_>) -> Result<Vec<T>, FieldError> {
        let count = u32::read(from)? as usize;
        if MAX < count {
            return Err(FieldError::Value);
        }
        let mut entries = Vec::with_capacity(count.min(256));
        for _ in 0..count {
            entries.push(F::read(from)?);
        }
        Ok(entries)
    }

    fn generate(chooser: &mut impl Chooser) -> Vec<T> {
        let count = chooser.choose(MAX.min(4) as u64);
        (0..count).map(|_| F::generate(chooser)).collect()
    }

    fn describe(value: &Vec<T>) -> Description {
        Description::List(value.iter().map(F::describe).collect())
    }
}

/// An optional value of form `F`, after a byte that is 1 if it is present.
pub struct Optional<F>(F);

impl<T, F: Form<T>> Form<Option<T>> for Optional<F> {
    fn write(value: &Option<T>, to: &mut impl ByteSink) {
        value.is_some().write(to);
        if let Some(value) = value {
            F::write(value, to);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Option<T>, FieldError> {
        match bool::read(from)? {
            true => F::read(from).map(Some),
            false => Ok(None),
        }
    }

    fn generate(chooser: &mut impl Chooser) -> Option<T> {
        bool::generate(chooser).then(|| F::generate(chooser))
    }

    fn describe(value: &Option<T>) -> Description {
        value.as_ref().map_or(Description::Absent, F::describe)
    }
}

/// An optional participant name. `None` is stored as an empty text.
pub struct NameOrEmpty;

impl Form<Option<FspName>> for NameOrEmpty {
    fn write(value: &Option<FspName>, to: &mut impl ByteSink) {
        write_text(value.as_ref().map_or("", FspName::as_str), SHORT, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Option<FspName>, FieldError> {
        match read_length(SHORT, from)? {
            0 => Ok(None),
            length => read_name(length, from).map(Some),
        }
    }

    fn generate(chooser: &mut impl Chooser) -> Option<FspName> {
        Option::generate(chooser)
    }

    fn describe(value: &Option<FspName>) -> Description {
        value.describe()
    }
}

/// A value at the very end of a record that older versions do not have. `None` takes no bytes, so
/// that a record without it is the same in all versions.
pub struct AtEnd;

/// Like [`AtEnd`], before a last field that is a digest or absent.
pub struct BeforeTerms;

const DIGEST_BYTES: usize = 32;

impl Form<Option<FeeRuleId>> for BeforeTerms {
    fn write(value: &Option<FeeRuleId>, to: &mut impl ByteSink) {
        AtEnd::write(value, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Option<FeeRuleId>, FieldError> {
        match from.0.len() % DIGEST_BYTES {
            0 => Ok(None),
            _ => FeeRuleId::read(from).map(Some),
        }
    }

    fn generate(chooser: &mut impl Chooser) -> Option<FeeRuleId> {
        AtEnd::generate(chooser)
    }

    fn describe(value: &Option<FeeRuleId>) -> Description {
        AtEnd::describe(value)
    }
}

impl<T: Field> Form<Option<T>> for AtEnd {
    fn write(value: &Option<T>, to: &mut impl ByteSink) {
        value.iter().for_each(|value| value.write(to));
    }

    fn read(from: &mut Reader<'_>) -> Result<Option<T>, FieldError> {
        match from.0.is_empty() {
            true => Ok(None),
            false => T::read(from).map(Some),
        }
    }

    fn generate(chooser: &mut impl Chooser) -> Option<T> {
        Option::generate(chooser)
    }

    fn describe(value: &Option<T>) -> Description {
        value.describe()
    }
}

/// A number of at most `MAX`.
pub struct AtMost<const MAX: u32>;

impl<const MAX: u32> Form<u32> for AtMost<MAX> {
    fn write(value: &u32, to: &mut impl ByteSink) {
        assert!(*value <= MAX, "{value} is more than the bound, {MAX}");
        value.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<u32, FieldError> {
        let value = u32::read(from)?;
        if MAX < value { Err(FieldError::Value) } else { Ok(value) }
    }

    fn generate(chooser: &mut impl Chooser) -> u32 {
        chooser.choose(MAX.into()) as u32
    }

    fn describe(value: &u32) -> Description {
        value.describe()
    }
}

/// A value of form `F` that authenticates an operator: readers never see it.
pub struct Secret<F>(F);

impl<T, F: Form<T>> Form<T> for Secret<F> {
    fn write(value: &T, to: &mut impl ByteSink) {
        F::write(value, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<T, FieldError> {
        F::read(from)
    }

    fn generate(chooser: &mut impl Chooser) -> T {
        F::generate(chooser)
    }

    fn describe(value: &T) -> Description {
        F::describe(value).secret()
    }
}

/// Two values, each in its own form.
pub struct Pair<F, G>(F, G);

impl<T, U, F: Form<T>, G: Form<U>> Form<(T, U)> for Pair<F, G> {
    fn write(value: &(T, U), to: &mut impl ByteSink) {
        F::write(&value.0, to);
        G::write(&value.1, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<(T, U), FieldError> {
        Ok((F::read(from)?, G::read(from)?))
    }

    fn generate(chooser: &mut impl Chooser) -> (T, U) {
        (F::generate(chooser), G::generate(chooser))
    }

    fn describe(value: &(T, U)) -> Description {
        Description::pair(F::describe(&value.0), G::describe(&value.1))
    }
}

/// An amount of either sign with at most 18 digits before the point.
pub struct BoundedAmount;

impl Form<Amount> for BoundedAmount {
    fn write(value: &Amount, to: &mut impl ByteSink) {
        write_amount(*value, AMOUNT_END, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Amount, FieldError> {
        read_amount(AMOUNT_END, from)
    }

    fn generate(chooser: &mut impl Chooser) -> Amount {
        let amount = NonNegative::generate(chooser);
        if bool::generate(chooser) { -amount } else { amount }
    }

    fn describe(value: &Amount) -> Description {
        value.describe()
    }
}

/// An amount to be moved: like [`BoundedAmount`], but never negative.
pub struct NonNegative;

impl Form<Amount> for NonNegative {
    fn write(value: &Amount, to: &mut impl ByteSink) {
        assert!(Amount::ZERO <= *value, "an amount that is moved is never negative");
        BoundedAmount::write(value, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Amount, FieldError> {
        let amount = BoundedAmount::read(from)?;
        if amount < Amount::ZERO { Err(FieldError::Value) } else { Ok(amount) }
    }

    fn generate(chooser: &mut impl Chooser) -> Amount {
        match chooser.choose(7) {
            0 => Amount::from_units(AMOUNT_END - 1),
            _ => Amount::from_units(chooser.choose(1_000_000).into()),
        }
    }

    fn describe(value: &Amount) -> Description {
        value.describe()
    }
}

/// An integer in as few bytes as possible: seven bits per byte, lowest first, with the highest bit
/// set in all but the last byte. Amounts are zigzag-encoded: 0, -1, 1, -2 and so on.
pub struct VarInt;

/// Maximum number of bytes: an encoded amount.
const COMPACT_MAX: usize = 18;

impl VarInt {
    fn write_number(mut number: u64, to: &mut impl ByteSink) {
        while 0x80 <= number {
            to.byte(number as u8 | 0x80);
            number >>= 7;
        }
        to.byte(number as u8);
    }

    fn read_number(from: &mut Reader<'_>) -> Result<u128, FieldError> {
        let mut number = 0;
        for at in 0..COMPACT_MAX {
            let byte = u8::read(from)?;
            number |= u128::from(byte & 0x7f) << (7 * at);
            match byte {
                0 if 0 < at => return Err(FieldError::Value),
                0..0x80 => return Ok(number),
                _ => {}
            }
        }
        Err(FieldError::Value)
    }

    pub(crate) fn write_signed(number: i128, to: &mut impl ByteSink) {
        let mut folded = ((number << 1) ^ (number >> 127)).cast_unsigned();
        while u128::from(u64::MAX) < folded {
            to.byte(folded as u8 | 0x80);
            folded >>= 7;
        }
        Self::write_number(folded as u64, to);
    }

    pub(crate) fn read_signed(from: &mut Reader<'_>) -> Result<i128, FieldError> {
        let folded = Self::read_number(from)?;
        Ok((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }
}

impl Form<Amount> for VarInt {
    fn write(value: &Amount, to: &mut impl ByteSink) {
        Self::write_signed(value.units(), to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Amount, FieldError> {
        let units = Self::read_signed(from)?;
        is_balance(units).then_some(Amount::from_units(units)).ok_or(FieldError::Value)
    }

    fn generate(chooser: &mut impl Chooser) -> Amount {
        Amount::generate(chooser)
    }

    fn describe(value: &Amount) -> Description {
        value.describe()
    }
}

/// Integers, and types that wrap one, with a [`VarInt`] form.
macro_rules! compact {
    ($($number:ty: $integer:ty, $from:expr, $into:expr;)*) => { $(
        impl Form<$number> for VarInt {
            fn write(value: &$number, to: &mut impl ByteSink) {
                let integer: $integer = $into(*value);
                Self::write_number(integer.into(), to);
            }

            fn read(from: &mut Reader<'_>) -> Result<$number, FieldError> {
                let number = Self::read_number(from)?;
                <$integer>::try_from(number).map($from).map_err(|_| FieldError::Value)
            }

            fn generate(chooser: &mut impl Chooser) -> $number {
                Field::generate(chooser)
            }

            fn describe(value: &$number) -> Description {
                value.describe()
            }
        }
    )* };
}
compact! {
    u32: u32, |number| number, |number| number;
    u64: u64, |number| number, |number| number;
    AccountId: u32, AccountId, |id: AccountId| id.0;
    NoticeId: u64, NoticeId, |id: NoticeId| id.0;
    LogIndex: u64, LogIndex, |log_index: LogIndex| log_index.0;
}

/// Appends text of at most `max` bytes, in the form of [`Text`].
///
/// # Panics
/// If the text is longer.
pub fn write_text(text: &str, most: usize, to: &mut impl ByteSink) {
    write_length(text.len(), most, to);
    to.bytes(text.as_bytes());
}

/// Whether this number of ten-thousandths is a valid balance.
pub(crate) const fn is_balance(units: i128) -> bool {
    -BALANCE_END < units && units < BALANCE_END
}

fn write_amount(amount: Amount, end: i128, to: &mut impl ByteSink) {
    assert!(amount.units().abs() < end, "an amount is within its bound");
    to.bytes(&amount.units().to_le_bytes());
}

fn read_amount(end: i128, from: &mut Reader<'_>) -> Result<Amount, FieldError> {
    let units = i128::from_le_bytes(<[u8; 16]>::read(from)?);
    let bounded = -end < units && units < end;
    bounded.then_some(Amount::from_units(units)).ok_or(FieldError::Value)
}

fn write_length(length: usize, most: usize, to: &mut impl ByteSink) {
    assert!(length <= most, "{length} bytes are more than the bound, {most}");
    match most {
        0..=0xff => (length as u8).write(to),
        _ => (length as u16).write(to),
    }
}

fn read_length(most: usize, from: &mut Reader<'_>) -> Result<usize, FieldError> {
    let length = match most {
        0..=0xff => usize::from(u8::read(from)?),
        _ => usize::from(u16::read(from)?),
    };
    if most < length { Err(FieldError::Value) } else { Ok(length) }
}

/// Reads a name of `length` bytes. Most names are ASCII, followed by enough bytes for a whole
/// block.
fn read_name(length: usize, from: &mut Reader<'_>) -> Result<FspName, FieldError> {
    let block = from.0.first_chunk();
    if let Some(name) = block.and_then(|block| FspName::from_ascii_block(block, length)) {
        from.0 = &from.0[length..];
        return Ok(name);
    }
    FspName::new(from.text(length)?).ok_or(FieldError::Value)
}

macro_rules! integers {
    ($($integer:ty),*) => { $(
        impl Field for $integer {
            fn write(&self, to: &mut impl ByteSink) {
                to.bytes(&self.to_le_bytes());
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
                <[u8; size_of::<Self>()]>::read(from).map(Self::from_le_bytes)
            }

            /// Usually a small number, so that generated values collide.
            fn generate(chooser: &mut impl Chooser) -> Self {
                let most = if chooser.choose(7) == 0 { Self::MAX.into() } else { 12 };
                chooser.choose(most) as Self
            }

            fn describe(&self) -> Description {
                Description::Number((*self).into())
            }
        }
    )* };
}
integers!(u8, u16, u32, u64);

/// Types that wrap one stored value.
macro_rules! wrappers {
    ($($wrapper:ident: $describe:expr),* $(,)?) => { $(
        impl Field for $wrapper {
            fn write(&self, to: &mut impl ByteSink) {
                self.0.write(to);
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
                Field::read(from).map(Self)
            }

            fn generate(chooser: &mut impl Chooser) -> Self {
                Self(Field::generate(chooser))
            }

            fn describe(&self) -> Description {
                $describe(*self)
            }
        }
    )* };
}
wrappers! {
    AccountId: |id: AccountId| id.0.describe(),
    AlertId: |id: AlertId| id.0.describe(),
    ContentId: |id: ContentId| id.0.describe(),
    Digest: Description::text,
    FeeRuleId: |id: FeeRuleId| id.0.describe(),
    LogIndex: |id: LogIndex| id.0.describe(),
    NoticeId: |id: NoticeId| id.0.describe(),
    OperatorTokenId: |id: OperatorTokenId| Description::text(format_args!("{:016x}", id.0)),
    OracleId: |id: OracleId| id.0.describe(),
    ParticipantIndex: Description::Participant,
    ProposalId: |id: ProposalId| id.0.describe(),
    SettlementId: |id: SettlementId| id.0.describe(),
    Stamp: Description::Time,
    WindowId: |id: WindowId| id.0.describe(),
}

impl<const N: usize> Field for [u8; N] {
    fn write(&self, to: &mut impl ByteSink) {
        to.bytes(self);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
        let (head, rest) = from.0.split_first_chunk().ok_or(FieldError::Short)?;
        from.0 = rest;
        Ok(*head)
    }

    fn generate(chooser: &mut impl Chooser) -> Self {
        core::array::from_fn(|_| chooser.choose(255) as u8)
    }

    fn describe(&self) -> Description {
        Description::bytes(self)
    }
}

impl Field for [u64; 4] {
    fn write(&self, to: &mut impl ByteSink) {
        self.iter().for_each(|number| number.write(to));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok([from.value()?, from.value()?, from.value()?, from.value()?])
    }

    fn generate(chooser: &mut impl Chooser) -> Self {
        core::array::from_fn(|_| Field::generate(chooser))
    }

    fn describe(&self) -> Description {
        Description::List(self.iter().map(Field::describe).collect())
    }
}

impl Field for bool {
    fn write(&self, to: &mut impl ByteSink) {
        u8::from(*self).write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
        match u8::read(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(FieldError::Value),
        }
    }

    fn generate(chooser: &mut impl Chooser) -> Self {
        chooser.choose(1) == 1
    }

    fn describe(&self) -> Description {
        Description::Flag(*self)
    }
}

impl<T: Field> Field for Option<T> {
    fn write(&self, to: &mut impl ByteSink) {
        Optional::<Plain>::write(self, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
        Optional::<Plain>::read(from)
    }

    fn generate(chooser: &mut impl Chooser) -> Self {
        Optional::<Plain>::generate(chooser)
    }

    fn describe(&self) -> Description {
        Optional::<Plain>::describe(self)
    }
}

impl<T: Field, U: Field> Field for (T, U) {
    fn write(&self, to: &mut impl ByteSink) {
        Pair::<Plain, Plain>::write(self, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
        Pair::<Plain, Plain>::read(from)
    }

    fn generate(chooser: &mut impl Chooser) -> Self {
        Pair::<Plain, Plain>::generate(chooser)
    }

    fn describe(&self) -> Description {
        Pair::<Plain, Plain>::describe(self)
    }
}

impl<T: Field> Field for Box<T> {
    fn write(&self, to: &mut impl ByteSink) {
        (**self).write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
        T::read(from).map(Self::new)
    }

    fn generate(chooser: &mut impl Chooser) -> Self {
        Self::new(T::generate(chooser))
    }

    fn describe(&self) -> Description {
        (**self).describe()
    }
}

/// A balance; amounts of commands have narrower forms, [`BoundedAmount`] and [`NonNegative`].
impl Field for Amount {
    fn write(&self, to: &mut impl ByteSink) {
        write_amount(*self, BALANCE_END, to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
        read_amount(BALANCE_END, from)
    }

    fn generate(chooser: &mut impl Chooser) -> Self {
        BoundedAmount::generate(chooser)
    }

    fn describe(&self) -> Description {
        Description::text(self)
    }
}

impl Field for Currency {
    fn write(&self, to: &mut impl ByteSink) {
        to.bytes(&self.to_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
        Self::from_bytes(from.value()?).ok_or(FieldError::Value)
    }

    fn generate(chooser: &mut impl Chooser) -> Self {
        let codes = ["USD", "KES", "EUR", "XOF", "JPY", "TZS"];
        let code = codes[chooser.choose(codes.len() as u64 - 1) as usize];
        Self::parse(code).expect("a code of three letters")
    }

    fn describe(&self) -> Description {
        Description::text(self)
    }
}

impl Field for FspName {
    fn write(&self, to: &mut impl ByteSink) {
        (self.as_bytes().len() as u8).write(to);
        to.bytes(self.as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
        let length = usize::from(u8::read(from)?);
        read_name(length, from)
    }

    fn generate(chooser: &mut impl Chooser) -> Self {
        let names = ["dfsp1", "dfsp2", "DFSP2", "Hub", "a", "abcdefghijklmnopqrstuvwxyz012345"];
        let name = names[chooser.choose(names.len() as u64 - 1) as usize];
        Self::new(name).expect("a name of 1 to 32 bytes")
    }

    fn describe(&self) -> Description {
        Description::text(self)
    }
}

impl Field for TransferId {
    fn write(&self, to: &mut impl ByteSink) {
        to.bytes(&self.to_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
        Self::from_bytes(Field::read(from)?).ok_or(FieldError::Value)
    }

    /// Usually one of a few, so that generated commands refer to each other.
    fn generate(chooser: &mut impl Chooser) -> Self {
        let mut bytes = [0; 17];
        bytes[0] = [0, 4, 5, 6, 7][chooser.choose(4) as usize];
        bytes[16] = u8::generate(chooser);
        Self::from_bytes(bytes).expect("the first byte names a form")
    }

    fn describe(&self) -> Description {
        Description::text(self)
    }
}

/// The id of a bulk transfer.
pub struct BulkId;

impl Form<TransferId> for BulkId {
    fn write(value: &TransferId, to: &mut impl ByteSink) {
        assert!(value.is_bulk(), "{value} is the id of a bulk transfer");
        value.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<TransferId, FieldError> {
        TransferId::read(from).and_then(|id| id.is_bulk().then_some(id).ok_or(FieldError::Value))
    }

    fn generate(chooser: &mut impl Chooser) -> TransferId {
        TransferId::generate(chooser).as_bulk()
    }

    fn describe(value: &TransferId) -> Description {
        value.describe()
    }
}

/// Lists within a row. The bound is that of the longest list, the accounts of a participant.
pub type RowList<F = Plain> = List<ACCOUNTS_MAX, F>;

/// The form of a field: the declared one, or the type's own.
macro_rules! form {
    () => {
        $crate::field::Plain
    };
    ($form:ty) => {
        $form
    };
}

/// Declares a struct with a stored form: its fields, in order. `as` names the form of a field with
/// a type that does not bound it.
macro_rules! stored {
    ($(
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $( $(#[$doc:meta])* $visibility:vis $field:ident: $type:ty $(as $form:ty)?, )*
        }
    )*) => { $(
        $(#[$attribute])*
        pub struct $name {
            $( $(#[$doc])* $visibility $field: $type, )*
        }

        impl $crate::field::Field for $name {
            fn write(&self, to: &mut impl $crate::field::ByteSink) {
                $( <$crate::field::form!($($form)?) as $crate::field::Form<$type>>::write(
                    &self.$field, to,
                ); )*
                let _ = to;
            }

            fn read(
                from: &mut $crate::field::Reader<'_>,
            ) -> Result<Self, $crate::field::FieldError> {
                let _ = &from;
                Ok(Self { $(
                    $field: <$crate::field::form!($($form)?) as $crate::field::Form<$type>>::read(
                        from,
                    )?,
                )* })
            }

            fn generate(chooser: &mut impl $crate::field::Chooser) -> Self {
                let _ = &chooser;
                Self { $(
                    $field: <$crate::field::form!($($form)?) as $crate::field::Form<$type>>
                        ::generate(chooser),
                )* }
            }

            fn describe(&self) -> $crate::Description {
                $crate::Description::Fields(::alloc::vec![ $( (
                    stringify!($field),
                    <$crate::field::form!($($form)?) as $crate::field::Form<$type>>::describe(
                        &self.$field,
                    ),
                ), )* ])
            }
        }
    )* };
}

/// Declares an enum that is stored as a number. A number is never reused for another value.
macro_rules! numbered {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident: $integer:ident {
            $( $(#[$doc:meta])* $value:ident = $number:literal, )*
        }
    ) => {
        $(#[$attribute])*
        #[repr($integer)]
        pub enum $name {
            $( $(#[$doc])* $value = $number, )*
        }

        impl $name {
            /// All values, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];

            /// The number that is stored for this value.
            #[must_use]
            pub const fn number(self) -> $integer {
                self as $integer
            }

            /// Reads a stored number; `None` if this version does not know it.
            #[must_use]
            pub const fn from_number(number: $integer) -> Option<Self> {
                match number {
                    $( $number => Some(Self::$value), )*
                    _ => None,
                }
            }
        }

        impl $crate::field::Field for $name {
            fn write(&self, to: &mut impl $crate::field::ByteSink) {
                self.number().write(to);
            }

            fn read(
                from: &mut $crate::field::Reader<'_>,
            ) -> Result<Self, $crate::field::FieldError> {
                let number = <$integer as $crate::field::Field>::read(from)?;
                Self::from_number(number).ok_or($crate::field::FieldError::Value)
            }

            fn generate(chooser: &mut impl $crate::field::Chooser) -> Self {
                Self::ALL[chooser.choose(Self::ALL.len() as u64 - 1) as usize]
            }

            fn describe(&self) -> $crate::Description {
                $crate::Description::text(match self {
                    $( Self::$value => stringify!($value), )*
                })
            }
        }
    };
}

/// Declares an enum of choices, each with a number and fields. A number is never reused for another
/// choice. Fields are declared as in [`stored!`].
macro_rules! choices {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident: $integer:ident {
            $(
                $(#[$about:meta])*
                $number:literal $choice:ident
                $( ( $payload:ty $(as $payload_form:ty)? ) )?
                $( { $( $(#[$doc:meta])* $field:ident: $type:ty $(as $form:ty)?, )* } )?,
            )*
        }
    ) => {
        $(#[$attribute])*
        pub enum $name {
            $(
                $(#[$about])*
                $choice
                $( ( $payload ) )?
                $( { $( $(#[$doc])* $field: $type, )* } )?,
            )*
        }

        impl $name {
            /// Name and number of each choice, in order of declaration.
            pub const TABLE: &'static [(&'static str, $integer)] =
                &[ $( (stringify!($choice), $number), )* ];

            /// The stored number of the choice.
            #[must_use]
            pub const fn number(&self) -> $integer {
                match self {
                    $( Self::$choice { .. } => $number, )*
                }
            }

            /// Appends the fields, without the number.
            ///
            /// # Panics
            /// If a field exceeds the bound of its declaration.
            pub fn write_fields(&self, to: &mut impl $crate::field::ByteSink) {
                match self {
                    $( Self::$choice {
                        $( 0: $crate::field::choices!(@bind payload $payload), )?
                        $( $( $field, )* )?
                    } => {
                        $( <$crate::field::form!($($payload_form)?)
                            as $crate::field::Form<$payload>>::write(payload, to); )?
                        $( $( <$crate::field::form!($($form)?)
                            as $crate::field::Form<$type>>::write($field, to); )* )?
                    } )*
                }
            }

            /// Reads the fields of the choice with this number.
            ///
            /// # Errors
            /// `FieldError` if there is no such choice, or the bytes were not written by
            /// [`Self::write_fields`].
            pub fn read_fields(
                number: $integer,
                from: &mut $crate::field::Reader<'_>,
            ) -> Result<Self, $crate::field::FieldError> {
                Ok(match number {
                    $( $number => Self::$choice {
                        $( 0: <$crate::field::form!($($payload_form)?)
                            as $crate::field::Form<$payload>>::read(from)?, )?
                        $( $( $field: <$crate::field::form!($($form)?)
                            as $crate::field::Form<$type>>::read(from)?, )* )?
                    }, )*
                    _ => return Err($crate::field::FieldError::Value),
                })
            }

            /// Generates the fields of the choice with this number.
            ///
            /// # Panics
            /// If there is no such choice.
            pub fn generate_fields(
                number: $integer,
                chooser: &mut impl $crate::field::Chooser,
            ) -> Self {
                match number {
                    $( $number => Self::$choice {
                        $( 0: <$crate::field::form!($($payload_form)?)
                            as $crate::field::Form<$payload>>::generate(chooser), )?
                        $( $( $field: <$crate::field::form!($($form)?)
                            as $crate::field::Form<$type>>::generate(chooser), )* )?
                    }, )*
                    number => panic!("{number} is no number of a choice"),
                }
            }
        }

        impl $crate::field::Field for $name {
            fn write(&self, to: &mut impl $crate::field::ByteSink) {
                self.number().write(to);
                self.write_fields(to);
            }

            fn read(
                from: &mut $crate::field::Reader<'_>,
            ) -> Result<Self, $crate::field::FieldError> {
                let number = <$integer as $crate::field::Field>::read(from)?;
                Self::read_fields(number, from)
            }

            fn generate(chooser: &mut impl $crate::field::Chooser) -> Self {
                let numbers = [ $( $number, )* ];
                let number = numbers[chooser.choose(numbers.len() as u64 - 1) as usize];
                Self::generate_fields(number, chooser)
            }

            fn describe(&self) -> $crate::Description {
                match self {
                    $( Self::$choice {
                        $( 0: $crate::field::choices!(@bind payload $payload), )?
                        $( $( $field, )* )?
                    } => $crate::Description::Fields(::alloc::vec![ (
                        stringify!($choice),
                        $crate::Description::Fields(::alloc::vec![
                            $( (
                                "value",
                                <$crate::field::form!($($payload_form)?)
                                    as $crate::field::Form<$payload>>::describe(payload),
                            ), )?
                            $( $( (
                                stringify!($field),
                                <$crate::field::form!($($form)?)
                                    as $crate::field::Form<$type>>::describe($field),
                            ), )* )?
                        ]),
                    ) ]), )*
                }
            }
        }
    };
    (@bind $name:ident $payload:ty) => { $name };
}

pub(crate) use {choices, form, numbered, stored};
