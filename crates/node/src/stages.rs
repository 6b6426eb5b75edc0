//! When each part of the hub touched a transfer: what waterfalls are drawn from.
//!
//! Phases: while watching is on, threads *mark* moments (one lock of their own and a clock
//! reading each); [`Stages::of`] gathers the marks of one transfer and makes stages of them, each
//! with a start, an end and a label. Where a message only waited, for its batch or for a thread,
//! there is no stage: nobody worked. While it is off, a mark costs one relaxed load.
//!
//! Bounds: the last `MARKS_MAX` marks of each thread are kept, about 20 a transfer; nothing is
//! kept while watching is off. Time is the machine's monotonic clock in nanoseconds, the same for
//! every process on it.

use std::collections::VecDeque;

use ledger::{Command, NoticeKind, ParticipantIndex, Position, TransferId};
use ports::{Log, LogError, RecordReader, Visitor};
use record::frame::Tail;
use rustix::time::{ClockId, clock_gettime};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Marks kept per thread: some 13,000 transfers of 8 MiB.
const MARKS_MAX: usize = 1 << 18;

/// What a thread was doing to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
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
pub enum Moment {
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
struct Mark {
    transfer: TransferId,
    what: What,
    moment: Moment,
    at_ns: u64,
}

/// A span of time in which a part of the hub, or a participant, had a transfer in its hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Start, nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// End, not before the start.
    pub end_ns: u64,
    /// Which message and what was done to it, such as `prepare: sync`.
    pub label: String,
}

/// Where threads leave their marks: number 0 is the sequencer's, then one for each mailbox.
#[derive(Debug)]
pub struct Stages {
    watching: AtomicBool,
    threads: Box<[Mutex<VecDeque<Mark>>]>,
}

impl Stages {
    /// For the sequencer's thread and `mailboxes` more; not watching.
    #[must_use]
    pub fn new(mailboxes: usize) -> Self {
        let threads = (0..=mailboxes).map(|_| Mutex::default()).collect();
        Self { watching: AtomicBool::new(false), threads }
    }

    /// Whether marks are kept.
    #[must_use]
    pub fn is_watching(&self) -> bool {
        self.watching.load(Ordering::Relaxed)
    }

    /// Begins or ends watching; either way what was kept is forgotten.
    pub fn watch(&self, watching: bool) {
        self.watching.store(watching, Ordering::Relaxed);
        for thread in &self.threads {
            *locked(thread) = VecDeque::new();
        }
    }

    /// Now, while watching.
    #[must_use]
    pub fn now_ns(&self) -> Option<u64> {
        self.is_watching().then(monotonic_ns)
    }

    /// Leaves marks of one thread, while watching.
    pub fn mark(
        &self,
        thread: usize,
        transfer: TransferId,
        what: What,
        moments: impl IntoIterator<Item = (Moment, u64)>,
    ) {
        if !self.is_watching() {
            return;
        }
        let mut marks = locked(&self.threads[thread]);
        // Watching may have ended, and what was kept been forgotten, just before the lock.
        if !self.is_watching() {
            return;
        }
        for (moment, at_ns) in moments {
            if marks.len() == MARKS_MAX {
                marks.pop_front();
            }
            marks.push_back(Mark { transfer, what, moment, at_ns });
        }
    }

    /// The stages of a transfer, in order of their starts: those whose marks are still kept.
    /// Looks through all marks; for people, not for every message.
    #[must_use]
    pub fn of(&self, transfer: &TransferId) -> Vec<Stage> {
        let mut marks: Vec<Mark> = Vec::new();
        for thread in &self.threads {
            marks.extend(locked(thread).iter().filter(|mark| mark.transfer == *transfer));
        }
        let all = marks.clone();
        let mut stages = Vec::new();
        while let Some(first) = marks.first().copied() {
            let (mut message, rest): (Vec<_>, Vec<_>) =
                marks.into_iter().partition(|mark| mark.what == first.what);
            stages_of_message(&mut message, &mut stages);
            marks = rest;
        }
        stages.extend(payees_own_time(&all));
        stages.sort_by_key(|stage| (stage.start_ns, stage.end_ns));
        stages
    }
}

