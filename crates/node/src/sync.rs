//! What threads hand work and words over by: locks, signals and atomics of std. The tests of the
//! hand-overs (`shuttle_tests.rs`, feature `shuttle`) put those of shuttle in their place, which try
//! one order of steps after the other; nothing else is built with that feature.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, atomic};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, atomic};
