//! The audit gets commands or outcomes that differ from the kernel's decisions, and must find them.

use http::{HeaderName, HeaderValue};
use ledger::{
    Abort, AbortSettlement, AccountStep, Administer, AdvanceSettlement, Batch, Change, CloseWindow,
    CreateFeeRule, CreateHubAccount, CreateParticipant, CreateSettlement, CreateSettlementModel,
    DeliveryResult, Digest as Hash, Fee, FeeConditions, FeePayer, FeeRule, FeeRuleId, FspName,
    FulfilState, Genesis, Rounding, SetFeeRuleActive, SetInitialPositionAndLimits, SettlementId,
    SettlementModel, SettlementState, Stamp, TransferId, WindowId,
};
use record::frame::{BatchHeader, Frame, FrameBuilder, LogIdentity, NewRecord, Tail};

use super::*;

const FULFILMENT: [u8; 32] = [7; 32];

/// Changes a decision before the audit sees it.
type Falsify<'a> = &'a dyn Fn(&mut Command, &mut Outcome);
/// A stored message, and the digest in its record.
type StoredMessage = (Vec<u8>, Hash);
/// A replacement for the stored message of the selected commands; `None` removes it.
type Replacement<'a> = (fn(&Command) -> bool, Option<&'a StoredMessage>);

const PREPARE: fn(&Command) -> bool = |command| matches!(command, Command::Prepare(_));
const FULFIL: fn(&Command) -> bool = |command| matches!(command, Command::Fulfil(_));
/// A body that the parser rejects, so that its content is not compared.
const BODY: &[u8] = b"{}";

struct Bench {
    state: State,
    audit: Audit,
}

impl Bench {
    fn decide(
        &mut self,
        command: &Command,
        falsify: Falsify<'_>,
        other: Option<Replacement<'_>>,
    ) -> Outcome {
        let own = message_of(command);
        let message = match other.filter(|(is_selected, _)| is_selected(command)) {
            Some((_, message)) => message,
            None => own.as_ref(),
        };
        let payload = message.map(|(payload, digest)| (&**payload, *digest));
        let record = NewRecord { kind: 1, version: 1, fields: &[], payload };
        let mut builder = FrameBuilder::new();
        builder.push(&record.encode().expect("it is short")).expect("there is room");
        let tail = Tail::genesis(LogIdentity([1; 16]));
        let sealed = builder.seal(&tail, &BatchHeader::default());
        let mut records = Frame::parse(sealed.bytes).expect("it was just sealed").records();

        let number = self.state.log_index().0 + 1;
        let (first, stamp) = (LogIndex(number), Stamp(1_000_000 * number));
        let batch = Batch { first, stamp, node: 0, epoch: 1, sequence: number };
        let mut effects = Effects::default();
        let Self { state, audit } = self;
        state.apply_watched(&batch, [command], &mut effects, &mut |step, state, effects| {
            let (mut command, mut outcome) = match step {
                ApplyStep::After(_, command, outcome) => (command.clone(), outcome),
                _ => return audit.watch(step, &mut records, state, effects),
            };
            falsify(&mut command, &mut outcome);
            audit.watch(ApplyStep::After(first, &command, outcome), &mut records, state, effects);
        });
        self.audit.close_batch(&self.state);
        effects.outcomes[0]
    }
}

/// The message of a command.
fn message_of(command: &Command) -> Option<StoredMessage> {
    let source = match command.message()? {
        TransferMessage::Prepare(_) => "payer",
        TransferMessage::Fulfil(_) => "payee",
        TransferMessage::Abort(_) => return None,
    };
    Some(stored(&[("fspiop-source", source)], BODY))
}

fn stored(headers: &[(&'static str, &'static str)], body: &[u8]) -> StoredMessage {
    let value = HeaderValue::from_static;
    let headers = headers.iter().map(|(name, text)| (HeaderName::from_static(name), value(text)));
    let mut payload = Vec::new();
    fspiop::stored_message::encode(&headers.collect(), body, &mut payload);
    let digest = record::frame::payload_digest(&payload);
    (payload, digest)
}

fn hash(body: &[u8]) -> Hash {
    Hash(fspiop::body_hash(body))
}

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn id() -> TransferId {
    TransferId::parse("b51ec534-ee48-4575-b6a9-000000000001").expect("an id")
}

fn units(whole: i128) -> Amount {
    Amount::from_units(whole * 10_000)
}

