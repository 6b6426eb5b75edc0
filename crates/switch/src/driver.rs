//! What one I/O thread does beside serving requests: hands gathered submissions to the sequencer,
//! reads its mailbox, and carries out the attempts that the delivery policy asks for.
//!
//! Four tasks per thread, each asleep until woken; none runs once per message:
//! - the *flusher* is woken by the first request that submits, and runs after all the sockets
//!   that were ready have been read, so that one batch carries what they all brought;
//! - the *mail* task is woken once per batch;
//! - the *retry* task sleeps until the delivery policy's next deadline;
//! - the *recorder* notes finished deliveries when no other record takes them along.

use std::rc::Rc;
use std::time::Duration;

use delivery::{Attempt, AttemptResult, Entry, Purpose, Report, Verdict, Withdrawal};
use ledger::{Command, DeliveryResult, FinishedDelivery, Notice};
use node::stages::{Moment, What};
use node::{Attached, Event, Refused, Ticket};
use ports::{Clock, Net};
use sequencer::{Durability, Submission};
use tokio::task::spawn_local;

use crate::edge::{Edge, Parcel};
use crate::forward::Undelivered;
use crate::notices::{self, Answered};
use crate::null::{self, Decisions};
use crate::pool::{Failure, SWEEP};
use crate::progress::LaneWatch;
use crate::{Wedge, forward, inquiry, progress};

/// How long finished deliveries wait for a record that takes them along.
const RECORD_PATIENCE: Duration = Duration::from_millis(20);
/// Finished deliveries that are recorded without waiting.
const RECORD_BATCH: usize = 64;
/// Deliveries in one record.
const RECORD_MAX: usize = 4_096;

/// Starts the tasks of a thread.
pub(crate) fn spawn(edge: &Rc<Edge>) {
    spawn_local(flush_when_woken(Rc::clone(edge)));
    spawn_local(read_mail(Rc::clone(edge)));
    spawn_local(retry(Rc::clone(edge)));
    spawn_local(record_when_idle(Rc::clone(edge)));
    spawn_local(sweep(Rc::clone(edge)));
}

async fn flush_when_woken(edge: Rc<Edge>) {
    loop {
        edge.flush.notified().await;
        flush(&edge, Durability::Lazy);
    }
}

/// Hands over what was gathered. Finished deliveries go along; alone they go only when there are
/// many, or when they must (`Synced`).
fn flush(edge: &Edge, deliveries: Durability) {
    let mut submissions = edge.submissions.borrow_mut();
    let many = RECORD_BATCH <= edge.finished.borrow().len();
    if many || deliveries == Durability::Synced || !submissions.is_empty() {
        take_finished(edge, deliveries, &mut submissions);
    }
    if submissions.is_empty() {
        return;
    }
    if let Err(refused) = edge.handle.submit(&mut submissions) {
        for left in submissions.drain(..) {
            refuse(edge, left, refused);
        }
    }
}

/// Hands finished deliveries over: nobody comes by to take them along any more.
pub(crate) fn record(edge: &Edge) {
    if !edge.finished.borrow().is_empty() {
        flush(edge, Durability::Synced);
    }
}

fn take_finished(
    edge: &Edge,
    durability: Durability,
    submissions: &mut Vec<node::Submission<crate::Message>>,
) {
    let mut finished = edge.finished.borrow_mut();
    while !finished.is_empty() {
        let count = finished.len().min(RECORD_MAX);
        let ends: Vec<_> = finished.drain(..count).collect();
        let tried = tried_of(edge, &ends);
        let command = Command::FinishDeliveries(ends);
        let attached =
            Attached { ticket: Ticket::Deliveries { mailbox: edge.number }, message: None };
        let record = sequencer::encode(&command, tried.as_deref());
        let record = record.expect("a bounded number of deliveries fits a record");
        submissions.push(Submission { command, record, durability, attached });
    }
}

/// The attempts of those deliveries that took more than one, or failed: they go on record beside
/// the ends. Nearly always there are none.
fn tried_of(edge: &Edge, ends: &[FinishedDelivery]) -> Option<Vec<u8>> {
    let delivery = edge.delivery.borrow();
    let easy = |end: &&FinishedDelivery| {
        end.attempts == 0 || (end.attempts == 1 && end.result == DeliveryResult::Delivered)
    };
    let told: Vec<_> = ends
        .iter()
        .filter(|end| !easy(end))
        .map(|end| (end.notice, inquiry::told(edge, delivery.tried(end.notice))))
        .collect();
    (!told.is_empty()).then(|| record::tried::write(&told))
}

