//! What the writing thread is handed its work by: std's locks, signals and threads. The test of the
//! hand-over (`shuttle_tests.rs`, feature `shuttle`) puts those of shuttle in their place, which try
//! one order of steps after the other; nothing else is built with that feature.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, atomic},
    thread,
};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, atomic},
    thread,
};
