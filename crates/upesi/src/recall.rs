//! A transfer explained by the running switch: what its state says of it, and the records that the
//! state names, read by their positions.
//!
//! Two steps: a question to the sequencer's thread, which looks up one transfer and, while there
//! are few, the notices owed; then at most two records are read from the log on a thread for
//! blocking work. What was true around a decision (balances, cover, cap) and messages that the
//! state does not name (resends, refused changes, ends of deliveries) would take the log from its
//! beginning: that is `upesi explain`.
//!
//! Bounds: [`NOTICES_MAX`] notices looked at on the sequencer's thread; two records read.

use ledger::{
    Command, NoticeId, NoticeKind, Outcome, Position, Stamp, State, TransferId, TransferState,
    TransferView,
};
use ports::{LogError, OwnedPayload, OwnedRecord, RecordReader};
use record::frame::{Payload, Record};
use serde::Serialize;

use crate::audit::is_end;
use crate::explain::{message_of, words_of};
use crate::explanation::{Message, Verdict, request_of, state_name};
use crate::offline::moment;

/// Notices owed beyond which those about one transfer are not looked for.
const NOTICES_MAX: usize = 20_000;

/// What the state says of a transfer.
#[derive(Debug)]
pub(crate) struct Known {
    id: TransferId,
    view: TransferView,
    /// None when too many are owed to look through them.
    pending: Option<Vec<(NoticeId, String, NoticeKind, Stamp)>>,
    position: Position,
    stamp: Stamp,
}

impl Known {
    /// Looks a transfer up; short, for it runs beside the decisions.
    pub(crate) fn of(state: &State, id: &TransferId) -> Option<Self> {
        let view = state.view(id)?;
        let few = state.notices_owed_count() <= NOTICES_MAX;
        let pending = few.then(|| {
            let about = state.notices_owed().filter(|notice| notice.transfer == *id);
            let mut pending: Vec<_> = about
                .map(|one| {
                    let recipient = state.register().get(one.recipient).name;
                    (one.id, recipient.as_str().to_owned(), one.kind, one.at)
                })
                .collect();
            pending.sort_unstable_by_key(|one| one.0);
            pending
        });
        let (position, stamp) = (state.position(), state.stamp());
        Some(Self { id: *id, view, pending, position, stamp })
    }

    /// Reads the records that the state names, and tells all of it.
    ///
    /// # Errors
    /// As [`RecordReader::read`].
    pub(crate) fn tell(self, reader: &dyn RecordReader) -> Result<Recollection, LogError> {
        let Self { id, view, pending, position, stamp } = self;
        let cause = view.cause.map(|cause| cause.outcome);
        let end = match view.state {
            TransferState::Reserved => None,
            TransferState::Committed => Some(Outcome::Committed),
            TransferState::Aborted => cause,
        };
        let ends_it = |outcome: &Outcome| is_end(*outcome) || *outcome == Outcome::Expired;
        let of_prepare = end.filter(|end| !ends_it(end)).unwrap_or(Outcome::PrepareReserved);
        let mut events = Vec::new();
        events.extend(event(reader, view.prepare, of_prepare)?);
        if let Some((answer, end)) = view.answer.zip(end) {
            events.extend(event(reader, answer, end)?);
        }
        let pending = pending.map(|pending| pending.into_iter().map(Pending::of).collect());
        Ok(Recollection {
            transfer: id.to_string(),
            state: state_name(view.state),
            changed: moment(view.changed),
            expired: end == Some(Outcome::Expired),
            events,
            notices_pending: pending,
            log_position: position.0,
            time: moment(stamp),
        })
    }
}

/// What the switch remembers of a transfer.
#[derive(Debug, Serialize)]
pub(crate) struct Recollection {
    transfer: String,
    state: &'static str,
    /// When it last changed.
    changed: String,
    /// Whether its deadline ended it; then `changed` says when.
    expired: bool,
    events: Vec<Event>,
    notices_pending: Option<Vec<Pending>>,
    /// The log's last record when this was asked.
    log_position: u64,
    time: String,
}

/// A record that is about it.
#[derive(Debug, Serialize)]
struct Event {
    position: u64,
    time: String,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum What {
    Message { message: Box<Message>, decision: Verdict },
    Operator { actor: String, reason: String, change: String },
}

#[derive(Debug, Serialize)]
struct Pending {
    notice: u64,
    recipient: String,
    request: &'static str,
    since: String,
}

impl Pending {
    fn of((notice, recipient, kind, at): (NoticeId, String, NoticeKind, Stamp)) -> Self {
        Self { notice: notice.0, recipient, request: request_of(kind), since: moment(at) }
    }
}

/// A record as an event; none when it is not durable yet.
fn event(
    reader: &dyn RecordReader,
    position: Position,
    outcome: Outcome,
) -> Result<Option<Event>, LogError> {
    let Some(owned) = reader.read(position)? else { return Ok(None) };
    let record = view_of(&owned);
    let read = record::command::read_fields(record.kind, record.version, record.fields);
    let command = read.map_err(|error| LogError::Damaged {
        place: format!("record {}", position.0),
        reason: error.to_string(),
    })?;
    let what = match &command {
        Command::Administer(administer) => What::Operator {
            actor: administer.actor.clone(),
            reason: administer.reason.clone(),
            change: words_of(&administer.change),
        },
        _ => What::Message {
            message: Box::new(message_of(&record, &command, owned.stamp)),
            decision: Verdict::of(outcome),
        },
    };
    Ok(Some(Event { position: position.0, time: moment(owned.stamp), what }))
}

fn view_of(owned: &OwnedRecord) -> Record<'_> {
    let (payload, payload_length) = match &owned.payload {
        OwnedPayload::None => (Payload::None, 0),
        OwnedPayload::Erased => (Payload::Erased, 0),
        OwnedPayload::Stored(bytes) => (Payload::Stored(bytes), bytes.len() as u32),
    };
    Record {
        position: owned.position,
        kind: owned.kind,
        version: owned.version,
        fields: &owned.fields,
        payload_digest: owned.payload_digest,
        payload_length,
        payload,
    }
}
