//! Records when each part of the hub handled a transfer, for waterfall pictures.
//!
//! While tracing is on, threads record *marks*; each costs a clock reading and the thread's own
//! lock. [`LatencyTrace::of`] collects the marks of one transfer and derives stages with a start,
//! an end and a label. Time in which a message only waits, for its batch or for a thread, belongs
//! to no stage. Waits for the sequencer's batch and for the start of an attempt are listed
//! separately. Stages that have not ended extend to the present. While tracing is off, a mark costs
//! one relaxed load.
//!
//! Bounds: each thread keeps its last marks. The sequencer keeps `SEQUENCER_MARKS`, 8 per transfer.
//! The I/O threads, which record about 27 per transfer in total, keep up to four times as many. A
//! transfer that may have lost a mark is not shown at all, so that nothing shown has gaps. No marks
//! are kept while tracing is off. Times are nanoseconds of the machine's monotonic clock, the same
//! for every process.

use std::collections::VecDeque;
use std::time::Duration;

use ledger::{Command, NoticeKind, ParticipantIndex, TransferId, TransferMessage};
use ports::{LogError, LogObserver, ObservedLog};
use rustix::time::{ClockId, clock_gettime};

use crate::stage_times::StageTimes;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Marks of the sequencer's thread: two messages of 32,000 transfers, 8 MiB.
const SEQUENCER_MARKS: usize = 1 << 18;
/// Marks of one of at most two other threads: 32 MiB, which hold 38,000 transfers of a single
/// thread.
const OTHER_MARKS_MAX: usize = 1 << 20;

/// The message that a thread handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceSubject {
    /// Receiving a message that becomes this command.
    Taking(Inbound),
    /// Sending a notice to a participant.
    Sending(NoticeKind, ParticipantIndex),
}

/// Messages that become commands about a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// `POST /transfers`.
    Prepare,
    /// `PUT /transfers/{id}`.
    Fulfil,
    /// `PUT /transfers/{id}/error`.
    Abort,
}

/// A point in the path of a message. Marks of one message follow this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TracePoint {
    /// Inbound: its first bytes were read from the socket.
    Arrived,
    /// Inbound: its head was parsed.
    Parsed,
    /// Inbound: its body was read to the end.
    Read,
    /// Inbound: checked, encoded and submitted.
    Submitted,
    /// Inbound: the sequencer began its batch.
    Taken,
    /// Inbound: its batch was written to the log.
    Appended,
    /// Inbound: its batch was durable.
    Synced,
    /// Inbound: the kernel had decided.
    Applied,
    /// Inbound: the connection's thread continued with it.
    Resumed,
    /// Inbound: the answer was handed to the connection.
    Answered,
    /// Outbound: the notice reached its I/O thread.
    Owed,
    /// Outbound: an attempt began.
    Attempted,
    /// Outbound: a connection was available.
    Connected,
    /// Outbound: the request was written.
    Written,
    /// Outbound: the participant had answered.
    Delivered,
}

/// A mark: one point of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TraceMark {
    transfer: TransferId,
    what: TraceSubject,
    moment: TracePoint,
    at_ns: u64,
}

/// A span of time in which a part of the hub, or a participant, worked on a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSpan {
    /// Start, nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// End, not before the start.
    pub end_ns: u64,
    /// Message and action, such as `prepare: sync`.
    pub label: String,
}

/// The trace of one transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferTrace {
    /// Times of work, ordered by start; empty unless all marks are kept.
    pub stages: Vec<StageSpan>,
    /// Times of waiting for the sequencer's batch (`wait`), or from the decision until an attempt
    /// began (`dispatch`), ordered by start.
    pub waits: Vec<StageSpan>,
    /// Age of the oldest complete marks, if older marks have been dropped.
    pub reach: Option<Duration>,
    /// Whether the transfer has not ended, so that more marks will follow.
    pub in_progress: bool,
}

/// The last marks of one thread.
#[derive(Debug, Default)]
struct Ring {
    marks: VecDeque<TraceMark>,
    /// The latest time among dropped marks; 0 if none were dropped.
    dropped_ns: u64,
}

