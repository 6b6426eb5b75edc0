//! Every order of messages about two transfers, up to a length, with a crash and a replay between
//! any two. The decisions must match a few lines of rules.
//!
//! A message is the prepare (repeated, it is a resend), the same id with another amount, the fulfil
//! or the abort, each of either transfer, or a time after all deadlines. Orders that differ only in
//! which transfer comes first are tried once. The orders form a tree: each node is the log of its
//! parent, crashed, replayed, and one message longer.

use journal::MemoryLog;
use ledger::{
    Abort, AccountId, Amount, Command, Digest, Fulfil, FulfilState, Fulfilment, Outcome, State,
    TransferState,
};
use ports::ClockReading;
use sequencer::Sequencer;

use crate::fixture::{self, IDENTITY, beginning, hash, id, name, prepare, units};

/// Maximum length of an order; the nightly run sets six by the environment variable of this name.
const DEPTH: usize = 4;
const DEPTH_VARIABLE: &str = "ORDERS_DEPTH";
const LOG_BYTES: usize = 1 << 20;
/// Expiration of both transfers, in milliseconds.
const EXPIRATION_MS: u64 = 10_000;

/// The next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// A prepare of this transfer for this amount. The first of the two creates the transfer.
    Prepare(usize, i128),
    Fulfil(usize),
    Abort(usize),
    /// All deadlines pass.
    Time,
}

const MESSAGES: [Message; 9] = [
    Message::Prepare(0, 10),
    Message::Prepare(0, 11),
    Message::Fulfil(0),
    Message::Abort(0),
    Message::Time,
    Message::Prepare(1, 20),
    Message::Prepare(1, 21),
    Message::Fulfil(1),
    Message::Abort(1),
];

/// The state of a transfer by the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Unknown,
    Reserved(i128),
    Committed(i128),
    Aborted,
}

/// The rules, without money and notices, which are checked against it.
#[derive(Clone, Copy, Debug)]
struct Model {
    fates: [Fate; 2],
    late: bool,
    /// Notices owed; no delivery is ever recorded here.
    owed: usize,
}

impl Model {
    fn take(&mut self, message: Message) {
        let Self { fates, late, .. } = self;
        match message {
            Message::Prepare(of, amount) if fates[of] == Fate::Unknown => {
                fates[of] = if *late { Fate::Aborted } else { Fate::Reserved(amount) };
            }
            Message::Fulfil(of) => {
                if let Fate::Reserved(amount) = fates[of] {
                    fates[of] = Fate::Committed(amount);
                }
            }
            Message::Abort(of) if matches!(fates[of], Fate::Reserved(_)) => {
                fates[of] = Fate::Aborted;
            }
            Message::Prepare(..) | Message::Abort(_) => {}
            Message::Time => {
                *late = true;
                let open = fates.iter_mut().filter(|fate| matches!(fate, Fate::Reserved(_)));
                open.for_each(|fate| *fate = Fate::Aborted);
            }
        }
    }
}

/// A log, and its expected state.
struct Node {
    log: MemoryLog,
    digest: Digest,
    model: Model,
    path: Vec<Message>,
}

type Subject = Sequencer<MemoryLog>;

fn open(log: MemoryLog, late: bool) -> Subject {
    fixture::open(log, now(late))
}

fn now(late: bool) -> ClockReading {
    fixture::at(if late { 2 * EXPIRATION_MS * 1_000 } else { 1_000 })
}

fn commit(subject: &mut Subject, commands: Vec<Command>, late: bool) {
    fixture::commit(subject, commands, now(late)).expect("there is room");
}

fn command(message: Message) -> Command {
    match message {
        Message::Prepare(of, amount) => prepare(of, units(amount), EXPIRATION_MS),
        Message::Fulfil(of) => Command::Fulfil(Box::new(Fulfil {
            id: id(of),
            source: name("payee"),
            destination: None,
            state: FulfilState::Committed,
            fulfilment: Fulfilment::Present([0; 32]),
            hash: hash(1),
            trace: [0; 16],
        })),
        Message::Abort(of) => Command::Abort(Box::new(Abort {
            id: id(of),
            source: name("payee"),
            destination: None,
            code_is_known: true,
            hash: hash(2),
            trace: [0; 16],
        })),
        Message::Time => Command::Tick,
    }
}

