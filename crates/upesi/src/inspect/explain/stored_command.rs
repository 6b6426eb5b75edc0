//! The command of a record.

use std::fmt::Display;

use ledger::Command;
use ports::{LogError, OwnedRecord};

/// The command of a record.
///
/// # Errors
/// [`LogError::Damaged`] if it cannot be read.
pub(crate) fn command_of(owned: &OwnedRecord) -> Result<Command, LogError> {
    record::command::read_fields(owned.kind, owned.version, &owned.fields)
        .map_err(|error| damaged(owned, &error))
}

/// A record that cannot be read, and why.
pub(crate) fn damaged(owned: &OwnedRecord, reason: &dyn Display) -> LogError {
    let place = format!("record {}", owned.log_index.0);
    LogError::Damaged { place, reason: reason.to_string() }
}
