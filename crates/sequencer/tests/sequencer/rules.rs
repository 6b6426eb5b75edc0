//! A log is decided by the rules under which it began, until a record activates newer ones.

use std::time::Duration;

use journal::{FileLog, MemoryDisk, contract};
use ledger::{
    Activate, ArchivedSettlement, Change, Genesis, LogIndex, RULES_VERSION, Stamp, State, WindowId,
};
use record::bundle::{self, Bundle};
use record::frame::Frame;
use sequencer::{AppliedMessage, ColdTier, GenesisMessage, Quarantine, ReplayStart, Sequencer};

use crate::fixture::{
    self, IDENTITY, SECOND, SettlementRows, at, beginning, change, name, open_log, units,
};

/// The rules before settlement.
const FIRST: u32 = 1;

type Alone = Sequencer<FileLog<MemoryDisk>>;

fn start(log: FileLog<MemoryDisk>, start: ReplayStart) -> Alone {
    Sequencer::open_from(log, start, (0, at(100 * SECOND)), &mut |_| {})
        .unwrap_or_else(|failed| panic!("{}", failed.1))
}

fn plain(state: State) -> ReplayStart {
    ReplayStart { state, quarantine: Quarantine::default(), cold_tier: None }
}

/// A transfer, in two batches.
fn pay(sequencer: &mut Alone, of: usize) {
    for command in [fixture::prepare(of, units(5), 900_000), fixture::fulfil(of)] {
        fixture::commit(sequencer, vec![command], at(101 * SECOND)).expect("it is recorded");
    }
}

/// A log that began under the first rules, with one transfer.
fn older(disk: &MemoryDisk) -> Alone {
    let mut state = State::new();
    state.begin_under(FIRST);
    let mut sequencer = start(open_log(disk), plain(state));
    fixture::commit(&mut sequencer, beginning(), at(100 * SECOND)).expect("it is recorded");
    pay(&mut sequencer, 1);
    sequencer
}

#[test]
fn an_older_log_is_replayed_under_its_rules_until_it_activates_newer_ones() {
    let disk = MemoryDisk::new(1);
    let hash = older(&disk).state().hash();
    let mut sequencer = start(open_log(&disk), plain(State::new()));
    let state = sequencer.state();
    assert_eq!((state.rules_version(), state.hash()), (FIRST, hash));
    assert_eq!(state.settlement().windows().count(), 0);

    let activate = change(Change::Activate(Activate { rules_version: RULES_VERSION }));
    fixture::commit(&mut sequencer, vec![activate], at(102 * SECOND)).expect("it is recorded");
    let activated = sequencer.state().log_index();
    pay(&mut sequencer, 2);
    let book = sequencer.state().settlement();
    let [payer, payee] = book.open_accounts() else { panic!("both sides of one transfer") };
    assert_eq!((payer.paid, payer.paid_count), (units(5), 1));
    assert_eq!((payee.received, payee.received_count), (units(5), 1));
    assert_eq!(book.window(WindowId(1)).map(|entry| entry.window.opened), Some(activated));

    let hash = sequencer.state().hash();
    drop(sequencer);
    let store = SettlementRows::default();
    let cold_tier = Some(ColdTier::new(Box::new(store.clone()), Duration::MAX));
    let again = start(open_log(&disk), ReplayStart { cold_tier, ..plain(State::new()) });
    assert_eq!(again.state().hash(), hash);
    let stored = store.rows();
    let [ArchivedSettlement::Window(window)] = &stored[..] else { panic!("one: {stored:?}") };
    assert_eq!((window.window.opened, window.window.closed), (activated, LogIndex(0)));
}

#[test]
fn a_shared_log_goes_by_the_rules_of_its_beginning() {
    let wall = Stamp(100 * SECOND);
    let genesis = Genesis { seed: [1; 16], hub: name("Hub") };
    let message = GenesisMessage { identity: IDENTITY, genesis, node: 1, wall }.bundle("founder");
    let newest = Bundle::parse(&message).expect("it is a bundle");
    assert_eq!(newest.header.rules, RULES_VERSION);
    for rules in [FIRST, RULES_VERSION] {
        let mut header = newest.header;
        header.rules = rules;
        let mut bytes = Vec::new();
        bundle::write(&header, newest.count, newest.records, &mut bytes);
        let disk = MemoryDisk::new(1);
        let mut replica = fixture::replica(open_log(&disk).into_copy(), (1, 1), None);
        let bundle = Bundle::parse(&bytes).expect("it is a bundle");
        let delivered = replica.deliver(&bundle, wall).expect("it is taken");
        assert!(matches!(delivered, AppliedMessage::Applied { .. }), "{delivered:?}");
        assert_eq!(replica.sequencer().state().rules_version(), rules);
        drop(replica);
        let mut copy = open_log(&disk);
        let frames = contract::frames_of(&mut copy, LogIndex(1));
        let frame = Frame::parse(&frames[0]).expect("it is a frame");
        assert_eq!(frame.header().batch.rules_version, rules);
    }
}

#[test]
fn a_moved_log_keeps_its_rules() {
    let disk = MemoryDisk::new(1);
    let hash = older(&disk).state().hash();
    let frames = contract::frames_of(&mut open_log(&disk), LogIndex(1));
    let copy = MemoryDisk::new(2);
    let mut replica = fixture::replica(open_log(&copy).into_copy(), (1, 1), None);
    for frame in &frames {
        let frame = Frame::parse(frame).expect("it is a frame");
        replica.restore(&frame).expect("it is taken");
    }
    assert_eq!(
        (replica.sequencer().state().rules_version(), replica.sequencer().state().hash()),
        (FIRST, hash)
    );
}