/// The inbox is full: a request is refused, a record of deliveries is kept for the next flush.
fn refuse(edge: &Edge, left: node::Submission<crate::Message>, refused: Refused) {
    match left.attached.ticket {
        Ticket::Waiter { waiter, .. } => edge.waiters.answer(waiter, Err(refused)),
        Ticket::Call(call) => call(Err(refused)),
        Ticket::Deliveries { .. } => {
            if let Command::FinishDeliveries(ends) = left.command {
                keep(edge, ends);
            }
        }
        Ticket::None => {}
    }
}

/// A record of deliveries was not taken: they wait for the next one, which the recorder sees to.
fn keep(edge: &Edge, ends: Vec<FinishedDelivery>) {
    edge.finished.borrow_mut().splice(0..0, ends);
    edge.forcing_record.set(false);
    edge.record.notify_one();
}

async fn read_mail(edge: Rc<Edge>) {
    let mut events = Vec::new();
    loop {
        edge.mail.notified().await;
        take_mail(&edge, &mut events);
        inquiry::answer(&edge);
        pump(&edge);
    }
}

fn take_mail(edge: &Edge, events: &mut Vec<Event<crate::Message>>) {
    edge.mailbox.take(events);
    for event in events.drain(..) {
        handle(edge, event);
    }
}

fn handle(edge: &Edge, event: Event<crate::Message>) {
    match event {
        Event::Reply { waiter, result } => edge.waiters.answer(waiter, result),
        Event::Notice { notice, message } => {
            if let Some(transfer) = notice.transfer {
                let what = What::Sending(notice.kind, notice.recipient);
                edge.mark(transfer, what, [Moment::Owed]);
            }
            edge.delivery.borrow_mut().enqueue(entry(edge, Parcel::new(notice, message)));
        }
        Event::Withdraw(notice) => {
            let withdrawal = edge.delivery.borrow_mut().withdraw(notice);
            if let Withdrawal::Ended(report) = withdrawal {
                finish(edge, &report);
            }
        }
        Event::Recorded(notices) => {
            edge.forcing_record.set(false);
            edge.delivery.borrow_mut().recorded(&notices);
        }
        // Looking at it is enough: see `Edge::view`.
        Event::RegisterChanged => drop(edge.view()),
        Event::Unrecorded(ends) => keep(edge, ends),
        Event::Elsewhere(notices) => edge.delivery.borrow_mut().delivered_elsewhere(&notices),
        Event::Left(lanes) => edge.delivery.borrow_mut().leave(&lanes),
        Event::Taken(lanes) => edge.delivery.borrow_mut().take(&lanes),
        Event::Lease(until_us) => edge.lease_us.set(until_us),
    }
}

fn entry(edge: &Edge, parcel: Rc<Parcel>) -> Entry<Rc<Parcel>> {
    let Notice { id, recipient, transfer, owed_at, .. } = parcel.notice;
    let purpose = Purpose::of(&parcel.notice);
    let bytes = parcel.message.borrow().as_ref().map_or(0, |message| message.body.len() as u32);
    let until = edge.options.policy.until(owed_at, edge.clock.now());
    Entry { notice: id, recipient, transfer, until, purpose, bytes, message: Some(parcel) }
}

/// Starts every attempt that may start now.
pub(crate) fn pump(edge: &Rc<Edge>) {
    if edge.is_shared {
        // Another node may know already that a lane is its own: nothing begins on it here before
        // that is read.
        take_mail(edge, &mut Vec::new());
    }
    if edge.options.wedge == Some(Wedge::Lanes) || !edge.may_send() {
        return;
    }
    edge.delivery.borrow_mut().send_due(edge.moment(), &mut Sockets(edge));
    record_lapsed(edge);
    let delivery = edge.delivery.borrow();
    let (starved, waits) = (delivery.starved(), delivery.next_deadline().is_some());
    drop(delivery);
    if starved && !edge.forcing_record.replace(true) {
        force_record(edge);
    }
    if waits {
        edge.retry.notify_one();
    }
}

/// Deliveries whose time is over go on record like those that ended with an attempt.
fn record_lapsed(edge: &Edge) {
    loop {
        let lapsed = edge.delivery.borrow_mut().next_lapsed();
        let Some(report) = lapsed else { return };
        finish(edge, &report);
    }
}

/// The network as the delivery policy uses it: each attempt is a task of this thread.
struct Sockets<'a>(&'a Rc<Edge>);

