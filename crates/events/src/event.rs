//! Events and their kinds.

use ledger::{
    AccountId, AccountKind, Amount, Currency, DeliveryResult, FspName, LogIndex, NoticeId,
    NoticeKind, Outcome, SettlementId, SettlementState, Stamp, TransferId, TransferState, WindowId,
    WindowState,
};

use crate::position::Position;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place, which is its id.
    pub position: Position,
    /// The time of its record.
    pub stamp: Stamp,
    /// The content.
    pub data: EventData,
}

/// Groups of events that a consumer can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// Each change of a transfer's state.
    Transfers,
    /// Movements of funds between a participant and the hub.
    Funds,
    /// Each change of a participant's balance.
    Positions,
    /// Notices owed to participants, and the results of their deliveries.
    Notifications,
    /// Windows and settlements.
    Settlement,
    /// Requests of operators.
    Admin,
    /// Each step of a recorded quote.
    Quotes,
}

impl EventKind {
    /// The kinds that are chosen unless a consumer names others: quotes are only counted then.
    pub const DEFAULT: [Self; 6] = [
        Self::Transfers,
        Self::Funds,
        Self::Positions,
        Self::Notifications,
        Self::Settlement,
        Self::Admin,
    ];

    /// All kinds, each with its name.
    pub const NAMED: [(&'static str, Self); 7] = [
        ("transfers", Self::Transfers),
        ("funds", Self::Funds),
        ("positions", Self::Positions),
        ("notifications", Self::Notifications),
        ("settlement", Self::Settlement),
        ("admin", Self::Admin),
        ("quotes", Self::Quotes),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Reads a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind)
    }
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventData {
    /// The state of a transfer has changed.
    Transfer(TransferEvent),
    /// The state of a movement of funds has changed.
    Funds(FundsEvent),
    /// A balance has changed.
    Position(PositionEvent),
    /// The hub owes a participant a notice.
    Notice(NoticeEvent),
    /// The delivery of a notice has ended.
    Delivery(DeliveryEvent),
    /// The state of a settlement window has changed.
    Window(WindowEvent),
    /// The state of a settlement has changed.
    Settlement(SettlementEvent),
    /// An operator has requested a change.
    Change(ChangeEvent),
    /// A request of an operator made no change.
    AdminRequest(AdminRequestEvent),
    /// A quote was recorded, or its first answer.
    Quote(QuoteEvent),
}

impl EventData {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::Transfer(_) => EventKind::Transfers,
            Self::Funds(_) => EventKind::Funds,
            Self::Position(_) => EventKind::Positions,
            Self::Notice(_) | Self::Delivery(_) => EventKind::Notifications,
            Self::Window(_) | Self::Settlement(_) => EventKind::Settlement,
            Self::Change(_) | Self::AdminRequest(_) => EventKind::Admin,
            Self::Quote(_) => EventKind::Quotes,
        }
    }
}

/// A step in the life of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferStep {
    /// The payer's position has risen.
    Reserved,
    /// The prepare was refused.
    Refused,
    /// The payee's position has fallen.
    Committed,
    /// The payee aborted it, or its response was wrong.
    Aborted,
    /// Its deadline has passed.
    Expired,
}

/// A change of a transfer's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferEvent {
    /// The transfer.
    pub transfer: TransferId,
    /// The step.
    pub step: TransferStep,
    /// The decision.
    pub outcome: Outcome,
    /// The payer, as the prepare names it.
    pub payer: FspName,
    /// The payee, as the prepare names it.
    pub payee: FspName,
    /// The amount.
    pub amount: Amount,
    /// Its currency.
    pub currency: Currency,
    /// The record of the prepare.
    pub prepare: LogIndex,
}

/// A change of the state of a movement of funds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FundsEvent {
    /// The movement.
    pub transfer: TransferId,
    /// The participant.
    pub participant: FspName,
    /// The state after the change.
    pub state: TransferState,
    /// `IN`, `OUT` or `ADJUSTMENT`.
    pub direction: &'static str,
    /// The amount.
    pub amount: Amount,
    /// Its currency.
    pub currency: Currency,
}

/// A change of a balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionEvent {
    /// The owner.
    pub participant: FspName,
    /// The account.
    pub account: AccountId,
    /// Its purpose.
    pub account_kind: AccountKind,
    /// Its currency.
    pub currency: Currency,
    /// The balance before.
    pub before: Amount,
    /// The balance after.
    pub after: Amount,
    /// The transfer or movement of funds that moved it; `None` for a settlement.
    pub transfer: Option<TransferId>,
    /// The decision.
    pub outcome: Outcome,
}

/// A notice that the hub owes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeEvent {
    /// The notice.
    pub notice: NoticeId,
    /// The recipient.
    pub recipient: FspName,
    /// The message.
    pub message: NoticeKind,
    /// The outcome that it reports.
    pub outcome: Outcome,
    /// The transfer that it is about.
    pub transfer: Option<TransferId>,
    /// Whether it was a dead letter that an operator resends.
    pub is_resent: bool,
}

/// The end of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryEvent {
    /// The notice.
    pub notice: NoticeId,
    /// The recipient.
    pub recipient: FspName,
    /// The message.
    pub message: NoticeKind,
    /// The transfer that it is about.
    pub transfer: Option<TransferId>,
    /// The result.
    pub result: DeliveryResult,
    /// Number of attempts.
    pub attempts: u16,
    /// HTTP status of the last response, 0 without one.
    pub status: u16,
}

/// A change of a window's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowEvent {
    /// The window.
    pub window: WindowId,
    /// The state after the change.
    pub state: WindowState,
}

/// A change of a settlement's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettlementEvent {
    /// The settlement.
    pub settlement: SettlementId,
    /// Name of its model.
    pub model: String,
    /// The state after the change.
    pub state: SettlementState,
}

/// A requested change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeEvent {
    /// The name of the change.
    pub change: &'static str,
    /// The decision.
    pub outcome: Outcome,
    /// The author. Personal data.
    pub actor: String,
    /// The reason. Personal data.
    pub reason: String,
}

/// A request that made no change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminRequestEvent {
    /// The method.
    pub method: String,
    /// Status of the answer.
    pub status: u16,
    /// Error code of the answer, 0 without one.
    pub code: u16,
    /// Number of requests that the event counts.
    pub requests: u32,
    /// The author. Personal data.
    pub actor: String,
    /// The path of the last request. Personal data: it may name a party.
    pub path: String,
}

/// A step in the life of a recorded quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuoteStep {
    /// It was recorded.
    Requested,
    /// It has an offer.
    Answered,
    /// It was answered with an error.
    Failed,
}

/// A step of a recorded quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteEvent {
    /// The quote.
    pub quote: TransferId,
    /// Its transaction.
    pub transaction: TransferId,
    /// The step.
    pub step: QuoteStep,
    /// The FSP that has requested it.
    pub payer: FspName,
    /// The FSP that was asked.
    pub payee: FspName,
    /// The record of the request.
    pub request: LogIndex,
}