/// From the prepare's last byte to the first of the payee's answer.
fn payees_own_time(marks: &[Mark]) -> Option<Stage> {
    let is_prepare = |what| matches!(what, What::Sending(NoticeKind::Prepare, _));
    let is_answer = |what| matches!(what, What::Taking(Inbound::Fulfil | Inbound::Abort));
    let first = |moment, is: &dyn Fn(What) -> bool| {
        let of_moment = marks.iter().filter(|mark| mark.moment == moment && is(mark.what));
        of_moment.map(|mark| mark.at_ns).min()
    };
    let start_ns = first(Moment::Written, &is_prepare)?;
    let end_ns = first(Moment::Arrived, &is_answer)?;
    let label = "payee: own time until its answer".to_owned();
    (start_ns <= end_ns).then_some(Stage { start_ns, end_ns, label })
}

/// A message seen more than once (a resend, a retry) makes its stages again from each first
/// moment on. Between two moments in which it only waited there is none.
fn stages_of_message(marks: &mut [Mark], stages: &mut Vec<Stage>) {
    marks.sort_by_key(|mark| (mark.at_ns, mark.moment));
    for pair in marks.windows(2) {
        let [from, to] = [pair[0], pair[1]];
        if let Some(doing) = doing(to.moment)
            && from.moment < to.moment
        {
            let label = format!("{}: {doing}", name(from.what));
            stages.push(Stage { start_ns: from.at_ns, end_ns: to.at_ns, label });
        }
    }
}

fn name(what: What) -> &'static str {
    match what {
        What::Taking(Inbound::Prepare) => "prepare",
        What::Taking(Inbound::Fulfil) => "fulfil",
        What::Taking(Inbound::Abort) => "abort",
        What::Sending(NoticeKind::Prepare, _) => "prepare to payee",
        What::Sending(NoticeKind::Fulfil, _) => "fulfil to payer",
        What::Sending(NoticeKind::Abort, _) => "abort to payer",
        What::Sending(NoticeKind::FulfilCopy, _) => "confirmation to payee",
        What::Sending(NoticeKind::AbortCopy, _) => "abort to payee",
        What::Sending(NoticeKind::Committed, _) => "committed to payer",
        What::Sending(NoticeKind::PatchCommitted, _) => "patch to payee",
        What::Sending(NoticeKind::PatchAborted, _) => "patch aborted to payee",
        What::Sending(..) => "notice",
    }
}

