//! One node: the sequencer's thread and the outbox of one I/O thread as they ship, driven turn by
//! turn.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use delivery::Policy;
use journal::{FileLog, LogOptions, MemoryDisk};
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
use super::invariants::{Invariants, NodeRun};
use crate::clock::SimClock;
use crate::outbox_driver::{Host, IoAction, OutboxDriver, OutgoingNotice};
use crate::transfers::Request;

/// A local copy of the topic.
pub(crate) type LogCopy = FileLog<MemoryDisk>;

/// A request of a node to the topic.
#[derive(Debug)]
pub(crate) enum TopicRequest {
    Send { tag: u64, bytes: Vec<u8> },
    AskEnd(u64),
}

/// The way to the brokers: requests wait here until the turn is over.
pub(crate) struct TopicClient(Arc<Mutex<Vec<TopicRequest>>>);

impl Topic for TopicClient {
    fn send(&mut self, message: &[u8], tag: u64) -> Result<(), String> {
        let sent_requests = TopicRequest::Send { tag, bytes: message.to_vec() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sent_requests);
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

/// An epoch of a node.
pub(crate) struct RunningNode {
    pub(crate) epoch: NodeRun,
    pub(crate) node: ReplicatedNode<LogCopy, SimClock, Request, TopicClient>,
    pub(crate) arrivals: Arrivals<Request>,
    sent_requests: Arc<Mutex<Vec<TopicRequest>>>,
    mailbox: Arc<Mailbox<Request>>,
    pub(crate) outbox_driver: OutboxDriver,
    /// Lanes taken but not yet confirmed under a lease. A node that was paused may learn late that
    /// a lane belongs to another node by now.
    unconfirmed: BTreeSet<ParticipantIndex>,
    /// The next message to be fetched.
    pub(crate) fetched: usize,
    pub(crate) unsent: VecDeque<PendingMessage>,
    pub(crate) sent: u64,
}

pub(crate) fn open_log_copy(disk: &MemoryDisk, identity: LogIdentity) -> Option<LogCopy> {
    let opened = FileLog::open_or_create(disk.clone(), identity, LogOptions::default());
    opened.ok().map(|it| it.0.into_copy())
}

/// Index in the topic after the message of the copy's last frame, and the inputs of the next stamp.
fn find_offset(copy: &mut LogCopy, topic: &[std::rc::Rc<Stored>]) -> Option<(usize, LastMessage)> {
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
    let at = at.expect("the last frame of a copy is committed");
    let bundle = Bundle::parse(&topic[at].bytes).expect("it was just read");
    let BundleHeader { node, wall, .. } = bundle.header;
    Some((at + 1, LastMessage { at: topic[at].at, node, wall }))
}

impl RunningNode {
    pub(crate) fn start(
        epoch: NodeRun,
        mut copy: LogCopy,
        topic: &[std::rc::Rc<Stored>],
        (clock, policy, seed): (SimClock, Policy, u64),
    ) -> Self {
        let number = epoch.0 as u32 + 1;
        let (next, last) =
            find_offset(&mut copy, topic).map_or((0, None), |(at, it)| (at, Some(it)));
        let log = TracedLog::new(copy, Arc::new(LatencyTrace::new(1)));
        let sequencer = Sequencer::open(log, number, clock.now(), &mut |_| ());
        let sequencer = sequencer.expect("a copy of a good log replays");
        let name =
            NodeName { name: format!("node-{number}"), node: number, instance: seed, ended: 0 };
        let replica = Replica::new(sequencer, name, Quarantine::default(), last);
        let replica = replica.expect("a log in memory is read");
        let hooks = ReplicatedNodeOptions {
            message: Request::parse,
            first_commands: Box::new(|_| Ok(Vec::new())),
            save_epoch: Box::new(|_| Ok(())),
            log: |_| {},
        };
        let mailbox = Arc::new(Mailbox::new(|| {}));
        let sent_requests = Arc::new(Mutex::new(Vec::new()));
        let mut arrivals = None;
        let connect = |from| {
            arrivals = Some(from);
            Ok(TopicClient(Arc::clone(&sent_requests)))
        };
        let of_io = (vec![Arc::clone(&mailbox)].into(), InboxLimits::default());
        let beside = (clock, Directory::default());
        let node = ReplicatedNode::new(replica, next as i64, beside, of_io, hooks, connect);
        let node = node.expect("nothing is started that could fail");
        // The log is not read for a message: each lane keeps all of its own.
        let policy = Policy { bytes_max: u64::MAX, ..policy };
        let outbox_driver =
            OutboxDriver::new(node.handle(), (0, Arc::clone(&mailbox)), (policy, seed));
        Self {
            epoch,
            node,
            arrivals: arrivals.expect("it was connected"),
            sent_requests,
            mailbox,
            outbox_driver,
            unconfirmed: BTreeSet::new(),
            fetched: next,
            unsent: VecDeque::new(),
            sent: 0,
        }
    }

    pub(crate) fn sent_requests(&self) -> Vec<TopicRequest> {
        std::mem::take(&mut *self.sent_requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The I/O thread reads its mail, works, and hands over what it has gathered.
    pub(crate) fn work(
        &mut self,
        now: ClockReading,
        invariants: &mut Invariants,
        work: impl FnOnce(&mut Outbox<Request, OutgoingNotice>, &mut Host<'_>),
    ) -> Vec<IoAction> {
        let Self { epoch, mailbox, outbox_driver, unconfirmed, .. } = self;
        outbox_driver.work(now, |outbox, host| {
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
                taken.into_iter().for_each(|lane| invariants.taken(lane.0, *epoch));
            }
            work(outbox, host);
            outbox.flush(host);
        })
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.outbox_driver.is_idle() && self.outbox_driver.outbox.attempts() == 0
    }
}
