//! `/erasures`: contents of records that are erased.

use alloc::format;
use alloc::string::String;

use crate::change::Erase;
use crate::command::Command;
use crate::context::{Context, Decide};
use crate::erasures::{ERASURES_MAX, Erasure, ErasureForm};
use crate::ids::{FspName, LogIndex};
use crate::outcome::AdminOutcome;
use crate::rules::OPERATORS;

/// Between the participant and the time in a subject.
const SUBJECT_SEPARATOR: &str = " before ";

impl Decide for Erase {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let (record, state) = (context.log_index, &mut *context.state);
        if !self.is_valid_at(record) {
            return AdminOutcome::ErasureInvalid;
        }
        // Earlier rules know no erasures.
        if state.rules_version < OPERATORS || ERASURES_MAX <= state.erasures.rows.len() {
            return AdminOutcome::RegistryFull;
        }
        let at = state.stamp;
        state.erasures.rows.push(Erasure { record, at });
        AdminOutcome::Accepted
    }
}

impl ErasureForm {
    /// Whether it may erase contents of records of this kind.
    #[must_use]
    pub const fn selects(self, kind: u16) -> bool {
        let is_registration = Erase::is_registration(kind);
        let is_selected = match self {
            Self::Transfer | Self::Before | Self::Party | Self::Participant => true,
            Self::RetainedPayments => !is_registration,
            Self::RetainedRegistrations => is_registration,
        };
        is_selected && Erase::is_erasable(kind)
    }
}

impl Erase {
    /// Whether a record is in one of the ranges.
    #[must_use]
    pub fn covers(&self, record: LogIndex) -> bool {
        let after = self.records.partition_point(|range| range.first <= record);
        let before = after.checked_sub(1).map(|at| self.records[at]);
        before.is_some_and(|range| range.contains(record))
    }

    /// The subject of an erasure of a participant's contents: its name and a time.
    #[must_use]
    pub fn participant_subject(name: &FspName, before: &str) -> String {
        format!("{name}{SUBJECT_SEPARATOR}{before}")
    }

    /// The participant whose contents are erased; `None` for every other form.
    #[must_use]
    pub fn participant(&self) -> Option<FspName> {
        if self.form != ErasureForm::Participant {
            return None;
        }
        let (name, _) = self.subject.split_once(SUBJECT_SEPARATOR)?;
        FspName::new(name)
    }

    /// The time before which a participant's contents are erased, as text; `None` for every other
    /// form.
    #[must_use]
    pub fn participant_time(&self) -> Option<&str> {
        let (_, before) = self.subject.split_once(SUBJECT_SEPARATOR)?;
        (self.form == ErasureForm::Participant).then_some(before)
    }

    /// Whether the contents of a record of this kind are erased. For an erasure of a participant's
    /// contents, `is_from` decides whether they are this participant's
    /// ([`Command::is_from_participant`]).
    #[must_use]
    pub fn erases(
        &self,
        record: LogIndex,
        kind: u16,
        is_from: impl FnOnce(&FspName) -> bool,
    ) -> bool {
        let is_covered = self.form.selects(kind) && self.covers(record);
        is_covered
            && match self.form {
                ErasureForm::Participant => self.participant().is_some_and(|it| is_from(&it)),
                ErasureForm::Transfer
                | ErasureForm::Before
                | ErasureForm::Party
                | ErasureForm::RetainedPayments
                | ErasureForm::RetainedRegistrations => true,
            }
    }

    /// Whether contents of records of this kind are about registrations of parties. Only those of
    /// operators' changes that name parties have contents.
    #[must_use]
    pub const fn is_registration(kind: u16) -> bool {
        matches!(kind, Command::CHANGE_PARTIES | Command::ADMINISTER)
    }

    /// Whether contents of records of this kind can be erased. Records of finished deliveries
    /// describe attempts and name no persons.
    #[must_use]
    pub const fn is_erasable(kind: u16) -> bool {
        kind != Command::FINISH_DELIVERIES
    }

    /// Whether the ranges are in order, apart, and end before a record.
    #[must_use]
    pub fn is_valid_at(&self, record: LogIndex) -> bool {
        let apart = self.records.is_sorted_by(|one, next| one.last < next.first);
        let each = self.records.iter().all(|it| 0 < it.first.0 && it.first <= it.last);
        let before = self.records.last().is_some_and(|last| last.last < record);
        apart && each && before
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::erasures::RecordRange;

    #[test]
    fn erasures_by_age_select_registrations_or_payments() {
        let records = vec![RecordRange { first: LogIndex(1), last: LogIndex(9) }];
        let of_form = |form| {
            let (subject, records) = (String::new(), records.clone());
            Erase { form, subject, records, contents: 9 }
        };
        let payments = of_form(ErasureForm::RetainedPayments);
        let registrations = of_form(ErasureForm::RetainedRegistrations);
        let erases =
            |it: &Erase, record, kind| it.erases(LogIndex(record), kind, |_| panic!("no sender"));
        for kind in [Command::CHANGE_PARTIES, Command::ADMINISTER] {
            assert_eq!([&payments, &registrations].map(|it| erases(it, 5, kind)), [false, true]);
        }
        let prepare = Command::TABLE.iter().find(|(name, _)| *name == "Prepare");
        let kind = prepare.expect("it is a command").1;
        assert_eq!([&payments, &registrations].map(|it| erases(it, 5, kind)), [true, false]);
        assert!(!erases(&registrations, 10, Command::ADMINISTER), "outside of the range");
        let name = Command::TABLE.iter().find(|(_, number)| *number == Command::ADMINISTER);
        assert_eq!(name.map(|(name, _)| *name), Some("Administer"));
    }

    #[test]
    fn erasures_of_a_participant_select_by_its_name() {
        let payer = FspName::new("payerfsp").expect("a name");
        let subject = Erase::participant_subject(&payer, "2026-01-01T00:00:00.000Z");
        assert_eq!(subject, "payerfsp before 2026-01-01T00:00:00.000Z");
        let records = vec![RecordRange { first: LogIndex(2), last: LogIndex(9) }];
        let erase = Erase { form: ErasureForm::Participant, subject, records, contents: 2 };
        let (prepare, deliveries) = (3, Command::FINISH_DELIVERIES);
        assert_eq!(erase.participant(), Some(payer));
        assert!(erase.erases(LogIndex(2), prepare, |name| *name == payer));
        assert!(!erase.erases(LogIndex(2), prepare, |_| false), "of another participant");
        assert!(!erase.erases(LogIndex(1), prepare, |_| true), "outside of the range");
        assert!(!erase.erases(LogIndex(2), deliveries, |_| true), "no content of a message");
        let nameless = Erase { subject: "payerfsp".into(), ..erase.clone() };
        assert!(!nameless.erases(LogIndex(2), prepare, |_| true), "no participant");
        let other = Erase { form: ErasureForm::Before, ..erase };
        assert_eq!(other.participant(), None);
    }
}
