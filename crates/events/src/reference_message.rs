//! Events in the message envelope of the reference, on its topics. `docs/events.md` describes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ledger::{Outcome, TransferState, WindowState};
use serde_json::{Value, json};

use crate::cloud_event::{EventWriter, key_of, time_of};
use crate::event::{
    Event, EventData, EventKind, FundsEvent, PositionEvent, QuoteStep, TransferStep,
};

/// The media type of transfers.
const TRANSFERS: &str = "application/vnd.interoperability.transfers+json;version=1.1";
/// The media type of other content.
const JSON: &str = "application/json";
/// The error of an expired transfer in FSPIOP.
const EXPIRED: u16 = 3303;

/// Finds the FSPIOP error code of an outcome; `None` if it is not an error.
pub type ErrorCodeOf = fn(Outcome) -> Option<u16>;

/// Writes events of one log as messages of the reference.
#[derive(Clone, Debug)]
pub struct ReferenceWriter {
    hub: String,
    identity: [u8; 16],
    content: EventWriter,
    error_code: ErrorCodeOf,
}

/// The routing of a message.
struct Route {
    from: String,
    to: String,
    event_type: &'static str,
    action: String,
    /// The FSPIOP error code of a failure.
    error: Option<u16>,
    media_type: &'static str,
}

impl ReferenceWriter {
    /// A writer of events of the log with this identity. `content` writes the content of events
    /// that are not about a state of a transfer.
    #[must_use]
    pub const fn new(
        hub: String,
        identity: [u8; 16],
        content: EventWriter,
        error_code: ErrorCodeOf,
    ) -> Self {
        Self { hub, identity, content, error_code }
    }

    /// Appends the message of an event.
    pub fn write(&self, event: &Event, to: &mut Vec<u8>) {
        let route = self.route(&event.data);
        let payload = match &event.data {
            EventData::Transfer(it) => {
                transfer_payload(it, route.error, event).to_string().into_bytes()
            }
            _ => {
                let mut payload = Vec::new();
                self.content.write_data(event, &mut payload);
                payload
            }
        };
        let payload = format!("data:{};base64,{}", route.media_type, STANDARD.encode(payload));
        let (id, subject, time) = (self.event_id(event), id_of(&event.data), time_of(event.stamp));
        let headers = json!({
            "content-type": route.media_type,
            "fspiop-source": route.from,
            "fspiop-destination": route.to,
        });
        let state = match route.error {
            None => json!({
                "status": "success", "code": "0", "description": "action successful"
            }),
            Some(code) => json!({
                "status": "error", "code": format!("{code:04}"), "description": "action failed"
            }),
        };
        let message = json!({
            "id": subject,
            "from": route.from,
            "to": route.to,
            "type": route.media_type,
            "content": {"uriParams": {"id": subject}, "headers": headers, "payload": payload},
            "metadata": {
                "correlationId": subject,
                "event": {
                    "id": id,
                    "type": route.event_type,
                    "action": route.action,
                    "createdAt": time,
                    "state": state,
                },
                "trace": self.trace(event, &id, &time),
            },
            "pp": "",
        });
        serde_json::to_writer(to, &message).expect("a message is always writable");
    }

    fn route(&self, data: &EventData) -> Route {
        let hub = || self.hub.clone();
        let route = |from: String, to: String, event_type, action: &str| Route {
            from,
            to,
            event_type,
            action: action.to_owned(),
            error: None,
            media_type: JSON,
        };
        match data {
            EventData::Transfer(it) => {
                let (payer, payee) = (it.payer.to_string(), it.payee.to_string());
                let (from, to, action, error) = match it.step {
                    TransferStep::Reserved => (payer, payee, "prepare", None),
                    TransferStep::Refused => {
                        let code = (self.error_code)(it.outcome).unwrap_or_default();
                        (hub(), payer, "prepare", Some(code))
                    }
                    TransferStep::Committed => (payee, payer, "commit", None),
                    TransferStep::Aborted => (payee, payer, "abort", None),
                    TransferStep::Expired => (hub(), payer, "timeout-reserved", Some(EXPIRED)),
                };
                let route = route(from, to, "notification", action);
                Route { error, media_type: TRANSFERS, ..route }
            }
            EventData::Position(it) => {
                route(hub(), it.participant.to_string(), "position", Self::moved_by(it))
            }
            EventData::Funds(it) => {
                route(hub(), it.participant.to_string(), "transfer", funds_action(it))
            }
            EventData::Notice(it) => route(hub(), it.recipient.to_string(), "audit", "start"),
            EventData::Delivery(it) => route(hub(), it.recipient.to_string(), "audit", "egress"),
            EventData::Window(it) => match it.state {
                WindowState::Closed => route(hub(), hub(), "settlementwindow", "close"),
                state => {
                    route(hub(), hub(), "settlementwindow", &state.name().to_ascii_lowercase())
                }
            },
            EventData::Settlement(it) => {
                route(hub(), hub(), "settlement", &it.state.name().to_ascii_lowercase())
            }
            EventData::Change(_) | EventData::AdminRequest(_) => {
                route(hub(), hub(), "audit", "default")
            }
            EventData::Quote(it) => {
                let (payer, payee) = (it.payer.to_string(), it.payee.to_string());
                match it.step {
                    QuoteStep::Requested => route(payer, payee, "audit", "ingress"),
                    _ => route(payee, payer, "audit", "ingress"),
                }
            }
        }
    }

