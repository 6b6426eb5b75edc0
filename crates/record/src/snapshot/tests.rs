//! Snapshots round-trip, older versions stay readable, and damage is detected.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use core::convert::Infallible;

use expect_test::expect;
use ledger::{
    AccountId, AccountKind, AccountStep, AddKey, Administer, AdvanceSettlement, Amount,
    ApproveProposal, Batch, Change, ChangeParties, CheckLiquidity, CloseWindow, Command,
    CreateFeeRule, CreateHubAccount, CreateLedgerAccountType, CreateOracle, CreateParticipant,
    CreateSettlement, CreateSettlementModel, CreateToken, Currency, DeliveryResult, Effects, Fee,
    FeeConditions, FeePayer, FeeRule, FeeRuleId, FinishedDelivery, FspName, Fulfil, FulfilState,
    Fulfilment, FundsDirection, Genesis, LedgerAccountType, LogIndex, MoveFunds, NoticeId,
    OperatorRole, OperatorTokenId, Oracle, Outcome, PartyChangeForm, Prepare, ProposalId, Propose,
    Rounding, SetEndpoint, SetFourEyes, SetInitialPositionAndLimits, SetLimit, SetOperator,
    SetPassword, SetRole, SetSecondFactor, SettlementId, SettlementModel, SettlementState, Stamp,
    TransferId, WindowId,
};
use proptest::prelude::*;

use super::*;

/// The state after all of [`history`], as written by version 4. Never changed: a new version gets
/// its own file, which this test writes to the path in `WRITE_SNAPSHOT_FIXTURE`.
const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/snapshot-v4.bin");
/// The state after all of [`third_history`], as written by version 3. Never changed.
const FIXTURE_THIRD: &[u8] = include_bytes!("../../tests/fixtures/snapshot-v3.bin");
/// The state after all of [`second_history`], as written by version 2. Never changed.
const FIXTURE_SECOND: &[u8] = include_bytes!("../../tests/fixtures/snapshot-v2.bin");
/// The state after all of [`first_history`], as written by version 1. Never changed.
const FIXTURE_FIRST: &[u8] = include_bytes!("../../tests/fixtures/snapshot-v1.bin");

#[test]
fn older_versions_are_read() {
    let older = [
        (1, FIXTURE_FIRST, first_history(true)),
        (2, FIXTURE_SECOND, second_history()),
        (3, FIXTURE_THIRD, third_history()),
    ];
    for (rules, fixture, history) in older {
        let read_older = read(fixture).expect("the fixture is sound");
        assert_eq!(read_older.tail.identity, LogIdentity(*b"identity of test"));
        let mut decided = State::new();
        decided.begin_under(rules);
        for command in history {
            decided = decide(decided, &[command]);
        }
        assert_eq!(read_older.state.hash(), decided.hash(), "{rules}");
        let again = read(&write(&read_older.state).0).expect("it was written");
        assert_eq!(again.state.hash(), decided.hash(), "{rules}");
    }
}

#[test]
fn blocks_of_two_versions_are_refused() {
    let mut blocks: Vec<_> = split(FIXTURE).into_iter().map(<[u8]>::to_vec).collect();
    blocks[2] = changed(&blocks[2], 4, &[1]);
    assert_eq!(read(&blocks.concat()).err(), Some(SnapshotError::Order));
}

#[test]
fn version_4_is_read_and_written_as_it_was() {
    if let Ok(path) = std::env::var("WRITE_SNAPSHOT_FIXTURE") {
        std::fs::write(path, write(&after(history().len()).0).0).expect("the file is written");
    }
    let read = read(FIXTURE).expect("the fixture is sound");
    assert_eq!(read.tail.identity, LogIdentity(*b"identity of test"));
    assert_eq!(write(&read.state).0, FIXTURE);
    let (decided, _) = after(history().len());
    assert_eq!(read.state.hash(), decided.hash());
}

/// Every table must have rows in the fixture.
#[test]
fn every_table_has_rows_in_the_fixture() {
    let (state, outcomes) = after(history().len());
    assert!(outcomes.contains(&Outcome::PrepareReserved), "{outcomes:?}");
    let mut counts = Counts(Vec::new());
    let Ok(()) = state.tables().visit(&mut counts);
    let counts = counts.0;
    expect![
        "[13, 3, 3, 1, 1, 1, 1, 5, 6, 1, 2, 2, 1, 1, 2, 3, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]"
    ]
    .assert_eq(&format!("{counts:?}"));
}

/// The rows of each table.
struct Counts(Vec<usize>);

impl TableVisitor for Counts {
    type Error = core::convert::Infallible;