fn change(change: Change) -> Command {
    let (actor, reason) = ("tester".to_owned(), String::new());
    Command::Administer(Box::new(Administer { actor, reason, change }))
}

/// The set-up of a scheme, a transfer of 5 from `payer` to `payee`, and a resend of its response.
fn commands() -> Vec<Command> {
    let currency = Currency::parse("USD").expect("a currency");
    let mut commands = vec![Command::Genesis(Genesis { seed: [1; 16], hub: name("Hub") })];
    for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
        commands.push(change(Change::CreateHubAccount(CreateHubAccount { currency, kind })));
    }
    for (at, fsp) in ["payer", "payee"].into_iter().enumerate() {
        let name = name(fsp);
        commands.push(change(Change::CreateParticipant(CreateParticipant { name, currency })));
        let (net_debit_cap, position) = (units(100), units(0));
        commands.push(change(Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
            name,
            currency,
            net_debit_cap,
            position,
        })));
        let mut transfer = id().to_bytes();
        transfer[16] = 0xf0 + at as u8;
        commands.push(change(Change::MoveFunds(MoveFunds {
            id: TransferId::from_bytes(transfer).expect("an id"),
            name,
            // Five accounts of the hub come first, then two of each participant.
            account: AccountId(if at == 0 { 7 } else { 9 }),
            direction: FundsDirection::In,
            currency,
            amount: units(200),
            hash: ledger::Digest([0; 32]),
        })));
    }
    commands.push(Command::Prepare(Box::new(Prepare {
        id: id(),
        source: name("payer"),
        payer: name("payer"),
        payee: name("payee"),
        currency,
        amount: units(5),
        condition: Sha256::digest(FULFILMENT).into(),
        expiration_ms: 1_000_000,
        hash: hash(BODY),
        trace: [0; 16],
        fee_rule: None,
        quote_terms: None,
    })));
    let fulfil = Command::Fulfil(Box::new(Fulfil {
        id: id(),
        source: name("payee"),
        destination: None,
        state: FulfilState::Committed,
        fulfilment: Fulfilment::Present(FULFILMENT),
        hash: hash(BODY),
        trace: [0; 16],
    }));
    commands.push(fulfil.clone());
    let end = |number| FinishedDelivery {
        notice: NoticeId(number),
        result: DeliveryResult::Delivered,
        attempts: 1,
        status: 200,
        finished_ms: 1,
    };
    commands.push(Command::FinishDeliveries(vec![end(1), end(2)]));
    commands.push(fulfil);
    commands
}

/// The payer's and the payee's POSITION accounts with the numbers of their owners.
const SIDES: [(u32, AccountId); 2] = [(2, AccountId(6)), (3, AccountId(8))];

fn model(net: bool) -> SettlementModel {
    SettlementModel {
        name: "MODEL".into(),
        net,
        multilateral: net,
        deferred: net,
        currency: Currency::parse("USD"),
        liquidity_check: true,
        auto_position_reset: true,
        ledger_account: AccountKind::Position,
        settlement_account: AccountKind::Settlement,
        active: true,
    }
}

fn advance(settlement: u32, sides: &[(u32, AccountId)], state: SettlementState) -> Command {
    let step = |(participant, account): &(u32, AccountId)| AccountStep {
        participant: *participant,
        account: *account,
        state,
        reason: "paid".into(),
        external_reference: String::new(),
    };
    let (settlement, steps) = (SettlementId(settlement), sides.iter().map(step).collect());
    change(Change::AdvanceSettlement(AdvanceSettlement { settlement, steps }))
}

/// The commands above under a model. A net one settles their window: a settlement is aborted with
/// one side reserved, and another one ends, side by side.
fn settled(net: bool) -> Vec<Command> {
    use SettlementState::*;
    let mut commands = commands();
    let model = CreateSettlementModel { model: model(net) };
    commands.insert(3, change(Change::CreateSettlementModel(model)));
    if !net {
        return commands;
    }
    let reason = || String::from("end of day");
    commands
        .push(change(Change::CloseWindow(CloseWindow { window: WindowId(1), reason: reason() })));
    for settlement in 1..=2 {
        let (model, windows) = ("MODEL".into(), vec![WindowId(1)]);
        let create = CreateSettlement { model, reason: reason(), windows };
        commands.push(change(Change::CreateSettlement(create)));
        commands.push(advance(settlement, &SIDES, PsTransfersRecorded));
        commands.push(advance(settlement, &SIDES[1..], PsTransfersReserved));
        if settlement == 1 {
            let settlement = SettlementId(1);
            let abort = AbortSettlement { settlement, reason: reason() };
            commands.push(change(Change::AbortSettlement(abort)));
        }
    }
    commands.push(advance(2, &SIDES[..1], PsTransfersReserved));
    commands.push(advance(2, &SIDES, PsTransfersCommitted));
    commands.push(advance(2, &SIDES[..1], Settled));
    commands.push(advance(2, &SIDES, Settled));
    commands
}

