//! Which rules a program knows. Rules decide from the record on with which an operator activates
//! them ([`crate::Change::Activate`]), never by themselves: so programs that know different ones
//! decide alike until then.

/// The newest rules of this code, and those of every new log.
pub const RULES_VERSION: u32 = 1;

/// The newest rules that this program decides by.
#[cfg(not(feature = "rehearsed-rules"))]
#[must_use]
pub const fn rules_known() -> u32 {
    RULES_VERSION
}

#[cfg(feature = "rehearsed-rules")]
pub use rehearsed::{claim_rules, rules_known};

/// A program that takes itself for a later one.
#[cfg(feature = "rehearsed-rules")]
mod rehearsed {
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::RULES_VERSION;

    static KNOWN: AtomicU32 = AtomicU32::new(RULES_VERSION);

    /// The newest rules that this program decides by, or says it does.
    #[must_use]
    pub fn rules_known() -> u32 {
        KNOWN.load(Ordering::Relaxed)
    }

    /// Has this program take itself for a later one, whose rules decide as the newest of this code
    /// do. It is said once, before there is any state; it cannot be taken back.
    pub fn claim_rules(version: u32) {
        KNOWN.fetch_max(version, Ordering::Relaxed);
    }
}
