//! The admin API's view of the running node.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use ledger::{Administer, Command, Outcome, Stamp, State, TransferId};
use node::progress::Stuck;
use node::{Attached, Handle, Refused, Ticket};
use operations::{Health, Hub, Metrics, ServiceStatus, Snapshots, Stage, StuckStage, Unavailable};
use sequencer::{Durability, Submission};
use snapshots::FollowerHandle;
use switch::{Message, Traffic, stored_message};
use tokio::sync::{Semaphore, oneshot};

use crate::recall::Known;

/// The node as operators reach it.
pub(crate) struct NodeHub {
    pub(crate) handle: Handle<Message>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) snapshots: FollowerHandle,
    pub(crate) started: Stamp,
    pub(crate) since: Instant,
    /// Places for those who have a transfer explained.
    pub(crate) explaining: Arc<Semaphore>,
}

/// Transfers explained at a time.
pub(crate) const EXPLAINED_MAX: usize = 2;

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
        let (answer, answered) = oneshot::channel();
        let view = move |state: &State| {
            // Whoever asked may have gone.
            let _told = answer.send(state.view(&id));
        };
        self.handle.ask_about(id, view).map_err(unavailable)?;
        let Some(view) = answered.await.map_err(|_| Unavailable::Stopped)? else { return Ok(None) };
        let reader = self.handle.reader();
        // Off the thread: the disk may take its time.
        let reading = tokio::task::spawn_blocking(move || reader.read(view.prepare));
        let record = reading.await.ok().and_then(Result::ok).ok_or(Unavailable::Stopped)?;
        Ok(record.and_then(stored_message).map(|message| message.body))
    }

    async fn explanation(&self, id: TransferId) -> Result<Option<Bytes>, Unavailable> {
        let place = Arc::clone(&self.explaining);
        let place = place.try_acquire_owned().map_err(|_| Unavailable::Busy)?;
        let known = self.ask(move |state| Known::of(state, &id)).await?;
        let Some(known) = known else { return Ok(None) };
        let reader = self.handle.reader();
        let telling = tokio::task::spawn_blocking(move || {
            let told = known.tell(&*reader).ok()?;
            drop(place);
            serde_json::to_vec(&told).ok()
        });
        let told = telling.await.ok().flatten().ok_or(Unavailable::Stopped)?;
        Ok(Some(told.into()))
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
            transfers_hot: status.hot,
            store_position: status.stored.0,
            store_reads: status.cold.reads,
            store_found: status.cold.found,
            store_waits: status.cold.waits,
            store_bytes: self.handle.store_bytes(),
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

    fn snapshots(&self) -> Snapshots {
        let status = self.snapshots.status();
        let file = |file: snapshots::SnapshotFile| (file.position.0, file.name);
        Snapshots {
            files: status.files.into_iter().map(file).collect(),
            busy: status.busy,
            taken: status.taken,
            failed: status.failed,
            last_bytes: status.last_bytes,
            last_millis: status.last_millis,
            error: status.error,
        }
    }

    fn take_snapshot(&self) {
        self.snapshots.request();
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
        let shown = |stuck: &Stuck| StuckStage {
            name: stuck.stage.clone(),
            idle: stuck.idle,
            detail: stuck.detail.clone(),
        };
        Health {
            version: env!("CARGO_PKG_VERSION"),
            started: self.started,
            uptime: self.since.elapsed(),
            datastore: service,
            broker: service,
            stuck: self.handle.stuck().iter().map(shown).collect(),
        }
    }
}

fn unavailable(refused: Refused) -> Unavailable {
    match refused {
        Refused::Full | Refused::DiskFull => Unavailable::InboxFull,
        Refused::Stopped => Unavailable::Stopped,
    }
}
