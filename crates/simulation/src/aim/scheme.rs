//! How runs reach the outcomes of changes of participants, accounts and models.

use ledger::{
    AccountId, AccountKind, AdjustBalance, AdminOutcome, Amount, Change, CheckLiquidity,
    CreateHubAccount, CreateParticipant, CreateSettlementModel, Currency, Digest, EndFundsOut,
    FspName, FundsDirection, MoveFunds, SetAccountActive, SetEndpoint, SetInitialPositionAndLimits,
    SetLimit, SetParticipantActive, SetSettlementModelActive, SettlementModel,
};

use super::{By, Reach, Reached, Situation, UNAIMED};

impl Reach for CreateHubAccount {
    const REACHED: Reached = &[
        (AdminOutcome::AccountKindNotForHub, By::Aim(account_not_for_the_hub)),
        (AdminOutcome::RegistryFull, By::Nothing("a run is too short to fill the table")),
        (AdminOutcome::AccountExists, By::Aim(account_again)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for CreateSettlementModel {
    const REACHED: Reached = &[
        (AdminOutcome::SettlementModelExists, By::Aim(model_again)),
        (AdminOutcome::AccountKindWrong, By::SharedAim),
        (AdminOutcome::RegistryFull, By::Nothing("a run is too short to fill the table")),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for SetSettlementModelActive {
    const REACHED: Reached = &[
        (AdminOutcome::SettlementModelNotFound, By::Aim(unknown_model)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for CreateParticipant {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantCurrencyExists, By::Aim(participant_again)),
        (AdminOutcome::HubAccountsMissing, By::Aim(currency_that_the_hub_lacks)),
        (AdminOutcome::SettlementModelMissing, By::Aim(toggle_the_model)),
        (AdminOutcome::RegistryFull, By::Nothing("a run is too short to fill the table")),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for SetParticipantActive {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::Aim(about_a_ghost)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for SetAccountActive {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::SharedAim),
        (AdminOutcome::AccountNotFound, By::Aim(not_its_accounts)),
        (AdminOutcome::AccountKindWrong, By::Aim(wrong_accounts)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for SetInitialPositionAndLimits {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::SharedAim),
        (AdminOutcome::AccountNotFound, By::SharedAim),
        (AdminOutcome::LimitsExist, By::Aim(limits_again)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for SetLimit {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::SharedAim),
        (AdminOutcome::AccountNotFound, By::Nothing(UNAIMED)),
        (AdminOutcome::LimitsMissing, By::Aim(limit_too_early)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for SetEndpoint {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::SharedAim),
        (AdminOutcome::RegistryFull, By::SharedAim),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

fn account_not_for_the_hub(situation: &mut Situation<'_>) -> Vec<Change> {
    let kinds = [AccountKind::Position, AccountKind::InFlight];
    let (currency, kind) = (situation.currency(), situation.outcome_workload.random.pick(&kinds));
    vec![CreateHubAccount { currency, kind }.into()]
}

fn account_again(situation: &mut Situation<'_>) -> Vec<Change> {
    let (currency, kind) = (situation.currency(), AccountKind::HubFee);
    vec![CreateHubAccount { currency, kind }.into()]
}

fn model_again(situation: &mut Situation<'_>) -> Vec<Change> {
    vec![added("FEES", AccountKind::InterchangeFee, Some(situation.actors.currency(1)))]
}

fn unknown_model(_: &mut Situation<'_>) -> Vec<Change> {
    vec![SetSettlementModelActive { name: "NONE".into(), active: true }.into()]
}

/// A participant that is known, its name in capitals, or the hub.
fn participant_again(situation: &mut Situation<'_>) -> Vec<Change> {
    let (name, currency) = (situation.name, situation.currency());
    let shouting = FspName::new(&name.as_str().to_uppercase()).expect("as short");
    let hub = FspName::new("Hub").expect("a short name");
    let name = situation.outcome_workload.random.pick(&[name, shouting, hub]);
    vec![CreateParticipant { name, currency }.into()]
}

fn currency_that_the_hub_lacks(situation: &mut Situation<'_>) -> Vec<Change> {
    let (name, currency) = (situation.outcome_workload.newcomer(true), situation.unused_currency());
    vec![CreateParticipant { name, currency }.into()]
}

/// Switches the scheme's own settlement model off while a participant joins, and on again later.
fn toggle_the_model(situation: &mut Situation<'_>) -> Vec<Change> {
    let own = situation.state.and_then(|state| state.registry().models().first().cloned());
    let Some(SettlementModel { name, active, .. }) = own else { return Vec::new() };
    let toggle = SetSettlementModelActive { name, active: !active }.into();
    let (name, currency) = (situation.outcome_workload.newcomer(true), situation.currency());
    let join = CreateParticipant { name, currency }.into();
    if active { vec![toggle, join] } else { vec![join, toggle] }
}

fn about_a_ghost(situation: &mut Situation<'_>) -> Vec<Change> {
    let (name, currency) = (situation.ghost(), situation.currency());
    let (account, active) = (AccountId(1), false);
    let (net_debit_cap, position, alarm_percentage) = (Amount::ZERO, Amount::ZERO, Amount::ZERO);
    let (endpoint, value) = ("T".into(), "http://g".into());
    let (id, hash) = (situation.outcome_workload.fresh_id(), Digest([7; 32]));
    let (direction, amount, commit) = (FundsDirection::In, Amount::from_units(1), true);
    let mut changes: Vec<Change> = vec![
        SetParticipantActive { name, active }.into(),
        SetAccountActive { name, account, active }.into(),
        SetLimit { name, currency, net_debit_cap, alarm_percentage }.into(),
        SetInitialPositionAndLimits { name, currency, net_debit_cap, position }.into(),
        MoveFunds { id, name, account, direction, currency, amount, hash }.into(),
        EndFundsOut { id, name, account, commit, hash }.into(),
        SetEndpoint { name, endpoint, value }.into(),
        CheckLiquidity { name, currency }.into(),
        AdjustBalance { id, name, account, currency, amount, hash }.into(),
    ];
    // Two of them at a time, so that few runs ask for each.
    let at = situation.outcome_workload.random.below(changes.len() as u64) as usize;
    changes.rotate_left(at);
    changes.truncate(2);
    changes
}

fn not_its_accounts(situation: &mut Situation<'_>) -> Vec<Change> {
    let (name, currency) = (situation.name, situation.unused_currency());
    let random = &mut situation.outcome_workload.random;
    let account = random.pick(&[AccountId(0), AccountId(1), AccountId(u32::MAX)]);
    let (net_debit_cap, position) = (Amount::ZERO, Amount::ZERO);
    vec![match random.chance(500) {
        true => SetAccountActive { name, account, active: true }.into(),
        false => SetInitialPositionAndLimits { name, currency, net_debit_cap, position }.into(),
    }]
}

/// A SETTLEMENT where a POSITION is wanted, or the other way round.
fn wrong_accounts(situation: &mut Situation<'_>) -> Vec<Change> {
    let (name, currency) = (situation.name, situation.currency());
    let Some((position, settlement)) = situation.accounts_in(&name) else { return Vec::new() };
    let (id, hash) = (situation.outcome_workload.fresh_id(), Digest([7; 32]));
    let (direction, amount) = (FundsDirection::In, Amount::from_units(1));
    vec![match situation.outcome_workload.random.below(3) {
        0 => SetAccountActive { name, account: settlement, active: false }.into(),
        1 => added("ODD", AccountKind::HubFee, None),
        _ => MoveFunds { id, name, account: position, direction, currency, amount, hash }.into(),
    }]
}

fn limits_again(situation: &mut Situation<'_>) -> Vec<Change> {
    let (name, currency) = (situation.name, situation.currency());
    let (net_debit_cap, position) = (Amount::ZERO, Amount::from_units(7));
    vec![SetInitialPositionAndLimits { name, currency, net_debit_cap, position }.into()]
}

fn limit_too_early(situation: &mut Situation<'_>) -> Vec<Change> {
    let (name, currency) = (situation.outcome_workload.newcomer(true), situation.currency());
    let (net_debit_cap, alarm_percentage) = (Amount::from_units(1), Amount::ZERO);
    vec![
        CreateParticipant { name, currency }.into(),
        SetLimit { name, currency, net_debit_cap, alarm_percentage }.into(),
    ]
}

fn added(name: &str, ledger_account: AccountKind, currency: Option<Currency>) -> Change {
    let model = SettlementModel {
        name: name.into(),
        net: true,
        multilateral: true,
        deferred: true,
        currency,
        liquidity_check: false,
        auto_position_reset: false,
        ledger_account,
        settlement_account: AccountKind::InterchangeFeeSettlement,
        active: true,
    };
    CreateSettlementModel { model }.into()
}
