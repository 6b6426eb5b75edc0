//! Random histories, drawn from few ids, parties, amounts and times, so that commands refer to each
//! other. Each action is plain data. `TestKernel` turns actions into commands for the kernel, and its
//! `Watcher` applies and checks each batch. `tests/model.rs` includes this file with another
//! watcher.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::watcher::Watcher;
use crate::*;

/// Participants 0, 1 and 2 belong to the scheme; number 3 does not.
pub(super) const PARTIES: [&str; 4] = ["alfa", "bravo", "carol", "nobody"];
/// Histories per property. `PROPTEST_CASES` overrides it: `cargo xtask nightly` runs thousands.
pub(super) const CASES: u32 = 64;
/// Number of transfer ids.
pub(super) const IDS: u8 = 8;
/// The net debit cap of every participant at the start, in ten-thousandths.
pub(super) const CAP: i64 = 400_000;
/// The deposit of every participant at the start, in ten-thousandths.
pub(super) const DEPOSIT: i64 = 500_000;
/// Time of the first action, in milliseconds since the epoch.
pub(super) const START_MS: u64 = 1_000_000;

/// An action of a participant or an operator.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Prepare(PrepareAction),
    Response(ResponseAction),
    Participant {
        party: usize,
        active: bool,
    },
    Account {
        party: usize,
        active: bool,
    },
    Cap {
        party: usize,
        units: i64,
    },
    FundsIn {
        id: u8,
        party: usize,
        units: i64,
    },
    FundsOut {
        id: u8,
        party: usize,
        units: i64,
    },
    EndFundsOut {
        id: u8,
        party: usize,
        commit: bool,
    },
    Settings {
        on_us: bool,
        put_aborted: bool,
        covers_position: bool,
    },
    Deliver {
        which: Vec<u8>,
        result: u8,
    },
    Redeliver {
        which: u8,
    },
    Drop {
        which: u8,
    },
    Settle(SettleAction),
    Check {
        party: usize,
    },
    FinishAlerts {
        which: u8,
    },
    Operators(Change),
    Approval(ApprovalAction),
    Enrol {
        party: usize,
        csr: u8,
    },
    EndEnrolment {
        party: usize,
        which: u8,
        is_issued: bool,
    },
    Quote {
        id: u8,
        party: usize,
        to: usize,
        body: u8,
        expires_ms: u64,
        keep_ms: u64,
    },
    QuoteAnswer {
        id: u8,
        party: usize,
        body: u8,
    },
    /// A transaction request; with `body` over 1, an answer to one.
    Request {
        id: u8,
        party: usize,
        to: usize,
        body: u8,
        expires_ms: u64,
        keep_ms: u64,
    },
    Adjust {
        id: u8,
        party: usize,
        units: i64,
        position: bool,
    },
    Tick,
}

/// An action of settlement. Each is about the newest window or settlement.
#[derive(Clone, Copy, Debug)]
pub(super) enum SettleAction {
    /// Adds a model: gross, bilateral, or without position reset. One of them can be added. The
    /// fourth and the fifth are of fees, multilateral and bilateral.
    Model {
        which: u8,
    },
    /// Adds one of three fee rules.
    FeeRule {
        which: u32,
    },
    FeeRuleActive {
        which: u32,
        active: bool,
    },
    /// Settles the fees of the windows before the open one.
    CreateOfFees {
        windows: u32,
    },
    /// Closes the open window.
    Close,
    /// Settles the windows before the open one.
    Create {
        windows: u32,
    },
    /// Moves accounts to the next state of the settlement, or to the one after it.
    Advance {
        accounts: u8,
        skips: bool,
    },
    Abort,
}

/// An action of four eyes.
#[derive(Clone, Debug)]
pub(super) enum ApprovalAction {
    /// Lists one of four sets of kinds.
    FourEyes { which: u8 },
    /// Proposes an action of a participant's activity or cap, or other sets of kinds.
    Propose { person: u8, seconds: u32, which: u8, units: i64 },
    /// Approves one of the newest proposals, perhaps with another change.
    Approve { person: u8, back: u32, is_same: bool },
    /// Rejects one of the newest proposals.
    Reject { person: u8, back: u32 },
}

