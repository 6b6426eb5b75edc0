//! Shared by the tests: a scheme of two participants, `payer` and `payee`, each with a hundred
//! dollars of cover, and helpers to commit commands.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journal::{FileLog, LogOptions, MemoryDisk};
use ledger::{
    AccountId, AccountKind, Administer, Amount, ArchivedSettlement, Change, Command,
    CreateHubAccount, CreateParticipant, Currency, Digest, FinalTransfer, FspName, Fulfil,
    FulfilState, Fulfilment, FundsDirection, Genesis, LogIndex, MoveFunds, Prepare,
    SetInitialPositionAndLimits, SetParticipantActive, Stamp, State, TransferId,
};
use ports::{ClockReading, ColdReader, Log, StoreError, WaitFor, WriteBatch};
use record::frame::LogIdentity;
use sequencer::{
    ColdTier, CommitError, Committed, Durability, LastMessage, NodeName, Quarantine, ReplayStart,
    Replica, Sequencer, Submission,
};

pub(crate) const IDENTITY: LogIdentity = LogIdentity([7; 16]);
pub(crate) const SECOND: u64 = 1_000_000;

/// The log copy of a node of a shared log.
pub(crate) type Copy = FileLog<MemoryDisk>;

/// SHA-256 of 32 zero bytes, which are the fulfilment.
const CONDITION: [u8; 32] = [
    0x66, 0x68, 0x7a, 0xad, 0xf8, 0x62, 0xbd, 0x77, 0x6c, 0x8f, 0xc1, 0x8b, 0x8e, 0x9f, 0x8e, 0x20,
    0x08, 0x97, 0x14, 0x85, 0x6e, 0xe2, 0x33, 0xb3, 0x90, 0x2a, 0x59, 0x1d, 0x0d, 0x5f, 0x29, 0x25,
];

/// Both clocks at this microsecond.
pub(crate) fn at(us: u64) -> ClockReading {
    ClockReading { monotonic_us: us, wall: Stamp(us) }
}

pub(crate) fn open_log(disk: &MemoryDisk) -> FileLog<MemoryDisk> {
    let options = LogOptions { room_bytes: 0, ..LogOptions::default() };
    let opened = FileLog::open_or_create(disk.clone(), IDENTITY, options);
    opened.expect("a log in a state that a crash can leave opens").0
}

pub(crate) fn open<L: Log>(log: L, now: ClockReading) -> Sequencer<L> {
    Sequencer::open(log, 0, now, &mut |_| ()).expect("a good log replays")
}

/// A sequencer over a new log and a cold store.
pub(crate) fn with_store(
    store: impl ColdReader + 'static,
    hot: Duration,
    now: ClockReading,
) -> Sequencer<FileLog<MemoryDisk>> {
    let cold = Some(ColdTier::new(Box::new(store), hot));
    let start =
        ReplayStart { state: State::new(), quarantine: Quarantine::default(), cold_tier: cold };
    Sequencer::open_from(open_log(&MemoryDisk::new(1)), start, (0, now), &mut |_| {})
        .unwrap_or_else(|failed| panic!("{}", failed.1))
}

/// A node of a shared log that continues from its copy.
pub(crate) fn replica(
    copy: Copy,
    (node, instance): (u32, u64),
    last: Option<LastMessage>,
) -> Replica<Copy> {
    let sequencer = open(copy, ClockReading::default());
    let name = NodeName { name: format!("node-{node}"), node, instance, ended: 0 };
    Replica::new(sequencer, name, Quarantine::default(), last).expect("it reads")
}

pub(crate) fn submissions(commands: Vec<Command>) -> VecDeque<Submission<()>> {
    let submit = |command| Submission::without_payload(command, Durability::Synced, ());
    commands.into_iter().map(|command| submit(command).expect("it fits a record")).collect()
}

/// Commits one batch.
pub(crate) fn commit<L: Log>(
    subject: &mut Sequencer<L>,
    commands: Vec<Command>,
    now: ClockReading,
) -> Result<Committed, CommitError> {
    subject.commit(&mut submissions(commands), &mut Vec::new(), now)
}

