//! The bounded inbox of the sequencer's thread.

use std::collections::VecDeque;
use std::time::Duration;

use ledger::{State, TransferId};
use ports::{Arrival, ClockReading, Log};
use record::frame::Tail;
use sequencer::{CommitError, Sequencer};

use crate::latency_trace::monotonic_ns;
use crate::submission::{Submission, SubmissionRefused};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A query over the tail of the log and the state.
type ReadFn = dyn FnOnce(&Tail, &State) + Send;

/// A query.
pub(crate) struct ReadRequest {
    pub(crate) about: Prefetch,
    /// Whether the state must be as new as that of any node when the query was submitted.
    pub(crate) is_fresh: bool,
    pub(crate) ask: Box<ReadFn>,
}

impl ReadRequest {
    /// Answers the query between two batches.
    pub(crate) fn answer<L: Log>(
        self,
        sequencer: &mut Sequencer<L>,
        now: ClockReading,
    ) -> Result<(), CommitError> {
        match &self.about {
            Prefetch::Anything => {}
            Prefetch::Transfer(transfer) => sequencer.prefetch([transfer])?,
            Prefetch::Transfers(transfers) => sequencer.prefetch(transfers)?,
            Prefetch::Everything => sequencer.flush(now)?,
        }
        (self.ask)(&sequencer.log().tail(), sequencer.state());
        Ok(())
    }
}

/// Data that a query needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Prefetch {
    /// Data in memory.
    Anything,
    /// The row of this transfer, also if it was evicted.
    Transfer(TransferId),
    /// The rows of these transfers.
    Transfers(Vec<TransferId>),
    /// All of the log, durable and offered to the store.
    Everything,
}

/// Bounds of the inbox.
#[derive(Clone, Copy, Debug)]
pub struct InboxLimits {
    /// Maximum number of waiting submissions.
    pub submissions_max: usize,
    /// Maximum bytes of waiting records.
    pub bytes_max: usize,
    /// Maximum number of waiting queries.
    pub queries_max: usize,
}

impl Default for InboxLimits {
    fn default() -> Self {
        Self { submissions_max: 65_536, bytes_max: 64 << 20, queries_max: 16_384 }
    }
}

/// Work for the sequencer's thread.
pub(crate) struct Work<M> {
    pub(crate) submissions: VecDeque<Submission<M>>,
    pub(crate) queries: Vec<ReadRequest>,
    /// One entry per call that submitted.
    arrived: Vec<ArrivedSubmissions>,
    bytes: usize,
    /// Messages and events of a shared log.
    pub(crate) arrivals: VecDeque<Arrival>,
    arrived_bytes: usize,
    open: bool,
    /// Whether the consumer has ended.
    ended: bool,
    asleep: bool,
}

/// Maximum bytes of waiting messages of a shared log, not counting the last one.
pub(crate) const ARRIVED_BYTES_MAX: usize = 32 << 20;

/// Work that was taken from the inbox.
pub(crate) struct TakenWork<M> {
    pub(crate) submissions: VecDeque<Submission<M>>,
    pub(crate) queries: Vec<ReadRequest>,
    pub(crate) arrived: Vec<ArrivedSubmissions>,
    pub(crate) arrivals: VecDeque<Arrival>,
}

/// Submissions that arrived in one call.
pub(crate) struct ArrivedSubmissions {
    pub(crate) count: u64,
    /// When they arrived, by the monotonic clock.
    pub(crate) at_ns: u64,
}

impl<M> Default for TakenWork<M> {
    fn default() -> Self {
        Self {
            submissions: VecDeque::new(),
            queries: Vec::new(),
            arrived: Vec::new(),
            arrivals: VecDeque::new(),
        }
    }
}

/// The inbox: many producers, one consumer.
pub(crate) struct Inbox<M> {
    limits: InboxLimits,
    work: Mutex<Work<M>>,
    wake: Condvar,
    room: Condvar,
    refused: AtomicU64,
}

impl<M> Inbox<M> {
    pub(crate) fn new(limits: InboxLimits) -> Self {
        Self {
            limits,
            work: Mutex::new(Work {
                submissions: VecDeque::new(),
                queries: Vec::new(),
                arrived: Vec::new(),
                bytes: 0,
                arrivals: VecDeque::new(),
                arrived_bytes: 0,
                open: true,
                ended: false,
                asleep: false,
            }),
            wake: Condvar::new(),
            room: Condvar::new(),
            refused: AtomicU64::new(0),
        }
    }

