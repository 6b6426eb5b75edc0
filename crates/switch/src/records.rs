//! Reads records of the log, and notices of the state, for redeliveries.

use bytes::Bytes;
use fspiop::bulk;
use http::HeaderMap;
use ledger::{
    BulkView, Command, LogIndex, Notice, NoticeId, PartyBinding, TransferId, TransferView,
};
use node::Handle;
use ports::{OwnedPayload, OwnedRecord};
use record::party_names::PartyNames;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::message::ForwardedMessage;

/// The records of the node.
#[derive(Clone)]
pub(crate) struct Records(Handle<ForwardedMessage>);

impl Records {
    pub(crate) fn new(handle: Handle<ForwardedMessage>) -> Self {
        Self(handle)
    }

    /// Reads a record on the blocking pool.
    pub(crate) async fn load(&self, log_index: LogIndex) -> Option<OwnedRecord> {
        let reader = self.0.reader();
        let reading = tokio::task::spawn_blocking(move || reader.read(log_index));
        reading.await.ok()?.ok()?
    }

    /// The message in a record.
    pub(crate) async fn load_message(&self, log_index: LogIndex) -> Option<ForwardedMessage> {
        stored_message(self.load(log_index).await?)
    }

    /// Transfers, each with its row from the store if it was evicted. A few are read at a time, so
    /// that the sequencer is not blocked by many reads.
    pub(crate) async fn load_views(
        &self,
        transfers: &[TransferId],
    ) -> Option<Vec<Option<TransferView>>> {
        let mut views = Vec::with_capacity(transfers.len());
        for some in transfers.chunks(VIEWS_AT_ONCE) {
            let (answer, answered) = oneshot::channel();
            let ids = some.to_vec();
            let asked = self.0.ask_local_about(some.to_vec(), move |state| {
                // The attempt may have ended.
                let _sent = answer.send(ids.iter().map(|id| state.view(id)).collect::<Vec<_>>());
            });
            asked.ok()?;
            views.extend(answered.await.ok()?);
        }
        Some(views)
    }

    /// A bulk transfer, at any age.
    pub(crate) async fn load_bulk(&self, bulk: TransferId) -> Option<BulkView> {
        let (answer, answered) = oneshot::channel();
        let asked = self.0.ask_local_about(vec![bulk], move |state| {
            // The attempt may have ended.
            let _sent = answer.send(state.bulk_view(&bulk));
        });
        asked.ok()?;
        answered.await.ok()?
    }

    /// A notice whose message was evicted from memory because too many were waiting.
    pub(crate) async fn load_notice(&self, id: NoticeId) -> Result<Notice, Failure> {
        let (answer, answered) = oneshot::channel();
        let asked = self.0.ask_local(move |state| {
            // The attempt may have ended.
            let _sent = answer.send(state.notice(id).copied());
        });
        asked.map_err(|_| Failure::Unsent)?;
        // A notice that another node has delivered must not be waited for.
        answered.await.map_err(|_| Failure::Unsent)?.ok_or(Failure::Broken)
    }
}

/// Number of transfers that one query reads.
const VIEWS_AT_ONCE: usize = 256;

/// The message of a record about one transfer; `None` if it has none or it was erased. An item of a
/// bulk transfer has the message that it would be alone.
pub(crate) fn message_about(
    record: OwnedRecord,
    transfer: Option<TransferId>,
) -> Option<ForwardedMessage> {
    let kind = record.kind;
    let ForwardedMessage { headers, body } = stored_message(record)?;
    let Some(id) = transfer.filter(|id| !id.is_bulk()) else {
        return Some(ForwardedMessage { headers, body });
    };
    let body = match kind {
        Command::PREPARE_BULK => bulk::transfer_of_item(&body, &id)?,
        Command::FULFIL_BULK => bulk::response_of_item(&body, &id)?,
        // An error of a whole bulk is that of each item.
        _ => body,
    };
    Some(ForwardedMessage { headers, body })
}

/// The message in a record's payload; `None` if it has none.
#[must_use]
pub fn message_of_payload(payload: &[u8]) -> Option<ForwardedMessage> {
    decode(&Bytes::copy_from_slice(payload))
}

/// The stored message of a record; `None` if it never had one or it was erased.
#[must_use]
pub fn stored_message(record: OwnedRecord) -> Option<ForwardedMessage> {
    let OwnedPayload::Stored(bytes) = record.payload else { return None };
    decode(&Bytes::from(bytes))
}

/// Replaces hashes in the entries of a change by the identifiers in the contents of its record.
/// Hashes whose identifiers were erased stay.
pub fn reveal_parties(parties: &mut [PartyBinding], payload: &[u8]) {
    if parties.is_empty() {
        return;
    }
    let names = fspiop::stored_message::parties(payload).ok();
    if let Some(names) = names.and_then(|names| PartyNames::read(names).ok()) {
        names.reveal(parties);
    }
}

/// The contents of a record of these parties, without a message.
#[must_use]
pub fn contents_of_parties(names: &PartyNames) -> Vec<u8> {
    let mut payload = Vec::new();
    let names = names.to_bytes();
    fspiop::stored_message::encode_with_parties(&HeaderMap::new(), &[], &names, &mut payload);
    payload
}

fn decode(payload: &Bytes) -> Option<ForwardedMessage> {
    let payload = fspiop::stored_message::decode(payload).ok()?;
    Some(ForwardedMessage { headers: payload.headers, body: payload.body })
}
