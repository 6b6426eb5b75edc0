//! Drives outgoing transfers: one task per transfer that is in progress.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until};

use crate::dfsp::{Dfsp, Input, Waiter, count, give, unavailable};
use crate::hub::HubAnswer;
use crate::ids::now_ms;
use crate::outbound::{
    BackendReply, Effect, Event, HubRequest, OutboundTransfer, Phase, RequestKind,
};
use crate::store::{Durability, RowKind};
use crate::waits::Wait;

/// A transfer with everything that its task owns.
pub(crate) struct OutboundFlow {
    dfsp: Arc<Dfsp>,
    transfer: OutboundTransfer,
    wait: Wait<Input>,
    inputs: mpsc::Receiver<Input>,
    waiters: Vec<Waiter>,
    _place: Option<OwnedSemaphorePermit>,
}

/// The key under which a transfer in progress is found.
pub(crate) fn flow_key(transfer_id: &str) -> String {
    format!("flow/{transfer_id}")
}

/// The back end's or the payee's id of a transfer, by which a repetition is recognised.
pub(crate) fn origin(transfer: &OutboundTransfer) -> Option<(RowKind, &str)> {
    let home = transfer.object.get("homeTransactionId").and_then(serde_json::Value::as_str);
    let requested = transfer.request_id().map(|id| (RowKind::Requested, id));
    requested.or_else(|| home.map(|id| (RowKind::Home, id)))
}

/// The key under which a transfer in progress is found by its origin.
pub(crate) fn origin_key((kind, id): (RowKind, &str)) -> String {
    match kind {
        RowKind::Requested => format!("requested/{id}"),
        _ => format!("home/{id}"),
    }
}

impl OutboundFlow {
    /// Registers a transfer; `None` if it is in progress already.
    pub(crate) fn register(
        dfsp: &Arc<Dfsp>,
        transfer: OutboundTransfer,
        place: Option<OwnedSemaphorePermit>,
    ) -> Option<Self> {
        let (mut wait, inputs) = dfsp.outbound.register_first(&flow_key(transfer.transfer_id()))?;
        transfer.awaited().into_iter().for_each(|key| wait.add(key));
        let (dfsp, waiters) = (Arc::clone(dfsp), Vec::new());
        Some(Self { dfsp, transfer, wait, inputs, waiters, _place: place })
    }

    /// Adds a request that waits for the answer.
    pub(crate) fn add_waiter(&mut self, waiter: Waiter) {
        self.waiters.push(waiter);
    }

    /// Adds a key of callbacks or joins.
    pub(crate) fn add_key(&mut self, key: String) {
        self.wait.add(key);
    }

    /// Runs until nothing more can happen without the back end.
    pub(crate) async fn run(mut self, first: Vec<Effect>) {
        if !self.carry_out(first).await {
            return;
        }
        while !self.transfer.is_at_rest() {
            let input = self.next().await;
            if !self.process(input).await {
                return;
            }
        }
        // Inputs that arrived before the registration ends get the final answer.
        let Self { dfsp, transfer, wait, mut inputs, .. } = self;
        drop(wait);
        while let Ok(input) = inputs.try_recv() {
            answer_at_rest(&transfer, &input);
        }
        count_end(&dfsp, &transfer);
    }

    async fn next(&mut self) -> Input {
        let deadline = self.transfer.deadline_ms.map_or(u64::MAX, |at| at.saturating_sub(now_ms()));
        let until = Instant::now() + Duration::from_millis(deadline.min(3_600_000));
        tokio::select! {
            Some(input) = self.inputs.recv() => input,
            () = sleep_until(until) => Input::Event(Event::Deadline),
        }
    }