pub(crate) fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

pub(crate) fn units(whole: i128) -> Amount {
    Amount::from_units(whole * 10_000)
}

pub(crate) fn usd() -> Currency {
    Currency::parse("USD").expect("a currency")
}

pub(crate) fn id(of: usize) -> TransferId {
    TransferId::parse(&format!("b51ec534-ee48-4575-b6a9-{of:012x}")).expect("an id")
}

pub(crate) fn genesis() -> Command {
    Command::Genesis(Genesis { seed: [1; 16], hub: name("Hub") })
}

pub(crate) fn change(change: Change) -> Command {
    let (actor, reason) = ("tester".to_owned(), String::new());
    Command::Administer(Box::new(Administer { actor, reason, change }))
}

/// A change that is refused if the participant does not exist.
pub(crate) fn deactivate(number: u64) -> Command {
    let name = name(&format!("dfsp{number}"));
    change(Change::SetParticipantActive(SetParticipantActive { name, active: false }))
}

/// The genesis and the set-up of the scheme, in one batch.
pub(crate) fn beginning() -> Vec<Command> {
    let (currency, net_debit_cap, position) = (usd(), units(100), units(0));
    let mut commands = vec![genesis()];
    for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
        commands.push(change(Change::CreateHubAccount(CreateHubAccount { currency, kind })));
    }
    for (at, fsp) in ["payer", "payee"].into_iter().enumerate() {
        let name = name(fsp);
        commands.push(change(Change::CreateParticipant(CreateParticipant { name, currency })));
        let initial = Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
            name,
            currency,
            net_debit_cap,
            position,
        });
        commands.push(change(initial));
        commands.push(change(Change::MoveFunds(MoveFunds {
            id: id(100 + at),
            name,
            // The hub has the first five accounts, each participant the next two.
            account: AccountId(7 + 2 * at as u32),
            direction: FundsDirection::In,
            currency,
            amount: units(100),
            hash: Digest([0; 32]),
        })));
    }
    commands
}

/// The prepare of this transfer. The hash depends on the amount.
pub(crate) fn prepare(of: usize, amount: Amount, expiration_ms: u64) -> Command {
    Command::Prepare(Box::new(Prepare {
        id: id(of),
        source: name("payer"),
        payer: name("payer"),
        payee: name("payee"),
        currency: usd(),
        amount,
        condition: CONDITION,
        expiration_ms,
        hash: hash(amount.units()),
        trace: [0; 16],
        fee_rule: None,
        quote_terms: None,
    }))
}

/// A digest made of this number.
pub(crate) fn hash(number: i128) -> Digest {
    let mut hash = Digest::default();
    hash.0[..16].copy_from_slice(&number.to_le_bytes());
    hash
}

/// The payee's commit of this transfer.
pub(crate) fn fulfil(of: usize) -> Command {
    Command::Fulfil(Box::new(Fulfil {
        id: id(of),
        source: name("payee"),
        destination: Some(name("payer")),
        fulfilment: Fulfilment::Present([0; 32]),
        state: FulfilState::Committed,
        hash: hash(1),
        trace: [0; 16],
    }))
}

/// A store from which only windows and settlements are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettlementRows(Arc<Mutex<WriteBatch>>);

impl SettlementRows {
    /// All rows in the order in which they were written.
    pub(crate) fn rows(&self) -> Vec<ArchivedSettlement> {
        self.0.lock().expect("no test panics with it").settlements.clone()
    }
}

impl ColdReader for SettlementRows {
    fn read(&self, _: &TransferId, _: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        Ok(None)
    }

    fn visible(&self) -> LogIndex {
        self.0.lock().expect("no test panics with it").mark.log_index
    }

    fn offer(&mut self, batch: &mut WriteBatch) -> bool {
        self.0.lock().expect("no test panics with it").append(batch);
        true
    }

    fn wait(&mut self, _: WaitFor) -> Result<(), StoreError> {
        Ok(())
    }
}
