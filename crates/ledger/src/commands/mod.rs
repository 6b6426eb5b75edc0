//! One file per command. Commands that share rules or a resource share a file: `funds`, `oracles`,
//! `fee_rules`, `operators`, `bulks` (with `bulk_end`), `proposals`, `quotes`,
//! `transaction_requests`, `set_active`,
//! `set_keys`, `set_limits` and `create_settlement_model`.
//!
//! Each command reads, decides, writes the next state, and returns its outcome.

mod abort;
mod abort_settlement;
mod activate;
mod adjust_balance;
mod advance_settlement;
mod bulk_end;
mod bulks;
mod change_parties;
mod check_liquidity;
mod close_window;
mod configure;
mod create_account_type;
mod create_hub_account;
mod create_participant;
mod create_settlement;
mod create_settlement_model;
mod drop_dead_letter;
mod enrolments;
mod erase;
mod expire;
mod fee_rules;
mod fees;
mod finish_deliveries;
mod fulfil;
mod funds;
mod genesis;
mod operators;
mod oracles;
mod prepare;
mod proposals;
mod quotes;
mod record_audit;
mod redeliver;
mod response;
mod set_active;
mod set_endpoint;
mod set_keys;
mod set_limits;
mod settle;
mod transaction_requests;

use crate::change::{Change, each_change};
use crate::command::Command;
use crate::context::{Context, Decide};
use crate::ids::LogIndex;
use crate::outcome::{AdminOutcome, Outcome};

pub(crate) use bulks::Watch;
pub(crate) use expire::{expire_next, next_due};
pub(crate) use funds::reconciliation_account;
pub(crate) use settle::choose_modes;

/// Decides one command.
pub(crate) fn decide(
    context: &mut Context<'_>,
    command: &Command,
    watch: &mut impl Watch,
) -> Outcome {
    let begins = context.log_index == LogIndex(1);
    assert_eq!(begins, matches!(command, Command::Genesis(_)), "a log begins with its genesis");
    match command {
        Command::Genesis(genesis) => genesis::begin(context, genesis),
        Command::Tick => Outcome::Accepted,
        Command::Prepare(prepare) => prepare.decide(context).into(),
        Command::Fulfil(fulfil) => fulfil.decide(context).into(),
        Command::Abort(abort) => abort.decide(context).into(),
        Command::FinishDeliveries(ends) => finish_deliveries::finish(context, ends),
        Command::ChangeParties(change) => change.decide(context).into(),
        Command::Administer(administer) => administer_change(context, &administer.change).into(),
        Command::PrepareBulk(bulk) => bulks::prepare(context, bulk, watch),
        Command::FulfilBulk(bulk) => bulks::fulfil(context, bulk, watch),
        Command::AbortBulk(bulk) => bulks::abort(context, bulk, watch),
        Command::RecordQuote(quote) => quote.decide(context).into(),
        Command::RecordQuoteAnswer(answer) => answer.decide(context).into(),
        Command::RecordRequestToPay(request) => request.decide(context).into(),
    }
}

/// Decides a change that does not come by an approval.
fn administer_change(context: &mut Context<'_>, change: &Change) -> AdminOutcome {
    match context.state.needs_approval(change) {
        true => AdminOutcome::ApprovalRequired,
        false => decide_change(context, change),
    }
}

/// Decides a change, whichever persons it needs.
fn decide_change(context: &mut Context<'_>, change: &Change) -> AdminOutcome {
    let outcome = change.decide(context);
    let declared = change.declaration();
    let is_declared = |change: &Change| change.declaration().outcomes.contains(&outcome);
    let fits = is_declared(change) || is_declared(change.decided());
    assert!(fits, "{outcome:?} is declared for {change:?}");
    let viewed = || declared.touches.iter().any(|part| part.is_viewed());
    context.effects.registry_changed |= outcome == AdminOutcome::Accepted && viewed();
    outcome
}

macro_rules! dispatch {
    ($($change:ident),*) => {
        impl Decide for Change {
            type Outcome = AdminOutcome;

            fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
                match self {
                    $( Self::$change(change) => change.decide(context), )*
                }
            }
        }
    };
}
each_change!(dispatch);