/// `POST /transfers`.
#[derive(Clone, Debug)]
pub(super) struct PrepareAction {
    pub(super) id: u8,
    pub(super) source: usize,
    pub(super) payer: usize,
    pub(super) payee: usize,
    pub(super) units: i64,
    /// Milliseconds after the start.
    pub(super) expires_ms: u64,
    /// Number of the fee rule that matched.
    pub(super) fee_rule: Option<u32>,
    /// The offer whose terms are compared, if they are.
    pub(super) offer: Option<u8>,
}

/// `PUT /transfers/{id}` and `PUT /transfers/{id}/error`.
#[derive(Clone, Debug)]
pub(super) struct ResponseAction {
    pub(super) id: u8,
    pub(super) sender: usize,
    pub(super) to: Option<usize>,
    pub(super) content: ResponseContent,
    /// Makes bodies differ that are otherwise the same.
    pub(super) body: u8,
}

/// The content of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseContent {
    Committed { right: bool },
    Reserved { right: bool },
    ReservedUnderVersion10,
    Aborted,
    Error { known: bool },
}

/// Acts that arrive together, and the time since the ones before.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) wait_ms: u64,
    pub(super) actions: Vec<Action>,
}

/// Any history.
pub(super) fn history() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![3 => Just(0), 3 => Just(500), 1 => 0..3_000u64];
    let step = (wait, prop::collection::vec(action(), 1..6));
    prop::collection::vec(step.prop_map(|(wait_ms, actions)| Step { wait_ms, actions }), 1..30)
}

fn action() -> impl Strategy<Value = Action> {
    let id = 0..IDS;
    prop_oneof![
        30 => prepare(),
        30 => answer(),
        1 => (0..4usize, prop::bool::weighted(0.8))
            .prop_map(|(party, active)| Action::Participant { party, active }),
        1 => (0..4usize, prop::bool::weighted(0.8))
            .prop_map(|(party, active)| Action::Account { party, active }),
        2 => (0..4usize, 0..3i64)
            .prop_map(|(party, half)| Action::Cap { party, units: half * CAP / 2 }),
        3 => (id.clone(), 0..4usize, units())
            .prop_map(|(id, party, units)| Action::FundsIn { id, party, units }),
        4 => (id.clone(), 0..4usize, units())
            .prop_map(|(id, party, units)| Action::FundsOut { id, party, units }),
        4 => (id, 0..4usize, any::<bool>())
            .prop_map(|(id, party, commit)| Action::EndFundsOut { id, party, commit }),
        1 => any::<[bool; 3]>().prop_map(|[on_us, put_aborted, covers_position]| {
            Action::Settings { on_us, put_aborted, covers_position }
        }),
        8 => (prop::collection::vec(any::<u8>(), 1..6), 0..6u8)
            .prop_map(|(which, result)| Action::Deliver { which, result }),
        2 => any::<u8>().prop_map(|which| Action::Redeliver { which }),
        1 => any::<u8>().prop_map(|which| Action::Drop { which }),
        16 => settle().prop_map(Action::Settle),
        3 => (0..4usize).prop_map(|party| Action::Check { party }),
        1 => any::<u8>().prop_map(|which| Action::FinishAlerts { which }),
        4 => operators().prop_map(Action::Operators),
        8 => approval().prop_map(Action::Approval),
        4 => (0..4usize, 0..6u8).prop_map(|(party, csr)| Action::Enrol { party, csr }),
        3 => (0..4usize, any::<u8>(), any::<bool>()).prop_map(|(party, which, is_issued)| {
            Action::EndEnrolment { party, which, is_issued }
        }),
        6 => (0..IDS, 0..4usize, 0..4usize, 0..2u8, 0..90_000u64, 0..90_000u64).prop_map(
            |(id, party, to, body, expires_ms, keep_ms)| {
                Action::Quote { id, party, to, body, expires_ms, keep_ms }
            }
        ),
        6 => (0..IDS, 0..4usize, 0..3u8)
            .prop_map(|(id, party, body)| Action::QuoteAnswer { id, party, body }),
        8 => (0..IDS, 0..4usize, 0..4usize, 0..8u8, 0..90_000u64, 0..90_000u64).prop_map(
            |(id, party, to, body, expires_ms, keep_ms)| {
                Action::Request { id, party, to, body, expires_ms, keep_ms }
            }
        ),
        2 => (0..IDS, 0..4usize, -DEPOSIT / 4..DEPOSIT / 4, any::<bool>())
            .prop_map(|(id, party, units, position)| Action::Adjust { id, party, units, position }),
        3 => Just(Action::Tick),
    ]
}

