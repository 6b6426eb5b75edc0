//! Submits commands to the sequencer, and lets requests wait for the decision.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use fspiop::Refusal;
use fspiop::body::CorrelationId;
use http::StatusCode;
use ledger::{ChangeParties, Command, Outcome};
use node::latency_trace::TracePoint;
use node::{ReplyTo, SubmissionContext, SubmissionRefused};
use sequencer::{Durability, Submission};

use crate::commands;
use crate::directory::Directory;
use crate::inbound::{Inbound, RecordedMessage};
use crate::outbox::Outbox;
use crate::passthrough::{Passthrough, PassthroughMessage};
use crate::pending_requests::{PendingRequests, Reply, ReplyTimes, Wait};
use crate::spans::DecisionFacts;
use crate::thread::Thread;
use crate::trace::RequestTrace;

/// When an accepted message is answered.
pub(crate) enum AcceptStatus {
    /// At once.
    Immediate(StatusCode),
    /// At once; the message is about a quote.
    OfQuote(StatusCode, CorrelationId),
    /// When its record is durable and decided.
    AfterDecision(PendingDecision, StatusCode),
    /// After a query of the state, which few messages need, or after the record of a quote, which
    /// is forwarded then. With the quote, if the message is about one.
    AfterQuery(PendingStateQuery, Option<CorrelationId>),
}

/// Queries the state about a message first.
pub(crate) type PendingStateQuery = Pin<Box<dyn Future<Output = Result<StatusCode, Refusal>>>>;

impl From<StatusCode> for AcceptStatus {
    fn from(status: StatusCode) -> Self {
        Self::Immediate(status)
    }
}

/// Submits commands of one thread.
pub(crate) struct Submitter {
    pub(crate) waiters: Rc<PendingRequests>,
    pub(crate) directory: Rc<Directory>,
    thread: Rc<Thread>,
    outbox: Rc<Outbox>,
    /// Replaces the sequencer for transfers in pass-through mode.
    passthrough: Option<Passthrough>,
}

impl Submitter {
    pub(crate) fn new(
        thread: &Rc<Thread>,
        directory: &Rc<Directory>,
        outbox: &Rc<Outbox>,
        passthrough: Option<Passthrough>,
    ) -> Self {
        let (thread, directory) = (Rc::clone(thread), Rc::clone(directory));
        Self { waiters: Rc::default(), directory, thread, outbox: Rc::clone(outbox), passthrough }
    }

    /// Submits a command; the decision is made when it is durable and applied.
    ///
    /// # Errors
    /// 413 for a message that is too large for a record.
    pub(crate) fn submit(
        &self,
        command: Command,
        inbound: Inbound,
    ) -> Result<PendingDecision, Refusal> {
        self.submit_with((command, &[]), inbound)
    }

    /// Submits a change of the party directory. Its fields get hashes in the place of the
    /// identifiers, which its contents get.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub(crate) fn submit_parties(
        &self,
        mut change: ChangeParties,
        inbound: Inbound,
    ) -> Result<PendingDecision, Refusal> {
        let names = self.directory.view().conceal_parties(&mut change.parties);
        let parties = names.map(|names| names.to_bytes()).unwrap_or_default();
        self.submit_with((Command::ChangeParties(Box::new(change)), &parties), inbound)
    }

    fn submit_with(
        &self,
        (command, parties): (Command, &[u8]),
        inbound: Inbound,
    ) -> Result<PendingDecision, Refusal> {
        let stored = commands::store(&command, inbound, || self.thread.wall_ms());
        let RecordedMessage { message, mut stages } = stored;
        let facts = self.thread.spans.is_on().then(|| DecisionFacts::of(&command));
        stages.is_about(&command);
        stages.mark(TracePoint::Submitted);
        if let Some(passthrough) = &self.passthrough
            && let Some(message_fields) = PassthroughMessage::of(&command)
        {
            passthrough.forward(
                &self.directory.view(),
                self.thread.now(),
                &message_fields,
                message,
            );
            return Ok(PendingDecision { wait: None, stages: RequestTrace::default(), facts });
        }
        let wait = self.waiters.wait();
        let record = commands::encode((&command, parties), &message);
        let record = record.map_err(|_| Refusal::too_large())?;
        let ticket = ReplyTo::Waiter { mailbox: self.thread.number, waiter: wait.number() };
        let attached = SubmissionContext { ticket, message: Some(Arc::new(message)) };
        let durability = Durability::Synced;
        self.outbox.submit(Submission { command, record, durability, attached });
        Ok(PendingDecision { wait: Some(wait), stages, facts })
    }
}

/// The decision about a submitted command; none in pass-through mode.
pub(crate) struct PendingDecision {
    wait: Option<Wait<(Reply, ReplyTimes)>>,
    stages: RequestTrace,
    /// Facts for the spans, if they are exported.
    facts: Option<Box<DecisionFacts>>,
}

impl PendingDecision {
    /// Waits until the command is durable and applied; returns the outcome, or `None` in
    /// pass-through mode.
    ///
    /// # Errors
    /// 503 if the node accepted no more commands.
    pub(crate) async fn outcome(self, directory: &Directory) -> Result<Option<Outcome>, Refusal> {
        match self.wait {
            Some(wait) => decided(wait.await.0, directory).map(Some),
            None => Ok(None),
        }
    }

    /// Waits until the command is durable and applied; returns the trace to mark as answered, and
    /// the facts for the spans.
    ///
    /// # Errors
    /// 503 if the node accepted no more commands.
    pub(crate) async fn wait(
        mut self,
        directory: &Directory,
    ) -> Result<(RequestTrace, Option<Box<DecisionFacts>>), Refusal> {
        let Some(wait) = self.wait else { return Ok((self.stages, self.facts)) };
        let (reply, times) = wait.await;
        self.stages.mark(TracePoint::Resumed);
        if let Some(facts) = &mut self.facts {
            facts.decided(reply.ok(), times.as_deref());
        }
        decided(reply, directory).map(|_| (self.stages, self.facts))
    }
}

/// The outcome of a decided command.
fn decided(reply: Reply, directory: &Directory) -> Result<Outcome, Refusal> {
    match reply {
        Ok(outcome) => {
            if outcome == Outcome::SenderNotFound {
                directory.ignore();
            }
            Ok(outcome)
        }
        Err(SubmissionRefused::SenderBacklogFull) => Err(Refusal::owed()),
        Err(
            SubmissionRefused::Full
            | SubmissionRefused::DiskFull
            | SubmissionRefused::BrokersTimedOut
            | SubmissionRefused::Stopped,
        ) => Err(Refusal::unavailable()),
    }
}