    /// The action that moved a position.
    fn moved_by(it: &PositionEvent) -> &'static str {
        let end = ledger::ResponseEnd::of(it.outcome);
        let actions = [
            (it.outcome == Outcome::PrepareReserved, "prepare"),
            (it.outcome == Outcome::Expired, "timeout-reserved"),
            (it.outcome == Outcome::Accepted, "settlement"),
            (end.is_some_and(|end| end.commits()), "commit"),
        ];
        actions.iter().find(|(is_it, _)| *is_it).map_or("abort", |(_, action)| action)
    }

    /// A UUID that is the same in every run: version 8, with the position and the log's identity.
    fn event_id(&self, event: &Event) -> String {
        let record = event.position.record.0.to_be_bytes();
        let mut bytes = self.identity;
        bytes[..6].copy_from_slice(&record[2..]);
        bytes[6] = 0x80 | bytes[6] & 0x0f;
        bytes[8] = 0x80 | bytes[8] & 0x3f;
        bytes[10..14].copy_from_slice(&event.position.number.to_be_bytes());
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &hex[range]);
        format!("{a}-{b}-{c}-{d}-{e}")
    }

    /// Events of a transfer have one trace. Each event is a span.
    fn trace(&self, event: &Event, id: &str, time: &str) -> Value {
        let subject = id_of(&event.data).replace('-', "").to_ascii_lowercase();
        let is_trace_id = subject.len() == 32 && subject.bytes().all(|it| it.is_ascii_hexdigit());
        let position = &event.position;
        json!({
            "service": "upesi",
            "traceId": if is_trace_id { subject } else { id.replace('-', "") },
            "spanId": format!("{:010x}{:06x}", position.record.0, position.number),
            "startTimestamp": time,
            "tags": {
                "transactionType": event.data.kind().name(),
                "transactionAction": self.route(&event.data).action,
            },
        })
    }
}

/// The topic of a kind in the reference.
#[must_use]
pub const fn reference_topic(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Transfers => "topic-notification-event",
        EventKind::Positions => "topic-transfer-position",
        EventKind::Funds => "topic-admin-transfer",
        EventKind::Settlement => "topic-deferredsettlement-close",
        EventKind::Notifications | EventKind::Admin | EventKind::Quotes => "topic-event-audit",
    }
}

/// The key of a message: the account of a position, or as in CloudEvents.
#[must_use]
pub fn reference_key(data: &EventData) -> String {
    match data {
        EventData::Position(it) => it.account.0.to_string(),
        data => key_of(data),
    }
}

/// The transfer, window or settlement that a message is about, or its key.
fn id_of(data: &EventData) -> String {
    match data {
        EventData::Funds(it) => it.transfer.to_string(),
        EventData::Position(it) => {
            it.transfer.map_or_else(|| reference_key(data), |transfer| transfer.to_string())
        }
        EventData::Window(it) => it.window.0.to_string(),
        EventData::Settlement(it) => it.settlement.0.to_string(),
        data => key_of(data),
    }
}

/// The message of FSPIOP, without members that may be personal.
fn transfer_payload(it: &crate::TransferEvent, error: Option<u16>, event: &Event) -> Value {
    if let Some(code) = error {
        let description = format!("{:?}", it.outcome);
        return json!({
            "errorInformation": {
                "errorCode": format!("{code:04}"), "errorDescription": description
            }
        });
    }
    match it.step {
        TransferStep::Reserved => json!({
            "transferId": it.transfer.to_string(),
            "payerFsp": it.payer.to_string(),
            "payeeFsp": it.payee.to_string(),
            "amount": {"amount": it.amount.to_string(), "currency": it.currency.to_string()},
        }),
        step => json!({
            "transferState": step.state(),
            "completedTimestamp": time_of(event.stamp),
        }),
    }
}

