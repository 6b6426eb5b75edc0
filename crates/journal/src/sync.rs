//! What the writer of a log and its readers share things by: locks and atomics of std. The test of
//! that hand-over (`handovers.rs`, feature `shuttle`) puts those of shuttle in their place, which
//! try one order of steps after the other; nothing else is built with that feature.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, PoisonError, RwLock, atomic};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, PoisonError, RwLock, atomic};