    fn table<R: Row>(
        &mut self,
        _: Table,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), Self::Error> {
        self.0.push(rows.into_iter().count());
        Ok(())
    }
}

#[test]
fn damage_is_detected_everywhere() {
    for at in 0..FIXTURE.len() {
        let mut damaged = FIXTURE.to_vec();
        damaged[at] ^= 1 << (at % 8);
        assert!(read(&damaged).is_err(), "byte {at}");
        assert!(read(&FIXTURE[..at]).is_err(), "cut at byte {at}");
    }
    let longer = [FIXTURE, &[0]].concat();
    assert!(read(&longer).is_err());
}

#[test]
fn blocks_have_one_order() {
    let (state, _) = after(history().len());
    let ended = (0..4_000).map(|number| refused(&format!("{number:0>26}")));
    let state = decide(state, &ended.collect::<Vec<_>>());
    let (bytes, summary) = write(&state);
    assert_eq!(bytes.len() as u64, summary.bytes);
    let blocks = split(&bytes);
    assert!(blocks.iter().filter(|block| BLOCK_BYTES <= block.len()).count() > 0);
    let found = read(&bytes).expect("it was written");
    assert_eq!((found.state.hash(), found.summary), (state.hash(), summary));
    for at in 0..blocks.len() {
        let mut missing = blocks.clone();
        missing.remove(at);
        assert!(read(&missing.concat()).is_err(), "without block {at}");
        let mut twice = blocks.clone();
        twice.insert(at, blocks[at]);
        assert!(read(&twice.concat()).is_err(), "with block {at} twice");
    }
}

#[test]
fn newer_versions_are_reported() {
    let newer = changed(FIXTURE, 4, &[5]);
    assert_eq!(read(&newer).err(), Some(SnapshotError::Version(5)));
}