/// A change of operators, roles or tokens.
fn operators() -> impl Strategy<Value = Change> {
    let name = || (0..3usize).prop_map(|at| ["anna", "bert", "clara"][at].to_owned());
    let role = || (0..3usize).prop_map(|at| ["viewer", "treasury", "audits"][at].to_owned());
    let roles = || prop::collection::vec(role(), 0..3);
    let id = || (0..4u64).prop_map(OperatorTokenId);
    let active = prop::bool::weighted(0.7);
    prop_oneof![
        2 => (role(), prop::collection::vec(role(), 0..3)).prop_map(|(name, permissions)| {
            SetRole { role: OperatorRole { name, permissions } }.into()
        }),
        2 => role().prop_map(|name| RemoveRole { name }.into()),
        3 => (name(), roles(), active)
            .prop_map(|(name, roles, active)| SetOperator { name, roles, active }.into()),
        3 => (id(), name(), roles(), 0..3_000u64).prop_map(|(id, operator, roles, lifetime)| {
            let expires = Stamp::from_millis(START_MS + lifetime);
            let (hash, description) = (digest(&operator), operator.clone());
            CreateToken { id, operator, roles, hash, description, expires }.into()
        }),
        1 => id().prop_map(|id| RevokeToken { id }.into()),
        1 => Just(RegisterParties { parties: Vec::new() }.into()),
        1 => (name(), name())
            .prop_map(|(operator, hash)| SetPassword { operator, hash }.into()),
        1 => (name(), any::<[u8; 4]>()).prop_map(|(operator, secret)| {
            SetSecondFactor { operator, secret: secret.to_vec() }.into()
        }),
    ]
}

/// Few persons and changes, so that proposals repeat.
fn approval() -> impl Strategy<Value = ApprovalAction> {
    prop_oneof![
        2 => (0..5u8).prop_map(|which| ApprovalAction::FourEyes { which }),
        5 => (0..3u8, 0..4u32, any::<u8>(), 0..3i64).prop_map(|(person, seconds, which, half)| {
            ApprovalAction::Propose { person, seconds, which, units: half * CAP / 2 }
        }),
        5 => (0..3u8, 0..3u32, prop::bool::weighted(0.9))
            .prop_map(|(person, back, is_same)| ApprovalAction::Approve { person, back, is_same }),
        2 => (0..3u8, 0..3u32).prop_map(|(person, back)| ApprovalAction::Reject { person, back }),
    ]
}

fn settle() -> impl Strategy<Value = SettleAction> {
    prop_oneof![
        2 => (0..5u8).prop_map(|which| SettleAction::Model { which }),
        2 => (0..3u32).prop_map(|which| SettleAction::FeeRule { which }),
        1 => (0..4u32, prop::bool::weighted(0.7))
            .prop_map(|(which, active)| SettleAction::FeeRuleActive { which, active }),
        2 => (1..3u32).prop_map(|windows| SettleAction::CreateOfFees { windows }),
        3 => Just(SettleAction::Close),
        3 => (1..3u32).prop_map(|windows| SettleAction::Create { windows }),
        9 => (any::<u8>(), prop::bool::weighted(0.1))
            .prop_map(|(accounts, skips)| SettleAction::Advance { accounts, skips }),
        1 => Just(SettleAction::Abort),
    ]
}

