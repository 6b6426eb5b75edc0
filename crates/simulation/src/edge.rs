//! One I/O thread of the hub: what it gathers, the lanes it delivers, the records it makes of
//! finished deliveries.

use delivery::{
    Attempt, AttemptResult, Delivery, Entry, Moment, Policy, Purpose, Report, Verdict, Withdrawal,
};
use ledger::{Command, FinishedDelivery, Notice, NoticeId, NoticeKind, Outcome, ParticipantIndex};
use ports::{Log, LogError, Net, Now, OwnedPayload};
use sequencer::Durability;

use crate::desk::{Attempting, Desk};
use crate::event::{Callback, HubEvent};
use crate::hub::{Attached, Hub, Mail, Submission, Ticket};
use crate::script::Request;
use crate::witness::Witness;

/// How long finished deliveries wait for a record that takes them along.
const RECORD_PATIENCE_US: u64 = 20_000;
/// Finished deliveries that are recorded without waiting.
const RECORD_BATCH: usize = 64;
/// Deliveries in one record.
const RECORD_MAX: usize = 4_096;

/// Records, in a thousand, that are read from the log though nobody needs them.
const CHECKED_PER_MILLE: u32 = 20;

/// A notice on its way out, with its message when that is still in memory.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    notice: Notice,
    message: Option<Request>,
}

pub(crate) struct Edge {
    number: u8,
    submissions: Vec<Submission>,
    finished: Vec<FinishedDelivery>,
    pub(crate) delivery: Delivery<Parcel>,
    forcing_record: bool,
    flushing: bool,
    recording: bool,
    retry_at: Option<u64>,
}

impl Edge {
    pub(crate) fn new(desk: &mut Desk, number: u8) -> Self {
        Self {
            number,
            submissions: Vec::new(),
            finished: Vec::new(),
            delivery: Delivery::new(desk.plan.policy.clone(), desk.random.next()),
            forcing_record: false,
            flushing: false,
            recording: false,
            retry_at: None,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.submissions.is_empty() && self.finished.is_empty()
    }

    fn flush_soon(&mut self, desk: &mut Desk, life: u32) {
        if !self.flushing {
            self.flushing = true;
            let wait = desk.random.below(20);
            desk.hub_after(wait, life, HubEvent::Flush(self.number));
        }
    }

    fn record_soon(&mut self, desk: &mut Desk, life: u32) {
        if !self.recording {
            self.recording = true;
            desk.hub_after(RECORD_PATIENCE_US, life, HubEvent::Record(self.number));
        }
    }

    fn finish(&mut self, desk: &mut Desk, life: u32, end: FinishedDelivery) {
        self.finished.push(end);
        match self.finished.len() {
            1 => self.record_soon(desk, life),
            RECORD_BATCH => self.flush_soon(desk, life),
            _ => {}
        }
    }

    /// Moves the finished deliveries into records.
    fn take_finished(&mut self, durability: Durability) {
        while !self.finished.is_empty() {
            let rest = self.finished.split_off(self.finished.len().min(RECORD_MAX));
            let ends = std::mem::replace(&mut self.finished, rest);
            self.submissions.push(record_of(self.number, ends, durability));
        }
    }
}

impl Hub {
    /// A request whose command is to be committed.
    pub(crate) fn request(&mut self, desk: &mut Desk, request: Request, command: Command) {
        let edge = desk.random.below(self.edges.len() as u64) as u8;
        let record = sequencer::encode(&command, Some(&request.payload()));
        let attached = Attached { ticket: Ticket::Waiter(edge, request), message: Some(request) };
        let submission = Submission {
            command,
            record: record.expect("a request fits a record"),
            durability: Durability::Synced,
            attached,
        };
        let life = self.life;
        let edge = self.edge(edge);
        edge.submissions.push(submission);
        edge.flush_soon(desk, life);
    }

    pub(crate) fn flush_when_woken(&mut self, desk: &mut Desk, edge: u8) {
        self.edge(edge).flushing = false;
        self.flush(desk, edge, Durability::Lazy);
    }

    pub(crate) fn record_when_idle(&mut self, desk: &mut Desk, witness: &mut Witness, edge: u8) {
        let at = self.edge(edge);
        at.recording = false;
        at.take_finished(Durability::Lazy);
        self.flush(desk, edge, Durability::Lazy);
        self.pump(desk, witness, edge);
    }

    pub(crate) fn read_mail(&mut self, desk: &mut Desk, witness: &mut Witness, edge: u8) {
        for mail in self.take_mail(edge) {
            self.handle_mail(desk, witness, (edge, mail));
        }
        self.pump(desk, witness, edge);
    }

    pub(crate) fn retry(&mut self, desk: &mut Desk, witness: &mut Witness, edge: u8) {
        let at = self.edge(edge);
        if at.retry_at.is_some_and(|due| due <= desk.now) {
            at.retry_at = None;
        }
        self.pump(desk, witness, edge);
    }

