//! One I/O thread of the hub: the outbox as it ships, over a simulated network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delivery::{Attempt, AttemptResult, Delivery, LaneState, Moment, Verdict};
use ledger::{
    Command, DeliveryResult, FinishedDelivery, Notice, NoticeId, NoticeKind, Outcome,
    ParticipantIndex,
};
use node::outbox::{Outbox, OutboxHost, RECORD_PATIENCE};
use node::{Attached, Mailbox, Refused, Submission, Ticket};
use ports::{Log, LogError, Net, Now, OwnedPayload, RecordReader};
use sequencer::Durability;

use crate::desk::{Attempting, Desk};
use crate::event::{Callback, HubEvent};
use crate::hub::{Hub, HubSequencer};
use crate::script::Request;
use crate::witness::Witness;

/// Records, in a thousand, that are read from the log though nobody needs them.
const CHECKED_PER_MILLE: u32 = 20;

/// A notice on its way out, with its message when that is still in memory.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    notice: Notice,
    message: Option<Request>,
}

pub(crate) struct Edge {
    outbox: Outbox<Request, Parcel>,
    shell: Shell,
}

/// What an I/O thread has beside its outbox.
struct Shell {
    number: u8,
    has_mail: Arc<AtomicBool>,
    /// Requests that wait for an answer, and where each was recorded.
    waiters: BTreeMap<u32, (Request, Option<u64>)>,
    next_waiter: u32,
    flushing: bool,
    recording: bool,
    retry_at: Option<u64>,
}

/// The I/O thread as the outbox sees it.
pub(crate) struct Host<'a> {
    desk: &'a mut Desk,
    witness: &'a mut Witness,
    now: Now,
    life: u32,
    born_us: u64,
    handle: &'a node::Handle<Request>,
    sequencer: &'a HubSequencer,
    reader: &'a dyn RecordReader,
    awake: &'a mut bool,
    shell: &'a mut Shell,
    /// How the attempt at hand ended.
    attempted: Option<AttemptResult>,
}

impl Edge {
    pub(crate) fn new(
        desk: &mut Desk,
        number: u8,
        (mailbox, has_mail): (Arc<Mailbox<Request>>, Arc<AtomicBool>),
    ) -> Self {
        let policy = (desk.plan.policy.clone(), desk.random.next());
        let shell = Shell {
            number,
            has_mail,
            waiters: BTreeMap::new(),
            next_waiter: 0,
            flushing: false,
            recording: false,
            retry_at: None,
        };
        Self { outbox: Outbox::new((usize::from(number), mailbox), u64::MAX, policy), shell }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.outbox.is_idle() && !self.has_mail()
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.shell.has_mail.load(Ordering::Relaxed)
    }

    /// The command of a waiting request was decided as the record at `position`.
    pub(crate) fn note_decided(&mut self, waiter: u32, position: u64) {
        self.shell.waiters.get_mut(&waiter).expect("a request waits").1 = Some(position);
    }

    pub(crate) fn lane_states(&self) -> impl Iterator<Item = LaneState> {
        self.outbox.delivery().lane_states()
    }
}

impl Hub {
    /// A request whose command is to be committed.
    pub(crate) fn request(&mut self, desk: &mut Desk, request: Request, command: Command) {
        let number = desk.random.below(self.edges.len() as u64) as u8;
        let record = sequencer::encode(&command, Some(&request.payload()));
        let life = self.life;
        let Edge { outbox, shell } = &mut self.edges[usize::from(number)];
        let waiter = shell.next_waiter;
        shell.next_waiter += 1;
        shell.waiters.insert(waiter, (request, None));
        let ticket = Ticket::Waiter { mailbox: usize::from(number), waiter };
        outbox.submit(Submission {
            command,
            record: record.expect("a request fits a record"),
            durability: Durability::Synced,
            attached: Attached { ticket, message: Some(Arc::new(request)) },
        });
        shell.flush_soon(desk, life);
    }

    pub(crate) fn flush_when_woken(&mut self, desk: &mut Desk, witness: &mut Witness, edge: u8) {
        self.drive(desk, witness, edge, |outbox, host| {
            host.shell.flushing = false;
            outbox.flush(host);
        });
    }

    pub(crate) fn record_when_idle(&mut self, desk: &mut Desk, witness: &mut Witness, edge: u8) {
        self.drive(desk, witness, edge, |outbox, host| {
            host.shell.recording = false;
            outbox.record_when_idle(host);
        });
    }