fn prepare() -> impl Strategy<Value = Action> {
    let honest = prop::bool::weighted(0.95);
    let expires = prop_oneof![Just(1_000u64), Just(2_500), Just(6_000), Just(60_000)];
    let fee_rule = prop_oneof![1 => Just(None), 3 => (0..5u32).prop_map(Some)];
    let offer = prop_oneof![6 => Just(None), 1 => (0..2u8).prop_map(Some)];
    let choices = (honest, fee_rule, offer);
    (0..IDS, 0..4usize, party(), party(), units(), expires, choices).prop_map(
        |(id, other, payer, payee, units, expires_ms, (honest, fee_rule, offer))| {
            let source = if honest { payer } else { other };
            Action::Prepare(PrepareAction {
                id,
                source,
                payer,
                payee,
                units,
                expires_ms,
                fee_rule,
                offer,
            })
        },
    )
}

fn answer() -> impl Strategy<Value = Action> {
    let to = prop_oneof![6 => Just(None), 1 => party().prop_map(Some)];
    let content = prop_oneof![
        6 => prop::bool::weighted(0.8).prop_map(|right| ResponseContent::Committed { right }),
        6 => prop::bool::weighted(0.8).prop_map(|right| ResponseContent::Reserved { right }),
        1 => Just(ResponseContent::ReservedUnderVersion10),
        1 => Just(ResponseContent::Aborted),
        3 => prop::bool::weighted(0.8).prop_map(|known| ResponseContent::Error { known }),
    ];
    let body = prop_oneof![9 => Just(0u8), 1 => Just(1)];
    (0..IDS, party(), to, content, body).prop_map(|(id, sender, to, content, body)| {
        Action::Response(ResponseAction { id, sender, to, content, body })
    })
}

fn party() -> impl Strategy<Value = usize> {
    prop_oneof![5 => Just(0), 8 => Just(1), 5 => Just(2), 1 => Just(3)]
}

fn units() -> impl Strategy<Value = i64> {
    prop_oneof![
        1 => Just(0),
        4 => Just(100_000),
        4 => Just(200_000),
        2 => Just(350_001),
        1 => 0..DEPOSIT,
        1 => Just(DEPOSIT + 100_000),
    ]
}

/// The parts of a prepare's body that make it a resend.
pub(super) fn prepare_body(action: &PrepareAction) -> String {
    format!(
        "{} {} {} {} {}",
        action.id, action.payer, action.payee, action.units, action.expires_ms
    )
}

/// The parts of a response's body that make it a resend.
pub(super) fn response_body(action: &ResponseAction) -> String {
    format!("{} {:?} {}", action.id, action.content, action.body)
}

pub(super) fn id(number: u8) -> TransferId {
    TransferId::parse(&format!("{number:0>26}")).expect("digits are a ULID")
}

pub(super) fn name(party: usize) -> FspName {
    FspName::new(PARTIES[party]).expect("a name")
}

pub(super) fn usd() -> Currency {
    Currency::parse("USD").expect("a currency")
}

/// A log of the kernel: its state, its clock, and the numbers of its records.
#[derive(Clone)]
pub(super) struct TestKernel {
    pub(super) state: State,
    pub(super) now_ms: u64,
    pub(super) sequence: u64,
    watcher: Watcher,
}

impl TestKernel {
    /// A scheme of three participants with net debit caps and deposits.
    pub(super) fn new() -> Self {
        Self::under(RULES_VERSION)
    }

