//! What a batch asks the store for: the ids that are not in memory, all at once, and of these the
//! rows that may be there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use journal::{FileLog, MemoryDisk, Options};
use ledger::{
    AccountKind, Administer, Amount, Change, Command, CreateHubAccount, CreateParticipant,
    Currency, Digest, Ended, FspName, Genesis, Outcome, Position, Prepare, Stamp, State,
    TransferId,
};
use ports::{Cold, Now, Portion, StoreError, Until};
use record::frame::LogIdentity;
use sequencer::{ColdSide, Durability, Quarantine, Sequencer, Start, Submission};

const SECOND: u64 = 1_000_000;

/// A store that shows at once what it is given, and notes what it is asked.
#[derive(Clone, Debug, Default)]
struct Shelf(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    rows: BTreeMap<TransferId, Ended>,
    visible: Position,
    asked: Vec<TransferId>,
    read: Vec<TransferId>,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nobody panics")
    }

    /// What it was asked since this was called last: whether it has them, and to read them.
    fn asked(&self) -> [Vec<TransferId>; 2] {
        let mut inner = self.lock();
        [std::mem::take(&mut inner.asked), std::mem::take(&mut inner.read)]
    }
}

impl Cold for Shelf {
    fn read(&self, id: &TransferId, _: Position) -> Result<Option<Ended>, StoreError> {
        let mut inner = self.lock();
        inner.read.push(*id);
        Ok(inner.rows.get(id).cloned())
    }

    fn drop_absent(&self, ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        let mut inner = self.lock();
        inner.asked.extend_from_slice(ids);
        ids.retain(|id| inner.rows.contains_key(id));
        Ok(())
    }

    fn visible(&self) -> Position {
        self.lock().visible
    }

    fn offer(&mut self, portion: &mut Portion) -> bool {
        let mut inner = self.lock();
        inner.visible = portion.mark.position;
        inner.rows.extend(portion.rows.drain(..).map(|row| (row.id, row)));
        portion.clear();
        true
    }

    fn wait(&mut self, _: Until) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Subject {
    sequencer: Sequencer<FileLog<MemoryDisk>>,
    seconds: u64,
}

impl Subject {
    fn new(shelf: &Shelf) -> Self {
        let (log, _) =
            FileLog::open_or_create(MemoryDisk::new(1), LogIdentity([7; 16]), Options::default())
                .expect("a new log");
        let cold = Some(ColdSide::new(Box::new(shelf.clone()), Duration::from_secs(10)));
        let start = Start { state: State::new(), quarantine: Quarantine::default(), cold };
        let sequencer = Sequencer::open_from(log, start, (0, now(1)), &mut |_| {})
            .unwrap_or_else(|failed| panic!("{}", failed.1));
        Self { sequencer, seconds: 1 }
    }

    /// What comes of a batch, seconds after the one before.
    fn commit(&mut self, commands: Vec<Command>, seconds: u64) -> Vec<Outcome> {
        self.seconds += seconds;
        let one = |command| Submission::without_payload(command, Durability::Synced, 0_u32);
        let waiting: Result<VecDeque<_>, _> = commands.into_iter().map(one).collect();
        let (mut waiting, mut batch) = (waiting.expect("they fit"), Vec::new());
        self.sequencer.commit(&mut waiting, &mut batch, now(self.seconds)).expect("it is decided");
        self.sequencer.tend(now(self.seconds)).expect("it is kept");
        self.sequencer.outcomes().to_vec()
    }
}

fn now(seconds: u64) -> Now {
    Now { monotonic_us: seconds * SECOND, wall: Stamp(seconds * SECOND) }
}

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn id(number: u32) -> TransferId {
    TransferId::parse(&format!("{number:0>26}")).expect("digits are an id")
}

/// A scheme with one participant.
fn beginning() -> Vec<Command> {
    let change = |change| {
        let (actor, reason) = ("tester".to_owned(), String::new());
        Command::Administer(Box::new(Administer { actor, reason, change }))
    };
    let currency = usd();
    let hub_account = |kind| change(Change::CreateHubAccount(CreateHubAccount { currency, kind }));
    vec![
        Command::Genesis(Genesis { seed: [1; 16], hub: name("Hub") }),
        hub_account(AccountKind::HubReconciliation),
        hub_account(AccountKind::HubMultilateralSettlement),
        change(Change::CreateParticipant(CreateParticipant { name: name("payer"), currency })),
    ]
}

fn usd() -> Currency {
    Currency::parse("USD").expect("a currency")
}

/// Refused because the payee is unknown, and kept.
fn prepare(number: u32) -> Command {
    Command::Prepare(Box::new(Prepare {
        id: id(number),
        source: name("payer"),
        payer: name("payer"),
        payee: name("payee"),
        currency: usd(),
        amount: Amount::from_units(10_000),
        condition: [0; 32],
        expiration_ms: 1_000_000,
        hash: Digest([1; 32]),
        trace: [0; 16],
    }))
}

#[test]
fn only_what_is_not_in_memory_is_asked_for_and_only_what_may_be_there_is_read() {
    let shelf = Shelf::default();
    let mut subject = Subject::new(&shelf);
    subject.commit(beginning(), 0);
    assert_eq!(shelf.asked(), [vec![], vec![]]);

    let first = subject.commit(vec![prepare(1), prepare(2)], 1);
    assert_eq!(first, [Outcome::PreparePayeeNotFound; 2]);
    assert_eq!(shelf.asked(), [vec![id(1), id(2)], vec![]], "they are new");
    let resent = subject.commit(vec![prepare(1), prepare(2)], 1);
    assert_eq!(shelf.asked(), [vec![], vec![]], "they are in memory");

    // They leave with the batch after which they are due.
    subject.commit(vec![Command::Tick], 60);
    assert_eq!(subject.sequencer.state().transfers_hot(), 0);
    let late = subject.commit(vec![prepare(3), prepare(2), prepare(2), prepare(1)], 1);
    let [asked, read] = shelf.asked();
    assert_eq!(asked, [id(3), id(2), id(2), id(1)]);
    assert_eq!(read, [id(2), id(1)], "one that is asked for twice comes back once");
    assert_eq!(late, [first[0], resent[1], resent[1], resent[0]]);
    let counts = subject.sequencer.cold_counts();
    assert_eq!((counts.reads, counts.found), (6, 2));
}
