//! One DFSP of the process: its settings, peers, keys and the transfers in progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fspiop::ilp::Secret;
use jws::KeyDirectory;
use serde_json::Value;
use tokio::sync::{Semaphore, oneshot};

use crate::backend::Backend;
use crate::forms::Object;
use crate::hub::HubClient;
use crate::ids::{IdForm, now_ms};
use crate::inbound::{InboundEvent, InboundTransfer, QuoteRecord};
use crate::outbound::{BackendReply, Event};
use crate::policy::Policy;
use crate::store::{Durability, Row, RowKind, Store, StoreError};
use crate::waits::Waits;

/// An input of an outgoing transfer.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Event(Event),
    /// `PUT /transfers/{ID}` of the back end.
    Resume(Object, Waiter),
    /// Another request, by its hash, waits for the same answer.
    Join(String, Waiter),
    /// The back end asks for the outcome.
    Inquire(Waiter),
}

/// The sender of the answer to one request of the back end. A clone can be used once.
pub(crate) type Waiter = Arc<std::sync::Mutex<Option<oneshot::Sender<BackendReply>>>>;

/// Counts of one DFSP.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) outbound_completed: AtomicU64,
    pub(crate) outbound_failed: AtomicU64,
    pub(crate) outbound_aborted: AtomicU64,
    pub(crate) outbound_timeouts: AtomicU64,
    pub(crate) inbound_completed: AtomicU64,
    pub(crate) inbound_aborted: AtomicU64,
    pub(crate) hub_requests: AtomicU64,
    pub(crate) hub_unanswered: AtomicU64,
    pub(crate) callbacks: AtomicU64,
    pub(crate) backend_errors: AtomicU64,
    pub(crate) signatures_refused: AtomicU64,
    pub(crate) store_errors: AtomicU64,
}

/// Adds one to a count.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// One DFSP.
pub(crate) struct Dfsp {
    pub(crate) policy: Policy,
    pub(crate) hub_name: String,
    pub(crate) id_form: IdForm,
    pub(crate) secret: Secret,
    pub(crate) hub: HubClient,
    pub(crate) backend: Backend,
    pub(crate) keys: Option<KeyDirectory>,
    pub(crate) verifies_put_parties: bool,
    pub(crate) store: Arc<Store>,
    pub(crate) outbound: Arc<Waits<Input>>,
    pub(crate) inbound: Arc<Waits<InboundEvent>>,
    pub(crate) outbound_places: Arc<Semaphore>,
    pub(crate) inbound_places: Arc<Semaphore>,
    pub(crate) counts: Counts,
}

impl Dfsp {
    /// The key of one of its rows.
    pub(crate) fn key(&self, kind: RowKind, id: &str) -> String {
        kind.key(&self.policy.fsp_id, id)
    }

    /// A row of it.
    pub(crate) fn row(&self, kind: RowKind, id: &str, value: Vec<u8>, is_open: bool) -> Row {
        Row { key: self.key(kind, id), value, is_open, now_ms: now_ms() }
    }

    /// Writes rows; an error is counted and logged.
    pub(crate) async fn save(&self, rows: Vec<Row>, until: Durability) -> Result<(), StoreError> {
        let result = self.store.save(rows, until).await;
        if let Err(error) = &result {
            count(&self.counts.store_errors);
            tracing::error!(dfsp = %self.policy.fsp_id, "{error}");
        }
        result
    }

    /// Reads a stored value.
    pub(crate) fn load<T: serde::de::DeserializeOwned>(
        &self,
        kind: RowKind,
        id: &str,
    ) -> Option<T> {
        match self.store.get(&self.key(kind, id)) {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).ok(),
            Ok(None) => None,
            Err(error) => {
                count(&self.counts.store_errors);
                tracing::error!(dfsp = %self.policy.fsp_id, "{error}");
                None
            }
        }
    }
}

impl Dfsp {
    /// Whether a row is stored; an error is logged, and the row taken as absent.
    pub(crate) fn contains(&self, kind: RowKind, id: &str) -> bool {
        self.store.contains(&self.key(kind, id)).unwrap_or_else(|error| {
            count(&self.counts.store_errors);
            tracing::error!(dfsp = %self.policy.fsp_id, "{error}");
            false
        })
    }

    /// Reads an incoming transfer with its quote.
    pub(crate) fn load_inbound(&self, id: &str) -> Option<InboundTransfer> {
        let mut transfer = self.load(RowKind::Inbound, id)?;
        self.attach_quote(&mut transfer);
        Some(transfer)
    }

    /// Adds the quote, which has a row of its own, to a transfer that was read.
    pub(crate) fn attach_quote(&self, transfer: &mut InboundTransfer) {
        if let Some(quote) = self.load::<QuoteRecord>(RowKind::Quote, transfer.transfer_id()) {
            transfer.put_quote(quote.shown());
        }
    }
}

/// A waiter and the receiver of its answer.
pub(crate) fn waiter() -> (Waiter, oneshot::Receiver<BackendReply>) {
    let (sender, receiver) = oneshot::channel();
    (Arc::new(std::sync::Mutex::new(Some(sender))), receiver)
}

/// Gives a waiter its answer, if it has none yet.
pub(crate) fn give(waiter: &Waiter, answer: BackendReply) {
    let sender = waiter.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    if let Some(sender) = sender {
        // A back end that closed its connection gets none.
        let _taken = sender.send(answer);
    }
}

/// The answer of a process that is full or cannot write.
pub(crate) fn unavailable(what: &str) -> BackendReply {
    let body = serde_json::json!({ "message": what, "statusCode": "2003" });
    BackendReply { status: 503, body }
}

/// An error without a transfer.
pub(crate) fn plain_error(status: u16, code: &str, message: &str) -> BackendReply {
    let body: Value = serde_json::json!({ "message": message, "statusCode": code });
    BackendReply { status, body }
}
