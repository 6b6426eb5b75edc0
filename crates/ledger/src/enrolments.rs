//! Enrolments: requests of participants for certificates, and the issued certificates.
//!
//! The kernel stores requests and certificates as bytes; the admin API verifies and signs them. An
//! enrolment is named by the record that began it. It is open until a certificate is recorded or it
//! is rejected.
//!
//! Costs: a scan of the enrolments per request. Bounds: [`ENROLMENTS_MAX`] in all, of which a
//! participant has [`ENROLMENTS_OF_PARTICIPANT_MAX`], at most [`ENROLMENTS_OPEN_MAX`] of them open.
//! The oldest ended enrolments are removed to make room.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::field::{Bytes, Optional, stored};
use crate::ids::{FspName, LogIndex, Stamp};

/// Longest certificate signing request, in bytes. One with a key of RSA with 8,192 bits takes about
/// 2,200.
pub const CSR_BYTES_MAX: usize = 4_096;
/// Longest certificate with its chain, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 16_384;
/// Maximum number of enrolments.
pub const ENROLMENTS_MAX: usize = 10_000;
/// Maximum number of enrolments of a participant.
pub const ENROLMENTS_OF_PARTICIPANT_MAX: usize = 8;
/// Maximum number of open enrolments of a participant.
pub const ENROLMENTS_OPEN_MAX: usize = 4;

stored! {
    /// A request of a participant for a certificate.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Enrolment {
        /// The record that began it.
        pub id: LogIndex,
        /// The participant.
        pub name: FspName,
        /// The certificate signing request, in DER.
        pub csr: Vec<u8> as Bytes<CSR_BYTES_MAX>,
        /// When it began.
        pub began: Stamp,
        /// How it ended.
        pub end: Option<EnrolmentEnd>,
    }
}

stored! {
    /// The end of an enrolment.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct EnrolmentEnd {
        /// The certificate, then those of authorities below the root, in DER; `None` if the
        /// enrolment was rejected.
        pub certificate: Option<Vec<u8>> as Optional<Bytes<CERTIFICATE_BYTES_MAX>>,
        /// When it ended.
        pub at: Stamp,
        /// The record that ended it.
        pub record: LogIndex,
    }
}

/// The enrolments, by the record that began each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enrolments {
    pub(crate) rows: BTreeMap<LogIndex, Enrolment>,
}

impl Enrolments {
    /// The enrolments, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Enrolment> {
        self.rows.values()
    }

    /// The enrolments of a participant, oldest first.
    pub fn of(&self, name: FspName) -> impl Iterator<Item = &Enrolment> {
        self.iter().filter(move |row| row.name == name)
    }

    /// The enrolment of a participant that this record began.
    #[must_use]
    pub fn get(&self, name: &FspName, id: LogIndex) -> Option<&Enrolment> {
        self.rows.get(&id).filter(|row| row.name == *name)
    }

    /// Removes an ended enrolment if there is no room for one more. Returns false if all are open.
    pub(crate) fn make_room(&mut self, name: FspName) -> bool {
        let is_ended = |row: &&Enrolment| row.end.is_some();
        let oldest = if ENROLMENTS_OF_PARTICIPANT_MAX <= self.of(name).count() {
            self.of(name).find(is_ended)
        } else if ENROLMENTS_MAX <= self.rows.len() {
            self.iter().find(is_ended)
        } else {
            return true;
        };
        let oldest = oldest.map(|row| row.id);
        oldest.and_then(|id| self.rows.remove(&id)).is_some()
    }
}
