//! Events as CloudEvents 1.0 in JSON. `docs/events.md` describes the schema.

use std::fmt::{self, Debug, Display, Formatter};

use ledger::{FspName, Outcome, Stamp, TransferId};
use serde::{Serialize, Serializer};

use crate::event::{
    AdminRequestEvent, ChangeEvent, DeliveryEvent, Event, EventData, FundsEvent, NoticeEvent,
    PositionEvent, QuoteEvent, TransferEvent,
};
use crate::names::{message_of, of_result, of_state};

/// The version of the schema of all data.
pub(crate) const SCHEMA: &str = "urn:upesi:events:1";

/// Whether personal data is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PersonalData {
    /// Left out.
    #[default]
    Omitted,
    /// Written.
    Included,
}

/// Writes events of one log.
#[derive(Clone, Debug)]
pub struct EventWriter {
    source: String,
    personal: PersonalData,
}

impl EventWriter {
    /// A writer of events of the log with this identity.
    #[must_use]
    pub fn new(hub: &FspName, identity: [u8; 16], personal: PersonalData) -> Self {
        let identity: String = identity.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { source: format!("/hubs/{hub}/logs/{identity}"), personal }
    }

    /// The source of events of this log.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Appends an event as one JSON object.
    pub fn write(&self, event: &Event, to: &mut Vec<u8>) {
        let written = CloudEvent {
            specversion: "1.0",
            id: Shown(&event.position),
            source: &self.source,
            of_type: type_of(&event.data),
            subject: subject_of(&event.data),
            time: Shown(DateTime(event.stamp)),
            datacontenttype: "application/json",
            dataschema: SCHEMA,
            data: self.data(event),
        };
        serde_json::to_writer(to, &written).expect("an event is always writable");
    }

    /// Appends the data of an event alone.
    pub(crate) fn write_data(&self, event: &Event, to: &mut Vec<u8>) {
        serde_json::to_writer(to, &self.data(event)).expect("an event is always writable");
    }

    fn data<'a>(&self, event: &'a Event) -> Data<'a> {
        let record = event.position.record.0;
        let is_personal = self.personal == PersonalData::Included;
        match &event.data {
            EventData::Transfer(it) => Data::Transfer(transfer(record, it)),
            EventData::Funds(it) => Data::Funds(funds(record, it)),
            EventData::Position(it) => Data::Position(position(record, it)),
            EventData::Notice(it) => Data::Notice(notice(record, it)),
            EventData::Delivery(it) => Data::Delivery(delivery(record, it)),
            EventData::Window(it) => Data::Window {
                log_index: record,
                settlement_window_id: it.window.0,
                state: it.state.name(),
            },
            EventData::Settlement(it) => Data::Settlement {
                log_index: record,
                settlement_id: it.settlement.0,
                settlement_model: &it.model,
                state: it.state.name(),
            },
            EventData::Change(it) => Data::Change(change(record, it, is_personal)),
            EventData::AdminRequest(it) => Data::Request(request(record, it, is_personal)),
            EventData::Quote(it) => Data::Quote(quote(record, it)),
        }
    }
}

/// The key of an event: events with the same key keep their order in a topic.
#[must_use]
pub fn key_of(data: &EventData) -> String {
    match data {
        EventData::Transfer(it) => it.transfer.to_string(),
        EventData::Funds(it) => it.participant.to_string(),
        EventData::Position(it) => it.participant.to_string(),
        EventData::Notice(it) => of_transfer_or(it.transfer, it.recipient),
        EventData::Delivery(it) => of_transfer_or(it.transfer, it.recipient),
        EventData::Window(_) | EventData::Settlement(_) => "settlement".to_owned(),
        EventData::Change(_) | EventData::AdminRequest(_) => "admin".to_owned(),
        EventData::Quote(it) => it.quote.to_string(),
    }
}

fn of_transfer_or(transfer: Option<TransferId>, recipient: FspName) -> String {
    transfer.map_or_else(|| recipient.to_string(), |transfer| transfer.to_string())
}

