//! The sequencer's thread: replies after the commit, bounded inbox, and an end that leaves nobody
//! waiting.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use journal::{FileLog, MemoryDisk, Options};
use ledger::{
    AccountKind, Administer, Change, ChangeParties, Command, CreateHubAccount, CreateParticipant,
    Currency, FspName, Genesis, Outcome, PartyBinding, PartyChangeForm,
};
use node::stages::{Stages, WatchedLog};
use node::{
    Attached, Directory, Event, Handle, InboxLimits, Mailbox, Node, Refused, Submission,
    SystemClock, Ticket, start,
};
use ports::Clock;
use record::frame::LogIdentity;
use sequencer::{Durability, Sequencer};

const PATIENCE: Duration = Duration::from_secs(10);

/// A mailbox and a bell that its waker rings.
struct Letters {
    mailbox: Arc<Mailbox<()>>,
    bell: Arc<(Mutex<bool>, Condvar)>,
}

impl Letters {
    fn new() -> Self {
        let bell = Arc::new((Mutex::new(false), Condvar::new()));
        let ringing = Arc::clone(&bell);
        let mailbox = Arc::new(Mailbox::new(move || {
            *ringing.0.lock().expect("nobody panics with the bell") = true;
            ringing.1.notify_one();
        }));
        Self { mailbox, bell }
    }

    fn next(&self) -> Vec<Event<()>> {
        let rung = self.bell.0.lock().expect("nobody panics with the bell");
        let waited = self.bell.1.wait_timeout_while(rung, PATIENCE, |rung| !*rung);
        let (mut rung, late) = waited.expect("nobody panics with the bell");
        assert!(!late.timed_out(), "events come within {PATIENCE:?}");
        *rung = false;
        drop(rung);
        let mut events = Vec::new();
        self.mailbox.take(&mut events);
        events
    }
}

fn begin(disk: &MemoryDisk, limits: InboxLimits) -> (Node<()>, Letters) {
    let clock = SystemClock::new();
    let options = Options { room_bytes: 0, ..Options::default() };
    let (log, recovery) = FileLog::open_or_create(disk.clone(), LogIdentity([9; 16]), options)
        .expect("a log opens on a good disk");
    let log = WatchedLog::new(log, Arc::new(Stages::new(1)));
    let mut sequencer =
        Sequencer::open(log, 0, clock.now(), &mut |_| ()).expect("a good log replays");
    if recovery.created {
        let genesis = Genesis { seed: [1; 16], hub: name("Hub") };
        let genesis = sequencer::Submission::without_payload(
            Command::Genesis(genesis),
            Durability::Synced,
            (),
        );
        let mut waiting = VecDeque::from([genesis.expect("it fits a record")]);
        sequencer.commit(&mut waiting, &mut Vec::new(), clock.now()).expect("there is room");
    }
    let own = Letters::new();
    let mailboxes = vec![Arc::clone(&own.mailbox)];
    let node = start(sequencer, clock, Directory::default(), mailboxes, limits);
    (node.expect("a thread starts"), own)
}

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn submission(command: Command, ticket: Ticket) -> Submission<()> {
    let attached = Attached { ticket, message: None };
    Submission::<()>::without_payload(command, Durability::Synced, attached).expect("it fits")
}

fn administer(handle: &Handle<()>, change: Change) -> Result<Outcome, Refused> {
    let (answer, answered) = mpsc::sync_channel(1);
    let call = Box::new(move |result| answer.send(result).expect("the asker waits"));
    let command = Administer { actor: "test".into(), reason: String::new(), change };
    let command = Command::Administer(Box::new(command));
    handle.submit(&mut vec![submission(command, Ticket::Call(call))])?;
    answered.recv_timeout(PATIENCE).expect("every command is answered")
}

fn hub_account(currency: &str) -> Change {
    let currency = Currency::parse(currency).expect("three letters");
    Change::CreateHubAccount(CreateHubAccount { currency, kind: AccountKind::HubReconciliation })
}

#[test]
fn a_waiter_hears_after_the_commit_and_a_question_sees_it() {
    let disk = MemoryDisk::new(1);
    let (node, own) = begin(&disk, InboxLimits::default());
    let handle = node.handle();
    let ticket = Ticket::Waiter { mailbox: 0, waiter: 42 };
    handle.submit(&mut vec![submission(Command::Tick, ticket)]).expect("there is room");
    let (answer, answered) = mpsc::sync_channel(1);
    handle
        .ask(move |state| answer.send(state.position().0).expect("the asker waits"))
        .expect("there is room");
    let events = own.next();
    assert!(
        matches!(events[..], [Event::Reply { waiter: 42, result: Ok(Outcome::Accepted) }]),
        "{events:?}"
    );
    assert_eq!(answered.recv_timeout(PATIENCE).expect("an answer comes"), 2);
    node.stop().expect("it stops in order");
}

