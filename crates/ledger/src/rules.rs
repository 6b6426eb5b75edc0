//! Which rules a program knows. Rules decide from the record on with which an operator activates
//! them ([`crate::Change::Activate`]), never by themselves: so programs that know different ones
//! decide alike until then.

use core::sync::atomic::{AtomicU32, Ordering};

/// The newest rules of this code, and those of every new log.
pub const RULES_VERSION: u32 = 1;

static KNOWN: AtomicU32 = AtomicU32::new(RULES_VERSION);

/// The newest rules that this program decides by.
#[must_use]
pub fn rules_known() -> u32 {
    KNOWN.load(Ordering::Relaxed)
}

/// Has this program take itself for a later one, whose rules decide as the newest of this code do:
/// for proofs of upgrades. It is said once, before there is any state; it cannot be taken back.
pub fn claim_rules(version: u32) {
    KNOWN.fetch_max(version, Ordering::Relaxed);
}