#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: Shown<&'a crate::Position>,
    source: &'a str,
    #[serde(rename = "type")]
    of_type: String,
    subject: String,
    time: Shown<DateTime>,
    datacontenttype: &'static str,
    dataschema: &'static str,
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Data<'a> {
    Transfer(TransferJson<'a>),
    Funds(FundsJson<'a>),
    Position(PositionJson<'a>),
    Notice(NoticeJson<'a>),
    Delivery(DeliveryJson<'a>),
    Window {
        log_index: u64,
        settlement_window_id: u32,
        state: &'static str,
    },
    Settlement {
        log_index: u64,
        settlement_id: u32,
        settlement_model: &'a str,
        state: &'static str,
    },
    Change(ChangeJson<'a>),
    Request(RequestJson<'a>),
    Quote(QuoteJson<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TransferJson<'a> {
    log_index: u64,
    transfer_id: Shown<&'a TransferId>,
    transfer_state: &'static str,
    outcome: Named,
    payer_fsp: Shown<&'a FspName>,
    payee_fsp: Shown<&'a FspName>,
    amount: Shown<ledger::Amount>,
    currency: Shown<ledger::Currency>,
    prepare_log_index: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FundsJson<'a> {
    log_index: u64,
    transfer_id: Shown<&'a TransferId>,
    transfer_state: &'static str,
    participant: Shown<&'a FspName>,
    direction: &'static str,
    amount: Shown<ledger::Amount>,
    currency: Shown<ledger::Currency>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PositionJson<'a> {
    log_index: u64,
    participant: Shown<&'a FspName>,
    account_id: u32,
    account_type: &'static str,
    currency: Shown<ledger::Currency>,
    before: Shown<ledger::Amount>,
    after: Shown<ledger::Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer_id: Option<Shown<TransferId>>,
    outcome: Named,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NoticeJson<'a> {
    log_index: u64,
    notice_id: u64,
    recipient: Shown<&'a FspName>,
    request: &'static str,
    outcome: Named,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer_id: Option<Shown<TransferId>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryJson<'a> {
    log_index: u64,
    notice_id: u64,
    recipient: Shown<&'a FspName>,
    request: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer_id: Option<Shown<TransferId>>,
    attempts: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChangeJson<'a> {
    log_index: u64,
    change: &'static str,
    outcome: Named,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestJson<'a> {
    log_index: u64,
    method: &'a str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<u16>,
    requests: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QuoteJson<'a> {
    log_index: u64,
    quote_id: Shown<&'a TransferId>,
    transaction_id: Shown<&'a TransferId>,
    payer_fsp: Shown<&'a FspName>,
    payee_fsp: Shown<&'a FspName>,
    request_log_index: u64,
}

fn transfer(log_index: u64, it: &TransferEvent) -> TransferJson<'_> {
    TransferJson {
        log_index,
        transfer_id: Shown(&it.transfer),
        transfer_state: it.step.state(),
        outcome: Named(it.outcome),
        payer_fsp: Shown(&it.payer),
        payee_fsp: Shown(&it.payee),
        amount: Shown(it.amount),
        currency: Shown(it.currency),
        prepare_log_index: it.prepare.0,
    }
}

fn funds(log_index: u64, it: &FundsEvent) -> FundsJson<'_> {
    FundsJson {
        log_index,
        transfer_id: Shown(&it.transfer),
        transfer_state: of_state(it.state).1,
        participant: Shown(&it.participant),
        direction: it.direction,
        amount: Shown(it.amount),
        currency: Shown(it.currency),
    }
}

fn position(log_index: u64, it: &PositionEvent) -> PositionJson<'_> {
    PositionJson {
        log_index,
        participant: Shown(&it.participant),
        account_id: it.account.0,
        account_type: it.account_kind.name().unwrap_or_default(),
        currency: Shown(it.currency),
        before: Shown(it.before),
        after: Shown(it.after),
        transfer_id: it.transfer.map(Shown),
        outcome: Named(it.outcome),
    }
}

fn notice(log_index: u64, it: &NoticeEvent) -> NoticeJson<'_> {
    NoticeJson {
        log_index,
        notice_id: it.notice.0,
        recipient: Shown(&it.recipient),
        request: message_of(it.message),
        outcome: Named(it.outcome),
        transfer_id: it.transfer.map(Shown),
    }
}

fn delivery(log_index: u64, it: &DeliveryEvent) -> DeliveryJson<'_> {
    DeliveryJson {
        log_index,
        notice_id: it.notice.0,
        recipient: Shown(&it.recipient),
        request: message_of(it.message),
        transfer_id: it.transfer.map(Shown),
        attempts: it.attempts,
        status: (it.status != 0).then_some(it.status),
    }
}

fn change(log_index: u64, it: &ChangeEvent, is_personal: bool) -> ChangeJson<'_> {
    ChangeJson {
        log_index,
        change: it.change,
        outcome: Named(it.outcome),
        actor: is_personal.then_some(&it.actor),
        reason: is_personal.then_some(&it.reason),
    }
}

fn request(log_index: u64, it: &AdminRequestEvent, is_personal: bool) -> RequestJson<'_> {
    RequestJson {
        log_index,
        method: &it.method,
        status: it.status,
        error_code: (it.code != 0).then_some(it.code),
        requests: it.requests,
        actor: is_personal.then_some(&it.actor),
        path: is_personal.then_some(&it.path),
    }
}

