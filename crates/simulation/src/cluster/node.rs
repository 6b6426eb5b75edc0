//! One node: the sequencer's thread as it ships, driven turn by turn, and one I/O thread with the
//! lanes as they ship. What is written once more is what hands work from one to the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use delivery::{
    Attempt, AttemptResult, Delivery, Entry, Moment, Policy, Purpose, Report, Verdict, Withdrawal,
};
use journal::{CopyLog, FileLog, MemoryDisk, Options};
use ledger::{Command, FinishedDelivery, Notice, NoticeId, Outcome, Stamp};
use node::stages::{Stages, WatchedLog};
use node::{Arrivals, Attached, Directory, Driven, Event, Hooks, InboxLimits, Mailbox, Ticket};
use ports::{Clock, Log, Now, Topic};
use record::bundle::{Bundle, BundleHeader};
use record::frame::LogIdentity;
use sequencer::{Durability, LastMessage, Name, Quarantine, Replica, Sequencer};

use super::brokers::Entry as Stored;
use super::proof::{Life, Proof};
use crate::plan::EPOCH_US;
use crate::script::Request;

/// Finished deliveries in one record, at most.
const RECORD_MAX: usize = 64;

/// A copy of what the topic says.
pub(crate) type Copy = CopyLog<MemoryDisk>;

/// The clocks of one machine in virtual time.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimClock {
    now: Arc<AtomicU64>,
    skew_us: Arc<AtomicI64>,
}

impl SimClock {
    pub(crate) fn beside(&self) -> Self {
        Self { now: Arc::clone(&self.now), skew_us: Arc::default() }
    }

    pub(crate) fn set(&self, now: u64) {
        self.now.store(now, Ordering::Relaxed);
    }

    pub(crate) fn put_off(&self, skew_us: i64) {
        self.skew_us.store(skew_us, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Now {
        let now = self.now.load(Ordering::Relaxed);
        let wall = (EPOCH_US + now).saturating_add_signed(self.skew_us.load(Ordering::Relaxed));
        Now { wall: Stamp(wall), monotonic_us: now + 1 }
    }
}

/// What a node asks of the topic.
#[derive(Debug)]
pub(crate) enum Said {
    Send { tag: u64, bytes: Vec<u8> },
    AskEnd(u64),
}

/// The way to the brokers: what is said waits here until the turn is over.
pub(crate) struct Outward(Arc<Mutex<Vec<Said>>>);

impl Topic for Outward {
    fn send(&mut self, message: &[u8], tag: u64) -> Result<(), String> {
        let said = Said::Send { tag, bytes: message.to_vec() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(said);
        Ok(())
    }

    fn ask_end(&mut self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Said::AskEnd(number));
    }
}

/// A message that is not known to be committed.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) number: u64,
    pub(crate) tag: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) since: u64,
}

/// A life of a node.
pub(crate) struct Up {
    pub(crate) life: Life,
    pub(crate) driven: Driven<Copy, SimClock, Request, Outward>,
    pub(crate) arrivals: Arrivals<Request>,
    said: Arc<Mutex<Vec<Said>>>,
    mailbox: Arc<Mailbox<Request>>,
    pub(crate) io: Io,
    /// The next message to be fetched.
    pub(crate) fetched: usize,
    pub(crate) unsent: VecDeque<Unsent>,
    pub(crate) sent: u64,
}

/// The I/O thread of a node.
pub(crate) struct Io {
    delivery: Delivery<Notice>,
    policy: Policy,
    finished: Vec<FinishedDelivery>,
    lease_us: u64,
    /// Lanes that were taken, and not yet while there was a lease: one that stood still may hear
    /// late of a lane that is another's by now.
    unconfirmed: BTreeSet<u32>,
    waiters: BTreeMap<u32, Request>,
    next_waiter: u32,
    /// Nothing begins any more.
    pub(crate) is_stopping: bool,
    pub(crate) attempts: u32,
}

/// What an I/O thread has for others when it has read its mail.
#[derive(Default)]
pub(crate) struct Post {
    pub(crate) replies: Vec<(Request, Option<Outcome>)>,
    pub(crate) attempts: Vec<Notice>,
    /// When it wants to look again.
    pub(crate) retry_at: Option<u64>,
    /// Finished deliveries wait to be recorded.
    pub(crate) records: bool,
}