    /// Accepts submissions from the front while there is room.
    pub(crate) fn submit(
        &self,
        submissions: &mut Vec<Submission<M>>,
    ) -> Result<(), SubmissionRefused> {
        let mut work = self.lock();
        if !work.open {
            return Err(SubmissionRefused::Stopped);
        }
        let (mut bytes, mut count) = (work.bytes, 0);
        for submission in submissions.iter() {
            let length = submission.record.as_bytes().len();
            let waiting = work.submissions.len() + count;
            if waiting == self.limits.submissions_max || bytes + length > self.limits.bytes_max {
                break;
            }
            bytes += length;
            count += 1;
        }
        work.bytes = bytes;
        work.submissions.extend(submissions.drain(..count));
        if count != 0 {
            let count = count as u64;
            work.arrived.push(ArrivedSubmissions { count, at_ns: monotonic_ns() });
        }
        self.wake(work);
        if submissions.is_empty() {
            return Ok(());
        }
        self.refused.fetch_add(submissions.len() as u64, Ordering::Relaxed);
        Err(SubmissionRefused::Full)
    }

    pub(crate) fn ask(&self, query: ReadRequest) -> Result<(), SubmissionRefused> {
        let mut work = self.lock();
        if !work.open {
            return Err(SubmissionRefused::Stopped);
        }
        if work.queries.len() == self.limits.queries_max {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(SubmissionRefused::Full);
        }
        work.queries.push(query);
        self.wake(work);
        Ok(())
    }

    /// Takes all waiting work; submissions only if there is `room` for them. Sleeps until there is
    /// work, `patience` has passed or the inbox is closed. Returns false once the inbox is closed
    /// and everything left has been taken.
    pub(crate) fn take(
        &self,
        taken: &mut TakenWork<M>,
        room: bool,
        patience: Option<Duration>,
    ) -> bool {
        let mut work = self.lock();
        let idle = |work: &mut Work<M>| work.is_idle(room) && work.open;
        if patience != Some(Duration::ZERO) && idle(&mut work) {
            work.asleep = true;
            work = match patience {
                None => self.wake.wait_while(work, idle).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    let slept = self.wake.wait_timeout_while(work, patience, idle);
                    slept.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            work.asleep = false;
        }
        if room || !work.open {
            work.bytes = 0;
            taken.submissions.append(&mut work.submissions);
            taken.arrived.append(&mut work.arrived);
        }
        taken.queries.append(&mut work.queries);
        if !work.arrivals.is_empty() {
            taken.arrivals.append(&mut work.arrivals);
            work.arrived_bytes = 0;
            self.room.notify_all();
        }
        work.open
    }

    /// Queues an arrival of a shared log after waiting for room. Returns false if the consumer has
    /// ended.
    pub(crate) fn arrive(&self, arrival: Arrival) -> bool {
        let full = |work: &mut Work<M>| ARRIVED_BYTES_MAX < work.arrived_bytes && !work.ended;
        let mut work =
            self.room.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if work.ended {
            return false;
        }
        if let Arrival::Message { bytes, .. } = &arrival {
            work.arrived_bytes += bytes.len();
        }
        work.arrivals.push_back(arrival);
        self.wake(work);
        true
    }

    /// Ends the inbox: nothing is consumed any more.
    pub(crate) fn end(&self) {
        self.close();
        self.lock().ended = true;
        self.room.notify_all();
    }

    /// Closes the inbox: nothing is accepted any more.
    pub(crate) fn close(&self) {
        let mut work = self.lock();
        work.open = false;
        self.wake(work);
    }

    /// Whether the consumer is working or has work.
    pub(crate) fn is_busy(&self) -> bool {
        let work = self.lock();
        let is_empty = work.submissions.is_empty() && work.queries.is_empty();
        work.open && (!work.asleep || !is_empty)
    }

    pub(crate) fn refused_count(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Wakes the consumer only if it sleeps. A running consumer looks again before it sleeps.
    fn wake(&self, work: MutexGuard<'_, Work<M>>) {
        let asleep = work.asleep;
        drop(work);
        if asleep {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Work<M>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> Work<M> {
    fn is_idle(&self, room: bool) -> bool {
        let nothing_to_send = self.submissions.is_empty() || !room;
        nothing_to_send && self.queries.is_empty() && self.arrivals.is_empty()
    }
}
