//! The versioned binary form of everything that is stored or replicated.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bundle;
pub mod checksum;
pub mod cold;
pub mod command;
mod fixed;
pub mod frame;
pub mod message;
pub mod snapshot;
pub mod told;
pub mod tried;
mod zeros;

pub use ledger::field::FieldError;
