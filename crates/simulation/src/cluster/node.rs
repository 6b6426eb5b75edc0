//! One node: the sequencer's thread and the outbox of one I/O thread as they ship, driven turn by
//! turn.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use delivery::Policy;
use journal::{FileLog, MemoryDisk, Options};
use ledger::ParticipantIndex;
use node::latency_trace::{LatencyTrace, TracedLog};
use node::outbox::Outbox;
use node::{
    Arrivals, Directory, InboxLimits, Mailbox, MailboxEvent, ReplicatedNode, ReplicatedNodeOptions,
};
use ports::{Clock, ClockReading, Log, Topic};
use record::bundle::{Bundle, BundleHeader};
use record::frame::LogIdentity;
use sequencer::{LastMessage, NodeName, Quarantine, Replica, Sequencer};

use super::brokers::Entry as Stored;
use super::invariants::{NodeRun, Proof};
use crate::clock::SimClock;
use crate::io::{Act, Host, Io, Parcel};
use crate::transfers::Request;

/// A copy of what the topic says.
pub(crate) type Copy = FileLog<MemoryDisk>;

/// What a node asks of the topic.
#[derive(Debug)]
pub(crate) enum TopicRequest {
    Send { tag: u64, bytes: Vec<u8> },
    AskEnd(u64),
}

/// The way to the brokers: what is said waits here until the turn is over.
pub(crate) struct Outward(Arc<Mutex<Vec<TopicRequest>>>);

impl Topic for Outward {
    fn send(&mut self, message: &[u8], tag: u64) -> Result<(), String> {
        let said = TopicRequest::Send { tag, bytes: message.to_vec() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(said);
        Ok(())
    }

    fn ask_end(&mut self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(TopicRequest::AskEnd(number));
    }
}

/// A message that is not known to be committed.
#[derive(Debug)]
pub(crate) struct PendingMessage {
    pub(crate) number: u64,
    pub(crate) tag: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) since: u64,
}

/// A life of a node.
pub(crate) struct RunningNode {
    pub(crate) life: NodeRun,
    pub(crate) driven: ReplicatedNode<Copy, SimClock, Request, Outward>,
    pub(crate) arrivals: Arrivals<Request>,
    said: Arc<Mutex<Vec<TopicRequest>>>,
    mailbox: Arc<Mailbox<Request>>,
    pub(crate) io: Io,
    /// Lanes that were taken, and not yet while there was a lease: one that stood still may hear
    /// late of a lane that is another's by now.
    unconfirmed: BTreeSet<ParticipantIndex>,
    /// The next message to be fetched.
    pub(crate) fetched: usize,
    pub(crate) unsent: VecDeque<PendingMessage>,
    pub(crate) sent: u64,
}

pub(crate) fn open_copy(disk: &MemoryDisk, identity: LogIdentity) -> Option<Copy> {
    let opened = FileLog::open_or_create(disk.clone(), identity, Options::default());
    opened.ok().map(|it| it.0.into_copy())
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

impl RunningNode {
    pub(crate) fn start(
        life: NodeRun,
        mut copy: Copy,
        topic: &[std::rc::Rc<Stored>],
        (clock, policy, seed): (SimClock, Policy, u64),
    ) -> Self {
        let number = life.0 as u32 + 1;
        let (next, last) = place_of(&mut copy, topic).map_or((0, None), |(at, it)| (at, Some(it)));
        let log = TracedLog::new(copy, Arc::new(LatencyTrace::new(1)));
        let sequencer = Sequencer::open(log, number, clock.now(), &mut |_| ());
        let sequencer = sequencer.expect("a copy of a good log replays");
        let name =
            NodeName { name: format!("node-{number}"), node: number, instance: seed, ended: 0 };
        let replica = Replica::new(sequencer, name, Quarantine::default(), last);
        let replica = replica.expect("a log in memory is read");
        let hooks = ReplicatedNodeOptions {
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
        let driven = ReplicatedNode::new(replica, next as i64, beside, of_io, hooks, connect);
        let driven = driven.expect("nothing is started that could fail");
        // The log is not read for a message: each lane keeps all of its own.
        let policy = Policy { bytes_max: u64::MAX, ..policy };
        let io = Io::new(driven.handle(), (0, Arc::clone(&mailbox)), (policy, seed));
        Self {
            life,
            driven,
            arrivals: arrivals.expect("it was connected"),
            said,
            mailbox,
            io,
            unconfirmed: BTreeSet::new(),
            fetched: next,
            unsent: VecDeque::new(),
            sent: 0,
        }
    }

    pub(crate) fn said(&self) -> Vec<TopicRequest> {
        std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The I/O thread reads its mail, works, and hands over what it has gathered.
    pub(crate) fn work(
        &mut self,
        now: ClockReading,
        proof: &mut Proof,
        work: impl FnOnce(&mut Outbox<Request, Parcel>, &mut Host<'_>),
    ) -> Vec<Act> {
        let Self { life, mailbox, io, unconfirmed, .. } = self;
        io.work(now, |outbox, host| {
            let mut events = Vec::new();
            mailbox.take(&mut events);
            for event in events {
                match &event {
                    MailboxEvent::LanesLost(lanes) => {
                        unconfirmed.retain(|lane| !lanes.contains(lane))
                    }
                    MailboxEvent::LanesGained(lanes) => unconfirmed.extend(lanes),
                    _ => {}
                }
                outbox.handle(event, host);
            }
            if outbox.may_send(now) {
                let taken = std::mem::take(unconfirmed);
                taken.into_iter().for_each(|lane| proof.taken(lane.0, *life));
            }
            work(outbox, host);
            outbox.flush(host);
        })
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.io.is_idle() && self.io.outbox.attempts() == 0
    }
}
