//! When each part of the hub touched a transfer: what waterfalls are drawn from.
//!
//! Phases: while watching is on, threads *mark* moments (one lock of their own and a clock
//! reading each); [`LatencyTrace::of`] gathers the marks of one transfer and makes stages of them,
//! each with a start, an end and a label. Where a message only waited, for its batch or for a
//! thread, there is no stage: nobody worked. While it is off, a mark costs one relaxed load. What
//! has begun and not ended is told up to now.
//!
//! Where it waited for the sequencer's batch, or for an attempt to be sent, is told apart.
//!
//! Bounds: each thread keeps its last marks: the sequencer `SEQUENCER_MARKS`, 8 a transfer, the
//! threads of connections up to four times as many, for they leave some 27 a transfer between
//! them. A transfer of which any mark may have made room is not shown at all, so that what is
//! shown has no holes. Nothing is kept while watching is off. Time is the machine's monotonic
//! clock in nanoseconds, the same for every process on it.

use std::collections::VecDeque;
use std::time::Duration;

use ledger::{Command, NoticeKind, ParticipantIndex, TransferId, TransferMessage};
use ports::{LogError, LogObserver, ObservedLog};
use rustix::time::{ClockId, clock_gettime};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Marks that the sequencer's thread keeps: two messages of 32,000 transfers, 8 MiB.
const SEQUENCER_MARKS: usize = 1 << 18;
/// Marks that one other thread keeps when it is the only one, or one of two: 32 MiB, of which the
/// marks of 38,000 transfers fit into one.
const OTHER_MARKS_MAX: usize = 1 << 20;

/// What a thread was doing to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceSubject {
    /// Taking a message in: the command that it becomes.
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

/// A moment in the life of a message. Of one message they follow each other in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TracePoint {
    /// Inbound: its first bytes were read from the socket.
    Arrived,
    /// Inbound: its head was parsed.
    Parsed,
    /// Inbound: its body was read to the end.
    Read,
    /// Inbound: checked, made a command, and handed over.
    Submitted,
    /// Inbound: the sequencer began its batch.
    Taken,
    /// Inbound: its batch was written to the log.
    Appended,
    /// Inbound: its batch was durable.
    Synced,
    /// Inbound: the kernel had decided.
    Applied,
    /// Inbound: the thread of its connection goes on with it.
    Resumed,
    /// Inbound: the answer was handed to the connection.
    Answered,
    /// Outbound: the notice reached its thread.
    Owed,
    /// Outbound: an attempt began.
    Attempted,
    /// Outbound: a connection was there.
    Connected,
    /// Outbound: the request was written.
    Written,
    /// Outbound: the participant had answered.
    Delivered,
}

/// One moment of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TraceMark {
    transfer: TransferId,
    what: TraceSubject,
    moment: TracePoint,
    at_ns: u64,
}

/// A span of time in which a part of the hub, or a participant, had a transfer in its hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSpan {
    /// Start, nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// End, not before the start.
    pub end_ns: u64,
    /// Which message and what was done to it, such as `prepare: sync`.
    pub label: String,
}

/// What is known of one transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferTrace {
    /// Where somebody worked on it, in order of their starts; nothing unless all of it is kept.
    pub stages: Vec<StageSpan>,
    /// Where it waited for the sequencer's batch (`wait`), or from the decision until an attempt to
    /// tell a participant began (`dispatch`), in order of their starts.
    pub waits: Vec<StageSpan>,
    /// How far back marks reach, if some have made room for others.
    pub reach: Option<Duration>,
    /// Not all of it has come to its end: more will be known later.
    pub under_way: bool,
}

/// The last marks of one thread.
#[derive(Debug, Default)]
struct Ring {
    marks: VecDeque<TraceMark>,
    /// The latest moment among those that made room for others; 0 when none did.
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

/// Where threads leave their marks: number 0 is the sequencer's, then one for each mailbox.
#[derive(Debug)]
pub struct LatencyTrace {
    watching: AtomicBool,
    threads: Box<[Mutex<Ring>]>,
    /// Whether messages about a transfer may come in at other nodes, too.
    has_peers: bool,
}

impl LatencyTrace {
    /// For the sequencer's thread and `mailboxes` more; not watching.
    #[must_use]
    pub fn new(mailboxes: usize) -> Self {
        let threads = (0..=mailboxes).map(|_| Mutex::default()).collect();
        Self { watching: AtomicBool::new(false), threads, has_peers: false }
    }

