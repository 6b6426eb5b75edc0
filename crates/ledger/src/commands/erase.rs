//! `/erasures`: contents of records that are erased.

use crate::change::Erase;
use crate::command::Command;
use crate::context::{Context, Decide};
use crate::erasures::{ERASURES_MAX, Erasure, ErasureForm};
use crate::ids::LogIndex;
use crate::outcome::AdminOutcome;
use crate::rules::OPERATORS;

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
    /// Whether it erases contents of records of this kind.
    #[must_use]
    pub const fn selects(self, kind: u16) -> bool {
        let is_registration = Erase::is_registration(kind);
        let is_selected = match self {
            Self::Transfer | Self::Before | Self::Party => true,
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

    /// Whether the contents of a record of this kind are erased.
    #[must_use]
    pub fn erases(&self, record: LogIndex, kind: u16) -> bool {
        self.form.selects(kind) && self.covers(record)
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
    use alloc::string::String;
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
        let record = LogIndex(5);
        for kind in [Command::CHANGE_PARTIES, Command::ADMINISTER] {
            let selected = [&payments, &registrations].map(|it| it.erases(record, kind));
            assert_eq!(selected, [false, true], "{kind}");
        }
        let prepare = Command::TABLE.iter().find(|(name, _)| *name == "Prepare");
        let kind = prepare.expect("it is a command").1;
        assert_eq!([&payments, &registrations].map(|it| it.erases(record, kind)), [true, false]);
        assert!(!registrations.erases(LogIndex(10), Command::ADMINISTER), "outside of the range");
        let name = Command::TABLE.iter().find(|(_, number)| *number == Command::ADMINISTER);
        assert_eq!(name.map(|(name, _)| *name), Some("Administer"));
    }
}
