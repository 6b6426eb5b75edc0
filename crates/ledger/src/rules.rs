//! The versions of the decision rules that this program knows. An operator activates rules
//! ([`crate::Change::Activate`]), and they decide from that record on. Until then, programs of
//! different versions decide alike.

/// The newest version of the rules, used by every new log.
pub const RULES_VERSION: u32 = 5;
/// The first version with settlement and alerts: commits are added to the sums of the open window,
/// or settled at once by a gross model.
pub(crate) const SETTLEMENT: u32 = 2;
/// The first version with interchange fees. A settlement model of INTERCHANGE_FEE opens its
/// accounts for all participants, and new participants get the accounts of the models of every
/// account type.
pub(crate) const FEES: u32 = 3;
/// The first version with operators, their roles and their tokens.
pub(crate) const OPERATORS: u32 = 4;
/// The first version whose programs know several entries of one identifier
/// ([`crate::PartyRule`]). Before, changes of the party directory are recorded without a rule.
pub const PARTY_RULES: u32 = 4;
/// The first version whose programs know hashes in the place of identifiers of parties
/// ([`crate::is_hashed_identifier`]). Before, changes of the party directory are recorded with
/// identifiers in clear.
pub const HASHED_PARTIES: u32 = 5;

/// The newest version of the rules that this program supports.
#[cfg(not(feature = "rehearsed-rules"))]
#[must_use]
pub const fn rules_known() -> u32 {
    RULES_VERSION
}

#[cfg(feature = "rehearsed-rules")]
pub use rehearsed::{claim_rules, rules_known};

/// Lets a program claim a later version, for rehearsals of an upgrade.
#[cfg(feature = "rehearsed-rules")]
mod rehearsed {
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::RULES_VERSION;

    static KNOWN: AtomicU32 = AtomicU32::new(RULES_VERSION);

    /// The newest version of the rules that this program supports or claims to support.
    #[must_use]
    pub fn rules_known() -> u32 {
        KNOWN.load(Ordering::Relaxed)
    }

    /// Makes this program claim a later version, which decides like the newest rules of this code.
    /// Call it once, before any state exists; it cannot be undone.
    pub fn claim_rules(version: u32) {
        KNOWN.fetch_max(version, Ordering::Relaxed);
    }
}