#[test]
fn a_change_is_in_the_view_before_it_is_answered() {
    let disk = MemoryDisk::new(2);
    let (node, _own) = begin(&disk, InboxLimits::default());
    let handle = node.handle();
    let mut generation = 0;
    let before = handle.view_since(&mut generation).expect("a first view");
    assert!(handle.view_since(&mut generation).is_none());
    for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
        let currency = Currency::parse("USD").expect("three letters");
        let change = Change::CreateHubAccount(CreateHubAccount { currency, kind });
        assert_eq!(administer(&handle, change), Ok(Outcome::Accepted));
    }
    let currency = Currency::parse("USD").expect("three letters");
    let change = Change::CreateParticipant(CreateParticipant { name: name("dfsp1"), currency });
    assert_eq!(administer(&handle, change), Ok(Outcome::Accepted));
    let after = handle.view_since(&mut generation).expect("the register changed");
    assert!(before.find(&name("dfsp1")).is_none());
    assert!(after.find(&name("dfsp1")).is_some());
    node.stop().expect("it stops in order");
}

#[test]
fn a_registration_is_found_once_it_is_answered() {
    let disk = MemoryDisk::new(3);
    let (node, own) = begin(&disk, InboxLimits::default());
    let handle = node.handle();
    let hub = name("Hub");
    let party = PartyBinding {
        id_type: "MSISDN".into(),
        id: "123".into(),
        sub_id: None,
        currency: None,
        fsp: hub,
    };
    let change = ChangeParties {
        source: hub,
        form: PartyChangeForm::Single,
        parties: vec![party],
        trace: [0; 16],
    };
    let ticket = Ticket::Waiter { mailbox: 0, waiter: 0 };
    let command = Command::ChangeParties(Box::new(change));
    handle.submit(&mut vec![submission(command, ticket)]).expect("there is room");
    own.next();
    assert_eq!(handle.find_party("MSISDN", "123", None).map(|row| row.is_some()), Ok(true));
    node.stop().expect("it stops in order");
}

#[test]
fn a_full_inbox_leaves_the_rest_with_the_sender() {
    let disk = MemoryDisk::new(4);
    let limits = InboxLimits { submissions_max: 3, ..InboxLimits::default() };
    let (node, _own) = begin(&disk, limits);
    let handle = node.handle();
    // The thread is held by a question until the inbox has been filled.
    let (hold, held) = mpsc::sync_channel::<()>(0);
    let (reached, reaching) = mpsc::sync_channel::<()>(0);
    handle
        .ask(move |_| {
            reached.send(()).expect("the test waits");
            held.recv().expect("the test lets go");
        })
        .expect("there is room");
    reaching.recv_timeout(PATIENCE).expect("the question runs");
    let ticks = || submission(Command::Tick, Ticket::None);
    let mut five: Vec<_> = std::iter::repeat_with(ticks).take(5).collect();
    assert_eq!(handle.submit(&mut five), Err(Refused::Full));
    assert_eq!((five.len(), handle.refused_count()), (2, 2));
    hold.send(()).expect("the thread waits");
    node.stop().expect("it stops in order");
}

#[test]
fn a_failed_sync_refuses_everything_and_ends_the_thread() {
    let disk = MemoryDisk::new(5);
    let (node, own) = begin(&disk, InboxLimits::default());
    let handle = node.handle();
    disk.fail_sync_at(disk.operations());
    let ticket = Ticket::Waiter { mailbox: 0, waiter: 7 };
    handle.submit(&mut vec![submission(Command::Tick, ticket)]).expect("there is room");
    let events = own.next();
    assert!(
        matches!(events[..], [Event::Reply { waiter: 7, result: Err(Refused::Stopped) }]),
        "{events:?}"
    );
    let deadline = Instant::now() + PATIENCE;
    while !node.has_ended() {
        assert!(Instant::now() < deadline, "the thread ends within {PATIENCE:?}");
        std::thread::yield_now();
    }
    assert_eq!(administer(&handle, hub_account("USD")), Err(Refused::Stopped));
    assert!(handle.status().stopped.is_some());
    node.stop().expect_err("the log stopped by itself");
}

#[test]
fn a_full_disk_refuses_until_there_is_room() {
    let disk = MemoryDisk::new(6);
    let (node, _own) = begin(&disk, InboxLimits::default());
    let handle = node.handle();
    disk.set_capacity(0);
    assert_eq!(administer(&handle, hub_account("USD")), Err(Refused::DiskFull));
    disk.set_capacity(u64::MAX);
    assert_eq!(administer(&handle, hub_account("USD")), Ok(Outcome::Accepted));
    node.stop().expect("it stops in order");
}

#[test]
fn a_record_that_breaks_an_invariant_stops_the_node_before_it_is_acknowledged() {
    let disk = MemoryDisk::new(7);
    let (node, own) = begin(&disk, InboxLimits::default());
    let handle = node.handle();
    let second = Command::Genesis(Genesis { seed: [2; 16], hub: name("Hub") });
    let ticket = Ticket::Waiter { mailbox: 0, waiter: 3 };
    handle.submit(&mut vec![submission(second, ticket)]).expect("there is room");
    let events = own.next();
    assert!(
        matches!(events[..], [Event::Reply { waiter: 3, result: Err(Refused::Stopped) }]),
        "{events:?}"
    );
    let reason = node.stop().expect_err("the node stopped by itself");
    assert!(reason.contains("record 2 broke an invariant"), "{reason}");
    // It is in the log: the next start stops at the same place instead of skipping it.
    let options = Options::default();
    let (log, _) = FileLog::open(disk.kill(), options).expect("the log itself is sound");
    let clock = SystemClock::new();
    let error = Sequencer::open(log, 0, clock.now(), &mut |_| ()).expect_err("it does not start");
    assert!(error.to_string().contains("record 2 breaks an invariant"), "{error}");
}
