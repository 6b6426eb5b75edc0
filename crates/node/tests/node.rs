//! The sequencer's thread: replies after the commit, a bounded inbox, and a shutdown that leaves no
//! request waiting.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use journal::{FileLog, LogOptions, MemoryDisk};
use ledger::{
    AccountKind, Administer, Change, ChangeParties, ChangeReply, ChangeResult, CloseWindow,
    Command, CreateHubAccount, CreateParticipant, CreateSettlement, Currency, FspName, Genesis,
    Outcome, PartyBinding, PartyChangeForm, WindowId,
};
use node::latency_trace::{LatencyTrace, TracedLog};
use node::{
    Directory, Handle, InboxLimits, Mailbox, MailboxEvent, Node, ReplyTo, Submission,
    SubmissionContext, SubmissionRefused, SystemClock, start, unattended,
};
use ports::Clock;
use record::frame::LogIdentity;
use sequencer::{Durability, Sequencer};

const PATIENCE: Duration = Duration::from_secs(10);

/// A mailbox and the signals of its waker.
struct TestMailbox {
    mailbox: Arc<Mailbox<()>>,
    bell: mpsc::Receiver<()>,
}

impl TestMailbox {
    fn new() -> Self {
        let (ring, bell) = mpsc::sync_channel(16);
        // The test may have ended.
        Self { mailbox: Arc::new(Mailbox::new(move || _ = ring.try_send(()))), bell }
    }

    fn next(&self) -> Vec<MailboxEvent<()>> {
        self.bell.recv_timeout(PATIENCE).expect("events come");
        let mut events = Vec::new();
        self.mailbox.take(&mut events);
        events
    }

    /// The next event, which must be the reply to this waiter.
    fn reply_to(&self, expected: u32) -> Result<Outcome, SubmissionRefused> {
        match self.next()[..] {
            [MailboxEvent::Reply { waiter, result }] if waiter == expected => result,
            ref other => panic!("{other:?}"),
        }
    }
}

fn begin(disk: &MemoryDisk, limits: InboxLimits) -> (Node<()>, TestMailbox) {
    let clock = SystemClock::new();
    let options = LogOptions { room_bytes: 0, ..LogOptions::default() };
    let (log, recovery) = FileLog::open_or_create(disk.clone(), LogIdentity([9; 16]), options)
        .expect("a log opens on a good disk");
    let log = TracedLog::new(log, Arc::new(LatencyTrace::new(1)));
    let mut sequencer =
        Sequencer::open(log, 0, clock.now(), &mut |_| ()).expect("a good log replays");
    if recovery.created {
        let genesis = Command::Genesis(Genesis { seed: [1; 16], hub: name("Hub") });
        let mut waiting = VecDeque::from([unattended::<()>(genesis)]);
        sequencer.commit(&mut waiting, &mut Vec::new(), clock.now()).expect("there is room");
    }
    let own = TestMailbox::new();
    let mailboxes = vec![Arc::clone(&own.mailbox)];
    let node = start(sequencer, clock, Directory::default(), mailboxes, limits);
    (node.expect("a thread starts"), own)
}

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn submission(command: Command, ticket: ReplyTo) -> Submission<()> {
    let attached = SubmissionContext { ticket, message: None };
    Submission::<()>::without_payload(command, Durability::Synced, attached).expect("it fits")
}

/// Submits a command with a waiter for its reply.
fn submit(handle: &Handle<()>, command: Command, waiter: u32) {
    let ticket = ReplyTo::Waiter { mailbox: 0, waiter };
    handle.submit(&mut vec![submission(command, ticket)]).expect("there is room");
}

fn administer(handle: &Handle<()>, change: Change) -> Result<Outcome, SubmissionRefused> {
    decide(handle, change).map(|decided| decided.outcome)
}

/// The decision on a change, with its result.
fn decide(handle: &Handle<()>, change: Change) -> Result<ChangeReply, SubmissionRefused> {
    let (answer, answered) = mpsc::sync_channel(1);
    let call = Box::new(move |result| answer.send(result).expect("the asker waits"));
    let command = Administer { actor: "test".into(), reason: String::new(), change };
    let command = Command::Administer(Box::new(command));
    handle.submit(&mut vec![submission(command, ReplyTo::Call(call))])?;
    answered.recv_timeout(PATIENCE).expect("every command is answered")
}

fn usd() -> Currency {
    Currency::parse("USD").expect("three letters")
}

fn hub_account(kind: AccountKind) -> Change {
    Change::CreateHubAccount(CreateHubAccount { currency: usd(), kind })
}

#[test]
fn replies_follow_the_commit_and_a_query_sees_it() {
    let disk = MemoryDisk::new(1);
    let (node, own) = begin(&disk, InboxLimits::default());
    let handle = node.handle();
    submit(&handle, Command::Tick, 42);
    let (answer, answered) = mpsc::sync_channel(1);
    handle
        .ask(move |state| answer.send(state.log_index().0).expect("the asker waits"))
        .expect("there is room");
    assert_eq!(own.reply_to(42), Ok(Outcome::Accepted));
    assert_eq!(answered.recv_timeout(PATIENCE).expect("an answer comes"), 2);
    node.stop().expect("it stops in order");
}

