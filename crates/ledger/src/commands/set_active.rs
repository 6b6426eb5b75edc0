//! `PUT /participants/{name}` and `PUT /participants/{name}/accounts/{id}`.

use crate::accounts::AccountKind;
use crate::change::{SetAccountActive, SetParticipantActive};
use crate::context::{Context, Decide};
use crate::outcome::AdminOutcome;

impl Decide for SetParticipantActive {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        match context.state.registry.find_mut(&self.name) {
            None => AdminOutcome::ParticipantNotFound,
            Some((_, participant)) => {
                participant.active = self.active;
                AdminOutcome::Accepted
            }
        }
    }
}

impl Decide for SetAccountActive {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let state = &mut *context.state;
        let Some((_, participant)) = state.registry.find(&self.name) else {
            return AdminOutcome::ParticipantNotFound;
        };
        if !participant.accounts.contains(&self.account) {
            return AdminOutcome::AccountNotFound;
        }
        if state
            .accounts
            .get(self.account)
            .is_none_or(|account| account.kind != AccountKind::Position)
        {
            return AdminOutcome::AccountKindWrong;
        }
        state.accounts.set_active(self.account, self.active);
        AdminOutcome::Accepted
    }
}