    pub(crate) fn read_mail(&mut self, desk: &mut Desk, witness: &mut Witness, edge: u8) {
        self.drive(desk, witness, edge, |outbox, host| {
            host.shell.has_mail.store(false, Ordering::Relaxed);
            outbox.read_mail(host);
            outbox.start_due_attempts(host);
        });
    }

    pub(crate) fn retry(&mut self, desk: &mut Desk, witness: &mut Witness, edge: u8) {
        self.drive(desk, witness, edge, |outbox, host| {
            if host.shell.retry_at.is_some_and(|due| due <= host.desk.now) {
                host.shell.retry_at = None;
            }
            outbox.start_due_attempts(host);
        });
    }

    /// An attempt to deliver a notice ended.
    pub(crate) fn attempted(
        &mut self,
        desk: &mut Desk,
        witness: &mut Witness,
        (edge, notice, result): (u8, NoticeId, AttemptResult),
    ) {
        self.drive(desk, witness, edge, |outbox, host| {
            host.attempted = Some(result);
            let verdict = outbox.attempted(notice, result, host);
            host.attempted = None;
            match verdict {
                // `Host::must_record` has seen it.
                Verdict::Ended(_) => {}
                Verdict::RetryAt(_) => host.witness.attempted(notice, None),
                Verdict::Parked => {
                    host.desk.tally.parked += 1;
                    host.witness.attempted(notice, None);
                    host.witness.parked(notice);
                }
                Verdict::Left => unreachable!("there is no other node that a lane could go to"),
            }
            outbox.start_due_attempts(host);
        });
    }

    /// An FSP asked for a pause.
    pub(crate) fn pause_asked(&mut self, desk: &Desk, (edge, fsp, micros): (u8, u8, u64)) {
        let now = self.tell_time(desk);
        self.edges[usize::from(edge)].outbox.pause_asked(index_of(fsp), micros, now);
    }

    /// An FSP has registered an address.
    pub(crate) fn addressed(&mut self, desk: &mut Desk, witness: &mut Witness, fsp: u8) {
        for edge in 0..self.edges.len() as u8 {
            self.drive(desk, witness, edge, |outbox, host| {
                outbox.address_changed(index_of(fsp), host.now);
                outbox.start_due_attempts(host);
            });
        }
    }

    fn drive(
        &mut self,
        desk: &mut Desk,
        witness: &mut Witness,
        edge: u8,
        act: impl FnOnce(&mut Outbox<Request, Parcel>, &mut Host<'_>),
    ) {
        let now = self.tell_time(desk);
        let Edge { outbox, shell } = &mut self.edges[usize::from(edge)];
        let mut host = Host {
            desk,
            witness,
            now,
            life: self.life,
            born_us: self.born_us,
            handle: &self.handle,
            sequencer: self.node.sequencer(),
            reader: &*self.reader,
            awake: &mut self.awake,
            shell,
            attempted: None,
        };
        act(outbox, &mut host);
    }
}

impl Shell {
    fn flush_soon(&mut self, desk: &mut Desk, life: u32) {
        if !std::mem::replace(&mut self.flushing, true) {
            let wait = desk.random.below(20);
            desk.hub_after(wait, life, HubEvent::Flush(self.number));
        }
    }
}

impl OutboxHost<Request, Parcel> for Host<'_> {
    fn now(&self) -> Now {
        self.now
    }

    fn submit(&mut self, submissions: &mut Vec<Submission<Request>>) -> Result<(), Refused> {
        let taken = self.handle.submit(submissions);
        self.desk.tally.refused += submissions.len() as u64;
        if !std::mem::replace(self.awake, true) {
            self.desk.hub_after(1, self.life, HubEvent::Step);
        }
        taken
    }

    fn answer(&mut self, waiter: u32, reply: Result<Outcome, Refused>) {
        let waiting = self.shell.waiters.remove(&waiter);
        let (request, position) = waiting.expect("a request is answered once");
        if let Ok(outcome) = reply {
            assert_ne!(outcome, Outcome::Repeated, "no record is applied twice");
            self.witness.promise(position.expect("an answered request was decided"));
        }
        self.desk.answer(request, reply.ok());
    }

    fn parcel(&mut self, notice: Notice, message: Option<Arc<Request>>) -> (Parcel, u32) {
        let message = message.map(|message| *message);
        let bytes = message.map_or(0, |message| message.payload().len() as u32);
        (Parcel { notice, message }, bytes)
    }

