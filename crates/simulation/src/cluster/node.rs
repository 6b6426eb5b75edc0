//! One node: the sequencer's thread and the outbox of one I/O thread as they ship, driven turn by
//! turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use delivery::{Attempt, Moment, Policy};
use journal::{CopyLog, FileLog, MemoryDisk, Options};
use ledger::{Command, Notice, Outcome, ParticipantIndex, Stamp};
use node::outbox::{Outbox, OutboxHost};
use node::stages::{Stages, WatchedLog};
use node::{
    Arrivals, Attached, Directory, Driven, Event, Handle, Hooks, InboxLimits, Mailbox, Refused,
    Submission, Ticket,
};
use ports::{Clock, Log, Net, Now, Topic};
use record::bundle::{Bundle, BundleHeader};
use record::frame::LogIdentity;
use sequencer::{Durability, LastMessage, Name, Quarantine, Replica, Sequencer};

use super::brokers::Entry as Stored;
use super::proof::{Life, Proof};
use crate::plan::EPOCH_US;
use crate::script::Request;

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
    pub(crate) outbox: Outbox<Request, Notice>,
    waiters: BTreeMap<u32, Request>,
    next_waiter: u32,
    /// Lanes that were taken, and not yet while there was a lease: one that stood still may hear
    /// late of a lane that is another's by now.
    unconfirmed: BTreeSet<ParticipantIndex>,
    /// The next message to be fetched.
    pub(crate) fetched: usize,
    pub(crate) unsent: VecDeque<Unsent>,
    pub(crate) sent: u64,
}

/// What an I/O thread has for others after it has worked.
#[derive(Default)]
pub(crate) struct Post {
    pub(crate) replies: Vec<(Request, Option<Outcome>)>,
    pub(crate) attempts: Vec<Notice>,
    /// When it wants to look again.
    pub(crate) retry_at: Option<u64>,
    /// Finished deliveries wait to be recorded.
    pub(crate) records: bool,
    /// The sequencer has work.
    pub(crate) submitted: bool,
}

/// The I/O thread as the outbox sees it.
pub(crate) struct Host<'a> {
    now: Now,
    life: Life,
    handle: Handle<Request>,
    waiters: &'a mut BTreeMap<u32, Request>,
    proof: &'a mut Proof,
    post: Post,
}

impl Net for Host<'_> {
    type Attempt = Attempt<Notice>;

    fn send(&mut self, attempt: Attempt<Notice>) {
        let notice = attempt.message.expect("a notice without bytes is never dropped");
        self.proof.attempt(&notice, self.life, self.now.monotonic_us);
        self.post.attempts.push(notice);
    }
}

impl OutboxHost<Request, Notice> for Host<'_> {
    fn now(&self) -> Now {
        self.now
    }

    fn submit(&mut self, submissions: &mut Vec<Submission<Request>>) -> Result<(), Refused> {
        self.post.submitted = true;
        self.handle.submit(submissions)
    }

    fn answer(&mut self, waiter: u32, reply: Result<Outcome, Refused>) {
        let request = self.waiters.remove(&waiter).expect("a request is answered once");
        self.post.replies.push((request, reply.ok()));
    }

    fn parcel(&mut self, notice: Notice, _message: Option<Arc<Request>>) -> (Notice, u32) {
        self.proof.is_owed(&notice, self.now.monotonic_us);
        (notice, 0)
    }

    /// Whatever the thread does, it flushes in the end.
    fn flush_soon(&mut self) {}

    fn record_later(&mut self) {
        self.post.records = true;
    }

    fn retry_at(&mut self, due: Moment) {
        self.post.retry_at = Some(due.0);
    }
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
        let driven = driven.expect("nothing is started that could fail");
        let first_lease_us = driven.handle().first_lease_us();
        let of_thread = (0, Arc::clone(&mailbox));
        Self {
            life,
            driven,
            arrivals: arrivals.expect("it was connected"),
            said,
            mailbox,
            outbox: Outbox::new(of_thread, first_lease_us, (policy, seed)),
            waiters: BTreeMap::new(),
            next_waiter: 0,
            unconfirmed: BTreeSet::new(),
            fetched: next,
            unsent: VecDeque::new(),
            sent: 0,
        }
    }

    pub(crate) fn said(&self) -> Vec<Said> {
        std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A request comes in.
    pub(crate) fn request(&mut self, request: Request, command: Command) {
        let record = sequencer::encode(&command, Some(&request.payload()));
        let waiter = self.next_waiter;
        self.next_waiter += 1;
        self.waiters.insert(waiter, request);
        let ticket = Ticket::Waiter { mailbox: 0, waiter };
        self.outbox.submit(Submission {
            command,
            record: record.expect("a request fits a record"),
            durability: Durability::Synced,
            attached: Attached { ticket, message: Some(Arc::new(request)) },
        });
    }

    /// The I/O thread reads its mail, acts, and hands over what it has gathered.
    pub(crate) fn io(
        &mut self,
        clock: &SimClock,
        proof: &mut Proof,
        act: impl FnOnce(&mut Outbox<Request, Notice>, &mut Host<'_>),
    ) -> Post {
        let now = clock.now();
        let (handle, post) = (self.driven.handle(), Post::default());
        let mut host =
            Host { now, life: self.life, handle, waiters: &mut self.waiters, proof, post };
        let mut events = Vec::new();
        self.mailbox.take(&mut events);
        for event in events {
            match &event {
                Event::Left(lanes) => self.unconfirmed.retain(|lane| !lanes.contains(lane)),
                Event::Taken(lanes) => self.unconfirmed.extend(lanes),
                _ => {}
            }
            self.outbox.handle(event, &mut host);
        }
        if self.outbox.may_send(now) {
            let taken = std::mem::take(&mut self.unconfirmed);
            taken.into_iter().for_each(|lane| host.proof.taken(lane.0, self.life));
        }
        act(&mut self.outbox, &mut host);
        self.outbox.flush(&mut host);
        host.post
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.outbox.is_idle() && self.outbox.attempts() == 0 && self.waiters.is_empty()
    }
}