    /// An attempt to deliver a notice ended.
    pub(crate) fn attempted(
        &mut self,
        desk: &mut Desk,
        witness: &mut Witness,
        (edge, notice, result): (u8, NoticeId, AttemptResult),
    ) {
        let moment = self.moment(desk);
        match self.edge(edge).delivery.finished(notice, result, moment) {
            // Nothing was sent, so that no slot is taken.
            Verdict::Ended(report)
                if matches!(result, AttemptResult::Unsent | AttemptResult::NoAddress) =>
            {
                witness.attempted(notice, None);
                witness.ended_quietly(notice, report.result);
                self.ended(desk, edge, &report);
            }
            Verdict::Ended(report) => {
                witness.attempted(notice, Some(report.result));
                self.ended(desk, edge, &report);
            }
            Verdict::RetryAt(_) => witness.attempted(notice, None),
            Verdict::Parked => {
                desk.tally.parked += 1;
                witness.attempted(notice, None);
                witness.parked(notice);
            }
            Verdict::Left => unreachable!("there is no other node that a lane could go to"),
        }
        self.pump(desk, witness, edge);
    }

    /// A delivery ended, and is to be recorded.
    fn ended(&mut self, desk: &mut Desk, edge: u8, report: &Report) {
        let end = FinishedDelivery {
            notice: report.notice,
            result: report.result,
            attempts: report.attempts_recorded(),
            status: report.status(),
            finished_ms: desk.true_ms(),
        };
        let (life, notice) = (self.life, self.notice(report.notice));
        let at = self.edge(edge);
        desk.judge_end(life, (&notice, &end), at.delivery.tried(report.notice));
        at.finish(desk, life, end);
    }

    /// An FSP asked for a pause.
    pub(crate) fn pause_asked(&mut self, desk: &Desk, (edge, fsp, micros): (u8, u8, u64)) {
        let moment = self.moment(desk);
        let recipient = ParticipantIndex(u32::from(fsp) + 1);
        self.edge(edge).delivery.pause_asked(recipient, micros, moment);
    }

    /// An FSP has registered an address.
    pub(crate) fn addressed(&mut self, desk: &mut Desk, witness: &mut Witness, fsp: u8) {
        let moment = self.moment(desk);
        let recipient = ParticipantIndex(u32::from(fsp) + 1);
        for edge in 0..self.edges.len() as u8 {
            self.edge(edge).delivery.address_changed(recipient, moment);
            self.pump(desk, witness, edge);
        }
    }

    fn edge(&mut self, number: u8) -> &mut Edge {
        &mut self.edges[usize::from(number)]
    }

    fn moment(&self, desk: &Desk) -> Moment {
        Moment(desk.now - self.born_us)
    }

    /// Hands over what was gathered. Finished deliveries go along; alone they go only when there
    /// are many, or when they must.
    fn flush(&mut self, desk: &mut Desk, edge: u8, deliveries: Durability) {
        let at = self.edge(edge);
        let many = RECORD_BATCH <= at.finished.len();
        if many || deliveries == Durability::Synced || !at.submissions.is_empty() {
            at.take_finished(deliveries);
        }
        let mut submissions = std::mem::take(&mut at.submissions);
        if submissions.is_empty() {
            return;
        }
        self.submit(desk, &mut submissions);
        for left in submissions {
            self.keep_or_refuse(desk, edge, left);
        }
    }

    /// The inbox is full: a request is refused, a record of deliveries is kept.
    fn keep_or_refuse(&mut self, desk: &mut Desk, edge: u8, left: Submission) {
        match (left.attached.ticket, left.command) {
            (Ticket::Waiter(_, request), _) => desk.answer(request, None),
            (Ticket::Deliveries(_), Command::FinishDeliveries(ends)) => {
                self.keep(desk, edge, ends);
            }
            _ => {}
        }
    }

    /// A record of deliveries was not taken: they go with a later one.
    fn keep(&mut self, desk: &mut Desk, edge: u8, ends: Vec<FinishedDelivery>) {
        let life = self.life;
        let at = self.edge(edge);
        at.finished.splice(0..0, ends);
        at.forcing_record = false;
        at.record_soon(desk, life);
    }

    fn handle_mail(&mut self, desk: &mut Desk, witness: &mut Witness, (edge, mail): (u8, Mail)) {
        match mail {
            Mail::Reply { request, position, result } => {
                if let Some(outcome) = result {
                    assert_ne!(outcome, Outcome::Repeated, "no record is applied twice");
                    witness.promise(position);
                }
                desk.answer(request, result);
            }
            Mail::Notice { notice, message } => {
                let bytes = message.map_or(0, |message| message.payload().len() as u32);
                let now = desk.clock(self.born_us);
                let entry = entry(Parcel { notice, message }, bytes, (&desk.plan.policy, now));
                self.edge(edge).delivery.enqueue(entry);
            }
            Mail::Withdraw(notice) => {
                let withdrawal = self.edge(edge).delivery.withdraw(notice);
                if let Withdrawal::Ended(report) = withdrawal {
                    desk.tally.withdrawn += 1;
                    witness.ended_quietly(notice, report.result);
                    self.ended(desk, edge, &report);
                }
            }
            Mail::Recorded(notices) => {
                let at = self.edge(edge);
                at.forcing_record = false;
                at.delivery.recorded(&notices);
            }
            Mail::Unrecorded(ends) => self.keep(desk, edge, ends),
        }
    }