impl Ring {
    fn push(&mut self, mark: TraceMark, most: usize) {
        if self.marks.len() == most
            && let Some(dropped) = self.marks.pop_front()
        {
            self.dropped_ns = self.dropped_ns.max(dropped.at_ns);
        }
        self.marks.push_back(mark);
    }
}

/// The marks of all threads: number 0 is the sequencer's, then one per mailbox.
#[derive(Debug)]
pub struct LatencyTrace {
    enabled: AtomicBool,
    threads: Box<[Mutex<Ring>]>,
    /// Whether messages about a transfer may arrive at other nodes too.
    has_peers: bool,
}

impl LatencyTrace {
    /// A trace of the sequencer's thread and `mailboxes` other threads; off.
    #[must_use]
    pub fn new(mailboxes: usize) -> Self {
        let threads = (0..=mailboxes).map(|_| Mutex::default()).collect();
        Self { enabled: AtomicBool::new(false), threads, has_peers: false }
    }

    /// The trace of a node of a shared log, which may see only a later message about a transfer.
    #[must_use]
    pub fn with_peers(self) -> Self {
        Self { has_peers: true, ..self }
    }

    /// Whether marks are kept.
    #[inline]
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// Turns tracing on or off. Either way all marks are dropped.
    pub fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
        for thread in &self.threads {
            *locked(thread) = Ring::default();
        }
    }

    /// The time, while tracing is on.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> Option<u64> {
        self.is_enabled().then(monotonic_ns)
    }

    /// Records marks of one thread, while tracing is on.
    #[inline]
    pub fn mark(
        &self,
        thread: usize,
        transfer: TransferId,
        what: TraceSubject,
        moments: impl IntoIterator<Item = (TracePoint, u64)>,
    ) {
        if self.is_enabled() {
            self.keep(thread, transfer, what, moments);
        }
    }

    /// Separate from [`LatencyTrace::mark`], so that only the flag costs time while tracing is off.
    #[cold]
    #[inline(never)]
    fn keep(
        &self,
        thread: usize,
        transfer: TransferId,
        what: TraceSubject,
        moments: impl IntoIterator<Item = (TracePoint, u64)>,
    ) {
        let mut ring = locked(&self.threads[thread]);
        // Tracing may have been turned off just before the lock.
        if !self.is_enabled() {
            return;
        }
        let most = self.marks_max(thread);
        for (moment, at_ns) in moments {
            ring.push(TraceMark { transfer, what, moment, at_ns }, most);
        }
    }

    /// Capacity of a thread. Together the I/O threads reach about as far back as the sequencer,
    /// even if one has twice its share: 64 MiB in total, or 8 MiB each if there are more than
    /// eight.
    fn marks_max(&self, thread: usize) -> usize {
        let others = self.threads.len() - 1;
        match thread {
            0 => SEQUENCER_MARKS,
            _ => (2 * OTHER_MARKS_MAX / others).clamp(SEQUENCER_MARKS, OTHER_MARKS_MAX),
        }
    }

    /// The trace of a transfer, complete or empty. It reads all marks, so it is meant for people
    /// and not for every message.
    #[must_use]
    pub fn of(&self, transfer: &TransferId) -> TransferTrace {
        let mut marks: Vec<TraceMark> = Vec::new();
        let mut dropped_ns = 0;
        for thread in &self.threads {
            let ring = locked(thread);
            marks.extend(ring.marks.iter().filter(|mark| mark.transfer == *transfer));
            dropped_ns = dropped_ns.max(ring.dropped_ns);
        }
        marks.sort_by_key(|mark| (mark.at_ns, mark.moment));
        let reach_ns = (0 < dropped_ns).then(|| monotonic_ns().saturating_sub(dropped_ns));
        let reach = reach_ns.map(Duration::from_nanos);
        if reach.is_some() && !self.is_complete(&marks, dropped_ns) {
            return TransferTrace { reach, ..TransferTrace::default() };
        }
        let messages = messages(&marks);
        let in_progress = !marks.is_empty() && self.is_in_progress(&messages);
        let now_ns = in_progress.then(monotonic_ns);
        let stages = stages_of(&marks, &messages, now_ns);
        TransferTrace { stages, waits: waits_of(&marks, &messages, now_ns), reach, in_progress }
    }

    /// Whether a message is unanswered or no participant was notified of the end. With several
    /// nodes, another one may have sent that notice.
    fn is_in_progress(&self, messages: &[Vec<TraceMark>]) -> bool {
        let is_over = |message: &Vec<TraceMark>| {
            matches!(newest(message).moment, TracePoint::Answered | TracePoint::Delivered)
        };
        let has_end = || messages.iter().any(|message| notifies_of_end(message[0].what));
        !messages.iter().all(is_over) || !(self.has_peers || has_end())
    }

    /// Whether no mark of a transfer can be among the dropped ones, the latest of which was at
    /// `dropped_ns`. The first mark of a transfer belongs to its prepare. With several nodes,
    /// another message may be the first one here. Then its own first mark is required.
    fn is_complete(&self, marks: &[TraceMark], dropped_ns: u64) -> bool {
        let Some(first) = marks.first() else { return false };
        let begins = match first.what {
            TraceSubject::Taking(Inbound::Prepare) => first.moment <= TracePoint::Parsed,
            TraceSubject::Taking(_) => self.has_peers && first.moment <= TracePoint::Parsed,
            TraceSubject::Sending(..) => self.has_peers && first.moment == TracePoint::Owed,
        };
        begins && dropped_ns < first.at_ns
    }
}