    /// Of a node that is one of several: it may see a later message about a transfer alone.
    #[must_use]
    pub fn with_peers(self) -> Self {
        Self { has_peers: true, ..self }
    }

    /// Whether marks are kept.
    #[inline]
    #[must_use]
    pub fn is_watching(&self) -> bool {
        self.watching.load(Ordering::Relaxed)
    }

    /// Begins or ends watching; either way what was kept is forgotten.
    pub fn watch(&self, watching: bool) {
        self.watching.store(watching, Ordering::Relaxed);
        for thread in &self.threads {
            *locked(thread) = Ring::default();
        }
    }

    /// Now, while watching.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> Option<u64> {
        self.is_watching().then(monotonic_ns)
    }

    /// Leaves marks of one thread, while watching.
    #[inline]
    pub fn mark(
        &self,
        thread: usize,
        transfer: TransferId,
        what: TraceSubject,
        moments: impl IntoIterator<Item = (TracePoint, u64)>,
    ) {
        if self.is_watching() {
            self.keep(thread, transfer, what, moments);
        }
    }

    /// Apart from [`LatencyTrace::mark`], so that who is not watched pays for the flag alone.
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
        // Watching may have ended, and what was kept been forgotten, just before the lock.
        if !self.is_watching() {
            return;
        }
        let most = self.marks_max(thread);
        for (moment, at_ns) in moments {
            ring.push(TraceMark { transfer, what, moment, at_ns }, most);
        }
    }

    /// As many for each thread of connections that all of them reach about as far back as the
    /// sequencer does, though one has twice its share; together 64 MiB, or 8 MiB each if they are
    /// more than eight.
    fn marks_max(&self, thread: usize) -> usize {
        let others = self.threads.len() - 1;
        match thread {
            0 => SEQUENCER_MARKS,
            _ => (2 * OTHER_MARKS_MAX / others).clamp(SEQUENCER_MARKS, OTHER_MARKS_MAX),
        }
    }

    /// What is known of a transfer: all of it or nothing. Looks through all marks; for people, not
    /// for every message.
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
        if reach.is_some() && !self.is_whole(&marks, dropped_ns) {
            return TransferTrace { reach, ..TransferTrace::default() };
        }
        let messages = messages(&marks);
        let under_way = !marks.is_empty() && self.is_under_way(&messages);
        let now_ns = under_way.then(monotonic_ns);
        let stages = stages_of(&marks, &messages, now_ns);
        TransferTrace { stages, waits: waits_of(&marks, &messages, now_ns), reach, under_way }
    }

    /// Whether a message was not answered yet, or nobody was told of an end. Of several nodes
    /// another one may have told it.
    fn is_under_way(&self, messages: &[Vec<TraceMark>]) -> bool {
        let is_over = |message: &Vec<TraceMark>| {
            matches!(newest(message).moment, TracePoint::Answered | TracePoint::Delivered)
        };
        let has_end = || messages.iter().any(|message| tells_an_end(message[0].what));
        !messages.iter().all(is_over) || !(self.has_peers || has_end())
    }

    /// Whether no mark of a transfer can be among those that made room, the latest of which was of
    /// `dropped_ns`. What comes first of a transfer is its prepare. Of several nodes one may see
    /// another message first: then that must have its beginning.
    fn is_whole(&self, marks: &[TraceMark], dropped_ns: u64) -> bool {
        let Some(first) = marks.first() else { return false };
        let begins = match first.what {
            TraceSubject::Taking(Inbound::Prepare) => first.moment <= TracePoint::Parsed,
            TraceSubject::Taking(_) => self.has_peers && first.moment <= TracePoint::Parsed,
            TraceSubject::Sending(..) => self.has_peers && first.moment == TracePoint::Owed,
        };
        begins && dropped_ns < first.at_ns
    }
}