pub(crate) fn open_copy(disk: &MemoryDisk, identity: LogIdentity) -> Option<Copy> {
    let opened = FileLog::open_or_create(disk.clone(), identity, Options::default());
    opened.ok().map(|it| CopyLog::of(it.0))
}

/// Where the message of the copy's last frame stands, and what the next stamp needs of it.
fn place_of(copy: &mut Copy, topic: &[std::rc::Rc<Stored>]) -> Option<(usize, LastMessage)> {
    let end = copy.tail().end;
    let mut header = None;
    let visited = copy.replay(end, &mut |frame| {
        header = Some(*frame.header());
        Ok(())
    });
    visited.expect("a log in memory is read");
    let batch = header?.batch;
    let at = topic.iter().position(|entry| {
        Bundle::parse(&entry.bytes).is_ok_and(|bundle| {
            let BundleHeader { node, epoch, sequence, .. } = bundle.header;
            (node, epoch, sequence) == (batch.node, batch.epoch, batch.sequence)
        })
    });
    let at = at.expect("what a copy ends with is committed");
    let bundle = Bundle::parse(&topic[at].bytes).expect("it was just read");
    let BundleHeader { node, wall, .. } = bundle.header;
    Some((at + 1, LastMessage { at: topic[at].at, node, wall }))
}

impl Up {
    pub(crate) fn start(
        life: Life,
        mut copy: Copy,
        topic: &[std::rc::Rc<Stored>],
        (clock, policy, seed): (SimClock, Policy, u64),
    ) -> Self {
        let number = life.0 as u32 + 1;
        let (next, last) = place_of(&mut copy, topic).map_or((0, None), |(at, it)| (at, Some(it)));
        let log = WatchedLog::new(copy, Arc::new(Stages::new(1)));
        let sequencer = Sequencer::open(log, number, clock.now(), &mut |_| ());
        let sequencer = sequencer.expect("a copy of a good log replays");
        let name = Name { name: format!("node-{number}"), node: number, instance: seed, ended: 0 };
        let replica = Replica::new(sequencer, name, Quarantine::default(), last);
        let replica = replica.expect("a log in memory is read");
        let hooks = Hooks {
            message: Request::recognise,
            begin: Box::new(|_| Ok(Vec::new())),
            note_life: Box::new(|_| Ok(())),
            say: |_| {},
        };
        let mailbox = Arc::new(Mailbox::new(|| {}));
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut arrivals = None;
        let connect = |from| {
            arrivals = Some(from);
            Ok(Outward(Arc::clone(&said)))
        };
        let of_io = (vec![Arc::clone(&mailbox)], InboxLimits::default());
        let beside = (clock, Directory::default());
        let driven = Driven::new(replica, next as i64, beside, of_io, hooks, connect);
        Self {
            life,
            driven: driven.expect("nothing is started that could fail"),
            arrivals: arrivals.expect("it was connected"),
            said,
            mailbox,
            io: Io {
                delivery: Delivery::new(policy.clone(), seed),
                policy,
                finished: Vec::new(),
                lease_us: 0,
                unconfirmed: BTreeSet::new(),
                waiters: BTreeMap::new(),
                next_waiter: 0,
                is_stopping: false,
                attempts: 0,
            },
            fetched: next,
            unsent: VecDeque::new(),
            sent: 0,
        }
    }