    /// The same, in a log that begins under this version of the rules.
    pub(super) fn under(rules_version: u32) -> Self {
        let (mut state, watcher) = (State::new(), Watcher::new());
        state.begin_under(rules_version);
        let mut kernel = Self { state, now_ms: START_MS, sequence: 1, watcher };
        let hub = FspName::new("Hub").expect("a name");
        kernel.apply(&[Command::Genesis(Genesis { seed: [5; 16], hub })]);
        for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
            kernel.administer(CreateHubAccount { currency: usd(), kind }.into());
        }
        for party in 0..3 {
            let (name, currency) = (name(party), usd());
            kernel.administer(CreateParticipant { name, currency }.into());
            let (net_debit_cap, position) = (amount(CAP), Amount::ZERO);
            kernel.administer(
                SetInitialPositionAndLimits { name, currency, net_debit_cap, position }.into(),
            );
            let action = Action::FundsIn { id: 100 + party as u8, party, units: DEPOSIT };
            let command = kernel.command(&action);
            assert_eq!(kernel.apply(&[command]).outcomes, [Outcome::Accepted]);
        }
        kernel
    }

    pub(super) fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    /// Applies one batch.
    pub(super) fn apply(&mut self, commands: &[Command]) -> Effects {
        let sequence = self.sequence;
        self.sequence += commands.len() as u64;
        self.apply_from(sequence, commands)
    }

    /// Applies one batch with a given number for its first record.
    pub(super) fn apply_from(&mut self, sequence: u64, commands: &[Command]) -> Effects {
        let first = LogIndex(self.state.log_index().0 + 1);
        let stamp = Stamp::from_millis(self.now_ms);
        let mut effects = Effects::default();
        let batch = Batch { first, stamp, node: 1, epoch: 1, sequence };
        self.watcher.apply(&mut self.state, &batch, commands, &mut effects);
        effects
    }

    pub(super) fn administer(&mut self, change: Change) {
        assert_eq!(self.apply(&[administer(change)]).outcomes, [Outcome::Accepted]);
    }

    fn prepare(&self, action: &PrepareAction) -> Prepare {
        Prepare {
            id: id(action.id),
            source: name(action.source),
            payer: name(action.payer),
            payee: name(action.payee),
            currency: usd(),
            amount: amount(action.units),
            condition: Sha256::digest([action.id; 32]).into(),
            expiration_ms: START_MS + action.expires_ms,
            hash: digest(&prepare_body(action)),
            trace: [action.id; 16],
            fee_rule: action.fee_rule.map(FeeRuleId),
            quote_terms: action.offer.map(|body| digest(&format!("offer {body}"))),
        }
    }

    pub(super) fn command(&self, action: &Action) -> Command {
        administer(match *action {
            Action::Prepare(ref action) => return Command::Prepare(Box::new(self.prepare(action))),
            Action::Response(ref action) => return response_command(action),
            Action::Operators(ref change) => return administer(change.clone()),
            Action::Approval(ref action) => self.approval(action),
            Action::Enrol { party, csr } => {
                BeginEnrolment { name: name(party), csr: vec![csr] }.into()
            }
            Action::EndEnrolment { party, which, is_issued } => {
                self.end_enrolment(party, which, is_issued)
            }
            Action::Deliver { ref which, result } => {
                return Command::FinishDeliveries(self.ends(which, result));
            }
            Action::Tick => return Command::Tick,
            Action::Quote { .. } | Action::QuoteAnswer { .. } => return quote_command(action),
            Action::Request { .. } => return request_command(action),
            Action::Participant { party, active } => {
                SetParticipantActive { name: name(party), active }.into()
            }
            Action::Account { party, active } => Change::SetAccountActive(SetAccountActive {
                name: name(party),
                account: self.accounts(party).0,
                active,
            }),
            Action::Cap { party, units } => Change::SetLimit(SetLimit {
                name: name(party),
                currency: usd(),
                net_debit_cap: amount(units),
                alarm_percentage: amount(100_000),
            }),
            Action::FundsIn { id, party, units } => {
                self.funds(id, party, units, FundsDirection::In)
            }
            Action::FundsOut { id, party, units } => {
                self.funds(id, party, units, FundsDirection::Out)
            }
            Action::EndFundsOut { id: number, party, commit } => Change::EndFundsOut(EndFundsOut {
                id: id(number),
                name: name(party),
                account: self.accounts(party).1,
                commit,
                hash: digest(&format!("{action:?}")),
            }),
            Action::Settings { on_us, put_aborted, covers_position } => {
                Change::Configure(Configure {
                    settings: Settings {
                        on_us_transfers: on_us,
                        put_aborted_aborts: put_aborted,
                        funds_out_covers_position: covers_position,
                        ..Settings::default()
                    },
                })
            }
            Action::Redeliver { which } => Redeliver { notice: NoticeId(u64::from(which)) }.into(),
            Action::Drop { which } => DropDeadLetter { notice: NoticeId(u64::from(which)) }.into(),
            Action::Settle(action) => self.settle(action),
            Action::Check { party } => CheckLiquidity { name: name(party), currency: usd() }.into(),
            Action::FinishAlerts { which } => {
                let alerts = (0..=u64::from(which)).map(AlertId).collect();
                FinishAlerts { alerts }.into()
            }
            Action::Adjust { id: number, party, units, position } => AdjustBalance {
                id: id(number),
                name: name(party),
                account: match (self.accounts(party), position) {
                    ((account, _), true) | ((_, account), false) => account,
                },
                currency: usd(),
                amount: amount(units),
                hash: digest(&format!("{action:?}")),
            }
            .into(),
        })
    }

    /// Ends one of all enrolments, perhaps of another participant.
    fn end_enrolment(&self, party: usize, which: u8, is_issued: bool) -> Change {
        let all: Vec<_> = self.state.enrolments().iter().map(|row| row.id).collect();
        let at = usize::from(which) % all.len().max(1);
        let enrolment = all.get(at).copied().unwrap_or(LogIndex(0));
        let certificate = is_issued.then(|| vec![which]);
        EndEnrolment { name: name(party), enrolment, certificate }.into()
    }

    fn approval(&self, action: &ApprovalAction) -> Change {
        let person = |number: u8| format!("person {number}");
        let newest = self.state.proposals().four_eyes().last_proposal.0;
        let id = |back: u32| ProposalId(newest.saturating_sub(back));
        match *action {
            ApprovalAction::FourEyes { which } => four_eyes(which),
            ApprovalAction::Propose { person: number, seconds, which, units } => {
                let (by, reason, request) = (person(number), String::new(), "PUT /x".to_owned());
                let change = Arc::new(match which {
                    0..20 => four_eyes(which),
                    20..120 => SetLimit {
                        name: name(usize::from(which % 4)),
                        currency: usd(),
                        net_debit_cap: amount(units),
                        alarm_percentage: amount(100_000),
                    }
                    .into(),
                    120..180 => self.funds(which % IDS, 1, units, FundsDirection::Out),
                    _ => {
                        let active = !which.is_multiple_of(3);
                        SetParticipantActive { name: name(usize::from(which % 4)), active }.into()
                    }
                });
                Propose { by, reason, request, seconds, change }.into()
            }
            ApprovalAction::Approve { person: number, back, is_same } => {
                let known = self.state.proposals().get(id(back)).filter(|_| is_same);
                let change = known.map_or_else(|| Arc::new(four_eyes(0)), |it| it.change.clone());
                let (proposal, by, reason) = (id(back), person(number), String::new());
                ApproveProposal { proposal, by, reason, change }.into()
            }
            ApprovalAction::Reject { person: number, back } => {
                let (proposal, by, reason) = (id(back), person(number), String::new());
                RejectProposal { proposal, by, reason }.into()
            }
        }
    }

    fn funds(&self, number: u8, party: usize, units: i64, direction: FundsDirection) -> Change {
        Change::MoveFunds(MoveFunds {
            id: id(number),
            name: name(party),
            account: self.accounts(party).1,
            direction,
            currency: usd(),
            amount: amount(units),
            hash: digest(&format!("{number} {party} {units} {direction:?}")),
        })
    }

    fn settle(&self, action: SettleAction) -> Change {
        let book = self.state.settlement();
        let numbers = book.numbers();
        let reason = "test".to_owned();
        let settlement = numbers.settlement;
        match action {
            SettleAction::Model { which: which @ 3.. } => {
                let model = SettlementModel {
                    name: "FEES".to_owned(),
                    net: true,
                    multilateral: which == 3,
                    deferred: true,
                    currency: None,
                    liquidity_check: true,
                    auto_position_reset: true,
                    ledger_account: AccountKind::InterchangeFee,
                    settlement_account: AccountKind::InterchangeFeeSettlement,
                    active: true,
                };
                CreateSettlementModel { model }.into()
            }
            SettleAction::FeeRule { which } => {
                CreateFeeRule { rule: Box::new(fee_rule(which)) }.into()
            }
            SettleAction::FeeRuleActive { which, active } => {
                SetFeeRuleActive { rule: FeeRuleId(which), active }.into()
            }
            SettleAction::Model { which } => {
                let model = SettlementModel {
                    name: "OWN".to_owned(),
                    net: which != 0,
                    multilateral: which == 2,
                    deferred: true,
                    currency: Some(usd()),
                    liquidity_check: true,
                    auto_position_reset: which != 2,
                    ledger_account: AccountKind::Position,
                    settlement_account: AccountKind::Settlement,
                    active: true,
                };
                CreateSettlementModel { model }.into()
            }
            SettleAction::Close => CloseWindow { window: numbers.window, reason }.into(),
            SettleAction::Create { windows } => {
                let open = numbers.window.0;
                let windows = open.saturating_sub(windows)..open;
                let own = self.state.registry().models().iter().any(|model| model.name == "OWN");
                let model = if own { "OWN" } else { "DEFAULTDEFERREDNET" }.to_owned();
                CreateSettlement { model, reason, windows: windows.map(WindowId).collect() }.into()
            }
            SettleAction::CreateOfFees { windows } => {
                let open = numbers.window.0;
                let windows = (open.saturating_sub(windows)..open).map(WindowId).collect();
                CreateSettlement { model: "FEES".to_owned(), reason, windows }.into()
            }
            SettleAction::Advance { accounts, skips } => {
                AdvanceSettlement { settlement, steps: self.steps(accounts, skips) }.into()
            }
            SettleAction::Abort => AbortSettlement { settlement, reason }.into(),
        }
    }

    /// Steps of the accounts of the newest settlement whose bit is set.
    fn steps(&self, accounts: u8, skips: bool) -> Vec<AccountStep> {
        let book = self.state.settlement();
        let Some(entry) = book.settlement(book.numbers().settlement) else { return Vec::new() };
        let next = entry.settlement.state.next();
        let after = next.and_then(SettlementState::next).filter(|_| skips).or(next);
        let chosen = entry.accounts.iter().enumerate();
        let chosen = chosen.filter(|(at, _)| accounts >> (at % 8) & 1 == 1 || 128 <= accounts);
        chosen
            .map(|(_, row)| AccountStep {
                participant: self.state.accounts().get(row.account).map_or(0, |it| it.owner.0 + 1),
                account: row.account,
                state: after.unwrap_or(SettlementState::Settled),
                reason: "test".to_owned(),
                external_reference: String::new(),
            })
            .collect()
    }

    fn ends(&self, which: &[u8], result: u8) -> Vec<FinishedDelivery> {
        let result = match result {
            0 => DeliveryResult::Dead,
            1 => DeliveryResult::Withdrawn,
            2 => DeliveryResult::GivenUp,
            _ => DeliveryResult::Delivered,
        };
        let end = |number: &u8| FinishedDelivery {
            notice: NoticeId(u64::from(*number)),
            result,
            attempts: 1,
            status: 202,
            finished_ms: self.now_ms,
        };
        which.iter().map(end).collect()
    }

    /// POSITION and SETTLEMENT of a party; unused numbers for one outside the scheme.
    pub(super) fn accounts(&self, party: usize) -> (AccountId, AccountId) {
        let found = self.state.registry().find(&name(party));
        let accounts = found.and_then(|(_, participant)| participant.accounts_in(usd()));
        accounts.map_or((AccountId(9_999), AccountId(9_999)), |accounts| {
            (accounts.position, accounts.settlement)
        })
    }
}

