//! Reads records of the log, and notices of the state, for redeliveries.

use bytes::Bytes;
use ledger::{LogIndex, Notice, NoticeId};
use node::Handle;
use ports::{OwnedPayload, OwnedRecord};
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

fn decode(payload: &Bytes) -> Option<ForwardedMessage> {
    let payload = fspiop::stored_message::decode(payload).ok()?;
    Some(ForwardedMessage { headers: payload.headers, body: payload.body })
}