/// What was done until a moment; `None` where the message only waited: for bytes, for the batch,
/// for a thread, for its place in a lane.
fn doing(moment: Moment) -> Option<&'static str> {
    Some(match moment {
        Moment::Arrived | Moment::Taken | Moment::Resumed | Moment::Owed | Moment::Attempted => {
            return None;
        }
        Moment::Parsed => "receive",
        Moment::Read => "read the body",
        Moment::Submitted => "parse and check",
        Moment::Appended => "append",
        Moment::Synced => "sync",
        Moment::Applied => "apply",
        Moment::Answered => "answer",
        Moment::Connected => "connect",
        Moment::Written => "send",
        Moment::Delivered => "participant's own time",
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
pub fn inbound_of(command: &Command) -> Option<(TransferId, What)> {
    match command {
        Command::Prepare(prepare) => Some((prepare.id, What::Taking(Inbound::Prepare))),
        Command::Fulfil(fulfil) => Some((fulfil.id, What::Taking(Inbound::Fulfil))),
        Command::Abort(abort) => Some((abort.id, What::Taking(Inbound::Abort))),
        _ => None,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A log that notes, while watching, when it last appended and synced.
#[derive(Debug)]
pub struct WatchedLog<L> {
    log: L,
    stages: Arc<Stages>,
    appended_ns: u64,
    synced_ns: u64,
}

impl<L> WatchedLog<L> {
    /// Watches `log` whenever `stages` is watching.
    pub fn new(log: L, stages: Arc<Stages>) -> Self {
        Self { log, stages, appended_ns: 0, synced_ns: 0 }
    }

    /// Where its moments are noted.
    pub(crate) fn stages(&self) -> Arc<Stages> {
        Arc::clone(&self.stages)
    }

    /// When the last append and the last sync since then ended; 0 for what has not happened
    /// while watching.
    pub(crate) fn written_ns(&self) -> (u64, u64) {
        (self.appended_ns, self.synced_ns)
    }
}

impl<L: Log> Log for WatchedLog<L> {
    fn tail(&self) -> Tail {
        self.log.tail()
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        let result = self.log.append(frame);
        if let Some(now) = self.stages.now_ns() {
            (self.appended_ns, self.synced_ns) = (now, now);
        }
        result
    }

    fn sync(&mut self) -> Result<(), LogError> {
        let result = self.log.sync();
        if let Some(now) = self.stages.now_ns() {
            self.synced_ns = now;
        }
        result
    }

    fn close(&mut self) -> Result<(), LogError> {
        self.log.close()
    }

    fn replay(&mut self, from: Position, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        self.log.replay(from, visit)
    }

    fn reader(&self) -> Arc<dyn RecordReader> {
        self.log.reader()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const PREPARE: What = What::Taking(Inbound::Prepare);
    const TO_PAYEE: What = What::Sending(NoticeKind::Prepare, ParticipantIndex(1));

    fn id(number: u8) -> TransferId {
        let text = format!("00000000-0000-4000-8000-0000000000{number:02x}");
        TransferId::parse(&text).expect("it is an id")
    }

    #[test]
    fn stages_lie_where_somebody_worked_on_a_message() {
        let stages = Stages::new(1);
        stages.mark(1, id(1), PREPARE, [(Moment::Parsed, 5)]);
        assert!(stages.of(&id(1)).is_empty(), "nobody watches yet");
        stages.watch(true);
        stages.mark(1, id(1), PREPARE, [(Moment::Parsed, 10), (Moment::Submitted, 30)]);
        stages.mark(0, id(1), PREPARE, [(Moment::Taken, 35), (Moment::Synced, 90)]);
        stages.mark(1, id(2), PREPARE, [(Moment::Parsed, 11), (Moment::Read, 12)]);
        stages.mark(0, id(1), PREPARE, [(Moment::Applied, 92)]);
        stages.mark(1, id(1), PREPARE, [(Moment::Resumed, 96), (Moment::Answered, 99)]);
        stages.mark(1, id(1), TO_PAYEE, [(Moment::Owed, 95), (Moment::Attempted, 97)]);
        stages.mark(1, id(1), TO_PAYEE, [(Moment::Connected, 98)]);
        let found = stages.of(&id(1));
        let shown: Vec<_> =
            found.iter().map(|stage| (stage.start_ns, stage.end_ns, &*stage.label)).collect();
        let expected = [
            (10, 30, "prepare: parse and check"),
            (35, 90, "prepare: sync"),
            (90, 92, "prepare: apply"),
            (96, 99, "prepare: answer"),
            (97, 98, "prepare to payee: connect"),
        ];
        // 30 to 35 it waits for the batch, 92 to 96 for a thread: nobody works, so there is a gap.
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_message_that_came_twice_has_its_stages_twice() {
        let stages = Stages::new(1);
        stages.watch(true);
        for start in [10, 100] {
            let moments = [(Moment::Parsed, start), (Moment::Submitted, start + 5)];
            stages.mark(1, id(1), PREPARE, moments);
        }
        let spans: Vec<_> =
            stages.of(&id(1)).iter().map(|stage| (stage.start_ns, stage.end_ns)).collect();
        assert_eq!(spans, [(10, 15), (100, 105)]);
    }

    #[test]
    fn the_oldest_marks_make_room() {
        let stages = Stages::new(1);
        stages.watch(true);
        stages.mark(1, id(1), PREPARE, [(Moment::Parsed, 1), (Moment::Read, 2)]);
        let many = (0..MARKS_MAX as u64).map(|at| (Moment::Parsed, at));
        stages.mark(1, id(2), PREPARE, many);
        assert!(stages.of(&id(1)).is_empty());
        stages.watch(false);
        assert!(stages.of(&id(2)).is_empty());
    }
}