/// Times of work, from marks in order of time. Open ones extend to `now_ns`.
fn stages_of(
    marks: &[TraceMark],
    messages: &[Vec<TraceMark>],
    now_ns: Option<u64>,
) -> Vec<StageSpan> {
    let mut stages: Vec<StageSpan> = messages.iter().flat_map(|one| worked_on(one)).collect();
    let attempts = messages.iter().map(|message| newest(message));
    for attempt in attempts.filter(|mark| mark.moment == TracePoint::Attempted) {
        let label = format!("{}: sent or being sent, not answered", name(attempt.what));
        stages.extend(until(now_ns, attempt.at_ns, label));
    }
    stages.extend(payees_own_time(marks, now_ns));
    sort(&mut stages);
    stages
}

const fn notifies_of_end(what: TraceSubject) -> bool {
    !matches!(what, TraceSubject::Taking(_) | TraceSubject::Sending(NoticeKind::Prepare, _))
}

fn newest(message: &[TraceMark]) -> TraceMark {
    *message.last().expect("a message has a mark")
}

/// A span that is still open.
fn until(now_ns: Option<u64>, start_ns: u64, label: String) -> Option<StageSpan> {
    now_ns.map(|now_ns| StageSpan { start_ns, end_ns: now_ns.max(start_ns), label })
}

/// Times of waiting for the batch, and from the decision until an attempt began.
fn waits_of(
    marks: &[TraceMark],
    messages: &[Vec<TraceMark>],
    now_ns: Option<u64>,
) -> Vec<StageSpan> {
    let mut waits = Vec::new();
    for message in messages {
        let TraceMark { moment, at_ns, what, .. } = newest(message);
        if moment == TracePoint::Owed {
            let label = format!("{}: dispatch", name(what));
            waits.extend(until(now_ns, decided_ns(marks, at_ns), label));
        }
        for pair in message.windows(2) {
            let [from, to] = [pair[0], pair[1]];
            let (start_ns, doing) = match (from.moment, to.moment) {
                (TracePoint::Submitted, TracePoint::Taken) => (from.at_ns, "wait"),
                (TracePoint::Owed, TracePoint::Attempted) => {
                    (decided_ns(marks, from.at_ns), "dispatch")
                }
                _ => continue,
            };
            let label = format!("{}: {doing}", name(to.what));
            waits.push(StageSpan { start_ns, end_ns: to.at_ns, label });
        }
    }
    sort(&mut waits);
    waits
}