/// The reference's action of a movement of funds.
const fn funds_action(it: &FundsEvent) -> &'static str {
    match (it.direction.as_bytes(), it.state) {
        (b"OUT", TransferState::Reserved) => "recordFundsOutPrepareReserve",
        (b"OUT", TransferState::Committed) => "recordFundsOutCommit",
        (b"OUT", TransferState::Aborted) => "recordFundsOutAbort",
        (b"IN", _) => "recordFundsIn",
        _ => "adjustBalance",
    }
}

#[cfg(test)]
mod tests {
    use ledger::{Amount, Currency, FspName, LogIndex, Stamp, TransferId};

    use super::*;
    use crate::{PersonalData, Position, TransferEvent};

    fn event(step: TransferStep, outcome: Outcome) -> Event {
        let name = |text| FspName::new(text).expect("a name");
        Event {
            position: Position { record: LogIndex(24), number: 1 },
            stamp: Stamp::from_millis(1_772_359_200_123),
            data: EventData::Transfer(TransferEvent {
                transfer: TransferId::parse("b51ec534-ee48-4575-b6a9-000000000001").expect("an id"),
                step,
                outcome,
                payer: name("payerfsp"),
                payee: name("payeefsp"),
                amount: Amount::from_units(100 * 10_000),
                currency: Currency::parse("KES").expect("a currency"),
                prepare: LogIndex(21),
            }),
        }
    }

    fn message(event: &Event) -> Value {
        let hub = FspName::new("Hub").expect("a name");
        let content = EventWriter::new(&hub, [7; 16], PersonalData::Omitted);
        let writer = ReferenceWriter::new("Hub".into(), [7; 16], content, |_| Some(4001));
        let mut json = Vec::new();
        writer.write(event, &mut json);
        serde_json::from_slice(&json).expect("JSON")
    }

    fn payload(message: &Value) -> Value {
        let uri = message["content"]["payload"].as_str().expect("text");
        let (_, encoded) = uri.split_once(";base64,").expect("a data URI");
        serde_json::from_slice(&STANDARD.decode(encoded).expect("base64")).expect("JSON")
    }

    #[test]
    fn transfers_are_notifications() {
        for (step, outcome, expected) in [
            (TransferStep::Reserved, Outcome::PrepareReserved, "payerfsp payeefsp prepare success"),
            (TransferStep::Refused, Outcome::PrepareCapExceeded, "Hub payerfsp prepare error 4001"),
            (TransferStep::Expired, Outcome::Expired, "Hub payerfsp timeout-reserved error 3303"),
        ] {
            let message = message(&event(step, outcome));
            let event = &message["metadata"]["event"];
            let text = |value: &Value| value.as_str().expect("text").to_owned();
            let [from, to, action, status, code] = [
                &message["from"],
                &message["to"],
                &event["action"],
                &event["state"]["status"],
                &event["state"]["code"],
            ]
            .map(text);
            let found = format!("{from} {to} {action} {status} {code}").replace(" 0", "");
            assert_eq!(found, expected);
            assert_eq!(event["type"], "notification");
            assert_eq!(event["id"], "00000000-0018-8707-8707-000000010707");
        }
    }

    #[test]
    fn payload_is_the_message_without_personal_data() {
        let reserved = message(&event(TransferStep::Reserved, Outcome::PrepareReserved));
        let expected = json!({
            "transferId": "b51ec534-ee48-4575-b6a9-000000000001",
            "payerFsp": "payerfsp",
            "payeeFsp": "payeefsp",
            "amount": {"amount": "100", "currency": "KES"},
        });
        assert_eq!(payload(&reserved), expected);
        let trace = &reserved["metadata"]["trace"];
        assert_eq!(trace["traceId"], "b51ec534ee484575b6a9000000000001");
        assert_eq!(trace["spanId"], "0000000018000001");
        let refused = message(&event(TransferStep::Refused, Outcome::PrepareCapExceeded));
        let error = &payload(&refused)["errorInformation"];
        assert_eq!(error["errorDescription"], "PrepareCapExceeded");
    }
}