    /// Starts every attempt that may start now.
    fn pump(&mut self, desk: &mut Desk, witness: &mut Witness, edge: u8) {
        let now = self.moment(desk);
        let mut network = Network::default();
        self.edge(edge).delivery.send_due(now, &mut network);
        for attempt in network.0 {
            self.carry_out(desk, witness, (edge, attempt));
        }
        while let Some(report) = self.edge(edge).delivery.next_lapsed() {
            desk.tally.lapsed += 1;
            witness.ended_quietly(report.notice, report.result);
            self.ended(desk, edge, &report);
        }
        let (life, born) = (self.life, self.born_us);
        let at = self.edge(edge);
        if let Some(due) = at.delivery.next_deadline() {
            let due = born + due.0;
            if at.retry_at.is_none_or(|set| due < set) {
                at.retry_at = Some(due);
                let wait = due.saturating_sub(desk.now);
                desk.hub_after(wait, life, HubEvent::Retry(edge));
            }
        }
        if at.delivery.starved() && !at.forcing_record {
            at.forcing_record = true;
            if at.finished.is_empty() {
                at.submissions.push(record_of(edge, Vec::new(), Durability::Synced));
            }
            self.flush(desk, edge, Durability::Synced);
        }
    }

    fn carry_out(
        &mut self,
        desk: &mut Desk,
        witness: &mut Witness,
        (edge, attempt): (u8, Attempt<Parcel>),
    ) {
        let id = attempt.notice;
        witness.attempt(id, self.sequencer.log().durable_end());
        let parcel =
            attempt.message.unwrap_or_else(|| Parcel { notice: self.notice(id), message: None });
        if !desk.has_address(&parcel.notice) {
            let event = HubEvent::Attempted(edge, id, AttemptResult::NoAddress);
            return desk.hub_after(1, self.life, event);
        }
        let source = match parcel.message {
            None if needs_message(parcel.notice.kind) || desk.random.chance(CHECKED_PER_MILLE) => {
                self.load(desk, &parcel.notice)
            }
            known => Ok(known),
        };
        let Ok(source) = source else {
            let event = HubEvent::Attempted(edge, id, AttemptResult::Unsent);
            return desk.hub_after(1, self.life, event);
        };
        desk.attempt(Attempting {
            life: self.life,
            edge,
            to: attempt.recipient.0 as u8 - 1,
            notice: id,
            callback: Box::new(Callback { notice: parcel.notice, source }),
        });
    }

    /// A notice whose parcel was too much for its lane.
    fn notice(&self, id: NoticeId) -> Notice {
        *self.sequencer.state().notice(id).expect("a notice that is sent is owed")
    }

    /// The message that a notice is made from, out of the log; an error when the disk is gone.
    fn load(&self, desk: &mut Desk, notice: &Notice) -> Result<Option<Request>, LogError> {
        desk.tally.reloads += 1;
        let record = self.reader.read(notice.source)?;
        let record = record.expect("the record of a notice is durable");
        let OwnedPayload::Stored(payload) = record.payload else {
            panic!("{notice:?} is made from a record without a message");
        };
        let request = Request::recognise(&payload).expect("the log keeps messages as they came");
        Ok(Some(request))
    }
}

/// The way into the simulated network: attempts in the order in which they were started.
#[derive(Default)]
struct Network(Vec<Attempt<Parcel>>);

impl Net for Network {
    type Attempt = Attempt<Parcel>;

    fn send(&mut self, attempt: Attempt<Parcel>) {
        self.0.push(attempt);
    }
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

fn record_of(edge: u8, ends: Vec<FinishedDelivery>, durability: Durability) -> Submission {
    let attached = Attached { ticket: Ticket::Deliveries(edge), message: None };
    let command = Command::FinishDeliveries(ends);
    let submission = Submission::without_payload(command, durability, attached);
    submission.expect("a bounded number of deliveries fits a record")
}

fn entry(parcel: Parcel, bytes: u32, (policy, now): (&Policy, Now)) -> Entry<Parcel> {
    let Notice { id, recipient, transfer, owed_at, .. } = parcel.notice;
    let purpose = Purpose::of(&parcel.notice);
    let until = policy.until(owed_at, now);
    Entry { notice: id, recipient, transfer, until, purpose, bytes, message: Some(parcel) }
}