/// The commands above with a rule for fees of 1 % and the accounts for it.
fn charged() -> Vec<Command> {
    let mut commands = commands();
    let model = SettlementModel {
        name: "FEES".into(),
        ledger_account: AccountKind::InterchangeFee,
        settlement_account: AccountKind::InterchangeFeeSettlement,
        ..model(true)
    };
    let fee =
        Fee::Percentage { parts_per_million: 10_000, decimals: 2, rounding: Rounding::HalfUp };
    let rule = FeeRule {
        name: "all".into(),
        currency: None,
        conditions: FeeConditions::default(),
        fee,
        payer: FeePayer::Payee,
        active: true,
    };
    let at = commands.iter().position(PREPARE).expect("there is a prepare");
    let rule = CreateFeeRule { rule: Box::new(rule) };
    let switch = SetFeeRuleActive { rule: FeeRuleId(1), active: true };
    let changes = [
        Change::CreateSettlementModel(CreateSettlementModel { model }),
        Change::CreateFeeRule(rule),
        Change::SetFeeRuleActive(switch),
    ];
    commands.splice(at..at, changes.map(change));
    let (rule, hash) = (Some(FeeRuleId(1)), hash(&body_with_transaction()));
    commands.iter_mut().for_each(|it| prepare(it, |it| (it.fee_rule, it.hash) = (rule, hash)));
    commands
}

/// The body of a prepare with the packet of a conversation, which has a transaction object.
fn body_with_transaction() -> Vec<u8> {
    const CONVERSATION: &str = include_str!("../../../../../../conversations/settlement/fee.txt");
    let packet = |line: &'static str| line.strip_prefix("with ilpPacket = ");
    let packet = CONVERSATION.lines().find_map(packet).expect("it has a packet");
    format!("{{\"ilpPacket\":{packet}}}").into_bytes()
}

fn honest(_: &mut Command, _: &mut Outcome) {}

fn prepare(command: &mut Command, change: impl FnOnce(&mut Prepare)) {
    if let Command::Prepare(prepare) = command {
        change(prepare);
    }
}

fn fulfil(command: &mut Command, change: impl FnOnce(&mut Fulfil)) {
    if let Command::Fulfil(fulfil) = command {
        change(fulfil);
    }
}

fn replace(outcome: &mut Outcome, [old, new]: [Outcome; 2]) {
    if *outcome == old {
        *outcome = new;
    }
}

#[track_caller]
fn check(falsify: Falsify<'_>, other: Option<Replacement<'_>>, expected: Option<&str>) {
    let mut bench = Bench { state: State::new(), audit: Audit::default() };
    let outcomes: Vec<_> =
        commands().iter().map(|command| bench.decide(command, falsify, other)).collect();
    assert!(outcomes.ends_with(&[Outcome::Committed, Outcome::Accepted, Outcome::ResponseResent]));
    bench.audit.close(&bench.state).expect("it needs no file");
    match (bench.audit.finding(), expected) {
        (None, None) => assert_eq!(bench.audit.figures().fulfilments_hashed, 1),
        (Some(Finding { transfer, what, log_index }), Some(expected)) => {
            assert!(what.contains(expected), "{what}");
            let commands = commands();
            let decided = &commands[log_index.0 as usize - 1];
            let of_notice = what.starts_with("its notice").then(id);
            assert_eq!(*transfer, decided.rows().next().copied().or(of_notice), "{what}");
        }
        (found, expected) => panic!("found {found:?}, expected {expected:?}"),
    }
}

fn find_in_settlement(net: bool, falsify: Falsify<'_>) -> (Option<String>, Figures) {
    find_in(&settled(net), falsify, None)
}

