//! Re-exports the locks, signals and atomics of `std`, or those of shuttle in the concurrency
//! tests (`shuttle_tests.rs`, feature `shuttle`), which try different thread schedules.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, atomic};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, atomic};
