//! Drives the outbox of one I/O thread: hands gathered submissions to the sequencer, reads the
//! mailbox, and makes the attempts that the delivery policy asks for.
//!
//! Four tasks per thread, each asleep until woken; none runs once per message:
//! - the *flusher* is woken by the first request that submits, and runs after all the sockets
//!   that were ready have been read, so that one batch carries what they all brought;
//! - the *mail* task is woken once per batch;
//! - the *retry* task sleeps until the delivery policy's next deadline;
//! - the *recorder* records finished deliveries when no other record takes them along.
//!
//! Every decision is made in [`node::outbox`].

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delivery::{Attempt, AttemptResult, Delivery};
use ledger::{FinishedDelivery, Notice, Outcome};
use node::Refused;
use node::outbox::{OutboxHost, RECORD_PATIENCE};
use node::stages::{Moment, What};
use ports::{Clock, Net, Now};
use tokio::task::spawn_local;

use crate::edge::{Edge, Parcel};
use crate::forward::Undelivered;
use crate::notices::{self, Answered};
use crate::null::{self, Decisions};
use crate::pool::{Failure, SWEEP};
use crate::progress::LaneWatch;
use crate::{Message, Wedge, forward, inquiry, progress};

/// Starts the tasks of a thread.
pub(crate) fn spawn(edge: &Rc<Edge>) {
    spawn_local(flush_when_woken(Rc::clone(edge)));
    spawn_local(read_mail(Rc::clone(edge)));
    spawn_local(retry(Rc::clone(edge)));
    spawn_local(record_when_idle(Rc::clone(edge)));
    spawn_local(sweep(Rc::clone(edge)));
}

/// The I/O thread as the outbox sees it. Each attempt is a task of this thread.
struct Host<'a>(&'a Rc<Edge>);

impl Net for Host<'_> {
    type Attempt = Attempt<Rc<Parcel>>;

    fn send(&mut self, attempt: Attempt<Rc<Parcel>>) {
        self.0.counters.attempts.add(1);
        spawn_local(make_attempt(Rc::clone(self.0), attempt));
    }
}

impl OutboxHost<Message, Rc<Parcel>> for Host<'_> {
    fn now(&self) -> Now {
        self.0.clock.now()
    }

    fn submit(&mut self, submissions: &mut Vec<node::Submission<Message>>) -> Result<(), Refused> {
        self.0.handle.submit(submissions)
    }

    fn answer(&mut self, waiter: u32, reply: Result<Outcome, Refused>) {
        self.0.waiters.answer(waiter, reply);
    }

    fn parcel(&mut self, notice: Notice, message: Option<Arc<Message>>) -> (Rc<Parcel>, u32) {
        if let Some(transfer) = notice.transfer {
            let what = What::Sending(notice.kind, notice.recipient);
            self.0.mark(transfer, what, [Moment::Owed]);
        }
        let bytes = message.as_ref().map_or(0, |message| message.body.len() as u32);
        (Parcel::new(notice, message), bytes)
    }

    fn flush_soon(&mut self) {
        self.0.flush.notify_one();
    }

    fn record_later(&mut self) {
        self.0.record.notify_one();
    }

    fn retry_at(&mut self, _due: delivery::Moment) {
        self.0.retry.notify_one();
    }

    fn register_changed(&mut self) {
        // Looking at it is enough: see `Edge::view`.
        drop(self.0.view());
    }

    fn must_record(&mut self, end: &FinishedDelivery, _: &Delivery<Rc<Parcel>>) -> bool {
        self.0.options.decisions != Decisions::Null || !null::made(end.notice)
    }
}

/// Hands finished deliveries over: no other record will take them along.
pub(crate) fn record(edge: &Rc<Edge>) {
    edge.outbox.borrow_mut().record_now(&mut Host(edge));
}

async fn flush_when_woken(edge: Rc<Edge>) {
    loop {
        edge.flush.notified().await;
        edge.outbox.borrow_mut().flush(&mut Host(&edge));
    }
}

async fn read_mail(edge: Rc<Edge>) {
    loop {
        edge.mail.notified().await;
        edge.outbox.borrow_mut().read_mail(&mut Host(&edge));
        inquiry::answer(&edge);
        start_due_attempts(&edge);
    }
}

fn start_due_attempts(edge: &Rc<Edge>) {
    if edge.options.wedge != Some(Wedge::Lanes) {
        edge.outbox.borrow_mut().start_due_attempts(&mut Host(edge));
    }
}

async fn make_attempt(edge: Rc<Edge>, attempt: Attempt<Rc<Parcel>>) {
    let Attempt { notice, recipient, .. } = attempt;
    let answered = notices::send(&edge, attempt).await;
    let mut outbox = edge.outbox.borrow_mut();
    if let Ok(Answered { pause_micros: Some(micros), .. }) = answered {
        outbox.pause_asked(recipient, micros, edge.clock.now());
    }
    outbox.attempted(notice, result_of(answered), &mut Host(&edge));
    drop(outbox);
    start_due_attempts(&edge);
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

/// Sleeps until the delivery policy wants to try something again.
async fn retry(edge: Rc<Edge>) {
    loop {
        let moved = edge.moved.take();
        for participant in moved {
            edge.pools.address_changed(participant);
            let change = edge.breakers.address_changed(participant);
            forward::report(&edge, participant, change);
            edge.outbox.borrow_mut().address_changed(participant, edge.clock.now());
            start_due_attempts(&edge);
        }
        let due = edge.outbox.borrow().next_deadline(edge.clock.now());
        match due {
            None => edge.retry.notified().await,
            Some(due) => {
                let wait = Duration::from_micros(due.0.saturating_sub(edge.moment().0));
                tokio::select! {
                    () = tokio::time::sleep(wait) => start_due_attempts(&edge),
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
        edge.outbox.borrow_mut().record_when_idle(&mut Host(&edge));
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
