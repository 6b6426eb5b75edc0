//! Deliberate bugs, which the simulator must find.
//!
//! They are part of the production code, each guarded by [`is_planted`]. It is `false` at compile
//! time unless this crate is built with the feature `planted-bugs`. Only `simulation` enables that
//! feature, and `upesi` does not compile with it, see [`ENABLED`].

use core::fmt;
#[cfg(feature = "planted-bugs")]
use core::sync::atomic::{AtomicU8, Ordering};

/// Whether bugs can be planted in this build. The product asserts at compile time that they cannot.
pub const ENABLED: bool = cfg!(feature = "planted-bugs");

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A batch is acknowledged before it is synced.
    AcknowledgeBeforeSync = 1,
    /// An expiry ends its transfer but does not return the payer's position.
    ExpiryKeepsPosition = 2,
    /// A fulfil moves the payee's position twice.
    FulfilTwice = 3,
    /// The newest owed notice is not sent again after a restart.
    RestartForgetsNotice = 4,
    /// The first prepare of a payer in a batch adds liquidity for the second, instead of using it.
    BatchAddsRoom = 5,
    /// A replay reads the newest version of a cold row, even if a later record wrote it.
    ReplayReadsFuture = 6,
}

/// All bugs.
pub const ALL: [Bug; 6] = [
    Bug::AcknowledgeBeforeSync,
    Bug::ExpiryKeepsPosition,
    Bug::FulfilTwice,
    Bug::RestartForgetsNotice,
    Bug::BatchAddsRoom,
    Bug::ReplayReadsFuture,
];

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AcknowledgeBeforeSync => "acknowledged before it was synced",
            Self::ExpiryKeepsPosition => "an expiry does not give the position back",
            Self::FulfilTwice => "a fulfil is applied twice",
            Self::RestartForgetsNotice => "a restart drops an entry of the outbox",
            Self::BatchAddsRoom => "within a batch room is added instead of subtracted",
            Self::ReplayReadsFuture => "a cold row is read from the future at replay",
        })
    }
}

#[cfg(feature = "planted-bugs")]
static PLANTED: AtomicU8 = AtomicU8::new(0);

/// Plants a bug in this process, or removes it.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(bug.map_or(0, |bug| bug as u8), Ordering::Relaxed);
}

/// Whether the bug is planted.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn is_planted(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as u8
}

/// Whether the bug is planted: never.
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
pub const fn is_planted(_: Bug) -> bool {
    false
}