impl Net for Sockets<'_> {
    type Attempt = Attempt<Rc<Parcel>>;

    fn send(&mut self, attempt: Attempt<Rc<Parcel>>) {
        self.0.counters.attempts.add(1);
        spawn_local(carry_out(Rc::clone(self.0), attempt));
    }
}

/// A lane waits for nothing but the record of its finished deliveries: makes one, even an empty
/// one, that syncs whatever was appended before it.
fn force_record(edge: &Edge) {
    if edge.finished.borrow().is_empty() {
        let attached =
            Attached { ticket: Ticket::Deliveries { mailbox: edge.number }, message: None };
        let command = Command::FinishDeliveries(Vec::new());
        let submission = Submission::without_payload(command, Durability::Synced, attached);
        edge.submissions.borrow_mut().push(submission.expect("an empty record fits"));
    }
    flush(edge, Durability::Synced);
}

async fn carry_out(edge: Rc<Edge>, attempt: Attempt<Rc<Parcel>>) {
    let Attempt { notice, recipient, .. } = attempt;
    edge.attempts.update(|count| count + 1);
    let answered = notices::send(&edge, attempt).await;
    edge.attempts.update(|count| count - 1);
    let now = edge.moment();
    let mut delivery = edge.delivery.borrow_mut();
    if let Ok(Answered { pause_micros: Some(micros), .. }) = answered {
        delivery.pause_asked(recipient, micros, now);
    }
    let verdict = delivery.finished(notice, result_of(answered), now);
    drop(delivery);
    if let Verdict::Ended(report) = verdict {
        finish(&edge, &report);
    }
    pump(&edge);
}

fn result_of(answered: Result<Answered, Undelivered>) -> AttemptResult {
    match answered {
        Ok(Answered { status, .. }) => AttemptResult::Status(status.as_u16()),
        Err(Undelivered::NoEndpoint | Undelivered::Unusable) => AttemptResult::NoAddress,
        Err(Undelivered::Failed(failure)) => match failure {
            Failure::Connect | Failure::Denied => AttemptResult::ConnectFailed,
            Failure::TimedOut => AttemptResult::TimedOut,
            Failure::Broken | Failure::Unanswered => AttemptResult::Broken,
            Failure::Unsent | Failure::Crowded | Failure::NotAnswering => AttemptResult::Unsent,
        },
    }
}

fn finish(edge: &Edge, report: &Report) {
    if edge.options.decisions == Decisions::Null && null::made(report.notice) {
        return edge.delivery.borrow_mut().recorded(&[report.notice]);
    }
    let mut finished = edge.finished.borrow_mut();
    finished.push(FinishedDelivery {
        notice: report.notice,
        result: report.result,
        attempts: report.attempts_recorded(),
        status: report.status(),
        finished_ms: edge.clock.now().wall.millis(),
    });
    if finished.len() == 1 {
        edge.record.notify_one();
    } else if finished.len().is_multiple_of(RECORD_BATCH) {
        edge.flush.notify_one();
    }
}

/// Sleeps until the delivery policy wants to try something again.
async fn retry(edge: Rc<Edge>) {
    loop {
        let moved = edge.moved.take();
        for participant in moved {
            edge.pools.address_changed(participant);
            let change = edge.breakers.address_changed(participant);
            forward::report(&edge, participant, change);
            edge.delivery.borrow_mut().address_changed(participant, edge.moment());
            pump(&edge);
        }
        // Without a lease nothing is due: the next one ends the wait.
        let due = edge.delivery.borrow().next_deadline().filter(|_| edge.may_send());
        match due {
            None => edge.retry.notified().await,
            Some(due) => {
                let wait = Duration::from_micros(due.0.saturating_sub(edge.moment().0));
                tokio::select! {
                    () = tokio::time::sleep(wait) => pump(&edge),
                    () = edge.retry.notified() => {}
                }
            }
        }
    }
}

async fn record_when_idle(edge: Rc<Edge>) {
    loop {
        edge.record.notified().await;
        tokio::time::sleep(RECORD_PATIENCE).await;
        let mut submissions = edge.submissions.borrow_mut();
        take_finished(&edge, Durability::Lazy, &mut submissions);
        drop(submissions);
        flush(&edge, Durability::Lazy);
        pump(&edge);
    }
}

async fn sweep(edge: Rc<Edge>) {
    let mut interval = tokio::time::interval(SWEEP);
    let mut lanes = LaneWatch::default();
    loop {
        interval.tick().await;
        edge.shown.turns.add(1);
        lanes.look(&edge);
        progress::wedge(&edge);
        edge.pools.sweep();
        edge.connections.sweep();
    }
}
