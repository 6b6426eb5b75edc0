//! Concurrency tests of the inbox, the mailboxes and the values shared between threads.
//!
//! Each test runs a few threads over the production code with the locks, condition variables and
//! atomics of `shuttle` ([`crate::sync`]). Its scheduler chooses the next thread before each step.
//! An endless wait is reported as a deadlock. docs/internals/thread-handovers.md lists the
//! deliberate bug that each test caught. Limits: the tests assume sequential consistency, and a
//! wait with a timeout never times out.
//!
//! `cargo test -p node --features shuttle`

use std::time::Duration;

use ledger::{
    ChangeParties, Command, FspName, LogIndex, Outcome, PartyBinding, PartyChangeForm, Stamp,
    TransferId,
};
use ports::{Arrival, ColdStore, StoreMark, WriteBatch};
use record::party_names::PartyKey;
use sequencer::Durability;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;
use store::Memory;

use crate::directory::Directory;
use crate::inbox::{ARRIVED_BYTES_MAX, Inbox, InboxLimits, Prefetch, ReadRequest, TakenWork};
use crate::latency_trace::{Inbound, LatencyTrace, TracePoint, TraceSubject};
use crate::mailbox::{Mailbox, MailboxEvent};
use crate::shared_value::SharedValue;
use crate::submission::{ReplyTo, Submission, SubmissionContext, SubmissionRefused};
use crate::sync::Arc;

/// Schedules that each strategy tries.
const ORDERS: usize = 1_000;
/// Number of preemptions per schedule in the PCT strategy.
const DEPTH: usize = 3;
/// Timeout of waits; it never expires under `shuttle`.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tries a test with random schedules, and with schedules that have a few preemptions.
fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, ORDERS);
    shuttle::check_pct(test, ORDERS, DEPTH);
}

/// Two senders, a consumer and a thread that closes the inbox. Accepted submissions come out once
/// and in order, others are refused, and no thread sleeps while work is waiting.
#[test]
fn accepted_submissions_are_consumed_once_and_in_order() {
    explore(|| {
        let limits = InboxLimits { submissions_max: 3, ..InboxLimits::default() };
        let inbox = Arc::new(Inbox::<()>::new(limits));
        let taker = spawn(&inbox, move |inbox| take_all(inbox, limits.submissions_max));
        let senders = [0, 1].map(|sender| spawn(&inbox, move |inbox| send(inbox, 10 * sender)));
        let closer = spawn(&inbox, |inbox| inbox.close());
        let accepted = senders.map(|sender| sender.join().expect("it sends"));
        closer.join().expect("it closes");
        let taken = taker.join().expect("it takes");
        for (sender, accepted) in (0..).zip(accepted) {
            let of_sender = taken.iter().copied().filter(|number| number / 10 == sender);
            assert_eq!(of_sender.collect::<Vec<_>>(), accepted, "of sender {sender}");
        }
    });
}

/// Each kind of work, and closing, wakes the sleeping consumer without a further event.
#[test]
fn any_work_wakes_the_consumer() {
    const ACTS: [fn(&Inbox<()>); 3] = [submit_one, query_nothing, Inbox::close];
    for act in ACTS {
        explore(move || {
            let inbox = Arc::new(Inbox::new(InboxLimits::default()));
            let acting = spawn(&inbox, act);
            let mut taken = TakenWork::default();
            while inbox.take(&mut taken, true, None)
                && taken.submissions.is_empty()
                && taken.queries.is_empty()
            {}
            acting.join().expect("it acts");
        });
    }
}

/// A query is taken together with the submissions before it, or later.
#[test]
fn a_query_follows_earlier_submissions() {
    explore(|| {
        let inbox = Arc::new(Inbox::<()>::new(InboxLimits::default()));
        let asker = spawn(&inbox, |inbox| {
            for _ in 0..2 {
                submit_one(inbox);
                query_nothing(inbox);
            }
        });
        let (mut taken, mut submitted, mut asked) = (TakenWork::default(), 0, 0);
        while (submitted, asked) != (2, 2) {
            assert!(inbox.take(&mut taken, true, None), "it is open");
            submitted += taken.submissions.drain(..).count();
            asked += taken.queries.drain(..).count();
            assert!(asked <= submitted, "a query overtook a submission");
        }
        asker.join().expect("it asks");
    });
}

