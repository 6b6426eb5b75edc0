//! One file per command. Each decides in three steps: read, decide, write; and answers with the
//! outcome.

mod abort;
mod activate;
mod answer;
mod change_parties;
mod configure;
mod create_account_type;
mod create_hub_account;
mod create_participant;
mod create_settlement_model;
mod expire;
mod finish_deliveries;
mod fulfil;
mod funds;
mod genesis;
mod oracles;
mod prepare;
mod redeliver;
mod set_active;
mod set_endpoint;
mod set_keys;
mod set_limits;

use crate::command::{Change, Command};
use crate::context::Context;
use crate::ids::Position;
use crate::outcome::Outcome;

pub(crate) use expire::{expire_next, next_due};
pub(crate) use funds::reconciliation_account;

/// Decides one command.
pub(crate) fn decide(context: &mut Context<'_>, command: &Command) -> Outcome {
    let begins = context.position == Position(1);
    assert_eq!(begins, matches!(command, Command::Genesis(_)), "a log begins with its genesis");
    match command {
        Command::Genesis(genesis) => genesis::begin(context, genesis),
        Command::Tick => Outcome::Accepted,
        Command::Prepare(prepare) => prepare::prepare(context, prepare),
        Command::Fulfil(fulfil) => fulfil::fulfil(context, fulfil),
        Command::Abort(abort) => abort::abort(context, abort),
        Command::FinishDeliveries(ends) => finish_deliveries::finish(context, ends),
        Command::ChangeParties(change) => change_parties::change(context, change),
        Command::Administer(administer) => administer_change(context, &administer.change),
    }
}

fn administer_change(context: &mut Context<'_>, change: &Change) -> Outcome {
    let outcome = match change {
        Change::Configure(settings) => configure::configure(context, *settings),
        Change::Activate { rules_version } => activate::activate(context, *rules_version),
        Change::CreateHubAccount { currency, kind } => {
            create_hub_account::create(context, *currency, *kind)
        }
        Change::CreateSettlementModel(model) => create_settlement_model::create(context, model),
        Change::SetSettlementModelActive { name, active } => {
            create_settlement_model::set_active(context, name, *active)
        }
        Change::CreateParticipant { name, currency } => {
            create_participant::create(context, name, *currency)
        }
        Change::SetParticipantActive { name, active } => {
            set_active::participant(context, name, *active)
        }
        Change::SetAccountActive { name, account, active } => {
            set_active::account(context, name, *account, *active)
        }
        Change::SetInitialPositionAndLimits { name, currency, limit, position } => {
            let initial = set_limits::Initial { limit: *limit, position: *position };
            set_limits::initial(context, name, *currency, initial)
        }
        Change::SetLimit { name, currency, limit, alarm_percentage } => {
            let limit =
                crate::register::Limit { value: *limit, alarm_percentage: *alarm_percentage };
            set_limits::change(context, name, *currency, limit)
        }
        Change::SetEndpoint { name, endpoint, value } => {
            set_endpoint::set(context, name, endpoint, value)
        }
        Change::AddKey { name, id, key } => set_keys::add(context, name, *id, key),
        Change::RemoveKey { name, id } => set_keys::remove(context, name, *id),
        Change::MoveFunds(funds) => funds::start(context, funds),
        Change::EndFundsOut(end) => funds::end_outflow(context, end),
        Change::Redeliver { notice } => redeliver::redeliver(context, *notice),
        Change::CreateOracle(oracle) => oracles::create(context, oracle),
        Change::UpdateOracle { id, update } => oracles::update(context, *id, update),
        Change::DeleteOracle { id } => oracles::delete(context, *id),
        Change::CreateLedgerAccountType(added) => create_account_type::create(context, added),
    };
    context.effects.register_changed |= outcome == Outcome::Accepted && is_of_register(change);
    outcome
}

/// Whether a change can alter what the edge knows of participants and settings; money, notices
/// and records that only operators read do not.
const fn is_of_register(change: &Change) -> bool {
    !matches!(
        change,
        Change::MoveFunds(_)
            | Change::EndFundsOut(_)
            | Change::Redeliver { .. }
            | Change::SetLimit { .. }
            | Change::CreateOracle(_)
            | Change::UpdateOracle { .. }
            | Change::DeleteOracle { .. }
            | Change::CreateLedgerAccountType(_)
    )
}
