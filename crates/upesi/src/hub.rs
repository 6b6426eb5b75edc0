//! The admin API's view of the running node.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use ledger::{Administer, Command, Outcome, Stamp, State, TransferId};
use node::{Attached, Handle, Refused, Ticket};
use operations::{Health, Hub, Metrics, ServiceStatus, Stage, Storage, Unavailable};
use sequencer::{Durability, Submission};
use switch::{Message, Traffic, stored_message};
use tokio::sync::oneshot;

/// The node as operators reach it.
pub(crate) struct NodeHub {
    pub(crate) handle: Handle<Message>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) started: Stamp,
    pub(crate) since: Instant,
    pub(crate) storage: Arc<Mutex<Storage>>,
}

impl Hub for NodeHub {
    async fn administer(&self, change: Administer) -> Result<Outcome, Unavailable> {
        let (answer, answered) = oneshot::channel();
        let call = Box::new(move |result| {
            // Whoever asked may have gone; the change stands all the same.
            let _told = answer.send(result);
        });
        let attached = Attached { ticket: Ticket::Call(call), message: None };
        let command = Command::Administer(Box::new(change));
        let submission = Submission::without_payload(command, Durability::Synced, attached)
            .map_err(|_| Unavailable::InboxFull)?;
        self.handle.submit(&mut vec![submission]).map_err(unavailable)?;
        answered.await.map_err(|_| Unavailable::Stopped)?.map_err(unavailable)
    }

    async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, Unavailable> {
        let (answer, answered) = oneshot::channel();
        self.handle.ask(move |state| drop(answer.send(question(state)))).map_err(unavailable)?;
        answered.await.map_err(|_| Unavailable::Stopped)
    }

    async fn prepare_body(&self, id: TransferId) -> Result<Option<Bytes>, Unavailable> {
        let Some(view) = self.ask(move |state| state.view(&id)).await? else { return Ok(None) };
        let reader = self.handle.reader();
        // Off the thread: the disk may take its time.
        let reading = tokio::task::spawn_blocking(move || reader.read(view.prepare));
        let record = reading.await.ok().and_then(Result::ok).ok_or(Unavailable::Stopped)?;
        Ok(record.and_then(stored_message).map(|message| message.body))
    }

    fn metrics(&self) -> Metrics {
        let status = self.handle.status();
        let traffic = self.traffic.totals();
        Metrics {
            log_syncs: status.counts.syncs,
            log_bytes: status.counts.bytes,
            log_position: status.position.0,
            batches: status.counts.batches,
            records: status.counts.records,
            transfers_reserved: status.counters.reserved,
            transfers_refused: status.counters.refused,
            transfers_committed: status.counters.committed,
            transfers_aborted: status.counters.aborted,
            transfers_expired: status.counters.expired,
            transfers_in_flight: status.in_flight,
            transfers_ended: status.ended,
            notices_owed: status.owed,
            notices_delivered: status.counters.delivered,
            dead_letters: status.dead,
            inbox_refused: self.handle.refused_count(),
            requests: traffic.requests,
            requests_refused: traffic.refused,
            forwards: traffic.forwards,
            forwards_failed: traffic.forwards_failed,
            attempts: traffic.attempts,
            connections: traffic.connections,
            connections_refused: traffic.connections_refused,
            malformed: traffic.malformed,
            calls_denied: traffic.calls_denied,
            signatures_verified: traffic.signatures_verified,
            signatures_refused: traffic.signatures_refused,
            signatures_made: traffic.signatures_made,
            signatures_failed: traffic.signatures_failed,
            signatures_waiting: traffic
                .signatures_asked
                .saturating_sub(traffic.signatures_made + traffic.signatures_failed),
        }
    }

    fn storage(&self) -> Storage {
        self.storage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_watching(&self) -> bool {
        self.handle.stages().is_watching()
    }

    fn watch(&self, watching: bool) {
        self.handle.stages().watch(watching);
    }

    fn stages(&self, transfer: &TransferId) -> Vec<Stage> {
        let stages = self.handle.stages().of(transfer);
        let shown = |stage: node::stages::Stage| Stage {
            start_ns: stage.start_ns,
            end_ns: stage.end_ns,
            label: stage.label,
        };
        stages.into_iter().map(shown).collect()
    }

    fn health(&self) -> Health {
        let service = match self.handle.status().stopped {
            None => ServiceStatus::Ok,
            Some(_) => ServiceStatus::Down,
        };
        Health {
            version: env!("CARGO_PKG_VERSION"),
            started: self.started,
            uptime: self.since.elapsed(),
            datastore: service,
            broker: service,
        }
    }
}

fn unavailable(refused: Refused) -> Unavailable {
    match refused {
        Refused::Full | Refused::DiskFull => Unavailable::InboxFull,
        Refused::Stopped => Unavailable::Stopped,
    }
}