/// Arrivals of a shared log are taken in order and wake the sequencer's thread. The queue stays
/// within its bound, except for the last message.
#[test]
fn arrivals_of_a_shared_log_are_taken_in_order() {
    explore(|| {
        let inbox = Arc::new(Inbox::<()>::new(InboxLimits::default()));
        let reading = spawn(&inbox, |inbox| (0..3).all(|offset| inbox.arrive(message(offset))));
        let reporting = spawn(&inbox, |inbox| inbox.arrive(lost()));
        let submitting = spawn(&inbox, submit_one);
        let (mut offsets, mut lost, mut submitted) = (Vec::new(), 0, 0);
        while (offsets.len(), lost, submitted) != (3, 1, 1) {
            let mut taken = TakenWork::default();
            assert!(inbox.take(&mut taken, true, Some(PATIENCE)), "it is open");
            let before = offsets.len();
            submitted += taken.submissions.len();
            for arrival in taken.arrivals {
                match arrival {
                    Arrival::Message { offset, .. } => offsets.push(offset),
                    _ => lost += 1,
                }
            }
            assert!(offsets.len() <= before + 1, "more than there is room for");
        }
        assert_eq!(offsets, [0, 1, 2]);
        inbox.end();
        assert!(!inbox.arrive(message(3)), "the inbox has ended");
        let all_taken = reading.join().expect("it reads") && reporting.join().expect("it reports");
        assert!(all_taken, "it was open");
        submitting.join().expect("it submits");
    });
}

/// A producer that waits for room is released when the consumer ends.
#[test]
fn waiting_for_room_ends_with_the_consumer() {
    explore(|| {
        let inbox = Arc::new(Inbox::<()>::new(InboxLimits::default()));
        let reading = spawn(&inbox, |inbox| (0..3).all(|offset| inbox.arrive(message(offset))));
        inbox.end();
        let all_taken = reading.join().expect("it ends");
        assert!(!all_taken, "there is no room for three");
    });
}

/// The owner sleeps until it is woken, and gets all events in order.
#[test]
fn the_owner_of_a_mailbox_gets_all_events() {
    explore(|| {
        let bell = Arc::new((Mutex::new(false), Condvar::new()));
        let ring = Arc::clone(&bell);
        let mailbox = Arc::new(Mailbox::<()>::new(move || {
            *ring.0.lock().expect("no thread panicked") = true;
            ring.1.notify_one();
        }));
        let poster = spawn(&mailbox, |mailbox| {
            for waiter in 0..3 {
                mailbox
                    .post(&mut vec![MailboxEvent::Reply { waiter, result: Ok(Outcome::Accepted) }]);
            }
        });
        let mut received = Vec::new();
        while received.len() < 3 {
            let rung = bell.0.lock().expect("no thread panicked");
            let mut rung = bell.1.wait_while(rung, |rung| !*rung).expect("no thread panicked");
            *rung = false;
            drop(rung);
            let mut events = Vec::new();
            mailbox.take(&mut events);
            received.extend(events.into_iter().map(|event| match event {
                MailboxEvent::Reply { waiter, .. } => waiter,
                other => panic!("{other:?} was not posted"),
            }));
        }
        assert_eq!(received, [0, 1, 2]);
        poster.join().expect("it posts");
    });
}

/// A reader sees a published value, never an older one again, and a generation implies its value.
#[test]
fn a_published_value_is_seen_with_its_generation() {
    explore(|| {
        let published = Arc::new(SharedValue::new(1));
        let is_published = Arc::new(AtomicBool::new(false));
        let (publisher, flag) = (Arc::clone(&published), Arc::clone(&is_published));
        let publisher = thread::spawn(move || {
            publisher.publish(2);
            publisher.publish(3);
            flag.store(true, Ordering::SeqCst);
        });
        let (mut generation, mut seen) = (0, 0);
        for _ in 0..4 {
            let was_published = is_published.load(Ordering::SeqCst);
            if let Some(value) = published.since(&mut generation) {
                assert!(seen <= *value, "{value} after {seen}");
                seen = *value;
            }
            assert!(!was_published || seen == 3, "3 is published, and {seen} is seen");
        }
        publisher.join().expect("it publishes");
        published.since(&mut generation).into_iter().for_each(|value| seen = *value);
        assert_eq!(seen, 3);
    });
}

/// An acknowledged registration is found while it moves from memory into the store.
#[test]
fn a_party_is_found_while_it_moves_into_the_store() {
    explore(|| {
        let store = Arc::new(Memory::default());
        let directory = Arc::new(Directory::new(Arc::clone(&store) as _));
        let key = PartyKey::of_seed(&[7; 16]);
        directory.begin(key.clone());
        let is_applied = Arc::new(AtomicBool::new(false));
        let (applying, flag) = (Arc::clone(&directory), Arc::clone(&is_applied));
        let sequencer = thread::spawn(move || {
            let change = registration();
            applying.apply(change.view(), LogIndex(1));
            flag.store(true, Ordering::SeqCst);
            // The store is written on another thread, at any later time.
            thread::yield_now();
            let mark = StoreMark { log_index: LogIndex(1), ..StoreMark::default() };
            let parties = sequencer::party_changes(&key, change.view(), LogIndex(1)).collect();
            store.write(&WriteBatch { parties, mark, ..WriteBatch::default() }).expect("it writes");
            thread::yield_now();
            applying.forget(LogIndex(1));
        });
        for _ in 0..3 {
            let was_applied = is_applied.load(Ordering::SeqCst);
            let found = directory.find("MSISDN", "123", None).expect("it reads");
            assert!(
                !was_applied || !found.entries.is_empty(),
                "an applied registration is not found"
            );
        }
        sequencer.join().expect("it applies");
        let found = directory.find("MSISDN", "123", None).expect("it reads");
        assert!(!found.entries.is_empty());
    });
}

