//! `/api/dfsps/{dfspId}/enrollments/inbound`: certificates of participants.

use crate::change::{BeginEnrolment, EndEnrolment};
use crate::context::{Context, Decide};
use crate::enrolments::{ENROLMENTS_OPEN_MAX, Enrolment, EnrolmentEnd};
use crate::outcome::AdminOutcome;
use crate::rules::OPERATORS;
use crate::state::ChangeResult;

/// A request that is open already is not added again.
impl Decide for BeginEnrolment {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let (id, state) = (context.log_index, &mut *context.state);
        if state.registry.find(&self.name).is_none() {
            return AdminOutcome::ParticipantNotFound;
        }
        let open = || state.enrolments.of(self.name).filter(|row| row.end.is_none());
        if let Some(same) = open().find(|row| row.csr == self.csr).map(|row| row.id) {
            context.effects.results.push((id, ChangeResult::Enrolment(same)));
            return AdminOutcome::Accepted;
        }
        if ENROLMENTS_OPEN_MAX <= open().count() {
            return AdminOutcome::EnrolmentsFull;
        }
        // Earlier rules know no enrolments.
        if state.rules_version < OPERATORS || !state.enrolments.make_room(self.name) {
            return AdminOutcome::RegistryFull;
        }
        let (name, csr, began) = (self.name, self.csr.clone(), state.stamp);
        state.enrolments.rows.insert(id, Enrolment { id, name, csr, began, end: None });
        context.effects.results.push((id, ChangeResult::Enrolment(id)));
        AdminOutcome::Accepted
    }
}

impl Decide for EndEnrolment {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let (at, record) = (context.state.stamp, context.log_index);
        let rows = &mut context.state.enrolments.rows;
        let Some(row) = rows.get_mut(&self.enrolment).filter(|row| row.name == self.name) else {
            return AdminOutcome::EnrolmentNotFound;
        };
        if row.end.is_some() {
            return AdminOutcome::EnrolmentEnded;
        }
        row.end = Some(EnrolmentEnd { certificate: self.certificate.clone(), at, record });
        AdminOutcome::Accepted
    }
}