    pub(crate) fn said(&self) -> Vec<Said> {
        std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A request comes in; its sender hears nothing when there is no room.
    pub(crate) fn request(&mut self, request: Request, command: Command) {
        let record = sequencer::encode(&command, Some(&request.payload()));
        let waiter = self.io.next_waiter;
        self.io.next_waiter += 1;
        self.io.waiters.insert(waiter, request);
        let ticket = Ticket::Waiter { mailbox: 0, waiter };
        let attached = Attached { ticket, message: Some(Arc::new(request)) };
        let submission = sequencer::Submission {
            command,
            record: record.expect("a request fits a record"),
            durability: Durability::Synced,
            attached,
        };
        if self.driven.handle().submit(&mut vec![submission]).is_err() {
            self.io.waiters.remove(&waiter);
        }
    }

    /// Reads the mail, and begins what may begin.
    pub(crate) fn read_mail(&mut self, clock: &SimClock, proof: &mut Proof) -> Post {
        let mut post = Post::default();
        let mut events = Vec::new();
        self.mailbox.take(&mut events);
        let at = clock.now();
        for event in events {
            self.handle(event, proof, (at, &mut post));
        }
        let now = at.monotonic_us;
        if !self.io.is_stopping && now < self.io.lease_us {
            let taken = std::mem::take(&mut self.io.unconfirmed);
            taken.into_iter().for_each(|lane| proof.taken(lane, self.life));
            while let Some(attempt) = self.io.delivery.poll(Moment(now)) {
                let Attempt { message, .. } = attempt;
                let notice = message.expect("a notice without bytes is never dropped");
                self.io.attempts += 1;
                proof.attempt(&notice, self.life, now);
                post.attempts.push(notice);
            }
            while let Some(report) = self.io.delivery.next_lapsed() {
                self.io.finished.push(finished(&report, 0));
            }
            post.retry_at = self.io.delivery.next_deadline().map(|due| due.0);
        }
        post.records |= !self.io.finished.is_empty() || self.io.delivery.starved();
        post
    }

    fn handle(&mut self, event: Event<Request>, proof: &mut Proof, (now, post): (Now, &mut Post)) {
        let io = &mut self.io;
        match event {
            Event::Reply { waiter, result } => {
                let request = io.waiters.remove(&waiter).expect("who waits is answered once");
                post.replies.push((request, result.ok()));
            }
            Event::Notice { notice, .. } => {
                proof.is_owed(&notice, now.monotonic_us);
                let Notice { id, recipient, transfer, owed_at, .. } = notice;
                let purpose = Purpose::of(&notice);
                let message = Some(notice);
                io.delivery.enqueue(Entry {
                    notice: id,
                    recipient,
                    transfer,
                    until: io.policy.until(owed_at, now),
                    purpose,
                    bytes: 0,
                    message,
                });
            }
            Event::Withdraw(notice) => {
                if let Withdrawal::Ended(report) = io.delivery.withdraw(notice) {
                    io.finished.push(finished(&report, 0));
                }
            }
            Event::Recorded(notices) => io.delivery.recorded(&notices),
            Event::Unrecorded(ends) => io.finished.splice(0..0, ends).for_each(drop),
            Event::Elsewhere(notices) => io.delivery.delivered_elsewhere(&notices),
            Event::Left(lanes) => {
                lanes.iter().for_each(|lane| _ = io.unconfirmed.remove(&lane.0));
                io.delivery.leave(&lanes);
            }
            Event::Taken(lanes) => {
                io.unconfirmed.extend(lanes.iter().map(|lane| lane.0));
                io.delivery.take(&lanes);
            }
            Event::Lease(until_us) => io.lease_us = until_us,
            Event::RegisterChanged => {}
        }
    }

    /// An attempt has ended.
    pub(crate) fn attempted(&mut self, notice: NoticeId, result: AttemptResult, clock: &SimClock) {
        let io = &mut self.io;
        io.attempts -= 1;
        let now = clock.now();
        let verdict = io.delivery.finished(notice, result, Moment(now.monotonic_us));
        if let Verdict::Ended(report) = verdict {
            io.finished.push(finished(&report, now.wall.millis()));
        }
    }

    /// Has the finished deliveries recorded.
    pub(crate) fn record(&mut self) {
        let all = std::mem::take(&mut self.io.finished);
        let mut submissions: Vec<_> = all
            .chunks(RECORD_MAX)
            .map(|ends| {
                let command = Command::FinishDeliveries(ends.to_vec());
                let attached =
                    Attached { ticket: Ticket::Deliveries { mailbox: 0 }, message: None };
                let durability = Durability::Synced;
                let one = sequencer::Submission::without_payload(command, durability, attached);
                one.expect("a bounded number of deliveries fits a record")
            })
            .collect();
        // There is room for far more than a run sends; a node that ends takes nothing.
        let _taken = self.driven.handle().submit(&mut submissions);
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.io.finished.is_empty() && self.io.attempts == 0 && self.io.waiters.is_empty()
    }
}

fn finished(report: &Report, finished_ms: u64) -> FinishedDelivery {
    FinishedDelivery {
        notice: report.notice,
        result: report.result,
        attempts: report.attempts_recorded(),
        status: report.status(),
        finished_ms,
    }
}