/// No mark remains once tracing is off, even if a thread is just recording one.
#[test]
fn no_mark_remains_after_tracing() {
    explore(|| {
        let transfer = TransferId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").expect("an id");
        let trace = Arc::new(LatencyTrace::new(1));
        trace.enable(true);
        let marking = [0, 1].map(|place| {
            spawn(&trace, move |trace| {
                let moments = [(TracePoint::Parsed, 1), (TracePoint::Submitted, 2)];
                trace.mark(place, transfer, TraceSubject::Taking(Inbound::Prepare), moments);
            })
        });
        let watched = trace.of(&transfer).stages.len();
        assert!(watched <= 3, "{watched} stages of four marks");
        trace.enable(false);
        for thread in marking {
            thread.join().expect("it marks");
        }
        assert!(trace.of(&transfer).stages.is_empty());
    });
}

fn spawn<S: Send + Sync + 'static, T: Send + 'static>(
    shared: &Arc<S>,
    work: impl FnOnce(&S) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let shared = Arc::clone(shared);
    thread::spawn(move || work(&shared))
}

/// A message that leaves no room for another one.
fn message(offset: i64) -> Arrival {
    Arrival::Message { offset, at: Stamp(0), bytes: vec![0; ARRIVED_BYTES_MAX + 1] }
}

fn lost() -> Arrival {
    Arrival::Lost { tag: 1, reason: String::new() }
}

fn submit_one(inbox: &Inbox<()>) {
    assert_eq!(inbox.submit(&mut vec![tick(0)]), Ok(()));
}

fn query_nothing(inbox: &Inbox<()>) {
    let ask = Box::new(|_: &_, _: &_| ());
    assert_eq!(inbox.ask(ReadRequest { about: Prefetch::Anything, is_fresh: true, ask }), Ok(()));
}

/// Submits two pairs; returns the numbers of the accepted ones.
fn send(inbox: &Inbox<()>, first: u32) -> Vec<u32> {
    let mut accepted = Vec::new();
    for pair in 0..2 {
        let numbers = [first + 2 * pair, first + 2 * pair + 1];
        let mut submissions: Vec<_> = numbers.map(tick).into();
        let result = inbox.submit(&mut submissions);
        let expected = match submissions.len() {
            0 => Ok(()),
            // A closed inbox refuses all further submissions.
            2 if result == Err(SubmissionRefused::Stopped) => result,
            _ => Err(SubmissionRefused::Full),
        };
        assert_eq!(result, expected);
        accepted.extend(&numbers[..2 - submissions.len()]);
    }
    accepted
}

/// Takes until the inbox is closed and empty.
fn take_all(inbox: &Inbox<()>, most: usize) -> Vec<u32> {
    let (mut taken, mut numbers, mut is_open) = (TakenWork::default(), Vec::new(), true);
    while is_open {
        is_open = inbox.take(&mut taken, true, None);
        assert!(taken.submissions.len() <= most, "more than there is room for");
        numbers.extend(taken.submissions.drain(..).map(|submission| number_of(&submission)));
    }
    numbers
}

fn tick(waiter: u32) -> Submission<()> {
    let attached =
        SubmissionContext { ticket: ReplyTo::Waiter { mailbox: 0, waiter }, message: None };
    let tick = Submission::without_payload(Command::Tick, Durability::Synced, attached);
    tick.expect("a tick has no fields")
}

fn number_of(submission: &Submission<()>) -> u32 {
    match submission.attached.ticket {
        ReplyTo::Waiter { waiter, .. } => waiter,
        _ => panic!("no other submission is expected"),
    }
}

fn registration() -> ChangeParties {
    let fsp = FspName::new("dfsp1").expect("a name");
    let party = PartyBinding {
        id_type: "MSISDN".into(),
        id: "123".into(),
        sub_id: None,
        currency: None,
        fsp,
    };
    let (form, trace) = (PartyChangeForm::Single, [0; 16]);
    ChangeParties { source: fsp, form, parties: vec![party], trace, rule: None }
}