    async fn process(&mut self, input: Input) -> bool {
        let now = now_ms();
        let policy = &self.dfsp.policy;
        let effects = match input {
            Input::Event(Event::Deadline)
                if self.transfer.deadline_ms.is_none_or(|at| now < at) =>
            {
                Vec::new()
            }
            Input::Event(event) => self.transfer.handle(event, policy, now),
            Input::Resume(accept, waiter) => {
                self.waiters.push(waiter);
                self.transfer.handle(Event::Resume(accept), policy, now)
            }
            Input::Join(hash, waiter) => {
                match hash == self.transfer.request_hash {
                    true => self.waiters.push(waiter),
                    false => give(&waiter, OutboundTransfer::changed()),
                }
                Vec::new()
            }
            Input::Inquire(waiter) => {
                self.waiters.push(waiter);
                self.transfer.inquire(now)
            }
        };
        self.carry_out(effects).await
    }

    /// Carries out effects in their order; `false` if the store failed.
    async fn carry_out(&mut self, effects: Vec<Effect>) -> bool {
        for effect in effects {
            match effect {
                Effect::Save(is_synced) => {
                    if !self.save(is_synced).await {
                        let answer = unavailable("the adapter cannot write its state");
                        self.answer(&answer);
                        return false;
                    }
                }
                Effect::Send(asked, request) => self.send(asked, request),
                Effect::Answer(answer) => self.answer_with(answer),
            }
        }
        if self.transfer.is_final() && !self.waiters.is_empty() {
            let body = self.transfer.shown();
            self.answer(&BackendReply { status: 200, body });
        }
        true
    }

    async fn save(&self, is_synced: bool) -> bool {
        let (dfsp, transfer) = (&self.dfsp, &self.transfer);
        let id = transfer.transfer_id();
        let Ok(value) = serde_json::to_vec(transfer) else { return false };
        let is_open = transfer.phase == Phase::Prepared;
        let mut rows = vec![dfsp.row(RowKind::Outbound, id, value, is_open)];
        if let Some((kind, key)) = origin(transfer) {
            let id = serde_json::Value::from(id).to_string().into_bytes();
            rows.push(dfsp.row(kind, key, id, false));
        }
        let until = if is_synced { Durability::Synced } else { Durability::Queued };
        dfsp.save(rows, until).await.is_ok()
    }

    fn answer(&mut self, answer: &BackendReply) {
        if answer.status == 504 && !self.waiters.is_empty() {
            count(&self.dfsp.counts.outbound_timeouts);
        }
        self.waiters.drain(..).for_each(|waiter| give(&waiter, answer.clone()));
    }

    /// Answers without a copy, as nearly always only one request waits.
    fn answer_with(&mut self, answer: BackendReply) {
        if let [waiter] = self.waiters.as_slice()
            && answer.status != 504
        {
            give(waiter, answer);
            self.waiters.clear();
        } else {
            self.answer(&answer);
        }
    }

    /// Sends in a task of its own, whose result comes back as an input.
    fn send(&self, asked: RequestKind, request: HubRequest) {
        let (dfsp, trace) = (Arc::clone(&self.dfsp), self.transfer.trace);
        let sender = self.wait.sender();
        tokio::spawn(async move {
            count(&dfsp.counts.hub_requests);
            let event = match dfsp.hub.send(&request, trace).await {
                HubAnswer::Accepted => Event::Accepted(asked),
                HubAnswer::Refused(status, body) => Event::Refused(asked, status, body),
                HubAnswer::Unanswered(why) => {
                    count(&dfsp.counts.hub_unanswered);
                    Event::Unanswered(asked, why)
                }
            };
            // A transfer that has ended needs it no more.
            let _taken = sender.send(Input::Event(event)).await;
        });
    }
}

/// Answers a request about a transfer that has come to rest.
fn answer_at_rest(transfer: &OutboundTransfer, input: &Input) {
    if let Input::Resume(_, waiter) | Input::Join(_, waiter) | Input::Inquire(waiter) = input {
        give(waiter, BackendReply { status: 200, body: transfer.shown() });
    }
}

fn count_end(dfsp: &Dfsp, transfer: &OutboundTransfer) {
    match transfer.phase {
        Phase::Completed => count(&dfsp.counts.outbound_completed),
        Phase::Failed => count(&dfsp.counts.outbound_failed),
        Phase::Aborted => count(&dfsp.counts.outbound_aborted),
        _ => {}
    }
}
