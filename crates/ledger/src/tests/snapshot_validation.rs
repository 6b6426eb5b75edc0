//! Invalid parts of a state are rejected with their reason, and values at a bound are accepted.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use expect_test::expect;

use super::history::{
    Action, CAP, PrepareAction, ResponseAction, ResponseContent, SettleAction, TestKernel,
    administer, id, name, usd,
};
use super::snapshot::rows;
use crate::snapshot::{
    InvalidState, NodeTail, Outflow, ReservedTransfer, StateBuilder, StateHeader,
};
use crate::state::NODES_MAX;
use crate::*;

const MISSING_ACCOUNT: &str = "a row refers to a missing account";
const MISSING_PARTICIPANT: &str = "a row refers to a missing participant";
const TOO_LARGE: &str = "a sum exceeds the range of the ledger";
const NEWER: &str = "a transfer is newer than the state";
const TWICE: &str = "a transfer occurs twice";
const TOO_MANY: &str = "a table has too many rows";
const RESERVED: &str = "an internal account differs from the sum of its reservations";
const UNORDERED: &str = "transfers in flight are not in order of prepare";
const SHARED: &str = "transfers in flight share a prepare without a bulk";
const TOO_MUCH: &str = "a participant occurs twice, or has too many entries";

type Corruption = fn(&mut CorruptibleTables);