/// A request for a quote, or an answer: one of two offers, or an error.
fn quote_command(action: &Action) -> Command {
    match *action {
        Action::Quote { id: number, party, to, body, expires_ms, keep_ms } => {
            Command::RecordQuote(Box::new(RecordQuote {
                quote: id(number),
                transaction: id(number),
                source: name(party),
                destination: name(to),
                expiration_ms: (body == 0).then_some(START_MS + expires_ms),
                keep_until_ms: START_MS + keep_ms,
                hash: digest(&format!("quote {number} {body}")),
                trace: [number; 16],
                request: (body == 1).then(|| id(number)),
            }))
        }
        Action::QuoteAnswer { id: number, party, body } => {
            let terms = digest(&format!("offer {body}"));
            let expiration_ms = START_MS + 30_000 * u64::from(body);
            let offer = QuoteOffer { terms, expiration_ms };
            let is_error = body == 2;
            Command::RecordQuoteAnswer(Box::new(RecordQuoteAnswer {
                quote: id(number),
                source: name(party),
                content: if is_error { QuoteContent::Error } else { QuoteContent::Offer(offer) },
                hash: terms,
                trace: [number; 16],
            }))
        }
        _ => unreachable!("another action"),
    }
}

/// A transaction request, or an answer: each state, or an error.
fn request_command(action: &Action) -> Command {
    let Action::Request { id: number, party, to, body, expires_ms, keep_ms } = *action else {
        unreachable!("another action")
    };
    let answer = |state| {
        let transaction = (state != RequestState::Pending).then(|| id(number));
        RequestStep::Answered(RequestStatus { state, transaction })
    };
    let step = match body {
        0..=1 => RequestStep::Requested(RequestTerms {
            destination: name(to),
            expiration_ms: (body == 0).then_some(START_MS + expires_ms),
            keep_until_ms: START_MS + keep_ms,
        }),
        2..=3 => answer(RequestState::Received),
        4 => answer(RequestState::Pending),
        5 => answer(RequestState::Accepted),
        6 => answer(RequestState::Rejected),
        _ => RequestStep::Failed,
    };
    Command::RecordRequestToPay(Box::new(RecordRequestToPay {
        request: id(number),
        source: name(party),
        step,
        hash: digest(&format!("request {number} {body}")),
        trace: [number; 16],
    }))
}