/// The block with these bytes in its header, and a matching checksum.
fn changed(block: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut changed = block.to_vec();
    changed[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = crc32c(&changed[..AT_CRC]);
    changed[AT_CRC..BLOCK_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    changed
}

#[test]
fn invalid_block_headers_are_refused() {
    let header = |rows, length| BlockHeader {
        version: SNAPSHOT_VERSION,
        kind: Table::FinalTransfers.number(),
        number: 0,
        rows,
        length,
        crc: 0,
    };
    let longest = (BLOCK_BYTES_MAX - BLOCK_HEADER_BYTES) as u32;
    for sound in [header(1, 1), header(1, longest), header(longest, longest)] {
        let read = BlockHeader::parse(&sound.encode()).expect("it is one");
        assert_eq!((read.rows, read.length), (sound.rows, sound.length));
    }
    for none in [header(0, 0), header(0, 1), header(2, 1), header(1, longest + 1)] {
        assert_eq!(BlockHeader::parse(&none.encode()).err(), Some(SnapshotError::NoBlock));
    }
    // There are zeros after the length.
    let strange = changed(&header(1, 1).encode(), 20, &[1]);
    assert_eq!(BlockHeader::parse(&strange).err(), Some(SnapshotError::NoBlock));
}

#[test]
fn reader_reports_its_progress() {
    let mut reader = SnapshotReader::default();
    let blocks = split(FIXTURE);
    assert!(reader.tail().is_none());
    for block in &blocks {
        assert!(!reader.is_at_end());
        reader.block(block).expect("it follows");
        let tail = reader.tail().expect("the first block says it");
        assert_eq!(tail.identity, LogIdentity(*b"identity of test"));
    }
    assert!(reader.is_at_end());
}

/// Blocks with correct numbers and wrong kinds, and the reverse.
#[test]
fn blocks_out_of_order_are_refused() {
    let blocks = split(FIXTURE);
    let numbered = |block: &[u8], number: usize| changed(block, 8, &(number as u32).to_le_bytes());
    let last = blocks.len() - 1;
    let refused = |before: &[usize], next: Vec<u8>| {
        let mut reader = SnapshotReader::default();
        for (number, at) in before.iter().enumerate() {
            reader.block(&numbered(blocks[*at], number)).expect("it follows");
        }
        assert_eq!(reader.block(&next).err(), Some(SnapshotError::Order), "{before:?}");
    };
    blocks[1..].iter().for_each(|block| refused(&[], numbered(block, 0)));
    blocks[2..].iter().for_each(|block| refused(&[0], numbered(block, 1)));
    refused(&[0], numbered(blocks[1], 2));
    refused(&[0, 1], numbered(blocks[0], 2));
    refused(&[0, 1], numbered(blocks[1], 2));
    refused(&[0, 1, 3], numbered(blocks[2], 3));
    let all: Vec<_> = (0..=last).collect();
    refused(&all, numbered(blocks[last], last + 1));
}

/// The block with its rows twice.
fn doubled(block: &[u8]) -> Vec<u8> {
    let rows = block[BLOCK_HEADER_BYTES..].repeat(2);
    let head = BlockHeader::parse(block).expect("a block");
    let (length, crc) = (rows.len() as u32, crc32c(&rows));
    let head = BlockHeader { rows: 2 * head.rows, length, crc, ..head };
    [&head.encode()[..], &rows].concat()
}

#[test]
fn there_is_one_origin_and_one_end() {
    let blocks = split(FIXTURE);
    let origin = SnapshotReader::default().block(&doubled(blocks[0]));
    assert_eq!(origin, Err(SnapshotError::Order));
    let mut reader = SnapshotReader::default();
    let (end, before) = blocks.split_last().expect("there are blocks");
    before.iter().for_each(|block| reader.block(block).expect("it follows"));
    assert_eq!(reader.block(&doubled(end)), Err(SnapshotError::Row(FieldError::Value)));
}

#[test]
fn a_state_of_another_moment_is_refused() {
    let (state, _) = after(history().len());
    let read_at = |log_index, stamp| {
        let tail = Tail { end: log_index, stamp, ..tail_of(&state) };
        read(&write_at(&tail, &state).0).err()
    };
    let (log_index, stamp) = (state.log_index(), state.stamp());
    assert_eq!(read_at(log_index, stamp), None);
    for (log_index, stamp) in [
        (LogIndex(log_index.0 + 1), stamp),
        (log_index, Stamp(stamp.0 + 1)),
        (LogIndex(1), Stamp(1)),
    ] {
        let error = read_at(log_index, stamp);
        assert!(matches!(error, Some(SnapshotError::State(_))), "{error:?}");
    }
}

/// Operators read these messages.
#[test]
fn errors_display_their_cause() {
    let texts = [
        SnapshotError::NoBlock,
        SnapshotError::Version(7),
        SnapshotError::HeaderChecksum,
        SnapshotError::RowsChecksum,
        SnapshotError::Order,
        SnapshotError::Row(FieldError::Short),
        SnapshotError::Digest,
        SnapshotError::Unfinished,
    ]
    .map(|error| format!("{error}\n"));
    expect![[r#"
        these bytes are not a snapshot block
        unsupported snapshot format version 7
        the checksum of a block's header is wrong
        the checksum of a block's rows is wrong
        a block is missing or out of order
        invalid row: the record's fields end too early
        the digest does not match the content
        its last block is missing
    "#]]
    .assert_eq(&texts.concat());
}

proptest! {
    #[test]
    fn values_round_trip(records in 1..20usize) {
        let (state, _) = after(records.min(history().len()));
        let (bytes, summary) = write(&state);
        let found = read(&bytes).expect("it was written");
        prop_assert_eq!(found.state.hash(), state.hash());
        prop_assert_eq!(found.state.tables().header(), state.tables().header());
        prop_assert_eq!(found.summary, summary);
        prop_assert_eq!(write(&found.state).0, bytes);
    }
}

fn write(state: &State) -> (Vec<u8>, SnapshotSummary) {
    write_at(&tail_of(state), state)
}

fn tail_of(state: &State) -> Tail {
    Tail {
        identity: LogIdentity(*b"identity of test"),
        end: state.log_index(),
        durable: state.log_index(),
        stamp: state.stamp(),
        chain: Digest([9; 32]),
    }
}

fn write_at(tail: &Tail, state: &State) -> (Vec<u8>, SnapshotSummary) {
    let mut bytes = Vec::new();
    let mut store = |block: &[u8]| {
        bytes.extend_from_slice(block);
        Ok::<(), Infallible>(())
    };
    let mut written = || {
        let mut writer = SnapshotWriter::new(tail, &mut store)?;
        writer.state(state.tables())?;
        writer.finish()
    };
    let Ok(summary) = written();
    (bytes, summary)
}

fn read(bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
    let mut reader = SnapshotReader::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = BlockHeader::parse(rest)?.block_bytes();
        let (block, behind) = rest.split_at_checked(length).ok_or(SnapshotError::NoBlock)?;
        reader.block(block)?;
        rest = behind;
    }
    reader.finish()
}

fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let length = BlockHeader::parse(bytes).expect("a block").block_bytes();
        let (block, behind) = bytes.split_at(length);
        blocks.push(block);
        bytes = behind;
    }
    blocks
}

/// The state after this many records of the history, and their outcomes.
fn after(records: usize) -> (State, Vec<Outcome>) {
    let mut state = State::new();
    state.begin_under(4);
    let mut outcomes = Vec::new();
    for command in &history()[..records] {
        let before = state.log_index().0;
        let mut effects = Effects::default();
        state.apply(&batch(before), [command], &mut effects);
        outcomes.extend(effects.outcomes);
    }
    (state, outcomes)
}

fn decide(mut state: State, commands: &[Command]) -> State {
    let batch = batch(state.log_index().0);
    state.apply(&batch, commands, &mut Effects::default());
    state
}

fn batch(before: u64) -> Batch {
    let stamp = Stamp::from_millis(1_000 + before);
    Batch { first: LogIndex(before + 1), stamp, node: 3, epoch: 1, sequence: before + 1 }
}

/// A history with rows for every table.
fn history() -> Vec<Command> {
    let text = |text: &str| text.into();
    let token = CreateToken {
        id: OperatorTokenId(0x0123_4567_89ab_cdef),
        operator: text("anna"),
        roles: vec![text("viewer")],
        hash: Digest([9; 32]),
        description: text("reports"),
        expires: Stamp(2_000_000_000_000_000),
    };
    let limit = SetLimit {
        name: name("payer"),
        currency: usd(),
        net_debit_cap: Amount::from_units(30_000),
        alarm_percentage: Amount::from_units(800_000),
    };
    let role = OperatorRole { name: text("treasury"), permissions: vec![text("finance")] };
    let mut history = third_history();
    history.extend([
        administer(SetRole { role }),
        administer(SetOperator {
            name: text("anna"),
            roles: vec![text("treasury"), text("viewer")],
            active: true,
        }),
        administer(SetPassword { operator: text("anna"), hash: text("a hash") }),
        administer(SetSecondFactor { operator: text("anna"), secret: vec![1, 2, 3] }),
        administer(token),
        administer(SetFourEyes { changes: vec![SetLimit::DECLARATION.number] }),
        administer(Propose {
            by: text("anna"),
            reason: text("audit"),
            request: text("PUT /participants/payer/limits"),
            seconds: 60,
            change: Arc::new(limit.clone().into()),
        }),
        administer(ApproveProposal {
            proposal: ProposalId(1),
            by: text("bert"),
            reason: text("checked"),
            change: Arc::new(limit.into()),
        }),
    ]);
    history
}

/// A history without operators, with rows for every other table.
fn third_history() -> Vec<Command> {
    let fees = SettlementModel {
        name: "FEES".into(),
        multilateral: true,
        currency: None,
        ledger_account: AccountKind::InterchangeFee,
        settlement_account: AccountKind::InterchangeFeeSettlement,
        ..model(true)
    };
    let rule = FeeRule {
        name: "WALLET".into(),
        currency: Some(usd()),
        conditions: FeeConditions {
            scenario: Some("TRANSFER".into()),
            payee_fsp: Some(name("payee")),
            payer_extension: Some(("accountType".into(), "Wallet".into())),
            ..FeeConditions::default()
        },
        fee: Fee::Percentage { parts_per_million: 6_000, decimals: 2, rounding: Rounding::HalfUp },
        payer: FeePayer::Payer,
        active: true,
    };
    let fee_rule = Some(FeeRuleId(1));
    let mut history = second_history();
    history.extend([
        administer(CreateSettlementModel { model: fees }),
        administer(CreateFeeRule { rule: Box::new(rule) }),
        Command::Prepare(Box::new(Prepare { fee_rule, ..prepare_to("23", "payee") })),
    ]);
    history
}

/// A history without fees, with rows for every other table.
fn second_history() -> Vec<Command> {
    let reason = || "end of the day".into();
    let step = AccountStep {
        participant: 2,
        account: AccountId(6),
        state: SettlementState::PsTransfersRecorded,
        reason: reason(),
        external_reference: "bank 1".into(),
    };
    let (payer, currency) = (name("payer"), usd());
    let limit = SetLimit {
        name: payer,
        currency,
        net_debit_cap: Amount::from_units(20_000),
        alarm_percentage: Amount::from_units(800_000),
    };
    let mut history = first_history(false);
    history.extend([
        administer(limit),
        administer(CheckLiquidity { name: payer, currency }),
        administer(CloseWindow { window: WindowId(1), reason: reason() }),
        administer(CreateSettlement {
            model: model(false).name,
            reason: reason(),
            windows: vec![WindowId(1)],
        }),
        administer(AdvanceSettlement { settlement: SettlementId(1), steps: vec![step] }),
    ]);
    history
}

/// A history without settlement, with rows for every other table.
fn first_history(multilateral: bool) -> Vec<Command> {
    let funds = |id: &str, direction| {
        administer(MoveFunds {
            id: id_of(id),
            name: name("payer"),
            account: AccountId(7),
            direction,
            currency: usd(),
            amount: Amount::from_units(5_000_000),
            hash: Digest([4; 32]),
        })
    };
    let hub_account = |kind| administer(CreateHubAccount { currency: usd(), kind });
    let participant = |text| administer(CreateParticipant { name: name(text), currency: usd() });
    let limits = |text| {
        let (net_debit_cap, position) = (Amount::from_units(90_000_000), Amount::ZERO);
        let name = name(text);
        administer(SetInitialPositionAndLimits { name, currency: usd(), net_debit_cap, position })
    };
    let payee = name("payee");
    vec![
        Command::Genesis(Genesis { seed: [7; 16], hub: name("Hub") }),
        hub_account(AccountKind::HubReconciliation),
        hub_account(AccountKind::HubMultilateralSettlement),
        participant("payer"),
        participant("payee"),
        limits("payer"),
        limits("payee"),
        funds("10", FundsDirection::In),
        funds("11", FundsDirection::In),
        funds("12", FundsDirection::Out),
        administer(SetEndpoint {
            name: payee,
            endpoint: "FSPIOP_CALLBACK_URL".into(),
            value: "http://payee.example".into(),
        }),
        administer(AddKey { name: payee, id: Digest([6; 32]), key: [1, 2, 3].into() }),
        administer(CreateSettlementModel { model: model(multilateral) }),
        administer(CreateOracle {
            oracle: Oracle {
                id_type: "MSISDN".into(),
                endpoint: "http://oracle.example".into(),
                currency: Some(usd()),
                default: true,
            },
        }),
        administer(CreateLedgerAccountType {
            account_type: LedgerAccountType {
                name: "FEES".into(),
                description: "of the scheme".into(),
                active: true,
                settleable: false,
            },
        }),
        prepare("20"),
        prepare("21"),
        fulfil("20"),
        refused("22"),
        Command::FinishDeliveries(vec![FinishedDelivery {
            notice: NoticeId(1),
            result: DeliveryResult::Dead,
            attempts: 8,
            status: 500,
            finished_ms: 1_018,
        }]),
        Command::ChangeParties(Box::new(ChangeParties {
            source: name("payer"),
            form: PartyChangeForm::Delete,
            parties: Vec::new(),
            trace: [9; 16],
            rule: None,
        })),
    ]
}

fn administer(change: impl Into<Change>) -> Command {
    let (actor, reason, change) = ("operator".into(), "".into(), change.into());
    Command::Administer(Box::new(Administer { actor, reason, change }))
}

fn model(multilateral: bool) -> SettlementModel {
    SettlementModel {
        name: "DEFERREDNETUSD".into(),
        net: true,
        multilateral,
        deferred: true,
        currency: Some(usd()),
        liquidity_check: true,
        auto_position_reset: true,
        ledger_account: AccountKind::Position,
        settlement_account: AccountKind::Settlement,
        active: true,
    }
}

fn prepare(id: &str) -> Command {
    Command::Prepare(Box::new(prepare_to(id, "payee")))
}

/// A prepare to a payee that does not exist.
fn refused(id: &str) -> Command {
    Command::Prepare(Box::new(prepare_to(id, "nobody")))
}

/// `fulfilment` is 32 bytes of zero, of which `condition` is the SHA-256.
fn prepare_to(id: &str, payee: &str) -> Prepare {
    let condition = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925";
    let digits = |at: usize| u8::from_str_radix(&condition[2 * at..2 * at + 2], 16);
    Prepare {
        id: id_of(id),
        source: name("payer"),
        payer: name("payer"),
        payee: name(payee),
        currency: usd(),
        amount: Amount::from_units(10_000),
        condition: core::array::from_fn(|at| digits(at).expect("digits")),
        expiration_ms: 60_000,
        hash: Digest([5; 32]),
        trace: [8; 16],
        fee_rule: None,
        quote_terms: None,
    }
}

fn fulfil(id: &str) -> Command {
    Command::Fulfil(Box::new(Fulfil {
        id: id_of(id),
        source: name("payee"),
        destination: Some(name("payer")),
        state: FulfilState::Committed,
        fulfilment: Fulfilment::Present([0; 32]),
        hash: Digest([3; 32]),
        trace: [8; 16],
    }))
}

fn id_of(number: &str) -> TransferId {
    TransferId::parse(&format!("{number:0>26}")).expect("digits are a ULID")
}

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn usd() -> Currency {
    Currency::parse("USD").expect("a currency")
}
