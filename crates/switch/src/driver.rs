//! Drives the outbox of one I/O thread: hands gathered submissions to the sequencer, reads the
//! mailbox, and starts the attempts that the delivery policy requests.
//!
//! Four tasks per thread, each asleep until woken; none runs once per message:
//! - the *flusher* is woken by the first request that submits, and runs after all ready sockets
//!   have been read, so that one batch carries all their messages;
//! - the *mail* task is woken once per batch;
//! - the *retry* task sleeps until the delivery policy's next deadline;
//! - the *recorder* records finished deliveries if no other record carries them.
//!
//! Every decision is made in [`node::outbox`].

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delivery::{Attempt, AttemptResult, Delivery};
use ledger::{FinishedDelivery, Notice, Outcome};
use node::latency_trace::TracePoint;
use node::outbox::{OutboxHost, RECORD_PATIENCE};
use node::{BatchTimes, Handle, SubmissionRefused};
use ports::ClockReading;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::connections::Connections;
use crate::failure::{Failure, SendError};
use crate::lane_watch::LaneWatch;
use crate::lent_calls::{AttemptEnd, Call, EndedCall, LentCall, LentCalls};
use crate::message::{ForwardedMessage, LentNotice, OutgoingNotice};
use crate::notice_messages::{NoticeResponse, Notices};
use crate::outbox::Outbox;
use crate::passthrough;
use crate::pool::SWEEP;
use crate::submitter::Submitter;
use crate::thread::Thread;
use crate::thread_status::ThreadStatus;

/// The parts of an I/O thread that its tasks use.
pub(crate) struct Driver {
    pub(crate) handle: Handle<ForwardedMessage>,
    pub(crate) outbox: Rc<Outbox>,
    pub(crate) notices: Notices,
    pub(crate) submitter: Rc<Submitter>,
    pub(crate) connections: Rc<Connections>,
    pub(crate) shown: Arc<ThreadStatus>,
    /// Notified when the mailbox has mail.
    pub(crate) mail: Arc<Notify>,
    /// An injected stall.
    pub(crate) injected_stall: Option<InjectedStall>,
}

/// A stall that is injected to test the watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedStall {
    /// The last I/O thread with lanes, from its first sweep on.
    Thread,
    /// Every lane: due notices are not attempted.
    Lanes,
}

impl Driver {
    fn thread(&self) -> &Thread {
        &self.notices.egress.thread
    }

    fn note_in_flight(&self) {
        let messages = self.submitter.waiters.len() + self.notices.egress.in_flight();
        self.lent().note_in_flight(messages);
    }

    fn lent(&self) -> &LentCalls {
        &self.notices.egress.lent
    }

    /// Stops the last thread if that stall is injected.
    fn stop_if_stall_injected(&self) {
        while self.lent().is_last_with_lanes() && self.injected_stall == Some(InjectedStall::Thread)
        {
            std::thread::park();
        }
    }
}

/// Starts the tasks of a thread.
pub(crate) fn spawn(driver: &Rc<Driver>, lanes: LaneWatch) {
    spawn_local(flush_when_woken(Rc::clone(driver)));
    spawn_local(read_mail(Rc::clone(driver)));
    spawn_local(retry(Rc::clone(driver)));
    spawn_local(record_when_idle(Rc::clone(driver)));
    spawn_local(sweep(Rc::clone(driver), lanes));
}

/// The I/O thread as the outbox sees it, for calls without a wait between them. Each attempt is a
/// task of this thread.
struct Host<'a> {
    driver: &'a Rc<Driver>,
    /// The clocks, which are read once.
    now: Cell<Option<ClockReading>>,
}

impl<'a> Host<'a> {
    fn new(driver: &'a Rc<Driver>) -> Self {
        Self { driver, now: Cell::new(None) }
    }
}

impl OutboxHost<ForwardedMessage, Rc<OutgoingNotice>> for Host<'_> {
    fn now(&self) -> ClockReading {
        let now = self.now.get().unwrap_or_else(|| self.driver.thread().now());
        self.now.set(Some(now));
        now
    }

    fn submit(
        &mut self,
        submissions: &mut Vec<node::Submission<ForwardedMessage>>,
    ) -> Result<(), SubmissionRefused> {
        self.driver.handle.submit(submissions)
    }

    fn begin_batch(&mut self, times: BatchTimes) {
        self.driver.submitter.waiters.begin_batch(times);
    }

    fn answer(&mut self, waiter: u32, reply: Result<Outcome, SubmissionRefused>) {
        self.driver.submitter.waiters.answer(waiter, reply);
    }

    fn wrap_notice(
        &mut self,
        notice: Notice,
        message: Option<Arc<ForwardedMessage>>,
    ) -> (Rc<OutgoingNotice>, u32) {
        self.driver.thread().tracer.notice(&notice, TracePoint::Owed);
        let bytes = message.as_ref().map_or(0, |message| message.body.len() as u32);
        (OutgoingNotice::new(notice, message), bytes)
    }

    fn start_attempt(&mut self, attempt: Attempt<Rc<OutgoingNotice>>) {
        self.driver.thread().counters.attempts.add(1);
        if let Err(attempt) = self.driver.lent().lend_attempt(attempt) {
            spawn_local(make_attempt(Rc::clone(self.driver), attempt));
        }
    }

    fn flush_soon(&mut self) {
        self.driver.outbox.flush.notify_one();
    }

    fn record_later(&mut self) {
        self.driver.outbox.record.notify_one();
    }

    fn retry_at(&mut self, _due: delivery::MonotonicTime) {
        self.driver.outbox.retry.notify_one();
    }

    fn registry_changed(&mut self) {
        // Reading it is enough: see `Directory::view`.
        drop(self.driver.notices.egress.directory.view());
    }

    fn must_record(&mut self, end: &FinishedDelivery, _: &Delivery<Rc<OutgoingNotice>>) -> bool {
        !passthrough::is_passthrough_notice(end.notice)
    }
}

