//! Drives incoming transfers: one task per transfer that is in progress.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::dfsp::{Dfsp, count};
use crate::hub::HubAnswer;
use crate::ids::now_ms;
use crate::inbound::{InboundEffect, InboundEvent, InboundTransfer};
use crate::outbound::HubRequest;
use crate::store::{Durability, RowKind};
use crate::waits::Wait;

/// A transfer with everything that its task owns.
pub(crate) struct InboundFlow {
    dfsp: Arc<Dfsp>,
    transfer: InboundTransfer,
    wait: Wait<InboundEvent>,
    inputs: mpsc::Receiver<InboundEvent>,
    /// Receives whether the transfer is on disk, for the hub's request.
    recorded: Option<oneshot::Sender<bool>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl InboundFlow {
    /// Registers a transfer; `None` if it is in progress already.
    pub(crate) fn register(
        dfsp: &Arc<Dfsp>,
        transfer: InboundTransfer,
        recorded: Option<oneshot::Sender<bool>>,
        place: Option<OwnedSemaphorePermit>,
    ) -> Option<Self> {
        let (wait, inputs) = dfsp.inbound.register_first(transfer.transfer_id())?;
        Some(Self { dfsp: Arc::clone(dfsp), transfer, wait, inputs, recorded, _place: place })
    }

    /// Runs until nothing more is owed.
    pub(crate) async fn run(mut self, first: Vec<InboundEffect>) {
        if !self.carry_out(first).await {
            return;
        }
        while let Some(event) = self.next().await {
            let now = now_ms();
            let is_early = self.transfer.deadline_ms.is_none_or(|at| now < at);
            if matches!(event, InboundEvent::Deadline) && is_early {
                continue;
            }
            let effects = self.transfer.handle(event, &self.dfsp.policy, now);
            if !self.carry_out(effects).await {
                return;
            }
        }
        match self.transfer.object["currentState"].as_str() {
            Some("COMPLETED") => count(&self.dfsp.counts.inbound_completed),
            _ => count(&self.dfsp.counts.inbound_aborted),
        }
    }

    /// The next event; `None` at rest, once the events have been taken that arrived while the last
    /// state was written. Later ones find the transfer in the store.
    async fn next(&mut self) -> Option<InboundEvent> {
        if self.transfer.is_at_rest() {
            return self.inputs.try_recv().ok();
        }
        let deadline = self.transfer.deadline_ms.map_or(u64::MAX, |at| at.saturating_sub(now_ms()));
        let until = Instant::now() + Duration::from_millis(deadline.min(3_600_000));
        Some(tokio::select! {
            Some(event) = self.inputs.recv() => event,
            () = sleep_until(until) => InboundEvent::Deadline,
        })
    }

    async fn carry_out(&mut self, effects: Vec<InboundEffect>) -> bool {
        for effect in effects {
            match effect {
                InboundEffect::Save(is_synced) => {
                    let is_saved = self.save(is_synced).await;
                    if let Some(recorded) = self.recorded.take() {
                        // The hub's connection may be gone; the hub sends it again.
                        let _heard = recorded.send(is_saved);
                    }
                    if !is_saved {
                        return false;
                    }
                }
                effect => self.spawn(effect),
            }
        }
        true
    }

    /// Writes the transfer without its quote, which has a row of its own.
    async fn save(&mut self, is_synced: bool) -> bool {
        let quote = self.transfer.take_quote();
        let value = serde_json::to_vec(&self.transfer);
        if let Some(quote) = quote {
            self.transfer.put_quote(quote);
        }
        let Ok(value) = value else { return false };
        let (dfsp, transfer) = (&self.dfsp, &self.transfer);
        let is_open = !transfer.is_at_rest();
        let row = dfsp.row(RowKind::Inbound, transfer.transfer_id(), value, is_open);
        let until = if is_synced { Durability::Synced } else { Durability::Queued };
        dfsp.save(vec![row], until).await.is_ok()
    }

    /// Starts a call, whose result comes back as an input.
    fn spawn(&self, effect: InboundEffect) {
        let call = Call {
            dfsp: Arc::clone(&self.dfsp),
            id: self.transfer.transfer_id().to_owned(),
            payer: self.transfer.payer().to_owned(),
            version: self.transfer.version().unwrap_or(&self.dfsp.hub.version).to_owned(),
            trace: self.transfer.trace,
        };
        let sender = self.wait.sender();
        tokio::spawn(async move {
            if let Some(event) = call.make(effect).await {
                // A transfer that has ended needs it no more.
                let _taken = sender.send(event).await;
            }
        });
    }
}

/// One call for a transfer.
struct Call {
    dfsp: Arc<Dfsp>,
    id: String,
    payer: String,
    version: String,
    trace: [u8; 16],
}

impl Call {
    async fn make(&self, effect: InboundEffect) -> Option<InboundEvent> {
        let backend = &self.dfsp.backend;
        match effect {
            InboundEffect::AskBackend(body) => {
                let answer = backend.call(Method::POST, "/transfers", Some(&body)).await;
                if answer.is_err() {
                    count(&self.dfsp.counts.backend_errors);
                }
                Some(InboundEvent::BackendAnswered(answer))
            }
            InboundEffect::Respond(is_error, body) => {
                let end = if is_error { "/error" } else { "" };
                let path = format!("/transfers/{}{end}", self.id);
                Some(match self.send(Method::PUT, path, Some(body)).await {
                    HubAnswer::Accepted => InboundEvent::Delivered,
                    HubAnswer::Refused(status, _) => InboundEvent::Undelivered {
                        may_be_retried: status >= 500 || matches!(status, 401 | 408 | 425 | 429),
                    },
                    HubAnswer::Unanswered(_) => {
                        count(&self.dfsp.counts.hub_unanswered);
                        InboundEvent::Undelivered { may_be_retried: true }
                    }
                })
            }
            InboundEffect::AskHub => {
                let path = format!("/transfers/{}", self.id);
                // The answer comes as a callback; without one the hub is asked again.
                let _sent = self.send(Method::GET, path, None).await;
                None
            }
            InboundEffect::Notify(body) => {
                let path = format!("/transfers/{}", self.id);
                let answer = backend.call(Method::PUT, &path, Some(&body)).await;
                Some(InboundEvent::Notified(match answer {
                    Ok(_) => true,
                    Err(error) => {
                        count(&self.dfsp.counts.backend_errors);
                        error.is_certain
                    }
                }))
            }
            InboundEffect::Save(_) => None,
        }
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        body: Option<serde_json::Value>,
    ) -> HubAnswer {
        count(&self.dfsp.counts.hub_requests);
        let destination = (method == Method::PUT).then(|| self.payer.clone());
        let request = HubRequest { method, path, destination, body };
        self.dfsp.hub.send_as(&self.version, &request, self.trace).await
    }
}