fn response_command(action: &ResponseAction) -> Command {
    let (source, destination) = (name(action.sender), action.to.map(name));
    let (transfer_id, hash, trace) =
        (id(action.id), digest(&response_body(action)), [action.id; 16]);
    let right = |right| if right { [action.id; 32] } else { [255; 32] };
    let (state, fulfilment) = match action.content {
        ResponseContent::Committed { right: is_right } => {
            (FulfilState::Committed, Fulfilment::Present(right(is_right)))
        }
        ResponseContent::Reserved { right: is_right } => {
            (FulfilState::Reserved, Fulfilment::Present(right(is_right)))
        }
        ResponseContent::ReservedUnderVersion10 => {
            (FulfilState::ReservedUnderVersion10, Fulfilment::Present(right(true)))
        }
        ResponseContent::Aborted => (FulfilState::Aborted, Fulfilment::Absent),
        ResponseContent::Error { known } => {
            return Command::Abort(Box::new(Abort {
                id: transfer_id,
                source,
                destination,
                code_is_known: known,
                hash,
                trace,
            }));
        }
    };
    let id = transfer_id;
    Command::Fulfil(Box::new(Fulfil { id, source, destination, state, fulfilment, hash, trace }))
}

/// One of four sets of kinds that need a second person; the last one is invalid.
fn four_eyes(which: u8) -> Change {
    let [active, limit, funds] = [
        SetParticipantActive::DECLARATION.number,
        SetLimit::DECLARATION.number,
        MoveFunds::DECLARATION.number,
    ];
    let changes = match which % 5 {
        0 | 1 => Vec::new(),
        2 => vec![active, limit],
        3 => vec![active, limit, funds],
        _ => vec![limit, active],
    };
    SetFourEyes { changes }.into()
}

/// A share paid by the payer, a share paid by the payee, or a fixed fee in euros.
fn fee_rule(which: u32) -> FeeRule {
    let share = |parts_per_million| Fee::Percentage {
        parts_per_million,
        decimals: 2,
        rounding: Rounding::HalfUp,
    };
    let (fee, payer, currency) = match which {
        0 => (share(6_000), FeePayer::Payer, Some(usd())),
        1 => (share(11_111), FeePayer::Payee, None),
        _ => (Fee::Fixed { amount: amount(1_500) }, FeePayer::Payer, Currency::parse("EUR")),
    };
    let (name, conditions) = (format!("rule{which}"), FeeConditions::default());
    FeeRule { name, currency, conditions, fee, payer, active: true }
}

pub(super) fn administer(change: Change) -> Command {
    let (actor, reason) = ("operator".to_owned(), String::new());
    Command::Administer(Box::new(Administer { actor, reason, change }))
}

fn amount(units: i64) -> Amount {
    Amount::from_units(i128::from(units))
}

fn digest(text: &str) -> Digest {
    Digest(*blake3::hash(text.as_bytes()).as_bytes())
}
