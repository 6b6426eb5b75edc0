//! Erasures of the contents of records: headers and bodies of recorded messages.
//!
//! The kernel decides without contents, so an erasure changes no decision. The state keeps the
//! records that ordered erasures, because the log alone does not show which orders were approved.
//! Outside the kernel, a background job rewrites the log.
//!
//! Costs: a row per erasure. Bounds: [`ERASURES_MAX`], [`ERASED_RANGES_MAX`].

use alloc::vec::Vec;

use crate::field::{numbered, stored};
use crate::ids::{LogIndex, Stamp};

/// Maximum number of erasures of a log.
pub const ERASURES_MAX: usize = 100_000;
/// Maximum number of ranges of records in one erasure.
pub const ERASED_RANGES_MAX: usize = 10_000;

numbered! {
    /// How the records of an erasure were selected.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ErasureForm: u8 {
        /// The messages of one transfer.
        Transfer = 1,
        /// The messages that were recorded before a time.
        Before = 2,
        /// The messages that name a party, with the other messages of their payments.
        Party = 3,
        /// By a setting: the messages of payments that were recorded before a time.
        RetainedPayments = 4,
        /// By a setting: the registrations of parties that were recorded before a time.
        RetainedRegistrations = 5,
        /// The messages that a participant sent, and operators' registrations of its parties,
        /// that were recorded before a time.
        Participant = 6,
    }
}

impl ErasureForm {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transfer => "TRANSFER",
            Self::Before => "BEFORE",
            Self::Party => "PARTY",
            Self::RetainedPayments => "RETAINED_PAYMENTS",
            Self::RetainedRegistrations => "RETAINED_REGISTRATIONS",
            Self::Participant => "PARTICIPANT",
        }
    }

    /// Whether the switch orders it by its settings. No second person approves such an erasure:
    /// the admin API does not offer it.
    #[must_use]
    pub const fn is_retention(self) -> bool {
        matches!(self, Self::RetainedPayments | Self::RetainedRegistrations)
    }
}

stored! {
    /// Consecutive records.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RecordRange {
        /// The first one.
        pub first: LogIndex,
        /// The last one.
        pub last: LogIndex,
    }
}

impl RecordRange {
    /// Whether a record is in the range.
    #[must_use]
    pub fn contains(self, record: LogIndex) -> bool {
        (self.first..=self.last).contains(&record)
    }
}

stored! {
    /// An erasure that was ordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Erasure {
        /// The record that ordered it.
        pub record: LogIndex,
        /// When it was ordered.
        pub at: Stamp,
    }
}

/// The erasures, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erasures {
    pub(crate) rows: Vec<Erasure>,
}

impl Erasures {
    /// The erasures, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Erasure> {
        self.rows.iter()
    }

    /// Number of erasures.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.rows.len()
    }
}
