//! What the state machines need of the world, as traits with their whole contract.
//!
//! Each port has a production implementation in a driver crate and a deterministic one for the
//! simulator; both pass the same tests. Nothing here does any input or output, but [`tell`].
#![warn(missing_docs)]

mod clock;
pub mod contract;
mod disk;
mod log;
mod observed_log;
mod store;
mod told;
mod topic;

pub use clock::{Clock, Now};
pub use disk::{Disk, DiskError, DiskFile, byte_of};
pub use log::{Log, LogError, OwnedPayload, OwnedRecord, RecordReader, Rejection, Stop, Visitor};
pub use observed_log::{LogObserver, ObservedLog};
pub use store::{
    Cold, ColdStore, Mark, PartyChange, PartyEffect, PartyRow, Portion, StoreError, Until,
};
pub use told::{tell, tell_on_output};
pub use topic::{Arrival, Topic};