/// Records finished deliveries now, because no other record will carry them.
pub(crate) fn record(driver: &Rc<Driver>) {
    driver.outbox.state.borrow_mut().record_now(&mut Host::new(driver));
}

async fn flush_when_woken(driver: Rc<Driver>) {
    loop {
        driver.outbox.flush.notified().await;
        driver.note_in_flight();
        driver.outbox.state.borrow_mut().flush(&mut Host::new(&driver));
    }
}

async fn read_mail(driver: Rc<Driver>) {
    loop {
        driver.mail.notified().await;
        driver.note_in_flight();
        let mut host = Host::new(&driver);
        driver.outbox.state.borrow_mut().read_mail(&mut host);
        driver.shown.queries.answer(&driver.outbox, host.now());
        driver.lent().take_ended(|end| end_attempt(&driver, end, &mut host));
        start_due_attempts(&mut host);
        driver.lent().receive(|lent| drop(spawn_local(make_lent_call(Rc::clone(&driver), lent))));
        driver.lent().measure(driver.connections.len());
    }
}

fn start_due_attempts(host: &mut Host<'_>) {
    let driver = host.driver;
    if driver.injected_stall != Some(InjectedStall::Lanes) {
        driver.outbox.state.borrow_mut().start_due_attempts(host);
    }
}

async fn make_attempt(driver: Rc<Driver>, attempt: Attempt<Rc<OutgoingNotice>>) {
    let end = attempt_end(&driver, attempt).await;
    let mut host = Host::new(&driver);
    end_attempt(&driver, end, &mut host);
    start_due_attempts(&mut host);
}

/// Makes a call of another thread.
async fn make_lent_call(driver: Rc<Driver>, lent: LentCall) {
    let end = match lent.call {
        Call::Attempt(attempt) => {
            let attempt = attempt.map(LentNotice::received);
            EndedCall::Attempt(attempt_end(&driver, attempt).await)
        }
        Call::Forward { call, waiter } => {
            let result = Box::pin(driver.notices.egress.send_forward(*call)).await;
            EndedCall::Forward { waiter, result }
        }
    };
    driver.lent().give_back(lent.owner, end);
}

async fn attempt_end(driver: &Driver, attempt: Attempt<Rc<OutgoingNotice>>) -> AttemptEnd {
    let Attempt { notice, recipient, .. } = attempt;
    let response = driver.notices.send(attempt).await;
    let pause_micros = response.as_ref().ok().and_then(|response| response.pause_micros);
    AttemptEnd { notice, recipient, result: result_of(response), pause_micros }
}

fn end_attempt(driver: &Driver, end: AttemptEnd, host: &mut Host<'_>) {
    let mut outbox = driver.outbox.state.borrow_mut();
    if let Some(micros) = end.pause_micros {
        outbox.pause_asked(end.recipient, micros, host.now());
    }
    outbox.attempted(end.notice, end.result, host);
}

fn result_of(response: Result<NoticeResponse, SendError>) -> AttemptResult {
    match response {
        Ok(NoticeResponse { status, .. }) => AttemptResult::Status(status.as_u16()),
        Err(SendError::NoEndpoint | SendError::Unusable) => AttemptResult::NoAddress,
        Err(SendError::Failed(failure)) => match failure {
            Failure::Connect | Failure::Denied => AttemptResult::ConnectFailed,
            Failure::Tls(fault) => AttemptResult::TlsFailed(fault.text()),
            Failure::Http2(fault) => AttemptResult::Http2Failed(fault.text()),
            Failure::TimedOut => AttemptResult::TimedOut,
            Failure::Broken | Failure::Unanswered | Failure::TooLong => AttemptResult::Broken,
            Failure::Unsent | Failure::Crowded | Failure::NotAnswering => AttemptResult::Unsent,
        },
    }
}

/// Sleeps until the next deadline of the delivery policy.
async fn retry(driver: Rc<Driver>) {
    loop {
        let moved = driver.notices.egress.directory.take_moved();
        for participant in moved {
            driver.notices.egress.address_changed(participant);
            driver.outbox.state.borrow_mut().address_changed(participant, driver.thread().now());
            start_due_attempts(&mut Host::new(&driver));
        }
        let due = driver.outbox.state.borrow().next_deadline(driver.thread().now());
        match due {
            None => driver.outbox.retry.notified().await,
            Some(due) => {
                let wait = Duration::from_micros(due.0.saturating_sub(driver.thread().moment().0));
                tokio::select! {
                    () = tokio::time::sleep(wait) => start_due_attempts(&mut Host::new(&driver)),
                    () = driver.outbox.retry.notified() => {}
                }
            }
        }
    }
}

async fn record_when_idle(driver: Rc<Driver>) {
    loop {
        driver.outbox.record.notified().await;
        tokio::time::sleep(RECORD_PATIENCE).await;
        driver.outbox.state.borrow_mut().record_when_idle(&mut Host::new(&driver));
    }
}

async fn sweep(driver: Rc<Driver>, mut lanes: LaneWatch) {
    let mut interval = tokio::time::interval(SWEEP);
    loop {
        interval.tick().await;
        driver.shown.turns.add(1);
        driver.thread().compare_clocks();
        driver.lent().measure(driver.connections.len());
        lanes.look(&driver.shown);
        driver.stop_if_stall_injected();
        driver.notices.egress.sweep();
        driver.connections.sweep();
        driver.thread().counters.connections_open.set(driver.connections.len() as u64);
    }
}