    fn flush_soon(&mut self) {
        self.shell.flush_soon(self.desk, self.life);
    }

    fn record_later(&mut self) {
        if !std::mem::replace(&mut self.shell.recording, true) {
            let wait = RECORD_PATIENCE.as_micros() as u64;
            self.desk.hub_after(wait, self.life, HubEvent::Record(self.shell.number));
        }
    }

    fn retry_at(&mut self, due: Moment) {
        let due = self.born_us + due.0;
        if self.shell.retry_at.is_none_or(|set| due < set) {
            self.shell.retry_at = Some(due);
            let wait = due.saturating_sub(self.desk.now);
            self.desk.hub_after(wait, self.life, HubEvent::Retry(self.shell.number));
        }
    }

    fn must_record(&mut self, end: &FinishedDelivery, delivery: &Delivery<Parcel>) -> bool {
        let FinishedDelivery { notice: id, result, .. } = *end;
        match self.attempted {
            Some(AttemptResult::Unsent | AttemptResult::NoAddress) => {
                // Nothing was sent, so that no slot is taken.
                self.witness.attempted(id, None);
                self.witness.ended_quietly(id, result);
            }
            Some(_) => self.witness.attempted(id, Some(result)),
            None => {
                let is_withdrawn = result == DeliveryResult::Withdrawn;
                self.desk.tally.withdrawn += u64::from(is_withdrawn);
                self.desk.tally.lapsed += u64::from(!is_withdrawn);
                self.witness.ended_quietly(id, result);
            }
        }
        let notice = self.notice(id);
        self.desk.judge_end(self.life, (&notice, end), delivery.tried(id));
        true
    }
}

/// The way into the simulated network.
impl Net for Host<'_> {
    type Attempt = Attempt<Parcel>;

    fn send(&mut self, attempt: Attempt<Parcel>) {
        let id = attempt.notice;
        self.witness.attempt(id, self.sequencer.log().durable_end());
        let parcel =
            attempt.message.unwrap_or_else(|| Parcel { notice: self.notice(id), message: None });
        if !self.desk.has_address(&parcel.notice) {
            return self.end_unsent(id, AttemptResult::NoAddress);
        }
        let source = match parcel.message {
            None if needs_message(parcel.notice.kind)
                || self.desk.random.chance(CHECKED_PER_MILLE) =>
            {
                self.load(&parcel.notice)
            }
            known => Ok(known),
        };
        let Ok(source) = source else { return self.end_unsent(id, AttemptResult::Unsent) };
        self.desk.attempt(Attempting {
            life: self.life,
            edge: self.shell.number,
            to: attempt.recipient.0 as u8 - 1,
            notice: id,
            callback: Box::new(Callback { notice: parcel.notice, source }),
        });
    }
}

impl Host<'_> {
    fn end_unsent(&mut self, notice: NoticeId, result: AttemptResult) {
        let event = HubEvent::Attempted(self.shell.number, notice, result);
        self.desk.hub_after(1, self.life, event);
    }

    /// A notice whose parcel was too much for its lane.
    fn notice(&self, id: NoticeId) -> Notice {
        *self.sequencer.state().notice(id).expect("a notice that is sent is owed")
    }

    /// The message that a notice is made from, out of the log; an error when the disk is gone.
    fn load(&mut self, notice: &Notice) -> Result<Option<Request>, LogError> {
        self.desk.tally.reloads += 1;
        let record = self.reader.read(notice.source)?;
        let record = record.expect("the record of a notice is durable");
        let OwnedPayload::Stored(payload) = record.payload else {
            panic!("{notice:?} is made from a record without a message");
        };
        let request = Request::recognise(&payload).expect("the log keeps messages as they came");
        Ok(Some(request))
    }
}

/// The participant that an FSP is.
fn index_of(fsp: u8) -> ParticipantIndex {
    ParticipantIndex(u32::from(fsp) + 1)
}

/// Whether the HTTP message of such a notice is made from the record it names; the others say
/// all they have to say by themselves.
fn needs_message(kind: NoticeKind) -> bool {
    use NoticeKind::*;
    match kind {
        Prepare | Fulfil | Abort | FulfilCopy | AbortCopy | Committed => true,
        Reserved | AbortedState | Error | PatchCommitted | PatchAborted => false,
        PartiesChanged => true,
    }
}
