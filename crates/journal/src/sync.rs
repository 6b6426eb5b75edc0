//! Re-exports the locks and atomics of `std::sync`, or those of shuttle in the concurrency tests
//! (`shuttle_tests.rs`, feature `shuttle`), which try different thread schedules.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, PoisonError, RwLock, atomic};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, PoisonError, RwLock, atomic};