/// Where somebody worked; the marks are in order of time. What has not ended is told until
/// `now_ns`.
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

const fn tells_an_end(what: TraceSubject) -> bool {
    !matches!(what, TraceSubject::Taking(_) | TraceSubject::Sending(NoticeKind::Prepare, _))
}

fn newest(message: &[TraceMark]) -> TraceMark {
    *message.last().expect("a message has a mark")
}

/// What goes on since a moment.
fn until(now_ns: Option<u64>, start_ns: u64, label: String) -> Option<StageSpan> {
    now_ns.map(|now_ns| StageSpan { start_ns, end_ns: now_ns.max(start_ns), label })
}

/// Where it waited for the batch, and from the decision until an attempt began.
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

/// When what is owed at a moment had been decided: the last decision before it, if it was seen.
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

/// From the prepare's last byte to the first of the payee's answer, if that has come.
fn payees_own_time(marks: &[TraceMark], now_ns: Option<u64>) -> Option<StageSpan> {
    let is_prepare = |what| matches!(what, TraceSubject::Sending(NoticeKind::Prepare, _));
    let is_answer = |what| matches!(what, TraceSubject::Taking(Inbound::Fulfil | Inbound::Abort));
    let first = |moment, is: &dyn Fn(TraceSubject) -> bool| {
        let of_moment = marks.iter().filter(|mark| mark.moment == moment && is(mark.what));
        of_moment.map(|mark| mark.at_ns).min()
    };
    let start_ns = first(TracePoint::Written, &is_prepare)?;
    if !marks.iter().any(|mark| is_answer(mark.what) || tells_an_end(mark.what)) {
        return until(now_ns, start_ns, "payee: own time, no answer yet".to_owned());
    }
    let end_ns = first(TracePoint::Arrived, &is_answer)?;
    let label = "payee: own time until its answer".to_owned();
    (start_ns <= end_ns).then_some(StageSpan { start_ns, end_ns, label })
}

/// A message seen more than once (a resend, a retry) makes its stages again from each first
/// moment on. Between two moments in which it only waited there is none.
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

/// What was done until a moment; `None` where the message only waited: for bytes, for the batch,
/// for a thread, for its place in a lane.
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

/// A log that notes, while watching, when it last appended and synced.
pub type TracedLog<L> = ObservedLog<L, WriteTimes>;

/// When the log inside a [`TracedLog`] was last written.
#[derive(Debug)]
pub struct WriteTimes {
    stages: Arc<LatencyTrace>,
    appended_ns: u64,
    synced_ns: u64,
}

impl From<Arc<LatencyTrace>> for WriteTimes {
    fn from(stages: Arc<LatencyTrace>) -> Self {
        Self { stages, appended_ns: 0, synced_ns: 0 }
    }
}

impl WriteTimes {
    /// Recorder of the moments.
    pub(crate) fn stages(&self) -> Arc<LatencyTrace> {
        Arc::clone(&self.stages)
    }

    /// When the last append and the last sync since then ended; 0 for what has not happened
    /// while watching.
    pub(crate) fn written_ns(&self) -> (u64, u64) {
        (self.appended_ns, self.synced_ns)
    }
}

impl LogObserver for WriteTimes {
    fn append(&mut self, append: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
        let result = append();
        if let Some(now) = self.stages.now_ns() {
            (self.appended_ns, self.synced_ns) = (now, now);
        }
        result
    }