fn quote(log_index: u64, it: &QuoteEvent) -> QuoteJson<'_> {
    QuoteJson {
        log_index,
        quote_id: Shown(&it.quote),
        transaction_id: Shown(&it.transaction),
        payer_fsp: Shown(&it.payer),
        payee_fsp: Shown(&it.payee),
        request_log_index: it.request.0,
    }
}

fn type_of(data: &EventData) -> String {
    let state = |name: &str| name.to_ascii_lowercase().replace('_', "-");
    match data {
        EventData::Transfer(it) => format!("upesi.transfer.{}", it.step.name()),
        EventData::Funds(it) => format!("upesi.funds.{}", of_state(it.state).0),
        EventData::Position(_) => "upesi.position.changed".to_owned(),
        EventData::Notice(it) if it.is_resent => "upesi.notification.resent".to_owned(),
        EventData::Notice(_) => "upesi.notification.owed".to_owned(),
        EventData::Delivery(it) => format!("upesi.notification.{}", of_result(it.result)),
        EventData::Window(it) => format!("upesi.window.{}", state(it.state.name())),
        EventData::Settlement(it) => format!("upesi.settlement.{}", state(it.state.name())),
        EventData::Change(it) if it.outcome == Outcome::Accepted => {
            "upesi.admin.changed".to_owned()
        }
        EventData::Change(_) => "upesi.admin.refused".to_owned(),
        EventData::AdminRequest(_) => "upesi.admin.requested".to_owned(),
        EventData::Quote(it) => format!("upesi.quote.{}", it.step.name()),
    }
}

fn subject_of(data: &EventData) -> String {
    match data {
        EventData::Funds(it) => it.transfer.to_string(),
        EventData::Window(it) => it.window.0.to_string(),
        EventData::Settlement(it) => it.settlement.0.to_string(),
        EventData::Change(it) => it.change.to_owned(),
        EventData::AdminRequest(it) => it.method.clone(),
        EventData::Transfer(_)
        | EventData::Position(_)
        | EventData::Notice(_)
        | EventData::Delivery(_)
        | EventData::Quote(_) => key_of(data),
    }
}

/// Written as its text.
struct Shown<T>(T);

impl<T: Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Written as its name in the kernel.
struct Named(Outcome);

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:?}", &self.0 as &dyn Debug))
    }
}

/// A time as text.
pub(crate) fn time_of(stamp: Stamp) -> String {
    DateTime(stamp).to_string()
}

/// A time with milliseconds, `2026-01-01T10:00:00.000Z`.
#[derive(Clone, Copy, Debug)]
pub struct DateTime(pub Stamp);

impl Display for DateTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let millis = self.0.millis();
        let mut text = fspiop::time::date_time_whole_seconds(millis);
        for (at, unit) in [(20, 100), (21, 10), (22, 1)] {
            text[at] = b'0' + (millis / unit % 10) as u8;
        }
        f.write_str(str::from_utf8(&text).expect("a date is ASCII"))
    }
}
