//! How runs reach the outcomes of enrolments.

use ledger::{
    AdminOutcome, BeginEnrolment, Change, ENROLMENTS_OPEN_MAX, EndEnrolment, FspName, LogIndex,
};

use super::{By, Reach, Reached, Situation};

impl Reach for BeginEnrolment {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::Chance),
        (AdminOutcome::EnrolmentsFull, By::Aim(enrol)),
        (AdminOutcome::RegistryFull, By::Nothing("a run is too short to fill the table")),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for EndEnrolment {
    const REACHED: Reached = &[
        (AdminOutcome::EnrolmentNotFound, By::Chance),
        (AdminOutcome::EnrolmentEnded, By::Chance),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

/// Ends the open enrolments of a participant twice, with and without a certificate, then begins one
/// more than fit, and one of an unknown participant.
fn enrol(situation: &mut Situation<'_>) -> Vec<Change> {
    let (name, ghost) = (situation.name, situation.ghost());
    let mut all = vec![begin(ghost, 0), end(name, LogIndex(0), 0)];
    for open in situation.state.iter().flat_map(|state| state.enrolments().of(name)) {
        if open.end.is_none() {
            let part = open.id.0 as u8;
            all.extend([end(name, open.id, part), end(name, open.id, part)]);
        }
    }
    let random = &mut situation.outcome_workload.random;
    let first = random.next() as u8;
    all.extend((0..=ENROLMENTS_OPEN_MAX as u8).map(|at| begin(name, first.wrapping_add(at))));
    all
}

fn begin(name: FspName, csr: u8) -> Change {
    BeginEnrolment { name, csr: vec![csr] }.into()
}

fn end(name: FspName, enrolment: LogIndex, part: u8) -> Change {
    let certificate = part.is_multiple_of(2).then(|| vec![part]);
    EndEnrolment { name, enrolment, certificate }.into()
}
