//! Reading and writing of little-endian fields, bounded and without panics on any input.

use alloc::string::String;
use alloc::vec::Vec;

use ledger::Amount;

/// What is wrong with stored fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// The fields end too early.
    Short,
    /// Bytes follow the last field.
    Long,
    /// A field holds a value that this version never writes.
    Value,
}

impl core::fmt::Display for FieldError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Short => "the record's fields end too early",
            Self::Long => "bytes follow the record's last field",
            Self::Value => "a field holds a value that this version never writes",
        })
    }
}

impl core::error::Error for FieldError {}

/// Appends fields to a buffer.
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn i128(&mut self, value: i128) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.0.extend_from_slice(value);
    }

    /// Up to 255 bytes of text.
    pub(crate) fn short(&mut self, value: &str) {
        let len = u8::try_from(value.len()).expect("a short text has at most 255 bytes");
        self.u8(len);
        self.bytes(value.as_bytes());
    }

    /// Up to 65,535 bytes of text.
    pub(crate) fn long(&mut self, value: &str) {
        let len = u16::try_from(value.len()).expect("a long text has at most 65,535 bytes");
        self.u16(len);
        self.bytes(value.as_bytes());
    }
}

/// Takes fields from a slice.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], FieldError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(FieldError::Short)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], FieldError> {
        Ok(self.take(N)?.try_into().expect("exactly N bytes were taken"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, FieldError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn flag(&mut self) -> Result<bool, FieldError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(FieldError::Value),
        }
    }

    pub(crate) fn u16(&mut self) -> Result<u16, FieldError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FieldError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FieldError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// An amount of less than `end` units, on either side of zero.
    pub(crate) fn amount(&mut self, end: i128) -> Result<Amount, FieldError> {
        let units = i128::from_le_bytes(self.array()?);
        let bounded = -end < units && units < end;
        bounded.then_some(Amount::from_units(units)).ok_or(FieldError::Value)
    }

    pub(crate) fn short(&mut self) -> Result<&'a str, FieldError> {
        let len = self.u8()?;
        self.text(usize::from(len))
    }

    pub(crate) fn long(&mut self) -> Result<String, FieldError> {
        let len = self.u16()?;
        self.text(usize::from(len)).map(String::from)
    }

    pub(crate) fn end(self) -> Result<(), FieldError> {
        if self.0.is_empty() { Ok(()) } else { Err(FieldError::Long) }
    }

    fn text(&mut self, len: usize) -> Result<&'a str, FieldError> {
        core::str::from_utf8(self.take(len)?).map_err(|_| FieldError::Value)
    }
}
