//! The model of enrolments, as `docs/security/enrolment.md` has them.

use ledger::{
    BeginEnrolment, ChangeResult, ENROLMENTS_MAX, ENROLMENTS_OF_PARTICIPANT_MAX,
    ENROLMENTS_OPEN_MAX, EndEnrolment, FspName, LogIndex, Outcome, State,
};

use super::operators::OPERATOR_RULES;
use super::{Model, Predict};

/// A request of a participant, and its end: a certificate or a rejection.
#[derive(Clone, Debug)]
struct KnownEnrolment {
    id: u64,
    name: FspName,
    csr: Vec<u8>,
    end: Option<Option<Vec<u8>>>,
}

/// The enrolments that the hub has, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Enrolments(Vec<KnownEnrolment>);

impl Enrolments {
    pub(super) fn compare(&self, state: &State) {
        let actual: Vec<_> = state.enrolments().iter().collect();
        assert_eq!(actual.len(), self.0.len(), "enrolments: {actual:?}, not {self:?}");
        for (actual, known) in actual.iter().zip(&self.0) {
            assert_eq!((actual.id.0, actual.name), (known.id, known.name));
            let end = actual.end.as_ref().map(|end| end.certificate.clone());
            assert_eq!((&actual.csr, end), (&known.csr, known.end.clone()), "{}", known.id);
        }
    }

    /// Removes the oldest ended enrolment, of one participant if it is named.
    fn forget(&mut self, name: Option<FspName>) -> bool {
        let fits = |it: &KnownEnrolment| name.is_none_or(|name| it.name == name);
        let oldest = self.0.iter().position(|it| it.end.is_some() && fits(it));
        oldest.map(|at| self.0.remove(at)).is_some()
    }
}

impl Predict for BeginEnrolment {
    fn predict(&self, model: &mut Model) -> Outcome {
        if model.scheme.participant_number(&self.name).is_none() {
            return Outcome::ParticipantNotFound;
        }
        let known = &mut model.enrolments;
        let own: Vec<_> = known.0.iter().filter(|it| it.name == self.name).collect();
        let open: Vec<_> = own.iter().filter(|it| it.end.is_none()).collect();
        if let Some(same) = open.iter().find(|it| it.csr == self.csr).map(|it| it.id) {
            model.add_result(ChangeResult::Enrolment(LogIndex(same)));
            return Outcome::Accepted;
        }
        if open.len() >= ENROLMENTS_OPEN_MAX {
            return Outcome::EnrolmentsFull;
        }
        let fits = match own.len() < ENROLMENTS_OF_PARTICIPANT_MAX {
            true => known.0.len() < ENROLMENTS_MAX || known.forget(None),
            false => known.forget(Some(self.name)),
        };
        if model.rules < OPERATOR_RULES || !fits {
            return Outcome::RegistryFull;
        }
        let (id, csr) = (model.log_index, self.csr.clone());
        known.0.push(KnownEnrolment { id, name: self.name, csr, end: None });
        model.add_result(ChangeResult::Enrolment(LogIndex(id)));
        Outcome::Accepted
    }
}

impl Predict for EndEnrolment {
    fn predict(&self, model: &mut Model) -> Outcome {
        let mut known = model.enrolments.0.iter_mut();
        let found = known.find(|it| (it.id, it.name) == (self.enrolment.0, self.name));
        let Some(found) = found else { return Outcome::EnrolmentNotFound };
        if found.end.is_some() {
            return Outcome::EnrolmentEnded;
        }
        found.end = Some(self.certificate.clone());
        Outcome::Accepted
    }
}