#[test]
fn the_result_of_a_change_reaches_its_caller() {
    let disk = MemoryDisk::new(31);
    let (node, _own) = begin(&disk, InboxLimits::default());
    let handle = node.handle();
    let settlement = |window| {
        Change::CreateSettlement(CreateSettlement {
            model: "DEFAULTDEFERREDNET".into(),
            reason: "test".into(),
            windows: vec![WindowId(window)],
        })
    };
    for window in [1, 7] {
        let decided = decide(&handle, settlement(window)).expect("there is room");
        assert_eq!(decided.outcome, Outcome::WindowsInapplicable);
        let inapplicable = ChangeResult::Inapplicable(vec![WindowId(window)]);
        assert_eq!(decided.result, Some(inapplicable));
    }
    let close = CloseWindow { window: WindowId(1), reason: "test".into() };
    let decided = decide(&handle, Change::CloseWindow(close)).expect("there is room");
    assert_eq!((decided.outcome, decided.result), (Outcome::WindowEmpty, None));
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
        assert_eq!(administer(&handle, hub_account(kind)), Ok(Outcome::Accepted));
    }
    let currency = usd();
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
        rule: None,
    };
    submit(&handle, Command::ChangeParties(Box::new(change)), 0);
    own.next();
    assert_eq!(handle.find_party("MSISDN", "123", None).map(|row| row.entries.len()), Ok(1));
    node.stop().expect("it stops in order");
}

#[test]
fn a_full_inbox_leaves_the_rest_in_the_vector() {
    let disk = MemoryDisk::new(4);
    let limits = InboxLimits { submissions_max: 3, ..InboxLimits::default() };
    let (node, _own) = begin(&disk, limits);
    let handle = node.handle();
    // The thread is blocked by a query until the inbox has been filled.
    let (hold, held) = mpsc::sync_channel::<()>(0);
    let (reached, reaching) = mpsc::sync_channel::<()>(0);
    handle
        .ask(move |_| {
            reached.send(()).expect("the test waits");
            held.recv().expect("the test continues");
        })
        .expect("there is room");
    reaching.recv_timeout(PATIENCE).expect("the query runs");
    let ticks = || submission(Command::Tick, ReplyTo::None);
    let mut five: Vec<_> = std::iter::repeat_with(ticks).take(5).collect();
    assert_eq!(handle.submit(&mut five), Err(SubmissionRefused::Full));
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
    submit(&handle, Command::Tick, 7);
    assert_eq!(own.reply_to(7), Err(SubmissionRefused::Stopped));
    let deadline = Instant::now() + PATIENCE;
    while !node.has_ended() {
        assert!(Instant::now() < deadline, "the thread ends within {PATIENCE:?}");
        std::thread::yield_now();
    }
    assert_eq!(
        administer(&handle, hub_account(AccountKind::HubReconciliation)),
        Err(SubmissionRefused::Stopped)
    );
    assert!(handle.status().stopped.is_some());
    node.stop().expect_err("the log stopped by itself");
}

#[test]
fn a_full_disk_refuses_until_there_is_room() {
    let disk = MemoryDisk::new(6);
    let (node, _own) = begin(&disk, InboxLimits::default());
    let handle = node.handle();
    disk.set_capacity(0);
    assert_eq!(
        administer(&handle, hub_account(AccountKind::HubReconciliation)),
        Err(SubmissionRefused::DiskFull)
    );
    disk.set_capacity(u64::MAX);
    assert_eq!(
        administer(&handle, hub_account(AccountKind::HubReconciliation)),
        Ok(Outcome::Accepted)
    );
    node.stop().expect("it stops in order");
}

#[test]
fn a_record_that_breaks_an_invariant_stops_the_node_before_it_is_acknowledged() {
    let disk = MemoryDisk::new(7);
    let (node, own) = begin(&disk, InboxLimits::default());
    let handle = node.handle();
    let second = Command::Genesis(Genesis { seed: [2; 16], hub: name("Hub") });
    submit(&handle, second, 3);
    assert_eq!(own.reply_to(3), Err(SubmissionRefused::Stopped));
    let reason = node.stop().expect_err("the node stopped by itself");
    assert!(reason.contains("record 2 broke an invariant"), "{reason}");
    // It is in the log: the next start stops at the same place instead of skipping it.
    let options = LogOptions::default();
    let (log, _) = FileLog::open(disk.kill(), options).expect("the log itself is sound");
    let clock = SystemClock::new();
    let error = Sequencer::open(log, 0, clock.now(), &mut |_| ()).expect_err("it does not start");
    assert!(error.to_string().contains("record 2 breaks an invariant"), "{error}");
}