/// Corrupts the same state in each way, and checks the reason.
#[track_caller]
fn check_rejected(state: &State, cases: &[(&'static str, Corruption)]) {
    for (at, (expected, corrupt)) in cases.iter().enumerate() {
        let mut tables = CorruptibleTables::of(state);
        corrupt(&mut tables);
        assert_eq!(tables.build().err(), Some(InvalidState(expected)), "case {at}");
    }
    let again = CorruptibleTables::of(state).build().expect("the parts of a state make one");
    assert_eq!(again.hash(), state.hash());
}

#[test]
fn error_displays_its_reason() {
    assert_eq!(format!("{}", InvalidState(NEWER)), NEWER);
}

#[test]
fn invalid_headers_are_rejected() {
    const NUMBER: &str = "a number in the state header is out of range";
    let cases: [(&str, Corruption); 27] = [
        ("the state needs newer rules than this program supports", |it| {
            it.head.rules_version = RULES_VERSION + 1;
        }),
        (NUMBER, |it| it.head.counters.reserved = 1 << 63),
        (NUMBER, |it| it.head.counters.refused = 1 << 63),
        (NUMBER, |it| it.head.counters.committed = 1 << 63),
        (NUMBER, |it| it.head.counters.aborted = 1 << 63),
        (NUMBER, |it| it.head.counters.expired = 1 << 63),
        (NUMBER, |it| it.head.counters.delivered = 1 << 63),
        (NUMBER, |it| it.head.counters.given_up = 1 << 63),
        (NUMBER, |it| it.head.nodes[0].sequence = 1 << 63),
        (NUMBER, |it| it.head.nodes[0].epoch = 1 << 31),
        (NUMBER, |it| it.head.last_oracle = OracleId(1 << 31)),
        (NUMBER, |it| it.head.log_index = LogIndex(1 << 63)),
        (NUMBER, |it| it.head.stamp = Stamp(1 << 63)),
        (NUMBER, |it| it.head.batches = 1 << 63),
        (NUMBER, |it| it.head.last_notice = NoticeId(1 << 63)),
        (NUMBER, |it| it.head.evicted.rows = 1 << 63),
        (NUMBER, |it| it.head.alerts.last = AlertId(1 << 63)),
        (NUMBER, |it| it.head.alerts.dropped = 1 << 63),
        (NUMBER, |it| it.head.settlement.window = WindowId(1 << 31)),
        (NUMBER, |it| it.head.settlement.content = ContentId(1 << 31)),
        (NUMBER, |it| it.head.settlement.settlement = SettlementId(1 << 31)),
        (NUMBER, |it| it.head.settlement.archived_windows.rows = 1 << 63),
        (NUMBER, |it| it.head.settlement.archived_settlements.rows = 1 << 63),
        ("the open window does not fit the rules in force", |it| it.head.rules_version = 1),
        ("the list of nodes has duplicates or too many entries", |it| {
            it.head.nodes.extend(it.head.nodes.clone())
        }),
        ("the list of nodes has duplicates or too many entries", |it| {
            it.head.nodes = nodes(NODES_MAX as u32 + 1)
        }),
        ("the hub is not the first participant", |it| it.head.hub = name(0)),
    ];
    check_rejected(&state_with_rows_in_each_table(), &cases);
    let empty: [(&str, Corruption); 2] = [
        ("the hub is not the first participant", |it| it.head.log_index = LogIndex(1)),
        ("an oracle has an invalid number", |it| it.oracles = oracles(1)),
    ];
    check_rejected(&State::new(), &empty);
}

fn nodes(count: u32) -> Vec<NodeTail> {
    (0..count).map(|node| NodeTail { node, epoch: 1, sequence: 1 }).collect()
}

/// A state with an own bilateral model, two windows in a settlement, and sums in the open window.
fn settling() -> State {
    let mut kernel = TestKernel::new();
    let content = ResponseContent::Committed { right: true };
    let action = |kernel: &mut TestKernel, action: Action| {
        let command = kernel.command(&action);
        assert_eq!(kernel.apply(&[command]).outcomes.len(), 1, "{action:?}");
    };
    action(&mut kernel, Action::Settle(SettleAction::Model { which: 1 }));
    for round in 0..3 {
        for (id, payer, payee) in [(2 * round, 0, 1), (2 * round + 1, 1, 2)] {
            let (units, expires_ms) = (100_000, 60_000);
            action(
                &mut kernel,
                Action::Prepare(PrepareAction {
                    id,
                    source: payer,
                    payer,
                    payee,
                    units,
                    expires_ms,
                    fee_rule: None,
                    offer: None,
                }),
            );
            action(
                &mut kernel,
                Action::Response(ResponseAction { id, sender: payee, to: None, content, body: 0 }),
            );
        }
        if round < 2 {
            action(&mut kernel, Action::Settle(SettleAction::Close));
        }
    }
    action(&mut kernel, Action::Settle(SettleAction::Create { windows: 2 }));
    action(&mut kernel, Action::Settle(SettleAction::Advance { accounts: 1, skips: false }));
    let pieces = CorruptibleTables::of(&kernel.state);
    assert_eq!((pieces.windows.len(), pieces.sums.len(), pieces.pairs.len()), (3, 9, 6));
    assert_eq!((pieces.settlements.len(), pieces.settling.len()), (1, 3));
    kernel.state
}

#[test]
fn invalid_windows_and_settlements_are_rejected() {
    const ORDER: &str = "windows or settlements are out of order";
    const NUMBERS: &str = "the numbers of windows or settlements do not fit";
    const STRAY: &str = "a row belongs to no window or settlement";
    const CONTENTS: &str = "the contents of a window do not fit its sums";
    const DOUBLE: &str = "a window has two sums of an account";
    let cases: [(&str, Corruption); 25] = [
        (ORDER, |it| it.windows.swap(0, 1)),
        (NUMBERS, |it| it.windows[0].state = WindowState::Open),
        (NUMBERS, |it| it.windows[2].state = WindowState::Closed),
        (NUMBERS, |it| it.head.settlement.window = WindowId(4)),
        (NUMBERS, |it| it.head.settlement.archived_windows.rows = 1),
        (NUMBERS, |it| it.head.settlement.archived_settlements.rows = 1),
        (NUMBERS, |it| it.head.settlement.settlement = SettlementId(2)),
        (NUMBERS, |it| it.windows[0].contents[0].id = ContentId(9)),
        (NUMBERS, |it| it.windows[0].contents[0].id = ContentId(0)),
        (NUMBERS, |it| it.windows[0].contents[0].id = ContentId(2)),
        (STRAY, |it| it.sums.push((WindowId(9), it.sums[0].1))),
        (STRAY, |it| it.pairs.push((WindowId(9), it.pairs[0].1))),
        (STRAY, |it| it.settling[0].0 = SettlementId(2)),
        (STRAY, |it| it.windows[0].contents[0].settlement = None),
        (STRAY, |it| it.windows[0].contents[0].settlement = Some(SettlementId(7))),
        (DOUBLE, |it| it.sums.push(it.sums[0])),
        (DOUBLE, |it| it.sums.push(it.sums[8])),
        (MISSING_ACCOUNT, |it| it.sums[0].1.account = AccountId(99)),
        ("a sum of a window is negative", |it| it.sums[0].1.paid = -it.sums[0].1.paid),
        ("the nets of a window do not sum to zero", |it| it.sums[0].1.paid = Amount::ZERO),
        ("a pair of a window has no sums", |it| it.pairs[0].1.payer = AccountId(1)),
        ("a window has a pair twice", |it| it.pairs.push(it.pairs[5])),
        (CONTENTS, |it| it.windows[0].contents[0].currency = eur()),
        (ORDER, |it| it.settling.swap(0, 1)),
        ("a settlement has an unknown model", |it| it.settlements[0].model = "NONE".to_owned()),
    ];
    check_rejected(&settling(), &cases);
    let more: [(&str, Corruption); 3] = [
        (ORDER, |it| it.settlements.push(it.settlements[0].clone())),
        (MISSING_ACCOUNT, |it| it.settling[2].1.account = AccountId(99)),
        ("a settlement lacks an account of its windows", |it| it.settling.truncate(2)),
    ];
    check_rejected(&settling(), &more);
}

#[test]
fn invalid_alerts_are_rejected() {
    const NUMBER: &str = "an alert has an invalid number";
    const ORDER: &str = "alarms are out of order";
    let mut kernel = TestKernel::new();
    for party in 0..2 {
        let cap = kernel.command(&Action::Cap { party, units: CAP });
        kernel.apply(&[cap]);
        let (id, units, expires_ms) = (party as u8, CAP, 60_000);
        let prepare = PrepareAction {
            id,
            source: party,
            payer: party,
            payee: 2,
            units,
            expires_ms,
            fee_rule: None,
            offer: None,
        };
        let commands = [kernel.command(&Action::Prepare(prepare))];
        assert_eq!(kernel.apply(&commands).outcomes, [Outcome::PrepareReserved]);
        kernel.administer(CheckLiquidity { name: name(party), currency: usd() }.into());
    }
    let cases: [(&str, Corruption); 6] = [
        (NUMBER, |it| it.alerts[0].id = it.alerts[1].id),
        (NUMBER, |it| it.head.alerts.last = AlertId(3)),
        (MISSING_PARTICIPANT, |it| it.alerts[0].participant = ParticipantIndex(9)),
        (ORDER, |it| it.alarms.swap(0, 1)),
        (ORDER, |it| it.alarms[1] = it.alarms[0]),
        (MISSING_PARTICIPANT, |it| it.alarms[0].participant = ParticipantIndex(9)),
    ];
    check_rejected(&kernel.state, &cases);
}

/// Two rules, two transfers in flight with fees between different participants, and a third one
/// without a fee.
fn charging() -> State {
    let mut kernel = TestKernel::new();
    let prepare = |id, payer, payee, fee_rule| {
        let (source, units, expires_ms) = (payer, 100_000, 60_000);
        Action::Prepare(PrepareAction {
            id,
            source,
            payer,
            payee,
            units,
            expires_ms,
            fee_rule,
            offer: None,
        })
    };
    for action in [
        Action::Settle(SettleAction::Model { which: 3 }),
        Action::Settle(SettleAction::FeeRule { which: 0 }),
        Action::Settle(SettleAction::FeeRule { which: 1 }),
        prepare(1, 0, 1, Some(1)),
        prepare(2, 1, 2, Some(2)),
        prepare(3, 0, 2, None),
    ] {
        let command = kernel.command(&action);
        kernel.apply(&[command]);
    }
    let tables = CorruptibleTables::of(&kernel.state);
    let ids: Vec<_> = tables.fees.iter().map(|(id, _)| *id).collect();
    assert_eq!((tables.fee_rules.len(), tables.reserved.len()), (2, 3));
    assert_eq!(ids, [id(1), id(2)]);
    kernel.state
}

#[test]
fn invalid_fees_are_rejected() {
    const STRAY: &str = "a fee belongs to no transfer in flight";
    const ORDER: &str = "fees are out of order";
    const UNFIT: &str = "a fee does not fit its transfer";
    let cases: [(&str, Corruption); 17] = [
        ("two fee rules have one name", |it| it.fee_rules.push(it.fee_rules[0].clone())),
        (TOO_MANY, |it| {
            let rule = |number| FeeRule { name: format!("{number}"), ..it.fee_rules[0].clone() };
            it.fee_rules = (0..=FEE_RULES_MAX).map(rule).collect();
        }),
        (STRAY, |it| it.fees[1].0 = id(9)),
        (ORDER, |it| it.fees.swap(0, 1)),
        (ORDER, |it| it.fees[1] = it.fees[0]),
        (MISSING_ACCOUNT, |it| it.fees[0].1.from = AccountId(99)),
        (MISSING_ACCOUNT, |it| it.fees[0].1.to = AccountId(0)),
        (MISSING_ACCOUNT, |it| it.fees[0].1.from = it.reserved[0].payer_account),
        (MISSING_ACCOUNT, |it| {
            let from = it.fees[0].1.from;
            let account = it.accounts.iter_mut().find(|account| account.id == from);
            account.expect("it exists").kind = AccountKind::HubFee;
        }),
        (UNFIT, |it| it.fees[0].1.to = it.fees[0].1.from),
        (UNFIT, |it| it.fees[0].1.to = it.fees[1].1.to.max(it.fees[1].1.from)),
        (UNFIT, |it| it.fees[1].0 = id(3)),
        (UNFIT, |it| it.fees[0].1.rule = FeeRuleId(0)),
        (UNFIT, |it| it.fees[0].1.rule = FeeRuleId(3)),
        (UNFIT, |it| it.fee_rules.truncate(1)),
        (UNFIT, |it| it.fees[0].1.amount = Amount::ZERO),
        (UNFIT, |it| it.fees[0].1.amount = Amount::from_units(-1)),
    ];
    check_rejected(&charging(), &cases);
    let mut most = CorruptibleTables::of(&charging());
    let spare = most.fee_rules[0].clone();
    let more =
        (2..FEE_RULES_MAX).map(|number| FeeRule { name: format!("{number}"), ..spare.clone() });
    most.fee_rules.extend(more);
    assert_eq!(most.build().expect("as many as fit").fees().rules().len(), FEE_RULES_MAX);
}

#[test]
fn fee_rules_need_their_rules_version() {
    let mut tables = CorruptibleTables::of(&TestKernel::new().state);
    tables.fee_rules = CorruptibleTables::of(&charging()).fee_rules;
    tables.head.rules_version = 2;
    let expected = InvalidState("the fee rules do not fit the rules in force");
    assert_eq!(tables.build().err(), Some(expected));
}

/// A state with two roles, two operators and two tokens.
fn operated() -> State {
    let mut kernel = TestKernel::new();
    for name in ["anna", "bert"] {
        let permissions = vec!["read".to_owned()];
        kernel.administer(SetRole { role: OperatorRole { name: name.into(), permissions } }.into());
        let roles = vec![name.to_owned()];
        kernel.administer(SetOperator { name: name.into(), roles, active: true }.into());
    }
    for id in [1, 2] {
        let token = CreateToken {
            id: OperatorTokenId(id),
            operator: "anna".into(),
            roles: Vec::new(),
            hash: Digest([7; 32]),
            description: String::new(),
            expires: Stamp(1),
        };
        kernel.administer(token.into());
    }
    kernel.state
}

#[test]
fn invalid_operators_are_rejected() {
    let cases: [(&str, Corruption); 11] = [
        ("roles are out of order", |it| it.roles.swap(0, 1)),
        ("roles are out of order", |it| it.roles[1] = it.roles[0].clone()),
        ("operators are out of order", |it| it.operators.swap(0, 1)),
        ("operators are out of order", |it| it.operators[1] = it.operators[0].clone()),
        ("an operator has too many generations", |it| it.operators[0].generation = 1 << 31),
        ("tokens are out of order", |it| it.tokens.swap(0, 1)),
        ("tokens are out of order", |it| it.tokens[1] = it.tokens[0].clone()),
        ("a token belongs to no operator", |it| it.tokens[0].operator = "clara".into()),
        (TOO_MANY, |it| it.fill_roles(ROLES_MAX + 1)),
        (TOO_MANY, |it| it.fill_operators(OPERATORS_MAX + 1)),
        (TOO_MANY, |it| it.fill_tokens(TOKENS_MAX + 1)),
    ];
    let state = operated();
    check_rejected(&state, &cases);
    let mut most = CorruptibleTables::of(&state);
    most.fill_roles(ROLES_MAX);
    most.fill_operators(OPERATORS_MAX);
    most.fill_tokens(TOKENS_MAX);
    most.operators[0].generation = (1 << 31) - 1;
    let built = most.build().expect("as many as fit");
    let book = built.operators();
    let counts = (book.roles().count(), book.operators().count(), book.tokens().count());
    assert_eq!(counts, (ROLES_MAX, OPERATORS_MAX, TOKENS_MAX));
}

#[test]
fn operators_need_their_rules_version() {
    let mut tables = CorruptibleTables::of(&operated());
    tables.head.rules_version = 3;
    let expected = InvalidState("the operators do not fit the rules in force");
    assert_eq!(tables.build().err(), Some(expected));
}

/// Two listed kinds, an open proposal and a rejected one.
fn proposing() -> State {
    let mut kernel = TestKernel::new();
    let propose = |active| Propose {
        by: "amina".to_owned(),
        reason: "audit".to_owned(),
        request: "PUT /participants/dfsp1".to_owned(),
        seconds: 60,
        change: Arc::new(SetParticipantActive { name: name(0), active }.into()),
    };
    let declared = [SetParticipantActive::DECLARATION, SetLimit::DECLARATION];
    let by = "benta".to_owned();
    let reject = RejectProposal { proposal: ProposalId(1), by, reason: "no".to_owned() };
    for change in [
        SetFourEyes { changes: declared.map(|it| it.number).to_vec() }.into(),
        propose(false).into(),
        propose(true).into(),
        reject.into(),
    ] {
        kernel.administer(change);
    }
    kernel.state
}

#[test]
fn invalid_proposals_are_rejected() {
    const LIST: &str = "the list of four eyes is invalid";
    const NUMBER: &str = "a proposal has an invalid number";
    let cases: [(&str, Corruption); 12] = [
        (LIST, |it| it.four_eyes[0].changes.reverse()),
        (LIST, |it| it.four_eyes[0].changes.push(10)),
        (LIST, |it| it.four_eyes[0].changes.push(Propose::DECLARATION.number)),
        (LIST, |it| it.four_eyes[0].changes.push(255)),
        (LIST, |it| it.four_eyes[0].last_proposal = ProposalId(1 << 31)),
        (TOO_MANY, |it| it.four_eyes.push(it.four_eyes[0].clone())),
        (NUMBER, |it| it.four_eyes.clear()),
        (NUMBER, |it| it.proposals.swap(0, 1)),
        (NUMBER, |it| it.proposals[1].id = ProposalId(3)),
        (NEWER, |it| it.proposals[1].record = LogIndex(1_000)),
        (NEWER, |it| {
            let decision = it.proposals[0].decision.as_mut();
            decision.expect("it was rejected").record = LogIndex(1_000);
        }),
        ("a proposed change is too large", |it| {
            let step = AccountStep {
                participant: 1,
                account: AccountId(1),
                state: SettlementState::Settled,
                reason: "x".repeat(65_000),
                external_reference: String::new(),
            };
            let steps = vec![step; 17];
            let large = AdvanceSettlement { settlement: SettlementId(1), steps };
            it.proposals[1].change = Arc::new(large.into());
        }),
    ];
    check_rejected(&proposing(), &cases);
    let sound = CorruptibleTables::of(&proposing()).build().expect("it is sound");
    assert_eq!((sound.proposals(), sound.hash()), (proposing().proposals(), proposing().hash()));
}

#[test]
fn proposals_need_their_rules_version() {
    let mut tables = CorruptibleTables::of(&TestKernel::new().state);
    tables.four_eyes = CorruptibleTables::of(&proposing()).four_eyes;
    tables.head.rules_version = 3;
    let expected = InvalidState("the proposals do not fit the rules in force");
    assert_eq!(tables.build().err(), Some(expected));
}

/// An enrolment with a certificate, and an open one.
fn enrolling() -> State {
    let mut kernel = TestKernel::new();
    for csr in [b"a", b"b"] {
        kernel.administer(BeginEnrolment { name: name(0), csr: csr.to_vec() }.into());
    }
    let enrolment = kernel.state.enrolments().iter().next().expect("there are two").id;
    let certificate = Some(b"certificate".to_vec());
    kernel.administer(EndEnrolment { name: name(0), enrolment, certificate }.into());
    kernel.state
}

#[test]
fn invalid_enrolments_are_rejected() {
    let cases: [(&str, Corruption); 6] = [
        ("enrolments are out of order", |it| it.enrolments.swap(0, 1)),
        ("enrolments are out of order", |it| it.enrolments[1] = it.enrolments[0].clone()),
        ("an enrolment belongs to no participant", |it| it.enrolments[0].name = name(3)),
        (NEWER, |it| it.enrolments[1].id = LogIndex(1_000)),
        (NEWER, |it| {
            it.enrolments[0].end.as_mut().expect("it has ended").record = LogIndex(1_000);
        }),
        (TOO_MANY, |it| {
            it.head.log_index = LogIndex(20_000);
            it.fill_enrolments(ENROLMENTS_MAX + 1);
        }),
    ];
    check_rejected(&enrolling(), &cases);
    let mut most = CorruptibleTables::of(&enrolling());
    most.head.log_index = LogIndex(20_000);
    most.fill_enrolments(ENROLMENTS_MAX);
    let built = most.build().expect("as many as fit");
    assert_eq!(built.enrolments().iter().count(), ENROLMENTS_MAX);
}

#[test]
fn enrolments_need_their_rules_version() {
    let mut tables = CorruptibleTables::of(&enrolling());
    tables.head.rules_version = 3;
    let expected = InvalidState("the enrolments do not fit the rules in force");
    assert_eq!(tables.build().err(), Some(expected));
}

#[test]
fn invalid_accounts_are_rejected() {
    const INTERNAL: &str = "a currency has missing internal accounts";
    const ONCE: &str = "a currency has duplicate internal accounts";
    let cases: [(&str, Corruption); 14] = [
        (MISSING_PARTICIPANT, |it| it.accounts[3].owner = ParticipantIndex(4)),
        (TOO_MANY, |it| {
            it.accounts.resize(ACCOUNTS_MAX + 1, it.accounts[3].clone());
        }),
        ("accounts are not numbered from 1 without gaps", |it| it.accounts[3].id = AccountId(5)),
        (ONCE, |it| it.accounts[3].kind = AccountKind::InFlight),
        (ONCE, |it| it.accounts[3].currency = eur()),
        (INTERNAL, |it| it.accounts[1].kind = AccountKind::HubFee),
        (INTERNAL, |it| it.accounts[2].kind = AccountKind::HubFee),
        (INTERNAL, |it| it.accounts[1].currency = eur()),
        (INTERNAL, |it| it.accounts[2].currency = eur()),
        (INTERNAL, |it| it.accounts[0].owner = ParticipantIndex(1)),
        (INTERNAL, |it| it.accounts[2].owner = ParticipantIndex(1)),
        (INTERNAL, |it| it.accounts.truncate(2)),
        ("a currency exceeds the range of the ledger", |it| {
            it.accounts[3].value = LARGEST;
            it.accounts[4].value = LARGEST;
        }),
        ("the accounts of a currency do not sum to zero", |it| {
            it.accounts[4].value = Amount::from_units(1);
        }),
    ];
    check_rejected(&TestKernel::new().state, &cases);
}

#[test]
fn invalid_participants_are_rejected() {
    let cases: [(&str, Corruption); 17] = [
        (MISSING_ACCOUNT, |it| it.participants.swap(1, 2)),
        (MISSING_ACCOUNT, |it| it.participants[1].accounts.push(AccountId(8))),
        (MISSING_ACCOUNT, |it| it.participants[1].accounts.push(AccountId(0))),
        (MISSING_ACCOUNT, |it| {
            it.participants[1].by_currency[0].position = it.participants[2].by_currency[0].position;
        }),
        (MISSING_ACCOUNT, |it| {
            it.participants[1].by_currency[0].settlement =
                it.participants[2].by_currency[0].settlement;
        }),
        (MISSING_ACCOUNT, |it| {
            it.participants[1].by_currency[0].position =
                it.participants[1].by_currency[0].settlement;
        }),
        (MISSING_ACCOUNT, |it| {
            it.participants[1].by_currency[0].settlement =
                it.participants[1].by_currency[0].position;
        }),
        (MISSING_ACCOUNT, |it| it.participants[1].by_currency[0].currency = eur()),
        ("the hub is not the first participant", |it| {
            it.participants[0].name = FspName::new("Bub").expect("a name");
        }),
        (TOO_MUCH, |it| it.participants[1].name = it.participants[2].name),
        (TOO_MUCH, |it| it.participants[2].name = FspName::new("ALFA").expect("a name")),
        (TOO_MUCH, |it| it.participants[2].endpoints = endpoints(ENDPOINTS_MAX + 1)),
        (TOO_MUCH, |it| it.participants[2].keys = keys(KEYS_MAX + 1, 1)),
        (TOO_MUCH, |it| it.participants[2].keys = keys(1, KEY_BYTES_MAX + 1)),
        (TOO_MANY, |it| it.fill_participants(PARTICIPANTS_MAX + 1)),
        (TOO_MANY, |it| {
            it.models.resize(SETTLEMENT_MODELS_MAX + 1, it.models[0].clone());
        }),
        (TOO_MANY, |it| {
            it.account_types = account_types(LEDGER_ACCOUNT_TYPES_MAX + 1);
        }),
    ];
    check_rejected(&TestKernel::new().state, &cases);
}

/// The number of a deleted oracle is not reused.
#[test]
fn oracles_and_account_types_round_trip() {
    let mut tables = CorruptibleTables::of(&state_with_rows_in_each_table());
    tables.with_oracles(2).head.last_oracle = OracleId(7);
    tables.account_types = account_types(3);
    let state = tables.build().expect("the newest oracle may be gone");
    assert_eq!(state.registry().last_oracle(), OracleId(7));
    let again = CorruptibleTables::of(&state);
    assert_eq!((again.oracles, again.account_types), (oracles(2), account_types(3)));
}

#[test]
fn invalid_oracles_are_rejected() {
    const NUMBER: &str = "an oracle has an invalid number";
    let cases: [(&str, Corruption); 4] = [
        (NUMBER, |it| it.with_oracles(2).oracles.swap(0, 1)),
        (NUMBER, |it| it.with_oracles(2).oracles[1].0 = OracleId(1)),
        (NUMBER, |it| it.with_oracles(2).head.last_oracle = OracleId(1)),
        (TOO_MANY, |it| {
            it.with_oracles(ORACLES_MAX + 1);
        }),
    ];
    check_rejected(&TestKernel::new().state, &cases);
}

#[test]
fn invalid_transfers_are_rejected() {
    let cases: [(&str, Corruption); 22] = [
        (NEWER, |it| it.reserved[0].prepare.0 = it.head.log_index.0 + 1),
        (UNORDERED, |it| it.reserved.swap(0, 1)),
        (SHARED, |it| it.reserved[1].prepare = it.reserved[0].prepare),
        (MISSING_PARTICIPANT, |it| it.reserved[0].payer = ParticipantIndex(4)),
        (MISSING_PARTICIPANT, |it| it.reserved[0].payee = ParticipantIndex(4)),
        (MISSING_ACCOUNT, |it| it.reserved[0].payer_account = AccountId(0)),
        (MISSING_ACCOUNT, |it| it.reserved[0].payer_account = it.reserved[0].payee_account),
        (MISSING_ACCOUNT, |it| it.reserved[0].payer_account = AccountId(7)),
        (MISSING_ACCOUNT, |it| it.reserved[0].payee_account = AccountId(9_999)),
        (MISSING_ACCOUNT, |it| it.accounts[5].id = AccountId(60)),
        ("a transfer has accounts in two currencies", |it| it.accounts[7].currency = eur()),
        (TWICE, |it| it.reserved[1].id = it.reserved[0].id),
        (TOO_LARGE, |it| (it.reserved[0].amount, it.reserved[1].amount) = (LARGEST, LARGEST)),
        (TOO_LARGE, |it| {
            it.reserved[1].amount = Amount::ZERO;
            (it.reserved[0].amount, it.reserved[2].amount) = (LARGEST, LARGEST);
        }),
        (RESERVED, |it| it.reserved[0].amount = Amount::from_units(1)),
        (NEWER, |it| it.final_rows[0].prepare.0 = it.head.log_index.0 + 1),
        (NEWER, |it| it.final_rows[0].changed.0 = it.head.log_index.0 + 1),
        (MISSING_PARTICIPANT, |it| it.final_rows[0].payer = Some(ParticipantIndex(4))),
        (MISSING_PARTICIPANT, |it| it.final_rows[0].payee = Some(ParticipantIndex(4))),
        (TWICE, |it| it.final_rows[0].id = it.reserved[0].id),
        (TWICE, |it| it.final_rows[0].id = it.final_rows[1].id),
        (TWICE, |it| it.final_rows[0].id = it.outflows[0].0),
    ];
    check_rejected(&state_with_rows_in_each_table(), &cases);
}

#[test]
fn invalid_outflows_are_rejected() {
    let cases: [(&str, Corruption); 7] = [
        (NEWER, |it| it.outflows[0].1.record.0 = it.head.log_index.0 + 1),
        (MISSING_ACCOUNT, |it| it.outflows[0].1.settlement = AccountId(1)),
        (MISSING_ACCOUNT, |it| it.outflows[0].1.participant = ParticipantIndex(1)),
        (MISSING_PARTICIPANT, |it| {
            let outflow = &mut it.outflows[0].1;
            outflow.participant = ParticipantIndex(4);
            it.accounts[outflow.settlement.0 as usize - 1].owner = ParticipantIndex(4);
        }),
        (TWICE, |it| it.outflows[0].0 = it.reserved[0].id),
        (TOO_LARGE, |it| {
            it.outflows[0].1.amount = LARGEST;
            it.outflows.push((id(99), it.outflows[0].1.clone()));
        }),
        (RESERVED, |it| it.outflows[0].1.amount = Amount::from_units(1)),
    ];
    check_rejected(&state_with_rows_in_each_table(), &cases);
}

#[test]
fn invalid_notices_are_rejected() {
    const NEVER: &str = "a notice has a number above the newest one";
    const ORDER: &str = "notices are not in order of number";
    const OTHER: &str = "a dead letter has the number of another notice";
    let cases: [(&str, Corruption); 10] = [
        (MISSING_PARTICIPANT, |it| it.notices[0].recipient = ParticipantIndex(4)),
        (NEVER, |it| it.notices[0].id.0 = it.head.last_notice.0 + 1),
        (ORDER, |it| it.notices.swap(0, 1)),
        (ORDER, |it| it.notices[1].id = it.notices[0].id),
        (MISSING_PARTICIPANT, |it| it.dead[0].notice.recipient = ParticipantIndex(4)),
        (NEVER, |it| it.dead[0].notice.id.0 = it.head.last_notice.0 + 1),
        (OTHER, |it| {
            it.dead[0].notice.id = it.notices[0].id;
            it.dead[0].end.notice = it.notices[0].id;
        }),
        (OTHER, |it| it.dead.swap(0, 1)),
        (OTHER, |it| it.dead[1] = it.dead[0]),
        (OTHER, |it| it.dead[0].end.notice.0 += 1),
    ];
    check_rejected(&state_with_rows_in_each_table(), &cases);
}

/// If these digests change, existing logs no longer replay to the same state.
#[test]
fn state_hashes_are_golden() {
    let state = state_with_rows_in_each_table();
    let hashes = state.hashes();
    let StateHeader { log_index, batches, counters, nodes, last_notice, .. } =
        state.tables().header();
    let text = format!(
        "{log_index:?} {batches} {last_notice:?}\n{nodes:?}\n{counters:?}\n{}\n{}\n{}\n",
        state.digest(),
        hashes.state,
        hashes.content
    );
    expect![[r#"
        LogIndex(19) 19 NoticeId(6)
        [NodeTail { node: 1, epoch: 1, sequence: 19 }]
        Counters { reserved: 4, refused: 0, committed: 1, aborted: 0, expired: 0, delivered: 0, given_up: 0 }
        c983a4d0106ca6c302d0e6aae1f9cf4640b1f8330c0077f9ac4635a7a2ab98c7
        aa8373d69de507b1c86d01756b57057d4f19007b27467e92426266e21d811417
        6543e3df8c1b5a0a3ccbd344bc31281463599aca25bdcd499ddf03c59ff04426
    "#]]
    .assert_eq(&text);
}

/// Every value at its bound.
#[test]
fn values_at_their_bounds_are_accepted() {
    let mut tables = CorruptibleTables::of(&state_with_rows_in_each_table());
    let head = &mut tables.head;
    let most = (1 << 63) - 1;
    let counters = &mut head.counters;
    (counters.reserved, counters.refused, counters.committed) = (most, most, most);
    (counters.aborted, counters.expired, counters.delivered) = (most, most, most);
    counters.given_up = most;
    (head.log_index, head.stamp, head.batches) = (LogIndex(most), Stamp(most), most);
    (head.last_notice, head.evicted.rows) = (NoticeId(most), most);
    head.nodes = nodes(NODES_MAX as u32);
    // The node has left the log.
    (head.nodes[0].epoch, head.nodes[0].sequence) = ((1 << 31) - 1, u64::MAX);
    tables.models.resize(SETTLEMENT_MODELS_MAX, tables.models[0].clone());
    tables.account_types = account_types(LEDGER_ACCOUNT_TYPES_MAX);
    tables.participants[1].endpoints = endpoints(ENDPOINTS_MAX);
    tables.participants[1].keys = keys(KEYS_MAX, KEY_BYTES_MAX);
    tables.fill_participants(PARTICIPANTS_MAX);
    tables.with_oracles(ORACLES_MAX).head.last_oracle = OracleId((1 << 31) - 1);
    let more = Account { value: Amount::ZERO, ..tables.accounts[3].clone() };
    tables.accounts.resize(ACCOUNTS_MAX, more);
    let numbered = tables.accounts.iter_mut().zip(1..);
    numbered.for_each(|(account, number)| account.id = AccountId(number));
    let state = tables.build().expect("nothing is beyond its bound");
    assert!(!state.has_room_for_a_node() && !state.accounts().has_room_for(1));
    assert!(state.accounts().has_room_for(0));
    assert_eq!(state.registry().len(), PARTICIPANTS_MAX);
}

#[test]
fn room_for_nodes_ends_at_the_bound() {
    for (count, has_room) in [(0, true), (NODES_MAX - 1, true), (NODES_MAX, false)] {
        let mut tables = CorruptibleTables::of(&state_with_rows_in_each_table());
        tables.head.nodes = nodes(count as u32);
        let state = tables.build().expect("the number of nodes is within its bound");
        assert_eq!(state.has_room_for_a_node(), has_room, "{count}");
    }
}

/// A state is decided by the rules that it was stored under, including older ones.
#[test]
fn restored_state_keeps_its_rules_version() {
    for rules_version in [0, RULES_VERSION] {
        let mut tables = CorruptibleTables::of(&state_with_rows_in_each_table());
        tables.head.rules_version = rules_version;
        if rules_version == 0 {
            // Older rules know no windows.
            tables.head.settlement = SettlementNumbers::default();
            tables.windows.clear();
            tables.sums.clear();
        }
        let state = tables.build().expect("older rules are known");
        assert_eq!(state.rules_version(), rules_version);
    }
}

#[test]
fn full_registry_refuses() {
    let mut kernel = TestKernel::new();
    let mut tables = CorruptibleTables::of(&kernel.state);
    tables.fill_accounts(ACCOUNTS_MAX - 3);
    tables.models.resize(SETTLEMENT_MODELS_MAX, tables.models[0].clone());
    tables.account_types = account_types(LEDGER_ACCOUNT_TYPES_MAX);
    tables.with_oracles(ORACLES_MAX);
    let (model, oracle) = (tables.models[0].clone(), tables.oracles[0].1.clone());
    kernel.state = tables.build().expect("nothing is beyond its bound");
    let (currency, kind) = (usd(), AccountKind::HubFee);
    let name = FspName::new("late").expect("a name");
    for change in [
        CreateHubAccount { currency, kind }.into(),
        CreateParticipant { name, currency }.into(),
        CreateOracle { oracle: Oracle { id_type: "EMAIL".to_owned(), ..oracle } }.into(),
        Change::CreateSettlementModel(CreateSettlementModel {
            model: SettlementModel { name: "LATE".to_owned(), ..model },
        }),
        Change::CreateLedgerAccountType(CreateLedgerAccountType {
            account_type: LedgerAccountType {
                name: "LATE".to_owned(),
                ..account_types(1)[0].clone()
            },
        }),
    ] {
        let said = format!("{change:?}");
        assert_eq!(kernel.apply(&[administer(change)]).outcomes, [Outcome::RegistryFull], "{said}");
    }
}

/// A participant gets two accounts for each model that serves its currency.
#[test]
fn last_accounts_are_assigned() {
    for (count, outcome) in [(2, Outcome::Accepted), (1, Outcome::RegistryFull)] {
        let mut kernel = TestKernel::new();
        let mut tables = CorruptibleTables::of(&kernel.state);
        tables.fill_accounts(ACCOUNTS_MAX - count);
        kernel.state = tables.build().expect("nothing is beyond its bound");
        let name = FspName::new("late").expect("a name");
        let change = CreateParticipant { name, currency: usd() }.into();
        assert_eq!(kernel.apply(&[administer(change)]).outcomes, [outcome], "{count} are left");
    }
}

/// A participant needs POSITION and SETTLEMENT from a model, and the hub's own accounts.
#[test]
fn participant_needs_both_account_kinds() {
    let cases: [(Outcome, Corruption); 4] = [
        (Outcome::SettlementModelMissing, |it| {
            it.models[0].settlement_account = AccountKind::Position;
        }),
        (Outcome::SettlementModelMissing, |it| {
            it.models[0].ledger_account = AccountKind::Settlement;
        }),
        (Outcome::HubAccountsMissing, |it| it.accounts[3].kind = AccountKind::HubFee),
        (Outcome::HubAccountsMissing, |it| it.accounts[4].kind = AccountKind::HubFee),
    ];
    for (at, (outcome, corrupt)) in cases.into_iter().enumerate() {
        let mut kernel = TestKernel::new();
        let mut tables = CorruptibleTables::of(&kernel.state);
        corrupt(&mut tables);
        kernel.state = tables.build().expect("it is a state");
        let name = FspName::new("late").expect("a name");
        let change = CreateParticipant { name, currency: usd() }.into();
        assert_eq!(kernel.apply(&[administer(change)]).outcomes, [outcome], "case {at}");
    }
}

/// Cannot happen in a log: participants get a currency only after the hub's own accounts.
#[test]
fn funds_need_a_hub_account() {
    let mut kernel = TestKernel::new();
    let mut tables = CorruptibleTables::of(&kernel.state);
    tables.accounts[3].kind = AccountKind::HubFee;
    kernel.state = tables.build().expect("it is a state");
    let command = kernel.command(&Action::FundsIn { id: 1, party: 0, units: 1 });
    assert_eq!(kernel.apply(&[command]).outcomes, [Outcome::HubAccountsMissing]);
}

#[test]
fn queries_read_the_rows() {
    let state = state_with_rows_in_each_table();
    let mut transfers: Vec<_> = state.in_flight().cloned().collect();
    transfers.sort_unstable_by_key(|one| one.prepare);
    assert_eq!(transfers, CorruptibleTables::of(&state).reserved);
    assert_eq!(state.snapshot().log_index(), state.log_index());
    let (node, epoch, sequence) = (1, 1, state.log_index().0);
    assert_eq!(state.tail_of(1), Some(NodeTail { node, epoch, sequence }));
    assert_eq!((state.tail_of(2), state.epoch_of(1), state.epoch_of(2)), (None, 1, 0));
    assert_eq!(State::default().hash(), State::new().hash());
    for kind in [AccountKind::InFlight, AccountKind::Outflow, AccountKind::Opening] {
        let account = state.accounts().internal_of(usd(), kind).expect("it is open");
        assert_eq!(state.accounts().get(account).map(|account| account.kind), Some(kind));
    }
    assert_eq!(state.accounts().internal_of(usd(), AccountKind::HubFee), None);
    assert_eq!(state.accounts().internal_of(eur(), AccountKind::InFlight), None);
}

const LARGEST: Amount = Amount::from_units(i128::MAX);

fn eur() -> Currency {
    Currency::parse("EUR").expect("a currency")
}

fn endpoints(count: usize) -> Vec<(alloc::string::String, alloc::string::String)> {
    (0..count).map(|at| (format!("type {at}"), "http://a".to_owned())).collect()
}

fn keys(count: usize, bytes: usize) -> Vec<PublicKey> {
    let key = PublicKey { id: Digest::default(), der: vec![1; bytes], added: Stamp(1) };
    vec![key; count]
}

fn oracles(count: u32) -> Vec<(OracleId, Oracle)> {
    let (id_type, endpoint) = ("MSISDN".to_owned(), "http://a".to_owned());
    let oracle = Oracle { id_type, endpoint, currency: None, default: true };
    (1..=count).map(|number| (OracleId(number), oracle.clone())).collect()
}

fn account_types(count: usize) -> Vec<LedgerAccountType> {
    let (name, description) = ("FEES".to_owned(), "of the scheme".to_owned());
    vec![LedgerAccountType { name, description, active: true, settleable: false }; count]
}

/// A state with rows in each table.
fn state_with_rows_in_each_table() -> State {
    let mut kernel = TestKernel::new();
    let prepare = |id, payer, payee| {
        let (units, expires_ms) = (100_000, 60_000);
        Action::Prepare(PrepareAction {
            id,
            source: payer,
            payer,
            payee,
            units,
            expires_ms,
            fee_rule: None,
            offer: None,
        })
    };
    let content = ResponseContent::Committed { right: true };
    for action in [
        prepare(1, 0, 1),
        prepare(2, 0, 1),
        Action::Response(ResponseAction { id: 2, sender: 1, to: None, content, body: 0 }),
        Action::FundsOut { id: 3, party: 2, units: 100_000 },
        Action::Deliver { which: vec![1, 2], result: 0 },
        prepare(5, 0, 2),
        prepare(6, 2, 0),
    ] {
        let command = kernel.command(&action);
        kernel.apply(&[command]);
    }
    let tables = CorruptibleTables::of(&kernel.state);
    let accounts: Vec<_> = tables.reserved.iter().map(|one| one.payer_account.0).collect();
    assert_eq!(accounts, [6, 6, 10]);
    assert_eq!((tables.reserved[0].payee_account.0, tables.reserved[0].payer.0), (8, 1));
    assert_eq!((tables.outflows.len(), tables.dead.len()), (1, 2));
    assert!(2 <= tables.notices.len() && 2 <= tables.final_rows.len());
    kernel.state
}

/// The parts, to be corrupted.
struct CorruptibleTables {
    head: StateHeader,
    accounts: Vec<Account>,
    participants: Vec<Participant>,
    models: Vec<SettlementModel>,
    oracles: Vec<(OracleId, Oracle)>,
    account_types: Vec<LedgerAccountType>,
    reserved: Vec<ReservedTransfer>,
    outflows: Vec<(TransferId, Outflow)>,
    final_rows: Vec<FinalTransfer>,
    notices: Vec<Notice>,
    dead: Vec<DeadLetter>,
    windows: Vec<Window>,
    sums: Vec<(WindowId, AccountSums)>,
    pairs: Vec<(WindowId, PairSums)>,
    settlements: Vec<Settlement>,
    settling: Vec<(SettlementId, SettlementAccount)>,
    alerts: Vec<Alert>,
    alarms: Vec<LiquidityAlarm>,
    fee_rules: Vec<FeeRule>,
    fees: Vec<(TransferId, PendingFee)>,
    roles: Vec<OperatorRole>,
    operators: Vec<Operator>,
    tokens: Vec<OperatorToken>,
    four_eyes: Vec<FourEyes>,
    proposals: Vec<Proposal>,
    enrolments: Vec<Enrolment>,
}

impl CorruptibleTables {
    fn of(state: &State) -> Self {
        Self {
            head: state.tables().header(),
            accounts: rows(state),
            participants: rows(state),
            models: rows(state),
            oracles: rows(state),
            account_types: rows(state),
            reserved: rows(state),
            outflows: rows(state),
            final_rows: rows(state),
            notices: rows(state),
            dead: rows(state),
            windows: rows(state),
            sums: rows(state),
            pairs: rows(state),
            settlements: rows(state),
            settling: rows(state),
            alerts: rows(state),
            alarms: rows(state),
            fee_rules: rows(state),
            fees: rows(state),
            roles: rows(state),
            operators: rows(state),
            tokens: rows(state),
            four_eyes: rows(state),
            proposals: rows(state),
            enrolments: rows(state),
        }
    }

    fn with_oracles(&mut self, count: usize) -> &mut Self {
        self.oracles = oracles(count as u32);
        self.head.last_oracle = OracleId(count as u32);
        self
    }

    /// Adds accounts up to a number of them. One balances the accounts.
    fn fill_accounts(&mut self, count: usize) {
        let known = self.accounts.len();
        self.accounts.resize(count, self.accounts[3].clone());
        let numbered = self.accounts.iter_mut().zip(1..);
        numbered.for_each(|(account, number)| account.id = AccountId(number));
        self.accounts[known..].iter_mut().for_each(|account| account.value = Amount::ZERO);
        let missing = -self.accounts.iter().map(|account| account.value.units()).sum::<i128>();
        self.accounts[known].value = Amount::from_units(missing);
    }

    /// Adds participants without accounts up to a number of them.
    fn fill_participants(&mut self, count: usize) {
        for number in self.participants.len()..count {
            let name = FspName::new(&format!("more{number}")).expect("a name");
            let (by_currency, accounts) = (Vec::new(), Vec::new());
            let more = Participant { name, by_currency, accounts, ..self.participants[3].clone() };
            self.participants.push(more);
        }
    }

    /// As many roles, with names in order after those of the state.
    fn fill_roles(&mut self, count: usize) {
        let numbers = self.roles.len()..count;
        let role = |number| OperatorRole { name: format!("m{number:06}"), ..self.roles[1].clone() };
        let more: Vec<_> = numbers.map(role).collect();
        self.roles.extend(more);
    }

    /// As many operators, with names in order after those of the state.
    fn fill_operators(&mut self, count: usize) {
        let numbers = self.operators.len()..count;
        let operator =
            |number| Operator { name: format!("m{number:06}"), ..self.operators[1].clone() };
        let more: Vec<_> = numbers.map(operator).collect();
        self.operators.extend(more);
    }

    /// As many tokens, with ids after those of the state.
    fn fill_tokens(&mut self, count: usize) {
        let ids = self.tokens.len() as u64 + 1..=count as u64;
        let token = |id| OperatorToken { id: OperatorTokenId(id), ..self.tokens[1].clone() };
        let more: Vec<_> = ids.map(token).collect();
        self.tokens.extend(more);
    }

    /// As many enrolments, with records after those of the state.
    fn fill_enrolments(&mut self, count: usize) {
        let last = self.enrolments[1].id.0;
        let more = (self.enrolments.len()..count).zip(last + 1..);
        let more = more.map(|(_, id)| Enrolment { id: LogIndex(id), ..self.enrolments[1].clone() });
        self.enrolments.extend(more.collect::<Vec<_>>());
    }

    fn build(self) -> Result<State, InvalidState> {
        let mut builder = StateBuilder::new(self.head)?;
        self.accounts.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.participants.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.models.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.oracles.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.account_types.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.reserved.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.outflows.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.final_rows.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.notices.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.dead.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.windows.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.sums.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.pairs.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.settlements.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.settling.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.alerts.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.alarms.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.fee_rules.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.fees.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.roles.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.operators.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.tokens.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.four_eyes.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.proposals.into_iter().try_for_each(|row| builder.add_row(row))?;
        self.enrolments.into_iter().try_for_each(|row| builder.add_row(row))?;
        builder.finish()
    }
}
