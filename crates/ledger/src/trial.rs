//! A trial: a copy of the state that decides changes which no record asks for.
//!
//! A trial has participants, accounts, windows, settlements, alarms and fee rules. It has neither
//! transfers nor notices, and decides only changes that read none of them ([`DECLARATIONS`]). No
//! change needs a second person. The state that it was copied from stays as it is.
//!
//! Costs: a copy of the participants and the accounts, of at most 10,000 participants.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::bulks::Bulks;
use crate::change::{
    AbortSettlement, AdvanceSettlement, Change, ChangeDeclaration, CloseWindow, CreateFeeRule,
    CreateSettlement, SetFeeRuleActive,
};
use crate::command::{Administer, Command};
use crate::commands;
use crate::context::Context;
use crate::enrolments::Enrolments;
use crate::erasures::Erasures;
use crate::ids::LogIndex;
use crate::notice::Outbox;
use crate::operators::OperatorBook;
use crate::proposals::Proposals;
use crate::quotes::Quotes;
use crate::settlement::ArchivedSettlement;
use crate::state::{ChangeReply, Effects, State};
use crate::transaction_requests::TransactionRequests;
use crate::transfers::Transfers;

/// The changes that a trial decides.
const DECLARATIONS: [&ChangeDeclaration; 6] = [
    &CloseWindow::DECLARATION,
    &CreateSettlement::DECLARATION,
    &AdvanceSettlement::DECLARATION,
    &AbortSettlement::DECLARATION,
    &CreateFeeRule::DECLARATION,
    &SetFeeRuleActive::DECLARATION,
];

/// A copy of the state that decides changes without records.
#[derive(Debug)]
pub struct Trial {
    state: State,
    archived: Vec<ArchivedSettlement>,
}

impl State {
    /// Copies the state for a trial. Between two batches only.
    #[must_use]
    pub fn trial(&self) -> Trial {
        let state = Self {
            accounts: self.accounts.clone(),
            registry: self.registry.clone(),
            transfers: Transfers::new(self.transfers.keyed()),
            outbox: Outbox::new(),
            settlement: self.settlement.clone(),
            alerts: self.alerts.clone(),
            fees: self.fees.clone(),
            operators: OperatorBook::default(),
            proposals: Proposals::default(),
            enrolments: Enrolments::default(),
            erasures: Erasures::default(),
            bulks: Bulks::default(),
            quotes: Quotes::new(self.transfers.keyed()),
            requests: TransactionRequests::new(self.transfers.keyed()),
            nodes: Vec::new(),
            batch_digest: self.batch_digest.clone(),
            ..*self
        };
        Trial { state, archived: Vec::new() }
    }
}

impl Trial {
    /// Whether trials decide such changes.
    #[must_use]
    pub const fn decides(change: &ChangeDeclaration) -> bool {
        let mut at = 0;
        while at < DECLARATIONS.len() {
            if DECLARATIONS[at].number == change.number {
                return true;
            }
            at += 1;
        }
        false
    }

    /// The state after the changes so far.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The windows and settlements that have left the memory of the trial.
    #[must_use]
    pub fn archived(&self) -> &[ArchivedSettlement] {
        &self.archived
    }

    /// Decides a change as the next record would, at the time of the last one. The reply names no
    /// record. Panics unless [`Trial::decides`] such changes.
    pub fn decide(&mut self, administer: Administer) -> ChangeReply {
        let change: &Change = &administer.change;
        assert!(Self::decides(change.declaration()), "a trial has all that the change reads");
        let record = LogIndex(self.state.log_index().0 + 1);
        let mut effects = Effects::default();
        let mut context =
            Context { state: &mut self.state, effects: &mut effects, log_index: record };
        let outcome = {
            let command = Command::Administer(Box::new(administer));
            commands::decide(&mut context, &command, &mut |_, _, _| {})
        };
        context.record_outcome(outcome);
        self.state.close_batch();
        self.archived.append(&mut effects.archived);
        ChangeReply { log_index: LogIndex(0), ..effects.decided(record, outcome) }
    }
}