fn find_in(
    commands: &[Command],
    falsify: Falsify<'_>,
    other: Option<Replacement<'_>>,
) -> (Option<String>, Figures) {
    let mut bench = Bench { state: State::new(), audit: Audit::default() };
    for command in commands {
        bench.decide(command, falsify, other);
    }
    bench.audit.close(&bench.state).expect("it needs no file");
    (bench.audit.finding().map(|finding| finding.what.clone()), bench.audit.figures())
}

#[test]
fn settlement_is_followed() {
    let (found, figures) = find_in_settlement(true, &honest);
    assert_eq!(found, None);
    let windows = [figures.transfers_in_windows, figures.windows_closed, figures.windows_settled];
    assert_eq!((windows, figures.settled_at_once), ([1, 1, 1], 0));
    let ended = [figures.settlements_settled, figures.settlements_aborted];
    assert_eq!((figures.settlements, ended), (2, [1, 1]));
    let (found, figures) = find_in_settlement(false, &honest);
    assert_eq!((found, figures.settled_at_once), (None, 1));
    assert_eq!(figures.transfers_in_windows, 0);
}

#[test]
fn settlement_that_differs_from_the_kernel_is_found() {
    fn is(command: &Command, is: fn(&Change) -> bool) -> bool {
        command.change().is_some_and(is)
    }
    let skip = |command: &mut Command, what: fn(&Change) -> bool| {
        if is(command, what) {
            *command = Command::Tick;
        }
    };
    let cases: [(bool, Falsify<'_>, &str); 6] = [
        (true, &|it, _| skip(it, |it| matches!(it, Change::CloseWindow(_))), "cannot be settled"),
        (
            true,
            &|it, _| skip(it, |it| matches!(it, Change::CreateSettlement(_))),
            "settlement 1 was never created",
        ),
        (
            true,
            &|it, _| skip(it, |it| matches!(it, Change::AbortSettlement(_))),
            "settlement 2 has other contents or nets",
        ),
        (
            true,
            &|it, _| skip(it, |it| matches!(it, Change::AdvanceSettlement(_))),
            "its postings add up to",
        ),
        (
            true,
            &|it, _| {
                let Command::Administer(administer) = it else { return };
                if let Change::CloseWindow(close) = &mut administer.change {
                    close.window = WindowId(2);
                }
            },
            "window 2 was closed, but window 1 is open",
        ),
        (
            false,
            &|_, outcome| replace(outcome, [Outcome::Committed, Outcome::Aborted]),
            "its postings add up to",
        ),
    ];
    for (net, falsify, expected) in cases {
        let (found, _) = find_in_settlement(net, falsify);
        assert!(found.clone().unwrap_or_default().contains(expected), "{expected}: {found:?}");
    }
}

/// In a log in which a transfer has a fee, and its body the transaction.
fn find_in_charged(falsify: Falsify<'_>) -> (Option<String>, Figures) {
    let message = stored(&[("fspiop-source", "payer")], &body_with_transaction());
    find_in(&charged(), falsify, Some((PREPARE, Some(&message))))
}

#[test]
fn fees_are_followed() {
    let (found, figures) = find_in_charged(&honest);
    assert_eq!((found, figures.fees, figures.transfers_in_windows), (None, 1, 1));
}

#[test]
fn fee_that_differs_from_the_kernel_is_found() {
    fn rule(command: &mut Command, change: impl FnOnce(&mut FeeRule)) {
        let Command::Administer(administer) = command else { return };
        if let Change::CreateFeeRule(create) = &mut administer.change {
            change(&mut create.rule);
        }
    }
    let postings = "its postings add up to";
    let mismatch = "the transaction in the stored body does not match the fee rule";
    let cases: [(Falsify<'_>, &str); 7] = [
        (&|it, _| rule(it, |it| it.conditions.scenario = Some("REFUND".into())), mismatch),
        (&|it, _| prepare(it, |it| it.fee_rule = None), postings),
        (&|it, _| rule(it, |it| it.fee = Fee::Fixed { amount: units(1) }), postings),
        (&|it, _| rule(it, |it| it.payer = FeePayer::Payer), postings),
        (&|it, _| rule(it, |it| it.currency = Currency::parse("EUR")), mismatch),
        (
            &|it, _| {
                let Command::Administer(administer) = it else { return };
                if let Change::SetFeeRuleActive(switch) = &mut administer.change {
                    switch.active = false;
                }
            },
            postings,
        ),
        (
            &|it, _| {
                if it.change().is_some_and(|it| matches!(it, Change::CreateFeeRule(_))) {
                    *it = Command::Tick;
                }
            },
            "fee rule 1 was switched before it was added",
        ),
    ];
    for (at, (falsify, expected)) in cases.into_iter().enumerate() {
        let (found, _) = find_in_charged(falsify);
        assert!(found.clone().unwrap_or_default().contains(expected), "case {at}: {found:?}");
    }
}

#[test]
fn valid_log_has_no_finding() {
    check(&honest, None, None);
}

#[test]
fn differences_from_the_kernel_are_found() {
    let cases: [(Falsify<'_>, &str); 7] = [
        (
            &|command, _| fulfil(command, |it| it.fulfilment = Fulfilment::Present([8; 32])),
            "whose SHA-256 is not the condition",
        ),
        (
            &|_, outcome| replace(outcome, [Outcome::ResponseResent, Outcome::Committed]),
            "has two final states",
        ),
        (
            &|_, outcome| replace(outcome, [Outcome::PrepareReserved, Outcome::PrepareCapExceeded]),
            "0 transfers in flight according to the audit, 1 in the kernel",
        ),
        (&|command, _| prepare(command, |it| it.amount = units(6)), "its postings add up to"),
        (
            &|command, _| prepare(command, |it| it.amount = units(150)),
            "reserved although the position of payer becomes 150, with cover 200 and cap 100",
        ),
        (
            &|command, _| {
                if let Command::FinishDeliveries(_) = command {
                    *command = Command::Tick;
                }
            },
            "notices owed according to the audit",
        ),
        (
            &|_, outcome| replace(outcome, [Outcome::Committed, Outcome::FulfilmentInvalid]),
            "its postings add up to",
        ),
    ];
    for (falsify, expected) in cases {
        check(falsify, None, Some(expected));
    }
}

#[test]
fn duplicate_notice_to_the_payer_is_found() {
    let end = |recipients: &[u32]| {
        let mut bench = Bench { state: State::new(), audit: Audit::default() };
        let is_prepare = |command: &Command| matches!(command, Command::Prepare(_));
        let commands = commands();
        let reserved = commands.iter().position(is_prepare).expect("a prepare");
        for command in &commands[..=reserved] {
            bench.decide(command, &honest, None);
        }
        let notices = recipients.iter().zip(2..).map(|(recipient, number)| Notice {
            id: NoticeId(number),
            recipient: ParticipantIndex(*recipient),
            transfer: Some(id()),
            kind: NoticeKind::Error,
            source: bench.state.log_index(),
            outcome: Outcome::Expired,
            at: bench.state.stamp(),
            owed_at: bench.state.stamp(),
            trace: [0; 16],
        });
        let notices: Vec<_> = notices.collect();
        bench.audit.end(&id(), Outcome::Expired, &bench.state, &notices);
        bench.audit.finding().map(|finding| finding.what.clone())
    };
    assert_eq!(end(&[1, 2]), None);
    let missing = end(&[1]).expect("the payee got none");
    assert!(missing.contains("without a notice to its parties"), "{missing}");
    let twice = end(&[1, 2, 1]).expect("the payer got two");
    assert!(twice.contains("the same notice to its payer twice"), "{twice}");
}

#[test]
fn decided_message_of_an_unknown_sender_is_found() {
    let known: Falsify<'_> =
        &|_, outcome| replace(outcome, [Outcome::PrepareReserved, Outcome::SenderNotFound]);
    check(known, None, Some("ignored although its sender is a participant"));
    let decided = Some("decided although its sender is not a participant");
    for (source, expected) in [("stranger", decided), ("Hub", decided), ("PAYEE", None)] {
        let message = stored(&[("fspiop-source", source)], BODY);
        let from: Falsify<'_> = &|command, _| fulfil(command, |it| it.source = name(source));
        check(from, Some((FULFIL, Some(&message))), expected);
    }
}

#[test]
fn impossible_delivery_result_is_found() {
    let end = |number, result, attempts, status| FinishedDelivery {
        notice: NoticeId(number),
        result,
        attempts,
        status,
        finished_ms: 1,
    };
    use DeliveryResult::{Dead, Delivered, GivenUp, Withdrawn};
    for (other, expected) in [
        (
            end(2, Delivered, 0, 200),
            "its notice 2 (Fulfil) ended as Delivered after 0 attempts with status 200",
        ),
        (end(2, Delivered, 1, 503), "ended as Delivered after 1 attempt with status 503"),
        (end(2, Dead, 1, 200), "ended as Dead after 1 attempt with status 200"),
        (end(2, Dead, 0, 503), "ended as Dead after 0 attempts with status 503"),
        // A callback with the result of a transfer is never withdrawn,
        (end(2, Withdrawn, 0, 0), "its notice 2 (Fulfil) ended as Withdrawn"),
        // nor given up without a dead letter.
        (
            end(2, GivenUp, 1, 400),
            "its notice 2 (Fulfil) ended as GivenUp after 1 attempt with status 400",
        ),
        // A prepare that was sent is not withdrawn.
        (end(1, Withdrawn, 1, 200), "its notice 1 (Prepare) ended as Withdrawn after 1 attempt"),
    ] {
        let falsify: Falsify<'_> = &|command, _| {
            if let Command::FinishDeliveries(ends) = command {
                *ends = vec![other];
            }
        };
        check(falsify, None, Some(expected));
    }
    // Neither is a prepare of a transfer in flight.
    for (early, expected) in [
        (end(1, Withdrawn, 0, 0), "its notice 1 (Prepare) ended as Withdrawn after 0 attempts"),
        (
            end(1, GivenUp, 1, 503),
            "its notice 1 (Prepare) ended as GivenUp after 1 attempt with status 503",
        ),
    ] {
        let falsify: Falsify<'_> = &|command, outcome| {
            if let Command::Fulfil(_) = command {
                *command = Command::FinishDeliveries(vec![early]);
                *outcome = Outcome::Accepted;
            }
        };
        check(falsify, None, Some(expected));
    }
}

#[test]
fn message_that_differs_from_its_record_is_found() {
    let (payload, _) = stored(&[("fspiop-source", "payer")], BODY);
    let another = (payload, Hash([1; 32]));
    let unreadable = b"\xff".to_vec();
    let digest = record::frame::payload_digest(&unreadable);
    let participants = "the stored headers name other participants";
    let stranger = ("fspiop-destination", "stranger");
    for (is_selected, message, expected) in [
        (PREPARE, None, "no stored message"),
        (FULFIL, None, "no stored message"),
        (PREPARE, Some(another), "does not match its digest"),
        (PREPARE, Some((unreadable, digest)), "cannot be read"),
        (PREPARE, Some(stored(&[], BODY)), participants),
        (PREPARE, Some(stored(&[("fspiop-source", "payee")], BODY)), participants),
        (FULFIL, Some(stored(&[("fspiop-source", "payer")], BODY)), participants),
        (FULFIL, Some(stored(&[("fspiop-source", "payee"), stranger], BODY)), participants),
        (
            PREPARE,
            Some(stored(&[("fspiop-source", "payer")], b"{\"\":0}")),
            "does not match the hash of the record",
        ),
    ] {
        check(&honest, Some((is_selected, message.as_ref())), Some(expected));
    }
    // A prepare is sent to its payee, whatever recipient its header names.
    let message = stored(&[("fspiop-source", "payer"), stranger], BODY);
    check(&honest, Some((PREPARE, Some(&message))), None);
}

#[test]
fn body_that_differs_from_its_record_is_found() {
    const ABORTED: &[u8] = br#"{"transferState":"ABORTED"}"#;
    const UNKNOWN_CODE: &[u8] =
        br#"{"errorInformation":{"errorCode":"9999","errorDescription":"none"}}"#;
    let states: Falsify<'_> = &|command, _| {
        fulfil(command, |it| (it.fulfilment, it.hash) = (Fulfilment::Absent, hash(ABORTED)));
    };
    let codes: Falsify<'_> = &|command, _| {
        let Command::Fulfil(fulfil) = command else { return };
        let Fulfil { id, source, destination, trace, .. } = **fulfil;
        let (code_is_known, hash) = (true, hash(UNKNOWN_CODE));
        let abort = Abort { id, source, destination, code_is_known, hash, trace };
        *command = Command::Abort(Box::new(abort));
    };
    for (falsify, body) in [(states, ABORTED), (codes, UNKNOWN_CODE)] {
        let message = stored(&[("fspiop-source", "payee")], body);
        check(falsify, Some((FULFIL, Some(&message))), Some("differs from the decoded"));
    }
}