#[test]
fn every_order_of_messages_with_a_crash_between_each_two() {
    let mut subject = open(MemoryLog::new(IDENTITY, LOG_BYTES), false);
    commit(&mut subject, beginning(), false);
    assert!(subject.outcomes().iter().all(|outcome| *outcome == Outcome::Accepted));
    let model = Model { fates: [Fate::Unknown; 2], late: false, owed: 0 };
    let log = subject.log().crashed();
    let root = Node { log, digest: *subject.state().digest(), model, path: Vec::new() };
    let mut count = 0;
    let depth = match std::env::var(DEPTH_VARIABLE) {
        Ok(depth) => depth.parse().expect("a number of messages"),
        Err(_) => DEPTH,
    };
    visit_children(&root, depth, &mut count);
    // The number of nodes of the tree in which the second transfer does not come first.
    assert_eq!(count, nodes(depth));
}

/// The number of orders up to this length: time may come first, then the first transfer; after
/// that, everything.
fn nodes(depth: usize) -> usize {
    let free = |depth: usize| (1..=depth).map(|depth| 9_usize.pow(depth as u32)).sum::<usize>();
    match depth {
        0 => 0,
        _ => 4 * (1 + free(depth - 1)) + 1 + nodes(depth - 1),
    }
}

/// Visits everything that can follow a node.
fn visit_children(node: &Node, depth: usize, count: &mut usize) {
    if node.path.len() == depth {
        return;
    }
    let is_named = node.path.iter().any(|message| *message != Message::Time);
    let next = if is_named { &MESSAGES[..] } else { &MESSAGES[..5] };
    for message in next {
        *count += 1;
        visit_children(&after(node, *message), depth, count);
    }
}

/// The same log, crashed, replayed, and one message longer.
fn after(node: &Node, message: Message) -> Node {
    let mut model = node.model;
    let mut subject = open(node.log.crashed(), model.late);
    let mut path = node.path.clone();
    assert_eq!(*subject.state().digest(), node.digest, "after a crash, {path:?}");
    check(subject.state(), &model, &path);

    path.push(message);
    let before = model.fates;
    model.take(message);
    commit(&mut subject, vec![command(message)], model.late);
    let effects = subject.effects();
    model.owed += effects.notices.len();
    for (of, (before, now)) in before.iter().zip(&model.fates).enumerate() {
        let ended = before != now && matches!(now, Fate::Committed(_) | Fate::Aborted);
        let (payer, _) = subject.state().registry().find(&name("payer")).expect("it was made");
        let is_notified = effects
            .notices
            .iter()
            .any(|one| one.transfer == Some(id(of)) && one.recipient == payer);
        assert!(!ended || is_notified, "the payer is notified of the end of {of}: {path:?}");
    }
    check(subject.state(), &model, &path);
    Node { log: subject.log().clone(), digest: *subject.state().digest(), model, path }
}

/// Checks the state against the rules, and accounts and notices against the state.
#[track_caller]
fn check(state: &State, model: &Model, path: &[Message]) {
    let mut positions = [0, 0];
    for (of, fate) in model.fates.into_iter().enumerate() {
        let found = state.view(&id(of)).map(|view| view.state);
        let expected = match fate {
            Fate::Unknown => None,
            Fate::Reserved(_) => Some(TransferState::Reserved),
            Fate::Committed(_) => Some(TransferState::Committed),
            Fate::Aborted => Some(TransferState::Aborted),
        };
        assert_eq!(found, expected, "transfer {of}: {path:?}");
        match fate {
            Fate::Reserved(amount) => positions[0] += amount,
            Fate::Committed(amount) => {
                positions[0] += amount;
                positions[1] -= amount;
            }
            Fate::Unknown | Fate::Aborted => {}
        }
    }
    let value = |account| state.accounts().get(AccountId(account)).expect("it was opened").value;
    assert_eq!([value(6), value(8)], positions.map(units), "positions: {path:?}");
    assert!(state.accounts().sums().all(|(_, sum)| sum == Amount::ZERO), "{path:?}");
    let open = model.fates.iter().filter(|fate| matches!(fate, Fate::Reserved(_))).count();
    assert_eq!(state.reserved_transfer_count(), open, "{path:?}");
    assert_eq!(state.notices_owed().count(), model.owed, "{path:?}");
    assert_eq!(state.notices_owed_count(), model.owed, "{path:?}");
    assert_eq!(state.dead_letter_count(), 0, "{path:?}");
}
