//! The stored form of commands: the fields that the kernel reads. They are never erased.
//!
//! Each kind has a number, and all kinds have one version. The forms themselves are those of
//! [`ledger::field`], derived from the declarations of the commands.

use alloc::vec::Vec;

use ledger::field::{FieldError, Reader};
use ledger::{Command, FspName};

#[cfg(test)]
mod tests;

/// Version of the fields that this program writes, for every kind.
pub const FIELDS_VERSION: u16 = 1;

/// Appends the fields of a command to `out`.
///
/// # Panics
/// If a field exceeds the bound of its declaration. The edge refuses such a command, because an
/// unreadable value must not reach the log.
pub fn write_fields(command: &Command, out: &mut Vec<u8>) {
    command.write_fields(out);
}

/// Whether the contents of a record are a participant's ([`Command::is_from_participant`]). Those
/// of unreadable fields are not.
#[must_use]
pub fn is_from_participant(
    (kind, version, fields): (u16, u16, &[u8]),
    participant: &FspName,
) -> bool {
    let command = read_fields(kind, version, fields);
    command.is_ok_and(|command| command.is_from_participant(participant))
}

/// The participant that the contents of a record belong to, if they belong to only one
/// ([`Command::contents_owner`]). Those of unreadable fields have no owner.
#[must_use]
pub fn contents_owner((kind, version, fields): (u16, u16, &[u8])) -> Option<FspName> {
    read_fields(kind, version, fields).ok()?.contents_owner().copied()
}

/// Reads the fields of a record of this kind and version.
///
/// # Errors
/// [`FieldError`] if a supported version did not write them.
pub fn read_fields(kind: u16, version: u16, fields: &[u8]) -> Result<Command, FieldError> {
    if version != FIELDS_VERSION {
        return Err(FieldError::Value);
    }
    let mut reader = Reader(fields);
    let command = Command::read_fields(kind, &mut reader)?;
    reader.end()?;
    Ok(command)
}
