//! The versioned binary form of everything that is stored or replicated.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod attempts;
pub mod bundle;
pub mod checksum;
pub mod cold_rows;
pub mod command;
pub mod decision;
pub mod frame;
mod little_endian;
pub mod party_names;
pub mod snapshot;
pub mod topic_message;
mod torn_write;
pub mod transfer_index;

pub use ledger::field::FieldError;