    fn sync(&mut self, sync: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
        let result = sync();
        if let Some(now) = self.stages.now_ns() {
            self.synced_ns = now;
        }
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
    fn stages_lie_where_somebody_worked_on_a_message() {
        let stages = LatencyTrace::new(1);
        stages.mark(1, id(1), PREPARE, [(TracePoint::Parsed, 5)]);
        assert_eq!(stages.of(&id(1)), TransferTrace::default(), "nobody watches yet");
        stages.watch(true);
        stages.mark(1, id(1), PREPARE, [(TracePoint::Parsed, 10), (TracePoint::Submitted, 30)]);
        stages.mark(0, id(1), PREPARE, [(TracePoint::Taken, 35), (TracePoint::Synced, 90)]);
        stages.mark(1, id(2), PREPARE, [(TracePoint::Parsed, 11), (TracePoint::Read, 12)]);
        stages.mark(0, id(1), PREPARE, [(TracePoint::Applied, 92)]);
        stages.mark(1, id(1), PREPARE, [(TracePoint::Resumed, 96), (TracePoint::Answered, 99)]);
        stages.mark(1, id(1), TO_PAYEE, [(TracePoint::Owed, 95), (TracePoint::Attempted, 97)]);
        stages.mark(1, id(1), TO_PAYEE, [(TracePoint::Connected, 98)]);
        let noted = stages.of(&id(1));
        let shown = spans(&noted.stages);
        let expected = [
            (10, 30, "prepare: parse and check"),
            (35, 90, "prepare: sync"),
            (90, 92, "prepare: apply"),
            (96, 99, "prepare: answer"),
            (97, 98, "prepare to payee: connect"),
        ];
        // 30 to 35 it waits for the batch, 92 to 96 for a thread: nobody works, so there is a gap.
        assert_eq!(shown, expected);
        let waits = [(30, 35, "prepare: wait"), (92, 97, "prepare to payee: dispatch")];
        assert_eq!(spans(&noted.waits), waits, "they are told apart");
        assert_eq!(noted.reach, None, "all is kept");
    }

    #[test]
    fn what_has_not_ended_is_told_up_to_now() {
        const FULFIL: TraceSubject = TraceSubject::Taking(Inbound::Fulfil);
        const TO_PAYER: TraceSubject =
            TraceSubject::Sending(NoticeKind::Fulfil, ParticipantIndex(2));
        let stages = LatencyTrace::new(1);
        stages.watch(true);
        let open = || {
            let noted = stages.of(&id(1));
            assert!(noted.under_way, "{noted:?}");
            let mut all = noted.stages.into_iter().chain(noted.waits);
            let newest = all.find(|stage| stage.end_ns > 1_000).expect("something is open");
            (newest.start_ns, newest.label)
        };
        let sent = |what, from: u64| {
            let moments = [TracePoint::Connected, TracePoint::Written, TracePoint::Delivered];
            stages.mark(1, id(1), what, moments.map(|moment| (moment, from)));
        };
        let prepared =
            [(TracePoint::Parsed, 10), (TracePoint::Submitted, 30), (TracePoint::Answered, 40)];
        stages.mark(1, id(1), PREPARE, prepared);
        stages.mark(1, id(1), TO_PAYEE, [(TracePoint::Owed, 50)]);
        assert_eq!(open(), (50, "prepare to payee: dispatch".to_owned()));
        stages.mark(1, id(1), TO_PAYEE, [(TracePoint::Attempted, 60)]);
        let sending = "prepare to payee: sent or being sent, not answered".to_owned();
        assert_eq!(open(), (60, sending));
        sent(TO_PAYEE, 70);
        assert_eq!(open(), (70, "payee: own time, no answer yet".to_owned()));
        stages.mark(1, id(1), FULFIL, [(TracePoint::Arrived, 80), (TracePoint::Answered, 90)]);
        stages.mark(1, id(1), TO_PAYER, [(TracePoint::Owed, 91), (TracePoint::Attempted, 92)]);
        assert_eq!(open().0, 92);
        sent(TO_PAYER, 95);
        let noted = stages.of(&id(1));
        assert!(!noted.under_way && noted.stages.iter().all(|it| it.end_ns < 1_000), "{noted:?}");
    }

    #[test]
    fn a_message_that_came_twice_has_its_stages_twice() {
        let stages = LatencyTrace::new(1);
        stages.watch(true);
        for start in [10, 100] {
            let moments = [(TracePoint::Parsed, start), (TracePoint::Submitted, start + 5)];
            stages.mark(1, id(1), PREPARE, moments);
        }
        let doing = "prepare: parse and check";
        let expected = [(10, 15, doing), (100, 105, doing)];
        assert_eq!(spans(&stages.of(&id(1)).stages), expected);
    }

    fn spans(stages: &[StageSpan]) -> Vec<(u64, u64, &str)> {
        stages.iter().map(|stage| (stage.start_ns, stage.end_ns, &*stage.label)).collect()
    }

    /// The thread of connections has dropped what it marked of the first transfer, the sequencer
    /// has not: half of a transfer is not shown. Nor is one whose last marks alone are kept.
    #[test]
    fn a_transfer_is_shown_whole_or_not_at_all() {
        let stages = LatencyTrace::new(1);
        stages.watch(true);
        for (number, at) in [(1, 10), (2, 100), (3, 1_000)] {
            let submitted = [(TracePoint::Parsed, at), (TracePoint::Submitted, at + 1)];
            stages.mark(1, id(number), PREPARE, submitted);
            let decided = [(TracePoint::Taken, at + 2), (TracePoint::Applied, at + 3)];
            stages.mark(0, id(number), PREPARE, decided);
        }
        let room = stages.marks_max(1) - 6;
        let fill = |count| {
            let many = std::iter::repeat_n((TracePoint::Owed, 2_000), count);
            stages.mark(1, id(9), TO_PAYEE, many);
        };
        fill(room);
        for number in [1, 2, 3] {
            let noted = stages.of(&id(number));
            assert_eq!((noted.stages.len(), noted.reach), (2, None), "{number}");
        }
        fill(3);
        for number in [1, 2] {
            let noted = stages.of(&id(number));
            assert!(noted.stages.is_empty() && noted.waits.is_empty(), "{number}: {noted:?}");
            assert!(noted.reach.is_some_and(|reach| !reach.is_zero()), "{number}: {noted:?}");
        }
        let noted = stages.of(&id(3));
        assert_eq!(noted.stages.len(), 2, "{noted:?}");
        assert!(noted.reach.is_some(), "{noted:?}");
    }

    /// The prepare has made room, the fulfil has not: that is a whole only where another node may
    /// have taken the prepare.
    #[test]
    fn a_transfer_without_its_prepare_is_whole_only_among_several_nodes() {
        for (stages, expected) in
            [(LatencyTrace::new(1), 0), (LatencyTrace::new(1).with_peers(), 1)]
        {
            stages.watch(true);
            let prepared = [(TracePoint::Parsed, 10), (TracePoint::Submitted, 11)];
            stages.mark(1, id(1), PREPARE, prepared);
            stages.mark(1, id(9), TO_PAYEE, std::iter::repeat_n((TracePoint::Owed, 500), 9));
            let fulfil = TraceSubject::Taking(Inbound::Fulfil);
            stages.mark(
                1,
                id(1),
                fulfil,
                [(TracePoint::Parsed, 900), (TracePoint::Submitted, 901)],
            );
            let many = std::iter::repeat_n((TracePoint::Owed, 2_000), stages.marks_max(1) - 11);
            stages.mark(1, id(9), TO_PAYEE, many);
            assert_eq!(stages.of(&id(1)).stages.len(), expected);
        }
    }

    /// At the marks that a transfer leaves, each thread reaches about as far back.
    #[test]
    fn all_threads_reach_as_far_back_as_the_sequencer() {
        const OF_SEQUENCER: usize = 8;
        const OF_OTHERS: usize = 27;
        for others in [1, 2, 4, 8, 64] {
            let stages = LatencyTrace::new(others);
            let transfers = stages.marks_max(0) / OF_SEQUENCER;
            let reached = others * stages.marks_max(1) / OF_OTHERS;
            assert!(transfers <= reached, "{others}: {transfers} and {reached}");
        }
    }

    #[test]
    fn the_oldest_marks_make_room() {
        let stages = LatencyTrace::new(1);
        stages.watch(true);
        stages.mark(1, id(1), PREPARE, [(TracePoint::Parsed, 1), (TracePoint::Read, 2)]);
        let many = (0..OTHER_MARKS_MAX as u64).map(|at| (TracePoint::Parsed, 3 + at));
        stages.mark(1, id(2), PREPARE, many);
        let noted = stages.of(&id(1));
        assert!(noted.stages.is_empty() && noted.reach.is_some(), "{noted:?}");
        stages.watch(false);
        assert_eq!(stages.of(&id(2)), TransferTrace::default());
    }
}