/// The time of the last decision before a notice was owed, if it was traced.
fn decided_ns(marks: &[TraceMark], owed_ns: u64) -> u64 {
    let before = |mark: &&TraceMark| mark.moment == TracePoint::Applied && mark.at_ns <= owed_ns;
    marks.iter().rfind(before).map_or(owed_ns, |mark| mark.at_ns)
}

/// The marks of each message, in order of time.
fn messages(marks: &[TraceMark]) -> Vec<Vec<TraceMark>> {
    let mut messages: Vec<Vec<TraceMark>> = Vec::new();
    for mark in marks {
        match messages.iter_mut().find(|message| message[0].what == mark.what) {
            Some(message) => message.push(*mark),
            None => messages.push(vec![*mark]),
        }
    }
    messages
}

fn sort(stages: &mut [StageSpan]) {
    stages.sort_by_key(|stage| (stage.start_ns, stage.end_ns));
}

/// From the prepare's last byte to the first byte of the payee's response, if it has arrived.
fn payees_own_time(marks: &[TraceMark], now_ns: Option<u64>) -> Option<StageSpan> {
    let is_prepare = |what| matches!(what, TraceSubject::Sending(NoticeKind::Prepare, _));
    let is_answer = |what| matches!(what, TraceSubject::Taking(Inbound::Fulfil | Inbound::Abort));
    let first = |moment, is: &dyn Fn(TraceSubject) -> bool| {
        let of_moment = marks.iter().filter(|mark| mark.moment == moment && is(mark.what));
        of_moment.map(|mark| mark.at_ns).min()
    };
    let start_ns = first(TracePoint::Written, &is_prepare)?;
    if !marks.iter().any(|mark| is_answer(mark.what) || notifies_of_end(mark.what)) {
        return until(now_ns, start_ns, "payee: own time, no answer yet".to_owned());
    }
    let end_ns = first(TracePoint::Arrived, &is_answer)?;
    let label = "payee: own time until its answer".to_owned();
    (start_ns <= end_ns).then_some(StageSpan { start_ns, end_ns, label })
}

/// The stages of a message. A message seen more than once (a resend, a retry) repeats its stages.
/// Points between which it only waited have none.
fn worked_on(message: &[TraceMark]) -> impl Iterator<Item = StageSpan> {
    message.windows(2).filter_map(|pair| {
        let [from, to] = [pair[0], pair[1]];
        let doing = doing(to.moment).filter(|_| from.moment < to.moment)?;
        let label = format!("{}: {doing}", name(from.what));
        Some(StageSpan { start_ns: from.at_ns, end_ns: to.at_ns, label })
    })
}

fn name(what: TraceSubject) -> &'static str {
    match what {
        TraceSubject::Taking(Inbound::Prepare) => "prepare",
        TraceSubject::Taking(Inbound::Fulfil) => "fulfil",
        TraceSubject::Taking(Inbound::Abort) => "abort",
        TraceSubject::Sending(NoticeKind::Prepare, _) => "prepare to payee",
        TraceSubject::Sending(NoticeKind::Fulfil, _) => "fulfil to payer",
        TraceSubject::Sending(NoticeKind::Abort, _) => "abort to payer",
        TraceSubject::Sending(NoticeKind::FulfilCopy, _) => "confirmation to payee",
        TraceSubject::Sending(NoticeKind::AbortCopy, _) => "abort to payee",
        TraceSubject::Sending(NoticeKind::Committed, _) => "committed to payer",
        TraceSubject::Sending(NoticeKind::PatchCommitted, _) => "patch to payee",
        TraceSubject::Sending(NoticeKind::PatchAborted, _) => "patch aborted to payee",
        TraceSubject::Sending(..) => "notice",
    }
}

/// The action that ended at a point; `None` if the message only waited: for bytes, the batch, a
/// thread or its turn in a lane.
fn doing(moment: TracePoint) -> Option<&'static str> {
    Some(match moment {
        TracePoint::Arrived
        | TracePoint::Taken
        | TracePoint::Resumed
        | TracePoint::Owed
        | TracePoint::Attempted => {
            return None;
        }
        TracePoint::Parsed => "receive",
        TracePoint::Read => "read the body",
        TracePoint::Submitted => "parse and check",
        TracePoint::Appended => "append",
        TracePoint::Synced => "sync",
        TracePoint::Applied => "apply",
        TracePoint::Answered => "answer",
        TracePoint::Connected => "connect",
        TracePoint::Written => "send",
        TracePoint::Delivered => "participant's own time",
    })
}

