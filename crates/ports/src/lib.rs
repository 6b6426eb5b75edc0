//! The traits through which the state machines use the outside world, with their contracts.
//!
//! Each port has a production implementation in a driver crate and a deterministic one for the
//! simulator; both pass the same tests. Nothing here does I/O.
#![warn(missing_docs)]

mod cipher;
mod clock;
pub mod contract;
mod disk;
mod log;
mod observed_log;
mod store;
mod topic;
mod transfer_query;

pub use cipher::{Cipher, CipherError, KeyId, OptionalCipher, Sealer, open_sealed};
pub use clock::{Clock, ClockReading};
pub use disk::{Disk, DiskError, DiskFile, byte_of};
pub use log::{
    Log, LogError, OwnedPayload, OwnedRecord, RecordReader, Rejection, StopReading, Visitor,
};
pub use observed_log::{LogObserver, ObservedLog};
pub use record::transfer_index::{TransferEnd, TransferEntry, TransferPlace};
pub use store::{
    ColdReader, ColdStore, PARTY_ENTRIES_MAX, PartyChange, PartyEffect, PartyEntry, PartyRow,
    StoreError, StoreMark, WaitFor, WriteBatch,
};
pub use topic::{Arrival, Topic};
pub use transfer_query::{
    BLOCKS_READ_MAX, POSTINGS_READ_MAX, TransferFilter, TransferPage, TransferQuery,
};