/// Nanoseconds of the monotonic clock, the same for every process on this machine.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The inbound message that a command was made from, if it is about a transfer.
#[must_use]
pub fn inbound_of(command: &Command) -> Option<(TransferId, TraceSubject)> {
    let message = command.message()?;
    let inbound = match message {
        TransferMessage::Prepare(_) => Inbound::Prepare,
        TransferMessage::Fulfil(_) => Inbound::Fulfil,
        TransferMessage::Abort(_) => Inbound::Abort,
    };
    Some((*message.transfer(), TraceSubject::Taking(inbound)))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A log that records the times of its writes.
pub type TracedLog<L> = ObservedLog<L, WriteTimes>;

/// The times of the writes of the log inside a [`TracedLog`].
#[derive(Debug)]
pub struct WriteTimes {
    trace: Arc<LatencyTrace>,
    stages: Arc<StageTimes>,
    began_ns: u64,
    appended_ns: u64,
    synced_ns: u64,
}

impl From<Arc<LatencyTrace>> for WriteTimes {
    fn from(trace: Arc<LatencyTrace>) -> Self {
        Self { trace, stages: Arc::default(), began_ns: 0, appended_ns: 0, synced_ns: 0 }
    }
}

impl WriteTimes {
    /// The trace that the times belong to.
    pub(crate) fn trace(&self) -> Arc<LatencyTrace> {
        Arc::clone(&self.trace)
    }

    /// The histograms that the times are recorded in.
    pub(crate) fn stages(&self) -> Arc<StageTimes> {
        Arc::clone(&self.stages)
    }

    /// End times of the last append and the last sync after it; 0 before the first append.
    pub(crate) fn written_ns(&self) -> (u64, u64) {
        (self.appended_ns, self.synced_ns)
    }

    /// Start time of the last append; 0 before the first one.
    pub(crate) fn began_ns(&self) -> u64 {
        self.began_ns
    }
}

impl LogObserver for WriteTimes {
    fn append(&mut self, append: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
        self.began_ns = monotonic_ns();
        let result = append();
        self.appended_ns = monotonic_ns();
        self.synced_ns = self.appended_ns;
        self.stages.append.record(self.appended_ns - self.began_ns);
        result
    }

    fn sync(&mut self, sync: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
        let before = monotonic_ns();
        let result = sync();
        self.synced_ns = monotonic_ns();
        self.stages.sync.record(self.synced_ns - before);
        result
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const PREPARE: TraceSubject = TraceSubject::Taking(Inbound::Prepare);
    const TO_PAYEE: TraceSubject = TraceSubject::Sending(NoticeKind::Prepare, ParticipantIndex(1));

    fn id(number: u8) -> TransferId {
        let text = format!("00000000-0000-4000-8000-0000000000{number:02x}");
        TransferId::parse(&text).expect("it is an id")
    }

    #[test]
    fn stages_are_the_times_of_work() {
        let tracer = LatencyTrace::new(1);
        tracer.mark(1, id(1), PREPARE, [(TracePoint::Parsed, 5)]);
        assert_eq!(tracer.of(&id(1)), TransferTrace::default(), "tracing is off");
        tracer.enable(true);
        tracer.mark(1, id(1), PREPARE, [(TracePoint::Parsed, 10), (TracePoint::Submitted, 30)]);
        tracer.mark(0, id(1), PREPARE, [(TracePoint::Taken, 35), (TracePoint::Synced, 90)]);
        tracer.mark(1, id(2), PREPARE, [(TracePoint::Parsed, 11), (TracePoint::Read, 12)]);
        tracer.mark(0, id(1), PREPARE, [(TracePoint::Applied, 92)]);
        tracer.mark(1, id(1), PREPARE, [(TracePoint::Resumed, 96), (TracePoint::Answered, 99)]);
        tracer.mark(1, id(1), TO_PAYEE, [(TracePoint::Owed, 95), (TracePoint::Attempted, 97)]);
        tracer.mark(1, id(1), TO_PAYEE, [(TracePoint::Connected, 98)]);
        let trace = tracer.of(&id(1));
        let shown = spans(&trace.stages);
        let expected = [
            (10, 30, "prepare: parse and check"),
            (35, 90, "prepare: sync"),
            (90, 92, "prepare: apply"),
            (96, 99, "prepare: answer"),
            (97, 98, "prepare to payee: connect"),
        ];
        // From 30 to 35 it waits for the batch, from 92 to 96 for a thread: these times have no
        // stage.
        assert_eq!(shown, expected);
        let waits = [(30, 35, "prepare: wait"), (92, 97, "prepare to payee: dispatch")];
        assert_eq!(spans(&trace.waits), waits, "waits are listed separately");
        assert_eq!(trace.reach, None, "no marks were dropped");
    }

    #[test]
    fn open_stages_extend_to_the_present() {
        const FULFIL: TraceSubject = TraceSubject::Taking(Inbound::Fulfil);
        const TO_PAYER: TraceSubject =
            TraceSubject::Sending(NoticeKind::Fulfil, ParticipantIndex(2));
        let tracer = LatencyTrace::new(1);
        tracer.enable(true);
        let open = || {
            let trace = tracer.of(&id(1));
            assert!(trace.in_progress, "{trace:?}");
            let mut all = trace.stages.into_iter().chain(trace.waits);
            let newest = all.find(|stage| stage.end_ns > 1_000).expect("something is open");
            (newest.start_ns, newest.label)
        };
        let sent = |what, from: u64| {
            let moments = [TracePoint::Connected, TracePoint::Written, TracePoint::Delivered];
            tracer.mark(1, id(1), what, moments.map(|moment| (moment, from)));
        };
        let prepared =
            [(TracePoint::Parsed, 10), (TracePoint::Submitted, 30), (TracePoint::Answered, 40)];
        tracer.mark(1, id(1), PREPARE, prepared);
        tracer.mark(1, id(1), TO_PAYEE, [(TracePoint::Owed, 50)]);
        assert_eq!(open(), (50, "prepare to payee: dispatch".to_owned()));
        tracer.mark(1, id(1), TO_PAYEE, [(TracePoint::Attempted, 60)]);
        let sending = "prepare to payee: sent or being sent, not answered".to_owned();
        assert_eq!(open(), (60, sending));
        sent(TO_PAYEE, 70);
        assert_eq!(open(), (70, "payee: own time, no answer yet".to_owned()));
        tracer.mark(1, id(1), FULFIL, [(TracePoint::Arrived, 80), (TracePoint::Answered, 90)]);
        tracer.mark(1, id(1), TO_PAYER, [(TracePoint::Owed, 91), (TracePoint::Attempted, 92)]);
        assert_eq!(open().0, 92);
        sent(TO_PAYER, 95);
        let trace = tracer.of(&id(1));
        assert!(!trace.in_progress && trace.stages.iter().all(|it| it.end_ns < 1_000), "{trace:?}");
    }

    #[test]
    fn a_repeated_message_repeats_its_stages() {
        let tracer = LatencyTrace::new(1);
        tracer.enable(true);
        for start in [10, 100] {
            let moments = [(TracePoint::Parsed, start), (TracePoint::Submitted, start + 5)];
            tracer.mark(1, id(1), PREPARE, moments);
        }
        let doing = "prepare: parse and check";
        let expected = [(10, 15, doing), (100, 105, doing)];
        assert_eq!(spans(&tracer.of(&id(1)).stages), expected);
    }

    fn spans(stages: &[StageSpan]) -> Vec<(u64, u64, &str)> {
        stages.iter().map(|stage| (stage.start_ns, stage.end_ns, &*stage.label)).collect()
    }

    /// The I/O thread has dropped its marks of the first transfer, the sequencer has not. Half a
    /// transfer is not shown, nor is one of which only the last marks are kept.
    #[test]
    fn a_transfer_is_shown_completely_or_not_at_all() {
        let tracer = LatencyTrace::new(1);
        tracer.enable(true);
        for (number, at) in [(1, 10), (2, 100), (3, 1_000)] {
            let submitted = [(TracePoint::Parsed, at), (TracePoint::Submitted, at + 1)];
            tracer.mark(1, id(number), PREPARE, submitted);
            let decided = [(TracePoint::Taken, at + 2), (TracePoint::Applied, at + 3)];
            tracer.mark(0, id(number), PREPARE, decided);
        }
        let room = tracer.marks_max(1) - 6;
        let fill = |count| {
            let many = std::iter::repeat_n((TracePoint::Owed, 2_000), count);
            tracer.mark(1, id(9), TO_PAYEE, many);
        };
        fill(room);
        for number in [1, 2, 3] {
            let trace = tracer.of(&id(number));
            assert_eq!((trace.stages.len(), trace.reach), (2, None), "{number}");
        }
        fill(3);
        for number in [1, 2] {
            let trace = tracer.of(&id(number));
            assert!(trace.stages.is_empty() && trace.waits.is_empty(), "{number}: {trace:?}");
            assert!(trace.reach.is_some_and(|reach| !reach.is_zero()), "{number}: {trace:?}");
        }
        let trace = tracer.of(&id(3));
        assert_eq!(trace.stages.len(), 2, "{trace:?}");
        assert!(trace.reach.is_some(), "{trace:?}");
    }

    /// The prepare's marks were dropped, the fulfil's were not. The trace counts as complete only
    /// if another node may have received the prepare.
    #[test]
    fn a_transfer_without_its_prepare_is_complete_only_with_several_nodes() {
        for (tracer, expected) in
            [(LatencyTrace::new(1), 0), (LatencyTrace::new(1).with_peers(), 1)]
        {
            tracer.enable(true);
            let prepared = [(TracePoint::Parsed, 10), (TracePoint::Submitted, 11)];
            tracer.mark(1, id(1), PREPARE, prepared);
            tracer.mark(1, id(9), TO_PAYEE, std::iter::repeat_n((TracePoint::Owed, 500), 9));
            let fulfil = TraceSubject::Taking(Inbound::Fulfil);
            tracer.mark(
                1,
                id(1),
                fulfil,
                [(TracePoint::Parsed, 900), (TracePoint::Submitted, 901)],
            );
            let many = std::iter::repeat_n((TracePoint::Owed, 2_000), tracer.marks_max(1) - 11);
            tracer.mark(1, id(9), TO_PAYEE, many);
            assert_eq!(tracer.of(&id(1)).stages.len(), expected);
        }
    }

    /// With the usual number of marks per transfer, all threads reach about as far back.
    #[test]
    fn io_threads_reach_as_far_back_as_the_sequencer() {
        const OF_SEQUENCER: usize = 8;
        const OF_OTHERS: usize = 27;
        for others in [1, 2, 4, 8, 64] {
            let tracer = LatencyTrace::new(others);
            let transfers = tracer.marks_max(0) / OF_SEQUENCER;
            let reached = others * tracer.marks_max(1) / OF_OTHERS;
            assert!(transfers <= reached, "{others}: {transfers} and {reached}");
        }
    }

    #[test]
    fn the_oldest_marks_are_dropped() {
        let tracer = LatencyTrace::new(1);
        tracer.enable(true);
        tracer.mark(1, id(1), PREPARE, [(TracePoint::Parsed, 1), (TracePoint::Read, 2)]);
        let many = (0..OTHER_MARKS_MAX as u64).map(|at| (TracePoint::Parsed, 3 + at));
        tracer.mark(1, id(2), PREPARE, many);
        let trace = tracer.of(&id(1));
        assert!(trace.stages.is_empty() && trace.reach.is_some(), "{trace:?}");
        tracer.enable(false);
        assert_eq!(tracer.of(&id(2)), TransferTrace::default());
    }
}
